"""Page of whoever runs the service: health, versions, queues, keys, changes, backups."""

import datetime as dt
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_service import __version__
from memory_service.errors import InvalidInput, unknown_name, wrong_value
from memory_service.services.access.keys import list_keys
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.operations import database as databases
from memory_service.services.tables.mode_limit import hidden
from memory_service.services.tables.table_rows import CORRECTABLE, on_the_wire, told
from memory_service.store import migrations
from memory_service.store.queries import calibrations, history
from memory_service.store.queries.passages import encoders
from memory_service.store.tables.knowledge import History

MOST_CHANGES = 20
CHANGES_OF: Mapping[str, frozenset[str]] = {
    "rows": frozenset(CORRECTABLE),
    "access": frozenset({"keys", "sessions", "devices", "calibrations"}),
    "runs": frozenset({"runs"}),
    "all": frozenset({*CORRECTABLE, "keys", "sessions", "devices", "calibrations", "runs"}),
}
"""View of the change log -> its tables; the first is the usual one."""


def operate_page(
    database: Database, home: Path, requested: Mapping[str, str], *, admin: bool
) -> dict[str, Any]:
    """`{"versions", "free_gib", "queues", "keys", "changes", "backups"}`; the last three are None for who is
    no admin.

    queues    [{"name", "working", "waiting"}] of the database's own work
    changes   {"items", "next"}: by people, of the tables of `changes=` (see `CHANGES_OF`), the latest first
    backups   [{"name", "at", "bytes"}] beside the embedded database, the latest first; of a server's None
    """
    with database.read() as transaction:
        at = migrations.current(transaction.session.connection())
        active = [row.status for row in calibrations.active(transaction.session)]
        vectors = encoders(transaction.session)
        changes = _changes(transaction, requested) if admin else None
    running = active.count("running")
    return {
        "versions": {
            "memory_service": __version__, "python": platform.python_version(), "schema": at,
            "schema_of_program": migrations.head(), "knowledge": database.knowledge_revision(),
        },
        "free_gib": round(shutil.disk_usage(_existing(home)).free / 2**30, 1),
        "queues": [
            {"name": "Calibrations of this host", "working": running, "waiting": len(active) - running},
            {"name": "Passages to encode", "working": 0, "waiting": vectors.get(None, 0)},
        ],
        "keys": list_keys(database) if admin else None,
        "changes": changes,
        "backups": backups(database) if admin else None,
    }  # fmt: skip


def _changes(transaction: ReadTransaction, requested: Mapping[str, str]) -> dict[str, Any]:
    of, cursor = requested.get("changes", "rows"), requested.get("cursor", "")
    if of not in CHANGES_OF:
        raise unknown_name("changes", of[:40], tuple(CHANGES_OF))
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
        raise wrong_value("cursor", "is no number of a change", cursor[:40])
    before = int(cursor) if cursor else None
    entries = history.latest(transaction.session, CHANGES_OF[of], MOST_CHANGES + 1, before)
    page = entries[:MOST_CHANGES]
    shown = [entry for entry in page if not hidden(entry.table)]
    items = told(transaction, shown) if of == "rows" else [_plain(entry) for entry in shown]
    return {"of": of, "items": items, "next": str(page[-1].id) if len(entries) > MOST_CHANGES else None}


def _plain(entry: History) -> dict[str, Any]:
    shown = {name: getattr(entry, name) for name in ("id", "table", "row", "action", "at", "who", "why")}
    return on_the_wire(shown) | {"changes": [], "can_undo": False}


def backups(database: Database) -> list[dict[str, Any]] | None:
    """Saved beside the embedded database, before upgrades or by `back_up`; None for a server's."""
    file = database.file
    if file is None:
        return None
    found = [(one.stat(), one.name) for one in file.parent.glob(f"{file.name}.*.backup")]
    return [
        {"name": name, "at": dt.datetime.fromtimestamp(stat.st_mtime, dt.UTC).isoformat(),
         "bytes": stat.st_size}
        for stat, name in sorted(found, key=lambda each: -each[0].st_mtime)
    ]  # fmt: skip


def back_up(database: Database, now: dt.datetime) -> Path:
    """Save an embedded database beside itself; InvalidInput for a server's."""
    if database.file is None:
        raise InvalidInput("A server's database is saved by whoever runs it: memory-service db backup FILE")
    target = database.file.with_name(f"{database.file.name}.{now:%Y%m%dT%H%M%S%f}.backup")
    return databases.backup(database, target)


def _existing(folder: Path) -> Path:
    return folder if folder.exists() else _existing(folder.parent)
