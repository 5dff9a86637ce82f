"""`memory-service demo`: made-up runs that move, and nothing of them stays."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory_service.cli import app, demo
from memory_service.services.database.transactions import Database
from memory_service.services.demo import made_up_runs
from memory_service.services.operations.database import open_database
from memory_service.services.pages.accuracy import accuracy_page
from memory_service.services.tables.table_rows import count_rows, list_rows
from memory_service.store.queries import runs


def test_the_demo_serves_made_up_runs_that_move_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    served: dict[str, Any] = {}

    def running(database: Database) -> int:
        with database.read() as unit:
            return count_rows(unit, "runs", {"status": "running"})

    def latest(database: Database, run: str) -> int:
        with database.read() as unit:
            return max((seq for seq, *_ in runs.latest_events(unit.session, run, 1)), default=0)

    def serve(host: str, port: int | None, database: str) -> None:
        served["file"] = Path(database.removeprefix("sqlite:///"))
        assert served["file"].exists(), "pages are served before any run is made up"
        with open_database(database) as opened:
            while running(opened) < 2:
                time.sleep(0.05)
            with opened.read() as unit:
                served["runs"] = list_rows(unit, "runs").items
            live = next(run["id"] for run in served["runs"] if run["status"] == "running")
            told = latest(opened, live)
            while latest(opened, live) <= told:  # it moves, or the test hangs
                time.sleep(0.05)

    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.setattr(demo, "_RUNS", 3)
    monkeypatch.setattr(made_up_runs, "LIVE_SECONDS", 0.2)
    monkeypatch.setattr("memory_service.cli.serve.serve", serve)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.output
    assert len(served["runs"]) == 5
    assert "made up" in os.environ["MEMORY_NOTICE"]
    assert not served["file"].parent.exists()


def test_predictions_hold_on_runs_that_are_drawn_from_them(tmp_path: Path) -> None:
    import datetime as dt

    with open_database(f"sqlite:///{tmp_path / 'demo.sqlite3'}") as database:
        made_up_runs.make_up_runs(database, 40, 7, dt.datetime.now(dt.UTC), every_seconds=60.0)
        scores = accuracy_page(database, {})["scores"]
    assert len(scores) == 6
    assert [each["quantity"] for each in scores if each["too_narrow"]] == []
