"""Options of a plan: a model of the catalogue at one input size, alone and as columns of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from memory_service.domain.common.vocabulary import SIZE_TYPICAL_N_TRAIN
from memory_service.domain.cost.multi_gpu import exchanged_params
from memory_service.domain.cost.profile import Profile, is_of_cubes
from memory_service.domain.planning.hyperparameters import BATCH_OF_NORM, TrainingDefaults, training_defaults
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.quality.quality_index import Learning, learning_of, quality_index, too_large
from memory_service.domain.quality.quality_model import Kind, QualityModel
from memory_service.domain.quality.ranking import Candidate
from memory_service.domain.recipe.vocabulary import families_of

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


PATCHES, PATCH = 64, 128
"""Cubes of so many voxels that a scan of 512 x 512 x 100 is cut into, half overlapping; judged as usual."""


@dataclass(frozen=True, slots=True)
class Option:
    """One model at one input size, as the planner may choose it for a task.

    profile        cost of a sample in mixed precision or fp32, by precision class; empty for boosted trees
    checkpointed   the same with gradient checkpointing
    method, lora_rank   of a decoder
    sharded        its weights lie spread over several cards (FSDP)
    texts_per_row  of packed texts, else 1.0
    """

    task: str
    model: CatalogueModel
    input_size: int
    profile: dict[str, Profile]
    checkpointed: dict[str, Profile]
    defaults: TrainingDefaults
    learning: Learning
    method: str | None = None
    lora_rank: int | None = None
    sharded: bool = False
    texts_per_row: float = 1.0

    @property
    def is_trees(self) -> bool:
        return not self.profile

    @property
    def patches(self) -> float:
        """Cubes that a volume is predicted in, half over each other; 1 of what is read as a whole."""
        whole = not any(map(is_of_cubes, self.profile.values()))
        return 1.0 if whole else max(1.0, PATCHES * (PATCH / self.input_size) ** 3)

    @property
    def size_ratio(self) -> float:
        return _size_ratio(self.model, self.input_size)


def _size_ratio(model: CatalogueModel, input_size: int) -> float:
    sized = model.input_kind != "n_features" and model.default_input_size
    return input_size / model.default_input_size if sized else 1.0


FULLY_TRAINED = 10_000
"""Epochs of a model of which nobody says how long it is trained."""


def candidate_of(
    quality: QualityModel,
    kind: Kind,
    task: str,
    model: CatalogueModel,
    n_train: int | None,
    epochs: int | None,
    folds: int | None,
    input_size: int | None,
) -> Candidate:
    """A model trained like this on this kind of data. Without n_train as many as are usual, without epochs as
    many as pay, without folds one split, without an input size the model's own."""
    n_train = n_train or SIZE_TYPICAL_N_TRAIN["medium"]
    expected = quality.expected(kind, [model.name], np.array([model.quality_score]))
    points = float(expected.points[0])
    if kind.table == "image":
        points -= float(too_large(model.params_m, n_train))
    ratio = _size_ratio(model, input_size) if input_size else 1.0
    learning = learning_of(task, model.pretrained, not model.can_be_profiled, model.family)
    index = quality_index(points, ratio, epochs or FULLY_TRAINED, folds or 1, learning, float(n_train))
    return Candidate(model.name, model.family, float(index), float(expected.sd[0]))


