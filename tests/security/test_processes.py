"""Do two real servers over one database agree on who may pass, across a restart?"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from memory_service.api.security.auth_middleware import SESSION_COOKIE
from memory_service.cli import app as command_line
from memory_service.services.access.keyring import CACHED_SECONDS
from tests.conftest import Servers, free_port
from tests.processes import Command


@contextmanager
def serving(url: str, port: int, log: Path) -> Iterator[httpx2.Client]:
    """`memory-service serve` in a process of its own, on every address, asking for keys everywhere."""
    setting = {"MEMORY_REQUIRE_KEYS": "true", "MEMORY_SEED_ON_START": "false"}
    setting["MEMORY_EMBEDDING_MODEL"] = "/no/such/model"
    words = ("serve", "--host", "0.0.0.0", "--port", str(port), "--database", url)
    process = Command(*words, log=log, **setting)
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
            until = time.monotonic() + 120
            while True:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until
                try:
                    if client.get("/readyz").status_code == 200:
                        break
                except httpx2.TransportError:
                    pass
                time.sleep(0.1)
            yield client
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
def test_two_servers_agree_and_a_restart_ends_no_session(servers: Servers, tmp_path: Path):
    url = servers.new("sqlite", "head")

    def keys(*arguments: str) -> Any:
        done = CliRunner().invoke(command_line, ["keys", *arguments, "--database", url, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    admin = keys("create", "ada", "--scope", "admin")["key"]
    agent = keys("create", "agent", "--scope", "read")["key"]
    shown = {"Authorization": f"Bearer {agent}"}
    with serving(url, free_port(), tmp_path / "log") as one:
        with serving(url, free_port(), tmp_path / "log") as other:
            assert one.get("/models?limit=1").status_code == 401
            assert [c.get("/models?limit=1", headers=shown).status_code for c in (one, other)] == [200, 200]
            session = one.post("/browse/login", data={"key": admin}).cookies[SESSION_COOKIE]
            other.cookies.set(SESSION_COOKIE, session)
            assert other.get("/browse/models").status_code == 200
            keys("revoke", "agent")
            revoked = time.monotonic()
            for asked in (one, other):  # each until it refuses: who goes on with a wrong key has to wait
                answer, begun = 200, revoked
                while answer == 200:
                    assert begun <= revoked + CACHED_SECONDS, "asked later than a server may remember the key"
                    time.sleep(0.2)
                    begun = time.monotonic()
                    answer = asked.get("/models?limit=1", headers=shown).status_code
                assert answer == 401
        with serving(url, free_port(), tmp_path / "log") as after:
            after.cookies.set(SESSION_COOKIE, session)
            assert after.get("/browse/models").status_code == 200
    (used,) = [key["last_used_at"] for key in keys("list")["items"] if key["name"] == "agent"]
    assert used is not None, "written down when the server ended, if not before"
    entries = CliRunner().invoke(command_line, ["export", "history", "--database", url, "--format", "jsonl"])
    told = [json.loads(line)["table"] for line in entries.stdout.splitlines()]
    assert told.count("refusals") in (1, 2), "told by each server once"
