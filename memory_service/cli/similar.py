"""`memory-service similar TEXT`: the past competitions that a description is like, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from memory_service.cli.output import JSON_OPTION, emit, table

__all__ = ["register", "render_similar"]


def register(app: typer.Typer) -> None:
    app.command("similar")(similar)


def similar(
    text: Annotated[
        str | None, typer.Argument(help="What the task is, in words; `-` reads it from stdin.")
    ] = None,
    competition: Annotated[str | None, typer.Option(help="A known competition instead of a text.")] = None,
    task: Annotated[str | None, typer.Option(help="The task, if the text may mislead.")] = None,
    limit: Annotated[str | None, typer.Option(help="How many; default 5.")] = None,
    mode: Annotated[str | None, typer.Option(help="open, family or blind.")] = None,
    database: Annotated[str | None, typer.Option(metavar="URL", help="Another database.")] = None,
    json: bool = JSON_OPTION,
) -> None:
    """Past competitions like this one, best first, each with the reason."""
    from memory_service.recall.encoder import load_encoder
    from memory_service.services.competitions.similar import parse_similar_question
    from memory_service.services.competitions.similar import similar as ask
    from memory_service.services.database.transactions import Database
    from memory_service.services.operations.database import ensure_ready
    from memory_service.settings import load_settings

    if text == "-":
        text = typer.get_text_stream("stdin").read()
    given = {"text": text, "competition": competition, "task": task, "limit": limit, "mode": mode}
    question = parse_similar_question({name: value for name, value in given.items() if value is not None})
    settings = load_settings(database_url=database)
    store = Database(settings.database_url)
    ensure_ready(store)
    answer = ask(store, question, load_encoder(settings.embedding_model or None))
    emit(answer.as_dict(), json, render_similar)


def render_similar(answer: Mapping[str, Any]) -> RenderableType:
    """What was understood of the text, then one line per neighbour."""
    parts: list[RenderableType] = []
    inferred = answer["inferred"]
    if inferred and inferred["task"]:
        told = ", ".join(inferred["evidence"][:4])
        parts.append(Text(f"task: {inferred['task']} ({100 * inferred['confidence']:.0f} %; {told})"))
    if answer["degraded"]:
        parts.append(Text(f"searched by words and structure alone: {answer['reason']}", style="yellow"))
    elif answer["reason"]:
        parts.append(Text(answer["reason"]))
    if answer["items"]:
        rows = [(f"{item['score']:.2f}", item["slug"], item["task"], item["why"]) for item in answer["items"]]
        parts.append(table(None, (">score", "competition", "task", "why"), rows))
    return Group(*parts)
