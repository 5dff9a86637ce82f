"""Page of prediction errors: each pair as a point, errors beside baselines, the worst misses by name."""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from typing import Any

import numpy as np

from memory_service.domain.learning.observation import Observation
from memory_service.domain.learning.scoring import Pair, Score, score
from memory_service.domain.prediction.device_step_time import baseline_prediction
from memory_service.errors import MemoryServiceError
from memory_service.schemas.pages import AccuracyPageQuery
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.learned_corrections import observed_card, observed_profile
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.runs.scored_runs import Scored, counted, ended_runs, largest_first, own_runs_of
from memory_service.services.tables.file_formats import TableExport
from memory_service.store.queries.runs import EndedRun

ACCURACY_QUANTITIES = {
    "samples_per_second": "samples/s",
    "peak_memory_gib": "GiB",
    "peak_reserved_gib": "GiB",
    "peak_allocated_gib": "GiB",
    "epoch_seconds": "s",
    "total_minutes": "min",
}
"""What is predicted of a run -> its unit."""

FIGURE = ("value", "low", "high", "grade", "n", "basis")
"""What a predicted figure consists of."""

MOST_MISSES = 20
MEANT_PERCENT = 80.0

_COLUMNS: Mapping[str, type[Any]] = {
    "run_id": str, "at": dt.datetime, "gpu": str, "device": str, "family": str, "model": str,
    "input_size": int, "precision": str, "batch_size": int, "quantity": str, "unit": str,
    "predicted_value": float, "predicted_low": float, "predicted_high": float, "predicted_grade": str,
    "predicted_n": int, "predicted_basis": str, "measured": float, "ratio": float, "error_percent": float,
    "inside": bool, "excluded": str,
}  # fmt: skip

_SETTINGS = (
    "gpu", "model", "input_size", "precision", "batch_size", "layout", "optimizer", "mode", "compiled",
    "checkpointing", "cores",
)  # fmt: skip
"""Of a run: what its figure by profile and data sheet depends on."""

MOST_SHEET_FIGURES = 10_000
"""Kept between requests."""

_SHEET_OF = {"samples_per_second": "step_seconds", "peak_memory_gib": "driver_gib"}


@dataclass(frozen=True, slots=True)
class _Point:
    run: EndedRun
    pair: Pair

    @property
    def case(self) -> Mapping[str, Any]:
        return (self.run.prediction or {}).get("case") or {}

    @property
    def where(self) -> str:
        return str(self.run.device or self.run.gpu)

    def as_dict(self) -> dict[str, Any]:
        """A run's figure as it was predicted and as it came; ratio: predicted / measured."""
        predicted = self.pair.predicted
        return {
            "run_id": self.run.id,
            "at": self.run.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "gpu": self.run.gpu,
            "device": self.run.device or None,
            "family": self.run.family,
            "model": self.case.get("model"),
            "input_size": self.case.get("input_size"),
            "precision": self.case.get("precision"),
            "batch_size": self.run.batch_size,
            "quantity": self.pair.quantity,
            "unit": ACCURACY_QUANTITIES[self.pair.quantity],
            "predicted": {name: predicted[name] for name in FIGURE},
            "measured": float(f"{self.pair.actual:.4g}"),
            "ratio": float(f"{1.0 + self.pair.error:.4g}"),
            "error_percent": round(100.0 * self.pair.error, 1),
            "inside": self.pair.inside,
            "excluded": self.pair.excluded,
        }


def accuracy_page(database: Database, requested: Mapping[str, str]) -> dict[str, Any]:
    """Scores of every quantity, and of the one chosen its points, groups, baselines and worst misses.

    asked   ACCURACY_FILTERS by name, `quantity`, `days` (runs that ended in the last so many), `last` (so
            many)
    """
    wanted, runs, points = _found(database, requested)
    knowledge, ended = knowledge_of(database), [run for run, _ in runs]
    chosen = [each for each in points if each.pair.quantity == wanted["quantity"]]
    scored = [each for each in chosen if each.pair.excluded is None]
    counting = [(run, [pair for pair in pairs if pair.quantity == wanted["quantity"]]) for run, pairs in runs]
    return {
        "query": {name: value for name, value in wanted.items() if value is not None},
        "unit": ACCURACY_QUANTITIES[wanted["quantity"]],
        "runs": {"most": wanted["last"]} | counted(counting),
        "scores": [_shown(each) for each in score(each.pair for each in points)],
        "meant_percent": MEANT_PERCENT,
        "baselines": _baselines(knowledge, wanted["quantity"], scored),
        "by_device": _groups(scored, lambda each: each.where),
        "by_family": _groups(scored, lambda each: str(each.run.family)),
        "by_own_runs": sorted(
            _groups(scored, lambda each: own_runs_of(each.run)), key=lambda group: group["name"]
        ),
        "by_grade": _groups(scored, lambda each: str(each.pair.predicted["grade"])),
        "points": [each.as_dict() for each in chosen],
        "misses": [
            each.as_dict()
            for each in sorted(scored, key=lambda each: -abs(np.log(1.0 + each.pair.error)))[:MOST_MISSES]
        ],
        "choices": {
            "quantity": list(ACCURACY_QUANTITIES),
            "gpu": sorted({str(run.gpu) for run in ended}),
            "device": sorted({str(run.device) for run in ended if run.device}),
            "family": sorted({str(run.family) for run in ended if run.family}),
        },
    }


