"""Verdicts on a run: made, answered and stored.

What the minutes that a run leaves would buy, by the planner: more folds, another model, or nothing.
"""

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import orjson
from cachetools import LRUCache

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.monitoring.decision import verdict
from memory_service.domain.monitoring.event import SETTING_FIELDS
from memory_service.domain.monitoring.live_view import live_view
from memory_service.domain.monitoring.plausibility import requested_seconds
from memory_service.domain.monitoring.state import Expectation, RunFacts, State
from memory_service.domain.monitoring.summary import KIB_PER_GIB, Summary
from memory_service.domain.monitoring.verdict import Followed, Verdict, followed
from memory_service.domain.planning.explanation.plan_text import is_run
from memory_service.domain.planning.request import Done, Question
from memory_service.domain.portfolio.run_sets import LEAST_GAIN
from memory_service.domain.runs.run_outcome import Peaks
from memory_service.errors import Conflict, MemoryServiceError, OutOfSpace, Unavailable
from memory_service.schemas.events import ReportedEvent
from memory_service.schemas.fields import utc_text
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.planning.recommend import cached_plan, question_of, recommend
from memory_service.services.runs.expectations import expected_of
from memory_service.services.runs.observations import read_outcome
from memory_service.services.runs.summaries import or_nothing, read_summary, remembered
from memory_service.services.tables.mode_limit import LIMIT
from memory_service.store.queries import run_summaries as watched
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Run, RunAdvice

FACTS = (
    "given", "plan_id", "status", "model", "best_metric", "total_minutes", "started_at", "finished_at"
)  # fmt: skip
"""What of a run is read, beside its `watch`."""

LEAST_MINUTES = 1.0
"""Less is left to nobody: a run's setup takes as long."""


def next_minutes(database: Database, page: Mapping[str, Any]) -> dict[str, Any] | None:
    """None where the run has no budget or no minutes are known of it. Asking writes nothing. A plan that
    rests on more of memory than the asker may use is not known.

    left            minutes of the budget that are not used; used_percent: of the budget
    left_at_end     the same when this run ends as it goes on now
    buys            [{"what": "folds" | "model" | "more", "set", "minutes", "points"}], best first; none while
                    its script goes on through other models by itself
                    points: of the quality index that the planner expects, None of folds
    ask             the fields that plan them, beside those of the question; None where its plan is not known
    says            the same as sentences (`Sentence.as_dict`)
    """
    budget, used = page["given"].get("minutes"), _used(page)
    plan_id = page["plan_id"]
    limit = LIMIT.get()
    plan = cached_plan(database, plan_id, limit) if plan_id else None
    budget = budget or (plan or {}).get("minutes")
    if not budget or used is None:
        return None
    end = ((page["watch"] or {}).get("end_minutes") or {}).get("value", used)
    at_end = max(used, end) if page["status"] == "running" else used
    left, later = max(0.0, budget - used), max(0.0, budget - at_end)
    out: dict[str, Any] = {"left": round(left, 2), "used_percent": round(100.0 * used / budget, 1)}
    out |= {"left_at_end": round(later, 2), "buys": [], "ask": None}
    question = question_of(database, plan_id) if plan is not None else None
    goes_on = page["status"] == "running" and page["given"].get("reserve_minutes") is not None
    if plan is not None and question is not None and plan["feasible"] and not goes_on:
        _weigh(database, page, plan, question.within(limit), at_end, out)
    return out | {"says": [each.as_dict() for each in _sentences(page, budget, out)]}


def _weigh(
    database: Database, page: Mapping[str, Any], plan: Mapping[str, Any], question: Question, at_end: float,
    out: dict[str, Any],
) -> None:  # fmt: skip
    """Add to `out` what the minutes buy and how to ask for it."""
    if page["status"] == "running":
        out["buys"] += _folds(page, plan, out["left_at_end"])
    done = _done(page, plan, question, at_end)
    whole = plan["minutes"] + sum(each.minutes for each in question.done)  # a text may say them
    left = out["left_at_end"]  # of its own budget, which may be less than the plan's
    if left >= LEAST_MINUTES and sum(each.minutes for each in done) + LEAST_MINUTES < whole:
        after = question.after or page["plan_id"]
        out["ask"] = {"after": after, "done": [_as_dict(each) for each in done]}
        found = _runs(database, page, replace(question, run=None, after=after, done=done))
        out["buys"] += [one for one in found if one["minutes"] <= left]


