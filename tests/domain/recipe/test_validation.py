"""How is a recipe validated, and by whose word?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.recipe.validation import SPLITS_ADVISED, SplitFact, decide_validation
from memory_service.domain.recipe.vocabulary import SPLITS
from tests.domain.recipe.solutions import near, solution

RANDOM = near(*((solution(f"c{i}", split="stratified", folds=10), 1.0) for i in range(9)))
GROUPED = near(
    (solution("a", split="stratified-group", folds=4), 1.0), (solution("b", split="group", folds=7), 0.4)
)
QUOTED = 'The text says "several images of each patient".'


def test_what_the_text_says_beats_any_vote_and_is_quoted() -> None:
    found = decide_validation(RANDOM, "image-regression", SplitFact("group", QUOTED, "patient"))
    assert (found.split, found.by, found.grade) == ("group", "patient", "claimed")
    assert found.why == QUOTED
    assert found.folds == 5, "nobody near split so: the usual number"
    agreed = decide_validation(GROUPED, "image-regression", SplitFact("group", QUOTED, "patient"))
    assert agreed.why == QUOTED + " 100 % of similar solutions by weight did so."
    assert (agreed.split, agreed.folds, agreed.sources) == ("group", 7, ("b#1",))


def test_classes_are_kept_even_within_groups_where_similar_solutions_did_so() -> None:
    fact = SplitFact("group", QUOTED, "patient")
    assert decide_validation(GROUPED, "image-classification", fact).split == "stratified-group"
    assert decide_validation(GROUPED, "image-regression", fact).split == "group"
    assert decide_validation(RANDOM, "image-classification", fact).split == "group"


@pytest.mark.parametrize(
    ("task", "split"),
    [
        ("text-classification", "stratified"),
        ("audio-regression", "random"),
        ("time-series-regression", "random"),
    ],
)
def test_a_random_test_beats_any_vote_too(task: str, split: str) -> None:
    asked = SplitFact("random", "Asked: split=random.")
    for others in ("group", "time", "random"):
        found = decide_validation(near((solution("a", split=others), 1.0)), task, asked)
        assert (found.split, found.grade) == (split, "claimed")
        assert found.why.startswith("Asked: split=random.")


def test_a_number_of_folds_that_was_noted_counts_before_that_of_others() -> None:
    noted = SplitFact("group", "Noted: five by farm", "farm", folds=3, source=("cattle-validation",))
    found = decide_validation(GROUPED, "image-regression", noted)
    assert (found.folds, found.sources) == (3, ("cattle-validation", "b#1"))
    assert found.why.startswith("Noted: five by farm. ")


def test_without_a_fact_similar_solutions_vote() -> None:
    found = decide_validation(RANDOM, "image-classification", None)
    assert (found.split, found.folds, found.grade) == ("stratified", 10, "estimated")
    assert found.sources == ("c0#1", "c1#1", "c2#1")
    assert "nobody says" in found.why


def test_groups_that_nobody_names_are_not_made_by_a_vote_nor_by_a_record_that_names_none() -> None:
    for task, usual in (("image-classification", "stratified"), ("image-regression", "random")):
        found = decide_validation(GROUPED, task, None)
        assert (found.split, found.by) == (usual, None)
        assert "say group_by" in found.why
    record = SplitFact("group", "The record says so.", firm=False)
    assert decide_validation(RANDOM, "image-classification", record).split == "stratified"
    doubted = decide_validation(GROUPED, "image-regression", record)
    assert (doubted.split, doubted.by) == ("random", None)
    assert doubted.why.endswith("The record says so. But it names no groups.")


@pytest.mark.parametrize(
    ("task", "split"),
    [
        ("image-classification", "stratified"),
        ("text-regression", "random"),
        ("time-series-regression", "time"),
    ],
)
def test_without_anything_the_usual_split_of_the_task_is_taken(task: str, split: str) -> None:
    found = decide_validation(near(), task, None)
    assert (found.split, found.folds, found.sources) == (split, 5, ())


@pytest.mark.parametrize("split", ["random", "stratified", "group", "time"])
def test_forecasts_are_validated_on_later_rows_whatever_others_did(split: str) -> None:
    found = decide_validation(near((solution("a", split=split), 1.0)), "time-series-regression", None)
    assert found.split == "time"
    said = SplitFact("group", QUOTED, "patient")
    named = decide_validation(near((solution("a", split=split), 1.0)), "time-series-regression", said)
    assert named.split == "group"


def test_the_public_leaderboard_is_no_validation() -> None:
    tempted = near((solution("a", split="public-lb"), 1.0), (solution("b", split="nested"), 1.0))
    assert decide_validation(tempted, "text-regression", None).split == "random"
    also = near((solution("a", split="public-lb"), 1.0), (solution("b", split="time", folds=3), 0.1))
    assert decide_validation(also, "text-regression", None).split == "time"


@given(
    st.lists(
        st.tuples(st.sampled_from(SPLITS), st.none() | st.integers(0, 200), st.floats(0.01, 1.0)), max_size=8
    ),
    st.sampled_from(TASKS),
    st.none() | st.tuples(st.sampled_from(["group", "time"]), st.none() | st.integers(2, 10)),
)
def test_the_split_is_one_that_can_be_made_and_a_fact_is_never_outvoted(
    told: list[tuple[str, int | None, float]], task: str, fact: tuple[str, int | None] | None
) -> None:
    some = near(*((solution(f"c{i}", split=s, folds=f), w) for i, (s, f, w) in enumerate(told)))
    said = None if fact is None else SplitFact(fact[0], QUOTED, folds=fact[1])
    found = decide_validation(some, task, said)
    assert found.split in SPLITS_ADVISED
    assert 2 <= found.folds <= 10
    assert task.endswith("-classification") or found.split != "stratified-group" or said is None
    if said is not None:
        assert found.split.endswith(said.split)
        assert found.why.startswith(QUOTED)
        assert said.folds in (None, found.folds)


def test_groups_that_are_counted_bound_the_folds_unless_time_splits_or_there_is_but_one() -> None:
    few = decide_validation(GROUPED, "image-regression", SplitFact("group", QUOTED, "patient", groups=3))
    assert (few.folds, few.most_folds) == (3, 3)
    noted = SplitFact("group", QUOTED, "patient", folds=4, groups=2)
    assert decide_validation(GROUPED, "image-regression", noted).folds == 2
    for fact in (SplitFact("group", QUOTED, groups=1), SplitFact("time", QUOTED, groups=3)):
        assert decide_validation(GROUPED, "image-regression", fact).most_folds is None
