"""What does a request cost? Processor time by kind of request, and of an event.

    python -m benchmarks.request_cost [--sqlite]

A server as `memory-service serve` starts it, one connection, each kind asked alone; processor milliseconds of
the server's processes (PostgreSQL's own beside them), divided by the requests. The mixture is that of
`benchmarks.client_life`. It writes its section of docs/methods/performance.md, from which
the table of docs/scale.md follows; with `--sqlite` it prints that database's figures alone.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from benchmarks.client_life import GPUS, MODELS, PLACES, TASKS, TEXTS
from benchmarks.events import BEGIN, events
from benchmarks.page import Section
from benchmarks.servers import Connection, postgresql, server_environment, serving
from memory_service.services.database.transactions import Database
from memory_service.services.operations.database import upgrade

__all__ = ["Cost", "Kind", "kinds", "main", "measure", "section"]

SECTION = Section("request_cost")
ENDED = 20
"""Competition runs that have ended before anything is measured."""


@dataclass(frozen=True)
class Cost:
    """Milliseconds of processor time of a request. database_ms: of PostgreSQL's processes."""

    kind: str
    server_ms: float
    database_ms: float
    p50_ms: float


@dataclass
class Asker:
    """One connection to a server, with dice of its own."""

    port: int
    dice: random.Random

    def __post_init__(self) -> None:
        self._connection = Connection(self.port)
        self.live: list[str] = []
        self.seq: dict[str, int] = {}

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The body of an answer, which must be 2xx."""
        return self._connection.taken(method, path, body or b"")[1]

    def begin(self) -> str:
        """A run that goes on."""
        run_id = str(uuid.UUID(int=self.dice.getrandbits(128), version=4))
        self.ask("POST", "/runs", {"run_id": run_id, **BEGIN})
        self.live.append(run_id)
        return run_id

    def events(self, count: int) -> None:
        """Of the latest run."""
        run_id = self.live[-1]
        first = self.seq.get(run_id, 0)
        said = [{"seq": first + n, **event} for n, event in enumerate(events(count))]
        self.ask("POST", f"/runs/{run_id}/events", {"events": said})
        self.seq[run_id] = first + count

    def finish(self) -> None:
        """End the latest run, which has reported twenty events."""
        end = {"status": "completed", "best_metric": round(self.dice.random(), 4)}
        self.ask("POST", f"/runs/{self.live.pop()}/finish", end)

    def plan(self) -> None:
        """A question not asked before."""
        pick = self.dice.choice
        fields = f"task={pick(TASKS)}&gpu={pick(GPUS)}&n_train={self.dice.randrange(500, 300_000)}"
        self.ask("GET", f"/recommend?{fields}&minutes={self.dice.uniform(10, 90):.3f}")


@dataclass(frozen=True)
class Kind:
    """A kind of request. before: what is not counted and comes before each one; times: how often it is
    asked."""

    name: str
    ask: Callable[[Asker], object]
    times: int
    before: Callable[[Asker], object] | None = None


def kinds() -> Iterator[Kind]:
    """In the order they are asked."""

    def similar(a: Asker) -> None:
        a.ask(
            "POST",
            "/similar",
            {"text": f"{a.dice.choice(TEXTS)} {a.dice.randrange(1_000, 90_000)} samples."},
        )

    def predict(a: Asker) -> None:
        model, gpu = quote(a.dice.choice(MODELS)), a.dice.choice(GPUS)
        a.ask("GET", f"/predict?model={model}&gpu={gpu}&batch_size={a.dice.randrange(1, 512)}&precision=bf16")

    def reported(a: Asker) -> None:
        a.begin()
        a.events(20)

    def ended(a: Asker) -> None:
        reported(a)
        a.finish()

    asked = "/recommend?task=image&size=medium&gpu=a100&minutes=47"
    yield Kind("`/recommend`, not asked before", lambda a: a.plan(), 120)
    yield Kind("`/recommend`, the first after a run ended", lambda a: a.plan(), 40, ended)
    yield Kind("`/recommend`, asked before", lambda a: a.ask("GET", asked), 1000)
    yield Kind("`/similar`, a sentence", similar, 60)
    yield Kind("`/predict`", predict, 100)
    yield Kind("`POST /runs`", lambda a: a.begin(), 60)
    yield Kind("`POST /runs/{id}/events`, one event", lambda a: a.events(1), 400)
    yield Kind("`POST /runs/{id}/events`, a hundred", lambda a: a.events(100), 100)
    yield Kind("`GET /runs/{id}/verdict`", lambda a: a.ask("GET", f"/runs/{a.live[-1]}/verdict"), 100)
    yield Kind("`POST /runs/{id}/finish`", lambda a: a.finish(), 40, reported)
    for place in PLACES:
        yield Kind(f"`{place}`", partial(Asker.ask, method="GET", path=place), 12)


def measure(name: str, url: str) -> list[Cost]:
    """Every kind on one database."""
    with serving(server_environment(url)) as (port, _, _, process):
        server = psutil.Process(process.pid)
        asker = Asker(port, random.Random(7))
        for _ in range(ENDED):
            asker.begin()
            asker.events(20)
            asker.finish()
        return [_cost(asker, kind, server, name) for kind in kinds()]


def _cost(asker: Asker, kind: Kind, server: psutil.Process, name: str) -> Cost:
    for _ in range(3):
        if kind.before is not None:
            kind.before(asker)
        kind.ask(asker)
    spent = stored = 0.0
    taken = []
    time.sleep(0.3)
    at = _seconds(server), _postgres_seconds() if name == "PostgreSQL" else 0.0
    for n in range(kind.times):
        if kind.before is not None:
            kind.before(asker)
            time.sleep(0.05)
            at = _seconds(server), _postgres_seconds() if name == "PostgreSQL" else 0.0
        began = time.perf_counter()
        kind.ask(asker)
        taken.append(time.perf_counter() - began)
        if kind.before is not None or n == kind.times - 1:
            spent += _seconds(server) - at[0]
            stored += (_postgres_seconds() if name == "PostgreSQL" else 0.0) - at[1]
    taken.sort()
    cost = Cost(kind.name, spent / kind.times * 1e3, stored / kind.times * 1e3, taken[len(taken) // 2] * 1e3)
    print(f"{cost.kind:55s} {cost.server_ms:8.2f} {cost.database_ms:8.2f} {cost.p50_ms:8.2f}", flush=True)
    return cost


def _seconds(server: psutil.Process) -> float:
    total = 0.0
    for process in (server, *server.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += _nanoseconds(process.pid) / 1e9
    return total


def _postgres_seconds() -> float:
    total = 0.0
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "postgres":
            with suppress(psutil.NoSuchProcess):
                total += _nanoseconds(process.pid) / 1e9
    return total


def _nanoseconds(pid: int) -> int:
    """Of all threads that live: Linux counts them to the nanosecond."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            total += int(task.read_text().split()[0])
    return total


