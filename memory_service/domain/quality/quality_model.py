"""How good is a model on a kind of data? Effects fitted on public results, with published scores as prior.

z = w_group * (score - center) / 3 + theta_model + phi_model,group + phi_model,group,subtask; z = 1 is the
distance from the median model to the best one of a data set. `points_per_unit` makes index points of it, so
that a model that nobody measured has its published score. The figures are fitted by `make quality` from
public tables and ship in `seeds/quality.json`; docs/methods/quality.md explains them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_service.domain.common.vocabulary import modality_of

Array = npt.NDArray[np.float64]

SCORE_UNIT = 3.0
"""Points of published score that one unit of a slope stands for."""

_DENSE = ("image-segmentation", "object-detection", "image-to-image", "image-keypoints", "point-cloud")
_EMBEDDINGS = ("text-ranking", "text-pair-similarity")
_SUBTASK_OF = {
    "token-classification": "entities",
    "question-answering": "reading",
    "text-ranking": "ranking",
    "text-pair-similarity": "similarity",
}
_MULTILINGUAL = (
    "multilingual", "xlm", "mdeberta", "mt5", "rembert", "labse", "bge-m3", "mmbert", "eurobert",
    "qwen", "gemma-3", "llama-3", "mistral-nemo", "glm-4",
)  # fmt: skip
"""Parts of names; of decoders those whose makers name the languages they were trained for."""


class Kind(NamedTuple):
    """What data are to a quality model. table: whose figures hold; slope: which prior from scores;
    levels: groups of data sets, the finer last."""

    table: str
    slope: str
    levels: tuple[str, ...]


class Effect(NamedTuple):
    """Mean and standard deviation of a model's quality beyond its prior, in units of z."""

    mean: float
    sd: float


def quality_kind(
    task: str,
    n_classes: int | None = None,
    language: str | None = None,
    subtask: str | None = None,
    *,
    forecasts: bool = False,
    quantiles: bool = False,
) -> Kind:
    """The kind of data of a task. A text without a language is taken for English.

    forecasts   series go on behind what is known of them; quantiles: they are judged as distributions
    """
    modality = modality_of(task)
    if forecasts:
        return Kind("forecasting", "judged", ("quantiles" if quantiles else "point",))
    if modality == "tabular":
        kind = "regression" if task.endswith("regression") else "multiclass" if _many(n_classes) else "binary"
        return Kind("tabular", "all", (kind,))
    if modality == "text":
        slope = "english" if language in (None, "en") else "other"
        group = "embedding" if task in _EMBEDDINGS else slope
        named = subtask if subtask not in (None, "other") else _SUBTASK_OF.get(task)
        return Kind("text", slope, (group, f"{group}/{named}") if named else (group,))
    if modality == "image":
        return Kind("image-dense" if task in _DENSE else "image", "all", ())
    if modality == "time-series":
        return Kind(modality, "judged", (task,))
    return Kind(modality, "all", ())


_OF_QUANTILES = re.compile(r"quantile|pinball|crps|\b(?:sql|wql|mql|wis)\b|interval score", re.IGNORECASE)


def judges_quantiles(metric: str | None) -> bool:
    """Whether forecasts are judged as distributions, by the metric's name."""
    return bool(metric and _OF_QUANTILES.search(metric))


def _many(n_classes: int | None) -> bool:
    return n_classes is not None and n_classes > 2


def is_multilingual(model: str) -> bool:
    """Whether a text model was pretrained on many languages, by its name."""
    return any(word in model.lower() for word in _MULTILINGUAL)


def model_class(model: str, family: str) -> str:
    """What errs alike: boosted trees, forests, networks of one family."""
    if family in ("gbdt", "forest", "linear") or model in ("linear", "minirocket"):
        return family
    return "network"


