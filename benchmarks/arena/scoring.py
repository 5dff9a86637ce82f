"""Scores of submissions, what is normalised of them, and the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

HIGHER = {
    "auc": True, "accuracy": True, "f1_macro": True, "dice": True,
    "logloss": False, "mae": False, "rmse": False, "rmsle": False,
}  # fmt: skip
LEVEL = 0.95
DRAWS = 2000


def runs_of(text: object) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Pixels (counted from 1, down the columns) of a run-length encoded mask; none of an empty text."""
    numbers = [int(word) for word in text.split()] if isinstance(text, str) else []
    spans = [
        np.arange(start, start + length) for start, length in zip(numbers[::2], numbers[1::2], strict=True)
    ]
    return np.concatenate(spans) if spans else np.array([], np.int64)


def _dice(one: object, other: object) -> float:
    left, right = runs_of(one), runs_of(other)
    both = len(left) + len(right)
    return 2 * len(np.intersect1d(left, right)) / both if both else 1.0


def aligned(answers: pd.DataFrame, submission: pd.DataFrame) -> pd.DataFrame:
    """A submission in the order of the answers; ValueError where an id is missing or stands twice."""
    given = submission.set_index(submission.columns[0])
    if missing := set(answers.iloc[:, 0]) - set(given.index):
        raise ValueError(f"{len(missing)} ids are missing")
    if given.index.has_duplicates:
        raise ValueError("an id stands twice")
    return given.loc[answers.iloc[:, 0]]


def score(metric: str, answers: pd.DataFrame, submission: pd.DataFrame) -> float:
    """The metric of a submission against the hidden answers (id, target); ValueError where the submission
    is not whole or a value is no finite number."""
    return value_of(metric, answers.iloc[:, 1], aligned(answers, submission))


def value_of(metric: str, true: pd.Series[Any], given: pd.DataFrame) -> float:
    """The metric of aligned rows."""
    from sklearn import metrics

    first = given.iloc[:, 0]
    if metric == "dice":
        return float(np.mean([_dice(a, b) for a, b in zip(true, first, strict=True)]))
    if metric in ("accuracy", "f1_macro"):
        named, said = true.astype(str).to_numpy(), first.astype(str).to_numpy()
        same = (named == said).mean()
        return float(same if metric == "accuracy" else metrics.f1_score(named, said, average="macro"))
    values = given.to_numpy(float)
    if not np.isfinite(values).all():
        raise ValueError("a value is no finite number")
    if metric == "logloss":
        chances = (values / values.sum(axis=1, keepdims=True)).clip(1e-15, 1)
        places = given.columns.get_indexer(true.astype(str))
        if (places < 0).any():
            raise ValueError("a class has no column")
        return float(-np.log(chances[np.arange(len(chances)), places]).mean())
    if metric == "auc":
        return float(metrics.roc_auc_score(true, values[:, 0]))
    wanted, got = true.to_numpy(float), values[:, 0]
    if metric == "mae":
        return float(np.abs(wanted - got).mean())
    if metric == "rmsle":
        wanted, got = np.log1p(wanted), np.log1p(got.clip(0))
    return float(((wanted - got) ** 2).mean() ** 0.5)


def paired(
    metric: str, answers: pd.DataFrame, mine: pd.DataFrame, theirs: pd.DataFrame, level: float = LEVEL
) -> tuple[float, float, float]:
    """(difference, low, high) of two submissions, above 0 where mine is better: a bootstrap of rows."""
    sign, rng, true = 1 if HIGHER[metric] else -1, np.random.default_rng(0), answers.iloc[:, 1]
    left, right = aligned(answers, mine), aligned(answers, theirs)

    def ahead(rows: Any) -> float:
        part = true.iloc[rows]
        return sign * (value_of(metric, part, left.iloc[rows]) - value_of(metric, part, right.iloc[rows]))

    draws = [rng.integers(0, len(answers), len(answers)) for _ in range(1000)]
    drawn = [ahead(rows) for rows in draws if metric != "auc" or true.iloc[rows].nunique() > 1]
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return ahead(np.arange(len(answers))), float(low), float(high)


def normalised(values: Mapping[str, float | None], metric: str) -> dict[str, float]:
    """0 for what is no better than `constant` or gave nothing, 1 for the best; {} where none beats it."""
    zero = values.get("constant")
    if zero is None:
        return {}
    sign = 1 if HIGHER[metric] else -1
    gains = {
        name: 0.0 if value is None else max(0.0, sign * (value - zero)) for name, value in values.items()
    }
    best = max(gains.values())
    return {name: gain / best for name, gain in gains.items()} if best > 0 else {}


def bootstrap(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """(low, high) of the mean: sets drawn with replacement."""
    drawn = np.random.default_rng(0).choice(values, (DRAWS, len(values))).mean(axis=1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Markdown of results: of each set and system the last run counts."""
    last = {(row["set"], row["system"]): row for row in rows}
    sets, systems = dict.fromkeys(name for name, _ in last), dict.fromkeys(system for _, system in last)
    lines = ["| set (metric) | " + " | ".join(systems) + " |", "|---|" + "---|" * len(systems)]
    norms: dict[str, dict[str, float]] = defaultdict(dict)
    for name in sets:
        found = {system: last[name, system] for system in systems if (name, system) in last}
        metric = next(iter(found.values()))["metric"]
        for system, norm in normalised({s: row["value"] for s, row in found.items()}, metric).items():
            norms[system][name] = norm
        cells = [_cell(found.get(system)) for system in systems]
        lines.append(f"| {name} ({metric}) | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| system | sets | mean of 1 (95 %) | wins | worst | share of the minutes |",
        "|---|---|---|---|---|---|",
    ]
    for system in systems:
        if own := norms[system]:
            low, high = bootstrap(list(own.values()))
            wins = sum(value >= max(norm.get(n, 0.0) for norm in norms.values()) for n, value in own.items())
            used = np.mean([last[n, system]["share"] for n in own])
            mean = np.mean(list(own.values()))
            lines.append(
                f"| {system} | {len(own)} | {mean:.2f} ({low:.2f} to {high:.2f}) | {wins} "
                f"| {min(own.values()):.2f} | {100 * used:.0f} % |"
            )
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "—"
    told = "none" if row["value"] is None else f"{row['value']:.4f}"
    return f"{told}, {row['seconds']:.0f} s, {100 * row['share']:.0f} %"