def accuracy_table(database: Database, requested: Mapping[str, str]) -> TableExport:
    """Every pair of the runs that match, all quantities unless one is named, flat: for a file."""
    wanted, _, points = _found(database, requested)
    every = "quantity" not in requested
    used = (each for each in points if every or each.pair.quantity == wanted["quantity"])
    rows = [_flat(each.as_dict()) for each in used]
    return TableExport(_COLUMNS, lambda: iter([rows]))


def _found(
    database: Database, requested: Mapping[str, str]
) -> tuple[dict[str, Any], Sequence[Scored], list[_Point]]:
    """What is asked, the runs that match with their pairs, and each pair alone."""
    wanted = checked(AccuracyPageQuery, AccuracyPageQuery.given(requested)).model_dump()
    runs = ended_runs(database, wanted, wanted["last"], dt.datetime.now(dt.UTC))
    return wanted, runs, [_Point(run, pair) for run, pairs in runs for pair in pairs]


def _groups(points: Sequence[_Point], name_of: Callable[[_Point], str]) -> list[dict[str, Any]]:
    """Errors and coverage by group, the largest group first."""
    groups = largest_first(points, name_of)
    return [{"name": name} | _shown(score(each.pair for each in members)[0]) for name, members in groups]


def _shown(one: Score) -> dict[str, Any]:
    """A score, and whether its intervals are too narrow: they held so rarely, where 80 % is meant, that
    chance explains it in under a twentieth of cases."""
    meant, held = MEANT_PERCENT / 100.0, round(one.inside_percent * one.n / 100.0)
    chance = sum(comb(one.n, k) * meant**k * (1.0 - meant) ** (one.n - k) for k in range(held + 1))
    return asdict(one) | {"too_narrow": chance < 0.05}


def _baselines(knowledge: Knowledge, quantity: str, points: Sequence[_Point]) -> list[dict[str, Any]]:
    """Methods beside one another on the very same runs: what was predicted, the data sheet alone without
    calibrations and earlier runs, and a naive line."""
    if not points:
        return []
    ours = score(each.pair for each in points)[0]
    out = [_line("what was predicted", ours.n, ours.median_percent, ours.p90_percent)]
    sheets = _sheet_errors(knowledge, quantity, points)
    if sheets:
        both = score(each.pair for each, _ in sheets)[0]
        off = np.abs([error for _, error in sheets])
        if len(sheets) < len(points):
            name = "what was predicted, of the runs below"
            out.append(_line(name, both.n, both.median_percent, both.p90_percent))
        median, p90 = (round(100.0 * float(np.quantile(off, share)), 2) for share in (0.5, 0.9))
        out.append(_line("profile and data sheet alone, computed now", len(sheets), median, p90))
    if ours.naive:
        naive = ours.naive
        out.append(_line(naive["method"], ours.n, naive["median_percent"], naive["p90_percent"]))
    return out


def _line(method: str, n: int, median: float, p90: float) -> dict[str, Any]:
    return {"method": method, "n": n, "median_percent": median, "p90_percent": p90}


def _sheet_errors(
    knowledge: Knowledge, quantity: str, points: Sequence[_Point]
) -> list[tuple[_Point, float]]:
    """Of each run whose model and card are known: the error of profile and data sheet alone."""
    if quantity not in _SHEET_OF:
        return []
    out = []
    known: dict[tuple[Any, ...], float]
    known = knowledge.priced.caches.latest(_of_sheet, knowledge.cards.untaught, dict)
    if len(known) > MOST_SHEET_FIGURES:
        known.clear()
    for each in points:
        case = each.case
        if not case:
            continue
        key = (quantity, *map(case.get, _SETTINGS))
        value = known.get(key) or _of_sheet(knowledge, quantity, Observation.from_dict(case))
        if value is not None:
            known[key] = value
            out.append((each, value / each.pair.actual - 1.0))
    return out


def _of_sheet(knowledge: Knowledge, quantity: str, o: Observation) -> float | None:
    sheet = observed_card(knowledge.cards, replace(o, device=""))
    profile = observed_profile(knowledge.priced, o)
    if sheet is None or profile is None or not o.batch_size:
        return None
    try:
        baseline = baseline_prediction(o, profile, replace(sheet, calibrated=None))
    except MemoryServiceError:
        return None
    value = float(getattr(baseline, _SHEET_OF[quantity]))
    return o.batch_size / value if quantity == "samples_per_second" else value


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    predicted = row["predicted"]
    figures = {f"predicted_{name}": predicted[name] for name in FIGURE}
    return {name: value for name, value in row.items() if name != "predicted"} | figures
