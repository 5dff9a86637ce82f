"""`/`: ask, and see the plan; its training script as a file; which hardware to take."""

import datetime as dt
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of, mode_limit_of, server_of
from memory_service.domain.common.units import minutes as minutes_words
from memory_service.domain.common.vocabulary import MODES
from memory_service.domain.planning.explanation.plan_text import plan_markdown, plan_view
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.ask import ask_page, ask_script, understood
from memory_service.services.pages.choose import choose_page
from memory_service.services.pages.plans import runs_of_plan
from memory_service.services.pages.run_list import runs_page
from memory_service.web.charts.base import SHAPES, axis, deadline, line, option, points
from memory_service.web.site import HEADERS, MOST_PLAIN, Form, Here, Pages, answer, query_of, see, url_of
from memory_service.web.text import title_of

router = Pages()


@router.page("/")
def ask(request: Request) -> Response:
    query = _within_limit(request, query_of(request))
    database = database_of(request)
    data = ask_page(database, knowledge_of(database), query)
    query = data["asked"]
    if not query:
        data["now"] = runs_page(database, {"limit": "5"}, dt.datetime.now(dt.UTC))
    plan = data["plan"]
    data["followed"] = runs_of_plan(database, plan["plan_id"]) if plan else []
    status = data.pop("status", 200)
    view = plan_view(plan) if plan else None
    if data["errors"] and all(data["errors"].values()):
        data["refused"] = "; ".join(f"{title_of(name)}: {text}" for name, text in data["errors"].items())
    url = f"{server_of(request)}/recommend"
    short = len(query.get("description", "")) <= MOST_PLAIN
    ask_for = f"'{url}?{urlencode(query, safe='/,:@')}'" if short else f"--json @question.json '{url}'"
    return answer(
        request,
        "ask/page.html",
        data,
        title=f"Plan for {plan['task']}" if plan and plan["task"] else "Plan",
        status=status,
        command=f"curl {ask_for}",
        script_command=f"curl -o train.py -H 'Accept: text/x-python' {ask_for}" if data["script"] else None,
        text=plan_markdown(plan) if plan else None,
        view=view,
        text_of_settings="\n".join(f"{each.name} = {each.value!r}" for each in view.settings) if view else "",
        charts={"quality": quality_over_minutes(data["points"])} if data["points"] else {},
        here=Here("/", query),
    )


def _within_limit(request: Request, query: Mapping[str, str]) -> Mapping[str, str]:
    """What is asked, in the mode that the server and the key allow."""
    limit, mode = mode_limit_of(request), query.get("mode", "open")
    stricter = mode in MODES and MODES.index(mode) < MODES.index(limit)
    return {**query, "mode": limit} if query and stricter else query


@router.page("/browse/choose")
def choose(request: Request) -> Response:
    """Which box to take."""
    query = {name: value.strip() for name, value in query_of(request).items() if value.strip()}
    if query.keys() == {"objective"}:
        query = {}
    data = choose_page(database_of(request), query, mode_limit_of(request))
    status = data.pop("status", 200)
    return answer(request, "ask/choose.html", data, title="Which hardware", status=status)


@router.form("/")
def ask_by_form(_request: Request, form: Form) -> Response:
    """To the question's address."""
    return see(url_of("/", _filled(form)))


@router.form("/browse/understand")
def understand(request: Request, form: Form) -> Response:
    """What the question says so far: its facts, and the plan in short where a GPU is known."""
    database = database_of(request)
    data = understood(database, knowledge_of(database), _within_limit(request, _filled(form)))
    view = plan_view(data["plan"]) if data["plan"] else None
    return answer(request, "ask/understood.html", data, title="What was understood", view=view)


_TICK = "technique-"


def _filled(form: Mapping[str, str]) -> dict[str, str]:
    """The fields of a question; ticked techniques are one of them."""
    filled = {name: value.strip() for name, value in form.items() if value.strip() and name != "csrf"}
    ticked = [name.removeprefix(_TICK) for name in filled if name.startswith(_TICK)]
    filled = {name: value for name, value in filled.items() if not name.startswith(_TICK)}
    return filled | {"techniques": ",".join(ticked)} if ticked else filled


@router.get("/browse/script.py")
def script(request: Request) -> Response:
    """The plan's script as a file: a link cannot send the Accept header of /recommend."""
    query = _within_limit(request, query_of(request))
    text = ask_script(database_of(request), query, server_of(request))
    name = "blend.py" if "blend" in query else "train.py"
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, headers=headers, media_type="text/x-python")


def quality_over_minutes(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Best quality of each budget, models within this one, the objectives' picks; None where no plan fits.

    data   `points` of `services.pages.ask`
    """
    if not data["front"]:
        return None
    budget = data["budget_minutes"]
    # A budget five times this one is another question, and would take half the width.
    front = [p for p in data["front"] if p["minutes"] <= 5 * budget] or data["front"][:1]
    placed, mark = [_at(point) for point in front], deadline(budget, f"budget, {minutes_words(budget)}")
    best = line("best for the minutes", placed, colour="var(--series-1)", step="end", markLine=mark)
    series = [best]
    chosen = {pick["model"] for pick in data["picks"].values()}
    others = [p for p in data["models"] if p["model"] not in chosen]
    if others:
        series.append(
            points("other models, within the budget", [_at(p) for p in others], colour="var(--series-8)")
        )
    at: dict[tuple[float, float, str], list[str]] = {}
    for objective, pick in data["picks"].items():
        at.setdefault((pick["minutes"], pick["quality_index"], pick["model"]), []).append(objective)
    for number, ((minutes, quality, model), objectives) in enumerate(at.items(), start=2):
        mine = data["objective"] in objectives
        label = ", ".join(f"{name} (this plan)" if name == data["objective"] else name for name in objectives)
        place, colour = [{"value": [minutes, quality], "name": model}], f"var(--series-{number})"
        size, symbol = (16, "circle") if mine else (11, SHAPES["claimed"])
        series.append(points(label, place, colour=colour, symbolSize=size, symbol=symbol))
    highest = max(p["quality_index"] for p in (*data["front"], *data["models"]))
    top = {"max": 100} if highest > 90 or len(front) == 1 else {}  # of an index of 100
    quality_axis = axis("Expected quality, index within the task", at="y", scale=True, nameGap=26) | top
    chart = option(axis("Smallest budget that holds the plan, min", "log"), quality_axis, series)
    return chart | {"tooltip": {"trigger": "item"}}


def _at(point: Mapping[str, Any]) -> dict[str, Any]:
    return {"value": [point["minutes"], point["quality_index"]], "name": point["model"]}
