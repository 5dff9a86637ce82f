"""`memory-service serve`: the HTTP service in this process, until it is stopped."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory_service.cli.common.databases import DatabaseUrl, open_at_head
from memory_service.cli.common.output import EXIT_REFUSED

if TYPE_CHECKING:
    from fastapi import FastAPI

    from memory_service.settings import Settings

_log = logging.getLogger(__name__)

_STOP_WITHIN_SECONDS = 10
_OBJECTS_UNTIL_COLLECTED = 20_000
"""A request with a hundred events makes a thousand objects and no cycle: looking for cycles after every 700,
as Python does, took a twentieth of the time."""
_ARENA_MAX = -8
_ARENAS = 2
"""Pools that the C library gives its threads memory from. Left alone it makes eight for each core, and what
one thread freed does not serve another: 200 clients took 350 MiB more within two minutes."""
_TRIMMED_EVERY_SECONDS = 5.0
"""The C library keeps what was freed between what is in use: 50 to 60 MiB a process beside 200 clients, a
GiB beside thousands of answers that nobody reads."""


def serve(
    host: Annotated[str | None, typer.Option(help="Address; default MEMORY_HOST or 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; default MEMORY_PORT or 8000; 0 takes a free one.")
    ] = None,
    database: DatabaseUrl = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that share the work, the port and what was loaded.")
    ] = 1,
) -> None:
    """Serve HTTP. The embedded database is made, upgraded and seeded; a server's must be at the right
    revision. Where others reach it (any address but loopback), it wants keys, and starts only with one."""
    from memory_service.cli.common.worker_processes import require_free
    from memory_service.settings import load_settings, unread

    settings = load_settings(host=host, port=port, database_url=database)
    require_free(settings.host, settings.port)
    from memory_service.api.security.loopback import is_loopback
    from memory_service.cli.common.output import log_to_stderr
    from memory_service.services.access.keys import require_admin_key

    level = settings.log_level
    log_to_stderr(level)
    for warning in unread(os.environ):
        _log.warning("%s", warning)
    with open_at_head(database) as opened:
        if settings.require_keys or not is_loopback(settings.host):
            require_admin_key(opened, settings.host)
    _share_memory()
    gc.set_threshold(_OBJECTS_UNTIL_COLLECTED, *gc.get_threshold()[1:])
    if workers > 1:
        _serve_many(workers, settings)
        return
    _begin_trimming()
    from memory_service.api.connection import server_of
    from memory_service.app import create_app

    application = create_app(settings)
    # What was loaded stays: looking through it for cycles again and again stopped everybody for up to 0.7 s.
    application.state.service.preparation.when_ready = gc.freeze
    server = server_of(application, host=settings.host, port=settings.port, **_options(application, settings))
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise typer.Exit(EXIT_REFUSED)


def _options(application: FastAPI, settings: Settings) -> dict[str, Any]:
    level = settings.log_level
    return {
        "stopping": application.state.service.stopping.set,
        "log_level": level.lower(),
        "access_log": level == "DEBUG",
        "timeout_graceful_shutdown": _STOP_WITHIN_SECONDS,
    }


def _serve_many(workers: int, settings: Settings) -> None:
    """Load everything here, then fork: what was loaded is in memory once."""
    with tempfile.TemporaryDirectory(prefix="memory-service-") as folder:
        plans, counts = Path(folder, "plans"), Path(folder, "metrics")
        plans.mkdir()
        counts.mkdir()
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(counts)  # read when prometheus_client is imported
        from memory_service.api.connection import server_of
        from memory_service.app import create_app
        from memory_service.cli.common.worker_processes import bound, run_workers
        from memory_service.services.planning.plan_cache import PlanCache

        try:
            address = bound(settings.host, settings.port)
        except OSError as error:
            _log.error("cannot listen on %s:%d: %s", settings.host, settings.port, error)
            raise typer.Exit(EXIT_REFUSED) from None
        application = create_app(settings)
        application.middleware_stack = application.build_middleware_stack()  # here, so that rates are shared
        service = application.state.service
        service.preparation.load()
        service.database.caches.of(PlanCache).share(plans)

        def work(number: int, own: socket.socket) -> None:
            _begin_trimming()
            service.keeps_house = number == 0
            server_of(application, **_options(application, settings)).run(sockets=[own])

        with address:
            run_workers(workers, address, work)


def _share_memory() -> None:
    """As MALLOC_ARENA_MAX, where the C library is glibc."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def _begin_trimming() -> None:
    """Give the system back what was freed, now and then, where the C library is glibc."""

    def trim() -> None:
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            while True:
                library.malloc_trim(0)
                time.sleep(_TRIMMED_EVERY_SECONDS)

    threading.Thread(target=trim, name="trimming", daemon=True).start()
