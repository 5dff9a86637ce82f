"""The task is read from a text alone: pages, other words, administrative text around it, figures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.recall_blind import descriptions as blind_descriptions
from benchmarks.recall_blind import facts_read
from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.description.metrics import metric_named
from memory_service.domain.description.stated_facts import stated_in
from memory_service.domain.description.task_inference import facts_and_tasks
from memory_service.recall.encoder import TextEncoder
from memory_service.recall.task_classifier import task_classifier
from memory_service.services.competitions.signals import read_text
from tests.knowledge.expected import COMPETITIONS
from tests.reading import read_alone
from tests.recall.conftest import Remembering

ROOT = Path(__file__).parents[2]

BOILERPLATE = """

## Timeline
- March 3, 2020 - Start Date.
- May 26, 2020 - Team Merger deadline. This is the last day participants may join or merge teams.
- June 2, 2020 - Final submission deadline. All deadlines are at 11:59 PM UTC on the corresponding day.

## Prizes
First Prize: $12,000. A winner must describe the solution in a video or a notebook.

## Code Requirements
Submissions must be made through Notebooks. GPU Notebook <= 9 hours run-time, internet access disabled.
Freely & publicly available external data is allowed, including pre-trained language models.

## Acknowledgements
We thank the annotators and the university. Photo by an artist. Images courtesy of the authors.
"""


def descriptions(*parts: str, file: str = "descriptions") -> Iterator[tuple[str, str, str]]:
    """(name, task, text) of a file: of the parts named, or all but the skipped ones."""
    for block in (Path(__file__).parent / f"{file}.txt").read_text().split("\n=== "):
        head, text = block.removeprefix("=== ").split("\n", 1)
        name, task, part = (field.strip() for field in head.split("|"))
        if part != "skip" and (not parts or part in parts):
            yield name, task, text.strip()


def paraphrases(half: str) -> list[dict[str, str]]:
    lines = (ROOT / "tests/knowledge/paraphrases.jsonl").read_text().splitlines()
    return [row for line in lines if (row := json.loads(line))["half"] == half]


def share_right(cases: list[tuple[str, str]], encoder: TextEncoder | None, least_told: float = 0.8) -> float:
    """Of the tasks that are told, the share that is right; at least so many must be told."""
    read = [(task, read_text(text, encoder).facts) for task, text in cases]
    told = [(task, facts) for task, facts in read if facts.tells_task or facts.outside]
    assert len(told) >= least_told * len(read)
    return sum(task in (facts.task, f"outside: {facts.outside}") for task, facts in told) / len(told)


def stated(text: str, name: str) -> Any:
    return stated_in(text).get(name, (None, ""))[0]


def test_tasks_of_own_descriptions_are_read(remembering: Remembering) -> None:
    for part, least in (("tune", 0.95), ("held-out", 0.90)):
        cases = [(task, text) for _, task, text in descriptions(part)]
        assert share_right(cases, remembering) >= least


@pytest.mark.parametrize(("file", "least"), [("blind2", 0.88), ("blind3", 0.90)])
def test_tasks_of_texts_written_without_sight_of_results_are_read(
    remembering: Remembering, file: str, least: float
) -> None:
    cases = [(task, text) for _, task, text in descriptions(file=file)]
    assert share_right(cases, remembering) >= least


def test_timeline_prizes_and_thanks_change_nothing() -> None:
    cases = [(task, text + BOILERPLATE) for _, task, text in descriptions()]
    assert share_right(cases, None) >= 0.90


@pytest.mark.parametrize(("half", "least"), [("tune", 0.94), ("held-out", 0.88)])
def test_tasks_of_paraphrases_are_read(remembering: Remembering, half: str, least: float) -> None:
    """Every second one: each costs the encoder's time."""
    cases = [(row["task"], row["text"]) for row in paraphrases(half)[::2]]
    assert share_right(cases, remembering) >= least


def test_tasks_of_the_sixty_are_read_from_their_descriptions() -> None:
    rows = [json.loads(line) for line in (ROOT / "seeds/competitions.jsonl").read_text().splitlines()]
    cases = [
        (row["task"], f"{row['title']}. {row['description']}") for row in rows if row["slug"] in COMPETITIONS
    ]
    assert len(cases) == 60
    assert share_right(cases, None) >= 0.92


