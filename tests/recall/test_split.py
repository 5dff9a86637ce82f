"""Is what a text says of the split told, what it denies not, and the unit named, whatever it is called?"""

from __future__ import annotations

import pytest

from memory_service.recall.encoder import Encoder
from memory_service.services.competitions.signals import read_text
from memory_service.services.planning.memory import split_read


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("Count barnacles on buoy photos. A buoy must not be on both sides of the split.", "buoy"),
        (
            "Detect cracked bells from their sound. Please keep belfries apart between train and val.",
            "belfry",
        ),
        ("Score is MAE. Coins sharing a die stay in one fold.", "die"),
        ("All strokes from a bell-ringer fall in one fold.", "bell-ringer"),
        ("The test pictures were taken in quarries that contribute nothing to the train set.", "quarry"),
        ("Test notes come from abbeys which are not in train.csv.", "abbey"),
        ("Cross-validation must be done lagoon by lagoon, as shots of a lagoon are alike.", "lagoon"),
        ("None of the looms in the test set occurs in the training set.", "loom"),
        ("Kilns were never divided between both parts: train and test.", "kiln"),
        ("We assigned whole orchards to train or test.", "orchard"),
        ("9 windows a goat; leave-goats-out CV.", "goat"),
        ("Photos derselben Glocke bitte nicht auf Training und Validierung verteilen.", "glocke"),
        ("Las fotos de un mismo puente no deben repartirse entre entrenamiento y validación.", "puente"),
        ("同一座桥的照片不会同时出现在训练集和测试集中。", None),
    ],
)
def test_the_unit_that_is_kept_together_is_read(encoder: Encoder, text: str, unit: str | None) -> None:
    facts = read_text(text, encoder).facts
    asked = facts.split_open
    assert (asked.split if asked else facts.split) == "group"
    assert unit in (None, asked.unit if asked else facts.group_by)


@pytest.mark.parametrize(
    "text",
    [
        "Orientation carries no meaning, so mirrored photos help in training and validation.",
        "No two predicted masks of one image may overlap. Train and test are alike.",
        "No split times are recorded; predict the finish time.",
        "A feature is shared by both models. Test rows look like train rows.",
        "Each photo shows one leaf. Both the train and the test folder have photos.",
    ],
)
def test_other_sentences_with_the_same_words_keep_nothing_apart(encoder: Encoder, text: str) -> None:
    assert read_text(text, encoder).facts.split not in ("group", "time")


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("Group by patient_id.", "patient_id"),
        ("There are several images of a patient.", "patient"),
        ("Rows of the same customer must not be split.", "customer"),
        ("We validate by StratifiedGroupKFold on site_id.", "site_id"),
        ("All images of one patient must stay together.", "patient"),
        ("GroupKFold was best.", None),
        ("Use GroupKFold on patient_id so that no patient appears in both folds.", "patient_id"),
        ("Validate with GroupKFold(groups=site_id), not KFold.", "site_id"),
        ("Patients are not independent so use GroupKFold by patient.", "patient"),
    ],
)
def test_groups_are_read_in_the_words_of_programmers_and_of_people(
    encoder: Encoder, text: str, by: str | None
) -> None:
    read = split_read(read_text(f"20,000 rows of measurements. {text}", encoder).facts)
    assert read is not None
    assert (read.split, read.by) == ("group", by)


@pytest.mark.parametrize(
    "text",
    [
        "The labels of the final test set stay hidden at all times, during and after the contest.",
        "Each file holds ten minutes of ten different sensors.",
        "Predict two target properties of each material.",
    ],
)
def test_other_sentences_with_such_words_tell_no_split_and_no_groups(encoder: Encoder, text: str) -> None:
    facts = read_text(f"Train has 900 samples. {text}", encoder).facts
    assert (facts.split, facts.group_by, facts.n_groups) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("The split is random, not by pig.", "random"),
        ("GroupKFold on pig_id is not needed.", None),
        ("There is no reason to use GroupKFold.", None),
        ("We did not validate with GroupKFold by pig.", None),
        ("It was not split by time.", None),
        ("No unseen pigs occur in the test set.", None),
        ("Each pig was photographed once, so there is no need to keep pigs together.", None),
    ],
)
def test_what_a_text_denies_is_not_its_split(encoder: Encoder, text: str, split: str | None) -> None:
    assert read_text(f"Tell the breed of a pig by its photo. {text}", encoder).facts.split == split
