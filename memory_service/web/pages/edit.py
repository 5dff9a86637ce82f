"""Correcting rows, in a form or in a table brought back: the difference, a reason; taking a change back."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response

from memory_service.api.security.auth_middleware import signed
from memory_service.api.service import database_of, service_of
from memory_service.errors import Conflict, InvalidInput, Moved, wrong_value
from memory_service.services.editorial.curation import correct_row, reason_given, undo, undo_together
from memory_service.services.editorial.import_file import piece_of
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages import edit as corrections
from memory_service.services.pages.strategies import effect_on_plans
from memory_service.web.environment import reader_of
from memory_service.web.site import KEPT, READ_FILE, Form, FormWithFile, Pages, answer, see
from memory_service.web.text import plain, title_of

router = Pages()
router.files("/browse/claims", "claims")


@router.page("/browse/edit/{table}/{key:path}")
def edit(request: Request, table: str, key: str) -> Response:
    return _form(request, table, key, {})


@router.form("/browse/edit/{table}/{key:path}")
def edited(request: Request, table: str, key: str, form: Form) -> Response:
    """Show the difference (`step=look`), or save it (`step=save`)."""
    database = database_of(request)
    page = corrections.edit_page(database, table, key)
    form, meanwhile = corrections.rebased(database, table, page, form)
    form, back = _cells(page, form)
    if meanwhile:
        message = "Somebody changed this row since you read it; nothing of yours is kept yet."
        return _form(request, table, key, form, status=409, refused=message, meanwhile=meanwhile)
    try:
        changes = corrections.changes_of(table, page["row"], form)
        if form.get("step") != "save":
            looked, effect = corrections.seen(page["row"], changes), None
            if table == "strategies" and changes:
                effect = effect_on_plans(database, knowledge_of(database), {key: changes})
            return _form(request, table, key, form, looked=looked, effect=effect)
        correct_row(
            database,
            table,
            key,
            changes,
            encoder=service_of(request).preparation.encoder,
            who=_named(request, form),
            why=reason_given(form.get("why")),
            version=int(form["version"]),
        )
    except Moved:  # between reading and writing, just now
        return edited(request, table, key, form)
    except InvalidInput as refusal:
        errors = {error.field.partition(".")[0]: error.message for error in refusal.errors}
        said = "; ".join(f"{title_of(name)}: {text}" for name, text in errors.items() if name)
        said = said or refusal.detail
        return _form(request, table, key, form, status=422, refused=said, errors=errors)
    if back.partition("?")[0] == corrections.page_of(table).rstrip("/"):
        return see(f"{back}{'&' if '?' in back else '?'}saved={quote(key)}")
    return see(f"{corrections.page_of(table)}{quote(key, safe='/@+:')}?saved=1")


def editing_of(request: Request, table: str | None, asked: Mapping[str, str]) -> dict[str, Any] | None:
    """The row that is edited in its place in a table (`edit=`, `to.field=`, and `to.version=` that they were
    filled from; `to.again=`: these are typed on), for readers who may: `{"table", "key", "version", "inputs",
    "form", "looked", "effect", "refused", "status", "csrf", "parts"}`; inputs: field, also
    `value.batch_size`, -> its value and options. A text of several lines is none: an input would make it one.
    parts: column -> its inputs."""
    reader = reader_of(request)
    if "edit" not in asked or table is None or not reader.may("edit"):
        return None
    database, key = database_of(request), asked["edit"]
    page = corrections.edit_page(database, table, key)
    kinds = ("text", "long", "number", "choice")
    inputs = {field["name"]: field for field in page["fields"] if field["kind"] in kinds}
    for name in (field["name"] for field in page["fields"]):
        pieces = was.items() if isinstance(was := page["row"].get(name), Mapping) else ()
        texts = {f"{name}.{n}": corrections.in_form(one) for n, one in pieces if corrections.is_plain(one)}
        inputs |= {piece: {"value": text, "options": []} for piece, text in texts.items()}
    inputs = {name: field for name, field in inputs.items() if "\n" not in field["value"]}
    parts = {name: [name] for name in inputs}
    for name in filter(lambda name: "." in name, inputs):
        parts.setdefault(name.partition(".")[0], []).append(name)
    told = {name: text for name, text in asked.items() if name.startswith("to.")}
    again = told.pop("to.again", None) is not None
    told["version"] = told.pop("to.version", str(page["version"]))
    told, meanwhile = corrections.rebased(database, table, page, told)
    version = told.pop("version")
    view: dict[str, Any] = dict.fromkeys(("looked", "effect", "refused")) | {"status": 200}
    view |= {"table": table, "key": key, "version": version, "inputs": inputs, "parts": parts}
    view["csrf"] = reader.csrf
    view["form"] = told
    if meanwhile:
        changed = ", ".join(dict.fromkeys(title_of(each["field"]) for each in meanwhile))
        view["refused"] = f"Somebody changed this row ({changed}); nothing of yours is kept yet."
        view["status"] = 409
    elif told and not again:
        try:
            changes = corrections.changes_of(table, page["row"], _cells(page, told)[0])
            view["looked"] = corrections.seen(page["row"], changes)
            if table == "strategies" and changes:
                view["effect"] = effect_on_plans(database, knowledge_of(database), {key: changes})
        except InvalidInput as refusal:
            view["refused"] = refusal.detail
    if view["refused"] or again:
        for name, each in inputs.items():
            each["value"] = told.get(f"to.{name}", each["value"])
    return view


def _cells(page: dict[str, Any], form: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """A form as fields of the row, and the page of the table that it came from: `to.value.batch_size` is one
    cell, and what else its object has stays."""
    cells = {name.removeprefix("to."): text for name, text in form.items() if name.startswith("to.")}
    others = {name: text for name, text in form.items() if not name.startswith("to.")}
    for name in {name.partition(".")[0] for name in cells if "." in name}:
        was = page["row"].get(name)
        if isinstance(was, Mapping):
            others |= {f"{name}.{n}": corrections.in_form(each) for n, each in was.items()}
    return _folded(page, _untouched(page, others | cells), bool(cells)), others.get("back", "")


@router.form("/browse/undo/{table}/{key:path}")
def undone(request: Request, table: str, key: str, form: Form) -> Response:
    """Undo one change of a row's history."""
    entry = entry_number(form.get("entry", ""))
    where = corrections.page_of(table)
    encoder = service_of(request).preparation.encoder
    row = undo(database_of(request), table, key, entry, encoder=encoder, who=_named(request, form))
    back = where.rstrip("/") if row is None else where + quote(key, safe="/@+:")
    return see(f"{back}?saved=undone" if row is not None else back)


