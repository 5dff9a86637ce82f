"""Do two hundred agents at once get along? They ask, tell and browse for ten minutes, and all is counted.

    python -m benchmarks.many_clients [--minutes 10] [--clients 200] [--postgresql] [--keep]

A server as a user starts it (`memory-service serve`, keys demanded), clients in PROCESSES processes of their
own (`benchmarks.client_life`) that share its cores. Every answer but 2xx is an error, 429 and 503 included.
At the end each acknowledged event must be in the database exactly once. `--keep` writes the section of
docs/methods/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import func, select

from benchmarks.client_life import ASKS, PAUSE_SECONDS, Client
from benchmarks.page import Section
from benchmarks.servers import ROOT, postgresql, serving
from memory_service.services.access.keys import create_key
from memory_service.services.database.transactions import Database
from memory_service.services.operations.database import upgrade
from memory_service.store.tables.runs import RunEvent

__all__ = [
    "SECTION",
    "Outcome",
    "errors_of",
    "kept",
    "main",
    "measure",
    "page",
    "slope_per_minute",
    "times_of",
]

SECTION = Section("many_clients")
PROCESSES = 2
LOOK_SECONDS = 5.0
WARM_SHARE = 0.3
"""Of the time: caches fill until then, and growth is counted from there on."""


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    asked    (kind, milliseconds, status or name of the error)
    told     run -> acknowledged events; kept: run -> (rows, distinct seqs) in the database
    memory   (seconds since the start, MiB, threads, open files) of the server
    """

    database: str
    clients: int
    seconds: float
    asked: list[tuple[str, float, str]]
    told: Mapping[str, int]
    kept: Mapping[str, tuple[int, int]]
    memory: Sequence[tuple[float, ...]] = ()
    server_seconds: float = 0.0
    client_seconds: float = 0.0
    """Of processor time."""

    @property
    def errors(self) -> Counter[tuple[str, str]]:
        return Counter((kind, result) for kind, _, result in self.asked if not result.startswith("2"))

    @property
    def lost(self) -> int:
        """Acknowledged events that are not there."""
        return sum(max(count - self.kept.get(run, (0, 0))[1], 0) for run, count in self.told.items())

    @property
    def doubled(self) -> int:
        return sum(rows - seqs for rows, seqs in self.kept.values())


def slope_per_minute(memory: Sequence[tuple[float, ...]]) -> float:
    """MiB a minute after the warm-up: Theil and Sen's median of the slopes between all pairs, which a single
    peak does not move."""
    warm = [look for look in memory if look[0] >= memory[-1][0] * WARM_SHARE]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for n, a in enumerate(warm) for b in warm[n + 1 :]]
    return statistics.median(slopes) * 60 if slopes else 0.0


def measure(
    url: str,
    name: str,
    clients: int,
    minutes: float,
    folder: Path,
    workers: int,
    kind: type[Client] = Client,
    scopes: Sequence[str] = ("read", "tell"),
) -> Outcome:
    """Serve the database, let the clients live, and look what is kept."""
    keys = _keys(url, clients, scopes)
    own = {"MEMORY_HOME": str(folder), "MEMORY_DATABASE_URL": url, "MEMORY_REQUIRE_KEYS": "true"}
    environment = os.environ | own | {"PYTHONPATH": str(ROOT), "MEMORY_LOG_LEVEL": "WARNING"}
    more = ("--workers", str(workers)) if workers > 1 else ()
    with serving(environment, *more, pin=False, log=folder / "server.log") as (port, _, _, process):
        memory: list[tuple[float, ...]] = []
        over = threading.Event()
        looking = threading.Thread(target=_look, args=(process.pid, memory, over))
        looking.start()
        before, began = _processor_seconds(process.pid), time.perf_counter()
        answers = _living(port, keys, minutes * 60, folder, kind)
        seconds = time.perf_counter() - began
        spent = _processor_seconds(process.pid)
        over.set()
        looking.join()
    asked = [(str(kind), float(ms), str(result)) for each in answers for kind, ms, result in each["asked"]]
    told = {run: count for each in answers for run, count in each["told"].items()}
    clients_spent = sum(each["seconds"] for each in answers)
    return Outcome(name, clients, seconds, asked, told, kept(url), memory, spent - before, clients_spent)


def _keys(url: str, count: int, scopes: Sequence[str]) -> list[str]:
    with Database(url) as database:
        upgrade(database)
        create_key(database, "the owner", ["admin"])
        return [create_key(database, f"agent {n}", scopes)["key"] for n in range(count)]


def _look(pid: int, memory: list[tuple[float, ...]], over: threading.Event) -> None:
    began, server = time.perf_counter(), psutil.Process(pid)
    while True:
        processes = [server, *server.children()]
        shared = sum(_proportional_mib(one) for one in processes)
        threads = sum(_count(one.num_threads) for one in processes)
        files = sum(_count(one.num_fds) for one in processes) if hasattr(server, "num_fds") else 0
        memory.append((time.perf_counter() - began, shared, threads, files))
        if over.wait(LOOK_SECONDS):
            return


def _processor_seconds(pid: int) -> float:
    """Of the server's processes, since they began."""
    server = psutil.Process(pid)
    times = [one.cpu_times() for one in (server, *server.children())]
    return float(sum(each.user + each.system for each in times))


def _count(of: Callable[[], int]) -> int:
    """0 of a process that has ended."""
    with suppress(psutil.NoSuchProcess):
        return of()
    return 0


