"""Does what is asked stay as fast over ten thousand runs as over a hundred? Verdicts, pages, lists, plans.

    python -m benchmarks.many_runs [--runs 100000] [--of sqlite]

Two servers on the same core, one over a database with 100 runs and one with 10 000, 100 events each; the same
questions go to both in turns, so that what else runs on the machine meets both alike. `make bench` writes the
table into docs/methods/performance.md; run alone it replaces that table, with another number of runs or of
one kind of database it is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from benchmarks.alike_runs import EVENTS
from benchmarks.fill import fill_runs
from benchmarks.page import Section
from benchmarks.servers import Connection, pin_client, postgresql, seeded, server_environment, serving

FEW, MANY = 100, 10_000
ROUNDS = 25
FINISHES = 8
"""Runs that end between two plans, each of which makes the service learn anew."""

SECTION = Section("many_runs")
LISTS = (
    "/runs?limit=50",
    "/runs?limit=50&sort=-started_at",
    "/runs?limit=5&gpu=a100&sort=-started_at",
    "/runs?limit=50&status=completed&sort=-started_at",
    "/runs?limit=50&task=image-classification&sort=batch_size",
)
PLAN = "/recommend?task=image&size=medium&gpu=a100"
OF_COMPETITION = "/recommend?competition=dog-breed-identification&gpu=a100"


TARGET = 1.5


@dataclass(frozen=True)
class Figure:
    """Median seconds of one question over both databases."""

    what: str
    few: float
    many: float

    @property
    def ratio(self) -> float:
        return self.many / self.few


def main() -> None:
    """Measure both databases, print the table and keep it in docs/methods/performance.md."""
    reader = argparse.ArgumentParser()
    reader.add_argument("--runs", type=int, default=MANY)
    reader.add_argument("--of", choices=("sqlite", "postgresql"), help="one kind of database")
    given = reader.parse_args()
    pin_client()
    text = section(measure(given.runs, given.of), given.runs)
    print(text)
    if given.runs == MANY and given.of is None:
        SECTION.keep(text)


def measure(runs: int = MANY, of: str | None = None) -> dict[str, list[Figure]]:
    """Database -> figures."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        if of != "postgresql":
            found["SQLite"] = measure_one(*_sqlite(Path(folder), runs))
        if of != "sqlite":
            with postgresql(Path(folder)) as url:
                found["PostgreSQL"] = measure_one(*_postgresql(url, runs))
    return found


def _sqlite(folder: Path, most: int) -> tuple[str, str]:
    """URLs of the small and the large database."""
    base, few, many = (folder / f"{name}.sqlite3" for name in ("base", "few", "many"))
    seeded(f"sqlite:///{base}")
    for file, runs in ((few, FEW), (many, most)):
        shutil.copyfile(base, file)
        fill_runs(f"sqlite:///{file}", runs)
    return f"sqlite:///{few}", f"sqlite:///{many}"


def _postgresql(url: str, most: int) -> tuple[str, str]:
    import psycopg

    def named(name: str) -> str:
        return make_url(url).set(database=name).render_as_string(hide_password=False)

    with psycopg.connect(url, autocommit=True) as server:
        server.execute("CREATE DATABASE base")
        seeded(named("base"))
        for name, runs in (("few", FEW), ("many", most)):
            server.execute(f"CREATE DATABASE {name} TEMPLATE base")
            fill_runs(named(name), runs)
    return named("few"), named("many")


def measure_one(few: str, many: str) -> list[Figure]:
    """Every figure of one kind of database; its small and its large one."""
    as_filled = {"MEMORY_SEED_ON_START": "false", "MEMORY_KEEP_RAW_DAYS": "0"}
    found = []
    with ExitStack() as stack:
        ports = [stack.enter_context(serving(server_environment(url) | as_filled))[0] for url in (few, many)]
        askers = [Asker(port) for port in ports]
        for what, question, rounds in questions():
            taken: list[list[float]] = [[], []]
            for n in range(rounds + 1):
                for asker, kept in zip(askers, taken, strict=True):
                    kept.append(question(asker, n))
            few_seconds, many_seconds = (statistics.median(kept[1:]) for kept in taken)
            found.append(Figure(what, few_seconds, many_seconds))
    return found


Question = Callable[["Asker", int], float]
"""Asks a server for the n-th time; seconds of the answer."""


