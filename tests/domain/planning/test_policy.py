"""Does correcting a row of the strategy tables change the plan, and does nothing else?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.planning.hyperparameters import default_batch
from memory_service.domain.planning.policy import Policy, policy_of, unreadable
from memory_service.domain.portfolio.portfolio_plan import plan_portfolio
from memory_service.schemas.recommend import plan_request
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.planning.planning_problem import case_of
from tests.planning import promises_kept, seed_knowledge

DOGS: dict[str, Any] = {"task": "image", "n_train": 60_000, "gpu": "a100", "minutes": 60, "model": "resnet50"}


def _corrected(row: str, **changes: Any) -> Knowledge:
    """The shipped knowledge with one row corrected: members of its key or value by name."""
    known = seed_knowledge()
    old = known.strategy[row]
    new = {
        **old,
        "key": {n: changes.get(n, v) for n, v in old["key"].items()},
        "value": {n: changes.get(n, v) for n, v in old["value"].items()},
        "followed": changes.get("followed", old["followed"]),
    }
    return replace(known, strategies=tuple(new if one is old else one for one in known.strategies))


def _plan(knowledge: Knowledge, **asked: Any) -> dict[str, Any]:
    return plan_portfolio(case_of(knowledge, plan_request({**DOGS, **asked})), knowledge).as_dict()


def _ids(answer: dict[str, Any]) -> set[str]:
    return {row["id"] for row in answer["evidence"]}


def test_the_shipped_rows_say_what_the_defaults_say() -> None:
    said = policy_of(seed_knowledge().strategies)
    plain = Policy()
    assert {p: b.batch_size for p, b in said.batches.items()} == {
        p: b.batch_size for p, b in plain.batches.items()
    }
    assert all(default.row for default in said.batches.values()), "every default has its row"
    assert not said.changed
    assert replace(said, batches=plain.batches, steering=frozenset()) == plain


@pytest.mark.parametrize(
    ("row", "changes", "asked", "field", "value"),
    [
        ("R03-a100-image-224", {"batch_size": 384}, {"image_size": 224}, "batch_size", 384),
        ("R03-a10-image-224", {"batch_size": 192}, {"image_size": 224, "gpu": "a10"}, "batch_size", 192),
        (
            "S04-updates-per-epoch",
            {"updates_per_epoch_at_least": 1_000},
            {"n_train": 20_000},
            "batch_size",
            16,
        ),
        ("R16-patience", {"early_stopping_patience_min": 5}, {}, "early_stopping_patience", 5),
        ("R17-start", {"folds": 2, "folds_max": 2}, {}, "folds", 2),
    ],
)
def test_a_corrected_row_changes_the_plan_and_is_named(
    row: str, changes: dict[str, Any], asked: dict[str, Any], field: str, value: int
) -> None:
    before, after = _plan(seed_knowledge(), **asked), _plan(_corrected(row, **changes), **asked)
    assert before[field] != value == after[field]
    told = next(one["text"] for one in after["evidence"] if one["id"] == row)
    assert "Corrected here: " in told, "the sentence still says the number of before"
    assert all(f"{name} {number}" in told for name, number in changes.items())
    assert promises_kept(after) == []


def test_the_budgets_shares_are_those_of_the_rows() -> None:
    tight = _plan(_corrected("R14-reserve", reserve_percent=45), minutes=20)
    assert tight["reserve_minutes"] >= 0.45 * 20
    assert "R14-reserve" in _ids(tight)
    half = _plan(_corrected("R12-fewer-folds", estimate_over_budget_percent=40), minutes=20)
    assert half["expected"]["total_minutes"]["value"] <= 0.4 * 20 * 1.001
    checks = _plan(_corrected("R04-report", target_percent_from=60))["checks"]
    assert checks["target_percent"] == [60, 90]
    assert _plan(_corrected("R21-every", every_seconds_max=240))["checks"]["every_seconds"] == 180


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        ("R14-reserve", {"reserve_percent": "a lot"}),
        ("R14-reserve", {"reserve_percent": 100}),
        ("R14-reserve", {"reserve_percent": 45, "followed": False}),
        ("R03-a100-image-224", {"batch_size": -5}),
        ("R03-a100-image-224", {"batch_size": None}),
        ("R16-patience", {"early_stopping_patience_min": 9}),
        ("R17-start", {"folds": True}),
        ("R18-image", {"alarm_below": 1}),
        ("R03-a10-b4", {"batch_size": 8}),
    ],
)
def test_a_row_that_says_nothing_usable_changes_nothing(row: str, changes: dict[str, Any]) -> None:
    said = policy_of(_corrected(row, **changes).strategies)
    assert not said.changed
    assert row not in said.steering
    assert said.reserve_share == 0.15
    assert said.batches["a100", "image", 224].batch_size == 256


@pytest.mark.parametrize(
    ("row", "changes", "field"),
    [
        ("R03-a10-image-384", {"batch_size": -7}, ("value", "batch_size")),
        ("R14-reserve", {"reserve_percent": 100}, ("value", "reserve_percent")),
        ("R16-patience", {"early_stopping_patience_min": 9}, ("value", "early_stopping_patience_max")),
        ("R20-under-50", {"fill_percent_below": "half"}, ("key", "fill_percent_below")),
    ],
)
def test_a_number_out_of_its_range_is_named(
    row: str, changes: dict[str, Any], field: tuple[str, str]
) -> None:
    assert list(unreadable(_corrected(row, **changes).strategy[row])) == [field]


@given(
    st.dictionaries(st.sampled_from(sorted(Policy().batches)), st.integers(1, 5_000), min_size=1, max_size=9),
    st.sampled_from(("image-classification", "image-segmentation", "tabular-regression")),
    st.integers(32, 1_024),
)
def test_whatever_the_rows_say_a_larger_card_gets_no_smaller_default(
    batches: dict[tuple[str, str, int], int], task: str, size: int
) -> None:
    rows = [
        {
            "id": f"r{n}",
            "rule": "R03",
            "followed": True,
            "key": {"gpu": card, "input_kind": kind} | ({"image_size": px} if px else {}),
            "value": {"batch_size": batch},
        }
        for n, ((card, kind, px), batch) in enumerate(batches.items())
    ]
    policy = policy_of(rows)
    assert policy.steering == {row["id"] for row in rows}
    sizes = [
        default_batch(task, size, gib, gpu=True, policy=policy)[0]
        for gib in (8.0, 17.0, 18.0, 23.0, 36.0, 80.0)
    ]
    assert sizes == sorted(sizes)
    assert all(batch >= 1 for batch in sizes)
