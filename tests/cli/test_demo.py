"""`memory-service demo`: made-up runs to look at, and nothing of them stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory_service.cli import app, demo
from memory_service.services.operations.database import open_database
from memory_service.services.tables.table_rows import list_rows


def test_the_demo_serves_made_up_runs_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    served: dict[str, Any] = {}

    def serve(host: str, port: int | None, database: str) -> None:
        with open_database(database) as opened, opened.read() as unit:
            served["runs"] = list_rows(unit, "runs").items
        served["file"] = Path(database.removeprefix("sqlite:///"))
        assert served["file"].exists()

    monkeypatch.setattr(demo, "_RUNS", 3)
    monkeypatch.setattr("memory_service.cli.serve.serve", serve)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.output
    assert sorted(run["status"] for run in served["runs"]).count("running") == 2
    assert len(served["runs"]) == 5
    assert not served["file"].parent.exists()
