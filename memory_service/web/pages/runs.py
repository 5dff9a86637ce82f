"""Runs: the list that goes on by itself, and one of them."""

from __future__ import annotations

import datetime as dt

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.knowledge import knowledge_of
from memory_service.services.runs_page import STATUSES, one_run_page, runs_page
from memory_service.web.charts.runs import (
    memory_over_time,
    scores_over_time,
    speed_over_time,
    told_over_time,
    waiting_over_time,
)
from memory_service.web.site import Pages, answer, query_of

__all__ = ["router"]

router = Pages()
router.files("/browse/runs", "runs")


@router.page("/browse/runs")
def run_list(request: Request) -> Response:
    """All runs, the latest first; and where last week's minutes went."""
    asked = query_of(request)
    still = asked.pop("still", None) is not None
    data = runs_page(database_of(request), asked, dt.datetime.now(dt.UTC))
    return answer(request, "runs/list.html", data, title="Runs", statuses=STATUSES, still=still)


@router.page("/browse/runs/{run_id}")
def run(request: Request, run_id: str) -> Response:
    """One run: curves, verdicts, plan against what happened."""
    database = database_of(request)
    data = one_run_page(database, knowledge_of(database), run_id)
    losses = [("train_loss", "training loss"), ("valid_loss", "validation loss")]
    charts = {
        "memory": memory_over_time(data),
        "speed": speed_over_time(data),
        "waiting": waiting_over_time(data),
        "loss": scores_over_time(data, losses, "Loss"),
        "metric": scores_over_time(data, [("metric", "validation metric")], "Metric"),
        "told": told_over_time(data),
    }
    title = f"Run {data['id'][:8]}, {data['model']}"
    return answer(request, "runs/one.html", data, title=title, charts=charts)
