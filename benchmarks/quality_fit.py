"""Fits the figures of `domain.quality.quality_model` on public results: Bayesian linear regression.

Within a data set only differences of models count, so every table is centred. Effects have normal priors
around what published scores say; a data set counts once however many tables use it. Models of one class err
together on a data set, so that three kinds of boosted trees are not three witnesses. Leaving a data set out
is exact: its share of the normal equations is taken away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_evidence import Evidence, Table
from memory_service.domain.quality.quality_model import (
    SCORE_UNIT,
    class_pair,
    is_multilingual,
    model_class,
)

Array = NDArray[np.float64]

NOISE_SD = 0.65
MODEL_SD = 0.3
GROUP_SD = (0.3, 0.3)
"""Units of z: noise of a result, of a model beside its score, of a model from group to group. Between 0.2 and
0.6 they change no regret by a point (docs/methods/quality.md)."""

CLASS_SD = {"tabular": 0.5}
"""Of what a class of models (boosted trees, forests, networks) has in common on one data set: with it one
half of the data sets predicts the other better, from 0.4 to 1 alike. Elsewhere one class is measured, or
(series) the halves say nothing."""

DECODER_SD, MODEL_OF_DECODER_SD = 0.3, 0.15
"""Of a decoder of masks, and of a decoder and an encoder beside both."""

SLOPES = {"all": (0.3, 0.3), "judged": (0.0, 0.1), "english": (0.5, 0.5), "other": (0.1, 0.1)}
MULTILINGUAL = {"other": (2.5, 0.5)}
"""Mean and sd of the priors, per SCORE_UNIT points of published score and for many languages. A score of
English says little of other languages; an encoder that has seen English alone is known to be poor there."""

LOG_ERROR_PER_POINT = {"tabular": 0.024, "time-series": 0.04, "forecasting": 0.04, "image-dense": 0.04}
"""Index points where a published score is none: shares of the error (../shared/research/quality.md, 3)."""

TRAINED_FORECASTERS = ("series-transformer", "rnn", "mlp")
"""Families of networks that learn the series they forecast: what nobody measured is taken for one of them,
for most of the measured forecasters are pretrained."""

PAIR_DATASETS, CLASS_DATASETS = 20, 10
SHRINK = 20
"""Data sets that a pair of models needs for a figure of its own, a pair of classes for one, and how many the
class counts for beside the pair's own."""


@dataclass(frozen=True)
class Design:
    """What the parameters are: first the slopes, then (model, group) effects."""

    slopes: tuple[str, ...]
    multilingual: tuple[str, ...]
    effects: Mapping[tuple[str, str], int]
    precision: Array
    mean: Array
    center: float
    scores: Mapping[str, float]

    def row(self, model: str, table: Table) -> Array:
        out = np.zeros(len(self.precision))
        kind = table.kind
        score = self.scores.get(model, self.center)
        out[self.slopes.index(kind.slope)] = (score - self.center) / SCORE_UNIT
        if kind.slope in self.multilingual and is_multilingual(model):
            out[len(self.slopes) + self.multilingual.index(kind.slope)] = 1.0
        for key in _effects_of(model, kind.levels):
            if key in self.effects:
                out[self.effects[key]] = 1.0
        return out


def _effects_of(model: str, levels: Sequence[str]) -> dict[tuple[str, str], float]:
    """(model or decoder, group) -> standard deviation, of all effects that add up for a model."""
    decoder, slash, _ = model.partition("/")
    if slash:
        return {(decoder, ""): DECODER_SD, (model, ""): MODEL_OF_DECODER_SD}
    return {(model, g): sd for g, sd in zip(("", *levels), (MODEL_SD, *GROUP_SD), strict=False)}


