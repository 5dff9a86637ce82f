"""Is `memory-service mcp` a good process to start? It answers at once, writes nothing but the protocol, and
ends with its input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner

from memory_service.cli import app
from tests.conftest import Servers

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "by hand", "version": "1"},
}


class Pipes:
    """The protocol by hand, line by line; every line of stdout that ever came."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin: IO[bytes] = process.stdin
        self.stdout: IO[bytes] = process.stdout
        self.lines: list[bytes] = []

    def send(self, method: str, params: dict[str, Any], number: int | None = None) -> None:
        head = {"jsonrpc": "2.0"} if number is None else {"jsonrpc": "2.0", "id": number}
        self.stdin.write(json.dumps({**head, "method": method, "params": params}).encode() + b"\n")
        self.stdin.flush()

    def answer(self, number: int) -> dict[str, Any]:
        while True:
            self.lines.append(self.stdout.readline())
            message: dict[str, Any] = json.loads(self.lines[-1])
            if message.get("id") == number:
                return message

    def tool(self, number: int, name: str, **arguments: Any) -> dict[str, Any]:
        self.send("tools/call", {"name": name, "arguments": arguments}, number)
        result: dict[str, Any] = self.answer(number)["result"]
        return result


@pytest.mark.slow
def test_a_first_start_answers_at_once_and_speaks_nothing_but_the_protocol(tmp_path: Path):
    environment = os.environ | {"MEMORY_HOME": str(tmp_path / "new"), "MEMORY_LOG_LEVEL": "INFO"}
    environment.pop("MEMORY_DATABASE_URL", None)
    command = [sys.executable, "-m", "memory_service", "mcp"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=tmp_path
        ) as process,
    ):
        pipes = Pipes(process)
        pipes.send("initialize", HELLO, 1)
        assert pipes.answer(1)["result"]["serverInfo"]["name"] == "memory-service"
        assert b"ready after" not in (tmp_path / "log").read_bytes()
        pipes.send("notifications/initialized", {})
        plan = pipes.tool(2, "plan", task="image", gpu="a100")  # waits for the seeds
        assert plan["structuredContent"]["feasible"] is True
        found = pipes.tool(3, "find", text="dogs in photos")  # waits for the encoder
        assert found["structuredContent"]["degraded"] is False
        pipes.send("tools/call", {"name": "plan"}, 4)
        assert pipes.answer(4)["result"]["isError"] is True
        process.stdin.close()  # type: ignore[union-attr]
        rest = process.stdout.read()  # type: ignore[union-attr]
        assert process.wait(60) == 0
    told = (tmp_path / "log").read_text(encoding="utf-8")
    assert "database upgraded" in told
    assert "Traceback" not in told
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in (*pipes.lines, *rest.splitlines()))
    assert (tmp_path / "new" / "memory.sqlite3").is_file()


def test_a_database_that_cannot_be_used_is_told_by_every_tool(servers: Servers, tmp_path: Path):
    url = servers.new("postgresql", None)
    environment = os.environ | {"MEMORY_DATABASE_URL": url}
    command = [sys.executable, "-m", "memory_service", "mcp"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        pipes = Pipes(process)
        pipes.send("initialize", HELLO, 1)
        pipes.answer(1)
        pipes.send("notifications/initialized", {})
        refused = pipes.tool(2, "plan", task="image", gpu="a100")
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(60)
    servers.drop(url)
    assert refused["isError"] is True
    assert "memory-service db upgrade" in refused["content"][0]["text"]


def test_its_help_says_what_it_is():
    done = CliRunner().invoke(app, ["mcp", "--help"])
    assert done.exit_code == 0
    assert "stdio" in done.stdout
    assert "/mcp" in done.stdout


def test_a_wrong_setting_is_refused_before_anything_is_spoken(tmp_path: Path):
    done = CliRunner().invoke(app, ["mcp", "--database", "mysql://x/y"])
    assert done.exit_code == 1
    assert "invalid-input" in done.stderr
    assert done.stdout == ""
