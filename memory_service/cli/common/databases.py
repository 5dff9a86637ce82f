"""Databases as commands open them, and who changes them."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from memory_service.cli.common.output import stderr

if TYPE_CHECKING:
    from memory_service.services.database.transactions import Database
    from memory_service.settings import Settings

DatabaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Another database than MEMORY_DATABASE_URL.")
]
AnotherUrl = Annotated[str | None, typer.Option(metavar="URL", help="Another database.")]
"""The option `--database` of commands."""


def caller() -> str:
    """The name under which the audit records changes made from the command line: the system's user."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # a container without a user of this number
        return "command line"


def open_database(url: str | None) -> Database:
    """The database of `--database`, else of MEMORY_DATABASE_URL; not connected yet."""
    from memory_service.services.database.transactions import Database

    return Database(_settings(url).database_url)


def _settings(url: str | None) -> Settings:
    from memory_service.settings import load_settings

    if url is None and os.environ.get("MEMORY_SERVER"):  # who asks a server does not come here
        stderr.print("MEMORY_SERVER is not asked: this is about the database here", highlight=False)
    return load_settings(database_url=url)


@contextmanager
def open_at_head(url: str | None) -> Iterator[Database]:
    """The same, which must stand at this program's revision; closed in the end."""
    from memory_service.services.operations.database import require_head

    with open_database(url) as database:
        require_head(database)
        yield database


def open_ready(url: str | None) -> Database:
    """The same, made, upgraded and seeded where it is embedded; texts without a vector get theirs."""
    from memory_service.services.operations.database import open_database as ready

    settings = _settings(url)
    return ready(settings.database_url, settings.embedding_model)
