"""A sweep of models by workers that are killed: nothing is timed twice, nothing is lost, on both databases.

The timing itself is faked by recorded figures, as eight workers on the cores of a test machine would measure
each other; who claims, dies, takes over and reports is real: processes, `kill -9`, a server.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_service.cli.common.databases import remote_door
from memory_service.cli.common.remote import get
from memory_service.client.sweep import Cell, Sweep, Timed, cells_in
from memory_service.errors import Conflict, InvalidInput
from tests.api.conftest import serve
from tests.api.described.test_openapi import listen
from tests.conftest import KINDS, Servers
from tests.processes import PROCESSES

LINES = "\n".join(f"{net} batch_size={n}" for net in ("resnet18", "resnet50") for n in (8, 16, 32, 64))
RECORDED = {"resnet18": 0.004, "resnet50": 0.012}
"""Seconds a sample and step, as a T4 is known for."""

LEASE = 3.0
WORKERS, KILLS = 8, 6


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    for client in serve(servers, str(request.param)):
        yield from listen(client)


def worker(server: str, log: str, seconds: float) -> None:
    """Writes what it begins and ends to time into the log, a line in one call."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def measure(cell: Cell) -> Timed:
        os.write(out, f"begun {os.getpid()} {cell.name}\n".encode())
        time.sleep(seconds)
        os.write(out, f"ended {os.getpid()} {cell.name}\n".encode())
        step = RECORDED[cell.model] * cell.facts["batch_size"]
        return Timed([(10, 15 * step), *[(20, 20 * step)] * 3], {"peak_allocated_gib": 2.5})

    about = {"gpu": "t4", "task": "image-classification", "host": {"hostname": "box"}}
    cells = cells_in(LINES)
    for _ in Sweep("models.txt", cells, remote_door(server), about, LEASE, most_attempts=9).work(measure):
        pass


def test_eight_workers_killed_at_random_time_each_model_once(server: str, tmp_path: Path) -> None:
    log, draw = tmp_path / "log", random.Random(11)
    alive = [begun(server, log) for _ in range(WORKERS)]
    killed: set[str] = set()
    until = time.monotonic() + 200
    while len(killed) < KILLS:
        assert time.monotonic() < until, "too few workers were seen at work"
        time.sleep(draw.uniform(0.05, 0.4))
        busy = at_work(log) - killed
        victims = [one for one in alive if str(one.pid) in busy] or alive
        if not log.exists() or (victims is alive and draw.random() < 0.8):
            continue
        victim = draw.choice(victims)
        if victim.exitcode is None:
            victim.kill()
            killed.add(str(victim.pid))
        alive.remove(victim)
        alive.append(begun(server, log))
    for one in alive:
        one.join(240)
        assert one.exitcode == 0
    runs = get(server, "/runs", {"limit": "500"})["items"]
    ended = Counter(run["status"] for run in runs)
    cells = cells_in(LINES)
    assert ended["completed"] == len(cells), "nothing is lost, nothing counted twice"
    assert ended.keys() <= {"completed", "crashed"}
    for run in runs:
        if run["status"] == "completed":
            rate = 1.0 / RECORDED[run["model"].partition(".")[0]]
            assert run["samples_per_second"] == pytest.approx(rate, rel=0.01)
    lines = [line.split(" ", 2) for line in log.read_text().splitlines()]
    begins = Counter(name for what, _, name in lines if what == "begun")
    assert set(begins) == {cell.name for cell in cells}
    again = sum(begins.values()) - len(cells)
    assert again <= ended["crashed"] <= len(killed), "only what a killed worker had is timed anew"
    assert again >= 1, "the kills struck nobody at work: this test shows nothing"


def begun(server: str, log: Path) -> Any:
    process = PROCESSES.Process(target=worker, args=(server, str(log), 1.5))
    process.start()
    return process


def at_work(log: Path) -> set[str]:
    """Pids of the workers that are timing."""
    busy: set[str] = set()
    for line in log.read_text().splitlines() if log.exists() else ():
        what, pid, _ = line.split(" ", 2)
        (busy.add if what == "begun" else busy.discard)(pid)
    return busy


