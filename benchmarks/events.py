"""How many events a second are taken in? Beside a bare `executemany` into the same database, as durable.

    python -m benchmarks.events

Every figure is of one run of this program: rounds of the service (a server pinned to one core, eight clients
on another) and of the bare insertion (on the server's core, one transaction a request) take
turns. `make bench` writes docs/methods/performance.md; run alone it replaces the table
there.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url

from benchmarks.page import Section
from benchmarks.servers import (
    Connection,
    per_second,
    pin_client,
    pinned,
    postgresql,
    seeded,
    server_environment,
    serving,
)

CLIENTS = 8
SECONDS = 2.0
ROUNDS = 4
BATCHES = (1, 100)
BEGIN = {"task": "image", "gpu": "a100", "model": "resnet50", "batch_size": 128, "precision": "bf16"}


SECTION = Section("events")


@dataclass(frozen=True)
class Figures:
    """Events a second at one number of events a request."""

    database: str
    per_request: int
    ours: float
    bare: float

    @property
    def ratio(self) -> float:
        return self.ours / self.bare


def main() -> None:
    """Measure both databases, print the table and keep it in docs/methods/performance.md."""
    pin_client()
    text = section(measure())
    print(text)
    SECTION.keep(text)


def measure() -> list[Figures]:
    """Every figure of both databases."""
    with tempfile.TemporaryDirectory() as folder:
        measured = measure_one("SQLite", f"sqlite:///{folder}/events.sqlite3")
        with postgresql(Path(folder)) as url:
            return measured + measure_one("PostgreSQL", url)


def measure_one(name: str, url: str) -> list[Figures]:
    """Both sizes of request, ours and bare in alternating rounds; medians."""
    with serving(server_environment(url) | seeded(url)) as (port, _, _, _):
        found = []
        for size in BATCHES:
            ours, theirs = [], []
            for _ in range(ROUNDS):
                theirs.append(bare_per_second(url, size))
                ours.append(service_per_second(port, size))
            found.append(Figures(name, size, statistics.median(ours), statistics.median(theirs)))
    return found


def section(measured: list[Figures]) -> str:
    """The part of docs/methods/performance.md between its markers."""
    lines = [HEAD, "| database | events a request | service | bare | ÷ bare |", "|---|---:|---:|---:|---:|"]
    lines += [
        f"| {f.database} | {f.per_request} | {f.ours:.0f} | {f.bare:.0f} | **{f.ratio:.2f}** |"
        for f in measured
    ]
    lines += ["", "Targets: at least 0.5 of bare (PostgreSQL 0.8).", "", COUNTED]
    return SECTION.marked("\n".join(lines))


HEAD = f"""\
## How many events can be stored?

Events acknowledged a second, each on disk: the service on one core, {CLIENTS} clients on another; a bare
`executemany` into the same table in a process on the service's core, one transaction a request. Rounds take
turns; medians.
"""

COUNTED = """\
Of ten events nine are samples of the card, one is an epoch; one event a request is a sample. Each answer
carries a verdict."""


def service_per_second(port: int, size: int) -> float:
    """Events acknowledged a second over `CLIENTS` kept connections, each with a run of its own."""

    def begin(connection: Connection) -> Callable[[], int]:
        run_id, bodies = str(uuid.uuid4()), _bodies(size)
        connection.taken("POST", "/runs", BEGIN | {"run_id": run_id})

        def send() -> int:
            connection.taken("POST", f"/runs/{run_id}/events", next(bodies))
            return size

        return send

    return per_second(port, CLIENTS, SECONDS, begin)


def events(size: int) -> list[dict[str, object]]:
    """Nine samples of the card to one epoch."""
    moment = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    sample = {"kind": "gpu", "at": moment, "utilization_percent": 91.5, "used_gib": 18.25, "power_w": 251.0}
    epoch = {"kind": "epoch", "at": moment, "fold": 0, "epoch": 3, "seconds": 61.5, "train_loss": 0.4312}
    epoch |= {"valid_loss": 0.512, "metric": 0.871, "peak_allocated_gib": 16.1, "samples": 32_000}
    return [epoch if n % 10 == 9 else sample for n in range(size)]


def _bodies(size: int) -> Iterator[bytes]:
    """Bodies with rising seqs, put together from pieces: the client must not be the slower side."""
    pieces = [json.dumps(event).encode()[1:] for event in events(size)]
    seq = 0
    while True:
        yield b'{"events":[' + b",".join(b'{"seq":%d,' % (seq + n) + p for n, p in enumerate(pieces)) + b"]}"
        seq += size


def bare_per_second(url: str, size: int) -> float:
    """Rows a second of `executemany` with a commit after each request's worth, in a process on the server's
    core, into the table that the service fills."""
    command = pinned([sys.executable, "-m", "benchmarks.events", url, str(size)])
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=os.environ)
    return float(done.stdout)


def _bare(url: str, size: int) -> float:
    run_id = str(uuid.uuid4())
    rows = [(str(e["kind"]), json.dumps(e)) for e in events(size)]
    with _inserting(url) as insert:
        sent, began = 0, time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            insert([(run_id, sent + n, *row) for n, row in enumerate(rows)])
            sent += size
        return sent / (time.perf_counter() - began)


@contextmanager
def _inserting(url: str) -> Iterator[Callable[[list[tuple[str, int, str, str]]], None]]:
    into = "INSERT INTO run_events (run_id, seq, kind, body) VALUES "
    if url.startswith("sqlite"):
        file = sqlite3.connect(str(make_url(url).database), isolation_level=None, timeout=30)
        file.execute("PRAGMA synchronous = FULL")

        def into_file(rows: list[tuple[str, int, str, str]]) -> None:
            file.execute("BEGIN IMMEDIATE")
            file.executemany(into + "(?, ?, ?, ?)", rows)
            file.execute("COMMIT")

        yield into_file
        file.close()
        return
    import psycopg

    with psycopg.connect(url) as server, server.cursor() as cursor:

        def into_server(rows: list[tuple[str, int, str, str]]) -> None:
            cursor.executemany(into + "(%s, %s, %s, %s)", rows)
            server.commit()

        yield into_server


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(_bare(sys.argv[1], int(sys.argv[2])))
    else:
        main()
