"""Can each competition be found by what is said of it, and are its facts the given ones?"""

from __future__ import annotations

import csv
import json
import re
from typing import Any

import pytest

from benchmarks.fit_task import KINDS_OF_STORED
from memory_service.domain.common.vocabulary import TASKS
from memory_service.services.editorial.seed_files import as_row
from tests.every_row import of_every
from tests.knowledge import expected
from tests.knowledge.seed_files import FACTS, rows

FIELDS = {
    "slug", "title", "year", "task", "modality", "metric", "metric_family", "metric_direction", "n_train",
    "n_test", "n_classes", "image_size", "dataset_gb", "domain", "label_structure", "split", "summary",
    "description", "pitfalls", "source", "grade",
}  # fmt: skip
MORE = {"group_by", "host_kind", "teams", "code_competition", "inference_limit_hours"}
FAMILIES = {
    "accuracy", "f-score", "auc", "log-loss", "kappa", "iou-dice", "map-detection", "ranking",
    "edit-distance", "error-regression", "correlation", "divergence", "likelihood", "mcc",
}  # fmt: skip
UNPLANNED = {*KINDS_OF_STORED, "kdd-cup-2025-crag-mm"}
"""Without a task, as nothing here plans such."""
NEWER = {"speech-recognition"}

SPLITS = {"random", "stratified", "group", "time", "unknown"}
NUMBERS: dict[str, Any] = {
    "n_train": int,
    "n_test": int,
    "n_classes": int,
    "image_size": int,
    "dataset_gb": float,
    "teams": int,
    "inference_limit_hours": (int, float),
}

competitions = rows("competitions")
first_60 = [row for row in competitions if row["slug"] in expected.COMPETITIONS]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _runs(text: str, length: int) -> set[str]:
    words = _words(text)
    return {" ".join(words[i : i + length]) for i in range(len(words) - length + 1)}


def test_the_60_are_there_once_each() -> None:
    assert sorted(row["slug"] for row in first_60) == sorted(expected.COMPETITIONS)
    assert len({row["slug"] for row in competitions}) == len(competitions)


@of_every(competitions, lambda row: row["slug"])
def test_a_row_has_its_fields_in_the_vocabulary(row: dict[str, Any]) -> None:
    known_before = row["slug"] in expected.COMPETITIONS
    assert set(row) == (FIELDS if known_before else FIELDS - {"dataset_gb"} | MORE)
    unknown = set() if known_before else {None}
    assert row["task"] in {*TASKS, *unknown}
    assert row["metric_family"] in FAMILIES | unknown
    assert row["metric_direction"] in {"min", "max"}
    assert row["split"] in SPLITS | unknown
    assert row["grade"] == "claimed"
    assert row["source"]
    for name, kind in NUMBERS.items():
        value = row.get(name)
        assert value is None or (isinstance(value, kind) and value > 0), name


@of_every(first_60, lambda row: row["slug"])
def test_a_description_is_long_enough_to_search_by(row: dict[str, Any]) -> None:
    assert 120 <= len(row["description"].split()) <= 250
    assert row["description"].count("\n\n") == 2, "task, data, judging: one paragraph each"


def test_descriptions_share_no_sentences() -> None:
    seen: dict[str, str] = {}
    for row in first_60:
        for run in _runs(row["description"].partition(" Hosted by ")[0], 9):
            assert seen.setdefault(run, row["slug"]) == row["slug"], f"{run!r} in two descriptions"


def test_no_description_repeats_the_summary() -> None:
    for row in competitions:
        assert not _runs(row["description"], 8) & _runs(row["summary"], 8), row["slug"]


@pytest.mark.skipif(not FACTS.is_dir(), reason="../shared/facts is not beside this checkout")
def test_facts_equal_the_given_ones_where_given() -> None:
    with (FACTS / "competitions.csv").open(encoding="utf-8", newline="") as file:
        given = {row["slug"]: row for row in csv.DictReader(file)}
    assert set(given) == {row["slug"] for row in first_60}
    for row in first_60:
        for name, text in given[row["slug"]].items():
            if name == "source":
                assert row["source"].startswith(text)
            elif name in NUMBERS:
                assert text == "" or row[name] == NUMBERS[name](text), (row["slug"], name)
                assert text or row[name] is None or name in row["source"], f"{row['slug']}: whence {name}?"
            else:
                assert str(row[name]) == text, (row["slug"], name)


@pytest.mark.skipif(not FACTS.is_dir(), reason="../shared/facts is not beside this checkout")
def test_the_others_are_those_of_the_second_file_as_an_import_reads_it() -> None:
    """But for the sentence that names the host, tasks that the vocabulary got after the file, and tasks of
    what nothing here is planned for."""
    files = ("competitions_more.jsonl", "competitions_2025_26.jsonl")
    lines = [line for name in files for line in (FACTS / name).read_text("utf-8").splitlines()]
    given = {row["slug"]: as_row("competitions", row) for row in map(json.loads, lines)}
    others = {row["slug"]: row for row in competitions if row not in first_60}
    assert set(given) == set(others)
    for slug, row in others.items():
        told, host, _ = row["description"].partition(" Hosted by ")
        as_given = {**row, "description": told} if host else row
        untold = given[slug]["task"] is None or slug in UNPLANNED
        later = {"source", "task"} if untold or row["task"] in NEWER else {"source"}
        assert {n: as_given[n] for n in given[slug].keys() - later} == {
            n: value for n, value in given[slug].items() if n not in later
        }
        assert row["task"] is None or slug not in UNPLANNED
        named = given[slug].get("source")
        assert row["source"] == f"https://www.kaggle.com/c/{slug}" or row["source"].endswith(f"; {named}")