class OptionNames(tuple[tuple[Any, ...], ...]):
    """What names options, as a part of keys that are looked up for every plan: hashed once."""

    _hash: int | None = None

    @classmethod
    def of(cls, options: Iterable[Option], *more: Any) -> OptionNames:
        """more: what else they are named by, all of them alike."""
        return cls(
            (o.model.name, o.input_size, o.defaults.optimizer, o.method, o.lora_rank, *more) for o in options
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash


def make_option(
    task: str,
    model: CatalogueModel,
    input_size: int,
    profile: dict[str, Profile],
    checkpointed: dict[str, Profile] | None = None,
) -> Option:
    """The option with the training defaults and learning curve its task and family imply."""
    trees = not profile
    how = next((p.extra for p in profile.values() if "method" in p.extra), {})
    method = how.get("method")
    return Option(
        task,
        model,
        input_size,
        profile,
        checkpointed or {},
        training_defaults(task, model.family, pretrained=model.pretrained, trees=trees, method=method),
        learning_of(task, model.pretrained, trees, model.family, decoder=method is not None),
        method,
        how.get("lora_rank"),
        bool(how.get("sharded")),
    )


@dataclass(frozen=True, slots=True)
class Columns:
    """What the search reads of every option, as arrays [option], those of `learning` too.

    exchanged_params, bucket_params   whose gradients several cards exchange in a step; of which each card
                     holds a copy for that
    texts_per_row    of packed texts: a sample of profiles and batches is a row
    input_kind       of which a size is chosen; "" of what reads all there is
    pictures         seen by a network that is trained in batches of them, no tuned language model
    family           a place in `families`, names of `domain.recipe.vocabulary`
    first, place     the first option of each name, by name; of each option's name among them
    family_of        of each name, as the catalogue says it
    """

    names: npt.NDArray[np.str_]
    score: Array
    params_m: Array
    size_ratio: Array
    input_size: Integers
    pretrained: Array
    pictures: Flags
    n_outputs: Integers
    least_batch: Integers
    batch_norm: Flags
    boosted: Flags
    wanted_batch: Integers
    learning: Learning
    input_kind: npt.NDArray[np.str_]
    exchanged_params: Array
    bucket_params: Array
    texts_per_row: Array
    family: Integers
    families: tuple[tuple[str, ...], ...]
    first: Integers
    place: Integers
    family_of: Mapping[str, str]


_OTHER_NORM = re.compile(r"nfnet|nf_|_gn|resnetv2_\d+x\d")
"""Convolutional networks without batch normalisation: normaliser-free ones, and those of groups."""


_SEQUENCE_FAMILIES = ("rnn", "series-transformer", "ft-transformer", "mlp", "tabm", "two-tower")


def has_batch_norm(option: Option) -> bool:
    """Whether its layers are normalised over the batch: not those of transformers, nor recurrent ones."""
    model = option.model
    other = model.library == "transformers" or model.family in _SEQUENCE_FAMILIES
    return option.defaults.least_batch >= BATCH_OF_NORM and not (other or _OTHER_NORM.search(model.name))


def columns_of(options: Sequence[Option]) -> Columns:
    """The options' constants, made once per task."""
    of_option = [families_of(o.model.name, o.model.family) for o in options]
    families = tuple(dict.fromkeys(of_option))

    def numbers(values: Iterable[float]) -> Array:
        return np.array(list(values), dtype=np.float64)

    def integers(values: Iterable[int]) -> Integers:
        return np.array(list(values), dtype=np.int64)

    names = np.array([o.model.name for o in options], dtype=np.str_)
    _, first, place = np.unique(names, return_index=True, return_inverse=True)
    return Columns(
        names=names,
        score=numbers(o.model.quality_score for o in options),
        params_m=numbers(o.model.params_m for o in options),
        size_ratio=numbers(o.size_ratio for o in options),
        input_size=integers(o.input_size for o in options),
        pretrained=numbers(float(o.model.pretrained) for o in options),
        pictures=np.array(
            [o.model.input_kind == "image_size" and o.method is None for o in options], dtype=np.bool_
        ),
        n_outputs=integers(max((p.n_outputs for p in o.profile.values()), default=1000) for o in options),
        least_batch=integers(o.defaults.least_batch for o in options),
        batch_norm=np.array(
            [o.model.input_kind == "image_size" and has_batch_norm(o) for o in options], dtype=np.bool_
        ),
        boosted=np.array([o.model.is_trees for o in options], dtype=np.bool_),
        wanted_batch=integers(o.defaults.wanted_batch for o in options),
        learning=Learning(*(numbers(getattr(o.learning, f.name) for o in options) for f in fields(Learning))),
        input_kind=np.array([o.model.input_kind if o.profile else "" for o in options], dtype=np.str_),
        exchanged_params=numbers(max(map(exchanged_params, o.profile.values()), default=0) for o in options),
        bucket_params=numbers(
            0 if o.sharded else max((p.params for p in o.profile.values()), default=0) for o in options
        ),
        texts_per_row=numbers(o.texts_per_row for o in options),
        family=integers(families.index(names) for names in of_option),
        families=families,
        first=first,
        place=place,
        family_of={o.model.name: o.model.family for o in options},
    )
