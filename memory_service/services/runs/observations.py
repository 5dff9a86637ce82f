"""Concludes runs that ended: what later predictions learn from them is stored as observations.

A run's conclusion is a function of what it said: the same body, events and finish give the same one in
whatever order and however often they came. It is drawn at the finish and again when late events arrive.
"""

import datetime as dt
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import null

from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.cost.data_loader import loader_settings
from memory_service.domain.learning.observation import Observation
from memory_service.domain.learning.scoring import own_observation
from memory_service.domain.monitoring.event import loss_of
from memory_service.domain.runs.advice_outcome import succeeded
from memory_service.domain.runs.run_observations import (
    Ending,
    exclusion_of,
    loader_observation,
    observations_of,
)
from memory_service.domain.runs.run_outcome import Outcome, best_of, outcome_of
from memory_service.domain.runs.wasted_minutes import waste_of
from memory_service.errors import Conflict
from memory_service.schemas.fields import utc_text
from memory_service.services.database.transactions import Database, ReadTransaction, WriteTransaction
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.knowledge.learned_corrections import observed_profile, with_doubt
from memory_service.services.knowledge.snapshot import knowledge_at_hand, knowledge_with_traces
from memory_service.services.runs.late_work import LateWork
from memory_service.services.runs.outcome_evidence import count_again, forget, metric_direction, remember
from memory_service.services.runs.summaries import each_or_nothing, events_in, or_nothing
from memory_service.services.tables.audit import ANONYMOUS, note
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Run

_AT_ONCE = 50

MOST_READ = 100_000
"""Events that a conclusion reads, some 80 MB: of a run with more the latest ones, and as many of the latest
epochs, folds and notes."""

LATE_RATIO, LATE_SECONDS = 1.5, 5.0
"""Epochs that took so much longer than the run itself were reported afterwards."""

LEAST_SECONDS = 10.0
"""Imports alone take that long: a run that ended sooner, and timed nothing, trained nothing that a prediction
is about."""

BY_PERSON, IMPLAUSIBLE = "by_person", "implausible"
"""Why nothing of a run counts."""

SETUP_SECONDS = 120.0
"""What may pass before the first step when nothing was predicted."""


def read_outcome(
    transaction: ReadTransaction, run: Run, events: Iterable[tuple[int, str, str]] | None = None
) -> Outcome:
    """What happened so far, by the run's events (the work is in proportion to them, up to `MOST_READ`), or by
    some."""
    given, start = run.given, run.started_at.timestamp()
    some = _latest_events(transaction, run.id) if events is None else events
    told, n_train = events_in(some, start), given.get("n_train")
    return outcome_of(told, batch_size=run.batch_size, n_train=n_train, folds=given.get("folds"))


def _latest_events(transaction: ReadTransaction, run_id: str) -> Iterable[tuple[int, str, str]]:
    latest = runs.latest_events(transaction.session, run_id, MOST_READ)
    if len(latest) < MOST_READ:
        return latest
    marks = runs.latest_events(transaction.session, run_id, MOST_READ, marks=True)
    return {event[0]: event for event in (*latest, *marks)}.values()


class _Conclusions(LateWork):
    def do(self, database: Database, name: str) -> None:
        conclude(database, name)


def conclude_again(database: Database, run_id: str) -> None:
    """Conclude a run to which events were added after its end, as `LateWork`: one thread of a process reads
    such runs, and those to which one key adds take a share of a core, however many events come late."""
    database.caches.of(_Conclusions).ask(database, {run_id: ASKER.get() or run_id})


def conclude(database: Database, run_id: str) -> None:
    """Draw the conclusion of a run that has ended and keep it: what it says of its device, and of the advice
    it had; nothing for one that still runs.

    It is drawn before the transaction that others wait for, and again there only where the run was changed
    meanwhile. The knowledge revision rises where either differs from what was known of this run, and again
    where its place is counted otherwise.
    """
    with database.read() as transaction:
        begun = runs.find(transaction.session, run_id)
        if begun is None:
            return
        outcome = read_outcome(transaction, begun)
        summary = outcome.as_dict() | {"events_read": sum(outcome.counts.values())}
        direction = metric_direction(transaction, begun, summary)
    judge = _judge(database, begun)
    drawn = _drawn(begun, outcome, direction, judge)
    if drawn is None:
        return
    with database.write_untracked() as transaction:
        now = runs.find(transaction.session, run_id, to_change=True)
        if now is not None:
            same = _told(now) == _told(begun)
            _write_conclusion(
                transaction, now, summary, drawn if same else _drawn(now, outcome, direction, judge)
            )
    count_again(database, begun, begun.told_by)


