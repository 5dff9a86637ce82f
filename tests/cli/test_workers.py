"""Do several processes behind one address answer as one, and outlive one of them?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import psutil
import pytest

from memory_service.services.access.keys import create_key
from memory_service.services.database.transactions import Database
from tests.conftest import Servers, free_port

PLAN = "/recommend?task=image&size=medium&gpu=a100&minutes=37"
PER_MINUTE = 40


@pytest.mark.slow
def test_two_processes_share_plans_rates_and_counts_and_one_that_dies_is_replaced(
    servers: Servers, tmp_path: Path
) -> None:
    url, port = servers.new("sqlite", "seeded"), free_port()
    with Database(url) as database:
        admin = create_key(database, "the owner", ["admin"])["key"]
        keys = [create_key(database, name, ["read", "tell"])["key"] for name in ("one", "two")]
    own = {
        "MEMORY_SEED_ON_START": "false",
        "MEMORY_REQUIRE_KEYS": "true",
        "MEMORY_RATE_LIMIT": str(PER_MINUTE),
    }
    own |= {"MEMORY_EMBEDDING_MODEL": "/no/such/model", "MEMORY_DATABASE_URL": url}
    command = [sys.executable, "-m", "memory_service", "serve", "--port", str(port), "--workers", "2"]
    log = tmp_path / "log"
    with log.open("wb") as out:
        parent = subprocess.Popen(command, env=os.environ | own, stdout=out, stderr=out)

    def ask(method: str, path: str, key: str, body: object = None) -> httpx2.Response:
        """Over a connection of its own, which either process may take."""
        shown = {"Authorization": f"Bearer {key}"} if key else {}
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
            return client.request(method, path, json=body, headers=shown)

    def answers() -> bool:
        try:
            return ask("GET", "/readyz", "").status_code == 200
        except httpx2.TransportError:
            return False

    def until(done: Callable[[], object]) -> None:
        end = time.monotonic() + 120
        while not done():
            assert parent.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)

    try:
        until(answers)
        workers = psutil.Process(parent.pid).children()
        assert len(workers) == 2
        plan = ask("GET", PLAN, keys[0]).json()["plan_id"]
        begun = [ask("POST", "/runs", keys[0], {"plan_id": plan}).status_code for _ in range(10)]
        assert begun == [201] * 10, "a plan is known by its id whichever process made it"
        began = time.monotonic()
        asked = [ask("GET", "/patterns?limit=1", keys[1]).status_code for _ in range(2 * PER_MINUTE - 8)]
        refilled = (time.monotonic() - began) * PER_MINUTE / 60
        assert PER_MINUTE <= asked.count(200) <= PER_MINUTE + refilled + 1, (
            "one rate, not one for each process"
        )
        first = ask("GET", PLAN, admin)
        assert first.status_code == 200, first.text
        before = first.json()["knowledge_revision"]
        new = {"slug": "mine", "title": "Mine", "description": "Tell 12 kinds of apples apart in photos."}
        assert ask("POST", "/competitions", admin, new).status_code == 201
        seen = [ask("GET", f"{PLAN}.{n}", admin).json()["knowledge_revision"] for n in range(1, 7)]
        assert min(seen) > before, "what one process wrote, the other knows"
        counted = ask("GET", "/metrics", keys[0]).text
        assert 'route="/runs",status="201"} 10.0' in counted, "counts of both"
        workers[0].send_signal(signal.SIGKILL)
        until(lambda: {one.pid for one in psutil.Process(parent.pid).children()} - {w.pid for w in workers})
        until(answers)
    finally:
        parent.terminate()
        code = parent.wait(60)
    told = log.read_text()
    assert code == 0, told
    assert "Traceback" not in told
    assert not [one for one in workers if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    servers.drop(url)
