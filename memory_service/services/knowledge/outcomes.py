"""Outcomes of runs in short, for a competition, a plan and each pattern, and other computed fields that the
rows of a table are shown with."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import select

from memory_service.domain.common.quoted_text import named
from memory_service.domain.learning.shrinkage import SAME_FIGURE
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.planning.option import candidate_of
from memory_service.domain.planning.policy import policy_of
from memory_service.domain.prediction.trust import heard_rows, is_key, near_figures
from memory_service.domain.quality.conditioning import Surprise, points_of_metric, surprises_of
from memory_service.domain.quality.quality_model import QualityModel, quality_kind
from memory_service.domain.quality.ranking import Candidate
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.services.database.transactions import ReadTransaction
from memory_service.services.devices.calibrations import with_staleness
from memory_service.services.devices.registration import with_devices
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.tables.table_rows import on_the_wire
from memory_service.store.queries import outcomes
from memory_service.store.queries.rows import column
from memory_service.store.tables.knowledge import Solution

_CONSIDERED = 50
"""Latest runs: a plan reads them while somebody waits."""

_SHOWN = 5
_REPORTED = (
    "status", "metric", "test_metric", "model", "gpu", "batch_size", "folds", "epochs", "minutes",
    "budget_percent", "epochs_to_best", "folds_done", "minutes_to_submission",
)  # fmt: skip
_OF_SOLUTION = (
    "id", "rank", "url", "basis", "families", "validation", "techniques", "score", "what_mattered",
)  # fmt: skip


def with_tallies(
    transaction: ReadTransaction, rows: Sequence[Mapping[str, Any]], kind: str = "pattern"
) -> list[dict[str, Any]]:
    """Rows of patterns (or competitions), each with `outcomes`: how often plans of runs served it, how often
    it was followed, and what came of that."""
    key = {"pattern": "id", "competition": "slug"}[kind]
    asker = ASKER.get()
    found = outcomes.tallies_of(transaction.session, (f"{kind}:{row[key]}" for row in rows))
    return [{**row, "outcomes": found.get(f"{kind}:{row[key]}", Tally()).as_dict(asker)} for row in rows]


def with_steering(_: ReadTransaction, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of strategies, each with `steers_plans`: whether a number of it is what plans are made with, so
    that correcting it changes the next plan (`domain.planning.policy`)."""
    return [{**row, "steers_plans": bool(policy_of([row]).steering)} for row in rows]


BESIDE: Mapping[str, Callable[[ReadTransaction, Sequence[Mapping[str, Any]]], list[dict[str, Any]]]] = {
    "patterns": with_tallies,
    "gpus": with_devices,
    "strategies": with_steering,
    "calibrations": with_staleness,
}
"""Table -> what adds to its rows what they carry beside their columns."""


