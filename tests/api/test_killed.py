"""A server is killed with SIGKILL while clients send: no acknowledged event is lost, none is there twice."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from memory_service.services.database.transactions import Database
from memory_service.store.queries import runs
from tests.conftest import Servers, free_port
from tests.processes import Command
from tests.telling import CASE, at

CLIENTS = 4
KILLS = 1
"""A start of the server costs three seconds of a processor; tests/client/test_kills.py kills more."""

PER_REQUEST = 5
LONGEST_SECONDS = 300.0


class Client(threading.Thread):
    """Sends events of its own run, each request until it is acknowledged; the server may come and go."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.run_id = port, str(uuid.uuid4())
        self.stop = threading.Event()
        self.acknowledged = 0
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            self._until_taken("/runs", CASE | {"run_id": self.run_id, "model": "custom", "gpu": "custom"})
            while not self.stop.is_set():
                seqs = range(self.acknowledged, self.acknowledged + PER_REQUEST)
                events = [{"seq": s, "kind": "gpu", "at": at(s % 3000), "used_gib": s / 1000} for s in seqs]
                answer = self._until_taken(f"/runs/{self.run_id}/events", {"events": events})
                assert answer["accepted"] + answer["duplicates"] == PER_REQUEST
                assert answer["differing"] == []
                self.acknowledged += PER_REQUEST
        except BaseException as error:  # noqa: BLE001 - the test shows it
            self.failed = error

    def _until_taken(self, path: str, body: dict[str, Any]) -> Any:
        until = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < until:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            try:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.05)
                continue
            finally:
                connection.close()
            if response.status in (200, 201):
                return answer
            assert response.status == 503, answer
            time.sleep(0.05)
        raise TimeoutError(path)


@pytest.mark.slow
def test_a_killed_server_loses_nothing_that_it_acknowledged(
    servers: Servers, kind: str, tmp_path: Path
) -> None:
    port = free_port()
    url = servers.new(kind)  # without seeds a server answers sooner
    own = {"MEMORY_SEED_ON_START": "false", "MEMORY_EMBEDDING_MODEL": "/no/such/model"}
    own |= {"MEMORY_DATABASE_URL": url}
    clients = [Client(port) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    chance = random.Random(11)
    for kill in range(KILLS + 1):
        before = [client.acknowledged for client in clients]
        with Command("serve", "--port", str(port), log=tmp_path / "log", **own) as server:
            while any(now.acknowledged <= then for now, then in zip(clients, before, strict=True)):
                assert server.poll() is None
                assert [client.failed for client in clients] == [None] * CLIENTS
                time.sleep(0.01)
            if kill == KILLS:
                for client in clients:
                    client.stop.set()
                for client in clients:
                    client.join(LONGEST_SECONDS)
            time.sleep(chance.uniform(0.0, 0.3))
            os.kill(server.pid, signal.SIGKILL)
    assert [client.failed for client in clients] == [None] * CLIENTS
    database = Database(url)
    with database.read() as unit:
        for client in clients:
            told = runs.events_of(unit.session, client.run_id)
            assert [seq for seq, _, _ in told] == list(range(client.acknowledged))
            assert all(json.loads(body)["used_gib"] == seq / 1000 for seq, _, body in told)
    database.close()
    servers.drop(url)
