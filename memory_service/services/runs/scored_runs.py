"""Predictions, frozen when a run began, against what the run showed."""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from memory_service.domain.learning.scoring import Pair, pairs_of, score
from memory_service.domain.learning.shrinkage import SAME_FIGURE, equal_shares
from memory_service.domain.prediction.trust import SETTING, heard_rows, is_key, near_figures, same_memory
from memory_service.domain.quality.quality_model import QualityModel
from memory_service.domain.quality.ranking import probability_better
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.knowledge.outcomes import ComparedRuns, compared_runs, heard_runs
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.store.queries import outcomes, runs
from memory_service.store.queries.runs import EndedRun
from memory_service.store.session import ReadSession

ACCURACY_FILTERS = ("gpu", "device", "family", "model")

MOST_RUNS = 2_000
"""The latest are scored; older software and drivers say little of the next prediction."""

AGES = ((1, "under a day"), (7, "under a week"), (30, "under a month"), (10**9, "a month or more"))
"""How long ago the prediction was made, in days."""

OWN_RUNS = ((1, "0"), (2, "1"), (5, "2-4"), (10**9, "5+"))
"""How many runs of its model at its size on its device a prediction knew of: below the number."""

Item = TypeVar("Item")


Scored = tuple[EndedRun, Sequence[Pair]]
"""A run that ended, and its figures that were predicted and happened."""


