"""Do the texts that recall is tuned and judged by keep apart from what they are to find?"""

from __future__ import annotations

import re
from collections import Counter

from memory_service.domain.common.vocabulary import TASKS
from tests.knowledge import expected
from tests.knowledge.seed_files import paraphrases, rows

texts = paraphrases()
by_slug = {row["slug"]: row for row in rows("competitions")}


def test_each_competition_is_told_twice() -> None:
    told = Counter((row["slug"], row["length"]) for row in texts if row["kind"] == "paraphrase")
    assert told == {(slug, length): 1 for slug in expected.COMPETITIONS for length in ("short", "long")}
    for row in texts:
        words = len(row["text"].split())
        low, high = (250, 600) if row["length"] == "long" else (20, 100)
        assert low <= words <= high, (row["id"], words)


LATER = {
    "image-keypoints", "token-classification", "speech-recognition", "visual-question-answering",
    "graph-classification", "graph-regression", "audio-regression",
}  # fmt: skip
"""Tasks that came after these texts were written."""


def test_strangers_cover_every_task() -> None:
    others = [row for row in texts if row["kind"] == "other"]
    assert len(others) >= 40
    assert {row["task"] for row in others} == set(TASKS) - LATER
    assert all(row["slug"] is None for row in others)


def test_halves_are_even_and_no_competition_is_in_both() -> None:
    assert set(Counter(row["half"] for row in texts)) == {"tune", "held-out"}
    halves: dict[str, set[str]] = {}
    for row in texts:
        if row["slug"]:
            halves.setdefault(row["slug"], set()).add(row["half"])
    assert all(len(half) == 1 for half in halves.values())
    assert Counter(next(iter(half)) for half in halves.values()) == {"tune": 30, "held-out": 30}


def test_a_paraphrase_names_neither_slug_nor_title() -> None:
    for row in texts:
        if row["slug"]:
            own = by_slug[row["slug"]]
            assert own["slug"].lower() not in row["text"].lower()
            assert own["title"].lower() not in row["text"].lower()
            assert row["task"] == own["task"]


def test_a_paraphrase_reuses_no_sentence_of_the_description() -> None:
    label_lists = ("atelectasis", "down left")

    def runs(text: str, length: int = 12) -> set[str]:
        words = re.findall(r"[a-z0-9]+", text.lower())
        return {" ".join(words[i : i + length]) for i in range(len(words) - length + 1)}

    for row in texts:
        if row["slug"]:
            shared = runs(row["text"]) & runs(by_slug[row["slug"]]["description"])
            assert not {run for run in shared if not any(name in run for name in label_lists)}, row["id"]
