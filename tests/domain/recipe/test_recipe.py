"""Is a recipe no longer than is read, and does each of its entries say where it comes from?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memory_service.domain.recipe.recipe import Recipe, make_recipe
from memory_service.domain.recipe.validation import Validation
from memory_service.domain.recipe.vocabulary import STAGE_OF, TECHNIQUES
from memory_service.domain.recipe.votes import Vote
from tests.domain.recipe.solutions import near, solution

MOST = {"families": 8, "techniques": 12, "loss": 3, "mattered": 5, "failed": 5, "pitfalls": 5}


def recipe(task: str, **said: Any) -> Recipe:
    return make_recipe(
        near((solution("leaves", **said), 1.0)),
        Validation("random", None, 5, "as most do", (), "claimed"),
        task,
        {},
        [(f"c{n}", f"beware {n}") for n in range(9)],
    )


def test_of_each_list_the_first_few_are_named() -> None:
    many = {name: tuple(f"{name} {n:02}" for n in range(20)) for name in ("families", "loss")}
    lessons = {name: tuple(f"{name} {n}" for n in range(20)) for name in ("what_mattered", "what_failed")}
    made = recipe("image-classification", **many, **lessons, techniques=tuple(TECHNIQUES)[:20])
    assert {name: len(getattr(made, name)) for name in MOST} == MOST
    assert [vote.name for vote in made.loss] == ["loss 00", "loss 01", "loss 02"]
    assert made.pitfalls[0] == {"text": "beware 0", "from": ["c0"]}
    assert made.basis == "1 of 1 known solutions, from 1 similar competitions"


def test_families_that_the_task_does_not_know_are_not_named() -> None:
    said = solution("leaves", families=("unet", "yolo", "resnet"))
    validation = Validation("random", None, 5, "as most do", (), "claimed")
    made = make_recipe(near((said, 1.0)), validation, "object-detection", {}, [], {"unet", "deeplab"})
    assert [vote.name for vote in made.families] == ["resnet", "yolo"]


@pytest.mark.parametrize(("task", "told"), [("tabular-regression", 1), ("image-regression", 0)])
def test_features_made_by_hand_are_told_where_they_are_the_craft(task: str, told: int) -> None:
    assert len(recipe(task, features=("days since the last sale",)).features) == told


def test_an_entry_says_its_share_its_lift_and_its_sources() -> None:
    vote = Vote("tta", 0.123456, 1.23456, 2, ("a#1", "b#1"), confirmed=2024)
    families = (replace(vote, name="vit"), replace(vote, name="swin", lift=None))
    made = replace(recipe("text"), techniques=(vote,), families=families)
    told = made.as_dict({"vit": "vit_base"})
    entry = {"share": 0.123, "lift": 1.23, "n": 2, "from": ["a#1", "b#1"], "runs": None}
    entry |= {"confirmed": 2024, "refuted_by": []}
    assert told["families"] == [
        {"name": "vit", "planned": "vit_base", **entry},
        {"name": "swin", "planned": None, **entry, "lift": None},
    ]
    stage = {"stage": STAGE_OF["tta"], "setting": TECHNIQUES["tta"], "in_script": False}
    assert told["techniques"] == [{"name": "tta", **entry, **stage}]


def test_an_entry_says_when_it_last_won_and_where_it_failed() -> None:
    used: dict[str, Any] = {"techniques": ("tta", "mixup"), "families": ("vit",)}
    made = make_recipe(
        near(
            (solution("leaves", year=2019, **used), 1.0),
            (solution("trees", year=2023, techniques=("tta",)), 0.8),
            (solution("moss", year=2025, what_failed=("MixUp and heavy flips made it worse",)), 0.5),
        ),
        Validation("random", None, 5, "as most do", (), "claimed"),
        "image-classification",
        {},
        [],
    )
    told = {vote.name: (vote.n, vote.confirmed, vote.refuted_by) for vote in made.techniques}
    assert told == {"tta": (2, 2023, ()), "mixup": (1, 2019, ("moss#1",))}
