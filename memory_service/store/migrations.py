"""Upgrade of a database to the revision that this program works with; where it stands, and whether its tables
match the metadata."""

from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect

from memory_service import resources
from memory_service.errors import Unavailable
from memory_service.store import dialects
from memory_service.store.tables.keys import Base

LEAST = frozenset({"alembic_version", "competitions", "knowledge"})
"""Tables that every revision has."""


def is_own(table: str) -> bool:
    """Whether a table of that name is this service's, or its search's."""
    known = table in Base.metadata.tables or table in LEAST
    return known or dialects.SEARCH_OBJECTS.fullmatch(table) is not None


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.path("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The revision this program works with."""
    found = ScriptDirectory.from_config(_config()).get_current_head()
    if found is None:
        raise Unavailable("the installation's migrations folder holds no revision")
    return found


def known(revision: str) -> bool:
    """Whether a migration of this program made that revision (else a newer program did)."""
    return any(
        script.revision == revision for script in ScriptDirectory.from_config(_config()).walk_revisions()
    )


def current(connection: Connection) -> str | None:
    """The revision the database stands at; None for a database that was never migrated."""
    return MigrationContext.configure(connection).get_current_revision()


def is_empty(connection: Connection) -> bool:
    return not set(inspect(connection).get_table_names()) & set(Base.metadata.tables)


def migrate(engine: Engine, target: str = "head") -> tuple[str | None, str | None]:
    """Bring the database up (or down) to a revision, alone and in one transaction; (before, after)."""
    with dialects.of(engine).migrating(engine) as connection:
        before = current(connection)
        move(connection, target)
        return before, current(connection)


def move(connection: Connection, target: str) -> None:
    """Bring the database up (or down) to a revision, in the caller's transaction."""
    before = current(connection)
    script = ScriptDirectory.from_config(_config())
    goes_up = target == "head" or before is None
    if not goes_up and target != "base":
        lineage = [s.revision for s in script.iterate_revisions(target, "base")]
        goes_up = before in lineage
    (command.upgrade if goes_up else command.downgrade)(_config(connection), target)


def differences(connection: Connection) -> list[str]:
    """Differences between tables and metadata, either way; empty when they match."""
    context = MigrationContext.configure(connection, opts=_compare_options())
    found = [str(difference) for difference in compare_metadata(context, Base.metadata)]
    missing = dialects.of(connection).missing_search(connection)
    return found + [f"search object {name} is missing" for name in missing]


def run_migrations(context: Any) -> None:
    """The body of `migrations/env.py`: `context` is Alembic's environment."""
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection, target_metadata=Base.metadata, transactional_ddl=True, **_compare_options()
    )
    context.run_migrations()


def _compare_options() -> dict[str, Any]:
    return {"include_object": _is_ours, "compare_type": True, "render_as_batch": True}


def _is_ours(_object: object, name: str | None, _kind: str, _reflected: bool, _compare_to: object) -> bool:
    return dialects.SEARCH_OBJECTS.fullmatch(name or "") is None
