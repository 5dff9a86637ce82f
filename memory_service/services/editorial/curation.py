"""Adding, correcting, deleting or undoing rows: one transaction for what belongs together, with who and why.

What costs time comes before the transaction opens: competitions are encoded, other rows are priced.
Whoever changes a row says which version was read: a row that moved meanwhile is refused (`Moved`) with what
it is now and what somebody changed. An undo is a change like any other: it has an entry of its own, and can
be undone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.row_difference import changed_fields, difference
from memory_service.domain.common.vocabulary import modality_of
from memory_service.errors import FieldError, Moved, NotFound, wrong_value
from memory_service.schemas.fields import key_text
from memory_service.schemas.rows import fields_of, validate
from memory_service.services.competitions.signals import read_text
from memory_service.services.competitions.snapshot import TextEncoder, encode, texts_of
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.tables import table_rows as catalogue
from memory_service.services.tables.audit import ANONYMOUS
from memory_service.store.queries import history, rows
from memory_service.store.queries.passages import NewPassage
from memory_service.store.tables.knowledge import History

Row = Mapping[str, Any]

_METRIC = ("metric", "metric_family", "metric_direction")
_FIGURES = ("n_train", "n_classes", "image_size", "split")

SURE_ENOUGH = 0.5
"""From this confidence on, a task read from the text is stored as the competition's."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A competition as it will be stored.

    values     of its row
    inferred   which of task, modality, metric, sizes and split were not given and read from its text
    passages   its texts, encoded; None: those that are stored stay
    """

    values: dict[str, Any]
    inferred: Sequence[str]
    passages: Sequence[NewPassage] | None


def registration(values: Row, encoder: TextEncoder | None) -> Registration:
    """Of a new competition; InvalidInput names each wrong field."""
    stored = validate("competitions", values)
    given = {name: stored[name] for name in stored if name != "size"}
    inferred: list[str] = []
    facts = read_text(f"{given['title']}. {given['description']}", None).facts
    if given["task"] is None and facts.task is not None and facts.confidence >= SURE_ENOUGH:
        given["task"] = facts.task
        inferred.append("task")
    if given["modality"] is None and given["task"] is not None:
        given["modality"] = modality_of(given["task"])
        inferred.append("modality")
    judged = _METRIC if facts.metric_sure and all(given[name] is None for name in _METRIC) else ()
    for name in (*judged, *_FIGURES):
        if given[name] is None and (reported := getattr(facts, name)) is not None:
            given[name] = reported
            inferred.append(name)
    return Registration(given, inferred, encode(texts_of(given), encoder))


def corrected_registration(row: Row, changes: Row, encoder: TextEncoder | None) -> Registration:
    """Of the stored competition `row` with changes; its texts are encoded where they change."""
    facts = {name: row[name] for name in row if name not in ("size", *catalogue.BOOKKEEPING_SHOWN)}
    wanted = validate("competitions", facts | dict(changes))
    new = encode(texts_of(wanted), encoder) if texts_of(wanted) != texts_of(row) else None
    return Registration(dict(changes), (), new)


EncoderSource = Callable[[], TextEncoder | None]

MOST_ROWS = 500
"""Of one change: nobody else writes meanwhile, some milliseconds a row."""

LARGEST_ENTRY = 2**31 - 1
"""What the column of ids holds on PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is done to one row.

    values    of a new row; of a correction the fields that change
    version   of the row that was read; None: whichever it is at
    """

    table: str
    key: str
    action: history.Action
    values: Mapping[str, Any]
    version: int | None = None


def write_changes(
    database: Database, changes: Sequence[Change], *, encoder: EncoderSource, who: str | None = None, why: str
) -> list[dict[str, Any] | None]:
    """Do all of it, or nothing, in one transaction: the rows as they are now, None of deleted ones; of a new
    competition also `inferred`, its fields that were read from its text.

    Errors are those of `add_row`, `correct_row` and `remove_row`; InvalidInput for over `MOST_ROWS`.
    """
    one_change(len(changes))
    signed = {"who": who or ANONYMOUS, "why": why}
    added = {one.values.get("slug") for one in changes if one.action == "create"} - {None}
    ready = [  # what belongs to a competition that is added with it can be checked only behind it
        None if one.values.get("competition") in added else _checked(database, one, encoder)
        for one in changes
    ]
    done: list[dict[str, Any] | None] = []
    with database.write() as transaction:
        for change, prepared in zip(changes, ready, strict=True):
            table, key, values, new = change.table, change.key, change.values, None
            version, more = change.version, {}
            if prepared is not None:
                registered, version = prepared
                values, new = registered.values, registered.passages
                more = {"inferred": registered.inferred}
            if change.action == "create":
                row = catalogue.create_row(transaction, table, values, **signed, new_passages=new)
                done.append(row | more)
            elif change.action == "update":
                row = catalogue.update_row(
                    transaction, table, key, values, **signed, expected_version=version, new_passages=new
                )
                done.append(row)
            else:
                catalogue.delete_row(transaction, table, key, **signed, expected_version=version)
                done.append(None)
    return done


def one_change(n: int) -> None:
    """InvalidInput where a change has too many rows."""
    if n > MOST_ROWS:
        raise wrong_value("rows", f"of one change are at most {MOST_ROWS}, not {n}; make it in parts")


def _checked(
    database: Database, change: Change, encoder: EncoderSource
) -> tuple[Registration, int | None] | None:
    """What takes time, before a transaction that writes: of a competition what is stored, and the version
    that it was made from."""
    table, key, values = change.table, change.key, change.values
    if change.action == "delete":
        return None
    with database.read() as reading:
        if table != "competitions" and change.action == "create":
            catalogue.check_new(reading, table, values)
        elif table != "competitions":
            catalogue.check_correction(reading, table, key, values, change.version)
        elif change.action == "create":
            slug = values.get("slug")
            known = isinstance(slug, str) and rows.find(reading.session, table, slug) is not None
        else:
            row = catalogue.get_row(reading, table, key)
    if table != "competitions":
        return None
    if change.action == "create":
        return registration(values, None if known else encoder()), None
    # Passages are made from the version that was read: nothing may come between.
    version = row["version"] if change.version is None else change.version
    return corrected_registration(row, values, encoder()), version


def add_row(
    database: Database,
    table: str,
    values: Mapping[str, Any],
    *,
    encoder: EncoderSource,
    who: str | None = None,
    why: str | None = None,
) -> dict[str, Any]:
    """The row as stored; for a competition also `inferred`: its fields that were read from its text.

    InvalidInput names each wrong field; Conflict the row that has the key already.
    """
    change = Change(table, "", "create", values)
    (row,) = write_changes(database, [change], encoder=encoder, who=who, why=why or "added")
    return row or {}


def correct_row(
    database: Database,
    table: str,
    key: str,
    changes: Mapping[str, Any],
    *,
    encoder: EncoderSource,
    who: str | None = None,
    why: str | None = None,
    version: int | None = None,
) -> dict[str, Any]:
    """The row as it is now. NotFound; Conflict when it is no longer at `version`; InvalidInput names wrong
    fields."""
    change = Change(table, key, "update", changes, version)
    (row,) = write_changes(database, [change], encoder=encoder, who=who, why=why or "corrected")
    return row or {}


def remove_row(
    database: Database,
    table: str,
    key: str,
    *,
    encoder: EncoderSource = lambda: None,
    who: str | None = None,
    why: str | None = None,
    version: int | None = None,
) -> None:
    """Delete a row; its history stays. NotFound; Conflict when it moved or other rows need it."""
    change = Change(table, key, "delete", {}, version)
    write_changes(database, [change], encoder=encoder, who=who, why=why or "deleted")


def reason_given(why: str | None) -> str:
    """The reason for a change that a person makes on a page; InvalidInput without one."""
    if why is None or not why.strip():
        raise wrong_value("why", "is needed: say why, for whoever reads the row's history")
    return why.strip()


def undo(
    database: Database,
    table: str,
    key: str,
    entry_id: int,
    *,
    encoder: EncoderSource,
    who: str | None = None,
    why: str | None = None,
) -> dict[str, Any] | None:
    """Take back what an entry of the row's history did; the row as it is now, None where it was added and is
    gone again.

    NotFound for an entry that the row has not; Moved, with the difference, where later changes touched the
    same fields; Conflict where a deleted row is there again. `why` defaults to which version is undone.
    """
    with database.read() as transaction:
        entry = _entry(transaction, table, key, entry_id)
        change = _reversed(transaction, entry)
    reason = why or _undoing([entry])
    (row,) = write_changes(database, [change], encoder=encoder, who=who, why=reason)
    return row


def undo_together(
    database: Database, entry_id: int, *, encoder: EncoderSource, who: str | None = None
) -> list[dict[str, Any] | None]:
    """Take back all that was done in one change with the entry, as one change; as `undo`, of each row."""
    with database.read() as transaction:
        entries = changed_together(transaction, entry_id)
        changes = [_reversed(transaction, entry) for entry in reversed(entries)]
    return write_changes(database, changes, encoder=encoder, who=who, why=_undoing(entries))


def _undoing(entries: Sequence[History]) -> str:
    """Rows have versions of their own: several are named by their change."""
    first = entries[0]
    what = f"version {first.version}" if len(entries) == 1 else f"change {first.id}"
    return f"undoes {what}: {first.why}"[: catalogue.LONGEST_WHY]


def changed_together(transaction: ReadTransaction, entry_id: int) -> list[History]:
    """The entries of one change of correctable rows, in order; NotFound."""
    entries = history.of_change(transaction.session, entry_id) if 0 < entry_id <= LARGEST_ENTRY else []
    found = [entry for entry in entries if entry.table in catalogue.CORRECTABLE and entry.origin == "user"]
    if not found:
        raise NotFound(f"There is no change {entry_id}")
    return found


def _reversed(transaction: ReadTransaction, entry: History) -> Change:
    """The change that takes an entry back; Moved where later ones touched the same fields."""
    table, key = entry.table, entry.row
    now = None if entry.action == "delete" else catalogue.get_row(transaction, table, key)
    own = fields_of(table)
    before, after = ({name: row.get(name) for name in own} for row in (entry.before or {}, entry.after or {}))
    if now is None:
        return Change(table, key, "create", before)
    touched = changed_fields(before, after)
    later = difference({name: after[name] for name in touched}, {name: now[name] for name in touched})
    if later:
        fields = ", ".join(change["field"] for change in later[:5])
        raise Moved(
            f"{table} {key!r}: later changes touched what this would put back ({fields}); correct the row",
            [FieldError(change["field"], "was changed later") for change in later],
            current=now,
            changes=later,
        )
    if entry.action == "create":
        return Change(table, key, "delete", {}, now["version"])
    return Change(table, key, "update", {name: before[name] for name in touched}, now["version"])


def _entry(transaction: ReadTransaction, table: str, key: str, entry_id: int) -> History:
    found = None
    if 0 < entry_id <= LARGEST_ENTRY:
        found = history.entry(transaction.session, catalogue.table_named(table), key_text(key), entry_id)
    if found is None:
        shown = key[:80].encode("utf-8", "replace").decode()
        raise NotFound(f"The history of {table} {shown!r} has no entry {entry_id}")
    return found
