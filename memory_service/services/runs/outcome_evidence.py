"""Runs that ended as evidence: tallies of the patterns and competitions that plans named.

Arithmetic only. The outcome of a run is a function of what it said, and the tallies of a place are a function
of the outcomes there: reported twice, late or in another order, they are the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memory_service.domain.description.metrics import direction_of_name
from memory_service.domain.prediction.trust import is_key
from memory_service.domain.recipe.vocabulary import families_of
from memory_service.domain.runs.advice_outcome import is_listed, outcome_of_run, place_of
from memory_service.domain.runs.pattern_effect import MOST_COMPARED, Tally, compare, subjects_of
from memory_service.services.database.transactions import Database, ReadTransaction, WriteTransaction
from memory_service.services.runs.late_work import LateWork
from memory_service.services.runs.summaries import each_or_nothing
from memory_service.store.queries import outcomes, runs
from memory_service.store.session import bump_revision, hold_revision
from memory_service.store.tables.runs import Run

_AT_ONCE = 50


def evidence_of(transaction: ReadTransaction, run_id: str) -> dict[str, Any]:
    """`{"advice", "evidence"}` as a run's page shows them: what its plan advised and whether it does so (null
    where its plan is not known), and what came of it (null while it runs)."""
    stored = outcomes.of_run(transaction.session, run_id)
    if stored is None:
        return {"advice": None, "evidence": None}
    shown = stored.outcome and {name: v for name, v in stored.outcome.items() if name != "reporter"}
    return {"advice": stored.advice, "evidence": shown}


def metric_direction(transaction: ReadTransaction, run: Run, summary: Mapping[str, Any]) -> str | None:
    """max | min: which way the run's metric gets better, by the name that its epochs give it, as it or its
    plan said; else its competition's. summary: as in `remember`."""
    facts = (run.watch or {}).get("facts") or {}
    return (
        named_direction(summary)
        or facts.get("metric_direction")
        or outcomes.direction_of(transaction.session, run.competition)
    )


def named_direction(summary: Mapping[str, Any]) -> str | None:
    """max | min: by the name that the latest epoch gives its metric; None where none does."""
    names = [epoch["metric_name"] for epoch in summary.get("epochs") or () if epoch.get("metric_name")]
    return direction_of_name(names[-1]) if names else None


def remember(
    transaction: WriteTransaction, run: Run, summary: Mapping[str, Any], *, taught: bool = False
) -> None:
    """Keep what came of a run that has ended, and mark its place to be counted again (`count_again`). The
    knowledge revision rises where that changed, or where the run taught something else.

    summary   wire form of its `domain.runs.run_outcome.Outcome`
    """
    stored = outcomes.of_run(transaction.session, run.id)
    outcome = _outcome(transaction, run, summary, stored.advice if stored is not None else None)
    known = stored.outcome if stored is not None else None
    if taught or outcome != known:
        bump_revision(transaction.session, transaction.now)  # whoever else counts waits for its row
    if outcome != known:
        _keep(transaction, run, outcome, known or {})


def remember_missing(database: Database) -> int:
    """Remember runs whose server was killed before it did, or that ended before there were outcomes; how
    many."""
    done, after = 0, ""
    while True:
        with database.read() as transaction:
            missing = outcomes.unconcluded(transaction.session, after, _AT_ONCE)
        if not missing:
            count_again(database)
            return done
        with database.write_untracked() as writing:
            found = [run for run in runs.find_several(writing.session, missing) if run.exclusion is None]
            each_or_nothing(writing, found, lambda run: remember(writing, run, run.summary or {}))
        done, after = done + len(missing), missing[-1]


def _outcome(
    transaction: ReadTransaction, run: Run, summary: Mapping[str, Any], advice: Mapping[str, Any] | None
) -> dict[str, Any]:
    assert run.finished_at is not None  # noqa: S101 - it has ended
    minutes = (run.finished_at - run.started_at).total_seconds() / 60.0
    names = ("model", "gpu", "batch_size", "precision", "folds", "epochs", "minutes")
    own = {name: getattr(run, name) for name in names}
    took, direction = minutes if minutes >= 0.0 else None, metric_direction(transaction, run, summary)
    families = families_of(run.model, run.family) if run.competition else ()
    return outcome_of_run(own, advice, summary, run.finish, took, direction, families)


def _keep(
    transaction: WriteTransaction, run: Run, outcome: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    assert run.finished_at is not None  # noqa: S101 - it has ended
    place = place_of(run.competition, run.task, run.n_train)
    now, ended = transaction.now, run.finished_at
    outcomes.keep(transaction.session, run, place, now, ended_at=ended, outcome=dict(outcome))
    _serve_again(transaction, run, known, outcome)


def forget(transaction: WriteTransaction, run: Run) -> None:
    """Take back what `remember` kept of a run, and mark its place."""
    stored = outcomes.of_run(transaction.session, run.id)
    known = None if stored is None else stored.outcome
    bump_revision(transaction.session, transaction.now)
    if known is not None:
        outcomes.drop(transaction.session, run.id, transaction.now)
        _serve_again(transaction, run, known, {})


def _serve_again(
    transaction: WriteTransaction, run: Run, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Count what the run's plan served, by its outcomes before and now, and mark its place: what is compared
    there waits for `count_again`."""
    session, place = transaction.session, place_of(run.competition, run.task, run.n_train)
    served = set(filter(is_listed, (*before.get("served", ()), *now.get("served", ()))))
    known = outcomes.tallies_of(session, served, place)
    counted = {each: known.get(each, Tally()) + _served(now, each) - _served(before, each) for each in served}
    outcomes.write_tallies(session, place, counted, transaction.now)
    outcomes.mark(session, place)


class _Counts(LateWork):
    """Places are counted outside of the transactions that others wait for."""

    def do(self, database: Database, name: str) -> None:
        with database.read() as reading:
            mark = outcomes.mark_of(reading.session, name)
            latest = outcomes.of_place(reading.session, name, MOST_COMPARED)
            before = dict.fromkeys(outcomes.compared_in(reading.session, name), Tally())
        if mark is None:
            return
        compared = before | compare(latest, subjects_of(latest), metrics=name.startswith("competition:"))
        with database.write_untracked() as writing:
            session = writing.session
            hold_revision(session)
            if (now := outcomes.mark_of(session, name)) is None:
                return  # another process has counted later ones
            known = outcomes.tallies_of(session, compared, name)
            counted = {
                each: replace(compared[each], served=tally.served, followed=tally.followed)
                for each, tally in known.items()
            }
            if counted != known:
                outcomes.write_tallies(session, name, counted, writing.now)
                bump_revision(session, writing.now)
            if now == mark:
                outcomes.unmark(session, name)


def count_again(database: Database, run: Run | None = None, owner: str = "") -> None:
    """Count what the places say where outcomes changed, as `LateWork`: where a run of a key ended it takes
    that key's share of a core, all else together takes one. What is marked and not counted, as the process
    ends, the next one counts.

    run   whose outcome changed; owner: the reporter that changed it
    """
    with database.read() as transaction:
        places = outcomes.marked(transaction.session)
    work = database.caches.of(_Counts)
    own = {place_of(run.competition, run.task, run.n_train): owner if is_key(owner) else ""} if run else {}
    asked = (one for one in places if one in own or not (one in work.waiting or one == work.doing))
    if some := {place: own.get(place, "") for place in asked}:
        work.ask(database, some)


def _served(outcome: Mapping[str, Any], subject: str) -> Tally:
    served = outcome.get("served", {})
    return Tally(int(subject in served), int(served.get(subject) is True))
