"""Page of a plan that was given: its question, the runs that followed it, and what they taught."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.planning.request import Done, Question
from memory_service.errors import MemoryServiceError, NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.pages.run_list import runs_page
from memory_service.services.planning.recommend import cached_plan, question_from, question_of, recommend
from memory_service.services.planning.script_choice import has_script
from memory_service.services.runs.runs import run_page
from memory_service.services.tables.table_rows import list_rows
from memory_service.store.queries import runs

MOST_RUNS, MOST_READ = 50, 10
"""Listed of a plan, and read for what they taught: the latest."""

_SAID_ANYWAY: Mapping[str, Any] = {"objective": "balanced", "mode": "open"}
_BY_OTHER_NAMES = ("gpus", "after", "done", "run")


def plan_page(database: Database, plan_id: str, now: dt.datetime, limit: Mode = "open") -> dict[str, Any]:
    """`{"plan_id", "plan", "again", "asked", "rest_of", "runs", "more", "taught", "script"}`. NotFound for a
    plan that is not kept and that no run followed.

    plan     the answer; of one that is not kept any more the answer to its question, where that is the same
             plan today
    again    the id of the answer to its question today, where that is another; None where it is not known
    asked    field -> text of its question; None where it is not known
    rest_of  the plan whose rest it plans, or None
    taught   [{"run_id", "model", "sentences"}] of its latest runs
    """
    listed = runs_page(database, {"plan_id": plan_id, "limit": str(MOST_RUNS)}, now)
    plan, question = cached_plan(database, plan_id, limit), question_of(database, plan_id)
    followed = listed["items"]
    if plan is None and not followed:
        raise NotFound(f"Plan {plan_id[:80]} is not kept, and no run followed it: ask for it again")
    question = question or _question_of_runs(database, [run["id"] for run in followed])
    again = None
    if plan is None and question is not None:
        found = _answer(database, replace(question, mode_limit=limit))
        again = found["plan_id"] if found else None
        plan = found if again == plan_id else None
    read = [run_page(database, run["id"]) for run in followed[:MOST_READ]]
    return {
        "plan_id": plan_id,
        "plan": plan,
        "again": again if again != plan_id else None,
        "asked": None if question is None else asked_of(question),
        "rest_of": None if question is None else question.after,
        "runs": followed,
        "more": listed["next"] is not None,
        "taught": [
            {"run_id": run["id"], "model": run["model"], "sentences": run["learned"]}
            for run in read
            if run["learned"]
        ],
        "script": plan is not None and has_script(plan),
    }


def runs_of_plan(database: Database, plan_id: str) -> list[dict[str, Any]]:
    """Its latest runs."""
    with database.read() as transaction:
        return list_rows(transaction, "runs", {"plan_id": plan_id}, "-started_at", MOST_READ).items


def rest_of_run(database: Database, run_id: str) -> str:
    """The id of the plan of the minutes that a run left of its plan's. NotFound where none are left, or its
    plan is not known; Conflict where the same question is answered with another plan by now."""
    page = run_page(database, run_id)
    ask = (page["next_minutes"] or {}).get("ask")
    question = question_of(database, page["plan_id"]) if ask else None
    if ask is None or question is None:
        raise NotFound(f"Nothing is left to plan after run {page['id']}, or its plan is not kept")
    done = tuple(Done(**each) for each in ask["done"])
    answer = recommend(database, replace(question, run=None, after=ask["after"], done=done))
    return str(answer["plan_id"])


def _question_of_runs(database: Database, ids: list[str]) -> Question | None:
    """What a run kept of its plan's question when it began."""
    with database.read() as transaction:
        kept = [(run.watch or {}).get("question") for run in runs.several(transaction.session, ids[:1])]
    return question_from(kept[0]) if kept and kept[0] else None


def _answer(database: Database, question: Question) -> dict[str, Any] | None:
    try:
        return recommend(database, question)
    except MemoryServiceError:  # its card or model is not known any more
        return None


def asked_of(question: Question) -> dict[str, str]:
    """The question as the fields of a form."""
    said = question.canonical()
    fields = {"gpu": ",".join(question.gpus)} if question.gpus else {}
    for name, value in said.items():
        if name in _BY_OTHER_NAMES or value == _SAID_ANYWAY.get(name):
            continue
        if name == "minutes" and not question.minutes_given:
            continue
        text = f"{value:g}" if isinstance(value, float) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        fields[name] = ",".join(value) if isinstance(value, list) else text
    return fields