@dataclass(frozen=True, slots=True)
class ModalityFigures:
    """Fitted figures of one modality; z units but where said otherwise.

    center, points_per_unit   a mean published score, and index points of one unit of z
    slopes       slope name -> weight of SCORE_UNIT points of published score
    multilingual slope name -> what pretraining on many languages adds
    effects      model, or decoder of masks -> group of data sets ("" = all) -> its effect there, finer groups
                 included
    group_sd     how much an effect differs from group to group, by level
    unmeasured_sd   of a model that no table has, beside its prior; unmeasured_mean: what it is expected to be
                 beside it, where models that nobody measures are known to be worse than those that are
    difference_sd   class pair "gbdt|network" or model pair "catboost|lightgbm" -> of the difference of two
                 models on one data set
    known        effects that were asked for, by levels and model
    """

    center: float
    points_per_unit: float
    slopes: Mapping[str, float]
    multilingual: Mapping[str, float]
    effects: Mapping[str, Mapping[str, Effect]]
    group_sd: tuple[float, ...]
    unmeasured_sd: float
    difference_sd: Mapping[str, float]
    n_datasets: int = 0
    unmeasured_mean: float = 0.0
    known: dict[tuple[tuple[str, ...], str], Effect] = field(default_factory=dict, compare=False)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> ModalityFigures:
        effects = {
            model: {group: Effect(*pair) for group, pair in groups.items()}
            for model, groups in row["effects"].items()
        }
        return cls(**{**row, "effects": effects, "group_sd": tuple(row["group_sd"])})


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected quality of models on a kind of data, as arrays over models: index points at a full training
    with one split, and the standard deviation of what is not known of the mean."""

    points: Array
    sd: Array
    measured: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Learned:
    """What runs here say of a model: index points on top of its expectation, the share of the variance of its
    mean that is gone, and of how many competitions they are."""

    points: float
    share: float
    competitions: int


NOTHING_LEARNED = Learned(0.0, 0.0, 0)


@dataclass(frozen=True, slots=True)
class QualityModel:
    """The fitted figures of all modalities; empty: published scores alone. learned: (table, model) -> what
    runs here say of it."""

    figures: Mapping[str, ModalityFigures]
    learned: Mapping[tuple[str, str], Learned] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, rows: Mapping[str, Any]) -> QualityModel:
        return cls({name: ModalityFigures.from_dict(row) for name, row in rows.items()})

    def expected(self, kind: Kind, names: Sequence[str], scores: Array) -> Expectation:
        """Of models by name with their published scores (m,)."""
        shipped = self._shipped(kind, names, scores)
        if not self.learned:
            return shipped
        learned = [self.learned.get((kind.table, name), NOTHING_LEARNED) for name in names]
        points = shipped.points + np.array([each.points for each in learned])
        sd = shipped.sd * np.sqrt(1.0 - np.array([each.share for each in learned]))
        return Expectation(points, sd, shipped.measured)

    def _shipped(self, kind: Kind, names: Sequence[str], scores: Array) -> Expectation:
        figures = self.figures.get(kind.table)
        if figures is None:
            nothing = np.zeros(len(names))
            return Expectation(scores.astype(np.float64), nothing + UNTESTED_SD, nothing > 0)
        slope = figures.slopes.get(kind.slope, figures.slopes.get("all", 0.0))
        prior = slope * (scores - figures.center) / SCORE_UNIT
        more = figures.multilingual.get(kind.slope, 0.0)
        if more:
            prior = prior + more * np.array([is_multilingual(name) for name in names], dtype=np.float64)
        found = np.array([_effect(figures, kind.levels, name) for name in names]).reshape(-1, 2)
        unit = figures.points_per_unit
        measured = np.array([name in figures.effects for name in names], dtype=np.bool_)
        return Expectation(figures.center + unit * (prior + found[:, 0]), unit * found[:, 1], measured)

    def difference_sds(self, table: str, models: Sequence[tuple[str, str]]) -> Array:
        """Standard deviation, in index points, of the difference of each two models on one data set beyond
        their expectation (m, m); of a model with itself, of two trainings of it. Models as (name, family)."""
        figures = self.figures.get(table)
        names = np.array([name for name, _ in models])
        same = names[:, None] == names[None, :]
        if figures is None or not models:
            return np.where(same, SAME_MODEL_SHARE, 1.0) * DIFFERENCE_SD
        unique = list(dict.fromkeys((model_class(*model), model[1]) for model in models))
        at = np.array([unique.index((model_class(*model), model[1])) for model in models], dtype=np.int64)
        sds = np.array([[_class_sd(figures, a, b) for b in unique] for a in unique])[at[:, None], at[None, :]]
        present = set(names.tolist())
        for pair, sd in figures.difference_sd.items():
            first, _, second = pair.partition("|")
            if first in present and second in present:
                a, b = names == first, names == second
                sds[np.ix_(a, b)] = sds[np.ix_(b, a)] = sd * figures.points_per_unit
        return np.asarray(np.where(same, SAME_MODEL_SHARE * DIFFERENCE_SD, sds), dtype=np.float64)

    def difference_sd(self, table: str, first: tuple[str, str], second: tuple[str, str]) -> float:
        """The same of two models."""
        return float(self.difference_sds(table, (first, second))[0, 1])

    def data_set_sd(self, table: str, model: tuple[str, str]) -> float:
        """Standard deviation, in index points, of one model's quality over data sets about its mean: half the
        variance of the difference of two models like it. model: (name, family)."""
        figures, own = self.figures.get(table), (model_class(*model), model[1])
        return (DIFFERENCE_SD if figures is None else _class_sd(figures, own, own)) / 2**0.5

    def interval_sd(self, kind: Kind, model: tuple[str, str], score: float) -> tuple[float, bool]:
        """Standard deviation, in index points, of a model's quality on one data set, and whether public
        results of it went into the expectation. model: (name, family)."""
        expected = self.expected(kind, [model[0]], np.array([score]))
        sd = np.hypot(expected.sd[0], self.data_set_sd(kind.table, model))
        return float(sd), bool(expected.measured[0])


def class_pair(first: tuple[str, str], second: tuple[str, str]) -> str:
    """The key of two models, each (class, family): of their classes, or of two networks of one family, which
    err more alike than two of different ones."""
    classes = sorted((first[0], second[0]))
    if classes == ["network", "network"] and first[1] == second[1]:
        return "family|family"
    return "|".join(classes)


def _class_sd(figures: ModalityFigures, first: tuple[str, str], second: tuple[str, str]) -> float:
    """Index points by which models of two (class, family) differ on one data set."""
    sd = figures.difference_sd.get(class_pair(first, second))
    return DIFFERENCE_SD if sd is None else sd * figures.points_per_unit


UNTESTED_SD, DIFFERENCE_SD = 2.5, 3.5
SAME_MODEL_SHARE = 0.3
"""Index points where no public result tests the order of the catalogue (audio, video, recommendation,
detection): judged, wider than where some do. A second training of the same model differs by a third of what
another model does."""

NO_FIGURES = QualityModel({})


def _effect(figures: ModalityFigures, levels: tuple[str, ...], name: str) -> Effect:
    effect = figures.known.get((levels, name))
    if effect is None:
        effect = figures.known[levels, name] = _effect_at(figures, levels, name)
    return effect


def _effect_at(figures: ModalityFigures, levels: tuple[str, ...], name: str) -> Effect:
    known = figures.effects.get(name)
    spread = [*figures.group_sd[: len(levels)]]
    if known is None:  # a decoder of masks may be known with other encoders
        of_decoder = figures.effects.get(name.partition("/")[0], {}).get("", Effect(0.0, 0.0))
        variance = of_decoder.sd**2 + figures.unmeasured_sd**2 + sum(sd * sd for sd in spread)
        return Effect(figures.unmeasured_mean + of_decoder.mean, float(np.sqrt(variance)))
    for depth in range(len(levels), -1, -1):
        effect = known.get(levels[depth - 1] if depth else "")
        if effect is not None:
            missing = sum(sd * sd for sd in spread[depth:])
            return Effect(effect.mean, float(np.sqrt(effect.sd**2 + missing)))
    return Effect(figures.unmeasured_mean, figures.unmeasured_sd)
