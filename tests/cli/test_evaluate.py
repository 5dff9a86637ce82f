"""`memory-service evaluate FILE --observe FILE2` as somebody types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memory_service.cli import app
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.cards import Cards
from memory_service.services.knowledge.learned_corrections import observed

HEADER = "gpu,model,precision,layout,batch,image_size_or_seq_len,mode,samples_per_s,notes"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "asked.csv", {"resnet50": 1000.0, "resnet101": 600.0})


def written(path: Path, rates: dict[str, float]) -> Path:
    rows = [f"rtx3090,{model},amp-fp16,nhwc,64,224,train,{rate},torch 1.12" for model, rate in rates.items()]
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return path


def ask(*words: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["evaluate", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.stdout


def test_rows_of_a_second_file_are_learned_from_first_and_not_kept(
    seeded_sqlite: Database, file: Path, tmp_path: Path
) -> None:
    usual = ("--database", f"sqlite:///{seeded_sqlite.file}", "--json")

    def rates(*more: str | Path) -> tuple[list[float], int]:
        answer = json.loads(ask(file, *usual, *more))
        return [row["predicted"]["samples_per_s"]["value"] for row in answer["rows"]], answer["observed"]

    cold, none = rates()
    seen = written(
        tmp_path / "seen.csv", dict(zip(("resnet50", "resnet18"), [0.7 * r for r in cold], strict=True))
    )
    warm, two = rates("--observe", seen)
    assert (none, two) == (0, 2)
    assert 0.7 * cold[0] <= warm[0] <= 0.85 * cold[0]  # most of the way: published rows are noisy
    with seeded_sqlite.read() as unit:
        assert observed(unit, Cards({})).all == ()


def test_a_second_file_that_cannot_be_read_is_refused(file: Path, tmp_path: Path) -> None:
    ask(file, "--observe", tmp_path / "absent.csv", code=1)


def test_errors_are_shown_by_figure_and_refused_rows_are_counted(
    seeded_sqlite: Database, tmp_path: Path
) -> None:
    asked = written(tmp_path / "asked.csv", {"resnet50": 1000.0, "resnotnet": 5.0})
    shown = ask(asked, "--database", f"sqlite:///{seeded_sqlite.file}")
    assert "1 of 2 rows predicted" in shown
    assert "samples_per_s" in shown
    assert "asked.csv" in shown
