"""The tools that add to what is known: a competition, or what won one."""

from typing import Any

from memory_service.api.routes.rows import split_signature
from memory_service.api.service import Service
from memory_service.mcp import tool_answers as shapes
from memory_service.mcp.schemas import given_by, takes
from memory_service.mcp.tool import Answer, Caller, Tool, hints, threaded
from memory_service.schemas.rows import addition_of
from memory_service.schemas.validation_errors import checked
from memory_service.services.access.keys import check_stated
from memory_service.services.editorial.curation import add_row

_Competition, _Solution = addition_of("competitions"), addition_of("solutions")


@threaded
def remember_competition(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    row = _added(service, "competitions", arguments, caller)
    data = {name: row[name] for name in shapes.Remembered.model_fields if name in row} | {"row": row}
    inferred = ", ".join(f"{name}={row.get(name)}" for name in row["inferred"])
    read = f"; read from its text: {inferred}" if inferred else ""
    task = row["task"] or "its task cannot be told from the description: correct it"
    return Answer(f"{row['slug']} is known now ({task}){read}", data)


@threaded
def remember_solution(service: Service, arguments: dict[str, Any], caller: Caller) -> Answer:
    row = _added(service, "solutions", arguments, caller)
    return Answer(f"{row['id']} is known now", {name: row[name] for name in ("id", "version")} | {"row": row})


def _added(service: Service, table: str, arguments: dict[str, Any], caller: Caller) -> dict[str, Any]:
    body = {name: value for name, value in arguments.items() if value is not None}
    values, signature = split_signature(checked(addition_of(table), body))
    if caller.name is not None:
        signature["who"] = caller.name
    database = service.preparation.require_knowledge()
    if caller.name is None and "who" in signature:
        check_stated(database, signature["who"])
    return add_row(database, table, values, encoder=service.preparation.encoder, **signature)


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
    Tool(
        "remember_solution",
        "Remember a solution",
        "Add what won a known competition, so that later plans profit from it: say what was read and leave "
        "out what is not known. Families, losses and techniques go by a fixed vocabulary; a name outside it "
        "is answered with the nearest. One that is known already, by competition and rank, is refused.",
        "edit",
        takes(_Solution, optimizer=()),
        given_by(shapes.RememberedSolution),
        hints(reads=False, repeats=False),
        remember_solution,
    ),
)
