"""A competition becomes several passages; a long question a few, within the budget of an answer."""

from __future__ import annotations

import time

from memory_service.recall.passages import (
    PASSAGE_CHARACTERS,
    QUERY_CHARACTERS,
    passages_of,
    query_passages,
)

LONG = (
    "# Find the owls\n\nOwls matter. " + "Forests are large and people are few. " * 40 + "\n\n## Evaluation\n"
    "Submissions are evaluated on area under the ROC curve between predicted and true owl presence.\n\n"
    "## Timeline\n- March 1 - Start. All deadlines are at 11:59 PM UTC.\n\n## Dataset Description\n"
    "train.csv holds the labels; each WAV file is a ten-second recording from one of 40 forest sites. " * 5
)


def test_each_kind_of_passage_is_made_and_none_is_too_long() -> None:
    row = {
        "slug": "owls",
        "title": "Owls",
        "task": "audio-classification",
        "metric": "ROC AUC",
        "description": LONG,
    }
    made = passages_of(row)
    assert {passage.kind for passage in made} == {"predicted", "data", "judged", "text"}
    assert all(0 < len(passage.text) <= PASSAGE_CHARACTERS for passage in made)


def test_a_competition_with_only_a_title_has_a_passage() -> None:
    assert [p.kind for p in passages_of({"slug": "owls", "title": "Owls"})] == ["predicted"]


def test_a_short_question_is_one_passage() -> None:
    assert [p.text for p in query_passages("  find owls by ear ")] == ["find owls by ear"]


def test_a_long_question_is_three_passages_that_say_most() -> None:
    made = query_passages(LONG)
    assert 1 < len(made) <= 3
    assert all(len(passage.text) <= QUERY_CHARACTERS for passage in made)
    text = " ".join(passage.text for passage in made)
    assert "ROC curve" in text
    assert "WAV" in text
    assert "11:59" not in text


def test_a_megabyte_is_read_quickly() -> None:
    for text in ("owl " * 250_000, "o" * 1_000_000, "owls. " * 170_000, "\n" * 1_000_000 + "owl"):
        began = time.process_time()
        assert len(query_passages(text)) <= 3
        assert time.process_time() - began < 2.0
