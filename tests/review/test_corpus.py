"""Does a review find what is wrong with ordinary scripts, and does it stay quiet on those that are fine?"""

from __future__ import annotations

from collections import defaultdict

import pytest

from memory_service.review import findings as rulebook
from memory_service.review.engine import FAILED
from memory_service.services.database.transactions import Database
from memory_service.services.review.review import review_script
from tests.review.corpus import Example, Score, details, examples, score, table

Reviewed = list[tuple[Example, Score]]


@pytest.fixture(scope="module")
def every() -> list[Example]:
    return examples()


@pytest.fixture(scope="module")
def reviewed(seeded_sqlite: Database, every: list[Example]) -> Reviewed:
    """Every example reviewed once, with the models' profiles at hand."""
    scores = []
    for example in every:
        answer = review_script(seeded_sqlite, {"script": example.text, **example.facts})
        assert FAILED not in str(answer["not_checked"]), (example.name, answer["not_checked"])
        scores.append((example, score(example, answer["findings"])))
    return scores


def report(reviewed: Reviewed) -> tuple[Score, str]:
    """The score of all, and the tables by set, style and rule."""
    total = Score()
    by: dict[str, dict[str, Score]] = {key: defaultdict(Score) for key in ("set", "style", "rule")}
    for example, one in reviewed:
        total += one
        by["set"][example.set_name] += one
        by["style"][example.style] += one
        for kind in ("found", "missed", "false"):
            for rule, where in getattr(one, kind):
                getattr(by["rule"][rule], kind).append((rule, where))
    tables = "\n\n".join(f"by {key}\n{table(rows)}" for key, rows in by.items())
    return total, f"\n{tables}\n\n{details(total)}\n"


def test_95_percent_of_the_findings_are_right_and_90_percent_of_the_faults_found(reviewed: Reviewed) -> None:
    total, text = report(reviewed)
    assert total.precision >= 0.95, text
    assert total.recall >= 0.9, text


def test_scripts_written_after_the_tuning_set_are_reviewed_as_well(reviewed: Reviewed) -> None:
    total, text = report([(example, one) for example, one in reviewed if example.set_name == "held"])
    assert total.precision >= 0.95, text
    assert total.recall >= 0.9, text


def test_nine_of_ten_fine_scripts_have_no_finding_at_all(reviewed: Reviewed) -> None:
    fine = [(example, one) for example, one in reviewed if example.fine]
    loud = [where for _, one in fine for _, where in one.false]
    assert len({where.split(":")[0] for where in loud}) <= len(fine) / 10, loud


LATER = {
    "accumulation-voided", "accumulation-unscaled", "refitted-on-test", "model-across-folds",
    "result-thrown-away", "judged-on-training-rows", "not-on-gpu", "undefined-name",
}  # fmt: skip
"""Rules that came after the examples: their cases are in test_rules.py and test_missed_faults.py."""


def test_a_third_of_at_least_sixty_examples_is_fine_and_every_rule_has_a_bad_one(
    every: list[Example],
) -> None:
    assert len(every) >= 60
    assert sum(example.fine for example in every) >= len(every) / 3
    assert len({example.style for example in every}) >= 10
    faults = {place.rule for example in every for place in example.expected}
    faults |= {rule for example in every for rule in example.expected_anywhere}
    assert faults | LATER == set(rulebook.RULES)
    assert {rule for example in every for rule in example.rules} <= set(rulebook.RULES)


def test_a_review_cannot_read_the_marks(every: list[Example]) -> None:
    for example in every:
        assert not any(f"# {mark}" in example.text for mark in ("expect", "may", "also:", "review:"))
