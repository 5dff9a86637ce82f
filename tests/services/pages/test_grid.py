"""Rows of a table: what is found in it, and what a filter leaves."""

from typing import Any

import pytest

from memory_service.errors import InvalidInput
from memory_service.services.pages.grid import gridded

ROWS: list[dict[str, Any]] = [
    {"id": "a", "task": "text", "value": {"split": "group", "n": 12}, "public": True, "note": None},
    {"id": "b", "task": "image", "value": {"split": "time"}, "public": False, "note": ["late", None]},
]


def found(**asked: str) -> list[str]:
    return [row["id"] for row in gridded(ROWS, asked, "id", {"task": "task"})["items"]]


@pytest.mark.parametrize(
    ("words", "ids"),
    [("none", []), ("true", []), ("split", []), ("public", []), ("12", ["a"]), ("late time", ["b"])],
)
def test_what_rows_say_is_searched_and_no_name_of_a_field(words: str, ids: list[str]) -> None:
    assert found(q=words) == ids


def test_a_value_that_no_row_has_leaves_none_and_an_unknown_field_is_refused() -> None:
    assert found(task="audio-regression") == []
    assert found(q="late", task="text") == []
    assert gridded(ROWS, {"task": "audio-regression"}, "id", {"task": "task"})["facets"]["task"]
    with pytest.raises(InvalidInput):
        found(tsk="text")
    with pytest.raises(InvalidInput):
        found(task="audio-regresion")
