"""Does the command line list runs, show one, and score predictions on what ran?"""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from memory_service.cli import app
from memory_service.cli.common import output
from memory_service.services.database.transactions import Database
from tests.telling import case, epochs, told

run = CliRunner()


def answer(*arguments: str) -> object:
    done = run.invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_runs_are_shown_and_scored_and_none_is_no_error(seeded_url: str, monkeypatch: pytest.MonkeyPatch):
    assert "No runs" in run.invoke(app, ["runs", "--database", seeded_url]).stdout
    assert "Nothing to score" in run.invoke(app, ["evaluate", "--database", seeded_url]).stdout
    database = Database(seeded_url)
    page = told(database, case(), epochs(0.07, train_loss=0.4321))
    told(database, case(model="lightgbm", gpu="cpu", task="tabular"), [], "crashed")
    database.close()
    listed = answer("runs", "--model", "lightgbm", "--database", seeded_url)
    assert isinstance(listed, dict)
    assert [row["status"] for row in listed["items"]] == ["crashed"]
    assert answer("runs", page["id"], "--database", seeded_url) == page
    with monkeypatch.context() as narrow:
        narrow.setattr(output.stdout, "width", 80)
        shown = run.invoke(app, ["runs", page["id"], "--database", seeded_url]).stdout
        narrowly = run.invoke(app, ["runs", "--database", seeded_url]).stdout
    assert page["id"] in narrowly
    assert max(map(len, narrowly.splitlines())) <= 80
    assert "samples_per_second" in shown
    assert "0.4321" in shown
    scored = answer("evaluate", "--database", seeded_url)
    assert isinstance(scored, dict)
    assert scored["runs"]["scored"] == 1
    assert "samples_per_second" in run.invoke(app, ["evaluate", "--database", seeded_url]).stdout


def test_what_is_unknown_or_means_nothing_is_refused(seeded_url: str):
    assert run.invoke(app, ["runs", "nonsense", "--database", seeded_url]).exit_code == 1
    assert run.invoke(app, ["evaluate", "--observe", "x.csv", "--database", seeded_url]).exit_code == 2
