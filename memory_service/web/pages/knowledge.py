"""What is known, table by table (models, patterns, solutions, strategies): a list, and one row of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import Request
from starlette.responses import Response

from memory_service.api.service import database_of
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.pages.knowledge import (
    model_page,
    models_page,
    pattern_page,
    patterns_page,
    solution_page,
    solutions_page,
)
from memory_service.services.pages.strategies import strategies_page, strategy_page
from memory_service.services.pages.techniques import techniques_page
from memory_service.web.charts.models import cost_by_size
from memory_service.web.site import Pages, answer, query_of
from memory_service.web.text import input_unit

router = Pages()

TITLES = {
    "strategies": "Strategy tables",
    "models": "Models",
    "patterns": "What worked",
    "solutions": "Winning solutions",
}

ListPage = Callable[[Database, Knowledge, Mapping[str, str]], dict[str, Any]]
RowPage = Callable[[Database, Knowledge, str], dict[str, Any]]


def _pages(table: str, list_page: ListPage, row_page: RowPage) -> None:
    router.files(f"/browse/{table}", table)

    @router.page(f"/browse/{table}")
    def rows(request: Request) -> Response:
        database = database_of(request)
        data = list_page(database, knowledge_of(database), query_of(request))
        return answer(request, f"{table}/list.html", data, title=TITLES[table])

    @router.page(f"/browse/{table}/{{key:path}}")
    def row(request: Request, key: str) -> Response:
        database = database_of(request)
        data = row_page(database, knowledge_of(database), key)
        charts = {}
        if table == "models":
            model = data["model"]
            unit = input_unit(model["input_kind"], model["name"], next(iter(model["tasks"]), None))
            charts = {"cost": cost_by_size(data["profiles"], unit)}
        return answer(request, f"{table}/one.html", data, title=key, charts=charts)


@router.page("/browse/techniques")
def techniques(request: Request) -> Response:
    data = techniques_page(knowledge_of(database_of(request)))
    return answer(request, "techniques.html", data, title="Techniques")


_pages("strategies", strategies_page, strategy_page)
_pages("models", models_page, model_page)
_pages("patterns", patterns_page, pattern_page)
_pages("solutions", solutions_page, solution_page)
