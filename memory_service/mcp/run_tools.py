"""Tools that report a run: its begin, its events (answered with advice), its end."""

import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memory_service.api.service import Service
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.learning.scoring import error_words
from memory_service.domain.monitoring.verdict import figures
from memory_service.errors import InvalidInput, wrong_value
from memory_service.mcp import tool_answers as shapes
from memory_service.mcp.schemas import given_by, takes
from memory_service.mcp.tool import Answer, Caller, Tool, hints, spread, threaded
from memory_service.schemas.events import EVENT_FIELDS, as_json_value, event_schema
from memory_service.schemas.runs import RunFinish, RunStart
from memory_service.services.database.transactions import Database
from memory_service.services.runs.runs import begin_run, finish_run
from memory_service.services.runs.telemetry import take_events

_RUN_ID = {"type": "string", "description": "As start_run gave it."}

_LAUNCH = (
    "Launch it now, with MEMORY_MODE=disabled: you tell of it, so the script's own client must not begin a "
    "second run. report_progress after 60 s, then every epoch."
)

_PREDICTED = ("peak_memory_gib", "samples_per_second", "epoch_seconds", "total_minutes")


@threaded
def start_run(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    body = {name: value for name, value in arguments.items() if value is not None}
    started, new = begin_run(service.preparation.require_knowledge(), body, who=caller.name)
    prediction = started["prediction"]
    said = {name: prediction.get(name) for name in ("fits", "why_not")}
    expected = {name: prediction.get(name) for name in _PREDICTED}
    data = {"run_id": started["run_id"], "status": started["status"], "expected": expected}
    data |= said | {"notes": started["notes"]}
    lines = [
        f"run_id={started['run_id']}" + ("" if new else " (it had begun already)"),
        *(f"expected {name}: {spread(n)}" for name, n in data["expected"].items() if n is not None),
        *([f"nothing is predicted: {data['why_not']}"] if data["why_not"] else []),
        *started["notes"],
        _LAUNCH,
    ]
    return Answer("\n".join(lines), data)


async def report_progress(service: Service, arguments: dict[str, Any], _: Caller) -> Answer:
    run_id, event = _event(arguments)
    chosen = "seq" not in event
    event.setdefault("at", dt.datetime.now(dt.UTC).isoformat())
    database = service.preparation.require_knowledge()
    while True:
        if chosen:
            event["seq"] = max(event.get("seq", 0) + 1, time.time_ns() // 1_000)
        report = await _report(database, run_id, event)
        if report["accepted"] or not chosen:
            break
    names = ("accepted", "duplicates", "ignored", "verdict")
    data = {"run_id": run_id, "seq": event["seq"], **{name: report[name] for name in names}}
    again = "" if report["accepted"] else f"seq {event['seq']} was reported before: its first report stands\n"
    ignored = "".join(f"{one['field']} {one['value']} {one['why']}\n" for one in report["ignored"])
    return Answer(again + ignored + _verdict_text(report["verdict"]), data)


async def _report(database: Database, run_id: str, event: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return await take_events(database, run_id, {"events": [event]})
    except InvalidInput as error:  # of the one event whose fields are the arguments themselves
        errors = [replace(each, field=each.field.removeprefix(_FIRST)) for each in error.errors]
        raise InvalidInput(error.detail.replace(_FIRST, ""), errors) from None


_FIRST = "events.0."


def _event(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """(run id, event); a figure that is not finite becomes text, as JSON has none."""
    event = {name: as_json_value(value) for name, value in arguments.items() if value is not None}
    run_id = event.pop("run_id", None)
    if not isinstance(run_id, str):
        raise wrong_value("run_id", "is required: what start_run gave", run_id)
    return run_id, event


@threaded
def finish_of_run(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    run_id, body = _event(arguments)
    page = finish_run(service.preparation.require_knowledge(), run_id, body, who=caller.name)
    names = ("status", "finished_at", "comparison", "evidence")
    data = {"run_id": page["id"], **{name: page[name] for name in names}}
    lines = [f"run {page['id']}: {page['status']}"]
    lines += [
        f"{c['quantity']}: predicted {spread(c['predicted'])}, was {figures(c['actual'])} "
        f"({error_words(c['error_percent'], c['excluded'])})"
        for c in page["comparison"]
    ]
    return Answer("\n".join(lines), data)


def _verdict_text(verdict: Mapping[str, Any] | None) -> str:
    if verdict is None:
        return "It is kept. No verdict: the run's figures cannot be judged together; go on by the plan."
    settings = ", ".join(f"{name}={value}" for name, value in verdict["set"].items())
    eta = verdict["eta_minutes"]
    used = verdict["budget_used_percent"]
    lines = [
        f"{verdict['action']}" + (f": set {settings}" if settings else "") + f" ({verdict['severity']})",
        f"why: {verdict['why']} [{verdict['rule']}]",
        f"training ends in {spread(eta, 'min')}" if eta else "",
        f"{used:g} % of the budget used" if used is not None else "",
        f"look again in {verdict['next_check_seconds']:g} s",
        *verdict["notes"],
    ]
    return "\n".join(line for line in lines if line)


_MEANINGS = shipped_table(__package__, "event_fields.toml")


def _event_properties() -> dict[str, Any]:
    """Every field of every kind of event, once, with its kinds."""
    properties: dict[str, Any] = {
        "kind": {"type": "string", "enum": list(EVENT_FIELDS), "description": _KINDS_ABOUT},
        "seq": {
            "type": "integer",
            "minimum": 0,
            "description": "Number of this report in its run. Given: counted once however often it is sent, "
            "so repeat the call with the same seq when unsure. Left out: one is chosen, "
            "and every call counts.",
        },
        "at": {"type": "string", "description": "When it was, ISO 8601, UTC; now when left out."},
    }
    kinds = event_schema()["items"]["oneOf"]
    for kind in kinds:
        name_of_kind = kind["properties"]["kind"]["const"]
        for name, shape in kind["properties"].items():
            if name in ("kind", "seq", "at"):
                continue
            forms = [form for form in shape["anyOf"] if form["type"] != "null"]
            plain = {key: v for key, v in forms[0].items() if key in ("type", "enum")}
            if len(forms) > 1:
                plain = {"anyOf": [plain, {"type": "string", "enum": ["nan", "inf", "-inf"]}]}
            properties.setdefault(name, {**plain, "description": ""})
            properties[name]["description"] += (
                "/" if properties[name]["description"] else "of "
            ) + name_of_kind
    everywhere = "of " + "/".join(EVENT_FIELDS)
    for name, shape in properties.items():
        if shape["description"] == everywhere:
            shape["description"] = "a setting, as it is now"
        if name in _MEANINGS:
            shape["description"] += f": {_MEANINGS[name]}"
    return properties


_KINDS_ABOUT = (
    "epoch: after every epoch, with fold, epoch, seconds, losses, metric, peak_allocated_gib. gpu: a reading "
    "of the card. batch: within an epoch, step of steps. fold: one ended. note: text, or out_of_memory=true."
)

_EVENT = {
    "type": "object",
    "properties": {"run_id": _RUN_ID, **_event_properties()},
    "required": ["run_id", "kind"],
    "additionalProperties": False,
}

TOOLS = (
    Tool(
        "start_run",
        "Begin a run",
        "Say that a training begins, just before you launch it. With plan_id the plan fills in what you "
        "leave out; without, say task, gpu, model, batch_size, folds, epochs, n_train, minutes. Gives the "
        "run_id for report_progress and what to expect. With your own run_id (a UUID) calling twice is safe.",
        "tell",
        takes(RunStart),
        given_by(shapes.Begun),
        hints(reads=False, repeats=False),
        start_run,
    ),
    Tool(
        "report_progress",
        "Report progress, get the verdict",
        "Report ONE thing that happened in a run and get the verdict: continue, or what to change NOW (set), "
        "why, and when to look again. Call it 60 s after launch (kind=gpu or batch), after every epoch, and "
        "on out-of-memory (kind=note, out_of_memory=true). Obey the verdict.",
        "tell",
        _EVENT,
        given_by(shapes.Progress),
        hints(reads=False, repeats=False),
        report_progress,
    ),
    Tool(
        "finish_run",
        "End a run",
        "Say how a run ended, also when it crashed or ran out of memory: later plans learn from it. Gives "
        "predicted against measured.",
        "tell",
        takes(RunFinish, {"run_id": _RUN_ID}),
        given_by(shapes.Ended),
        hints(reads=False, repeats=True),
        finish_of_run,
    ),
)
