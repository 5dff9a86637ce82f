"""Values that no row may hold are refused, each with its field."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.errors import InvalidInput
from memory_service.schemas.fields import MAX_JSON_BYTES
from memory_service.schemas.rows import ROW_MODELS, validate
from tests.store.fakes import ROWS, competition

DEEP: Any = {}
for _ in range(50):
    DEEP = {"deeper": DEEP}


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("competitions", "slug", ""),
        ("competitions", "slug", "../../etc/passwd"),
        ("competitions", "slug", "x" * 121),
        ("competitions", "slug", 5),
        ("competitions", "title", "   "),
        ("competitions", "title", "\x00"),
        ("competitions", "title", "half \ud83d a pair"),
        ("competitions", "title", "\x1b[31mred"),
        ("competitions", "description", "x" * 1_000_001),
        ("competitions", "description", None),
        ("competitions", "n_train", -1),
        ("competitions", "n_train", 1.5),
        ("competitions", "n_train", "9000"),
        ("competitions", "n_train", True),
        ("competitions", "n_train", 10**300),
        ("competitions", "n_train", math.nan),
        ("competitions", "n_classes", 0),
        ("competitions", "dataset_gb", math.inf),
        ("competitions", "dataset_gb", 1e300),
        ("competitions", "metric_direction", "up"),
        ("competitions", "split", "sometimes"),
        ("competitions", "grade", "certain"),
        ("solutions", "rank", 0),
        ("solutions", "families", ["perceptron-of-1958"]),
        ("solutions", "techniques", "tta"),
        ("solutions", "validation", {"split": "often"}),
        ("solutions", "validation", {"folds": 5, "by_what": "x"}),
        ("solutions", "url", "javascript:alert(1)"),
        ("solutions", "score", {"private": math.nan}),
        ("solutions", "basis", "guessed"),
        ("patterns", "kind", "guess"),
        ("patterns", "size", "huge"),
        ("patterns", "advice", {"x": math.nan}),
        ("patterns", "advice", {"x": 10**30}),
        ("patterns", "advice", {"x": "\x00"}),
        ("patterns", "advice", {"\ud800": 1}),
        ("patterns", "advice", {"x": object()}),
        ("patterns", "advice", DEEP),
        ("patterns", "advice", {"x": "y" * MAX_JSON_BYTES}),
        ("models", "tasks", []),
        ("models", "quality_score", 101),
        ("models", "input_kind", "pixels"),
        ("gpus", "memory_gib", 0),
        ("gpus", "tflops", {"fp16": -1}),
        ("strategies", "rule", "rule 8"),
        ("strategies", "table", "chairs"),
        ("strategies", "followed", "yes"),
    ],
)
def test_a_wrong_value_is_refused_with_its_field(table: str, field: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        validate(table, ROWS[table]() | {field: value})
    assert refused.value.errors[0].field.split(".")[0] == field
    refused.value.detail.encode()
    str(refused.value.errors[0].given).encode()


def test_a_task_outside_the_vocabulary_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidInput) as refused:
        validate("competitions", competition(task="image-clasification"))
    assert "image-classification" in refused.value.errors[0].nearest


def test_an_unknown_field_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidInput) as refused:
        validate("competitions", competition(n_trian=5))
    assert refused.value.errors[0].nearest[0] == "n_train"


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        validate("competitions", {"title": "", "n_train": -1, "colour": "red"})
    assert {error.field for error in refused.value.errors} == {
        "slug",
        "title",
        "description",
        "n_train",
        "colour",
    }


def test_an_empty_optional_text_means_not_known() -> None:
    stored = validate("competitions", competition(summary="", metric="  ", task="image"))
    assert (stored["summary"], stored["metric"], stored["task"]) == (None, None, "image-classification")
    assert stored["size"] == "small"


def test_a_pattern_of_a_competition_names_it_and_of_a_kind_does_not() -> None:
    for changes in ({"scope": "competition"}, {"competition": "leaf-counting"}):
        with pytest.raises(InvalidInput, match="competition"):
            validate("patterns", ROWS["patterns"](**changes))


_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(sorted(ROWS)), st.dictionaries(st.text(max_size=10), _json, max_size=4), st.data())
def test_whatever_is_sent_is_stored_or_refused(
    table: str, extra: dict[str, Any], data: st.DataObject
) -> None:
    values = ROWS[table]()
    for name in data.draw(st.lists(st.sampled_from(sorted(ROW_MODELS[table].model_fields)), max_size=3)):
        values[name] = data.draw(_json)
    try:
        stored = validate(table, values | extra)
    except InvalidInput as error:
        refused = error
    else:
        assert set(ROW_MODELS[table].model_fields) <= set(stored)
        return
    assert refused.errors
    refused.detail.encode()
