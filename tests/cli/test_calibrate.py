"""Does `memory-service calibrate` measure this processor for real, and end in order whatever happens?"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from typer.testing import CliRunner

from memory_service.cli import app
from memory_service.services.database.transactions import Database
from memory_service.services.devices import calibrations
from memory_service.services.devices.calibrations import get_calibration
from memory_service.services.operations.database import require_head
from memory_service.services.tables.table_rows import list_rows
from tests.api.conftest import serve
from tests.api.described.test_openapi import listen
from tests.conftest import Servers
from tests.processes import Command

ENDLESS = """
import sys
from memory_service.services.devices import local_calibration as benchmark
SAID = '''
import json, sys
for name in ("launch.us", "launch.train_us"):
    measured = {"value": 5.0, "unit": "us", "p20": 5.0, "p80": 5.0, "n": 5}
    print(json.dumps({"event": "section", "name": name, "measurement": measured}), flush=True)
sys.stdin.read()
'''
benchmark.command = lambda *_, **__: [sys.executable, "-c", SAID]
"""
"""A benchmark that measures two figures at once and ends only when whoever asked for it is gone."""

QUIET = {"MEMORY_EMBEDDING_MODEL": "/nowhere", "MEMORY_SEED_ON_START": "false", "TERM": "dumb"}


@pytest.fixture
def url(servers: Servers) -> Iterator[str]:
    url = servers.new("sqlite", "seeded")
    yield url
    servers.drop(url)


def run(*arguments: str, folder: Path | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "memory_service", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ | QUIET, cwd=folder)


def said(process: Command, log: Path, text: str) -> str:
    """The first line with this text, once it is there."""
    while True:
        over = process.poll() is not None
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        for line in lines:
            if text in line and line.endswith("\n"):
                return line
        assert not over, lines
        time.sleep(0.02)


def measuring(*arguments: str, log: Path, before: str = "") -> Command:
    """`memory-service calibrate` of the processor, which has measured something."""
    process = Command("calibrate", "--device", "cpu", *arguments, log=log, before=before, **QUIET)
    said(process, log, " us (")
    return process


def until_measured(look: Callable[[], dict[str, Any]], least: int = 1) -> None:
    """What the command prints is stored with its next report."""
    until = time.monotonic() + 120
    while look()["measured"] < least:
        assert time.monotonic() < until
        time.sleep(0.1)


def only_one(url: str) -> dict[str, Any]:
    with Database(url) as database:
        with database.read() as unit:
            (row,) = list_rows(unit, "calibrations").items
        return get_calibration(database, row["id"])


@pytest.mark.slow
def test_a_short_budget_is_kept_and_the_result_is_one_document(url: str):
    process = run("calibrate", "--device", "cpu", "--budget-seconds", "3", "--database", url, "--json")
    out, err = process.communicate(timeout=120)
    made = json.loads(out)
    left_out = [name for name, why in made["missing"].items() if "budget of 3 s had no time for it" in why]
    assert left_out or made["status"] == "timed_out", "what 3 s do not hold is not begun, or cut"
    assert process.returncode == (0 if made["status"] == "done" else 1)
    assert (made["device"], made["gpu"], made["origin"]) == ("cpu", "cpu", "local")
    assert made["sections"] or "budget of 3 s ended" in made["why"]
    assert all(name in err for name in made["sections"]), "a line for every figure where there is no terminal"
    assert only_one(url) == made
    with Database(url) as database, database.read() as unit:
        (begun,) = list_rows(unit, "history", {"table": "calibrations", "action": "create"}).items
    assert begun["who"].endswith("command line)") or begun["who"] == "command line"


@pytest.mark.slow
def test_a_signal_ends_it_as_failed_with_what_was_measured(url: str, tmp_path: Path):
    """SIGINT; tests/measure sends SIGTERM to what this command runs."""
    process = measuring("--database", url, "--name", "mine", log=tmp_path / "log", before=ENDLESS)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 1
    made = only_one(url)
    assert (made["device"], made["status"], made["why"]) == ("mine", "failed", "stopped by SIGINT")
    assert made["sections"]
    assert made["usable"] or made["contended"]
    assert not psutil.wait_procs(children, timeout=60)[1]


@pytest.mark.slow
def test_killed_outright_it_reads_as_failed_and_leaves_no_process(url: str, tmp_path: Path):
    process = measuring("--database", url, log=tmp_path / "log")
    until_measured(lambda: only_one(url))
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    made = only_one(url)
    assert made["status"] == "failed"
    assert "it was killed" in made["why"]
    assert made["sections"]
    assert not psutil.wait_procs(children, timeout=60)[1]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--device", "gpu0"], 1, "cpu, mps or cuda:N"),
        (["--device", "cuda:0"], 1, "unavailable"),
        (["--device", "cpu", "--budget-seconds", "0"], 2, "budget-seconds"),
        (["--device", "cpu", "--budget-seconds", "x"], 2, "budget-seconds"),
        (["--device", "cpu", "--name", "a100"], 1, "means the GPU model"),
        (["--device", "cpu", "--server", "ftp://x"], 1, "must be the URL"),
        (["--device", "cpu", "--server", "http://127.0.0.1:9"], 1, "does not answer"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_exit_code(
    url: str, arguments: list[str], code: int, said: str
):
    database = [] if "--server" in arguments else ["--database", url]
    result = CliRunner().invoke(app, ["calibrate", *arguments, *database])
    assert result.exit_code == code, result.output
    assert said in " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def server(servers: Servers) -> Iterator[str]:
    for client in serve(servers, "sqlite"):
        yield from listen(client)


@pytest.mark.slow
class TestWithAServer:
    def test_a_result_arrives_there(self, server: str, tmp_path: Path):
        process = run(
            "calibrate",
            "--device",
            "cpu",
            "--budget-seconds",
            "2",
            "--server",
            server,
            "--json",
            folder=tmp_path,
        )
        out, err = process.communicate(timeout=120)
        made = json.loads(out)
        assert (made["origin"], made["status"] in calibrations.ENDED) == ("posted", True), err
        assert made["device"].endswith("-cpu")
        assert httpx2.get(f"{server}/calibrations/{made['id']}").json() == made
        assert list(tmp_path.iterdir()) == []

    def test_a_client_killed_outright_reads_as_failed(
        self, server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        process = measuring("--name", "killed", "--server", server, log=tmp_path / "log", before=ENDLESS)
        until_measured(lambda: httpx2.get(f"{server}/calibrations?device=killed").json()["items"][0])
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        assert children
        assert not psutil.wait_procs(children, timeout=60)[1], "a killed client leaves no process"
        (running,) = httpx2.get(f"{server}/calibrations?device=killed").json()["items"]
        assert running["status"] == "running"
        monkeypatch.setattr(calibrations, "SILENT_SECONDS", 1.0)
        time.sleep(1.0)
        (row,) = httpx2.get(f"{server}/calibrations?device=killed").json()["items"]
        assert row["status"] == "failed"
        assert "nothing more was heard" in row["why"]
        assert row["measured"] > 0


@pytest.mark.slow
def test_a_server_killed_outright_leaves_a_failed_calibration_with_its_figures(url: str, tmp_path: Path):
    with serving(url, tmp_path / "first") as (process, address):
        made = httpx2.post(f"{address}/gpus", json={"name": "cpu", "device": "cpu"}, timeout=60)
        assert made.status_code == 201, made.text
        key = made.json()["calibration"]["id"]
        until_measured(lambda: httpx2.get(f"{address}/calibrations/{key}", timeout=60).json(), 2)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        assert not psutil.wait_procs(children, timeout=60)[1], "the benchmark ends with the server"
    with serving(url, tmp_path / "second") as (_, address):
        after = httpx2.get(f"{address}/calibrations/{key}", timeout=60).json()
        assert (after["status"], after["stale"]) == ("failed", [])
        assert "it was killed" in after["why"]
        assert after["measured"] >= 2
        assert after["usable"] or after["contended"]
        again = httpx2.post(
            f"{address}/gpus", json={"name": "cpu", "device": "cpu", "budget_seconds": 1}, timeout=60
        )
        assert (again.status_code, again.json()["calibration"]["status"]) == (200, "running")


@contextlib.contextmanager
def serving(url: str, log: Path) -> Iterator[tuple[Command, str]]:
    """`memory-service serve` in a process of its own, once it is ready."""
    process = Command("serve", "--port", "0", "--database", url, log=log, **QUIET)
    try:
        line = said(process, log, "Uvicorn running on")
        address = line.split("running on ")[1].split()[0]
        until = time.monotonic() + 120
        while httpx2.get(f"{address}/gpus?limit=1", timeout=60).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.2)
        yield process, address
    finally:
        process.terminate()
        process.wait(120)


def test_the_database_of_these_tests_is_at_head(url: str):
    with Database(url) as database:
        assert require_head(database) is None
