"""How good are the quality model's choices on data sets that were left out of its fit?

Regret is (best - chosen) / (best - median of the candidates) in %, at most 300: 0 is the best model of a
table, 100 as good as the median one. Intervals are 5 to 95 % by bootstrap over data sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np

from benchmarks.quality_evidence import Table
from benchmarks.quality_fit import Fit, classes_of
from memory_service.domain.common.estimate import SD_OF_P90
from memory_service.domain.quality.ranking import expected_best, probability_better

Chosen = Callable[[Table, Mapping[str, float]], str]
HALVES = 20
BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass
class Regrets:
    """Regret in % by way of choosing and data set."""

    found: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    by_model: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, way: str, dataset: str, regret: float) -> None:
        self.found[way][dataset].append(100.0 * regret)

    def mean(self, way: str) -> float:
        return float(np.mean([value for each in self.found[way].values() for value in each]))

    def interval(self, way: str) -> tuple[float, float]:
        groups = list(self.found[way].values())
        sums, counts = np.array([sum(g) for g in groups]), np.array([len(g) for g in groups])
        draws = np.random.default_rng(0).integers(0, len(groups), (2_000, len(groups)))
        means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
        low, high = np.percentile(means, [5, 95])
        return float(low), float(high)

    @property
    def hindsight(self) -> float:
        """Of the best choice of one model for all tables, of those that most tables have: what no model that
        knows the kind of data alone can be better than by more than luck."""
        most = max(len(found) for found in self.by_model.values())
        return min(float(np.mean(found)) for found in self.by_model.values() if len(found) >= 0.8 * most)

    @property
    def datasets(self) -> int:
        return len(next(iter(self.found.values())))


def group_of(table: Table) -> str:
    """The line of the report that a table belongs to."""
    name = table.protocol
    if name.startswith(("EuroEval", "ScandEval")):
        return "EuroEval, other languages" if table.kind.slope == "other" else "EuroEval, English"
    if "embeddings" in name:
        return f"MTEB, {table.kind.levels[-1].split('/')[1]} (frozen)"
    if table.kind.table == "forecasting":
        return f"{name}, {table.kind.levels[-1]}"
    if table.kind.table == "time-series":
        return "UCR classification" if table.task.endswith("classification") else "TSER regression"
    if table.kind.table == "image-dense":
        return "geo-bench segmentation"
    if table.kind.table == "image":
        return "image transfer sets"
    names = {"TALENT cls_bin": "TALENT binary", "TALENT cls_multi": "TALENT multiclass",
             "TALENT regression": "TALENT regression", "yandex tabr+tabm, single": "yandex",
             "google-research/electra": "GLUE (ELECTRA)", "microsoft/DeBERTa": "GLUE (DeBERTa)"}  # fmt: skip
    return names.get(name, name.split(",")[0])


def regrets_of(fit: Fit, differences: Mapping[str, float], families: Mapping[str, str]) -> dict[str, Regrets]:
    """By group of tables: the model's choice (each data set left out, or a half), two runs, baselines."""
    out: dict[str, Regrets] = defaultdict(Regrets)
    ranks = _mean_ranks(fit.evidence.tables)
    for seed in range(HALVES):
        for table, expected in zip(fit.evidence.tables, fit.half_left_out(seed), strict=True):
            chosen = max(table.values, key=lambda m: expected[m])
            out[group_of(table)].add("half", table.dataset, table.regret[chosen])
    for table, expected in zip(fit.evidence.tables, fit.left_out(), strict=True):
        regrets, scores = out[group_of(table)], fit.evidence.scores
        models = list(table.values)
        for model, regret in table.regret.items():
            regrets.by_model[model].append(100.0 * regret)
        first = max(models, key=lambda m: expected[m])
        second = _second(first, expected, differences, families)
        regrets.add("model", table.dataset, table.regret[first])
        regrets.add("two", table.dataset, min(table.regret[first], table.regret[second]))
        if all(m in scores for m in models):
            regrets.add("score", table.dataset, table.regret[max(models, key=lambda m: scores[m])])
        usual = ranks(table)
        regrets.add("rank", table.dataset, table.regret[max(models, key=lambda m: usual[m])])
        regrets.add("random", table.dataset, float(np.mean(list(table.regret.values()))))
    return out


def _second(
    first: str, expected: Mapping[str, float], differences: Mapping[str, float], families: Mapping[str, str]
) -> str:
    """Which other model raises the expected best most."""

    def gain(model: str) -> float:
        sd = difference(first, model, differences, families)
        return float(expected_best(expected[first], expected[model], sd))

    return max((model for model in expected if model != first), key=gain)


def difference(a: str, b: str, known: Mapping[str, float], families: Mapping[str, str]) -> float:
    return known.get("|".join(sorted((a, b))), known.get(classes_of(a, b, families), 1.0))


def _mean_ranks(tables: Sequence[Table]) -> Callable[[Table], Mapping[str, float]]:
    """Mean rank (1 = best) of each model in other data sets of the same group."""
    by_group: dict[str, dict[str, list[Table]]] = defaultdict(lambda: defaultdict(list))
    for table in tables:
        by_group[group_of(table)][table.dataset].append(table)

    def without(table: Table) -> Mapping[str, float]:
        found: dict[str, list[float]] = defaultdict(list)
        for dataset, others in by_group[group_of(table)].items():
            for other in others if dataset != table.dataset else ():
                order = sorted(other.values, key=lambda m: other.values[m])
                for place, model in enumerate(order):
                    found[model].append(place / (len(order) - 1))
        return {model: float(np.mean(found[model])) if found[model] else -1.0 for model in table.values}

    return without


def pairs_of(
    fit: Fit, differences: Mapping[str, float], families: Mapping[str, str]
) -> Iterator[tuple[float, bool, bool]]:
    """Of every pair of models on every table: the probability of the expected winner, whether it won, and
    whether the difference lay inside its 80 % interval."""
    for table, expected in zip(fit.evidence.tables, fit.left_out(), strict=True):
        for a, b in combinations(table.values, 2):
            better, worse = (a, b) if expected[a] >= expected[b] else (b, a)
            sd = difference(a, b, differences, families)
            gap = expected[better] - expected[worse]
            seen = table.regret[worse] - table.regret[better]
            if seen != 0.0:
                yield float(probability_better(gap, 0.0, sd)), seen > 0, abs(seen - gap) <= SD_OF_P90 * sd


def reliability(pairs: Sequence[tuple[float, bool, bool]]) -> list[tuple[float, float, int]]:
    """Mean said probability, share that came true, and count, by bin."""
    rows = []
    for low, high in pairwise(BINS):
        inside = [pair for pair in pairs if low <= pair[0] < high or pair[0] == high == 1.0]
        if inside:
            said, won = np.mean([p[0] for p in inside]), np.mean([p[1] for p in inside])
            rows.append((float(said), float(won), len(inside)))
    return rows
