"""API keys made, listed, exchanged and revoked. The key itself is only in the answer that makes it."""

import datetime as dt
import math
import re
import secrets
from collections.abc import Iterable
from typing import Any

from memory_service.domain.common import api_keys
from memory_service.domain.common.quoted_text import is_plain_name
from memory_service.errors import Conflict, FieldError, NotFound, Unavailable, unknown_name, wrong_value
from memory_service.schemas.operations import LONGEST_DAYS
from memory_service.services.database.transactions import Database, ReadTransaction, WriteTransaction
from memory_service.services.tables.audit import ANONYMOUS, SERVICE, note
from memory_service.services.tables.table_rows import on_the_wire
from memory_service.store.queries import keys as store
from memory_service.store.tables.keys import ApiKey


class NoAdminKey(Unavailable):
    """A server that asks for keys, and nobody has one."""

    code, title = "no-admin-key", "A key of scope admin is needed first"


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,79}")


def create_key(
    database: Database,
    name: str,
    scopes: Iterable[str],
    *,
    expires_days: float | None = None,
    who: str | None = None,
) -> dict[str, Any]:
    """The new key as it is listed, and `key`, which is shown this once.

    InvalidInput names a wrong name, scope or number of days; Conflict when a key in use has the name.
    """
    name, chosen, life = _checked_name(name), api_keys.checked_scopes(scopes), _life(expires_days)
    with database.write_untracked() as transaction:
        taken = _alike(transaction, name)
        if taken is not None:
            message = f"is that of key {taken.id}; revoke that one, rotate it, or choose another name"
            raise Conflict(f"The name {name!r} {message}", [FieldError("name", message, name)])
        return _added(transaction, name, chosen, life, who, "added with " + ", ".join(chosen))


def check_stated(database: Database, name: str) -> None:
    """InvalidInput where somebody without a key states a name that keys, or the service itself, sign with, or
    one that only looks like it."""
    if not is_plain_name(name):
        raise wrong_value("who", "holds signs that are not seen, or look like others: write it plainly", name)
    with database.read() as transaction:
        taken = name.strip().casefold() == SERVICE or _alike(transaction, name.strip()) is not None
    if taken:
        message = "is the name of a key, or of the service: show the key, or state another"
        raise wrong_value("who", message, name)


def list_keys(database: Database) -> list[dict[str, Any]]:
    """All keys, the latest first, the revoked ones too; never what they were made of."""
    with database.read() as transaction:
        now = dt.datetime.now(dt.UTC)
        return [_shown(row, now) for row in store.every(transaction.session)]


def revoke_key(database: Database, name: str, *, who: str | None = None) -> dict[str, Any]:
    """Take back the key of this name or id, and end its sessions. NotFound, with the nearest names."""
    with database.write_untracked() as transaction:
        row = _in_use(transaction, name)
        _revoke(transaction, row, who, "revoked")
        transaction.session.refresh(row)
        return _shown(row, transaction.now)


def rotate_key(database: Database, name: str, *, who: str | None = None) -> dict[str, Any]:
    """Another key of the same name, scopes and length of life; the one before ends now. As `create_key`."""
    with database.write_untracked() as transaction:
        row = _in_use(transaction, name)
        life = None if row.expires_at is None else row.expires_at - row.created_at
        _revoke(transaction, row, who, "rotated: another key follows")
        return _added(transaction, row.name, tuple(row.scopes), life, who, f"rotated: follows key {row.id}")


def require_admin_key(database: Database, host: str) -> None:
    """NoAdminKey, with the command that makes one, where no valid key of scope `admin` is there."""
    with database.read() as transaction:
        now, every = dt.datetime.now(dt.UTC), store.every(transaction.session)
    if not any(is_valid(row, now) and "admin" in row.scopes for row in every):
        raise NoAdminKey(
            f"The server is to ask for keys (it listens on {host}), and there is no valid key of scope admin "
            "yet. Make one first: memory-service keys create NAME --scope admin"
        )


def is_valid(row: ApiKey, now: dt.datetime) -> bool:
    """Whether the key is neither revoked nor expired."""
    return row.revoked_at is None and (row.expires_at is None or now < row.expires_at)


def _added(
    transaction: WriteTransaction,
    name: str,
    scopes: tuple[str, ...],
    life: dt.timedelta | None,
    who: str | None,
    why: str,
) -> dict[str, Any]:
    key = api_keys.compose(_random(api_keys.ID_CHARACTERS), _random(api_keys.SECRET_CHARACTERS))
    values: dict[str, Any] = {
        "id": key.id,
        "name": name,
        "scopes": list(scopes),
        "digest": api_keys.digest(key.text),
        "created_at": transaction.now,
        "created_by": who or "",
        "expires_at": None if life is None else transaction.now + life,
    }
    store.add(transaction.session, values)
    note(transaction, "keys", key.id, "create", f"{name}: {why}", who=who)
    row = store.find(transaction.session, key.id)
    assert row is not None  # noqa: S101 - just inserted
    return {**_shown(row, transaction.now), "key": key.text}


def _revoke(transaction: WriteTransaction, row: ApiKey, who: str | None, why: str) -> None:
    store.change(transaction.session, row.id, {"revoked_at": transaction.now})
    store.remove_sessions(transaction.session, of_key=row.id)
    note(transaction, "keys", row.id, "delete", f"{row.name}: {why}", who=who)


def _alike(transaction: ReadTransaction, name: str) -> ApiKey | None:
    """The key in use of this name, in capitals or not."""
    rows = store.every(transaction.session)
    same = (row for row in rows if row.revoked_at is None and row.name.casefold() == name.casefold())
    return next(same, None)


def _in_use(transaction: ReadTransaction, name: str) -> ApiKey:
    row = store.in_use(transaction.session, name) or store.find(transaction.session, name)
    if row is not None and row.revoked_at is None:
        return row
    known = sorted(each.name for each in store.every(transaction.session) if each.revoked_at is None)
    nearest = unknown_name("key", name, known).errors[0].nearest
    hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
    detail = f"No key in use has the name or id {name[:80]!r}{hint}"
    raise NotFound(detail, [FieldError("name", "is no key", None, nearest)])


def _shown(row: ApiKey, now: dt.datetime) -> dict[str, Any]:
    status = "revoked" if row.revoked_at is not None else "valid" if is_valid(row, now) else "expired"
    times = ("created_at", "expires_at", "last_used_at", "revoked_at")
    shown: dict[str, Any] = {"id": row.id, "name": row.name, "scopes": list(row.scopes), "status": status}
    shown |= {"created_by": row.created_by or None, **{name: getattr(row, name) for name in times}}
    return on_the_wire(shown)


def _checked_name(given: str) -> str:
    name = given.strip()
    if _NAME.fullmatch(name) is None:
        message = "must have 1 to 80 letters, digits, spaces or . _ @ - and begin with a letter or digit"
        raise wrong_value("name", message, given[:80])
    if name.lower() in (ANONYMOUS, SERVICE):
        raise wrong_value("name", "is what the audit calls somebody else; choose another", given)
    return name


def _life(days: float | None) -> dt.timedelta | None:
    if days is None:
        return None
    if not (math.isfinite(days) and 0.0 < days <= LONGEST_DAYS):
        raise wrong_value("expires_days", f"must be more than 0 and at most {LONGEST_DAYS:g}", days)
    return dt.timedelta(days=days)


def _random(characters: int) -> str:
    return "".join(secrets.choice(api_keys.ALPHABET) for _ in range(characters))
