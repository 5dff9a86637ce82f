"""The tools of an agent: plan, review, fit, report, look, find, remember.

Each takes the few fields that an agent says most, and in `more` any other field of the same request over
HTTP; both are checked by the model that HTTP checks by. The structured answer has all that the text has, for
clients show their model only one of them.
"""

import datetime as dt
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import anyio.from_thread

from memory_service.api.answer_text import (
    begun_text,
    choice_text,
    clock_lines,
    compared,
    fit_text,
    reviewed_text,
    run_text,
    similar_text,
    verdict_text,
)
from memory_service.api.routes.knowledge import split_signature
from memory_service.api.service import Service
from memory_service.domain.common.quoted_text import as_markdown
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.vocabulary import PRECISIONS
from memory_service.domain.planning.explanation.plan_text import plan_markdown
from memory_service.errors import InvalidInput, unknown_name, wrong_value
from memory_service.mcp.tool import Answer, Call, Caller, Scope, Tool, takes, unquoted
from memory_service.schemas.choose import ChooseRequest
from memory_service.schemas.events import as_json_value
from memory_service.schemas.predict import PredictRequest
from memory_service.schemas.recommend import RecommendBody
from memory_service.schemas.review import ReviewRequest
from memory_service.schemas.rows import addition_of
from memory_service.schemas.runs import STATUSES, RunFinish, RunStart
from memory_service.schemas.similar import SimilarRequest
from memory_service.schemas.validation_errors import checked
from memory_service.services.access.keyring import RUN_BYTES
from memory_service.services.access.keys import check_stated
from memory_service.services.choice.choose import choose_offer
from memory_service.services.competitions.similar import similar
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import add_row
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import known_plan, recommend, shown
from memory_service.services.prediction.predict import predict
from memory_service.services.review.review import review_script
from memory_service.services.runs.run_log import take_log
from memory_service.services.runs.runs import begin_run, finish_run, mark_run, run_page
from memory_service.services.runs.telemetry import take_events

_WORDS = shipped_table(__package__, "tools.toml")
_NEXT: Mapping[str, str] = {name: text.strip() for name, text in _WORDS["next"].items()}

TAKES_BACK = ("exclude", "restore")
"""Arguments for which there are bytes beyond the quota, as over HTTP."""

FORMS = ("plan", "text", "script", "choose")

_OF_A_PLAN = "\nThe script of plan-"
"""Of the docstring of each generated script: such a file may be written anew."""