def with_outcomes(transaction: ReadTransaction, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """One row as its page shows it: as in a list; a competition with the tally of all its patterns
    (`outcomes`), with what came of its own runs (`runs`) and with its `solutions`, best rank first."""
    if table in BESIDE:
        return BESIDE[table](transaction, [row])[0]
    if table != "competitions":
        return dict(row)
    (reported,) = with_tallies(transaction, [row], "competition")
    slug = row["slug"]
    query = select(*(column(Solution, name) for name in _OF_SOLUTION))
    query = query.where(Solution.competition == slug).order_by(Solution.rank)
    solutions = [dict(zip(_OF_SOLUTION, one, strict=True)) for one in transaction.session.execute(query)]
    return {**reported, "runs": competition_outcomes(transaction, slug), "solutions": solutions}


def competition_outcomes(transaction: ReadTransaction, slug: str) -> dict[str, Any]:
    """The latest runs of a competition in short: counts by status, usual figures, a few runs, and the best of
    those that count for whoever asks."""
    found = outcomes.latest(transaction.session, f"competition:{slug}", _CONSIDERED)
    return {**_in_short(found), "best": _in_short(_heard(found))["best"]}


def outcomes_and_results(
    transaction: ReadTransaction, slug: str, table: str
) -> tuple[dict[str, Any], dict[str, float]]:
    """`competition_outcomes`, its best run with how many runs of its model count (`agreeing`: of another key
    one), and the points of each model's best run (`domain.quality.conditioning`), by the runs that count for
    whoever asks. table: kind of the data."""
    found = _heard(outcomes.latest(transaction.session, f"competition:{slug}", _CONSIDERED))
    best = best_runs(found).items()
    points = {model: points_of_metric(run.value, run.direction, table) for model, run in best}
    short = _in_short(found)
    if short["best"] is not None:
        agreeing = (
            row
            for row in found
            if row.outcome["model"] == short["best"]["model"]
            and row.outcome["succeeded"] is not False
            and score_of(row.outcome) is not None
            and not contradicted(row.outcome)
        )
        tellers = (row.told_by for row in agreeing)
        counted = Counter(who if is_key(who) and who != ASKER.get() else "" for who in tellers)
        short["best"]["agreeing"] = counted.pop("", 0) + len(counted)
    return short, {model: value for model, value in points.items() if value is not None}


def _heard(found: Sequence[Any]) -> Sequence[Any]:
    return heard_runs(found, ASKER.get(), lambda row: row.outcome["model"])


def _in_short(found: Sequence[Any]) -> dict[str, Any]:
    reported = [row.outcome for row in found]
    best = _best(reported)
    place = reported.index(best) if best is not None else None
    return {
        "runs": len(reported),
        "by_status": dict(sorted(Counter(one["status"] for one in reported).items())),
        "with_submission": sum(one["submission"] is True for one in reported),
        "best": None if place is None else _brief(found[place]),
        **{f"median_{name}": _median(found, name) for name in _USUAL},
        "latest": [_brief(row) for row in found[:_SHOWN]],
    }


_USUAL = ("minutes", "minutes_to_submission", "epochs_to_best", "budget_percent")


def happened_there(short: Mapping[str, Any] | None, slug: str | None) -> tuple[dict[str, Any], ...]:
    """One row of a plan's `evidence`; none where no run of the competition has ended. short: its
    `competition_outcomes`."""
    if short is None or not short["runs"]:
        return ()
    counted = ", ".join(f"{count} {status}" for status, count in short["by_status"].items())
    text = f"{short['runs']} of the latest runs of {slug} here: {counted}."
    best = short["best"]
    if best is not None:
        score = score_of(best)
        parts = [f"{best[name]} {name}" for name in ("folds", "epochs") if best[name]]
        parts += [f"batch {best['batch_size']}"] if best["batch_size"] else []
        took = f" in {best['minutes']:.0f} min" if best["minutes"] is not None else ""
        model, gpu = named(str(best["model"])), named(str(best["gpu"]))
        text += f" Best metric {score:g} by {model} ({', '.join(parts)}) on {gpu}{took}."
    if short["median_minutes_to_submission"] is not None:
        text += f" A first submission took {short['median_minutes_to_submission']:.1f} min at the median."
    if short["median_epochs_to_best"] is not None:
        text += f" The best epoch was number {short['median_epochs_to_best']:g} at the median."
    return (
        {"id": f"runs:{slug}", "grade": "measured", "text": text, "source": "runs reported to this service"},
    )


class BestRun(NamedTuple):
    """The best run of a model: its row, its metric, and which way that improves (max | min)."""

    row: Any
    value: float
    direction: str

    @property
    def signed(self) -> float:
        """The metric, higher is better."""
        return self.value if self.direction == "max" else -self.value


CONTRADICTED = 0.15
"""A test score worse than validation by so much of the larger of them: validation leaked, or was made up."""


def contradicted(outcome: Mapping[str, Any]) -> bool:
    """Whether a run's own test score shows that its validation score is none."""
    metric, test = outcome["metric"], outcome["test_metric"]
    if metric is None or test is None:
        return False
    worse = metric - test if outcome["direction"] == "max" else test - metric
    return bool(worse > CONTRADICTED * max(abs(metric), abs(test)))


def best_runs(rows: Iterable[Any]) -> dict[str, BestRun]:
    """Model as runs named it -> its best run, of the runs of one competition (rows with an `outcome`): by the
    test metric where two models have one, else by validation. Runs without a direction, and those whose test
    contradicts their validation, say nothing."""
    usable = [row for row in rows if row.outcome["model"]]
    comparable, direction = _comparable([row.outcome for row in usable])
    counting = set(map(id, comparable))
    for name in ("test_metric", "metric"):
        best: dict[str, BestRun] = {}
        for row in usable:
            value, model = row.outcome[name], row.outcome["model"]
            if value is None or id(row.outcome) not in counting:
                continue
            run = BestRun(row, value, direction)
            if model not in best or run.signed > best[model].signed:
                best[model] = run
        if len(best) > 1:
            return best
    return {}


def _best(reported: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Each by its test metric, else by validation."""
    comparable, direction = _comparable(reported)
    scored = [one for one in comparable if score_of(one) is not None]
    return (max if direction == "max" else min)(scored, key=lambda one: score_of(one) or 0.0, default=None)


def _comparable(reported: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], str]:
    """(the runs that left something to score, whose test does not contradict their validation, and whose
    metric improves the way that it does for most, that way: max | min)."""
    usable = [one for one in reported if one["succeeded"] is not False and one["direction"] in ("max", "min")]
    usable = [one for one in usable if not contradicted(one)]
    upwards = sum(one["direction"] == "max" for one in usable)
    direction = "max" if 2 * upwards >= len(usable) else "min"
    return [one for one in usable if one["direction"] == direction], direction


def score_of(reported: Mapping[str, Any]) -> float | None:
    """What a run's outcome is ranked by: its test metric, else that of its validation."""
    test: float | None = reported["test_metric"]
    metric: float | None = reported["metric"]
    return metric if test is None else test


def _brief(row: Any) -> dict[str, Any]:
    reported = {name: row.outcome[name] for name in _REPORTED}
    return on_the_wire({"run_id": row.run_id, "ended_at": row.ended_at, **reported})


SAME_SCORE = 0.05
"""A score is confirmed by another reporter's that is as good, within so much of the larger one."""


def heard_runs(
    rows: Sequence[Any], asker: str | None, case: Callable[[Any], Any] = attrgetter("competition", "model")
) -> Sequence[Any]:
    """Of rows of `store.queries.outcomes`, those whose metrics count for whoever asks."""
    return heard_rows(
        rows, asker, told_by=attrgetter("told_by"), case=case,
        agree=lambda one, other: _reached(one.outcome, other.outcome),
    )  # fmt: skip


def _reached(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the other's scores say that these can be: each as good or better, and near it."""
    if one["direction"] != other["direction"] or score_of(one) is None:
        return False
    pairs = [(one[name], other[name]) for name in ("test_metric", "metric") if one[name] is not None]
    sign = -1.0 if one["direction"] == "min" else 1.0
    return all(
        theirs is not None
        and sign * theirs >= sign * mine
        and abs(mine - theirs) <= SAME_SCORE * max(abs(mine), abs(theirs))
        for mine, theirs in pairs
    )


def _median(found: Sequence[Any], name: str) -> float | None:
    """Of a figure, by the runs that count for whoever asks: what one key alone told counts for that key."""
    heard = heard_rows(
        [row for row in found if row.outcome[name] is not None], ASKER.get(), told_by=attrgetter("told_by"),
        case=lambda _: name,
        agree=lambda one, other: near_figures(one.outcome[name], other.outcome[name], SAME_FIGURE),
    )  # fmt: skip
    return round(float(median(row.outcome[name] for row in heard)), 3) if heard else None


MOST_RUNS = 300
"""The latest runs of competitions: a plan rests on them."""


@dataclass(frozen=True)
class ComparedRuns:
    """Models that were run on one competition: each one's best run, and the candidate that it was. The
    expectation is that of the shipped figures alone."""

    competition: str
    table: str
    best: tuple[BestRun, ...]
    candidates: tuple[Candidate, ...]


def compared_runs(
    models: Mapping[str, CatalogueModel], quality: QualityModel, rows: Sequence[Any]
) -> Iterator[ComparedRuns]:
    """Of rows of `store.queries.outcomes.with_metric`, the competitions where two models of the catalogue
    have a metric."""
    by_competition: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in rows:
        if row.model in models:
            by_competition[row.competition, row.task].append(row)
    for (competition, task), found in by_competition.items():
        kind, best = quality_kind(task), tuple(best_runs(found).values())
        compared = [run.row for run in best]
        candidates = tuple(
            candidate_of(quality, kind, task, models[r.model], r.n_train, r.epochs, r.folds, r.input_size)
            for r in compared
        )
        if best:
            yield ComparedRuns(competition, kind.table, best, candidates)


def surprises(
    models: Mapping[str, CatalogueModel], quality: QualityModel, rows: Sequence[Any]
) -> tuple[Surprise, ...]:
    """What the runs of these rows say beyond what was expected."""
    found: list[Surprise] = []
    for each in compared_runs(models, quality, rows):
        points = [points_of_metric(run.value, run.direction, each.table) for run in each.best]
        usable = [(c, p) for c, p in zip(each.candidates, points, strict=True) if p is not None]
        found += surprises_of(each.competition, each.table, [c for c, _ in usable], [p for _, p in usable])
    return tuple(found)
