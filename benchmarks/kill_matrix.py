"""Does anything go missing where a process is killed in the middle of its work?

    python -m benchmarks.kill_matrix [rounds=10] [operation or database ...]

On SQLite and PostgreSQL, `rounds` times each, kill -9 at a random moment of the operation's usual time:
`db upgrade` from revision 0005 (2,000 runs, a correction), `seed`, `db backup`, `db restore`, and `serve`
while four clients report events. Then the same command is given again. `db check` must find nothing, the
database must hold what it holds after an operation that nobody killed, a backup must be whole or absent, and
each event that a server acknowledged must be there once. Exit status 1 where anything is amiss.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg
from sqlalchemy import inspect, make_url

from benchmarks.events import BEGIN, events
from benchmarks.many_clients import kept
from benchmarks.servers import ROOT, Connection, postgresql, server_environment, serving
from memory_service.services.database.transactions import Database
from memory_service.services.operations import database as databases
from tests.processes import Command

__all__ = ["Result", "main"]

OPERATIONS = ("upgrade", "seed", "backup", "restore", "serve")
OLD = "0005"
COPIES, CLIENTS, SERVED_SECONDS = 1_000, 4, 8.0


@dataclass
class Result:
    """What kills of one operation did on one database. events: those that servers acknowledged."""

    operation: str
    database: str
    kills: int = 0
    alive: int = 0
    lost: int = 0
    doubled: int = 0
    events: int = 0
    problems: list[str] = field(default_factory=list)

    def compare(self, expected: Counter[str], found: Counter[str]) -> None:
        """Count what is missing, and what is there too often."""
        self.lost += (expected - found).total()
        self.doubled += (found - expected).total()

    def check(self, url: str) -> None:
        """As `db check`."""
        with Database(url) as database:
            self.problems += databases.check(database).problems

    @property
    def row(self) -> str:
        of = f" ({self.events:,} events)" if self.events else ""
        figures = (self.kills, self.alive, self.lost, self.doubled, len(self.problems))
        return f"| `{self.operation}`{of} | {self.database} | {' | '.join(map(str, figures))} |"


def fill_old(url: str) -> None:
    """A database at an old revision with what a program of that time kept, its runs a thousand times over."""
    old = json.loads((ROOT / "tests" / "store" / "before" / f"{OLD}.json").read_text(encoding="utf-8"))
    with Database(url) as database:
        databases.upgrade(database, OLD)
        with database.write() as unit:
            for name, rows in old.items():
                key = {"runs": "id", "run_events": "run_id"}.get(name)
                more = [row | {key: f"{row[key]}-{n}"} for n in range(COPIES) for row in rows] if key else []
                names = ", ".join(f'"{column}"' for column in rows[0])
                marks = ", ".join([database.dialect.mark] * len(rows[0]))
                into = f'INSERT INTO "{name}" ({names}) VALUES ({marks})'
                values = [tuple(row.values()) for row in [*rows, *more]]
                unit.session.connection().exec_driver_sql(into, values)


def contents(url: str) -> Counter[str]:
    """How many rows each table has, and each event with its text."""
    with Database(url) as database, database.read() as unit:
        ask = unit.session.connection().exec_driver_sql
        names = inspect(unit.session.connection()).get_table_names()
        tables = [name for name in names if not name.startswith("passages_")]
        rows = {name: ask(f'SELECT count(*) FROM "{name}"').scalar_one() for name in tables}
        events = ask("SELECT run_id, seq, kind, body FROM run_events")
        return Counter(rows) + Counter(":".join(map(str, row)) for row in events)


@dataclass
class Matrix:
    """The operations on databases of one kind, in a folder or on a server."""

    kind: str
    rounds: int
    folder: Path
    server: str = ""
    dice: random.Random = field(default_factory=partial(random.Random, 42))

    def new(self, template: str = "") -> str:
        """The URL of an empty database, or of a copy of one that nobody has open."""
        name, old = f"k{uuid.uuid4().hex}", make_url(template).database if template else None
        if self.server:
            self._administer(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{old}"' if old else ""))
            return make_url(self.server).set(database=name).render_as_string(hide_password=False)
        if old:
            shutil.copyfile(old, self.folder / name)
        return f"sqlite:///{self.folder / name}"

    def drop(self, url: str) -> None:
        name = make_url(url).database or ""
        if self.server:
            self._administer(f'DROP DATABASE "{name}" WITH (FORCE)')
        else:
            for file in Path(name).parent.glob(f"{Path(name).name}*"):
                file.unlink()

    def _administer(self, command: str) -> None:
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(command.encode())

    def measure(self, wanted: Sequence[str]) -> Iterator[Result]:
        """A result of each operation."""
        upgrade, seed = ["db", "upgrade"], ["seed", "--without-vectors"]
        saved, target = (
            str(self.folder / f"{self.kind}.saved"),
            str(self.folder / f"{self.kind}.copy"),
        )
        old = self.new()
        fill_old(old)
        upgraded = self.new(old)
        assert not self._refused(upgraded, upgrade)
        full = self.new(upgraded)
        assert not self._refused(full, seed)
        assert not self._refused(full, ["db", "backup", saved])
        for operation, template, words in (
            ("upgrade", old, upgrade),
            ("seed", upgraded, seed),
            ("backup", full, ["db", "backup", target]),
            ("restore", "", ["db", "restore", saved]),
        ):
            if operation in wanted:
                yield self.command(Result(operation, self.kind), template, words)
        if "serve" in wanted:
            yield self.serve(Result("serve", self.kind), full)

    def _begin(self, url: str, words: Sequence[str]) -> Command:
        """`memory-service` with these words, in a process that need not import first."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        return Command(*words, log=log, MEMORY_DATABASE_URL=url, MEMORY_LOG_LEVEL="WARNING")

    def _refused(self, url: str, words: Sequence[str]) -> str:
        """What a command said that nobody killed, if it failed."""
        ended = self._begin(url, words).wait(600)
        return (self.folder / "log").read_text(encoding="utf-8")[-300:].strip() if ended else ""

    def command(self, result: Result, template: str, words: list[str]) -> Result:
        """Done once, then killed in each round and given again."""
        url, target = self.new(template), Path(words[-1])
        began = time.perf_counter()
        assert not self._refused(url, words)
        usual, expected = time.perf_counter() - began, contents(url)
        for _ in range(self.rounds):
            self.drop(url)
            url = self.new(template)
            if result.operation == "backup":
                target.unlink()
            process = self._begin(url, words)
            time.sleep(self.dice.uniform(0.0, usual))
            process.kill()
            result.kills += 1
            result.alive += process.wait(60) == -signal.SIGKILL
            done = result.operation == "backup" and target.exists()
            refused = self._refused(url, words)
            if refused and not done and "is not empty" not in refused:
                result.problems.append(f"given again: {refused}")
            result.check(url)
            result.compare(expected, contents(url))
            beside = [] if self.server else [*self.folder.glob(f"{Path(url).name}.*.backup")]
            for file in [*beside, *([target] if result.operation == "backup" else [])]:
                copy = self.new()
                if refused := self._refused(copy, ["db", "restore", str(file)]):
                    result.problems.append(f"{file.name} cannot be restored: {refused}")
                else:
                    result.compare(expected, contents(copy))
                self.drop(copy)
        self.drop(url)
        return result

    def serve(self, result: Result, template: str) -> Result:
        """One server after the other on one database; clients send again what was not acknowledged."""
        url = self.new(template)
        reporters = [Reporter() for _ in range(CLIENTS)]
        environment = server_environment(url) | {"MEMORY_SEED_ON_START": "false"}
        for n in range(self.rounds + 1):
            with serving(environment) as (port, _, _, process):
                threads = [threading.Thread(target=each.report, args=(port,)) for each in reporters]
                for each, thread in zip(reporters, threads, strict=True):
                    each.begun.clear()
                    each.over.clear()
                    thread.start()
                for each in reporters:
                    each.begun.wait(60)
                time.sleep(self.dice.uniform(0.1, SERVED_SECONDS))
                if n < self.rounds:
                    result.kills += 1
                    result.alive += process.poll() is None and all(thread.is_alive() for thread in threads)
                    process.kill()
                for each, thread in zip(reporters, threads, strict=True):
                    each.over.set()
                    thread.join()
            result.check(url)
        stored = kept(url)
        for each in reporters:
            rows, seqs = stored.get(each.run_id, (0, 0))
            result.lost += max(each.told - seqs, 0)
            result.doubled += rows - seqs
            result.problems += each.problems
            result.events += each.told
        self.drop(url)
        return result


