"""Is what must stay on one side of a split read, whatever the unit is called?"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from memory_service.domain.description import stated_split
from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.stated_facts import stated_in


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
        ("Folds are made at the level of the lagoon.", "lagoon"),
        ("None of the looms among the queries occurs here.", "loom"),
        ("Kilns were never divided between both parts: train and test.", "kiln"),
        ("We assigned whole orchards to train or test.", "orchard"),
        ("9 windows a goat; leave-goats-out CV.", "goat"),
        ("Photos derselben Glocke bitte nicht auf Training und Validierung verteilen.", "glocke"),
        ("Las fotos de un mismo puente no deben repartirse entre entrenamiento y validación.", "puente"),
        ("同一座桥的照片不会同时出现在训练集和测试集中。", "座桥"),
        ("The photos that are scored come from lighthouses we never visited.", "lighthouse"),
        ("The essays that count are by poets who wrote none of the training ones.", "poet"),
        ("Test it on boats that the model hasn't seen.", "boat"),
        ("The test nets (60) are disjoint from the 240 training nets.", "net"),
        ("25 whole wells were set aside to become test.csv.", "well"),
        ("The signals of the remaining three kilns are the test.", "kiln"),
        ("The hidden test holds other barges.", "barge"),
        ("Eleven mines train; the hidden samples are from the other five mines.", "mine"),
        ("测试集中的桥梁均未在训练集中出现。", "桥梁"),
        ("Use a patient-level split.", "patient"),
        ("Each seller lists many bicycles; sellers in test are new (seller_id).", "seller"),
        ("student_id tells who plays, and students in the test set do not occur in training.", "student"),
        ("We report speaker-independent cross-validation.", "speaker"),
        ("Please make subject-wise folds.", "subject"),
        ("Validate with kiln-disjoint folds.", "kiln"),
        ("Old pictures come back, so split by seller please.", "seller"),
        ("Split by orchard.", "orchard"),
        ("The vats are split by vineyard into train and test.", "vineyard"),
        ("The test set contains different drivers.", "driver"),
        ("Train and test contain different drivers.", "driver"),
        ("Hidden series belong to other participants.", "participant"),
        ("Patients absent from the training data form the test.", "patient"),
        ("other drivers are in the test", "driver"),
        ("Is it empty within the next hour? The docks of the test are other ones.", "dock"),
        ("Forecast the next day; all test greenhouses are different ones.", "greenhouse"),
        ("patient_id: who it is. Several images per patient.", "patient"),
        ("session_id: the session. Rows of one session are in order.", "session"),
        ("breath_id: the breath. 80 rows per breath.", "breath"),
        ("Windows cut from the same dive must stay together.", "dive"),
        ("Notes by the same notary look alike, keep them apart.", "notary"),
        ("Monasteries don't overlap.", "monastery"),
        ("Score is R2 on buoys that were not trained on.", "buoy"),
        ("300 of these are the test and come from a quay that's not in the rest.", "quay"),
        ("It must hold on a third glacier.", "glacier"),
        ("The hidden 400 clips show other dancers.", "dancer"),
        ("12k rows, scaffold split 80/10/10.", "scaffold"),
        ("Quiero que la métrica MAE se mida en puentes nuevos.", "puente"),
    ],
)
def test_the_unit_that_is_kept_together_is_read(text: str, unit: str) -> None:
    stated = stated_in(in_english(text, language_of(text)))
    assert (stated["split"][0], stated["group_by"][0]) == ("group", unit)


@pytest.mark.parametrize(
    "text",
    [
        "Orientation carries no meaning, so mirrored photos help in training and validation.",
        "No two predicted masks of one image may overlap. Train and test are alike.",
        "No split times are recorded; predict the finish time.",
        "A feature is shared by both models. Test rows look like train rows.",
        "Each photo shows one leaf. Both the train and the test folder have photos.",
        "Images are scored by experts who never saw the patients. Train has 900.",
        "We train on 4,000 songs and test on the remaining 1,000 songs.",
        "The model is evaluated on three different scales.",
        "The remaining 400 photos are the test. No caption is given.",
        "The test photographs are of the last 3 months; nothing from these months is in train.",
        "Fields are split by comma.",
        "Molecules with up to nine atoms; the MAE decides.",
        "From each ferry one photo was kept, so there's no ferry overlap to think about.",
        "The training set has the same pages without the noise (train_clean).",
        "Test fields are split by comma.",
        "long documents were split by page",
        "Text is split by whitespace.",
        "The data is split by country into folders.",
        "The training data are split by region into folders.",
        "We train with pixel-wise cross-entropy and a class-wise split of labels.",
        "Some stations are missing from the training data.",
        "Each test image contains different animals.",
        "case_id: row number. One row per case.",
        "session_id: unique per row. One purchase per session.",
        "trip_id: the row. Predict the number of purchases per trip.",
        "study_id: the row.\nThe data were published in a study of 2019.",
        "study_id: the row.\nImages from a study of 2019.",
        "case_id: the row.\nJust in a case of doubt, ask.",
    ],
)
def test_other_sentences_with_the_same_words_keep_nothing_apart(text: str) -> None:
    assert stated_in(text).get("split", ("",))[0] != "group"


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("The hidden letters, a tenth, were chosen by lot.", "random"),
        ("We put all rows in one heap, shuffled them and cut off the last third as test.", "random"),
        ("A shuffled quarter is kept for the end.", "random"),
        ("Which photo went where was decided by a random number.", "random"),
        ("As fotografias foram divididas ao acaso, 70% para treino e 30% para teste.", "random"),
        ("テストは全体から無作為に抽出した。", "random"),
        ("Learn from sales up to last autumn; we are scored on those of next winter.", "time"),
        ("train.csv: May 2014 to June 2018. Test.csv has the same columns. These are all of 2019.", "time"),
        ("train.csv: 2020년 1월부터 2022년 5월까지\ntest.csv: 2022년 6월", "time"),
        ("train.csv: 2022年5月之前\ntest.csv: 2022年5月之后", None),
    ],
)
def test_splits_at_random_and_by_time_are_read_in_other_words(text: str, split: str | None) -> None:
    stated = stated_in(in_english(text, language_of(text)))
    assert stated.get("split", (None,))[0] == split


def test_of_many_columns_of_ids_a_few_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_for: list[str] = []

    def search(pattern: str, *of: Any) -> re.Match[str] | None:
        looked_for.append(pattern)
        return re.search(pattern, *of)

    names = [f"({a}{b}{c}_id" for a in "abcdefgh" for b in "klmnopqr" for c in "stuvwxyz"]
    monkeypatch.setattr(stated_split, "re", SimpleNamespace(search=search, IGNORECASE=re.IGNORECASE))
    assert not stated_split.repeated_in(" ".join(names))
    assert 1 <= len(looked_for) <= 10
    named = stated_split.repeated_in("(trip_id), (cow_id): several photos per cow. " + " ".join(names))
    assert named["group_by"][0] == "cow"