def _sentences(page: Mapping[str, Any], budget: float, found: Mapping[str, Any]) -> Iterator[Sentence]:
    clock = {"used": found["used_percent"], "budget": budget, "left": found["left"]}
    early = found["left"] >= WORTH_PLANNING * budget
    running, end = page["status"] == "running", (page["watch"] or {}).get("end_minutes")
    if running and end:
        yield sentence("minutes-left", **clock, later=found["left_at_end"])
    else:
        yield sentence("stopped-early" if early and not running else "minutes-used", **clock)
    for one in found["buys"][:_MOST_SAID]:
        yield sentence(f"buys-{one['what']}", **one["set"], minutes=one["minutes"], points=one["points"])
    if found["ask"] is not None and not found["buys"]:
        yield sentence("buys-nothing", least=LEAST_GAIN)
    if found["ask"] is not None and found["buys"] and page["status"] != "running":
        done = orjson.dumps(found["ask"]["done"]).decode()
        yield sentence("plan-the-rest", after=found["ask"]["after"], done=done)


WORTH_PLANNING = 0.2
"""Share of the budget that an agent should not leave unused."""

_MOST_SAID = 2


def _used(page: Mapping[str, Any]) -> float | None:
    """Minutes of a run so far, or in all: of one that was killed also those after its last report."""
    if page["status"] != "running" and page["total_minutes"] is not None:
        return float(page["total_minutes"])
    told = None if page["watch"] is None else float(page["watch"]["used_minutes"])
    if page["finished_at"] is None:
        return told
    begun, ended = (dt.datetime.fromisoformat(str(page[name])) for name in ("started_at", "finished_at"))
    return max((ended - begun).total_seconds() / 60.0, told or 0.0)


def _folds(page: Mapping[str, Any], plan: Mapping[str, Any], left: float) -> list[dict[str, Any]]:
    """The folds that the plan adds after a first submission (R17), as many of them as fit."""
    spare = next((e["set"]["folds"] for e in plan["on_trouble"] if e["when"] == _SPARE), 0)
    stages = [stage for stage in plan["timetable"] if stage["stage"].startswith(("fold ", "fit "))]
    folds = page["given"].get("folds") or plan["folds"]
    each = stages[-1]["deadline_minute"] - stages[-1]["start_minute"] if stages else left
    more = min(spare - folds, int(left / each)) if each > 0 else 0
    return [] if more < 1 else [_buys("folds", {"folds": folds + more}, more * each, None)]


_SPARE = "time_left_after_first_submission"


def _done(
    page: Mapping[str, Any], plan: Mapping[str, Any], question: Question, minutes: float
) -> tuple[Done, ...]:
    """The runs of the plan's portfolio up to this one, those before it as they were planned."""
    runs = plan["portfolio"]
    own = [run for run in runs if run["model"] == page["model"]]
    this = next((run for run in own if is_run(run, plan)), own[0] if own else runs[0])
    before = [run for run in runs if run["run"] < this["run"]]
    planned = [Done(run["run"], run["deadline_minute"] - run["start_minute"]) for run in before]
    return (*question.done, *planned, Done(this["run"], float(max(1, round(minutes))), page["best_metric"]))


def _runs(database: Database, page: Mapping[str, Any], question: Question) -> list[dict[str, Any]]:
    """The runs that the planner would train in what is left, each with the points it adds."""
    try:
        answer = recommend(database, question)
    except MemoryServiceError:  # its card or model was taken out since, or the knowledge gives another plan
        return []
    buys = answer["feasible"] and all(each["code"] != "stop-here" for each in answer["warnings"])
    found = [
        _buys(
            "more" if run["model"] == page["model"] else "model",
            {
                name: run[name]
                for name in ("model", "image_size", "seq_len", "folds", "epochs")
                if name in run
            },
            run["deadline_minute"] - run["start_minute"],
            run["expected_gain"],
        )
        for run in (answer["portfolio"] if buys else ())
    ]
    return sorted(found, key=lambda one: -one["points"])


def _buys(what: str, changes: dict[str, Any], minutes: float, points: float | None) -> dict[str, Any]:
    gain = None if points is None else round(points, 2)
    return {"what": what, "set": changes, "minutes": round(minutes, 1), "points": gain}


def _as_dict(done: Done) -> dict[str, Any]:
    metric = {} if done.metric is None else {"metric": done.metric}
    return {"run": done.run, "minutes": round(done.minutes, 2), **metric}


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