def questions() -> Iterator[tuple[str, Question, int]]:
    """What is asked: (in words, how, how often)."""
    yield "`GET /runs/{id}/verdict`", lambda a, n: a.timed(f"/runs/{a.runs[2 * n]}/verdict"), ROUNDS
    yield "`POST /runs/{id}/events`, ten events", _tell, ROUNDS
    yield "`GET /runs/{id}`", lambda a, n: a.timed(f"/runs/{a.runs[2 * n + 1]}"), ROUNDS
    for path in LISTS:
        yield f"`GET {path}`", partial(_list, path), ROUNDS
    yield "`GET /recommend`, not asked before", partial(_plan, PLAN), ROUNDS
    yield "`GET /recommend` for a competition, not asked before", partial(_plan, OF_COMPETITION), ROUNDS
    yield "`GET /recommend`, the first after a run ended", _after_a_run, FINISHES


@dataclass
class Asker:
    """One kept connection to one server. runs: ids of some; live: of one that goes on."""

    port: int
    runs: list[str] = field(init=False)
    live: str = field(init=False)

    def __post_init__(self) -> None:
        self._connection = Connection(self.port)
        self.runs = [row["id"] for row in json.loads(self._connection.get("/runs?limit=100"))["items"]]
        self.live = _begin(self)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return json.loads(self._connection.taken("POST", path, body)[1])

    def timed(self, path: str, body: Mapping[str, Any] | None = None) -> float:
        return self._connection.taken("GET" if body is None else "POST", path, body or b"")[0]


def _list(path: str, asker: Asker, _: int) -> float:
    return asker.timed(path)


def _plan(path: str, asker: Asker, n: int) -> float:
    return asker.timed(f"{path}&minutes={random.Random(n).uniform(20, 60):.3f}")


def _tell(asker: Asker, n: int) -> float:
    sent = [
        {
            "seq": 10 * n + i,
            "kind": "gpu",
            "at": f"2026-11-01T12:{n:02d}:{i:02d}Z",
            "utilization_percent": 90.0,
        }
        for i in range(10)
    ]
    return asker.timed(f"/runs/{asker.live}/events", {"events": sent})


def _begin(asker: Asker) -> str:
    body = {
        "run_id": str(uuid.uuid4()), "task": "image", "gpu": "a100", "model": "resnet50", "batch_size": 128,
        "precision": "bf16", "folds": 3, "epochs": 6, "n_train": 30_000, "minutes": 60,
        "started_at": "2026-11-01T12:00:00Z",
    }  # fmt: skip
    return str(asker.post("/runs", body)["run_id"])


def _after_a_run(asker: Asker, n: int) -> float:
    run_id = _begin(asker)
    epochs = [
        {"seq": e, "kind": "epoch", "at": f"2026-11-01T12:{e + 1:02d}:00Z", "fold": 0, "epoch": e,
         "seconds": 30.0 + n, "samples": 20_000, "peak_reserved_gib": 12.0}
        for e in range(6)
    ]  # fmt: skip
    asker.post(f"/runs/{run_id}/events", {"events": epochs})
    end = {"status": "completed", "submission": True, "at": "2026-11-01T12:20:00Z"}
    asker.post(f"/runs/{run_id}/finish", end)
    return asker.timed(f"{PLAN}&minutes=45")


def section(measured: Mapping[str, list[Figure]], runs: int = MANY) -> str:
    """The part of docs/methods/performance.md between its markers."""
    heads = " | ".join(f"{name} | ×" for name in measured)
    lines = [
        _head(runs),
        f"| request | {heads} |",
        "|---|" + "---:|---:|" * len(measured),
    ]
    for figures in zip(*measured.values(), strict=True):
        cells = " | ".join(f"{f.many * 1e3:.1f} | **{f.ratio:.2f}**" for f in figures)
        lines.append(f"| {figures[0].what} | {cells} |")
    return SECTION.marked("\n".join(lines))


def _head(runs: int) -> str:
    return f"""\
## Does it stay as fast over many runs?

{runs:,} finished runs with {EVENTS} events each ({runs * EVENTS:,} events) compared with {FEW} such runs.
Each database has its own server on the same core; the same questions go to both in turns. Medians in
milliseconds, and the ratio to {FEW} runs (target: at most {TARGET:g}). After a run has ended, the first plan
learns from all runs again and prices the card's options again.
"""


if __name__ == "__main__":
    main()
