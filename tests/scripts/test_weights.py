"""Does a script pretend, where its pretrained weights cannot be had or its model has learned nothing?"""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import recommend
from tests.answers import warnings_of
from tests.scripts.harness.kinds import KINDS
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Trial, Workshop

FETCHED = (
    "image-classification",
    "image-segmentation",
    "object-detection",
    "text-classification",
    "audio-classification",
)


def pretrained(workshop: Workshop, name: str, weights: str | None = None, **changes: Any) -> Trial:
    model = workshop.plan(name)["model"] | {"pretrained": True}
    if name.startswith("text"):
        model["name"] = "deberta-v3-small"
    return workshop.trial(name, model=model, own={"WEIGHTS": weights} if weights else {}, **changes)


@pytest.mark.parametrize("name", FETCHED)
def test_without_its_weights_a_script_ends_with_one_sentence(workshop: Workshop, name: str) -> None:
    trial = pretrained(workshop, name)
    ended = trial.train()
    assert ended.status == 1, ended.log
    last = ended.log.strip().splitlines()[-1]
    assert last.startswith("The pretrained weights of "), ended.log
    for way in ("WEIGHTS to a folder", "with weights=none"):
        assert way in last
    assert len({tuple(row) for row in trial.cells().values()}) == 1, "the baseline"


@pytest.mark.parametrize("name", FETCHED)
def test_without_weights_a_plan_names_no_pretrained_model_and_has_a_script(
    workshop: Workshop, name: str
) -> None:
    question = {"size": "small", "gpu": "a100", **KINDS[name].question}
    usual, plan = (recommend(workshop.database, question | more) for more in ({}, {"weights": "none"}))
    assert usual["model"]["pretrained"]
    assert not plan["model"]["pretrained"]
    has_rate = plan["model"]["library"] != "sklearn"
    assert not has_rate or plan["learning_rate"] >= usual["learning_rate"]
    assert plan["expected"]["quality_index"]["value"] < usual["expected"]["quality_index"]["value"]
    assert any("weights=none" in warning for warning in warnings_of(plan))
    assert "WEIGHTS" not in plan_script(plan)
    pinned = question | {"model": usual["model"]["name"], "folds": 1, "epochs": 2}
    fetched, local = (recommend(workshop.database, pinned | more) for more in ({}, {"weights": "local"}))
    assert local["model"]["pretrained"]
    assert local["expected"]["total_minutes"]["value"] < fetched["expected"]["total_minutes"]["value"]


@pytest.mark.parametrize("name", FETCHED[:3])  # sounds are heard by the builder of images
def test_told_to_a_script_learns_from_random_weights(workshop: Workshop, name: str) -> None:
    trial = pretrained(workshop, name, weights="none", folds=1, epochs=2)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "/10:" in ended.log, "the schedule is longer"
    assert gain(trial.data, trial.cells()) > 0, ended.log


@pytest.mark.parametrize("name", FETCHED)
def test_weights_come_from_a_folder(workshop: Workshop, name: str) -> None:
    import timm
    import torch

    trial = pretrained(workshop, name, folds=1)
    folder = trial.folder / "weights"
    folder.mkdir()
    model = trial.plan["model"]["name"]
    if name.startswith("text"):
        folder = workshop.bert
    else:
        torch.manual_seed(0)  # some random weights find no box in four epochs
        of_timm = timm.create_model(model.partition("/")[2] or model)
        torch.save(of_timm.state_dict(), folder / f"{model.rpartition('/')[2]}.pth")
        torch.save({}, folder / "another.pth")
    trial.own["WEIGHTS"] = str(folder)
    ended = trial.train()
    assert ended.status == 0, ended.log
    if not name.startswith("text"):  # the text model's weights are random, too
        assert gain(trial.data, trial.cells()) > 0, ended.log


def test_weights_without_a_vocabulary_are_none(workshop: Workshop) -> None:
    """transformers then makes a tokenizer of special tokens: every text is the same. Seen on an H200."""
    trial = pretrained(workshop, "text-classification", folds=1)
    folder = trial.folder / "weights"
    shutil.copytree(workshop.bert, folder, ignore=shutil.ignore_patterns("*token*", "vocab*"))
    trial.own["WEIGHTS"] = str(folder)
    ended = trial.train()
    assert ended.status == 1, ended.log
    assert "no vocabulary in" in ended.log.strip().splitlines()[-1]


def test_what_is_worse_than_the_baseline_is_not_written_over_it(workshop: Workshop) -> None:
    trial = workshop.trial("text-regression", learning_rate=1e4, epochs=1)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "worse than the baseline" in ended.log or "has diverged" in ended.log
    assert len({tuple(row) for row in trial.cells().values()}) == 1, ended.log
