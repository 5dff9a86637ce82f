"""Is every rule a typed row with readable numbers, and are the false ones shown and not followed?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from memory_service.domain.common.vocabulary import TASKS
from tests.every_row import of_every
from tests.knowledge import expected
from tests.knowledge.seed_files import FACTS, rows

strategies = rows("strategies")
FIELDS = {"id", "rule", "table", "key", "value", "statement", "followed", "why_not", "source", "grade"}
TABLES = {
    "batch_defaults", "batch_policy", "decision_matrix", "domain_architectures", "loader", "model_by_budget",
    "monitoring", "parallel", "pitfalls", "precision", "review", "time_management",
}  # fmt: skip
NAMES = re.compile(
    r"`[^`]*`|A100 40 GB|\bA1?0\b|A100|(?:ResNet|EfficientNet|DenseNet)-[\w./…]+(?:/[\w…]+)*|"
    r"EfficientNetV2-L|\bB\d(?:/B?\d)*\b|\bP\d+\b|\(\d\d\d(?:, \d\d\d)*\)"
)
"""Names that hold digits but are no numbers of the rule."""


def numbers(value: Any) -> Iterator[float]:
    """Every typed number within a key or value."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, dict):
        for part in value.values():
            yield from numbers(part)
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part)


def of_rule(rule: str) -> list[dict[str, Any]]:
    return [row for row in strategies if row["rule"] == rule]


@of_every(expected.RULES, str)
def test_every_rule_is_a_row(rule: str) -> None:
    assert of_rule(rule)


@of_every(strategies, lambda row: row["id"])
def test_a_row_is_typed(row: dict[str, Any]) -> None:
    assert set(row) == FIELDS
    assert row["id"].startswith(row["rule"] + "-")
    assert row["table"] in TABLES
    assert row["key"]
    assert row["value"]
    assert isinstance(row["key"], dict)
    assert isinstance(row["value"], dict)
    assert row["grade"] == "claimed"
    assert row["source"]
    assert row["statement"]
    assert row["followed"] is (row["why_not"] is None)
    assert row["key"].get("task", TASKS[0]) in TASKS


def test_ids_are_unique() -> None:
    assert len({row["id"] for row in strategies}) == len(strategies)


def test_rows_of_a_table_that_are_followed_do_not_contradict() -> None:
    seen: dict[str, str] = {}
    for row in strategies:
        if row["followed"]:
            where = f"{row['table']} {row['rule']} {sorted(row['key'].items())}"
            assert where not in seen, (row["id"], seen.get(where))
            seen[where] = row["id"]


@pytest.mark.skipif(not FACTS.is_dir(), reason="../shared/facts is not beside this checkout")
def test_every_rule_and_every_number_of_rules_md_is_typed() -> None:
    text = (FACTS / "rules.md").read_text("utf-8").split("## Known false")[0]
    rules = dict(re.findall(r"^- (R\d\d) (.*(?:\n(?!- R|\n|##).*)*)", text, flags=re.MULTILINE))
    assert tuple(rules) == expected.RULES
    for rule, words in rules.items():
        said = {float(n) for n in re.findall(r"(?<![A-Za-z\d.])\d+(?:\.\d+)?", NAMES.sub(" ", words))}
        typed = {n for row in of_rule(rule) for part in ("key", "value") for n in numbers(row[part])}
        assert said <= typed, (rule, said - typed)


def test_what_is_known_false_is_shown_with_a_counter_and_not_followed() -> None:
    for what, rule in expected.KNOWN_FALSE.items():
        shown = [row for row in of_rule(rule) if not row["followed"]]
        assert shown, what
        assert any(re.search(r"\d", row["why_not"]) for row in shown), f"{what}: no counter-figure"
    by_id = {row["id"]: row for row in strategies}
    batch = by_id["F01-b4-batch-512"]["value"]
    assert batch["counter_needed_gib"] > batch["counter_card_gib"]
    assert batch["counter_samples_per_second"] < batch["samples_per_second"]


def test_the_decision_matrix_has_every_cell_for_both_model_classes() -> None:
    cells = {(r["key"]["fill_percent_from"], r["key"]["model_class"]): r["value"] for r in of_rule("R23")}
    assert set(cells) == {(low, kind) for low in (0, 50, 60, 70, 90) for kind in ("small", "large")}
    assert cells[0, "large"]["action"] == "relaunch"
    assert cells[0, "large"]["batch_factor"] == 2
    assert cells[50, "small"]["action"] == "continue"
    assert cells[50, "large"]["batch_factor"] == 1.5
    assert {cells[low, kind]["action"] for low in (70, 90) for kind in ("small", "large")} == {"continue"}


def test_batch_defaults_are_single_integers_where_followed() -> None:
    for row in strategies:
        if row["table"] == "batch_defaults" and row["followed"]:
            assert isinstance(row["value"]["batch_size"], int), row["id"]


def test_models_and_gpus_are_names_of_the_catalogue() -> None:
    models = {row["name"] for row in rows("models")}
    gpus = {row["slug"] for row in rows("gpus")}
    for row in strategies:
        for part in (row["key"], row["value"]):
            named = [*part.get("models", ()), *([part["model"]] if "model" in part else ())]
            assert set(named) <= models, row["id"]
            cards = {
                part[name] for name in ("gpu", "visible_gpu", "production_gpu", "plan_for") if name in part
            }
            assert cards <= gpus, row["id"]