def test_without_an_encoder_words_alone_do_nearly_as_well() -> None:
    cases = [(task, text) for _, task, text in descriptions()]
    assert share_right(cases, None) >= 0.90


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Predict masks of salt in seismic images, run-length encoding", "image-segmentation"),
        ("Which bird sings in each WAV recording?", "audio-classification"),
        ("Forecast the daily sales of each store for the next four weeks, SMAPE", "time-series-regression"),
        ("Draw a bounding box around every car in the photo; mAP at IoU 0.5", "object-detection"),
        ("Translate sentences from German to English, BLEU", "seq2seq"),
        ("How similar in meaning are two patent phrases? Pearson correlation", "text-pair-similarity"),
        ("Recommend 12 articles each customer will buy next week, MAP@12", "recommendation"),
        (
            "Customers of a bank with categorical and numeric features; will they default? AUC",
            "tabular-classification",
        ),
        ("Find the span of the paragraph that answers the question", "question-answering"),
        ("Segment 25 classes in 12000 satellite tiles of 1024x1024 pixels", "image-segmentation"),
        ("Segment roads and buildings in 5000 aerial images.", "image-segmentation"),
        ("Detect 365 classes of objects in 600000 photos of 640 pixels", "object-detection"),
    ],
)
def test_one_sentence_is_enough(text: str, task: str) -> None:
    facts = read_alone(text)
    assert facts.task == task
    assert facts.evidence


def test_an_image_of_text_is_still_an_image() -> None:
    text = "Remove the stains from scanned pages of text: predict each pixel intensity of the clean one."
    assert read_alone(text).task == "image-to-image"


def test_nothing_is_made_of_nothing() -> None:
    for text in ("zzz qqq", "", "competition"):
        facts = read_alone(text)
        assert not facts.tells_task
        assert facts.outside is None


@given(st.text(max_size=400))
@example("100classify PRODUCTS0")  # what is counted is no word of the sentence
@settings(max_examples=60, deadline=None)
def test_any_text_gives_a_known_task_or_none(text: str) -> None:
    facts, scores = facts_and_tasks(text, task_classifier().given(None))
    assert facts.task is None or facts.task in TASKS
    assert 0.0 <= facts.confidence <= 1.0
    assert sum(scores.values()) <= 1.0 + 1e-6, "some of it is for what is no task"


def test_a_megabyte_takes_well_under_a_second() -> None:
    for text in ("image of a dog, " * 65_000, "1 " * 500_000, "x" * 1_000_000, "train set has " * 70_000):
        began = time.process_time()
        read_alone(text)
        assert time.process_time() - began < 1.5


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Half a million rows, 300 columns.", {"n_features": 300}),
        ("9,000 photos of 300 pigs", {"n_groups": 300, "group_by": "pig"}),
        (
            "33,126 images of 2,056 patients, several per patient, test has other patients",
            {"n_groups": 2056, "group_by": "patient", "split": "group"},
        ),
        ("Scans of 640 × 480 pixels, 30 per patient", {"image_size": 480}),
        ("101 × 101", {"image_size": 101}),
        ("Spectrograms of 00 x 128 pixels", {}),
        ("Essays of 150 to 1,500 words", {"seq_len": 2000}),
        ("LoRA, sequence length 2048", {"seq_len": 2048}),
        (
            "8,151 sequences of 81 subjects, each of 120 time steps",
            {"n_groups": 81, "group_by": "subject", "seq_len": 120},
        ),
        ("You predict for November, the month after.", {"split": "time"}),
        ("2,056 × 41 table", {"n_train": 2056, "n_features": 41}),
        ("The organisers pay 10,000 euros; 87 teams.", {}),
    ],
)
def test_figures_are_read_with_what_they_count(text: str, facts: dict[str, Any]) -> None:
    found = stated_in(text)
    found.pop("samples", None)  # counts are told by a fitted reading
    assert {name: value for name, (value, _) in found.items()} == facts
    assert all(words in text for _, words in found.values())


@pytest.mark.parametrize("name", ["blind4", "blind7"])
def test_facts_of_texts_written_without_sight_of_the_reader_are_read(
    remembering: Remembering, name: str
) -> None:
    read = facts_read(lambda text: read_text(text, remembering).facts, name)
    assert read.task_share >= 0.88
    assert read.fact_share >= 0.91
    assert read.claimed_right_share >= (0.95 if name == "blind4" else 0.85)


def test_groups_of_any_noun_are_found_where_the_test_has_others_and_months_that_follow_are_later() -> None:
    frames = "6,880 frames were filmed on nine lines, those to be judged on three further lines."
    assert (stated(frames, "n_groups"), stated(frames, "split")) == (9, "group")
    assert stated("6,880 frames were filmed on nine lines by two engineers.", "split") is None
    claims = "1.9M claims from January to September; October is to be predicted."
    assert stated(claims, "split") == "time"
    assert stated(claims.replace("October", "May"), "split") is None