def _proportional_mib(process: psutil.Process) -> float:
    """The process's memory; of what several share, its part. Elsewhere than on Linux all that it has."""
    with suppress(psutil.NoSuchProcess):
        found = process.memory_full_info()
        return float(getattr(found, "pss", found.rss)) / 2**20
    return 0.0


def _living(
    port: int, keys: list[str], seconds: float, folder: Path, kind: type[Client]
) -> list[dict[str, Any]]:
    begun = []
    for n in range(PROCESSES):
        output = folder / f"clients-{n}.json"
        command = [
            sys.executable,
            "-m",
            "benchmarks.client_life",
            str(port),
            str(seconds),
            str(n),
            str(output),
            kind.__name__,
        ]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)})
        assert process.stdin is not None
        process.stdin.write("\n".join(keys[n::PROCESSES]).encode())
        process.stdin.close()
        begun.append((process, output))
    for process, _ in begun:
        assert process.wait(seconds + 600) == 0, "a process of clients failed"
    return [json.loads(output.read_text(encoding="utf-8")) for _, output in begun]


def kept(url: str) -> dict[str, tuple[int, int]]:
    counted = select(RunEvent.run_id, func.count(), func.count(RunEvent.seq.distinct())).group_by(
        RunEvent.run_id
    )
    with Database(url) as database, database.read() as unit:
        return {str(run): (rows, seqs) for run, rows, seqs in unit.session.execute(counted)}


def page(outcomes: list[Outcome]) -> str:
    """The section."""
    return "\n\n".join([_HEAD, *(_told(outcome) for outcome in outcomes), _NOTES])


_HEAD = "## Two hundred clients at once"

_NOTES = f"""\
- Server (`memory-service serve`, keys required, one key for each client) and clients share this machine's
  {os.cpu_count()} cores ({platform.machine()}). A client waits {PAUSE_SECONDS:g} s on average between two
  requests; {ASKS:.0%} of its tasks are questions, seldom the same twice; a run is reported in 2 to 8 requests
  of 1 to 100 events.
- Every answer but 2xx counts as an error, also 429 and 503. Lost and doubled events are found by comparing
  the database with the events that were acknowledged.
- Memory: of all the server's processes every {LOOK_SECONDS:g} s, what they share counted once; its slope is
  the median of those between all pairs after the first {WARM_SHARE:.0%} of the time."""


def times_of(outcome: Outcome) -> str:
    """The table of requests by kind."""
    times: dict[str, list[float]] = {}
    for kind, milliseconds, _ in outcome.asked:
        times.setdefault(kind, []).append(milliseconds)
    errors = outcome.errors
    rows = []
    for kind, found in sorted(times.items()):
        cuts = statistics.quantiles(found, n=100, method="inclusive") if len(found) > 1 else found * 99
        wrong = sum(count for (of, _), count in errors.items() if of == kind)
        rows.append(f"| {kind} | {len(found)} | {wrong} | {cuts[49]:.0f} | {cuts[94]:.0f} | {cuts[98]:.0f} |")
    return "\n".join([_TIMES, *rows])


_TIMES = """\
| request | requests | errors | p50, ms | p95, ms | p99, ms |
|---|---:|---:|---:|---:|---:|"""


def errors_of(outcome: Outcome) -> str:
    """The errors by kind, in words."""
    named = [f"{kind}: {count} x {result}" for (kind, result), count in sorted(outcome.errors.items())]
    return "; ".join(named) or "none"


def _told(outcome: Outcome) -> str:
    told, memory, named = sum(outcome.told.values()), outcome.memory, errors_of(outcome)
    return f"""\
{outcome.database}, {outcome.clients} clients for {outcome.seconds / 60:.1f} minutes:
{len(outcome.asked):,} requests ({len(outcome.asked) / outcome.seconds:.0f} a second), errors: {named}.
A request took {outcome.server_seconds / len(outcome.asked) * 1e3:.1f} ms of processor time of the server and
{outcome.client_seconds / len(outcome.asked) * 1e3:.1f} ms of the clients.
Of {told:,} acknowledged events in {len(outcome.told):,} runs {outcome.lost} are lost and {outcome.doubled}
are stored twice. Memory {memory[0][1]:.0f} MiB at the start, {memory[-1][1]:.0f} MiB at the end, at most
{max(m for _, m in memory):.0f} MiB; {slope_per_minute(memory):+.1f} MiB a minute after the warm-up.

{times_of(outcome)}"""


def main() -> None:
    """Measure SQLite, or PostgreSQL too."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--minutes", type=float, default=10.0)
    reader.add_argument("--clients", type=int, default=200)
    reader.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes of the server")
    reader.add_argument("--postgresql", action="store_true", help="on PostgreSQL alone")
    reader.add_argument("--both", action="store_true", help="on SQLite, then on PostgreSQL")
    reader.add_argument("--keep", action="store_true", help="write docs/methods/performance.md")
    given = reader.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        if given.both or not given.postgresql:
            url = f"sqlite:///{folder}/many.sqlite3"
            outcomes.append(measure(url, "SQLite", given.clients, given.minutes, here, given.workers))
            print(_told(outcomes[-1]), flush=True)
        if given.both or given.postgresql:
            with postgresql(here) as url:
                outcomes.append(measure(url, "PostgreSQL", given.clients, given.minutes, here, given.workers))
                print(_told(outcomes[-1]), flush=True)
    if given.keep:
        SECTION.keep(SECTION.marked(page(outcomes)))


if __name__ == "__main__":
    main()
