"""Does every door rank candidates alike, and does a row that cannot be judged stop nothing?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory_service.cli import app
from memory_service.services.database.transactions import Database
from memory_service.services.planning.rank import MOST_PLANNED, rank

TABLE = {"task": "tabular-classification", "n_classes": 2, "n_train": 20_000}


def test_rows_of_a_data_set_compete_and_others_do_not(seeded_sqlite: Database) -> None:
    rows = [
        {"dataset": "a", "model": "catboost", **TABLE},
        {"dataset": "b", "model": "linear", **TABLE},
        {"dataset": "a", "model": "linear", **TABLE},
    ]
    answers = rank(seeded_sqlite, rows)
    assert [row["rank"] for row in answers] == [1, 1, 2]
    assert answers[0]["p_best"] + answers[2]["p_best"] == pytest.approx(1.0, abs=1e-3)
    assert answers[0]["p_best"] > 0.65
    assert answers[1]["p_best"] == 1.0


def test_a_row_that_cannot_be_judged_says_why(seeded_sqlite: Database) -> None:
    rows: list[dict[str, Any]] = [
        {"model": "catboost", **TABLE},
        {"model": "no-such-model", **TABLE},
        {"model": "catboost", "task": "alchemy"},
        {"model": "catboost", "task": "tabular-classification", "n_train": "many"},
        {"model": "resnet50", "task": "image", "gpu": "t4", "minutes": "0.1"},
    ]
    good, *bad = rank(seeded_sqlite, rows)
    assert good["quality"]["value"] > 0
    for row in bad:
        assert row["quality"] is row["rank"] is row["p_best"] is None
        assert row["why"]


def test_epochs_folds_and_size_move_the_index(seeded_sqlite: Database) -> None:
    base = {"model": "resnet50", "task": "image-classification", "n_train": 20_000}
    rows = [{**base, "epochs": e, "folds": k, "input_size": s}
            for e, k, s in ((1, 1, 224), (10, 1, 224), (10, 5, 224), (10, 5, 320))]  # fmt: skip
    values = [row["quality"]["value"] for row in rank(seeded_sqlite, rows)]
    assert values == sorted(values)
    assert values[0] < values[1] < values[2] < values[3]


def test_minutes_on_a_card_are_planned(seeded_sqlite: Database) -> None:
    base = {"model": "resnet50", "task": "image-classification", "n_train": 20_000, "gpu": "t4"}
    short, long = rank(seeded_sqlite, [{**base, "minutes": 15}, {**base, "minutes": 240}])
    assert long["quality"]["value"] > short["quality"]["value"]
    assert (short["epochs"], short["folds"]) != (long["epochs"], long["folds"])


def test_the_command_reads_a_file_with_further_columns(seeded_sqlite: Database, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(
        "dataset,task,model,n_train,n_classes,epochs,score\n"
        "a,tabular-classification,catboost,20000,2.0,,0.9\n"
        "a,tabular-classification,mlp,20000,2,,0.8\n"
        "a,tabular-classification,nothing,20000,2,,0.8\n"
    )
    done = CliRunner().invoke(app, ["rank", str(file), "--json", "--database", seeded_sqlite.url])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)["rows"]
    assert [row["rank"] for row in rows] == [1, 2, None]
    assert rows[0]["score"] == "0.9"


def test_many_candidates_of_one_data_set_are_ranked_and_few_of_them_planned(seeded_sqlite: Database) -> None:
    """One caller's list costs no matrix of all its rows, no nearest names and at most a hundred plans."""
    rows = [{"model": "catboost", "folds": 1 + i % 10, **TABLE} for i in range(2_000)]
    ranked = rank(seeded_sqlite, rows)
    assert sum(row["p_best"] for row in ranked) == pytest.approx(1.0, abs=0.02)
    assert {row["rank"] for row in ranked if row["folds"] == 10} == {1}
    image = {"model": "resnet18", "task": "image", "n_train": 2_000, "gpu": "t4", "minutes": 30}
    planned = rank(seeded_sqlite, [image] * (MOST_PLANNED + 2))
    assert [row["quality"] is None for row in planned].count(True) == 2
    assert "at most" in planned[-1]["why"]
