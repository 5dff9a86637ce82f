"""Can a program read every pattern, and is there advice for each task and each competition?"""

from __future__ import annotations

import re
from typing import Any

from memory_service.domain.common.vocabulary import SIZES, TASKS
from tests.every_row import of_every
from tests.knowledge import expected
from tests.knowledge.seed_files import rows

patterns = rows("patterns")
FIELDS = {
    "id", "scope", "competition", "task", "size", "kind", "statement", "advice", "rule", "source", "grade",
}  # fmt: skip
KINDS = {"model", "validation", "augmentation", "input", "loss", "post", "pitfall", "schedule"}
ADVICE: dict[str, type | tuple[type, ...]] = {
    "models": list, "partners": list, "pretrained": bool, "image_size": int, "seq_len": int,
    "batch_size": int, "folds": int, "epochs": int, "patience": int, "split": str, "group_by": str,
    "stratify_by": str, "loss": str, "label_smoothing": float, "optimizer": str, "learning_rate": float,
    "warmup_fraction": float,
    "augmentation": list, "avoid": list, "post": list, "features": list,
    "metric_note": str, "minutes_typical": list,
}  # fmt: skip
"""The advice schema that docs/methods/knowledge_rows.md describes."""

NOTHING_TO_SAY = {
    **dict.fromkeys(
        (
            "speech-recognition",
            "visual-question-answering",
            "graph-classification",
            "graph-regression",
            "audio-regression",
        ),
        KINDS,
    ),
    "question-answering": {"augmentation"},
    "tabular-classification": {"augmentation", "loss"},
    "tabular-regression": {"augmentation"},
    "text-regression": {"augmentation"},
    "time-series-classification": {"schedule"},
    "time-series-regression": {"augmentation", "loss"},
}
"""Kinds on which no advice holds for a whole task beyond what its other rows say: filler helps nobody. Of the
newest tasks no winners are stored yet."""

by_slug = {row["slug"]: row for row in rows("competitions")}


@of_every(patterns, lambda row: row["id"])
def test_a_pattern_is_typed(row: dict[str, Any]) -> None:
    assert set(row) == FIELDS
    assert row["kind"] in KINDS
    assert row["task"] in TASKS
    assert row["size"] is None or row["size"] in SIZES
    assert row["rule"] is None or row["rule"] in expected.RULES
    assert row["grade"] == "claimed"
    assert row["source"]
    assert row["statement"].endswith(".")
    assert row["advice"], "advice a program can read"
    for name, value in row["advice"].items():
        assert isinstance(value, ADVICE[name]), (name, value)
        if isinstance(value, list):
            kind = int if name == "minutes_typical" else str
            assert value, name
            assert {type(part) for part in value} == {kind}, name


@of_every(patterns, lambda row: row["id"])
def test_scope_and_competition_agree(row: dict[str, Any]) -> None:
    if row["scope"] == "kind":
        assert row["competition"] is None
        return
    assert row["scope"] == "competition"
    assert row["task"] == by_slug[row["competition"]]["task"]
    split = row["advice"].get("split")
    assert split is None or split == by_slug[row["competition"]]["split"]


def test_ids_are_unique() -> None:
    assert len({row["id"] for row in patterns}) == len(patterns)


@of_every(TASKS, str)
def test_every_task_has_advice_of_every_kind_that_has_something_to_say(task: str) -> None:
    own = {row["kind"] for row in patterns if row["scope"] == "kind" and row["task"] == task}
    assert own == KINDS - NOTHING_TO_SAY.get(task, set())


@of_every(expected.COMPETITIONS, str)
def test_every_competition_has_a_validation_and_a_model_pattern(slug: str) -> None:
    own = [row for row in patterns if row["competition"] == slug]
    assert {"validation", "model"} <= {row["kind"] for row in own}
    assert any("models" in row["advice"] for row in own)


def test_the_patterns_of_r34_are_carried() -> None:
    own = [row for row in patterns if row["rule"] == "R34" and row["kind"] == "model"]
    found = {(row["task"], row["size"]): [m.split(".")[0] for m in row["advice"]["models"]] for row in own}
    assert found == {
        ("image-classification", "small"): ["tf_efficientnet_b3", "resnet50", "tf_efficientnet_b2"],
        ("image-classification", "medium"): ["tf_efficientnet_b4", "tf_efficientnet_b5", "resnet50"],
        ("image-segmentation", None): ["unet/efficientnet_b3", "unet/resnet50"],
    }


def test_models_of_the_advice_serve_the_task_and_partners_are_known() -> None:
    catalogue = {row["name"]: row for row in rows("models")}
    for row in patterns:
        for name in row["advice"].get("models", ()):
            assert row["task"] in catalogue[name]["tasks"], (row["id"], name)
        for name in row["advice"].get("partners", ()):
            assert name in catalogue, (row["id"], name)


def test_solutions_that_a_pattern_rests_on_are_stored_and_of_its_task_or_competition() -> None:
    stored = {f"{row['competition']}#{row['rank']}" for row in rows("solutions")}
    for row in patterns:
        for ref in re.findall(r"[\w.-]+#\d+", row["source"]):
            slug = ref.partition("#")[0]
            assert ref in stored, (row["id"], ref)
            assert slug == row["competition"] or row["scope"] == "kind", (row["id"], ref)