def compared(
    run: Mapping[str, Any], prediction: Mapping[str, Any] | None, found: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Every figure of a run that was predicted and happened: `{quantity, predicted, actual, error_percent,
    inside, excluded}`."""
    return [pair.as_dict() for pair in pairs_of(run, prediction or {}, found)]


def accuracy(database: Database, requested: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Errors of what was predicted, by device, family and age of the prediction, beside the naive baselines.

    asked   ACCURACY_FILTERS by name, and `days`: runs that ended in the last so many
    Nothing to score is an answer, not an error: `runs` counts why.
    """
    now = dt.datetime.now(dt.UTC)
    scored = ended_runs(database, requested or {}, MOST_RUNS, now)
    used = [(run, pairs) for run, pairs in scored if any(pair.excluded is None for pair in pairs)]
    return {
        "runs": counted(scored),
        "overall": _scores(used),
        "by_device": _grouped(used, lambda run: run.device or run.gpu),
        "by_family": _grouped(used, lambda run: run.family),
        "by_own_runs": _grouped(used, own_runs_of, by_name=True),
        "by_grade": _by_grade(used),
        "by_age": _grouped(
            used, lambda run: next(n for days, n in AGES if now - run.created_at < dt.timedelta(days=days))
        ),
        "memory_limit": _limit((run for run, _ in scored), {run.id for run, _ in used}),
        "quality": quality_order(database),
    }


def ended_runs(database: Database, requested: Mapping[str, Any], most: int, now: dt.datetime) -> list[Scored]:
    """The latest that ended, as narrow as `accuracy` says. A figure that one key alone told of its case
    counts for that key, and reporters of a case count alike; whoever asks sees all of its own."""
    filters = {name: requested[name] for name in ACCURACY_FILTERS if requested.get(name) is not None}
    if requested.get("days") is not None:
        filters["since"] = now - dt.timedelta(days=float(requested["days"]))
    with database.read() as transaction:
        session, states = transaction.session, outcomes.ended_states(transaction.session, filters, most)
        scored = transaction.caches.of_rows(
            ended_runs, states, lambda run_ids: _paired(session, run_ids), MOST_RUNS
        )
    asker = ASKER.get()
    if asker is None:
        return [*scored.values()]
    kinds = knowledge_of(database).cards.kinds

    def counts(run: EndedRun) -> bool:
        return run.told_by == asker or not is_key(run.told_by)

    figures = [
        (_case(run, pair, kinds), run, pair)
        for run, pairs in scored.values() for pair in pairs if pair.excluded is None
    ]  # fmt: skip
    heard = heard_rows(figures, asker, told_by=lambda one: one[1].told_by, case=itemgetter(0), agree=_agree)
    known = {id(pair) for _, _, pair in heard}
    shares = equal_shares([(case, run.told_by, pair.error) for case, run, pair in heard])
    scores = {id(heard[n][2]) for n in shares}
    return [
        (run, pairs) if counts(run)
        else (
            run._replace(excluded=run.excluded or (None if some else TOLD_ALONE)),
            [
                pair if pair.excluded or id(pair) in scores else replace(pair, excluded=TOLD_ALONE)
                for pair in pairs if id(pair) in scores or id(pair) not in known
            ],
        )
        for run, pairs in scored.values()
        for some in [scores.intersection(map(id, pairs))]
        if counts(run) or some or known.isdisjoint(map(id, pairs))
    ]  # fmt: skip


TOLD_ALONE = "told_alone"

_Figure = tuple[Hashable, EndedRun, Pair]

_WORK = {"epoch_seconds": ("n_train", "folds"), "total_minutes": ("n_train", "folds", "epochs", "minutes")}
"""What a figure of the whole run depends on beside its setting and batch."""


def _case(run: EndedRun, pair: Pair, kinds: Mapping[str, str]) -> Hashable:
    """What the figure is of, as in `domain.prediction.trust`. kinds: `Cards.kinds`."""
    said = (run.prediction or {}).get("case") or {}
    work = (getattr(run, name) for name in _WORK.get(pair.quantity, ()))
    names = run.gpu, run.model, run.input_size, run.batch_size, kinds.get(run.device)
    return pair.quantity, *names, *map(said.get, SETTING), *work


def _agree(one: _Figure, other: _Figure) -> bool:
    mine, theirs = one[2].actual, other[2].actual
    memory = one[2].quantity.startswith("peak")
    return same_memory(mine, theirs) if memory else near_figures(mine, theirs, SAME_FIGURE)


def _paired(session: ReadSession, run_ids: Sequence[str]) -> dict[str, Scored]:
    found = runs.observations_by_run(session, run_ids)
    scored: dict[str, Scored] = {}
    for run in runs.ended(session, run_ids):
        shown = found.get(run.id, ())
        who = "" if any(one.get("confirmed") for one in shown) else run.told_by
        pairs = pairs_of(run._asdict(), run.prediction or {}, shown)
        scored[run.id] = run._replace(told_by=who), pairs
    return scored


def _scores(scored: Iterable[Scored]) -> list[dict[str, Any]]:
    return [asdict(each) for each in score(pair for _, pairs in scored for pair in pairs)]


def largest_first(items: Iterable[Item], name_of: Callable[[Item], str]) -> list[tuple[str, list[Item]]]:
    """The groups of the items by name, the largest first."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(name_of(item), []).append(item)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def own_runs_of(run: EndedRun) -> str:
    """Group of OWN_RUNS; of a prediction stored without the number, by whether its case was measured."""
    prediction = run.prediction or {}
    step = prediction.get("step_seconds") or {}
    before = prediction.get("own_runs", step.get("n", 0) if step.get("grade") == "measured" else 0)
    return next(name for most, name in OWN_RUNS if before < most)


def _by_grade(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """By what each figure's prediction stood on."""
    grades: dict[str, list[Scored]] = {}
    for run, pairs in scored:
        for grade in ("measured", "estimated", "claimed"):
            if mine := [pair for pair in pairs if pair.predicted.get("grade") == grade]:
                grades.setdefault(grade, []).append((run, mine))
    return [{"name": grade, "runs": len(of), "scores": _scores(of)} for grade, of in grades.items()]


def _grouped(
    scored: Sequence[Scored], name_of: Callable[[EndedRun], str], *, by_name: bool = False
) -> list[dict[str, Any]]:
    groups = largest_first(scored, lambda one: name_of(one[0]))
    groups = sorted(groups) if by_name else groups
    return [{"name": name, "runs": len(members), "scores": _scores(members)} for name, members in groups]


def counted(ended: Sequence[Scored]) -> dict[str, Any]:
    """What became of ended runs, each counted once: `{"ended", "scored", "without_prediction", "excluded",
    "nothing_measured"}`; scored: by any of the pairs that stand beside a run."""
    kept = [run for run, pairs in ended if all(pair.excluded is not None for pair in pairs)]
    predicted = [run for run in kept if (run.prediction or {}).get("why_not") is None]
    reasons = Counter(run.excluded for run in predicted if run.excluded)
    return {
        "ended": len(ended),
        "scored": len(ended) - len(kept),
        "without_prediction": len(kept) - len(predicted),
        "excluded": dict(sorted(reasons.items())),
        "nothing_measured": len(predicted) - reasons.total(),
    }


def _limit(ended: Iterable[EndedRun], scored: Collection[str]) -> dict[str, int]:
    """Whether runs on cards ran out of memory, against whether that was predicted; of those that did not only
    the scored ones."""
    counts: Counter[str] = Counter()
    for run in (one for one in ended if one.excluded is None):
        ran_out, prediction = run.status == "out_of_memory", run.prediction or {}
        case = prediction.get("case") or {"part": None}
        known = "fits" in prediction and case.get("part", "step") == "step" and run.gpu != "cpu"
        if known and (ran_out or (run.status != "crashed" and run.id in scored)):
            how = "as_predicted" if prediction["fits"] != ran_out else "unexpectedly"
            counts[f"{'ran_out' if ran_out else 'fitted'}_{how}"] += 1
    names = ("fitted_as_predicted", "fitted_unexpectedly", "ran_out_as_predicted", "ran_out_unexpectedly")
    return {name: counts.get(name, 0) for name in names}


def quality_order(database: Database) -> dict[str, Any]:
    """Pairs of models run on one competition, each by its best run: `{"competitions", "pairs",
    "right_percent", "expected_percent"}`; None where there is no pair.

    right      the model of higher expected quality had the better metric; expected: the mean probability of
               that. The expectation is that of the shipped figures alone: no run of this service is in it.
    """
    knowledge = knowledge_of(database)
    with database.read() as transaction:
        rows = heard_runs(outcomes.with_metric(transaction.session, MOST_RUNS), ASKER.get())
    compared = compared_runs(knowledge.models, knowledge.quality, rows)
    pairs = [_pairs(knowledge.quality, each) for each in compared]
    said = np.concatenate([probability for probability, _ in pairs] or [np.zeros(0)])
    right = np.concatenate([won for _, won in pairs] or [np.zeros(0)])
    return {
        "competitions": sum(len(won) > 0 for _, won in pairs),
        "pairs": len(said),
        "right_percent": round(100.0 * float(right.mean()), 1) if len(said) else None,
        "expected_percent": round(100.0 * float(said.mean()), 1) if len(said) else None,
    }


def _pairs(quality: QualityModel, compared: ComparedRuns) -> tuple[Any, Any]:
    """(probability of the expected winner, whether it won) of each two models with different metrics."""
    value = np.array([run.signed for run in compared.best])
    index = np.array([each.index for each in compared.candidates])
    a, b = np.triu_indices(len(value), 1)
    differ = value[a] != value[b]
    a, b = a[differ], b[differ]
    own = np.array([each.sd**2 for each in compared.candidates])
    models = [(each.model, each.family) for each in compared.candidates]
    apart = quality.difference_sds(compared.table, models)[a, b]
    ahead = probability_better(index[a], index[b], np.sqrt(apart**2 + own[a] + own[b]))
    return np.maximum(ahead, 1.0 - ahead), (value[a] > value[b]) == (ahead >= 0.5)
