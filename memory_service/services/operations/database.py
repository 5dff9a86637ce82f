"""The database brought to head, checked, saved and restored.

The embedded database is made, upgraded (after a backup beside it) and seeded by itself. A server's database
belongs to whoever runs it: at the wrong revision it is refused with the command to run.
"""

import datetime as dt
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from memory_service.errors import Conflict, InvalidInput, Unavailable, WrongRevision
from memory_service.services.competitions.snapshot import TextEncoder, encoder_at
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.editorial.seeding import SeedReport
from memory_service.services.tables.usable_rows import usable
from memory_service.store import migrations
from memory_service.store.queries import copying, rows
from memory_service.store.queries.passages import cut_vectors, encoders
from memory_service.store.tables.knowledge import Knowledge

UPGRADE_COMMAND = "memory-service db upgrade"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """From which revision to which; `backup` is the file made before, None where nothing was there to
    save."""

    before: str | None
    after: str | None
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """`problems` is empty for a sound database at the right revision."""

    url: str
    revision: str | None
    head: str
    problems: tuple[str, ...]
    knowledge_revision: int | None = None
    seeded: bool = False
    passages_without_vector: int = 0

    @property
    def sound(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Readiness:
    """What `ensure_ready` had to do; both None when the database was ready."""

    upgraded: UpgradeReport | None = None
    seeded: SeedReport | None = None


def open_database(url: str, embedding_model: str = "") -> Database:
    """A database ready to be asked: what the commands and the server begin with (see `ensure_ready`)."""
    database = Database(url)
    ensure_ready(database, encoder=lambda: encoder_at(embedding_model)[0])
    return database


def upgrade(database: Database, target: str = "head") -> UpgradeReport:
    """Migrate to a revision (also downwards, or `base`). An embedded database is saved beside itself
    first."""
    revision, empty = _standing(database)
    _require_known(database, revision)
    if revision is None and not empty:
        raise WrongRevision(
            f"{database.url} has tables of this service but no revision: it was not made by {UPGRADE_COMMAND}"
        )
    if target not in ("head", "base") and not migrations.known(target):
        raise InvalidInput(f"there is no revision {target!r}")
    wanted = migrations.head() if target == "head" else None if target == "base" else target
    if revision == wanted:
        return UpgradeReport(revision, revision)
    saved = None
    if database.file is not None and revision is not None:
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S%f")
        saved = database.file.with_name(f"{database.file.name}.{revision}.{stamp}.backup")
        database.dialect.backup(database.engine, saved)
    before, after = migrations.migrate(database.engine, target)
    return UpgradeReport(before, after, saved)


def check(database: Database, seeds: Path | None = None) -> CheckReport:
    """Revision, tables against the program, and what the database itself finds broken."""
    try:
        revision, _ = _standing(database)
        problems: list[str] = []
        with database.read() as transaction:
            connection = transaction.session.connection()
            problems += database.dialect.integrity(connection)
            problems += (
                f"{one} is not this service's" for one in database.dialect.foreign_objects(connection)
            )
            if revision != migrations.head():
                newer = revision is not None and not migrations.known(revision)
                what = "a newer program made it: upgrade the program" if newer else f"run {UPGRADE_COMMAND}"
                problems.append(f"stands at revision {revision}, not {migrations.head()}: {what}")
                return CheckReport(database.url, revision, migrations.head(), tuple(problems))
            problems += migrations.differences(connection)
            counter = transaction.session.scalars(select(Knowledge.revision)).one_or_none()
            if counter is None:
                problems.append("the table knowledge has lost its row")
            without = encoders(transaction.session).get(None, 0)
            if cut := cut_vectors(transaction.session):
                named = ", ".join(map(str, cut[:5]))
                anew = "they are encoded anew when a server starts, and found by words until then"
                problems.append(f"{len(cut)} passages have a damaged vector ({named}): {anew}")
            for table in rows.ENTITIES:
                problems += (
                    f"row cannot be used: {one}"
                    for one in usable(table, rows.all_rows(transaction.session, table))[1]
                )
            problems += (f"row is damaged: {one}" for one in rows.damaged(transaction.session))
        seeded = seeding.is_seeded(database, seeds)
    except DBAPIError as error:
        raise Unavailable(f"{database.url} cannot be checked: {error.orig}") from error
    return CheckReport(database.url, revision, migrations.head(), tuple(problems), counter, seeded, without)


def backup(database: Database, target: Path) -> Path:
    """Save everything in one new file while others go on working; Conflict when the file is there already."""
    if target.exists():
        raise Conflict(f"{target} exists; a backup overwrites nothing")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist")
    revision, _ = _standing(_there(database))
    if revision is None:
        raise Unavailable(f"{database.url} holds nothing to save")
    database.dialect.backup(database.engine, target)
    return target


def restore(database: Database, source: Path) -> UpgradeReport:
    """Fill an empty database from a backup, then upgrade it; Conflict when it is not empty."""
    if not source.is_file():
        raise InvalidInput(f"{source} does not exist")
    revision, empty = _standing(database)
    if revision is not None or not empty:
        raise Conflict(f"{database.url} is not empty; restore into a new one")
    made_at = _own_revision(database, source)
    database.dialect.restore(database.engine, source, partial(migrations.move, target=made_at))
    database.close()
    return upgrade(database)


def _own_revision(database: Database, source: Path) -> str:
    """The revision of a backup; InvalidInput where it is another program's, or holds what would act in this
    one's name."""
    contents = database.dialect.contents(source)
    strange = [
        *contents.foreign,
        *(f"table {name}" for name in sorted(contents.tables) if not migrations.is_own(name)),
    ]
    if contents.revision is None or not migrations.LEAST.issubset(contents.tables):
        strange = strange[:5] or ["no tables of this service"]
        raise InvalidInput(f"{source} is no backup of this service: it holds {', '.join(strange)}")
    if strange:
        raise InvalidInput(f"{source} holds what this service did not make: {', '.join(strange[:5])}")
    _require_known(database, contents.revision)
    return contents.revision


def copy(source: Database, target: Database) -> dict[str, int]:
    """All rows of one database in another, of either kind: how many of each table. Conflict when the target
    holds anything. In one transaction: a copy that was interrupted is made again."""
    require_head(_there(source))
    revision, empty = _standing(target)
    at_head = revision == migrations.head()
    if empty:
        upgrade(target)
    with source.read() as old, target.write_untracked() as new:
        if not empty and (not at_head or copying.has_rows(new.session.connection())):
            raise Conflict(f"{target.url} is not empty; copy into a new one")
        return copying.copy(old.session, new.session)


def ensure_ready(
    database: Database, *, encoder: Callable[[], TextEncoder | None] | None = None, seeds: Path | None = None
) -> Readiness:
    """Bring the database to where it can be served from, or raise WrongRevision with the command to run.

    `encoder` is called only when texts wait for vectors: loading it takes seconds.
    """
    upgraded = require_head(database)
    seeded = None
    if not seeding.is_seeded(database, seeds):
        seeded = seeding.seed(database, seeds, encoder() if encoder is not None else None)
        _log.info("seeds loaded in %.1f s", seeded.seconds)
    elif encoder is not None:
        with database.read() as transaction:
            waiting = encoders(transaction.session).get(None, 0)
        found = encoder() if waiting else None
        if found is not None:
            seeding.fill_embeddings(database, found)
    return Readiness(upgraded, seeded)


def require_head(database: Database) -> UpgradeReport | None:
    """Bring an embedded database to the program's revision; WrongRevision for a server's at another one."""
    _refuse_emptied(database)
    revision, empty = _standing(database)
    if revision == migrations.head():
        return None
    _require_known(database, revision)
    if database.file is None:
        state = "is empty" if empty else f"stands at revision {revision}"
        needs = f"this program needs {migrations.head()}"
        raise WrongRevision(f"{database.url} {state}, {needs}: run `{UPGRADE_COMMAND}`")
    report = upgrade(database)
    _log.info("database upgraded from %s to %s", report.before, report.after)
    return report


def _there(database: Database) -> Database:
    """The same; Unavailable where its file would be made by opening it, empty."""
    if database.file is not None and not database.file.exists():
        raise Unavailable(f"there is no database {database.file}")
    return database


def _refuse_emptied(database: Database) -> None:
    """Unavailable for a file of 0 bytes beside which stands what only a database that was filled leaves."""
    file = database.file
    if file is None or not file.is_file() or file.stat().st_size:
        return
    left = [*file.parent.glob(f"{file.name}.*.backup"), *file.parent.glob(f"{file.name}-wal")]
    if was := next((one for one in left if one.stat().st_size), None):
        raise Unavailable(
            f"{database.url} is empty (0 bytes), and {was.name} beside it shows that it was a database: "
            "restore a backup (memory-service db restore), or move both away to begin anew"
        )
    _log.warning("%s was a file of 0 bytes: it is filled as a new database", database.url)


def _standing(database: Database) -> tuple[str | None, bool]:
    """(revision, whether no table of ours is there)."""
    with database.read() as transaction:
        connection = transaction.session.connection()
        try:
            return migrations.current(connection), migrations.is_empty(connection)
        except DBAPIError as error:
            raise Unavailable(f"{database.url} is not a database that can be read: {error.orig}") from error


def _require_known(database: Database, revision: str | None) -> None:
    if revision is not None and not migrations.known(revision):
        raise WrongRevision(
            f"{database.url} stands at revision {revision}, which a newer program made; "
            "install that program, or restore a backup that this one made"
        )
