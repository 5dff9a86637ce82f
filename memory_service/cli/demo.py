"""`memory-service demo`: the pages with made-up runs, in a database that is gone afterwards."""

import datetime as dt
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

_RUNS, _RUNNING, _SEED = 40, 2, 7


def demo(
    port: Annotated[
        int | None, typer.Option(help="Port; default MEMORY_PORT or 8000; 0: a free one.")
    ] = None,
) -> None:
    """Serve the shipped knowledge with 42 made-up runs, to look around. Nothing is kept, and nothing of your
    own is touched."""
    from memory_service.cli.common.output import stderr
    from memory_service.cli.common.worker_processes import require_free
    from memory_service.cli.serve import serve
    from memory_service.settings import load_settings

    require_free("127.0.0.1", load_settings(port=port).port)
    from memory_service.services.demo.made_up_runs import make_up_runs
    from memory_service.services.operations.database import open_database

    # As Ctrl+C does: the server ends by the signal that ended it, and the folder has to go first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="memory-service-demo-") as folder:
        url = f"sqlite:///{Path(folder, 'demo.sqlite3')}"
        stderr.print("Making up runs ...")
        with open_database(url) as database:
            make_up_runs(
                database, _RUNS, _SEED, dt.datetime.now(dt.UTC), every_seconds=15.0, running=_RUNNING
            )
        stderr.print("These runs are made up; the database is deleted when this ends (Ctrl+C).")
        serve(host="127.0.0.1", port=port, database=url)
