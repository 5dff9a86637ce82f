"""What the minutes that a run leaves would buy, by the planner: more folds, another model, or nothing."""

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.planning.explanation.plan_text import is_run
from memory_service.domain.planning.request import Done, Question
from memory_service.domain.portfolio.run_sets import LEAST_GAIN
from memory_service.errors import MemoryServiceError
from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import cached_plan, question_of, recommend
from memory_service.services.tables.mode_limit import LIMIT

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
