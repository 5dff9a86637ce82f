"""`memory-service serve`: the HTTP service in this process, until it is stopped."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from memory_service.cli.common.databases import DatabaseUrl

if TYPE_CHECKING:
    from memory_service.services.operations.readiness import Preparation

_log = logging.getLogger(__name__)

_STOP_WITHIN_SECONDS = 10
_OBJECTS_UNTIL_COLLECTED = 20_000
"""A request with a hundred events makes a thousand objects and no cycle: looking for cycles after every 700,
as Python does, took a twentieth of the time."""
_NOT_STARTED = 3
_LOOKS_EVERY_SECONDS = 1.0
_ARENA_MAX = -8
_ARENAS = 2
"""Pools that the C library gives its threads memory from. Left alone it makes eight for each core, and what
one thread freed does not serve another: 200 clients took 350 MiB more within two minutes."""


def serve(
    host: Annotated[str | None, typer.Option(help="Address; default MEMORY_HOST or 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; default MEMORY_PORT or 8000; 0 takes a free one.")
    ] = None,
    database: DatabaseUrl = None,
) -> None:
    """Serve HTTP. The embedded database is made, upgraded and seeded; a server's must be at the right
    revision. Where others reach it (any address but loopback), it wants keys, and starts only with one."""
    from memory_service.api.connection import server_of
    from memory_service.api.security.loopback import is_loopback
    from memory_service.app import create_app
    from memory_service.cli.common.output import log_to_stderr
    from memory_service.services.access.keys import require_admin_key
    from memory_service.services.database.transactions import Database
    from memory_service.services.operations.database import require_head
    from memory_service.settings import load_settings, unread

    settings = load_settings(host=host, port=port, database_url=database)
    level = settings.log_level
    log_to_stderr(level)
    for warning in unread(os.environ):
        _log.warning("%s", warning)
    opened = Database(settings.database_url)
    try:
        require_head(opened)
        if settings.require_keys or not is_loopback(settings.host):
            require_admin_key(opened, settings.host)
    finally:
        opened.close()
    _share_memory()
    gc.set_threshold(_OBJECTS_UNTIL_COLLECTED, *gc.get_threshold()[1:])
    application = create_app(settings)
    server = server_of(
        application,
        stopping=application.state.service.stopping.set,
        host=settings.host,
        port=settings.port,
        log_level=level.lower(),
        access_log=level == "DEBUG",
        timeout_graceful_shutdown=_STOP_WITHIN_SECONDS,
    )
    threading.Thread(target=_settle, args=(application.state.service.preparation,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise typer.Exit(_NOT_STARTED)


def _settle(preparation: Preparation) -> None:
    """Leave what was loaded out of the search for cycles: of its 300 000 objects one took 0.2 s, during which
    nobody was answered."""
    while not preparation.wait(_LOOKS_EVERY_SECONDS).ready:
        pass
    gc.collect()
    gc.freeze()


def _share_memory() -> None:
    """As MALLOC_ARENA_MAX, where the C library is glibc."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)
