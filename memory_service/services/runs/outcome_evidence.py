"""Runs that ended as evidence: tallies of the patterns and competitions that plans named.

Arithmetic only. The outcome of a run is a function of what it said, and the tallies of a place are a function
of the outcomes there: reported twice, late or in another order, they are the same.
"""

from collections.abc import Mapping
from typing import Any

from memory_service.domain.description.metrics import direction_of_name
from memory_service.domain.recipe.vocabulary import families_of
from memory_service.domain.runs.advice_outcome import is_listed, outcome_of_run, place_of
from memory_service.domain.runs.pattern_effect import MOST_COMPARED, Tally, compare
from memory_service.services.database.transactions import Database, ReadTransaction, WriteTransaction
from memory_service.services.runs.summaries import each_or_nothing
from memory_service.store.queries import outcomes, runs
from memory_service.store.session import bump_revision
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
    """Keep what came of a run that has ended, and count again what its place says of the patterns that its
    plan served. The knowledge revision rises where that changed, or where the run taught something else.

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
    _count_again(transaction, run, place, known, outcome)


def forget(transaction: WriteTransaction, run: Run) -> None:
    """Take back what `remember` kept of a run, and count its place again without it."""
    stored = outcomes.of_run(transaction.session, run.id)
    known = None if stored is None else stored.outcome
    bump_revision(transaction.session, transaction.now)
    if known is not None:
        outcomes.drop(transaction.session, run.id, transaction.now)
        place = place_of(run.competition, run.task, run.n_train)
        _count_again(transaction, run, place, known, {})


def _count_again(
    transaction: WriteTransaction, run: Run, place: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """before, now: the run's outcome. Of what neither it nor one of the latest names nothing is compared, and
    its counts stay: the work does not grow with all that was told."""
    session, latest = transaction.session, outcomes.of_place(transaction.session, place, MOST_COMPARED)
    subjects = {name for one in (*latest, before, now) for name in one.get("served", ())}
    subjects |= outcomes.compared_in(session, place).keys()
    if not (subjects := set(filter(is_listed, subjects))):
        return
    compared = compare(latest, subjects, metrics=run.competition is not None)
    known = outcomes.tallies_of(session, compared, place)
    counted = {}
    for subject, tally in compared.items():
        stored, (was, done) = known.get(subject, Tally()), (_served(one, subject) for one in (before, now))
        counted[subject] = tally + Tally(stored.served, stored.followed) + done - was
    outcomes.write_tallies(session, place, counted, transaction.now)


def _served(outcome: Mapping[str, Any], subject: str) -> Tally:
    served = outcome.get("served", {})
    return Tally(int(subject in served), int(served.get(subject) is True))