def section(measured: Mapping[str, list[Cost]]) -> str:
    """The part of docs/methods/performance.md."""
    heads = " | ".join(f"{name}" for name in measured)
    rows = []
    for costs in zip(*measured.values(), strict=True):
        cells = " | ".join(
            f"{c.server_ms:.2f}" + (f" + {c.database_ms:.2f}" if c.database_ms else "") for c in costs
        )
        rows.append(f"| {costs[0].kind} | {cells} |")
    return SECTION.marked(
        "\n".join([_HEAD, f"| request | {heads} |", "|---|" + "---:|" * len(measured), *rows])
    )


_HEAD = """\
## What does a request cost?

Milliseconds of processor time, one connection, one kind after the other; on PostgreSQL those of its own
processes are added behind the plus. A server with one process pinned to one core. The counts that do not
jitter, SQL statements and texts encoded, have bounds in `tests/test_request_counts.py`.
"""


def main() -> None:
    """Measure both databases and keep the section; or SQLite alone."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--sqlite", action="store_true", help="SQLite alone; nothing is written")
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = {"SQLite": measure("SQLite", f"sqlite:///{folder}/cost.sqlite3")}
        if given.sqlite:
            return
        with postgresql(Path(folder)) as url:
            with Database(url) as database:
                upgrade(database)
            measured["PostgreSQL"] = measure("PostgreSQL", url)
    SECTION.keep(section(measured))


if __name__ == "__main__":
    main()
