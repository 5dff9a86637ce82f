"""Verdicts on a run: made, answered and stored."""

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from cachetools import LRUCache

from memory_service.domain.monitoring.decision import verdict
from memory_service.domain.monitoring.event import SETTING_FIELDS
from memory_service.domain.monitoring.live_view import live_view
from memory_service.domain.monitoring.plausibility import requested_seconds
from memory_service.domain.monitoring.state import Expectation, RunFacts, State
from memory_service.domain.monitoring.summary import KIB_PER_GIB, Summary
from memory_service.domain.monitoring.verdict import Followed, Verdict, followed
from memory_service.domain.runs.run_outcome import Peaks
from memory_service.errors import Conflict, OutOfSpace, Unavailable
from memory_service.schemas.events import ReportedEvent
from memory_service.schemas.fields import utc_text
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.runs.expectations import expected_of
from memory_service.services.runs.next_minutes import FACTS, next_minutes
from memory_service.services.runs.observations import read_outcome
from memory_service.services.runs.summaries import or_nothing, read_summary, remembered
from memory_service.store.queries import run_summaries as watched
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Run, RunAdvice

ANEW_SECONDS = 5.0
"""Between samples and epochs, which only show more of the same, the verdict of the last 5 s of the run's own
time stands: it looks at minutes. An epoch that took as long is news by itself."""

MORE_OF_THE_SAME = frozenset({"gpu", "batch", "epoch"})
MOST_REMEMBERED = 512
MOST_ADVICE = 200


@dataclass(eq=False)
class _Watched:
    """What this process knows of an active run: what it is compared with, and its last verdict.

    signs     what of its summary calls for a new verdict at once; at_us: own time of the last verdict
    advised   (action, numbers) of the last advice kept; None = not looked up yet
    arrived_at  when the last new event arrived, by the service's clock; None = not to this process
    """

    facts: RunFacts
    expected: Expectation
    start: float
    at_us: int = -1
    signs: tuple[Any, ...] = ()
    wire: dict[str, Any] = field(default_factory=dict)
    advised: tuple[str, Mapping[str, Any]] | None = None
    arrived_at: float | None = None


@dataclass(eq=False)
class _Memory:
    lock: threading.Lock = field(default_factory=threading.Lock)
    runs: LRUCache[str, _Watched] = field(default_factory=partial(LRUCache, MOST_REMEMBERED))

    def get(self, run_id: str) -> _Watched | None:
        with self.lock:
            return self.runs.get(run_id)


def run_verdict(database: Database, run_id: str) -> dict[str, Any] | None:
    """The verdict on all events of the run, and on its silence since, where it is going on just now. The
    same events in any order give the same one; asking writes nothing. With it what the minutes that are left
    would buy. None where its figures cannot be judged. NotFound."""
    with database.read() as transaction:
        run = runs.existing(transaction.session, run_id)
        state = state_of(transaction, run)
        made = or_nothing(run_id, lambda: verdict(state).as_dict())
        facts: dict[str, Any] = {name: getattr(run, name) for name in FACTS}
    if made is None:
        return None
    facts["watch"] = or_nothing(run_id, lambda: live_view(state))
    return made | {"next_minutes": or_nothing(run_id, lambda: next_minutes(database, facts))}


def remembered_verdict(
    database: Database, run_id: str, reported: Sequence[ReportedEvent], kinds: Collection[str], latest: float
) -> dict[str, Any] | None:
    """`reported_verdict` on these new events of a running run, of these kinds and the latest of that moment
    (seconds since 1970), from what this process remembers. None where the database has to be asked, or takes
    new advice."""
    known = database.caches.of(_Memory).get(run_id)
    if known is None or not known.wire or known.signs[0] != "running":
        return None
    known.arrived_at = time.time()
    if not _stands(known, reported, kinds, latest):
        summary = remembered(database, run_id)
        if summary is None:
            return None
        or_nothing(run_id, lambda: _renew(known, summary, "running", kinds))
    return known.wire if known.wire and _advice(known) == known.advised else None


def _stands(
    known: _Watched, reported: Sequence[ReportedEvent], kinds: Collection[str], latest: float
) -> bool:
    """Whether these events, by themselves, cannot call for another verdict."""
    if (latest - known.start) * 1e6 - known.at_us >= ANEW_SECONDS * 1e6:
        return False
    names: set[str] = set().union(*[fields for _, _, fields in reported])
    if not MORE_OF_THE_SAME.issuperset(kinds) or not _SIGNS.isdisjoint(names):
        return False
    if "train_loss" in names and (
        known.signs[1] or str in {type(fields.get("train_loss")) for _, _, fields in reported}
    ):
        return False
    return "epoch" not in kinds or not any(
        kind == "epoch" and (fields.get("seconds") or 0.0) >= ANEW_SECONDS for _, kind, fields in reported
    )


