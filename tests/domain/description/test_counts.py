"""A number of samples belongs to the set that is named beside it, before or behind."""

from __future__ import annotations

import pytest

from memory_service.domain.description.stated_facts import stated_in

PLANTS = (
    "A dataset of images of approximately 960 unique plants belonging to 12 species. You are given a "
    "training set of 4750 images and a test set of 794 images."
)


@pytest.mark.parametrize(
    ("text", "train", "test"),
    [
        ("The training set contains 891 rows and the test set contains 418 rows.", 891, 418),
        ("a test set of 794 images and a training set of 4750 images", 4750, 794),
        ("training set of 1,000 documents and a test set of 500", 1000, 500),
        ("train set with 10,000 images and test set with 2,000", 10_000, 2_000),
        ("train set has 1460 houses and the test set 1459", 1460, 1459),
        (PLANTS, 4750, 794),
        ("3662 retina images in training, 1928 test images", 3662, 1928),
        ("The data: 12,000 clips for training; 3,000 clips for testing.", 12_000, 3_000),
        ("The train folder holds 25,000 pictures while the test folder holds 12,500.", 25_000, 12_500),
        ("train (3,000 images) and test (1,000 images)", 3_000, 1_000),
        ("Fine-tune a model on 4,000 essays to score them; 1,000 essays in the test.", 4_000, 1_000),
        ("Train on 20,000 reviews to predict the stars of 5,000 test reviews.", 20_000, 5_000),
        ("After learning from 900 scans there are 300 scans to score.", 900, 300),
        ("In 2019 images of cows were taken: 6,000 for training, 1,500 for the test", 6_000, 1_500),
    ],
)
def test_a_number_belongs_to_the_set_beside_it(text: str, train: int, test: int) -> None:
    stated = stated_in(text)
    assert (stated["n_train"][0], stated["n_test"][0]) == (train, test)
