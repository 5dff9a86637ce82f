"""Page that corrects a row: one field a column, the difference before it is stored."""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from memory_service.domain.common.row_difference import difference
from memory_service.errors import FieldError, InvalidInput, unknown_name, wrong_value
from memory_service.schemas.rows import ROW_MODELS, fields_of, validate
from memory_service.services.database.transactions import Database
from memory_service.services.tables.table_rows import CORRECTABLE, get_row, history_of
from memory_service.store.queries import rows

EMPTY: Mapping[str, str] = {}

_PAGES = {"gpus": "devices", "claims": "conflicts"}
"""Table -> the page of its rows, where that has another name."""


def page_of(table: str) -> str:
    """Where rows of a table that can be corrected are shown; InvalidInput with the nearest names."""
    if table not in CORRECTABLE:
        raise unknown_name("table", table[:80], CORRECTABLE)
    return f"/browse/{_PAGES.get(table, table)}/"


def edit_page(database: Database, table: str, key: str, form: Mapping[str, str] = EMPTY) -> dict[str, Any]:
    """`{"table", "key", "version", "row", "fields"}`; a field is `{"name", "kind", "value", "options",
    "required", "about", "parts"}`, `value` as it stands in the form. NotFound; InvalidInput for a table that
    is not corrected.

    parts   of kind "pairs" (an object of plain values): [[name, text]]; of kind "lines" (a list of texts):
            one text; else None. `form`: what was filled in, which they show
    """
    page_of(table)
    with database.read() as transaction:
        row = get_row(transaction, table, key)
    own = rows.key_of(rows.ENTITIES[table])
    fields = [
        {"name": name, "value": in_form(row[name]), **_kind(table, name), **_parts(row[name], form.get(name))}
        for name in fields_of(table)
        if name != own and name in row
    ]
    return {"table": table, "key": key, "version": row["version"], "row": row, "fields": fields}


def _parts(value: Any, written: str | None) -> dict[str, Any]:
    """How an object or a list is entered without JSON, where it is simple."""
    try:
        now = json.loads(written) if written else value
    except json.JSONDecodeError:
        now = None
    if (
        isinstance(value, dict)
        and value
        and isinstance(now, dict)
        and all(map(is_plain, (*value.values(), *now.values())))
    ):
        return {"kind": "pairs", "parts": [[name, in_form(each)] for name, each in now.items()]}
    if (
        isinstance(value, list)
        and value
        and isinstance(now, list)
        and all(isinstance(each, str) and "\n" not in each for each in (*value, *now))
    ):
        return {"kind": "lines", "parts": "\n".join(now)}
    return {"parts": None}


def is_plain(value: Any) -> bool:
    """Whether one input is enough for it."""
    return value is None or isinstance(value, str | int | float)


def changes_of(table: str, row: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a form that say something else than the row, as values; InvalidInput names each that
    cannot be read, or would not be a row."""
    own = rows.key_of(rows.ENTITIES[table])
    changes: dict[str, Any] = {}
    wrong: list[FieldError] = []
    for name in fields_of(table):
        if name == own or name not in form or form[name].strip() == in_form(row.get(name)).strip():
            continue
        try:
            changes[name] = _value(form[name].strip(), _kind(table, name)["kind"])
        except ValueError as error:
            wrong.append(FieldError(name, f"cannot be read: {error}", form[name][:80]))
    stored = {name: row.get(name) for name in fields_of(table)} | changes
    try:
        checked = validate(table, {name: value for name, value in stored.items() if value is not None})
    except InvalidInput as refused:
        wrong += refused.errors
        if not wrong:
            raise
    if wrong:
        raise InvalidInput("; ".join(f"{e.field} {e.message}" for e in wrong), wrong)
    return {name: checked[name] for name in changes}


def seen(row: Mapping[str, Any], changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """[{"field", "before", "after"}] that a change would make."""
    return difference({name: row.get(name) for name in changes}, changes)


def rebased(
    database: Database, table: str, page: Mapping[str, Any], form: Mapping[str, str]
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """A form that was filled from an older version, over the row as it is now: what its writer left alone
    follows the row; and what somebody changed since: [{"field", "before", "after"}], empty when nobody did.

    InvalidInput for a form that does not say which version it was filled from.
    """
    text, now = form.get("version", ""), page["row"]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise wrong_value("version", "is no number", text, detail="version must say which row was read")
    with database.read() as transaction:
        entries = history_of(transaction, table, page["key"])
    later = [entry for entry in entries if entry["version"] > int(text)]
    if not later:
        return dict(form), []
    read = later[-1]["before"] or {}
    own = fields_of(table)
    changes = difference({name: read.get(name) for name in own}, {name: now.get(name) for name in own})
    moved = dict(form) | {"version": str(page["version"])}
    for name in own:
        if name in form and form[name].strip() == in_form(read.get(name)).strip():
            moved[name] = in_form(now.get(name))
    return moved, changes


def in_form(value: Any) -> str:
    """A value as it stands in a form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, indent=1) if isinstance(value, dict | list) else str(value)


@cache
def _schema(table: str) -> dict[str, Any]:
    properties: dict[str, Any] = ROW_MODELS[table].model_json_schema()["properties"]
    return properties


def _kind(table: str, name: str) -> dict[str, Any]:
    """How a field is entered: kind `text`, `long`, `number`, `choice` or `json`."""
    model = ROW_MODELS[table]
    schema = _schema(table)[name]
    forms = [form for form in schema.get("anyOf", (schema,)) if form.get("type") != "null"]
    form = forms[0]
    required = model.model_fields[name].is_required()
    about = {"options": [], "required": required, "about": schema.get("description", "")}
    if "enum" in form or "const" in form:
        return about | {"kind": "choice", "options": form.get("enum", [form.get("const")])}
    if form.get("type") == "boolean":
        return about | {"kind": "choice", "options": ["true", "false"]}
    if form.get("type") in ("integer", "number"):
        return about | {"kind": "number"}
    if form.get("type") in ("object", "array") or "$ref" in form:
        return about | {"kind": "json"}
    return about | {"kind": "long" if form.get("maxLength", 0) > 1000 else "text"}


def _value(text: str, kind: str) -> Any:
    if text == "":
        return None
    if kind == "json":
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"no JSON ({error.msg} in line {error.lineno})") from None
    if kind == "number":
        for read in (int, float):
            with suppress(ValueError):
                return read(text)
        raise ValueError("must be a number")
    return {"true": True, "false": False}.get(text, text) if kind == "choice" else text
