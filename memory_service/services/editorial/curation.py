"""Adding, correcting, deleting or undoing one row: one transaction each, with who and why.

What costs time comes before the transaction opens: competitions are encoded, other rows are priced.
Whoever changes a row says which version was read: a row that moved meanwhile is refused (`Moved`) with what
it is now and what somebody changed. An undo is a change like any other: it has an entry of its own, and can
be undone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from memory_service.domain.common.row_difference import changed_fields, difference
from memory_service.errors import FieldError, Moved, NotFound, wrong_value
from memory_service.schemas.fields import key_text
from memory_service.schemas.rows import fields_of
from memory_service.services.competitions import register as competitions
from memory_service.services.competitions.encoding import TextEncoder
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.tables import table_rows as catalogue
from memory_service.services.tables.audit import ANONYMOUS
from memory_service.store.queries import history
from memory_service.store.tables.knowledge import History

EncoderSource = Callable[[], TextEncoder | None]

LARGEST_ENTRY = 2**31 - 1
"""What the column of ids holds on PostgreSQL."""


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
    person, reason = who or ANONYMOUS, why or "added"
    if table == "competitions":
        return competitions.add_competition(database, values, encoder=encoder(), who=person, why=reason)
    with database.read() as reading:
        catalogue.check_new(reading, table, values)
    with database.write() as transaction:
        return catalogue.create_row(transaction, table, values, who=person, why=reason)


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
    person, reason = who or ANONYMOUS, why or "corrected"
    if table == "competitions":
        return competitions.correct_competition(
            database, key, changes, encoder=encoder(), who=person, why=reason, expected_version=version
        )
    with database.read() as reading:
        catalogue.check_correction(reading, table, key, changes, version)
    with database.write() as transaction:
        return catalogue.update_row(
            transaction, table, key, changes, who=person, why=reason, expected_version=version
        )


def remove_row(
    database: Database,
    table: str,
    key: str,
    *,
    who: str | None = None,
    why: str | None = None,
    version: int | None = None,
) -> None:
    """Delete a row; its history stays. NotFound; Conflict when it moved or other rows need it."""
    with database.write() as transaction:
        catalogue.delete_row(
            transaction, table, key, who=who or ANONYMOUS, why=why or "deleted", expected_version=version
        )


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
    same fields; Conflict where a deleted row is there again. `why` defaults to which change is undone.
    """
    with database.read() as transaction:
        entry = _entry(transaction, table, key, entry_id)
        now = None if entry.action == "delete" else catalogue.get_row(transaction, table, key)
    reason = why or f"undoes change {entry_id}: {entry.why}"
    own = fields_of(catalogue.table_named(table))
    before, after = ({name: row.get(name) for name in own} for row in (entry.before or {}, entry.after or {}))
    if now is None:
        return add_row(database, table, before, encoder=encoder, who=who, why=reason)
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
        remove_row(database, table, key, who=who, why=reason, version=now["version"])
        return None
    changes = {name: before[name] for name in touched}
    said = {"who": who, "why": reason, "version": now["version"]}
    return correct_row(database, table, key, changes, encoder=encoder, **said)


def _entry(transaction: ReadTransaction, table: str, key: str, entry_id: int) -> History:
    found = None
    if 0 < entry_id <= LARGEST_ENTRY:
        found = history.entry(transaction.session, catalogue.table_named(table), key_text(key), entry_id)
    if found is None:
        shown = key[:80].encode("utf-8", "replace").decode()
        raise NotFound(f"The history of {table} {shown!r} has no entry {entry_id}")
    return found
