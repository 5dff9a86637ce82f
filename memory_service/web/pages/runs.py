"""Runs: the list that goes on by itself, one of them, and the plan that they followed."""

import datetime as dt
from functools import partial
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.responses import Response

from memory_service.api.security.auth_middleware import who_of
from memory_service.api.service import database_of, mode_limit_of
from memory_service.domain.planning.explanation.plan_text import plan_view
from memory_service.errors import NotFound
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.choose import compare_page
from memory_service.services.pages.plans import plan_page, rest_of_run
from memory_service.services.pages.run_list import runs_page, runs_table
from memory_service.services.pages.runs import epochs_table, one_run_page
from memory_service.services.runs.runs import mark_run
from memory_service.web.charts import runs as draw
from memory_service.web.site import Form, Pages, answer, query_of, see, url_of, wants_json

STILL = "still"
"""In the query: the page is not to look again by itself."""

router = Pages()
router.computed_files("/browse/runs", runs_table)
router.files("/browse/runs/{run_id}/events", "run-events")
router.computed_files("/browse/runs/{run_id}/epochs", epochs_table)


@router.page("/browse/runs")
def run_list(request: Request) -> Response:
    query = query_of(request)
    still = query.pop(STILL, None) is not None
    data = runs_page(database_of(request), query, dt.datetime.now(dt.UTC))
    return answer(request, "runs/list.html", data, title="Runs", still=still)


@router.form("/browse/runs/{run_id}/{action}")
def marked(request: Request, run_id: str, action: str, form: Form) -> Response:
    """Exclude a run, or restore it."""
    if action not in ("exclude", "restore"):
        raise NotFound(f"Nothing called {action[:40]!r} can be done with a run")
    database, why = database_of(request), form.get("why", "")
    page = mark_run(database, run_id, why, excluded=action == "exclude", who=who_of(request))
    return see(f"/browse/runs/{page['id']}")


@router.page("/browse/compare")
def compare(request: Request) -> Response:
    """`run=` once for each."""
    pairs = parse_qsl(request.scope["query_string"].decode("ascii", "replace"))
    database, now = database_of(request), dt.datetime.now(dt.UTC)
    ids = [value for name, value in pairs if name == "run"]
    if not ids and not wants_json(request):
        return see("/browse/runs")
    data = compare_page(database, knowledge_of(database), ids, now)
    metrics = dict.fromkeys(run["metric"] for run in data["runs"])
    better = data["metric_direction"]
    over = partial(draw.compared_over_time, data["runs"])
    charts = {
        f"metric-{n}": over("metric", name or "Metric", only=name, direction=better)
        for n, name in enumerate(metrics)
    }
    loss, memory = over("valid_loss", "Validation loss"), over("peak_reserved_gib", "Reserved, GiB")
    charts |= {"loss": loss, "memory": memory}
    return answer(request, "runs/compare.html", data, title="Compare runs", charts=charts)


@router.page("/browse/plans/{plan_id}")
def plan(request: Request, plan_id: str) -> Response:
    """A plan that was given, with its runs."""
    data = plan_page(database_of(request), plan_id, dt.datetime.now(dt.UTC), mode_limit_of(request))
    view = plan_view(data["plan"]) if data["plan"] else None
    return answer(request, "plan.html", data, title=f"Plan {plan_id[:40]}", url_of=url_of, view=view)


@router.get("/browse/runs/{run_id}/rest")
def rest(request: Request, run_id: str) -> Response:
    """To the plan of the minutes that the run left."""
    return see(f"/browse/plans/{rest_of_run(database_of(request), run_id)}")


@router.page("/browse/runs/{run_id}")
def run(request: Request, run_id: str) -> Response:
    database = database_of(request)
    data = one_run_page(database, knowledge_of(database), run_id, dt.datetime.now(dt.UTC))
    losses = [("train_loss", "training loss"), ("valid_loss", "validation loss")]
    charts = {
        "memory": draw.memory_over_time(data),
        "speed": draw.speed_over_time(data),
        "waiting": draw.waiting_over_time(data),
        "loss": draw.scores_over_time(data, losses, "Loss"),
        "metric": draw.scores_over_time(data, [("metric", "validation metric")], "Metric"),
        "told": draw.verdicts_over_time(data),
    }
    title = f"Run {data['id'][:8]}, {data['model'][:100]}"
    still = STILL in query_of(request)
    return answer(request, "runs/one.html", data, title=title, charts=charts, still=still)
