"""`memory-service import`: what becomes of each line of a file, on both databases."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner, Result

from memory_service.cli.import_file import register
from memory_service.services.database.transactions import Database
from memory_service.services.operations.export import stream_rows
from memory_service.services.tables.table_rows import get_row, history_of
from tests.store.fakes import pattern

app = typer.Typer()
register(app)
app.command("other")(lambda: None)

COMPETITION = {
    "slug": "bat-calls", "title": "Bat calls", "task": "other", "modality": "audio", "split": "unknown",
    "metric": "mean absolute error", "metric_family": "mae", "metric_direction": "min", "teams": 12,
    "image_size": "512x512 tiles", "prize": "Swag", "group_by": None,
    "description": "Estimate how many bats are heard in each of 30,000 recordings.",
}  # fmt: skip
SOLUTION = {
    "competition": "bat-calls", "rank": 1, "url": None, "basis": "recalled", "read_at": None,
    "families": ["efficientnet"], "models": [], "input": None, "image_size": None, "seq_len": None,
    "validation": {"split": "group", "by": "cave", "folds": 5}, "loss": ["mae"],
    "techniques": ["specaugment"],
    "features": [], "ensemble": {"members": None, "method": "none"}, "epochs": None, "batch_size": None,
    "optimizer": None, "learning_rate": "7e-6 to 1e-5", "hardware": None,
    "score": {"cv": None, "public": None, "private": 1.5}, "what_mattered": [], "what_failed": [],
}  # fmt: skip


def _imported(database: Database, file: Path) -> tuple[Result, list[Any]]:
    url = database.engine.url.render_as_string(hide_password=False)
    done = CliRunner().invoke(app, ["import", str(file), "--json", "--database", url])
    lines = json.loads(done.stdout)["lines"] if done.stdout else []
    return done, [(one["line"], one["key"], one["outcome"], one["why"]) for one in lines]


def _file(folder: Path, *rows: Any) -> Path:
    file = folder / "own.jsonl"
    file.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8"
    )
    return file


def test_lines_are_taken_once_and_belong_to_who_imported_them(database: Database, tmp_path: Path) -> None:
    rows = (SOLUTION, "", pattern("p-bats", scope="competition", competition="bat-calls"), COMPETITION)
    file = _file(tmp_path, *rows)
    done, lines = _imported(database, file)
    assert done.exit_code == 0, done.output
    keys = [(1, "bat-calls#1"), (3, "p-bats"), (4, "bat-calls")]
    assert lines == [(line, key, "taken", None) for line, key in keys]
    with database.read() as unit:
        solution = get_row(unit, "solutions", "bat-calls#1")
        competition = get_row(unit, "competitions", "bat-calls")
        (entry,) = history_of(unit, "solutions", "bat-calls#1")
    assert (solution["origin"], solution["grade"]) == ("user", "claimed")
    assert (solution["source"], solution["learning_rate"]) == ("general knowledge, recalled", "7e-6 to 1e-5")
    assert (competition["metric_family"], competition["image_size"]) == ("error-regression", 512)
    assert "own.jsonl" in entry["why"]
    again, lines = _imported(database, file)
    assert again.exit_code == 0
    assert lines == [(line, key, "there", None) for line, key in keys]


def test_each_wrong_line_is_refused_with_its_reason_and_the_others_are_taken(
    database: Database, tmp_path: Path
) -> None:
    _imported(database, _file(tmp_path, COMPETITION))
    rows = (
        "{no json",
        {"colour": "red"},
        SOLUTION | {"techniques": ["spec-augment"]},
        SOLUTION | {"competition": "unheard-of"},
        COMPETITION | {"teams": 13},
        SOLUTION,
    )
    done, lines = _imported(database, _file(tmp_path, *rows))
    assert done.exit_code == 1
    assert [(line, outcome) for line, _, outcome, _ in lines] == [
        *((n, "refused") for n in range(1, 6)), (6, "taken"),
    ]  # fmt: skip
    for (*_, why), told in zip(
        lines, ("JSON", "solutions", "specaugment", "unheard-of", "teams"), strict=False
    ):
        assert told in why


def test_what_was_exported_is_imported_elsewhere(seeded_database: Database, tmp_path: Path) -> None:
    """Into the same database: every line is there, with the same values."""
    file = tmp_path / "all.jsonl"
    with file.open("wb") as out:
        for table in ("competitions", "solutions", "patterns"):
            out.writelines(stream_rows(seeded_database, table, sort="-updated_at"))
    done, lines = _imported(seeded_database, file)
    assert done.exit_code == 0, [line for line in lines if line[2] == "refused"][:5]
    assert len(lines) > 900
    assert {outcome for _, _, outcome, _ in lines} == {"there"}


def test_a_file_that_cannot_be_read_is_refused_whole(database: Database, tmp_path: Path) -> None:
    done, _ = _imported(database, tmp_path / "absent.jsonl")
    assert done.exit_code == 1


def test_what_is_no_ordinary_file_is_refused_with_a_sentence(seeded_sqlite: Database, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for odd in (pipe, Path("/dev/zero"), tmp_path):
        done, lines = _imported(seeded_sqlite, odd)
        assert (done.exit_code != 0, lines) == (True, [])
        assert "ordinary file" in f"{done.exception}" or "directory" in done.output
