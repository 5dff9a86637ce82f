"""Databases as commands open them, who changes them, and the doors by which runs are told of: a server, or a
database here by the same requests."""

from __future__ import annotations

import asyncio
import getpass
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory_service.cli.common.output import stderr
from memory_service.cli.common.remote import get, post
from memory_service.client.delivery.http import Door
from memory_service.errors import MemoryServiceError, TooManyRequests, Unavailable

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


PAUSES_SECONDS = (0.5, 2.0, 8.0, 30.0)


def remote_door(server: str) -> Door:
    """Requests of a server, each repeated for a while where it does not answer or wants them slower."""

    def answered(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        return get(server, path, {}) if body is None else post(f"{server}{path}", body)

    def answer(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        for pause in PAUSES_SECONDS:
            try:
                return answered(path, body)
            except MemoryServiceError as error:
                if error.status not in (TooManyRequests.status, Unavailable.status):
                    raise
            time.sleep(pause)
        return answered(path, body)

    return answer


@contextmanager
def local_door(url: str | None) -> Iterator[Door]:
    """The same of a database here."""
    from memory_service.services.runs.runs import begin_run, finish_run, run_page
    from memory_service.services.runs.telemetry import take_events

    with open_ready(url) as database:

        def answer(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
            _, _, key, what = [*path.split("/"), "", ""][:4]
            if body is None:
                return run_page(database, key)
            if what == "events":
                return asyncio.run(take_events(database, key, body))
            return finish_run(database, key, body) if what == "finish" else begin_run(database, body)[0]

        yield answer
