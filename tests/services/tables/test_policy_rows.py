"""A row corrected in the database steers the next plan; rows say whether they do."""

from __future__ import annotations

from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import correct_row, undo
from memory_service.services.knowledge.outcomes import with_outcomes, with_steering
from memory_service.services.planning.recommend import recommend
from memory_service.services.tables.table_rows import get_row, history_of, list_rows
from tests.store.fakes import HashEncoder

ASKED = {
    "task": "image",
    "n_train": 60_000,
    "gpu": "a100",
    "minutes": 40,
    "model": "resnet50",
    "image_size": 224,
}
ROW = "R03-a100-image-224"


def test_a_correction_steers_the_next_plan_until_it_is_undone(seeded_database: Database) -> None:
    before = recommend(seeded_database, ASKED)
    value = {"batch_size": 384, "raise_to_if_it_fits": 512}
    correct_row(
        seeded_database, "strategies", ROW, {"value": value}, encoder=HashEncoder, who="ada", why="measured"
    )
    after = recommend(seeded_database, ASKED)
    assert (before["batch_size"], after["batch_size"]) == (256, 384)
    assert ROW in {row["id"] for row in after["evidence"]}
    with seeded_database.read() as unit:
        edit = history_of(unit, "strategies", ROW)[0]
    undo(seeded_database, "strategies", ROW, edit["id"], encoder=HashEncoder)
    assert recommend(seeded_database, ASKED)["batch_size"] == 256


def test_rows_say_whether_they_steer_plans(seeded_sqlite: Database) -> None:
    with seeded_sqlite.read() as unit:
        rows = with_steering(unit, list_rows(unit, "strategies", limit=500).items)
        alone = with_outcomes(unit, "strategies", get_row(unit, "strategies", "R31-a100-20-30"))
    steering = {row["id"] for row in rows if row["steers_plans"]}
    assert {ROW, "R14-reserve", "S04-updates-per-epoch", "R04-report"} <= steering
    assert not any(row["steers_plans"] for row in rows if not row["followed"])
    assert alone["steers_plans"] is False
