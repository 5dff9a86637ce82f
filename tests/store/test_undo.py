"""A correction can be taken back, and whoever comes second is told what changed, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete, update

from memory_service.errors import Conflict, InvalidInput, Moved, NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import add_row, correct_row, reason_given, remove_row, undo
from memory_service.services.tables.table_rows import get_row, history_of
from memory_service.store.tables.knowledge import History, Strategy
from tests.store.fakes import ROWS, HashEncoder

CHANGES: dict[str, dict[str, Any]] = {
    "competitions": {"title": "Another title", "n_train": 20_000},
    "solutions": {"families": ["convnext"], "validation": {"split": "random", "by": None, "folds": 3}},
    "patterns": {"statement": "Another statement.", "advice": {"models": ["resnet50"]}},
    "strategies": {"value": {"batch_size": 7}, "statement": "Another statement."},
    "gpus": {"usable_gib": 20.5},
    "models": {"params_m": 13.25, "quality": {"top1": 81.0}},
    "claims": {"value_max": 4.0},
}
ENCODER = HashEncoder


def _own(database: Database, table: str, key: str) -> dict[str, Any]:
    with database.read() as unit:
        row = get_row(unit, table, key)
    return {n: v for n, v in row.items() if n not in ("version", "corrected", "updated_at")}


def _entries(database: Database, table: str, key: str) -> list[dict[str, Any]]:
    with database.read() as unit:
        return history_of(unit, table, key)


def _add(database: Database, table: str) -> str:
    if table == "solutions":
        add_row(database, "competitions", ROWS["competitions"](), encoder=ENCODER, who="ada")
    row = add_row(database, table, ROWS[table](), encoder=ENCODER, who="ada")
    return str(next(iter(row.values())))


@pytest.mark.parametrize("table", sorted(CHANGES))
def test_edit_and_undo_leave_the_row_as_it_was_and_both_in_its_history(
    database: Database, table: str
) -> None:
    key = _add(database, table)
    before = _own(database, table, key)
    correct_row(database, table, key, CHANGES[table], encoder=ENCODER, who="ben", why="a slip", version=1)
    edit = _entries(database, table, key)[0]
    assert {change["field"].split(".")[0] for change in edit["changes"]} >= set(CHANGES[table])
    undo(database, table, key, edit["id"], encoder=ENCODER, who="ada")
    assert _own(database, table, key) == before
    undone, edited, _ = _entries(database, table, key)
    assert (edited["who"], edited["why"], undone["who"]) == ("ben", "a slip", "ada")
    assert undone["before"] == edited["after"]
    assert undone["after"] == edited["before"]
    assert undone["why"] == f"undoes version {edit['version']}: a slip"
    undo(database, table, key, undone["id"], encoder=ENCODER)
    assert _own(database, table, key) == before | {
        name: value for name, value in _own(database, table, key).items() if name in (*CHANGES[table], "size")
    }


def test_a_shipped_row_that_is_put_back_is_not_marked_as_corrected_any_more(database: Database) -> None:
    key = _add(database, "strategies")
    with database.write() as unit:
        unit.session.execute(update(Strategy).values(origin="seed"))
        unit.session.execute(delete(History))

    def corrected() -> bool:
        with database.read() as unit:
            return bool(get_row(unit, "strategies", key)["corrected"])

    correct_row(database, "strategies", key, {"value": {"batch_size": 7}}, encoder=ENCODER, why="w")
    correct_row(database, "strategies", key, {"statement": "Said better."}, encoder=ENCODER, why="w")
    words, numbers = _entries(database, "strategies", key)
    assert (words["can_undo"], numbers["can_undo"]) == (True, True)
    undo(database, "strategies", key, words["id"], encoder=ENCODER)
    assert corrected()
    undo(database, "strategies", key, numbers["id"], encoder=ENCODER)
    assert not corrected()
    assert [entry["can_undo"] for entry in _entries(database, "strategies", key)] == [
        True,
        True,
        False,
        False,
    ]


def test_an_undo_keeps_later_changes_of_other_fields_and_refuses_over_the_same(database: Database) -> None:
    key = _add(database, "strategies")

    def correct(**changes: Any) -> int:
        correct_row(database, "strategies", key, changes, encoder=ENCODER, who="ben", why="w")
        return int(_entries(database, "strategies", key)[0]["id"])

    first = correct(value={"batch_size": 7, "folds": 2})
    correct(statement="Said better.")
    assert undo(database, "strategies", key, first, encoder=ENCODER)["statement"] == "Said better."  # type: ignore[index]
    second = correct(value={"batch_size": 9})
    correct(value={"batch_size": 11})
    with pytest.raises(Moved) as refused:
        undo(database, "strategies", key, second, encoder=ENCODER)
    assert refused.value.changes == [{"field": "value.batch_size", "before": 9, "after": 11}]
    assert refused.value.current["value"] == {"batch_size": 11}
    assert isinstance(refused.value, Conflict)


def test_adding_and_deleting_can_be_undone(database: Database) -> None:
    key = _add(database, "gpus")
    before = _own(database, "gpus", key)
    remove_row(database, "gpus", key, who="ben", why="long " * 799, version=1)
    gone = _entries(database, "gpus", key)[0]
    undo(database, "gpus", key, gone["id"], encoder=ENCODER)
    after = _own(database, "gpus", key)
    assert after | {"created_at": before["created_at"]} == before
    with pytest.raises(Conflict):
        undo(database, "gpus", key, gone["id"], encoder=ENCODER)
    added = _entries(database, "gpus", key)[0]
    assert undo(database, "gpus", key, added["id"], encoder=ENCODER) is None
    with database.read() as unit, pytest.raises(NotFound):
        get_row(unit, "gpus", key)
    for other, entry in ((key, 10**9), (key, 10**17), (key, 0), ("\0", 1), ("\ud800", 1)):
        with pytest.raises(NotFound):
            undo(database, "gpus", other, entry, encoder=ENCODER)


def test_the_second_of_two_editors_is_told_what_changed_since(database: Database) -> None:
    key = _add(database, "strategies")
    for version, batch in ((1, 7), (2, 9)):
        correct_row(
            database, "strategies", key, {"value": {"batch_size": batch}}, encoder=ENCODER, version=version
        )
    for act in (
        lambda: correct_row(database, "strategies", key, {"statement": "Mine."}, encoder=ENCODER, version=1),
        lambda: remove_row(database, "strategies", key, version=1),
    ):
        with pytest.raises(Moved) as refused:
            act()
        told = {change["field"]: change["after"] for change in refused.value.changes}
        assert told["value.batch_size"] == 9
        assert refused.value.current["version"] == 3
    assert _own(database, "strategies", key)["statement"] != "Mine."


def test_a_page_gives_a_reason() -> None:
    assert reason_given(" measured it ") == "measured it"
    for nothing in (None, "", "  \n"):
        with pytest.raises(InvalidInput, match="why"):
            reason_given(nothing)