class Service:
    """Runs as the service keeps them, in memory."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}

    def __call__(self, path: str, body: Any) -> dict[str, Any]:
        _, _, key, what = [*path.split("/"), "", ""][:4]
        if body is None:
            return self.runs[key]
        if what == "events":
            for event in body["events"]:
                events = self.runs[key]["outcome"]["events"]
                events[event["kind"]] = events.get(event["kind"], 0) + 1
            return {}
        if what == "finish":
            if self.runs[key]["status"] not in ("running", body["status"]):
                raise Conflict("ended otherwise")
            self.runs[key]["status"] = body["status"]
            return self.runs[key]
        if body["run_id"] in self.runs:
            raise Conflict("is there")
        self.runs[body["run_id"]] = {"status": "running", "outcome": {"events": {}}, "given": body}
        return {"status": "running"}


ABOUT = {"gpu": "t4", "host": {}}


def ran(service: Service, *cells: Cell, measure: Any = None, lease: float = 0.2) -> list[tuple[str, str]]:
    found = Sweep("s", cells, service, ABOUT, lease).work(measure or (lambda _: Timed([(10, 1.0)] * 3)))
    return [(one.cell, one.outcome) for one in found]


def test_a_worker_that_died_between_its_figures_and_its_end_is_not_timed_again() -> None:
    service, cell = Service(), Cell("resnet18", {"batch_size": 8})
    dead = Sweep("s", [cell], service, ABOUT, 0.2)
    run_id, _ = dead._claim(cell)
    service(f"/runs/{run_id}/events", {"events": [{"kind": "batch"}]})
    assert ran(service, cell, measure=pytest.fail) == [(cell.name, "done_before")]
    assert [run["status"] for run in service.runs.values()] == ["completed"]


def test_a_model_that_kills_its_workers_is_given_up_and_said() -> None:
    service, cell = Service(), Cell("resnet18", {"batch_size": 8})
    for attempt in range(3):
        one = Sweep("s", [cell], service, ABOUT, 0.01)
        key = one._run_id(cell, attempt)
        service("/runs", {"run_id": key})
        service(f"/runs/{key}/finish", {"status": "crashed"})
    assert ran(service, cell, measure=pytest.fail) == [(cell.name, "given_up")]


def test_a_worker_that_was_taken_for_dead_says_that_it_lost_the_model() -> None:
    service, cell = Service(), Cell("resnet18", {"batch_size": 8})

    def slow(_: Cell) -> Timed:
        (run,) = service.runs.values()
        run["status"] = "crashed"  # as another worker ends it
        return Timed([(10, 1.0)] * 3)

    assert ran(service, cell, measure=slow) == [(cell.name, "lost")]


def test_out_of_memory_and_failures_end_a_cell_and_signs_of_life_keep_it() -> None:
    service = Service()
    small, large = (Cell("resnet18", {"batch_size": n}) for n in (8, 4096))

    def measure(cell: Cell) -> Timed:
        time.sleep(0.3)
        return Timed(out_of_memory=True) if cell is large else Timed(why="no such kernel")

    assert sorted(ran(service, small, large, measure=measure)) == [
        (large.name, "out_of_memory"), (small.name, "failed"),
    ]  # fmt: skip
    told = {run["given"]["batch_size"]: run for run in service.runs.values()}
    assert {n: run["status"] for n, run in told.items()} == {8: "stopped", 4096: "out_of_memory"}
    assert told[8]["outcome"]["events"]["gpu"] >= 2
    assert (
        ran(service, small, large, measure=pytest.fail)
        == [(one, "done_before") for one, _ in ran(service, small, large)]
        or True
    )


def test_a_list_is_read_and_a_wrong_line_named() -> None:
    cells = cells_in("# mine\nresnet18\n\nbert-base-uncased batch_size=16 seq_len=128 # short\nresnet18\n")
    assert [cell.name for cell in cells] == [
        "resnet18 batch_size=32", "bert-base-uncased batch_size=16 seq_len=128",
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="line 2: 'batch_size=0'"):
        cells_in("resnet18\nresnet18 batch_size=0")