@router.page("/browse/import/{table}")
def table_back(request: Request, table: str) -> Response:
    return _import(request, corrections.import_page(database_of(request), table))


@router.form("/browse/import/{table}", READ_FILE)
def brought_back(request: Request, table: str, form: FormWithFile) -> Response:
    """Show what a table that was edited elsewhere would change, or store it (`step=save`)."""
    form["text"] = form.pop("file", "") or form.get("text", "")
    database, text, saving = database_of(request), form["text"], form.get("step") == "save"
    try:
        if saving:
            number = corrections.apply_import(
                database, table, text, form.get("seen", ""), encoder=service_of(request).preparation.encoder,
                who=_named(request, form), why=reason_given(form.get("why")),
            )  # fmt: skip
            return see(f"/browse/changes/{number}")
        return _import(request, corrections.import_page(database, table, text), form)
    except (InvalidInput, Conflict) as refusal:
        page = corrections.import_page(database, table, text if saving else None)
        return _import(request, page, form, refusal.status, refusal.detail)


def _import(
    request: Request, page: dict[str, Any], form: Mapping[str, str] = corrections.EMPTY, status: int = 200,
    refused: str | None = None,
) -> Response:  # fmt: skip
    back = corrections.page_of(page["table"]).rstrip("/")
    headers = KEPT if request.method == "POST" else None
    return answer(
        request, "import.html", page, title=f"Import {page['table']}", status=status, headers=headers,
        back=back, form=form, refused=refused,
    )  # fmt: skip


@router.page("/browse/changes/{number}")
def change(request: Request, number: str) -> Response:
    page = corrections.change_page(database_of(request), entry_number(number))
    return answer(request, "change.html", page, title=f"Change {number}")


@router.form("/browse/changes/{number}")
def all_undone(request: Request, number: str, form: Form) -> Response:
    """Undo all of a change."""
    encoder, who = service_of(request).preparation.encoder, _named(request, form)
    undo_together(database_of(request), entry_number(number), encoder=encoder, who=who)
    return see(f"/browse/changes/{number}")


def entry_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise wrong_value("entry", "is no number", text[:80], detail="entry must be the number of a change")
    return int(text)


def _form(
    request: Request, table: str, key: str, form: dict[str, str], status: int = 200, **more: object
) -> Response:
    data = corrections.edit_page(database_of(request), table, key, form)
    view: dict[str, Any] = dict.fromkeys(("looked", "effect", "refused", "meanwhile"))
    view |= {"form": form, "errors": {}}
    back = corrections.page_of(table) + quote(key, safe="/@+:")
    return answer(
        request,
        "edit.html",
        data,
        title=f"Edit {key}",
        status=status,
        headers=KEPT if request.method == "POST" else None,
        back=back,
        **(view | more),
    )


def _folded(page: Mapping[str, Any], form: Mapping[str, str], cells: bool = False) -> dict[str, str]:
    """A form whose objects and lists were filled in piece by piece, with them as JSON: `value.batch_size`,
    `value.+name` and `value.+value` (one more), `models.lines`. An emptied piece goes."""
    out = {name: text for name, text in form.items() if "." not in name}
    for field in page["fields"]:
        name, was = field["name"], page["row"][field["name"]]
        begin = f"{name}."
        own = {k.removeprefix(begin): text.strip() for k, text in form.items() if k.startswith(begin)}
        if field["kind"] == "lines" and "lines" in own:
            known = {plain(each): each for each in was}
            lines = [line.strip() for line in own["lines"].split("\n")]
            out[name] = corrections.in_form([known.get(line, line) for line in lines if line])
        elif own and (field["kind"] == "pairs" or (cells and isinstance(was, Mapping))):
            more, added = own.pop("+name", ""), own.pop("+value", "")
            own |= {more: added} if more else {}
            kept = {key: text for key, text in own.items() if text or was.get(key, 0) in ("", None)}
            out[name] = corrections.in_form({key: _piece(was.get(key), text) for key, text in kept.items()})
    return out


def _piece(was: Any, text: str) -> Any:
    if text == plain(corrections.in_form(was)):
        return was
    read = piece_of(was, text)
    return read if corrections.is_plain(read) else text


def _untouched(page: dict[str, Any], form: dict[str, str]) -> dict[str, str]:
    """A field left as the form showed it keeps the row's value, control characters included."""
    rows = {field["name"]: field["value"] for field in page["fields"]}
    return {
        name: rows[name] if name in rows and value.strip() == plain(rows[name]).strip() else value
        for name, value in form.items()
    }


def _named(request: Request, form: dict[str, str]) -> str | None:
    stated = form.get("who", "").strip()[:80]
    return signed(request, {"who": stated} if stated else {}).get("who")