class Reporter:
    """A client with one run, which goes on with what was not acknowledged when a server is there again."""

    def __init__(self) -> None:
        self.run_id, self.told = str(uuid.uuid4()), 0
        self.begun, self.over, self.problems = threading.Event(), threading.Event(), list[str]()

    def report(self, port: int) -> None:
        """Until told to stop, or hung up on."""
        with suppress(OSError, AssertionError):
            server = Connection(port)
            if self._send(server, "/runs", BEGIN | {"run_id": self.run_id}):
                self.begun.set()
            while self.begun.is_set() and not self.over.is_set():
                some = events(random.choice((1, 5, 20, 100)))
                said = [{"seq": self.told + n, **event} for n, event in enumerate(some)]
                if not self._send(server, f"/runs/{self.run_id}/events", {"events": said}):
                    return
                self.told += len(said)

    def _send(self, server: Connection, path: str, body: object) -> bool:
        """Whether it was taken; sent again after a 503, which says that the database is busy."""
        while (answer := server.ask("POST", path, json.dumps(body).encode()))[0] == 503:
            if self.over.wait(0.2):
                return False
        if answer[0] not in (200, 201):
            self.problems.append(f"{answer[0]} for {path}: {answer[1][:200]!r}")
        return answer[0] in (200, 201)


def main() -> None:
    """Print the table; exit 1 where anything was lost."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    results: list[Result] = []
    wanted = sys.argv[2:]
    print("| operation | database | kills | alive when hit | lost | doubled | problems |")
    print("|---|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name, postgresql(Path(name)) as server:
        os.environ["MEMORY_HOME"] = name
        for kind, url in (("SQLite", ""), ("PostgreSQL", server)):
            if {"SQLite", "PostgreSQL"} & {*wanted} and kind not in wanted:
                continue
            chosen = [each for each in OPERATIONS if each in wanted] or OPERATIONS
            for result in Matrix(kind, rounds, Path(name), url).measure(chosen):
                results.append(result)
                print(result.row, flush=True)
    problems = [f"{one.operation}, {one.database}: {each}" for one in results for each in one.problems]
    print("", *problems, sep="\n")
    sys.exit(any(one.lost or one.doubled or one.problems for one in results))


if __name__ == "__main__":
    main()
