"""Laws of models that are fitted at once on a card: limits, monotone memory and time, published figures."""

from __future__ import annotations

import json

import pytest

from memory_service.domain.cost.boosted_trees import cost_kind, fit_cost
from memory_service.domain.cost.in_context import (
    context_laws,
    context_memory,
    context_seconds,
    passed_limit,
)
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.resources import path as resource

LAWS = context_laws()
ROWS = [json.loads(line) for line in resource("seeds", "models.jsonl").read_text().splitlines()]


def test_every_law_is_of_a_row_and_every_such_row_has_one() -> None:
    named = {row["name"] for row in ROWS if row["config"].get("cost") == "in-context"}
    assert named == LAWS.keys() - {"xrfm"}
    assert cost_kind("xrfm", "xrfm", "kernel") == "xrfm"
    assert all(law.source for law in LAWS.values())


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("regression", [True, False])
def test_memory_never_falls(name: str, regression: bool) -> None:
    sizes = [(500, 100, 5), (5_000, 100, 5), (5_000, 9_000, 5), (5_000, 9_000, 400), (200_000, 9_000, 2_000)]
    found = [context_memory(name, n, test, d, regression=regression) for n, test, d in sizes]
    assert [each.value for each in found] == sorted(each.value for each in found)
    assert all(0 < each.low < each.value < each.high for each in found)


@pytest.mark.parametrize("name", LAWS)
def test_seconds_never_fall_with_the_data_and_never_rise_with_the_card(name: str) -> None:
    by_rows = [context_seconds(name, n, 50, 312.0)[0].value for n in (100, 1_000, 10_000, 100_000)]
    by_columns = [context_seconds(name, 5_000, d, 312.0)[0].value for d in (2, 20, 200)]
    by_card = [
        context_seconds(name, 5_000, 50, speed)[0].value for speed in (8.0, 65.0, 312.0, 989.0, 2_250.0)
    ]
    assert by_rows == sorted(by_rows)
    assert by_columns == sorted(by_columns)
    assert by_card == sorted(by_card, reverse=True)
    assert fit_cost(name, 5_000, 50).fit_seconds.value >= by_card[2]


def test_published_figures_are_met() -> None:
    fit, row = context_seconds("tabicl-v2", 50_000, 100, 989.0)
    assert fit.value + 0 * row.value < 11, "under 10 s on an H100 (tabicl's README)"
    peak = context_memory("tabpfn-3", 10_000, 5_000, 50, regression=False).value * 2**30
    assert peak == pytest.approx(1.1e9 + 40e3 * 10_000 + 26e3 * 5_000 + 18e6 * 50), "AutoGluon 1.6.3"


def test_limits_are_named() -> None:
    assert passed_limit("tabpfn-v2", rows=20_000) == "takes at most 10,000 rows, not 20,000"
    assert passed_limit("tabpfn-v2", rows=9_000, columns=600) == "takes at most 500 columns, not 600"
    assert passed_limit("tabpfn-2.6", rows=9_000, classes=11) == "takes at most 10 classes, not 11"
    assert passed_limit("chronos-2", horizon=2_000) == "takes at most 1,024 steps of horizon, not 2,000"
    assert passed_limit("tabicl-v2", rows=9_000, columns=600, classes=40) == ""
    assert passed_limit("lightgbm", rows=10**9) == ""


@pytest.mark.parametrize(
    ("name", "commercial"),
    [
        ("tabpfn-3", False), ("tabpfn-2.5", False), ("tabpfn-v2", True), ("tabicl-v2", True),
        ("moirai-2", False),
        ("tirex-2", False), ("chronos-2", True), ("lightgbm", True), ("ts-icl", False),
        ("convnextv2_base.fcmae_ft_in22k_in1k", False),
    ],
)  # fmt: skip
def test_what_may_be_sold(name: str, commercial: bool) -> None:
    row = next(row for row in ROWS if row["name"] == name)
    assert CatalogueModel.from_dict(row).commercial is commercial