def conclude_silent(database: Database, run_ids: Iterable[str]) -> None:
    """The same for runs that told nothing. Nobody need judge what they say, and all are written at once, but
    for those that cannot be concluded."""
    with database.write_untracked() as transaction:

        def write(run: Run) -> None:
            outcome = read_outcome(transaction, run, ())
            told = outcome.as_dict() | {"events_read": 0}
            direction = metric_direction(transaction, run, told)
            _write_conclusion(transaction, run, told, _drawn(run, outcome, direction, lambda one: one))

        each_or_nothing(transaction, runs.find_several(transaction.session, run_ids), write)
    count_again(database)


Drawn = tuple[dict[str, Any], list[dict[str, Any]]]
"""Values of a run's columns, and its observations in the wire form."""


def _told(run: Run) -> tuple[Any, ...]:
    """What somebody may have changed while a conclusion was drawn from it, besides the events."""
    return run.finish, run.finished_at, run.prediction


def _drawn(
    run: Run, outcome: Outcome, direction: str | None, judge: Callable[[Observation], Observation]
) -> Drawn | None:
    """What the run's columns say of its outcome, and what is learned of it; None of one that still runs."""
    if not run.finish or run.finished_at is None:
        return None
    found = _judged(judge, _observations(run, outcome))
    figures = _figures(run, outcome, found) | _wasted(run, outcome, direction)
    return figures | _best(run, outcome, direction), found


def _write_conclusion(
    transaction: WriteTransaction, run: Run, summary: Mapping[str, Any], drawn: Drawn | None
) -> None:
    if drawn is None:
        return
    if _outdated(run, summary):
        if run.exclusion is None:
            remember(transaction, run, run.summary)
        return
    changes, found = drawn
    if run.exclusion is not None:
        unknown = {"who": "?", "at": utc_text(transaction.now.isoformat()), "why": "?"}  # it is damaged
        learned = {"observations": found, "excluded": changes["excluded"]}
        changes["exclusion"] = unknown | run.exclusion | learned
        changes["excluded"], found = BY_PERSON, []
    changes |= {"summary": summary, "updated_at": transaction.now}
    runs.change(transaction.session, run.id, changes)
    known = [dict(wire) for wire in runs.observations_of(transaction.session, run.id)]
    if run.exclusion is None:  # first, as who excludes does: both write rows that others' runs have
        remember(transaction, run, summary, taught=found != known)
    if found != known:
        runs.replace_observations(transaction.session, run.id, found, transaction.now)


def _judged(
    judge: Callable[[Observation], Observation], found: Iterable[Observation]
) -> list[dict[str, Any]]:
    """In the wire form. What fed a network is not believed more than its steps."""
    judged = [judge(one) for one in found]
    doubt = next((one.doubt for one in judged if one.doubt), None)
    return [replace(one, doubt=one.doubt or doubt).as_dict() if one.part == "loader" else one.as_dict()
            for one in judged]  # fmt: skip


