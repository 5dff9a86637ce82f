"""Which questions are understood, and what is refused by name?"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.errors import InvalidInput
from memory_service.schemas.base import kind_of
from memory_service.schemas.recommend import RecommendRequest, plan_request

ASKED = {"task": "image", "gpu": "A100"}
COUNTS = [name for name, field in RecommendRequest.model_fields.items() if kind_of(field.annotation) is int]


def refused(**extra: object) -> dict[str, tuple[str, ...]]:
    with pytest.raises(InvalidInput) as caught:
        plan_request({**ASKED, **extra})
    return {error.field: error.nearest for error in caught.value.errors}


def test_aliases_and_text_numbers_are_read() -> None:
    question = plan_request(
        {"task": "image", "gpu": "A100, T4", "n_train": "9000", "minutes": "11", "size": "SMALL"}
    )
    assert question.task == "image-classification"
    assert question.gpus == ("a100", "t4")
    assert (question.n_train, question.minutes, question.size) == (9000, 11.0, "small")


def test_absent_and_null_mean_not_given() -> None:
    assert plan_request({**ASKED, "n_train": None, "model": None}) == plan_request(ASKED)
    assert set(refused(model="")) == {"model"}


def test_minutes_default_to_thirty() -> None:
    assert plan_request(ASKED).minutes == 30.0


@pytest.mark.parametrize(
    "minutes", [0, -1, "nan", "inf", math.nan, math.inf, 1e300, "1e300", 10_001, True, "soon", []]
)
def test_impossible_minutes_are_refused(minutes: object) -> None:
    assert set(refused(minutes=minutes)) == {"minutes"}


@pytest.mark.parametrize("value", [0, -5, 1.5, "nan", "1e300", 10**400, True, "many", {}])
@pytest.mark.parametrize("field", COUNTS)
def test_impossible_counts_are_refused(field: str, value: object) -> None:
    assert set(refused(**{field: value})) == {field}


def test_every_bad_field_is_named_at_once() -> None:
    assert set(refused(minutes=0, batch_size=0, colour="red")) == {"minutes", "batch_size", "colour"}


def test_unknown_words_get_the_nearest_names() -> None:
    with pytest.raises(InvalidInput) as caught:
        plan_request({"task": "imge", "gpu": "a100"})
    assert "image" in caught.value.errors[0].nearest
    assert refused(n_trian=5)["n_trian"][0] == "n_train"
    assert refused(objective="qualty")["objective"][0] == "quality"


def test_a_task_or_its_description_is_needed() -> None:
    with pytest.raises(InvalidInput) as caught:
        plan_request({})
    assert {error.field for error in caught.value.errors} == {"task"}
    assert plan_request({"gpu": "t4", "description": "classify photos"}).task is None


def test_a_production_card_alone_is_enough() -> None:
    assert plan_request({"task": "image", "plan_for": "a10"}).gpus == ("a10",)


@given(
    st.dictionaries(
        st.sampled_from(["minutes", "n_train", "batch_size", "gpu", "task", "x"]), st.text() | st.floats()
    )
)
def test_any_input_is_understood_or_refused(raw: dict[str, object]) -> None:
    try:
        plan_request(raw)
    except InvalidInput:
        return
