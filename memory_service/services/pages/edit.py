"""Pages that correct rows: one in a form, many in a table brought back, with the difference before it is
stored; and a change, however many rows it has."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from memory_service.domain.common.row_difference import difference
from memory_service.errors import Conflict, FieldError, InvalidInput, unknown_name, wrong_value
from memory_service.schemas.rows import ROW_MODELS, fields_of, validate
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import MOST_ROWS, EncoderSource, changed_together, one_change
from memory_service.services.editorial.import_file import (
    MOST_LINES,
    ImportedLine,
    apply,
    form_of,
    kind_of,
    look,
    schema_of,
    stamp,
    value_of,
)
from memory_service.services.knowledge.asker import still_wanted
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.strategies import effect_on_plans
from memory_service.services.tables.table_rows import CORRECTABLE, get_row, history_of, told
from memory_service.store.queries import rows

EMPTY: Mapping[str, str] = {}

_PAGES = {"gpus": "devices", "claims": "conflicts"}
"""Table -> the page of its rows, where that has another name."""


def page_of(table: str) -> str:
    """Where rows of a table that can be corrected are shown; InvalidInput with the nearest names."""
    if table not in CORRECTABLE:
        raise unknown_name("table", table[:80], CORRECTABLE)
    return f"/browse/{_PAGES.get(table, table)}/"


def import_page(database: Database, table: str, text: str | None = None) -> dict[str, Any]:
    """`{"table", "key", "lines", "left_out", "counts", "stamp", "effect"}`: what each line of `text` would do
    (lines that do nothing are only counted), without one `lines` is None; InvalidInput for a table that is
    not corrected, and for a text that is no table.

    stamp    of all of it, to apply only what was seen
    effect   of strategy rows: as `effect_on_plans`
    """
    page_of(table)
    page: dict[str, Any] = {"table": table, "key": rows.key_of(rows.ENTITIES[table]), "lines": None}
    page |= {"left_out": 0, "counts": {}, "stamp": "", "effect": None}
    if text is None:
        return page
    lines = _looked(database, text, table)
    counts = Counter(one.outcome for one in lines)
    telling = [one for one in lines if one.outcome != "there"]
    shown = [asdict(one) for one in telling[:MOST_ROWS]]
    changed = {str(one.key): one.values or {} for one in telling if one.outcome == "changed"}
    if table == "strategies" and changed:
        page["effect"] = effect_on_plans(database, knowledge_of(database), changed)
    counted = {name: counts[name] for name in ("taken", "changed", "refused", "there")}
    left_out = len(telling) - len(shown)
    return page | {"lines": shown, "left_out": left_out, "counts": counted, "stamp": stamp(lines)}


def _looked(database: Database, text: str, table: str) -> list[ImportedLine]:
    """What a table would do; InvalidInput where that is more than one change."""
    lines = look(database, text, table, MOST_LINES, still_wanted)
    one_change(sum(each.outcome in ("taken", "changed") for each in lines))
    return lines


def apply_import(
    database: Database, table: str, text: str, seen: str, *, encoder: EncoderSource, who: str | None, why: str
) -> int:
    """Store what the lines add and change: the number of the change. Conflict where that is not what was
    `seen`, InvalidInput where nothing changes."""
    lines = _looked(database, text, table)
    if stamp(lines) != seen:
        raise Conflict("The file or its rows changed since you looked; nothing of yours is kept yet.")
    number = apply(database, lines, encoder=encoder, who=who, why=why)
    if number is None:
        raise wrong_value("text", "changes nothing")
    return number


def change_page(database: Database, number: int) -> dict[str, Any]:
    """`{"change", "at", "who", "why", "can_undo", "rows", "left_out"}`: what was written in one change, a row
    an entry of its history with its `page`, as many as one change may have now; NotFound."""
    with database.read() as transaction:
        entries = changed_together(transaction, number)
        shown = [{**one, "page": page_of(one["table"])} for one in told(transaction, entries[:MOST_ROWS])]
    left_out = len(entries) - len(shown)
    can_undo = not left_out and all(one["can_undo"] for one in shown)
    signed = {name: shown[0][name] for name in ("at", "who", "why")}
    return {"change": number, **signed, "can_undo": can_undo, "rows": shown, "left_out": left_out}


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
    fields.sort(key=lambda field: field["name"] != "statement")  # its numbers are corrected with the values
    return {"table": table, "key": key, "version": row["version"], "row": row, "fields": fields}


def _parts(value: Any, written: str | None) -> dict[str, Any]:
    """How an object or a list is entered without JSON, where it is simple."""
    try:
        now = value_of(written, "json") if written else value
    except ValueError:
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
            changes[name] = value_of(form[name].strip(), kind_of(table, name))
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
    """A form that was filled from an older version, over the row as it is now: what its writer left alone, a
    field, a piece of one (`value.batch_size`) or a cell (`to.split`), follows the row; and what somebody
    changed since: [{"field", "before", "after"}], empty when nobody did.

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
    for name, filled in form.items():
        if _field(name) in own and filled.strip() == _shown(read, name).strip():
            moved[name] = _shown(now, name)
    for name in {_field(name) for name in form if "." in name.removeprefix("to.")} & set(own):
        was, is_now = read.get(name), now.get(name)
        if isinstance(is_now, Mapping):  # what somebody added to it
            added = is_now.keys() - (was if isinstance(was, Mapping) else {}).keys()
            moved = {f"{name}.{part}": in_form(is_now[part]) for part in added} | moved
    return moved, changes


def _field(name: str) -> str:
    return name.removeprefix("to.").partition(".")[0]


def _shown(row: Mapping[str, Any], name: str) -> str:
    """What a row's form shows under this name."""
    value, (_, _, part) = row.get(_field(name)), name.removeprefix("to.").partition(".")
    if part == "lines" and isinstance(value, list):
        return "\n".join(map(str, value))
    return in_form((value.get(part) if isinstance(value, Mapping) else None) if part else value)


def in_form(value: Any) -> str:
    """A value as it stands in a form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, indent=1) if isinstance(value, dict | list) else str(value)


def _kind(table: str, name: str) -> dict[str, Any]:
    """How a field is entered: kind `text`, `long`, `number`, `choice` or `json`."""
    schema, kind = schema_of(table)[name], kind_of(table, name)
    form = form_of(schema)
    options = form.get("enum", [form.get("const")]) if kind == "choice" else []
    return {
        "kind": "choice" if kind == "boolean" else kind,
        "options": ["true", "false"] if kind == "boolean" else options,
        "required": ROW_MODELS[table].model_fields[name].is_required(),
        "about": schema.get("description", ""),
    }