def mark_excluded(
    database: Database, run_id: str, why: str, who: str | None, *, excluded: bool, confirms: bool = True
) -> None:
    """Count a run nowhere, as if it had never been; or as it did before, and where it was not excluded, for
    whoever asks (Conflict unless it `confirms`). NotFound."""
    with database.write_untracked() as transaction:
        session, now = transaction.session, transaction.now
        run = runs.existing(session, run_id, to_change=True)
        if excluded and run.exclusion is not None:
            return
        done = "excluded" if excluded else "restored" if run.exclusion is not None else "confirmed"
        if done == "confirmed":
            if not confirms:
                raise Conflict(f"Run {run_id} is not excluded: it counts, and there is nothing to restore")
            case = (run.prediction or {}).get("case")
            if case is None or case.get("confirmed"):
                return
            confirmed = {**run.prediction, "case": case | {"confirmed": True}}
            values: dict[str, Any] = {"prediction": confirmed, "told_by": ""}
            taught = [{**wire, "confirmed": True} for wire in runs.observations_of(session, run_id)]
        elif run.exclusion is None:
            taught = [dict(wire) for wire in runs.observations_of(session, run_id)]
            said = {"who": who or ANONYMOUS, "at": utc_text(now.isoformat()), "why": why}
            exclusion = said | {"observations": taught, "excluded": run.excluded}
            values = {"exclusion": exclusion, "excluded": BY_PERSON}
            taught = []
            forget(transaction, run)
        else:
            taught = run.exclusion.get("observations", [])
            values = {"exclusion": null(), "excluded": run.exclusion.get("excluded")}
        if not excluded and run.finish and run.finished_at is not None:
            remember(transaction, run, run.summary or {}, taught=True)
        runs.change(session, run_id, values | {"updated_at": now})
        runs.replace_observations(session, run_id, taught, now)
        note(transaction, "runs", run_id, "update", f"{done}: {why}", who=who)
    if excluded:
        or_nothing(run_id, lambda: count_again(database, run))
    else:
        conclude(database, run_id)


def _judge(database: Database, run: Run) -> Callable[[Observation], Observation]:
    """What says of an observation of the run whether it can be; it asks no database."""
    case = (run.prediction or {}).get("case")
    if case is None:
        return lambda one: one
    known = knowledge_at_hand(database)
    if observed_profile(known.priced, Observation.from_dict(case)) is None:  # traced since
        known = knowledge_with_traces(database)
    return lambda one: with_doubt(known.cards, known.priced, one, run.n_train)


def count_waste(database: Database, stop: threading.Event | None = None) -> int:
    """Count what was wasted by runs that ended under an older program, or whose server was killed before it
    did; how many."""
    done, after = 0, ""
    while stop is None or not stop.is_set():
        with database.read() as transaction:
            found = runs.without_waste(transaction.session, after, _AT_ONCE)
            wasted = {
                run.id: or_nothing(run.id, partial(_read_waste, transaction, run))
                for run in found
                if run.finish
            }
            counted = {run_id: values for run_id, values in wasted.items() if values is not None}
        if not found:
            break
        with database.write_untracked() as writing:
            for run_id, values in counted.items():
                runs.add_waste(writing.session, run_id, values)
        done, after = done + len(counted), found[-1].id
    return done


def _read_waste(transaction: ReadTransaction, run: Run) -> dict[str, Any]:
    outcome = read_outcome(transaction, run)
    return _wasted(run, outcome, metric_direction(transaction, run, outcome.as_dict()))


def _ran_seconds(run: Run) -> float:
    """Of a run that has ended."""
    assert run.finished_at is not None  # noqa: S101 - it has ended
    return (run.finished_at - run.started_at).total_seconds()


def _outdated(run: Run, summary: Mapping[str, Any]) -> bool:
    """Whether somebody read more events than these: meanwhile, or before raw samples were thinned."""
    return bool((run.summary or {}).get("events_read", -1) > summary["events_read"])


def _observations(run: Run, outcome: Outcome) -> list[Observation]:
    prediction: Mapping[str, Any] = run.prediction or {}
    case = prediction.get("case")
    if case is None or run.finished_at is None:
        return []
    if _too_short(run, outcome) and not _late(run, outcome):
        return []
    setup = prediction.get("setup_seconds") or {"high": SETUP_SECONDS}
    ending = Ending(run.finish["status"], _ran_seconds(run), setup["high"], run.finish.get("batch_size"))
    at = run.finished_at.astimezone(dt.UTC).replace(tzinfo=None).isoformat() + "Z"
    of = replace(Observation.from_dict(case), run_id=run.id, source=f"run {run.id}", at=at)
    found = observations_of(
        of, outcome, ending, n_train=run.given.get("n_train"), folds=run.given.get("folds")
    )
    return [*found, *_fed(run, of, outcome)] if prediction.get("loader_samples_per_second") else found


