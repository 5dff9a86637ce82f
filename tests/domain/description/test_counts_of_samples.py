"""Are counts read as those of the samples, and classes as what samples are told apart by?"""

from __future__ import annotations

import pytest

from memory_service.domain.description.stated_facts import stated_in


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "Expression of 18,000 genes of 74 patients, responder or not.",
            {"n_train": 74, "n_features": 18000},
        ),
        ("table of 74 tumours x 18,000 genes; tell the three subtypes", {"n_train": 74, "n_features": 18000}),
        ("We took 700 shells of each of these 11 kinds.", {"n_train": 7700, "n_classes": 11}),
        ("Columns are categorical with up to 90,000 levels. Predict yes or no.", {"n_classes": 2}),
        ("Find some 400 buds in each of 150 aerial photos.", {"n_train": 150}),
        ("Tiles of 10 m per pixel: 2,100 tiles to train.", {"n_train": 2100}),
        (
            "We train on 30 pots (90 scans) and test on the remaining 8 pots (24 scans).",
            {"n_train": 90, "n_test": 24},
        ),
        (
            "The notes: 1,300 notes (training), 200 (development), 400 (test).",
            {"n_train": 1300, "n_test": 400},
        ),
        ("Decide who rang: left, right or nobody.", {"n_classes": 3}),
        ("Give the grade: 0 (new), 1 (worn), 2 (broken). 900 photos.", {"n_classes": 3}),
        ("Tell four layers: bark, bast, wood, pith. 900 photos.", {"n_classes": 4}),
        ("12k clips -> calm / nervous / gone", {"n_train": 12000, "n_classes": 3}),
        ("Rate pets' charm (0-3); quadratic weighted kappa.", {"n_classes": 4}),
    ],
)
def test_counts_and_classes_are_those_of_the_samples(text: str, facts: dict[str, int]) -> None:
    stated = stated_in(text)
    assert {name: stated.get(name, (None,))[0] for name in facts} == facts