def test_a_recommender_learns_from_what_users_did_not_from_items_or_users() -> None:
    rated = read_text(
        "A recommender: the top 20 of 62,000 films for 9,000 users; 25 million ratings.", None
    ).facts
    assert (rated.task, rated.n_test) == ("recommendation", None)
    assert rated.n_train in (25_000_000, None), "told or left untold, and no other number"
    bare = read_text("Recommend 12 garments to each customer; 105,000 articles; MAP@12", None).facts
    assert (bare.task, bare.n_train, bare.n_test) == ("recommendation", None, None)


def test_image_size_and_split() -> None:
    assert stated("All images are 512 x 512 pixels.", "image_size") == 512
    assert stated("Patches of 96x96 px, of which the central 32x32 px matter", "image_size") is None
    assert (
        stated("The drivers in the test set do not appear in train: patients not seen in training", "split")
        == "group"
    )
    assert stated("Forecast the following weeks", "split") == "time"
    assert stated("Photos of dogs", "split") is None


def test_a_timeline_and_rules_say_nothing_of_the_split() -> None:
    rules = "\n\n## Rules\nThe maximum size of a team is 5 participants. You may select up to 2 submissions."
    for text, split in (("Photos of dogs", None), ("Forecast the following weeks", "time")):
        facts = read_alone(text + BOILERPLATE + rules)
        assert (facts.split, facts.group_by, facts.n_groups) == (split, None, None)


@pytest.mark.parametrize(
    ("name", "family", "direction"),
    [
        ("weighted ROC AUC (TPR below 0.4 counts double)", "auc", "max"),
        ("log of MAE, averaged over coupling types", "error-regression", "min"),
        ("MAP@12", "ranking", "max"),
        ("mAP at IoU > 0.4", "map-detection", "max"),
        ("global Dice", "iou-dice", "max"),
        ("F0.5", "f-score", "max"),
        ("quadratic weighted kappa", "kappa", "max"),
    ],
)
def test_metrics_are_known_by_their_names(name: str, family: str, direction: str) -> None:
    metric = metric_named(name)
    assert metric is not None
    assert (metric.family, metric.direction) == (family, direction)


def test_tasks_of_blind8_are_told_or_left_and_ten_texts_in_other_languages_are_read(
    remembering: Remembering,
) -> None:
    read = [(row, read_text(row["text"], remembering)) for row in blind_descriptions("blind8")]
    inside = [(row, each.facts) for row, each in read if row["task"]]
    told = [(row, facts) for row, facts in inside if facts.tells_task]
    assert len(told) >= 0.8 * len(inside)
    right = [facts.task in (row["task"], *row["also_ok"]) for row, facts in told]
    assert sum(right) >= 0.9 * len(told)
    assert sum(not each.facts.tells_task for row, each in read if not row["task"]) >= 8
    assert all(each.language == row["language"] for row, each in read)
    foreign = [(row, each.facts) for row, each in read if row["language"] != "en"]
    counts = [facts.n_train == row["facts"]["n_train"] for row, facts in foreign if "n_train" in row["facts"]]
    assert sum(counts) >= 8


@pytest.mark.parametrize("name", ["blind9", "blind10"])
def test_counts_and_splits_of_texts_by_strangers_are_read(remembering: Remembering, name: str) -> None:
    read = [(row, read_text(row["text"], remembering).facts) for row in blind_descriptions(name)]
    inside = [(row, facts) for row, facts in read if row["task"]]
    told = [(row, facts) for row, facts in inside if facts.tells_task]
    assert len(told) >= 0.9 * len(inside)
    assert sum(facts.task == row["task"] for row, facts in told) >= 0.9 * len(told)
    rows = [(row["facts"]["n_train"], facts.n_train) for row, facts in inside if "n_train" in row["facts"]]
    wrong = [pair for pair in rows if pair[1] is not None and max(pair) > 1.15 * min(pair)]
    assert len(wrong) <= 1
    assert sum(found is not None for _, found in rows) >= 0.75 * len(rows)
    splits = [facts.split == row["facts"]["split"] for row, facts in inside if "split" in row["facts"]]
    assert sum(splits) >= 0.8 * len(splits)


def test_splits_that_texts_say_in_ordinary_words_are_told_or_asked_about(remembering: Remembering) -> None:
    read = [(row["facts"].get("split"), read_text(row["text"], remembering).facts)
            for row in blind_descriptions("blind11") if row["task"]]  # fmt: skip
    said = [(facts.split, facts.split_open and facts.split_open.split, want) for want, facts in read if want]
    assert sum(told == want for told, _, want in said) >= 0.55 * len(said)
    assert sum(want in (told, asked) for told, asked, want in said) >= 0.65 * len(said)
    quiet = [facts.split for want, facts in read if want is None]
    assert sum(split in ("group", "time") for split in quiet) <= 0.15 * len(quiet)