def design_of(evidence: Evidence) -> Design:
    slopes = tuple(sorted({table.kind.slope for table in evidence.tables}))
    multilingual = tuple(name for name in slopes if name in MULTILINGUAL)
    sds = [SLOPES[name] for name in slopes] + [MULTILINGUAL[name] for name in multilingual]
    effects: dict[tuple[str, str], int] = {}
    spread: list[float] = []
    for table in evidence.tables:
        for model in table.values:
            for key, sd in _effects_of(model, table.kind.levels).items():
                if key not in effects:
                    effects[key] = len(sds) + len(effects)
                    spread.append(sd)
    mean = np.array([pair[0] for pair in sds] + [0.0] * len(spread))
    precision = 1.0 / np.array([pair[1] for pair in sds] + spread) ** 2
    known = [evidence.scores[m] for t in evidence.tables for m in t.values if m in evidence.scores]
    center = round(float(np.mean(known)), 2) if known else 80.0
    return Design(slopes, multilingual, effects, precision, mean, center, evidence.scores)


class Fit:
    """The posterior of a kind of data, whole and with a data set left out."""

    def __init__(self, evidence: Evidence, families: Mapping[str, str]) -> None:
        self.evidence, self.design = evidence, design_of(evidence)
        size = len(self.design.precision)
        self._matrix = np.diag(self.design.precision)
        self._vector = self.design.precision * self.design.mean
        self._parts: dict[str, tuple[Array, Array]] = {}
        for table, weight in zip(evidence.tables, evidence.weights, strict=True):
            x = np.array([self.design.row(model, table) for model in table.values])
            z = -np.array(list(table.regret.values()))
            scale = weight * _precision(table, families)
            matrix, vector = self._parts.get(table.dataset, (np.zeros((size, size)), np.zeros(size)))
            self._parts[table.dataset] = matrix + x.T @ scale @ x, vector + x.T @ scale @ z
        for matrix, vector in self._parts.values():
            self._matrix += matrix
            self._vector += vector

    def parameters(self, without: Iterable[str] = ()) -> Array:
        """Means of the parameters; data sets may be left out."""
        matrix, vector = self._matrix.copy(), self._vector.copy()
        for dataset in without:
            matrix -= self._parts[dataset][0]
            vector -= self._parts[dataset][1]
        return np.asarray(np.linalg.solve(matrix, vector), dtype=np.float64)

    def covariance(self) -> Array:
        return np.asarray(np.linalg.inv(self._matrix), dtype=np.float64)

    def expected(self, table: Table, parameters: Array) -> dict[str, float]:
        return {model: float(self.design.row(model, table) @ parameters) for model in table.values}

    def left_out(self) -> list[dict[str, float]]:
        """z of each table's models, from all other data sets."""
        kept = {dataset: self.parameters([dataset]) for dataset in self._parts}
        return [self.expected(table, kept[table.dataset]) for table in self.evidence.tables]

    def half_left_out(self, seed: int) -> list[dict[str, float]]:
        """The same, each from a random half of the data sets that it is not in."""
        shuffled = np.random.default_rng(seed).permutation(sorted(self._parts))
        kept: dict[str, Array] = {}
        for half in (shuffled[::2], shuffled[1::2]):
            kept.update(dict.fromkeys(half, self.parameters(half)))
        return [self.expected(table, kept[table.dataset]) for table in self.evidence.tables]


def _precision(table: Table, families: Mapping[str, str]) -> Array:
    """Inverse covariance of a table's results (m, m) about their mean, which is not known."""
    classes = np.array([model_class(name, families.get(name, name)) for name in table.values])
    shared = CLASS_SD.get(table.kind.table, 0.0) ** 2 * (classes[:, None] == classes[None, :])
    inverse = np.linalg.inv(NOISE_SD**2 * np.eye(len(classes)) + shared)
    row = inverse.sum(axis=0)
    return np.asarray(inverse - np.outer(row, row) / row.sum(), dtype=np.float64)