_SIGNS = frozenset((*SETTING_FIELDS, "out_of_memory", "error")) - {"metric_name"}
"""What may call for a new verdict at once; so does a loss that is no number, which is kept as text."""


def reported_verdict(
    database: Database, run_id: str, status: str, kinds: Collection[str], *, new: bool
) -> dict[str, Any] | None:
    """The verdict in the answer to reported events, None where they cannot be judged; what is advised is
    stored.

    kinds   of the reported events; new: whether any of them was new
    """
    known = _watched(database, run_id)
    if new:
        known.arrived_at = time.time()
    summary = remembered(database, run_id) if new else None
    if summary is None:
        with database.read() as transaction:
            summary = read_summary(transaction, run_id, known.start)
    or_nothing(run_id, lambda: _renew(known, summary, status, kinds))
    with contextlib.suppress(Conflict, OutOfSpace, Unavailable):  # the events themselves are on disk
        if known.wire:
            or_nothing(run_id, lambda: _keep_advice(database, run_id, known))
    return known.wire or None


def _renew(known: _Watched, summary: Summary, status: str, kinds: Collection[str]) -> None:
    """Make the verdict anew, where that may change it: in a millisecond, since summaries are small."""
    stated = tuple(reported[2] for _, reported in sorted(summary.settings.items()))
    timed = ((key, each["seconds"][2]) for key, each in summary.epochs.items() if "seconds" in each)
    long = [key for key, seconds in timed if seconds >= ANEW_SECONDS]
    signs = (
        status, _is_bad(summary), summary.out_of_memory_us, summary.error_us, stated, max(long, default=None),
    )  # fmt: skip
    stale = summary.last_us - known.at_us >= ANEW_SECONDS * 1e6 or signs != known.signs
    if not known.wire or stale or not MORE_OF_THE_SAME.issuperset(kinds):
        state, known.wire = State(replace(known.facts, status=status), summary, known.expected), {}
        known.wire = verdict(state).as_dict()
        known.at_us, known.signs = summary.last_us, signs


def _is_bad(summary: Summary) -> bool:
    """Whether the latest training loss is no number."""
    bad, good = summary.bad_loss_us, summary.good_loss_us
    return bad is not None and (good is None or good <= bad)


def watched_page(transaction: ReadTransaction, run: Run) -> dict[str, Any]:
    """`{"outcome", "verdict", "watch", "verdicts", "log"}` of a run's page."""
    state = state_of(transaction, run)
    current = or_nothing(run.id, lambda: verdict(state).as_dict())
    log = watched.log_of(transaction.session, run.id)
    given = watched.advice_of(transaction.session, run.id, MOST_ADVICE)
    return {
        "outcome": run.summary or outcome_so_far(transaction, run, state.summary),
        "verdict": current,
        "watch": or_nothing(run.id, lambda: live_view(state)),
        "verdicts": [
            {
                "given_at": utc_text(each.given_at.isoformat()),
                "followed": _now(answer, each.verdict, current),
                **{name: each.verdict.get(name) for name in _SHOWN},
            }
            for answer, each in or_nothing(run.id, lambda: _judged(transaction, run, state, given)) or ()
        ],
        "log": None if log is None else {name: getattr(log, name) for name in _LOG},
    }


def _judged(
    transaction: ReadTransaction, run: Run, state: State, given: Sequence[RunAdvice]
) -> list[tuple[Followed | None, RunAdvice]]:
    """Each advice with whether it was followed."""
    after = runs.started_after(transaction.session, run) if any(a.verdict.get("set") for a in given) else []
    return [(followed(each.at_seconds, each.verdict, state, after), each) for each in given]


def _now(answer: Followed | None, advice: Mapping[str, Any], current: Mapping[str, Any] | None) -> str | None:
    """What may still be followed is replaced where another answer holds by now."""
    known = current or advice
    same = (advice["action"], advice["set"]) == (known["action"], known["set"])
    return answer if answer != "open" or same else "replaced"


def gravest_advice(
    transaction: ReadTransaction, run: Run, given: Sequence[RunAdvice], summary: Summary
) -> dict[str, Any] | None:
    """`{"action", "rule", "severity", "at_seconds", "followed"}` of the verdict that holds now, of a run that
    goes on; else of its gravest advice that was not followed (of equal ones the latest), else of its latest;
    None before the first."""
    if given and run.status == "running":
        current = or_nothing(run.id, lambda: verdict(state_of(transaction, run, summary)))
        answer: Followed | None = None if current is None or current.action == "continue" else "open"
        return None if current is None else _brief(current, answer)
    if not given:
        return None
    facts, expected = expected_of(run)
    state = State(facts, summary, expected)
    judged = or_nothing(run.id, lambda: _judged(transaction, run, state, given))
    if not judged:
        return None
    left = [one for one in judged if one[0] in ("no", "open")] or judged[-1:]
    answer, advice = max(left, key=lambda one: (_GRAVITY[one[1].severity], one[1].number))
    return _brief(advice, answer)


