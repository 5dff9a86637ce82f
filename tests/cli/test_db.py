"""`memory-service db …`, `seed` and `export` as somebody types them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from memory_service.cli import app
from memory_service.store.migrations import head
from tests.conftest import Servers

runner = CliRunner()


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MEMORY_DATABASE_URL", raising=False)


def _run(*words: str, code: int = 0) -> Result:
    result = runner.invoke(app, words)
    assert result.exit_code == code, result.output
    return result


def test_upgrade_check_backup_and_restore_of_the_embedded_database(tmp_path: Path) -> None:
    assert json.loads(_run("db", "upgrade", "--json").stdout) == {
        "before": None,
        "after": head(),
        "backup": None,
    }
    assert "already" in _run("db", "upgrade").stdout
    _run("seed", "--without-vectors")
    report = json.loads(_run("db", "check", "--json").stdout)
    assert (report["sound"], report["seeded"], report["problems"]) == (True, True, [])
    target = tmp_path / "saved"
    assert json.loads(_run("db", "backup", str(target), "--json").stdout)["bytes"] == target.stat().st_size
    assert "exists" in _run("db", "backup", str(target), code=1).stderr
    url = f"sqlite:///{tmp_path / 'copy.sqlite3'}"
    _run("db", "restore", str(target), "--database", url)
    assert json.loads(_run("db", "check", "--json", "--database", url).stdout)["seeded"]


def test_what_is_not_there_is_neither_saved_nor_copied_nor_made(tmp_path: Path) -> None:
    mistyped, target = tmp_path / "mistyped.sqlite3", tmp_path / "target.sqlite3"
    for words in (["backup", str(target)], ["copy", f"sqlite:///{target}"]):
        refused = _run("db", *words, "--database", f"sqlite:///{mistyped}", code=1)
        assert f"no database {mistyped}" in refused.stderr
        assert not mistyped.exists()
        assert not target.exists()


def test_check_of_a_database_at_no_revision_fails_with_the_command(servers: Servers) -> None:
    url = servers.new("postgresql", None)
    shown = " ".join(_run("db", "check", "--database", url, code=1).stdout.split())
    assert "run memory-service db upgrade" in shown
    refused = _run("export", "gpus", "--database", url, code=1)
    assert "wrong-database-revision" in refused.stderr
    _run("db", "upgrade", "--database", url)
    _run("db", "check", "--database", url)
    servers.drop(url)


def test_export_writes_each_format(tmp_path: Path) -> None:
    _run("seed", "--without-vectors")
    lines = _run("export", "competitions", "--format", "jsonl").stdout.splitlines()
    assert len(lines) == 244
    assert _run("export", "gpus").stdout.startswith("slug,name,")
    target = tmp_path / "claims.parquet"
    assert "bytes in" in _run("export", "claims", "--format", "parquet", "-o", str(target)).stderr
    assert pq.read_table(target).num_rows == 73
    images = _run("export", "models", "-w", "task=text", "--sort", "-params_m").stdout.splitlines()
    assert 10 < len(images) < 200
    assert "nearest" in _run("export", "models", "-w", "tusk=text", code=1).stderr
    _run("export", "models", "-w", "task", code=1)
    _run("export", "claims", "-o", str(target), code=1)
    assert "gpus" in _run("export", "gpu", code=1).stderr
    _run("export", "claims", "--format", "parquet", code=1)
    _run("export", "claims", "--format", "xml", code=2)


def test_a_wrong_url_is_refused_in_words() -> None:
    assert "postgresql://" in _run("db", "check", "--database", "oracle://x", code=1).stderr
