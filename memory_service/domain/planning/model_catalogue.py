"""Models of the catalogue: what each is good for, which one a name means, and which options mean something
for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from typing import Any, Literal

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.unpriced_models import kind_of
from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.cost.boosted_trees import cost_kind, is_boosting
from memory_service.domain.cost.decoders.decoder import decoder_of
from memory_service.domain.planning.model_names import alike, normal_model_name, spellings, squashed, twin
from memory_service.errors import FieldError, InvalidInput, wrong_value

__all__ = ["CatalogueModel", "model_index", "models_for_task", "normal_model_name", "resolve_model"]

_LEAST_SIDE = {"ghostnetv2": 64, "ghostnetv3": 64, "inception_v3": 75}
"""Networks of whose maps nothing is left at 32 pixels; the catalogue's other architectures were run there."""

_FIXED_GRID = re.compile(
    r"swin|maxvit|maxxvit|coatnet|beit|hiera|xcit|mvit|levit|mixer|resmlp|gmlp|halonet|botnet|volo|cait|tnt|twins"
    r"|crossvit|convit|gcvit|focalnet|davit|tiny_vit|efficientformer|(?<![a-z])(?:nest|ast)"
)


_NOT_COMMERCIAL = re.compile(
    r"-nc\b|-nc-|non-?commercial|not be used commercially|limits commercial|research|before commercial",
    re.IGNORECASE,
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
    quality_score      0..100, comparable WITHIN a modality only; the formula stands in docs/methods/models.md
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
    def only_forecasts(self) -> bool:
        """Whether it does nothing but forecast series."""
        return self.family in ("series-foundation", "arima-prophet") or self.library == "neuralforecast"

    @property
    def commercial(self) -> bool:
        """Whether nothing says that a product may not stand on it; weights of unknown licence say so."""
        said = f"{self.licence} {self.licence_note}"
        known = self.licence not in ("", "unknown") or not self.pretrained
        return known and not _NOT_COMMERCIAL.search(said)

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


_TAGGED = ("timm", "smp", "torchvision")
"""Libraries in whose names a point begins the tag of the weights; that of `qwen2.5-7b` does not."""


def model_index(models: Mapping[str, CatalogueModel]) -> dict[str, str]:
    """Normalised name -> catalogue name. A name wins over an alias, an alias over an untagged timm name.

    An untagged timm architecture means its best row whose weights are free to use, else its best row.
    """
    index: dict[str, str] = {normal_model_name(name): name for name in models}
    for name, model in models.items():
        for alias in model.aliases:
            index.setdefault(normal_model_name(alias), name)
    for model in sorted(models.values(), key=lambda m: (bool(m.licence_note), -m.quality_score, m.name)):
        if model.library in _TAGGED:
            index.setdefault(_untagged(normal_model_name(model.name)), model.name)
    return index


def resolve_model(name: str, models: Mapping[str, CatalogueModel]) -> CatalogueModel:
    """The catalogue row a name means; InvalidInput with the nearest names when there is none.

    Understands hub prefixes (`microsoft/deberta-v3-base`), aliases (`bert_large`, retired timm names), timm
    names without a tag, and a tag nobody lists (`resnet50.xyz` is a ResNet-50).
    """
    row, _ = _meant(name, models)
    if row is not None:
        return row
    if (kind := kind_of(normal_model_name(name))) is not None:
        near = (
            f"nearest in kind, but other models: {', '.join(kind.kin)}"
            if kind.kin
            else "none here is like it"
        )
        error = FieldError("model", f"is {kind.what}, which is not priced", name[:80], kind.kin)
        raise InvalidInput(f"{name[:80]!r} is known and not priced: it is {kind.what}; {near}", [error])
    kinds = {row.name: modality_of(row.tasks[0]) for row in models.values()}
    rows = alike(name, model_index(models), kinds)
    nearest = tuple(dict.fromkeys(models[row].architecture for row in rows))
    hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
    detail = f"Unknown model {name[:80]!r}{hint}"
    raise wrong_value("model", "unknown model", name[:80], detail=detail, nearest=nearest)


def taken_for(name: str, models: Mapping[str, CatalogueModel]) -> str:
    """What to say where a name means another row's network; nothing where it is a spelling of a row."""
    row, is_twin = _meant(name, models)
    return f"{name!r} is priced as {row.name}: the same network, other weights." if row and is_twin else ""


def _meant(name: str, models: Mapping[str, CatalogueModel]) -> tuple[CatalogueModel | None, bool]:
    """The row, and whether it is a twin: of the same network, under another name."""
    index = {name: name} if name in models else model_index(models)
    plain = normal_model_name(name)
    untagged = models.get(index.get(_untagged(plain), ""))
    if (slug := index.get(name) or index.get(plain)) is not None:
        return models[slug], False
    if untagged is not None and untagged.library in _TAGGED:
        return untagged, False
    plainest = {squashed(key): slug for key, slug in reversed(index.items())}
    if (found := next((plainest[each] for each in spellings(name) if each in plainest), None)) is not None:
        return models[found], False
    kind = kind_of(plain)  # of a kind that is hardly priced only rows of the same kind can be meant
    networks = (
        row for row in models.values() if row.library in ("timm", "transformers") and "/" not in row.name
    )
    is_text = {
        row.name: row.input_kind == "seq_len" or "methods" in row.config
        for row in networks
        if kind is None or kind_of(normal_model_name(row.name)) is kind
    }
    found = twin(name, index, is_text)
    return (models[found], True) if found else (None, False)


def models_for_task(task: str, models: Iterable[CatalogueModel]) -> list[CatalogueModel]:
    """The rows that serve a task, best quality score first, then by name."""
    serving = (model for model in models if task in model.tasks)
    return sorted(serving, key=lambda model: (-model.quality_score, model.name))


SPEAKER_SCORE, POINTS_OF_EER = 90.0, 5.0
"""Of networks that tell speakers apart: 90 less five points for each percent of equal error rate on
VoxCeleb1-O, tuned (`vox1_o_eer`)."""


def of_speech(models: Iterable[CatalogueModel], kind: str | None) -> list[CatalogueModel]:
    """The models for a kind of speech task: of phones those with an answer each 20 ms, for phones are shorter
    than the frames of others; of speakers those with a published error there, which gives their score."""
    if kind == "phonemes":
        return [model for model in models if model.config.get("head") == "ctc" and model.family == "wav2vec2"]
    if kind not in ("speaker-verification", "speaker-identification", "diarization"):
        return [*models]
    known = ((model, model.quality["vox1_o_eer"]) for model in models if "vox1_o_eer" in model.quality)
    return [replace(model, quality_score=SPEAKER_SCORE - POINTS_OF_EER * eer) for model, eer in known]


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
    """Whether a model accepts an input size: multiples of `side_step` for convolutions, whole patches for
    vision transformers, profiled sizes only for fixed grids, up to the model's longest usual sequence for
    text."""
    if size in profiled:
        return True
    if model.input_kind == "seq_len":
        return size <= max((*profiled, *model.input_sizes, model.default_input_size))
    if model.input_kind == "n_features":
        return True
    step = side_step(model.library, model.name, model.config)
    least = next((side for name, side in _LEAST_SIDE.items() if model.name.startswith(name)), 32)
    if size < least or size % step or (_FIXED_GRID.search(model.name) and "traced_with" not in model.config):
        return False
    patch = re.search(r"patch(\d+)", model.name)
    return size % int(patch.group(1)) == 0 if patch else size % 32 == 0 or "vit" not in model.family


def shape_of(model: CatalogueModel, side: int, ratio: float) -> tuple[int, int] | None:
    """(height, width) of a strip of no more pixels than a square of this side; None: it stays a square."""
    patch = re.search(r"patch(\d+)", model.name)
    step = int(patch[1]) if patch else 32
    short = max(step, round(side / sqrt(ratio) / step) * step)
    long = side * side // short // step * step
    square = long <= short or model.library != "timm" or _FIXED_GRID.search(model.name)
    return None if square else (long, short)


def side_step(library: str, name: str, config: Mapping[str, Any]) -> int:
    """What the side of a picture must be a multiple of: where decoders join maps that were halved, as often
    as they were. Of segmentation_models_pytorch's, only the U-Net fits one map to the other (101 px: 101)."""
    if "side_step" in config:
        return max(1, int(config["side_step"]))
    if library == "smp":
        return 1 if name.startswith("unet/") and not _FIXED_GRID.search(name) else 32
    return 2 ** (len(config["widths"]) - 1) if config.get("widths") else 1


def check_side(library: str, name: str, config: Mapping[str, Any], size: int) -> None:
    """InvalidInput, with a size that fits, where the side is no multiple of `side_step`."""
    step = side_step(library, name, config)
    if size % step:
        near = (str(size // step * step or step),)
        error = FieldError("image_size", f"not a multiple of {step}", size, near)
        raise InvalidInput(f"{name} takes pictures whose side is a multiple of {step}, got {size}", [error])


_OPTIONS = shipped_table(__package__, "options.toml")
_HOLDS_FOR: Mapping[str, list[str]] = _OPTIONS["holds_for"]
"""Option -> the kinds of model that it means something for."""


_ANSWERS = {"image-segmentation": "pixels", "image-to-image": "pixels", "object-detection": "boxes"}
"""Tasks of pictures that want more than one answer a picture."""


def can_answer(model: CatalogueModel, task: str) -> bool:
    """Whether the model serves the task, or another of the same kind of input and answer; what only
    forecasts has no other."""
    if task in model.tasks or model.only_forecasts:
        return task in model.tasks
    return (modality_of(task), _ANSWERS.get(task)) in {(modality_of(t), _ANSWERS.get(t)) for t in model.tasks}


def kind_of_model(model: CatalogueModel | None) -> str:
    """`decoder`, `network` or `estimator` (boosted trees, linear models: what the processor fits); a model
    that is not listed is a network."""
    if model is None:
        return "network"
    if decoder_of(model.config) is not None:
        return "decoder"
    return "network" if model.can_be_profiled else "estimator"


def without_idle(given: Mapping[str, Any], model: CatalogueModel | None) -> dict[str, Any]:
    """What of the given means something for the model, for who asks of many models at once."""
    kind = kind_of_model(model)
    return {option: value for option, value in given.items() if kind in _HOLDS_FOR.get(option, {kind})}


def check_options(given: Mapping[str, Any], model: CatalogueModel | None, name: str) -> None:
    """InvalidInput for the first of the given options (None = not given) that means nothing for the model."""
    kind, nothing, said = kind_of_model(model), _OPTIONS["asks_nothing"], _OPTIONS["none_of_them"]
    for option, value in given.items():
        if value is None or kind in _HOLDS_FOR.get(option, {kind}) or value == nothing.get(option):
            continue
        raise wrong_value(option, said[_HOLDS_FOR[option][-1]].format(name), value)
    for size in ("image_size", "seq_len"):
        if model is not None and given.get(size) is not None and size != model.input_kind:
            raise wrong_value(size, f"does not apply: {name} takes {model.input_kind}", given[size])
    if given.get("lora_rank") is not None and given.get("method") == "full":
        why = "applies to method=lora and method=qlora, not to full"
        raise wrong_value("lora_rank", why, given["lora_rank"])
    if kind == "decoder" and given.get("weights") == "none":
        why = f"none leaves out {name}: a decoder is tuned from pretrained ones"
        raise wrong_value("weights", why, "none")


def check_options_of_task(given: Mapping[str, Any], task: str, serving: Iterable[CatalogueModel]) -> None:
    """The same where the planner chooses the model: an option must mean something for a model that serves the
    task. InvalidInput otherwise."""
    asked = (
        name
        for name in ("method", "lora_rank", "sharding", "trainer")
        if given.get(name) not in (None, "none")
    )
    if (option := next(asked, None)) is not None:
        if not any(kind_of_model(row) == "decoder" for row in serving):
            message = f"applies to decoders (language models) only: none serves {task}"
            raise wrong_value(option, message, given[option])
        if given.get("weights") == "none":
            message = "tunes pretrained decoders, and weights=none leaves them out"
            raise wrong_value(option, message, given[option])
    if given.get("lora_rank") is not None and given.get("method") in (None, "full"):
        message = "applies to method=lora and method=qlora: say which"
        raise wrong_value("lora_rank", message, given["lora_rank"])
