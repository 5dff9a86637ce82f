"""`memory-service similar` answers in words and as JSON."""

from __future__ import annotations

import json

import typer
from typer.testing import CliRunner

from memory_service.cli.questions import similar
from memory_service.services.database.transactions import Database

app = typer.Typer()
app.command("similar")(similar)
app.command("other")(lambda: None)


def test_json_has_the_fields_of_the_contract(seeded_sqlite: Database) -> None:
    url = f"sqlite:///{seeded_sqlite.file}"
    done = CliRunner().invoke(
        app, ["similar", "masks of salt in seismic images", "--limit", "2", "--json", "--database", url]
    )
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert len(answer["items"]) == 2
    assert answer["inferred_task"] == "image-segmentation"


def test_the_words_say_why(seeded_sqlite: Database) -> None:
    url = f"sqlite:///{seeded_sqlite.file}"
    done = CliRunner().invoke(
        app, ["similar", "-", "--database", url], input="masks of salt in seismic images"
    )
    assert done.exit_code == 0, done.output
    assert "tgs-salt" in done.stdout
    assert "stored of tgs-salt" in done.stdout
    assert "task: image-segmentation" in done.stdout


def test_the_first_command_on_a_new_database_searches_by_meaning(tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/new.sqlite3"
    done = CliRunner().invoke(
        app, ["similar", "pneumonia in x-ray images of the chest", "--json", "--database", url]
    )
    assert done.exit_code == 0, done.output
    best = json.loads(done.stdout)["items"][0]
    assert best["score"] > 0.4
