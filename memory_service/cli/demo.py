"""`memory-service demo`: the pages with made-up runs, in a database that is gone afterwards."""

import datetime as dt
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer

_RUNS, _RUNNING, _SEED = 40, 2, 7

NOTICE = "A demo: every run here is made up, drawn from the service's own predictions. Nothing is kept."


def demo(
    port: Annotated[
        int | None, typer.Option(help="Port; default MEMORY_PORT or 8000; 0: a free one.")
    ] = None,
) -> None:
    """Serve the shipped knowledge with 42 made-up runs, to look around. Nothing is kept, and nothing of your
    own is touched."""
    from memory_service.cli.common.databases import open_at_head
    from memory_service.cli.common.output import stderr
    from memory_service.cli.common.worker_processes import require_free
    from memory_service.cli.serve import serve
    from memory_service.settings import load_settings

    require_free("127.0.0.1", load_settings(port=port).port)
    # As Ctrl+C does: the server ends by the signal that ended it, and the folder has to go first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.environ.setdefault("MEMORY_NOTICE", NOTICE)
    stopping = threading.Event()
    with tempfile.TemporaryDirectory(prefix="memory-service-demo-") as folder:
        url = f"sqlite:///{Path(folder, 'demo.sqlite3')}"
        with open_at_head(url):
            pass  # its tables are there when the thread looks
        runs = threading.Thread(target=_run, args=(url, stopping), name="made-up runs", daemon=True)
        runs.start()
        stderr.print("All runs are made up; the database is deleted when this ends (Ctrl+C).")
        try:
            serve(host="127.0.0.1", port=port, database=url)
        finally:
            stopping.set()
            runs.join(30)


def _run(url: str, stopping: threading.Event) -> None:
    """Runs of the last weeks, then such that go on, once the server has loaded what is shipped."""
    from memory_service.services.database.transactions import Database
    from memory_service.services.demo.made_up_runs import keep_running, make_up_runs
    from memory_service.services.editorial.seeding import is_seeded

    with Database(url) as database:
        while not is_seeded(database):
            if stopping.wait(0.2):
                return
        now = dt.datetime.now(dt.UTC)
        make_up_runs(database, _RUNS, _SEED, now, every_seconds=60.0, stopping=stopping)
        keep_running(database, _SEED, stopping, _RUNNING)