def plan(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    form, save_to = arguments.pop("form", None) or "plan", arguments.pop("save_to", None)
    if form == "choose" or "offers" in arguments:
        chosen = choose_offer(
            service.preparation.require_knowledge(), checked(ChooseRequest, arguments), caller.limit(service)
        )
        brief = {name: part for name, part in chosen.items() if name not in ("frontier", "facts")}
        return Answer(choice_text(chosen), brief, _NEXT["choose"])
    if form not in FORMS:
        raise wrong_value("form", f"must be one of {', '.join(FORMS)}", form)
    query = checked(RecommendBody, arguments)
    question = query.to_domain().within(caller.limit(service))
    answer = recommend(service.preparation.require_knowledge(), question)
    if not answer["feasible"]:
        needed = _NEXT["questions" if answer.get("needs") else "closest"]
        return Answer(plan_markdown(answer), shown(answer, query.parts), needed)
    head = {"plan_id": answer["plan_id"], "run": answer["run"]}
    if form == "script" or save_to is not None:
        where, told = _script(answer, save_to, caller)
        return Answer("", {**head, **where}, f"{told} {_NEXT['script']}")
    text = plan_markdown(answer)
    return Answer(
        text, {**head, "text": text} if form == "text" else shown(answer, query.parts), _NEXT["plan"]
    )


def _script(answer: Mapping[str, Any], save_to: Any, caller: Caller) -> tuple[dict[str, Any], str]:
    """Where the script of a plan is, and that in words: in a file on this machine, else under an address."""
    script = plan_script(answer)  # NoScript where there is none
    if caller.address is not None:
        run = "" if answer["run"] is None else f"?run={answer['run']}"
        url = f"{caller.address}/plans/{answer['plan_id']}/train.py{run}"
        return {"url": url}, f"Get it by: curl -o train.py '{url}'."
    if not isinstance(save_to, str) or not save_to.strip():
        raise wrong_value("save_to", "is required: the file that the script is written to", save_to)
    path = Path(save_to).expanduser()
    try:
        if path.exists() and _OF_A_PLAN not in path.read_text("utf-8", "replace")[:2_000]:
            raise wrong_value("save_to", "is a file that no plan wrote: choose another name", save_to)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
    except OSError as error:
        raise wrong_value("save_to", f"cannot be written: {error}", save_to) from None
    return {"path": str(path), "bytes": len(script)}, f"Written to {path} ({len(script)} bytes)."


def review(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    database = service.preparation.require_knowledge()
    path, plan_id = arguments.pop("path", None), arguments.pop("plan_id", None)
    if path is not None:
        if caller.address is not None:
            raise wrong_value("path", "is read on the agent's own machine only: give script", path)
        try:
            arguments |= {"script": Path(path).expanduser().read_text("utf-8"), "filename": Path(path).name}
        except (OSError, UnicodeDecodeError) as error:
            raise wrong_value("path", f"cannot be read: {error}", path) from None
    if plan_id is not None:
        arguments["plan"] = _known_plan(service, plan_id, caller)
    answer = review_script(database, checked(ReviewRequest, arguments).explicit(), in_child_process=True)
    return Answer(reviewed_text(answer), answer, _NEXT["launch" if answer["ok"] else "correct"])


def _known_plan(service: Service, plan_id: Any, caller: Caller) -> dict[str, Any]:
    if not isinstance(plan_id, str):
        raise wrong_value("plan_id", "must be the id of a plan", plan_id)
    return known_plan(service.preparation.require_knowledge(), plan_id, limit=caller.limit(service))


def fit(service: Service, arguments: dict[str, Any], _: Caller) -> Answer:
    answer = predict(service.preparation.require_knowledge(), checked(PredictRequest, arguments))
    return Answer(fit_text(answer), answer)


def report(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    """Begins the run where there is none yet, then takes an event or a piece of log, then the end."""
    _check_names(arguments, _REPORT)
    database = service.preparation.require_knowledge()
    told = {name: value for name, value in arguments.items() if value is not None}
    run_id, facts, event = told.get("run_id"), _object_of(told, "run"), _object_of(told, "event")
    data, lines, after = {"run_id": run_id}, list[str](), "reported"
    if facts or "plan_id" in told or run_id is None:
        ids = {name: told[name] for name in ("run_id", "plan_id") if name in told}
        start = unquoted(facts, _fields(RunStart)) | ids
        started, new = begin_run(database, start, who=caller.name, since=not {"log", *_END}.isdisjoint(told))
        service.quotas.add(caller.key_id, size=RUN_BYTES if new else 0)
        data, after = _begun(started), "begun"
        lines.append(begun_text(data, new=new))
    if event or "log" in told:
        data |= _reported(service, database, str(data["run_id"]), told.get("log"), event, caller)
        lines.append(verdict_text(data["verdict"]))
    if end := {name: told[name] for name in _END if name in told}:
        page = finish_run(database, str(data["run_id"]), unquoted(end, _fields(RunFinish)), who=caller.name)
        data |= {name: page[name] for name in ("status", "finished_at", "comparison", "next_minutes")}
        lines += [f"run {page['id']}: {page['status']}", *compared(page), *clock_lines(page["next_minutes"])]
        data["run_id"], left = page["id"], page["next_minutes"] or {}
        after = "rest" if left.get("buys") and left["ask"] else "ended"
    return Answer(as_markdown("\n".join(lines)), data, _NEXT[after])


_END = ("status", "best_metric", "test_metric", "submission")


def _check_names(arguments: Mapping[str, Any], known: Collection[str]) -> None:
    if unknown := sorted(arguments.keys() - set(known)):
        raise unknown_name("argument", unknown[0], tuple(known))


def _object_of(told: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = told.get(name, {})
    if not isinstance(value, Mapping):
        raise wrong_value(name, "must be an object of fields", value)
    return {key: each for key, each in value.items() if each is not None}


def _begun(started: Mapping[str, Any]) -> dict[str, Any]:
    prediction = started["prediction"]
    kept = {name: started[name] for name in ("run_id", "status", "notes")}
    expected = {name: prediction.get(name) for name in _PREDICTED}
    return {**kept, "expected": expected, "why_not": prediction.get("why_not")}


_PREDICTED = ("peak_memory_gib", "samples_per_second", "epoch_seconds", "total_minutes")


def _reported(
    service: Service, database: Database, run_id: str, log: Any, event: dict[str, Any], caller: Caller
) -> dict[str, Any]:
    """What became of an event and of a piece of log; the verdict on them."""
    taken: dict[str, Any] = {"accepted": 0, "verdict": None}
    if log is not None:
        taken = take_log(database, run_id, (str(log).removesuffix("\n") + "\n").encode())
        service.quotas.add(caller.key_id, events=taken["accepted"])
    if event:
        event = {name: as_json_value(value) for name, value in event.items()}
        chosen = "seq" not in event
        event.setdefault("at", dt.datetime.now(dt.UTC).isoformat())
        while True:
            if chosen:
                event["seq"] = max(event.get("seq", 0) + 1, time.time_ns() // 1_000)
            try:
                answer = anyio.from_thread.run(take_events, database, run_id, {"events": [event]})
            except InvalidInput as error:
                raise InvalidInput(error.detail.replace("events.0.", "event."), error.errors) from None
            if answer["accepted"] or not chosen:
                break
        names = ("accepted", "duplicates", "ignored", "verdict")
        taken |= {"seq": event["seq"], **{name: answer[name] for name in names}}
    return taken


def look(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    run_id, plan_id = arguments.get("run_id"), arguments.get("plan_id")
    _check_names(arguments, ("run_id", "plan_id"))
    if plan_id is not None:
        answer = _known_plan(service, plan_id, caller)
        return Answer(plan_markdown(answer), shown(answer, ()))
    if not isinstance(run_id, str):
        raise wrong_value("run_id", "is required: what report gave; or plan_id", run_id)
    page = run_page(service.preparation.require_knowledge(), run_id)
    return Answer(as_markdown(run_text(page)), _shown(page))


def _shown(page: Mapping[str, Any]) -> dict[str, Any]:
    """Of a run what an agent acts on: the rest is at GET /runs/{id}."""
    return {
        "run_id": page["id"],
        **{name: page[name] for name in _OF_A_RUN},
        **{name: page["outcome"][name] for name in _OF_AN_OUTCOME},
    }


_OF_A_RUN = (
    "status", "plan_id", "model", "best_metric", "verdict", "comparison", "learned", "notes", "next_minutes",
    "watch",
)  # fmt: skip
_OF_AN_OUTCOME = ("epochs_done", "epoch_seconds", "peak_memory_gib", "last_event_after_seconds")


def find(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    query = checked(SimilarRequest, arguments).within(caller.limit(service))
    answer = similar(service.preparation.require_knowledge(), query).as_dict()
    return Answer(as_markdown(similar_text(answer)), answer)


def remember(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    given = {name: value for name, value in arguments.items() if value is not None}
    if len(given) != 1 or given.keys() - {"competition", "solution", *TAKES_BACK}:
        others = "or solution, exclude, restore: give one of them, as an object of fields"
        raise wrong_value("competition", others, sorted(given))
    (kind,) = given
    if kind in TAKES_BACK:
        return _marked(service, _object_of(given, kind), caller, excluded=kind == "exclude")
    table = f"{kind}s"
    body = unquoted(_object_of(given, kind), _fields(addition_of(table)))
    values, signature = split_signature(checked(addition_of(table), body))
    if caller.name is not None:
        signature["who"] = caller.name
    database = service.preparation.require_knowledge()
    if caller.name is None and "who" in signature:
        check_stated(database, signature["who"])
    row = add_row(database, table, values, encoder=service.preparation.encoder, **signature)
    if kind == "solution":
        return Answer(f"{row['id']} is known now", {"id": row["id"], "version": row["version"], "row": row})
    read = ", ".join(f"{name}={row.get(name)}" for name in row["inferred"])
    task = row["task"] or "its task cannot be told from the description: correct it"
    told = f"{row['slug']} is known now ({task})" + (f"; read from its text: {read}" if read else "")
    return Answer(told, {"slug": row["slug"], "inferred": row["inferred"], "row": row})


def _marked(service: Service, told: Mapping[str, Any], caller: Caller, *, excluded: bool) -> Answer:
    """A run that counts nowhere from now on, or again. No agent confirms what one key alone told."""
    _check_names(told, ("run_id", "why"))
    run_id, why = (str(told.get(name) or "") for name in ("run_id", "why"))
    database, who = service.preparation.require_knowledge(), caller.name
    page = mark_run(database, run_id, why, excluded=excluded, who=who, confirms=False)
    text = "\n".join(page["learned"]) or "It counts again."
    return Answer(text, {"run_id": page["id"], "exclusion": page["exclusion"]})


def _fields(model: Any) -> dict[str, Any]:
    properties: dict[str, Any] = takes(model)["properties"]
    return properties


def _own(tool: str, **shapes: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a tool that no request has, with what `tools.toml` says of them."""
    return {name: {**shape, "description": _WORDS[tool][name]} for name, shape in shapes.items()}


def _alone(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [], "additionalProperties": False}


def _tool(name: str, scope: Scope, shape: dict[str, Any], call: Call, model: Any = None) -> Tool:
    words = _WORDS[name]
    return Tool(name, words["title"], words["about"].strip(), scope, shape, call, model)


_TEXT, _OBJECT = {"type": "string"}, {"type": "object"}
_FORM = {"type": "string", "enum": list(FORMS)}
_REPORT = _own(
    "report", run_id=_TEXT, plan_id=_TEXT, run=_OBJECT, event=_OBJECT, log=_TEXT,
    status={"type": "string", "enum": list(STATUSES)}, best_metric={"type": "number"},
    test_metric={"type": "number"}, submission={"type": "boolean"},
)  # fmt: skip
_REMEMBERED = _own("remember", competition=_OBJECT, solution=_OBJECT, exclude=_OBJECT, restore=_OBJECT)
_ASKED = ("description", "task", "gpu", "minutes", "n_train", "metric", "competition", "model", "run")
_FITTED = ("model", "gpu", "image_size", "seq_len", "batch_size", "precision")
_REVIEWED = ("script", "gpu", "minutes", "n_train")

TOOLS = (
    _tool(
        "plan",
        "read",
        takes(RecommendBody, _ASKED, **_own("plan", form=_FORM, save_to=_TEXT)),
        plan,
        RecommendBody,
    ),
    _tool(
        "review",
        "read",
        takes(ReviewRequest, _REVIEWED, required=(), **_own("review", path=_TEXT, plan_id=_TEXT)),
        review,
        ReviewRequest,
    ),
    _tool(
        "fit",
        "read",
        takes(PredictRequest, _FITTED, enums={"precision": (*PRECISIONS, "amp")}),
        fit,
        PredictRequest,
    ),
    _tool("report", "tell", _alone(_REPORT), report),
    _tool("look", "read", _alone(_own("look", run_id=_TEXT, plan_id=_TEXT)), look),
    _tool("find", "read", takes(SimilarRequest, tuple(SimilarRequest.model_fields)), find, SimilarRequest),
    _tool("remember", "edit", _alone(_REMEMBERED), remember),
)