def _brief(advice: Verdict | RunAdvice, answer: Followed | None) -> dict[str, Any]:
    shown = {name: getattr(advice, name) for name in ("action", "rule", "severity", "at_seconds")}
    return {**shown, "followed": answer}


_GRAVITY = {"info": 0, "warning": 1, "critical": 2}

_SHOWN = ("at_seconds", "action", "set", "rule", "severity", "why")
_LOG = ("offset", "lines", "understood", "clipped")


def state_of(transaction: ReadTransaction, run: Run, summary: Summary | None = None) -> State:
    """All that a verdict is made of; summary: of all events, read where it is not given."""
    facts, expected = expected_of(run)
    started, begun = run.started_at.timestamp(), run.created_at.timestamp()
    summary = summary or read_summary(transaction, run.id, started)
    requested = None
    if run.status == "running":
        known, now = transaction.caches.of(_Memory).get(run.id), time.time()
        arrived_at = begun if not summary.events else None if known is None else known.arrived_at
        since = None if arrived_at is None else now - arrived_at
        requested = requested_seconds(summary.last_us / 1e6, started, begun, now, since)
    return State(facts, summary, expected, requested)


def _watched(database: Database, run_id: str) -> _Watched:
    memory = database.caches.of(_Memory)
    known = memory.get(run_id)
    if known is not None:
        return known
    with database.read() as transaction:
        run = runs.existing(transaction.session, run_id)
        known = _Watched(*expected_of(run), run.started_at.timestamp())
    with memory.lock:
        return memory.runs.setdefault(run_id, known)


def _advice(known: _Watched) -> tuple[str, Mapping[str, Any]]:
    return known.wire["action"], known.wire["set"]


def _keep_advice(database: Database, run_id: str, known: _Watched) -> None:
    """One row each time the action or its numbers change; "continue" only where it takes advice back."""
    current, advice = known.wire, _advice(known)
    if known.advised is None:
        with database.read() as transaction:
            last = watched.last_advice(transaction.session, run_id)
        known.advised = ("continue", {}) if last is None else (last.action, last.verdict.get("set", {}))
    if advice != known.advised and not current["action"] == known.advised[0] == "continue":
        row = {name: current[name] for name in ("at_seconds", "action", "rule", "severity")}
        with database.write_untracked() as transaction:
            row |= {"given_at": dt.datetime.now(dt.UTC), "verdict": current}
            watched.add_advice(transaction.session, run_id, row)
    known.advised = advice


ALL_READ = 3_000
"""Events of a run that are all read: some 15 ms."""

SAMPLES_READ, MARKS_READ = 1_000, 2_500
"""Of a longer one the latest samples, and the latest epochs, folds and notes."""


def outcome_so_far(transaction: ReadTransaction, run: Run, summary: Summary) -> dict[str, Any]:
    """The wire form of `domain.runs.run_outcome`. Of a run with more than `ALL_READ` events, `device`
    is of
    its latest samples, and epochs before the latest `MARKS_READ` are counted, not shown."""
    if summary.events <= ALL_READ or sum(summary.counts.values()) != summary.events:
        return read_outcome(transaction, run).as_dict()
    marks = runs.latest_events(transaction.session, run.id, MARKS_READ, marks=True)
    samples = runs.latest_events(transaction.session, run.id, SAMPLES_READ)
    reported = {one[0]: one for one in (*samples, *marks)}
    outcome = read_outcome(transaction, run, reported.values())
    shown = outcome.as_dict()
    done = shown["epochs_done"] if len(marks) < MARKS_READ else summary.counts.get("epoch", 0)
    driver = _gib(summary, "driver") if summary.shared_us is None else None
    peaks = outcome.peak | Peaks(_gib(summary, "peak_allocated"), _gib(summary, "reserved"), driver)
    return shown | {
        "epochs_done": done,
        "epochs_left_out": done - len(shown["epochs"]),
        "peak_memory_gib": asdict(peaks),
        "events": dict(sorted(summary.counts.items())),
        "last_event_after_seconds": summary.last_us / 1e6,
    }


def _gib(summary: Summary, kind: str) -> float | None:
    kib = summary.peaks.get(kind)
    return None if kib is None else kib / KIB_PER_GIB
