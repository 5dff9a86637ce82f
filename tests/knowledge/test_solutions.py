"""Are the shipped solutions of known competitions, in the vocabulary, and those that were given?"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from memory_service.domain.recipe.vocabulary import BASES, FAMILIES, LOSSES, SPLITS, TECHNIQUES
from tests.catalogue import shipped_seeds
from tests.knowledge.seed_files import FACTS, rows

solutions = rows("solutions")


def test_every_solution_is_one_of_a_shipped_competition_and_stands_once() -> None:
    slugs = {row["slug"] for row in rows("competitions")}
    assert {row["competition"] for row in solutions} <= slugs
    (_, most), *_ = Counter((row["competition"], row["rank"]) for row in solutions).most_common(1)
    assert most == 1


def test_every_name_is_of_the_vocabulary_as_it_is_written_there() -> None:
    for row in solutions:
        for field, known in (("families", FAMILIES), ("loss", LOSSES), ("techniques", TECHNIQUES)):
            assert set(row[field]) <= set(known), (row["competition"], row["rank"], field)
        assert row["validation"]["split"] in SPLITS
        assert row["basis"] in BASES


def test_each_technique_is_told_in_one_sentence() -> None:
    for name, about in TECHNIQUES.items():
        assert about.endswith(".")
        assert 5 <= len(about.split()) <= 20, name
        assert ". " not in about, name


def test_every_solution_says_where_it_is_from() -> None:
    seeds = shipped_seeds()["solutions"]
    assert len(seeds) == len(solutions)
    for row in solutions:
        values = seeds[f"{row['competition']}#{row['rank']}"].values
        assert values["grade"] == "claimed"
        assert values["source"] == (row["read_at"] or row["url"] or "general knowledge, recalled")


@pytest.mark.skipif(not FACTS.is_dir(), reason="../shared/facts is not beside this checkout")
def test_the_given_ones_are_shipped_as_they_were_given() -> None:
    """Of 2025-26 without the two whose rank nobody knows; the one that was first in a second challenge and
    fifth in the first stands as fifth."""
    files = ("solutions.jsonl", "solutions_2025_26.jsonl")
    lines = [line for name in files for line in (FACTS / name).read_text("utf-8").splitlines()]
    shipped = {(row["competition"], row["rank"]): row for row in solutions}
    unranked = 0
    for given in map(json.loads, lines):
        if given["rank"] is None:
            unranked += 1
        elif "fifth in challenge 1" in str(given["read_at"]):
            assert shipped[given["competition"], 5] == given | {"rank": 5}
        else:
            assert shipped[given["competition"], given["rank"]] == given
    assert unranked == 2