def difference_sds(
    fit: Fit, left_out: Sequence[Mapping[str, float]], families: Mapping[str, str]
) -> dict[str, float]:
    """Standard deviation of differences beyond expectation, by class pair and by well-measured pair; data
    sets count once."""
    squares: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for table, expected in zip(fit.evidence.tables, left_out, strict=True):
        for a, b in combinations(sorted(table.regret), 2):
            error = (table.regret[b] - table.regret[a]) - (expected[a] - expected[b])
            squares[a, b][table.dataset].append(error**2)
    classes: dict[str, list[float]] = defaultdict(list)
    pairs: dict[tuple[str, str], list[float]] = {}
    for (a, b), by_dataset in squares.items():
        pairs[a, b] = [float(np.mean(each)) for each in by_dataset.values()]
        classes[classes_of(a, b, families)] += pairs[a, b]
    mean = {name: float(np.mean(found)) for name, found in classes.items() if len(found) >= CLASS_DATASETS}
    out = {name: round(value**0.5, 3) for name, value in sorted(mean.items())}
    for (a, b), found in sorted(pairs.items()):
        name = classes_of(a, b, families)
        if len(found) >= PAIR_DATASETS and name in mean:
            shrunk = (sum(found) + SHRINK * mean[name]) / (len(found) + SHRINK)
            out[f"{a}|{b}"] = round(shrunk**0.5, 3)
    return out


def classes_of(a: str, b: str, families: Mapping[str, str]) -> str:
    """The key of two models' classes; a model that no catalogue has is a family of its own."""
    first, second = (
        (model_class(name, families.get(name, name)), families.get(name, name)) for name in (a, b)
    )
    return class_pair(first, second)


def figures_of(fit: Fit, name: str, families: Mapping[str, str]) -> dict[str, Any]:
    """The row of `seeds/quality.json` for one kind of data."""
    design, parameters, covariance = fit.design, fit.parameters(), fit.covariance()
    effects: dict[str, dict[str, list[float]]] = defaultdict(dict)
    paths = {(), *(t.kind.levels[:depth] for t in fit.evidence.tables for depth in (1, 2))}
    decoders = {model.partition("/")[0] for model, _ in design.effects if "/" in model}
    for model in sorted({model for model, _ in design.effects if model in families or model in decoders}):
        for path in sorted(paths):
            keys = _effects_of(model, path)
            if all(key in design.effects for key in keys):
                x = np.zeros(len(parameters))
                x[[design.effects[key] for key in keys]] = 1.0
                mean, sd = float(x @ parameters), float(np.sqrt(x @ covariance @ x))
                effects[model][path[-1] if path else ""] = [round(mean, 3), round(sd, 3)]
    trained = [
        pair[0]
        for model, groups in effects.items()
        for group, pair in groups.items()
        if group and families.get(model) in TRAINED_FORECASTERS
    ]
    unmeasured = {"unmeasured_mean": round(float(np.mean(trained)), 3)} if name == "forecasting" else {}
    slopes = {slope: round(float(parameters[i]), 4) for i, slope in enumerate(design.slopes)}
    more = {g: round(float(parameters[len(slopes) + i]), 4) for i, g in enumerate(design.multilingual)}
    return {
        "center": design.center,
        "points_per_unit": _points_per_unit(fit.evidence, name, slopes),
        "slopes": slopes,
        "multilingual": more,
        "effects": dict(effects),
        "group_sd": list(GROUP_SD),
        "unmeasured_sd": MODEL_SD,
        **unmeasured,
        "difference_sd": difference_sds(fit, fit.left_out(), families),
        "n_datasets": len({table.dataset for table in fit.evidence.tables}),
    }


def _points_per_unit(evidence: Evidence, name: str, slopes: Mapping[str, float]) -> float:
    """Where published scores say something, so that a point of the index is one of the score; else from the
    share of the error that lies between the median model and the best."""
    if name not in LOG_ERROR_PER_POINT:
        return round(SCORE_UNIT / slopes.get("english", slopes.get("all", 0.5)), 3)
    gaps: dict[str, list[float]] = defaultdict(list)
    for table in evidence.tables:
        if table.log_gap is not None:
            gaps[table.dataset].append(table.log_gap)
    median = float(np.median([np.mean(found) for found in gaps.values()]))
    return round(median / LOG_ERROR_PER_POINT[name], 3)