def _fed(run: Run, of: Observation, outcome: Outcome) -> list[Observation]:
    """What the run says of its input pipeline, where it says more than was predicted."""
    prediction: Mapping[str, Any] = run.prediction or {}
    cores, workers = prediction["inputs"]["cpu_count"], run.given.get("num_workers")
    if workers is None:
        workers = int(loader_settings(cores, run.task)["num_workers"])
    fed = loader_observation(of, outcome, run.task, modality_of(run.task), workers, cores)
    usual = 1.0 / prediction["loader_samples_per_second"]["value"]
    return [] if fed is None or (fed.at_most_seconds or 0.0) > usual else [fed]


def _wasted(run: Run, outcome: Outcome, direction: str | None) -> dict[str, Any]:
    """What of the run brought nothing (`domain.runs.wasted_minutes`)."""
    predicted = (run.prediction or {}).get("epoch_seconds") or {}
    if predicted.get("grade") != "measured" and _excluded(run, outcome) not in ("contended", "throttled"):
        predicted = {}  # a law that misses is the service's error, not the run's waste
    good = succeeded(run.finish["status"], run.finish.get("submission"))
    minutes, high = _ran_seconds(run) / 60.0, predicted.get("high")
    waste = waste_of(outcome, minutes=minutes, succeeded=good, direction=direction, epoch_seconds_high=high)
    return {"wasted_minutes": waste.minutes, "wasted_on": waste.most, "waste": dict(waste.parts)}


def _best(run: Run, outcome: Outcome, direction: str | None) -> dict[str, Any]:
    """The best validation metric by the epochs, the mean over folds, where the end does not say it."""
    if run.finish.get("best_metric") is not None:
        return {}
    folds: dict[int, list[float | None]] = {}
    for epoch in outcome.epochs:
        folds.setdefault(epoch.fold, []).append(loss_of(epoch.reported.get("metric")))
    best = [one for fold in folds.values() if (one := best_of(fold, direction)) is not None]
    if not best:
        return {}
    found = {"best_metric": sum(value for value, _ in best) / len(best)}
    if len(folds) == 1 and run.finish.get("best_epoch") is None:
        found["best_epoch"] = outcome.epochs[best[0][1] - 1].epoch
    return found


def _figures(run: Run, outcome: Outcome, found: list[dict[str, Any]]) -> dict[str, Any]:
    """What the list of runs shows of the outcome: at the run's own batch."""
    mine = own_observation(found, run.batch_size)
    step = mine["step_seconds"] if mine is not None else None
    minutes, completed = _ran_seconds(run) / 60.0, run.finish["status"] == "completed"
    return {
        "samples_per_second": mine["batch_size"] / step if step and mine else None,
        "peak_gib": mine["peak_driver_gib"] if mine is not None else outcome.peak.driver_gib,
        "epoch_seconds": outcome.epoch_seconds,
        "excluded": IMPLAUSIBLE if mine and mine["doubt"] else _excluded(run, outcome),
        "total_minutes": minutes if completed and minutes >= 0.0 else None,
    }


def _excluded(run: Run, outcome: Outcome) -> str | None:
    if _unseen(run):
        return "no_card"
    if _late(run, outcome):
        return "late"
    processor = ((run.prediction or {}).get("case") or {}).get("cores") is not None
    return "too_short" if _too_short(run, outcome) else exclusion_of(outcome, processor=processor)


def _too_short(run: Run, outcome: Outcome) -> bool:
    """Whether it ended before anything was timed. One that ran out of memory says so at once."""
    if run.finish["status"] == "out_of_memory" or outcome.out_of_memory:
        return False
    if outcome.steady or outcome.fits_told or len(outcome.step_windows) > 1:
        return False
    return _ran_seconds(run) < LEAST_SECONDS


def _late(run: Run, outcome: Outcome) -> bool:
    """Whether it was reported when it had run: its epochs took longer than it was known to run."""
    trained = sum(epoch.seconds or 0.0 for epoch in outcome.epochs)
    return trained > LATE_RATIO * _ran_seconds(run) + LATE_SECONDS


def _unseen(run: Run) -> bool:
    """Whether it ran where no card was seen, under the name of its plan's card."""
    facts = (run.watch or {}).get("facts", {})
    return (run.given.get("host") or {}).get("gpu_seen") is False and facts.get("device_kind") == "cuda"
