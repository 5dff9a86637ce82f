"""The tool that adds to what is known: a competition that nobody told of yet."""

from __future__ import annotations

from typing import Any

from memory_service.api.routes.rows import TOLD, split_correction
from memory_service.api.service import Service
from memory_service.mcp import shapes
from memory_service.mcp.schemas import given_by, of_fields, of_model, takes
from memory_service.mcp.tool import Answer, Caller, Tool, hints, threaded
from memory_service.services.editorial.curation import add_row
from memory_service.services.tables.row_models import ROW_MODELS

__all__ = ["TOOLS"]

_ROW = ROW_MODELS["competitions"]
_TOLD = {name: field for name, field in TOLD.items() if name != "version"}


@threaded
def remember_competition(service: Service, given: dict[str, Any], caller: Caller) -> Answer:
    values, told = split_correction({name: value for name, value in given.items() if value is not None})
    told.pop("version", None)
    if caller.name is not None:
        told["who"] = caller.name
    database = service.preparation.require_knowledge()
    row = add_row(database, "competitions", values, encoder=service.preparation.encoder, **told)
    shown = {name: row[name] for name in shapes.Remembered.model_fields if name in row} | {"row": row}
    inferred = ", ".join(f"{name}={row.get(name)}" for name in row["inferred"])
    read = f"; read from its text: {inferred}" if inferred else ""
    return Answer(f"{row['slug']} is known now ({row['task']}){read}", shown)


TOOLS = (
    Tool(
        "remember_competition",
        "Remember a competition",
        "Add a competition that find_similar_competitions does not know yet, so that later questions profit "
        "from it. The description says what is predicted, from what data, how it is judged; task, metric and "
        "sizes are read from it where you leave them out. A slug that is known already is refused.",
        "edit",
        takes(
            {**of_model(_ROW), **of_fields(_TOLD)},
            [name for name, field in _ROW.model_fields.items() if field.is_required()],
        ),
        given_by(shapes.Remembered),
        hints(reads=False, repeats=False),
        remember_competition,
    ),
)
