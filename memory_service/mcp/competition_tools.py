"""The tool that adds to what is known: a new competition."""

from __future__ import annotations

from typing import Any

from memory_service.api.routes.rows import split_signature
from memory_service.api.service import Service
from memory_service.mcp import tool_answers as shapes
from memory_service.mcp.schemas import given_by, takes
from memory_service.mcp.tool import Answer, Caller, Tool, hints, threaded
from memory_service.schemas.rows import addition_of
from memory_service.schemas.validation_errors import checked
from memory_service.services.editorial.curation import add_row

_Competition = addition_of("competitions")


@threaded
def remember_competition(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    body = {name: value for name, value in arguments.items() if value is not None}
    values, signature = split_signature(checked(_Competition, body))
    if caller.name is not None:
        signature["who"] = caller.name
    database = service.preparation.require_knowledge()
    row = add_row(database, "competitions", values, encoder=service.preparation.encoder, **signature)
    data = {name: row[name] for name in shapes.Remembered.model_fields if name in row} | {"row": row}
    inferred = ", ".join(f"{name}={row.get(name)}" for name in row["inferred"])
    read = f"; read from its text: {inferred}" if inferred else ""
    return Answer(f"{row['slug']} is known now ({row['task']}){read}", data)


TOOLS = (
    Tool(
        "remember_competition",
        "Remember a competition",
        "Add a competition that find_similar_competitions does not know yet, so that later questions profit "
        "from it. The description says what is predicted, from what data, how it is judged; task, metric and "
        "sizes are read from it where you leave them out. A slug that is known already is refused.",
        "edit",
        takes(_Competition),
        given_by(shapes.Remembered),
        hints(reads=False, repeats=False),
        remember_competition,
    ),
)
