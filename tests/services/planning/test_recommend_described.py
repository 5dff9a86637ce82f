"""What of a description is read, believed, overruled and said in a plan?"""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend
from tests.answers import warnings_of


def test_the_task_is_inferred_from_a_description(seeded_sqlite: Database) -> None:
    text = "Tell whether a movie review is positive or negative. The training set holds 25000 labelled texts."
    answer = recommend(seeded_sqlite, {"description": text, "gpu": "t4", "minutes": 60})
    assert answer["task"] == "text-classification"
    assert any("read in the description" in sentence for sentence in warnings_of(answer))
    assert any("25000" in sentence for sentence in warnings_of(answer))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("根据中文商品评论预测情感类别。训练集 120,000 条评论。评价指标为 F1。", "does not look English"),
        (
            "Die Bilder sind in die Klassen zu teilen: 3 000 image files.",
            "does not look English",
        ),
        ("Classify 900 training images. Metric: padded cmXY.", "a metric that was not understood"),
    ],
)
def test_what_of_a_description_was_not_understood_is_said(
    seeded_sqlite: Database, text: str, said: str
) -> None:
    answer = recommend(seeded_sqlite, {"description": text, "gpu": "t4", "minutes": 60})
    assert any(said in sentence for sentence in warnings_of(answer)), warnings_of(answer)


def test_a_card_of_less_memory_than_its_name_has_is_planned_with_what_the_text_says(
    seeded_sqlite: Database,
) -> None:
    text = "Tell 120 dog breeds apart on 10,000 photos, accuracy. A laptop's RTX 3060 6GB, half an hour."
    answer = recommend(seeded_sqlite, {"description": text})
    assert answer["expected"]["peak_memory_gib"]["high"] < answer["gpu"]["usable_gib"] < 6
    assert "6 GiB of memory: from the description; the card has 11.76 GiB." in warnings_of(answer)


def test_clients_are_no_rows_of_a_forecast_and_instructions_are_text(seeded_sqlite: Database) -> None:
    load = "Forecast the hourly electricity load of 370 clients, MAPE. CPU only, 15 minutes."
    assert "40000 training samples assumed" in str(
        warnings_of(recommend(seeded_sqlite, {"description": load}))
    )
    tune = "Fine-tune Llama-3 8B with LoRA on 5,000 instruction pairs, 40 minutes on one A100."
    assert recommend(seeded_sqlite, {"description": tune})["task"] == "seq2seq"


def test_a_description_of_a_stored_competition_brings_its_record_and_says_so(seeded_sqlite: Database) -> None:
    text = (
        "TGS Salt Identification Challenge. Find salt deposits below the surface: label every pixel of a "
        "seismic image as salt or not. "
        "Images of 101 x 101 pixels with the depth of each place. Run-length encoded masks, scored by mean "
        "average precision over IoU thresholds from 0.5 to 0.95."
    )
    asked = {"description": text, "gpu": "t4", "minutes": 60}
    known = recommend(seeded_sqlite, asked)
    assert known["task"] == "image-segmentation"
    assert known["similar"][0]["slug"] == "tgs-salt-identification-challenge"
    assert any("record of tgs-salt-identification-challenge" in said for said in warnings_of(known))
    facts = {fact["name"]: fact for fact in known["facts"]}
    assert facts["n_train"] == {"name": "n_train", "value": 4000, "from": "record"}
    assert facts["image_size"] == {"name": "image_size", "value": 101, "from": "record"}
    assert facts["cpu_count"]["from"] == "usual"
    blind = recommend(seeded_sqlite, {**asked, "mode": "blind"})
    assert blind["task"] == "image-segmentation"
    assert not any("tgs-salt" in said for said in warnings_of(blind))


def test_what_is_asked_outweighs_the_record_and_that_the_text(seeded_sqlite: Database) -> None:
    asked = {
        "competition": "tgs-salt-identification-challenge",
        "description": "Mark the salt: 9,000 seismic pictures. Mean Dice coefficient.",
        "n_test": 77,
        "n_groups": 12,
        "group_by": "survey",
        "gpu": "t4",
        "minutes": 60,
    }
    plan = recommend(seeded_sqlite, asked)
    facts = {fact["name"]: (fact["value"], fact["from"]) for fact in plan["facts"]}
    assert facts["n_train"] == (4000, "record")
    assert facts["n_test"] == (77, "asked")
    assert facts["n_groups"] == (12, "asked")
    assert facts["metric"][1] == "record"
    assert any("n_train 9000" in said and "4000" in said for said in warnings_of(plan))


DOGS_TOLD = "Classify photos of dogs into 12 breeds, 9,000 training images, log loss."


@pytest.mark.parametrize(
    ("given", "gpu", "minutes", "warned"),
    [
        ({}, ("t4", "text"), (120, "text"), None),
        ({"gpu": "a100"}, ("a100", "asked"), (120, "text"), "gpu=a100 is not what"),
        ({"gpu": "T4", "minutes": 10}, ("t4", "asked"), (10, "asked"), "minutes=10 is not what"),
        (
            {"gpu": "a100", "description": DOGS_TOLD},
            ("a100", "asked"),
            (30, "usual"),
            "30 min assumed: give minutes",
        ),
    ],
)
def test_card_and_minutes_are_as_asked_else_of_the_description_else_assumed_and_said(
    seeded_sqlite: Database,
    given: dict[str, Any],
    gpu: tuple[str, str],
    minutes: tuple[int, str],
    warned: str | None,
) -> None:
    text = f"{DOGS_TOLD} We have 2 hours on a T4."
    answer = recommend(seeded_sqlite, {"description": text, **given})
    facts = {fact["name"]: (fact["value"], fact["from"]) for fact in answer["facts"]}
    assert (facts["gpu"], facts["minutes"]) == (gpu, minutes)
    assert answer["minutes"] == minutes[0]
    against = [each for each in warnings_of(answer) if "is not what" in each or "min assumed" in each]
    assert [warned] == [each[: len(warned)] for each in against] if warned else not against


def test_neither_field_nor_text_names_a_card(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {"description": DOGS_TOLD})
    assert (answer["feasible"], answer["why"]) == (False, "hardware-not-told")
    (need,) = answer["needs"]
    assert need["field"] == "gpu"
    assert "t4" in [each["value"] for each in need["options"]]
    assert "/choose" in answer["detail"]


def test_a_task_that_the_description_speaks_against_is_said_and_a_word_for_it_is_not(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "segmentation", "gpu": "t4", "description": "classify bank customers churn"}
    warnings = warnings_of(recommend(seeded_sqlite, asked))
    assert any("reads like tabular-classification" in each for each in warnings)
    eyes = {"task": "image", "competition": "cassava-leaf-disease-classification", "gpu": "t4"}
    assert not any("is not what the record" in each for each in warnings_of(recommend(seeded_sqlite, eyes)))


def test_items_and_users_are_no_training_samples(seeded_sqlite: Database) -> None:
    text = "Recommend 12 garments out of 105,000 articles to each of 90,000 customers. MAP@12."
    answer = recommend(seeded_sqlite, {"description": text, "gpu": "t4", "mode": "blind"})
    facts = {fact["name"]: (fact["value"], fact["from"]) for fact in answer["facts"]}
    assert facts["n_train"] == (40_000, "usual")
    assert facts["n_test"][1] == "usual"
    assert facts["metric"] == ("MAP@12", "text")
    assert any(each.startswith("n_train=40000 is a guess") for each in warnings_of(answer))
