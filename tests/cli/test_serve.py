"""Does `serve` refuse what it must, and does the rest of the command line keep its exit codes?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memory_service import __version__
from memory_service.cli import app
from tests.cli.answering import answering
from tests.conftest import Servers

run = CliRunner()


def test_a_server_database_at_the_wrong_revision_is_refused_with_the_command_to_run(servers: Servers):
    url = servers.new("postgresql", None)
    done = run.invoke(app, ["serve", "--database", url, "--port", "0"])
    assert done.exit_code == 1
    assert "memory-service db upgrade" in done.stderr
    assert "wrong-database-revision" in done.stderr
    servers.drop(url)


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--port", "99999"],
        ["serve", "--database", "mysql://x/y"],
        ["recommend", "--gpu", "a101", "--task", "image"],
    ],
)
def test_what_cannot_be_used_is_refused_with_exit_1(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path))
    done = run.invoke(app, arguments)
    assert done.exit_code == 1
    assert "invalid-input" in done.stderr


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'{"version": "0.9"}', "memory-service 0.9 runs already: open http"),
        (b"x", "Another program listens"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_port_in_use_is_told_before_anything_is_made(
    command: str, answer: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMORY_API_KEY", "msk_secret")
    with answering(lambda _: (200, "application/json", answer)) as (url, asked):
        done = run.invoke(app, [command, "--port", url.rpartition(":")[2]])
    assert done.exit_code == 1
    assert said in done.stderr
    assert "make serve PORT=8001" in done.stderr
    assert not (tmp_path / "home").exists()
    assert [one.headers.get("Authorization") for one in asked] == [None], "the key is for the server alone"


def test_wrong_usage_is_exit_2():
    assert run.invoke(app, ["serve", "--no-such-option"]).exit_code == 2
    assert run.invoke(app, ["no-such-command"]).exit_code == 2


def test_the_version_is_told():
    assert run.invoke(app, ["--version"]).stdout.strip() == __version__


def test_the_doctor_names_every_part_and_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MEMORY_PROT", "99")
    done = run.invoke(app, ["doctor", "--json", "--database", f"sqlite:///{tmp_path}/new.sqlite3"])
    assert done.exit_code == 0, done.stdout
    found = {finding["part"]: finding for finding in json.loads(done.stdout)}
    assert "nearest: MEMORY_PORT" in found.pop("settings")["found"]
    assert set(found) == {"python", "packages", "accelerator", "encoder", "database", "disk", "port"}
    assert found["encoder"]["status"] == "ok"
    assert "SHA-256" in found["encoder"]["found"]
    assert found["database"]["status"] == "note"
    (tmp_path / "bad.sqlite3").write_bytes(b"this is no database" * 100)
    broken = run.invoke(app, ["doctor", "--json", "--database", f"sqlite:///{tmp_path}/bad.sqlite3"])
    assert broken.exit_code == 1
