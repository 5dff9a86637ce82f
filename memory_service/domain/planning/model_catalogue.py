"""Models of the catalogue: what each is good for, and which one a name means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from memory_service.domain.cost.boosted_trees import cost_kind, is_boosting
from memory_service.errors import unknown_name

_HUB_OWNERS = (
    "timm/", "hf-hub:timm/", "microsoft/", "google-bert/", "google/", "facebookai/", "facebook/",
    "answerdotai/", "distilbert/", "sentence-transformers/", "openai-community/",
)  # fmt: skip

_FIXED_GRID = re.compile(
    r"swin|maxvit|maxxvit|coatnet|beit|hiera|xcit|mvit|levit|mixer|resmlp|gmlp|halonet|botnet|volo|cait|tnt|twins|nest"
    r"|crossvit|convit|gcvit|focalnet|davit|tiny_vit|efficientformer|ast"
)


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """One row of the model catalogue.

    tasks              vocabulary tasks the model serves, the most natural first
    family             kernels in common ("efficientnet", "bert", "gbdt", ...)
    params_m           millions of parameters; 0 where it does not apply (boosted trees)
    input_sizes        usual sizes, ascending, in pixels a side, tokens/steps or columns
    pretrained         whether public weights exist to start from
    licence            SPDX name or the maker's own; licence_note says when it matters
    quality            published figures by name, e.g. {"imagenet_top1": 84.9}
    quality_score      0..100, comparable WITHIN a modality only; the formula stands in docs/models.md
    config             figures from which `measure.build_model` makes the module; {"cost": ...} for other laws
    device             where it is meant to run: "gpu", "cpu" or "both"
    """

    name: str
    library: str
    tasks: tuple[str, ...]
    family: str
    params_m: float
    input_kind: Literal["image_size", "seq_len", "n_features"]
    input_sizes: tuple[int, ...]
    default_input_size: int
    pretrained: bool
    quality_score: float
    licence: str = ""
    licence_note: str = ""
    good_for: str = ""
    quality: Mapping[str, float] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    device: Literal["gpu", "cpu", "both"] = "gpu"
    source: str = ""
    grade: str = "claimed"

    @property
    def can_be_profiled(self) -> bool:
        """Whether `measure.build_model` can make a module of it; boosted trees follow another law."""
        return "cost" not in self.config

    @property
    def architecture(self) -> str:
        """The name without timm's tag of the weights: what decides the cost."""
        return architecture_of(self.name, self.library)

    @property
    def is_trees(self) -> bool:
        """Whether it is boosted trees, priced by the cost law of the processor."""
        return self.family == "gbdt" or self.library in ("lightgbm", "xgboost", "catboost")

    @property
    def is_estimator(self) -> bool:
        """Whether the processor fits it once by a cost law of its own: linear models, kernels, neighbours."""
        kind = cost_kind(self.name, self.library, self.family)
        return not self.can_be_profiled and kind is not None and not is_boosting(kind)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> CatalogueModel:
        """A model from a row of `seeds/models.jsonl` or of the store; other columns are left."""
        fields = {key: row[key] for key in cls.__slots__ if key in row and row[key] is not None}
        for key in ("tasks", "input_sizes", "aliases"):
            fields[key] = tuple(fields.get(key, ()))
        for key in ("quality", "config"):
            fields[key] = dict(fields.get(key, {}))
        return cls(**fields)


def normal_model_name(name: str) -> str:
    """Lower case, `_` for `-` and spaces, without a known hub owner: what spellings of one model share."""
    text = name.strip().lower()
    for owner in _HUB_OWNERS:
        text = text.removeprefix(owner)
    return text.replace("-", "_").replace(" ", "_")


def model_index(models: Mapping[str, CatalogueModel]) -> dict[str, str]:
    """Normalised name -> catalogue name. A name wins over an alias, an alias over an untagged timm name.

    An untagged timm architecture means its best row whose weights are free to use, else its best row.
    """
    index: dict[str, str] = {normal_model_name(name): name for name in models}
    for name, model in models.items():
        for alias in model.aliases:
            index.setdefault(normal_model_name(alias), name)
    by_quality = sorted(
        models.values(), key=lambda model: (bool(model.licence_note), -model.quality_score, model.name)
    )
    for model in by_quality:
        index.setdefault(_untagged(normal_model_name(model.name)), model.name)
    return index


def resolve_model(name: str, models: Mapping[str, CatalogueModel]) -> CatalogueModel:
    """The catalogue row a name means; InvalidInput with the nearest names when there is none.

    Understands hub prefixes (`microsoft/deberta-v3-base`), aliases (`bert_large`, retired timm names), timm
    names without a tag, and a tag nobody lists (`resnet50.xyz` is a ResNet-50).
    """
    if name in models:
        return models[name]
    index = model_index(models)
    plain = normal_model_name(name)
    for candidate in (plain, _untagged(plain)):
        if candidate in index:
            return models[index[candidate]]
    plain_names = (_untagged(known) for known in models)
    aliases = (alias for model in models.values() for alias in model.aliases)
    raise unknown_name("model", name, list(dict.fromkeys([*plain_names, *models, *aliases])))


def models_for_task(task: str, models: Iterable[CatalogueModel]) -> list[CatalogueModel]:
    """The rows that serve a task, best quality score first, then by name."""
    serving = (model for model in models if task in model.tasks)
    return sorted(serving, key=lambda model: (-model.quality_score, model.name))


def _untagged(name: str) -> str:
    head, _, tail = name.rpartition("/")
    return f"{head}/{tail.split('.', 1)[0]}" if head else tail.split(".", 1)[0]


def architecture_of(name: str, library: str) -> str:
    """The name without timm's tag of the weights: what decides the cost."""
    return name.split(".", 1)[0] if library == "timm" else name


def untrained(models: Iterable[CatalogueModel]) -> list[CatalogueModel]:
    """Each architecture once, of random weights: what it was pretrained on is no merit then."""
    best: dict[str, CatalogueModel] = {}
    for model in models:
        name = model.architecture
        known = best.get(name)
        if known is None or model.quality_score < known.quality_score:
            best[name] = replace(model, pretrained=False)
    return list(best.values())


def can_take(model: CatalogueModel, size: int, profiled: Sequence[int]) -> bool:
    """Whether a model accepts an input size: any for convolutions, whole patches for vision transformers,
    profiled sizes only for fixed grids, up to the model's longest usual sequence for text."""
    if size in profiled:
        return True
    if model.input_kind == "seq_len":
        return size <= max(*profiled, *model.input_sizes)
    if model.input_kind == "n_features":
        return True
    if size < 32 or _FIXED_GRID.search(model.name):
        return False
    patch = re.search(r"patch(\d+)", model.name)
    return size % int(patch.group(1)) == 0 if patch else size % 32 == 0 or "vit" not in model.family
