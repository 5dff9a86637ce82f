"""Is the model that a description wants trained planned, its size too, and what cannot be used said?"""

from __future__ import annotations

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.ask import ask_page
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import question_of, recommend
from tests.answers import warnings_of

LEAVES = "on 12,000 leaf images into 12 classes, accuracy, two T4s, 9 hours."


def test_a_model_and_its_size_of_the_text_are_planned_with_their_words(seeded_sqlite: Database) -> None:
    text = f"Train efficientnet-b4 at 380 {LEAVES} Internet access disabled."
    answer = recommend(seeded_sqlite, {"description": text})
    assert answer["model"]["name"].startswith("efficientnet_b4")
    assert answer["model"]["image_size"] == 380
    facts = {fact["name"]: (fact["from"], fact.get("words")) for fact in answer["facts"]}
    assert facts["model"] == ("text", "efficientnet-b4")
    assert facts["image_size"] == ("text", "at 380")
    assert facts["weights"] == ("text", "Internet access disabled")
    assert answer["weights"] == "local"
    assert 'WEIGHTS = os.environ.get("WEIGHTS", "weights")' in plan_script(answer)
    shown = ask_page(seeded_sqlite, knowledge_of(seeded_sqlite), {"description": text})["facts"]
    assert {"model", "image_size", "weights"} <= {fact["field"] for fact in shown}


def test_what_was_asked_goes_before_the_text(seeded_sqlite: Database) -> None:
    text = f"Train efficientnet-b4 at 380 {LEAVES}"
    asked = {"description": text, "model": "resnet50", "image_size": 224, "weights": "hub"}
    answer = recommend(seeded_sqlite, asked)
    assert answer["model"]["name"].startswith("resnet50")
    assert answer["model"]["image_size"] == 224


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"Train foonet-b9 at 380 {LEAVES}", "foonet-b9: not used, the catalogue has no such model"),
        (f"Train deberta-v3-base {LEAVES}", "deberta-v3-base: not used, it does not serve image"),
        (f"Train resnet50 and efficientnet-b4 {LEAVES}", "resnet50, efficientnet-b4: not used, one is fixed"),
        (f"Train swin_base_patch4_window7_224 at 101 {LEAVES}", "at 101: not used"),
    ],
)
def test_a_model_that_cannot_be_used_is_said(seeded_sqlite: Database, text: str, said: str) -> None:
    answer = recommend(seeded_sqlite, {"description": text, "task": "image-classification"})
    assert any(said in each for each in warnings_of(answer)), warnings_of(answer)


@pytest.mark.parametrize(
    "text", ["The baseline is a ResNet50.", "Do not train resnet50.", "ResNet50 features are given for each."]
)
def test_a_model_that_is_only_mentioned_is_not_fixed(seeded_sqlite: Database, text: str) -> None:
    answer = recommend(seeded_sqlite, {"description": f"{text} Classify {LEAVES}"})
    assert "model" not in {fact["name"] for fact in answer["facts"]}


def test_a_model_without_a_task_asks_for_what_it_serves(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {"description": "efficientnet-b4 on two gpus"})
    assert answer["why"] == "task-not-told"
    assert answer["questions"][0]["options"][0]["value"] == "image-classification"


def test_the_plan_of_a_gpu_that_only_the_text_names_can_be_asked_for_again(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {"description": f"Train efficientnet-b4 {LEAVES}"})
    question = question_of(seeded_sqlite, answer["plan_id"])
    assert question is not None
    assert recommend(seeded_sqlite, question)["plan_id"] == answer["plan_id"]


def test_a_family_that_fits_is_not_said_to_fit_nowhere(seeded_sqlite: Database) -> None:
    asked = {"description": f"Classify {LEAVES}"}
    page = ask_page(seeded_sqlite, knowledge_of(seeded_sqlite), asked)
    fitting = page["fitting"]["efficientnet"]
    assert recommend(seeded_sqlite, {**asked, "model": fitting})["feasible"]
