"""Is each technique that scripts do one of the vocabulary, and off where no script sets it?"""

from __future__ import annotations

import pytest

from memory_service.domain.recipe import vocabulary
from memory_service.services.planning.script_choice import TECHNIQUES
from memory_service.services.planning.script_kinds import KINDS
from memory_service.train.budget import Plan

LOSSES = ("most used", "listed")


@pytest.mark.parametrize("word", TECHNIQUES)
def test_a_technique_is_one_of_the_vocabulary_and_off_by_default(word: str) -> None:
    technique = TECHNIQUES[word]
    assert technique.when in ("always", "recipe", *LOSSES)
    assert technique.name in (vocabulary.LOSSES if technique.when in LOSSES else vocabulary.TECHNIQUES)
    assert any(task.startswith(tuple(technique.tasks)) for task, _ in KINDS)
    assert all(len(line) <= 110 for line in technique.settings.splitlines())
    settings = {line.partition(" = ")[0] for line in technique.settings.strip().splitlines()}
    if technique.when != "always":
        assert not any(getattr(Plan, name) not in (0, 1, False) for name in settings)
    told = {name for names in settings for name in names.split(", ")} - {"CENTER"}
    assert all(name in technique.how for name in told), "the answer names the settings"


def test_a_loss_is_done_where_most_used_it() -> None:
    losses = [{"name": "bce", "share": 0.6}]
    plan = {"task": "image-classification", "recipe": {"loss": losses}}
    facts = dict.fromkeys(("network", "labels"), True)
    assert not TECHNIQUES["focal"].applies(plan, facts)
    losses.append({"name": "focal", "share": 0.7})
    assert TECHNIQUES["focal"].applies(plan, facts)
    assert not TECHNIQUES["focal"].applies(plan, facts | {"labels": False})
    assert not TECHNIQUES["focal"].applies(plan | {"recipe": None}, facts)
