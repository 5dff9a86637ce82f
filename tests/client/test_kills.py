"""Does everything arrive once when the server is killed again and again while runs tell of themselves?"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_service.client import Run, watch
from memory_service.services.unit import Database
from memory_service.store import runs
from tests.conftest import Servers

KILLS = int(os.environ.get("KILLS", "2"))
"""`KILLS=50 CLIENTS=8` is what was promised; twice is what a test run has the time for."""

CLIENTS = int(os.environ.get("CLIENTS", "3"))


def serve(url: str, port: int, folder: Path) -> subprocess.Popen[bytes]:
    own = {"MEMORY_SEED_ON_START": "false", "MEMORY_HOME": str(folder), "PYTHONFAULTHANDLER": "1"}
    environment = os.environ | own
    command = [sys.executable, "-m", "memory_service", "serve", "--port", str(port), "--database", url]
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    until = time.monotonic() + 240
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                return process
        except OSError:
            assert process.poll() is None, (folder / "server.log").read_text()
            time.sleep(0.05)
    process.send_signal(signal.SIGABRT)  # it says where each of its threads is
    process.wait(30)
    raise AssertionError(f"the server never answered: {(folder / 'server.log').read_text()[-20_000:]}")


def tell(run: Run, stop: threading.Event, told: list[int]) -> None:
    epoch = 0
    while not stop.wait(0.01):
        run.epoch(epoch, seconds=0.01, train_loss=0.5)
        epoch += 1
    told.append(epoch)


@pytest.mark.slow
def test_sigkill_of_the_server_at_random_moments_loses_and_doubles_nothing(
    servers: Servers, kind: str, tmp_path: Path, opened: Callable[[str], Database]
):
    url, chance = servers.new(kind, "seeded"), random.Random(7)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = serve(url, port, tmp_path)
    stop = threading.Event()
    told: list[list[int]] = [[] for _ in range(CLIENTS)]
    watched = [
        watch(task="image", model="resnet18", batch_size=32, server=f"http://127.0.0.1:{port}")
        for _ in range(CLIENTS)
    ]
    threads = [threading.Thread(target=tell, args=(r, stop, t)) for r, t in zip(watched, told, strict=True)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.1, 1.5))
            server.send_signal(signal.SIGKILL)
            server.wait(30)
            server = serve(url, port, tmp_path)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert [run.finish(flush_seconds=90) for run in watched] == [True] * CLIENTS
    server.terminate()
    server.wait(60)
    with opened(url).read() as unit:
        for run, (epochs,) in zip(watched, told, strict=True):
            events = runs.events_of(unit.session, run.run_id)
            assert [seq for seq, _, _ in events] == list(range(len(events)))
            assert sum(what == "epoch" for _, what, _ in events) == epochs > 100
            found = runs.find(unit.session, run.run_id)
            assert found is not None
            assert found.status == "completed"
    assert not list((tmp_path / "home").rglob("*.jsonl"))
