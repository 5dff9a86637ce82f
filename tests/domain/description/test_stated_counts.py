"""Does each count go to the set that it is said of, and do other numbers go to none?"""

from __future__ import annotations

import pytest

from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.stated_facts import stated_in


@pytest.mark.parametrize(
    ("text", "train", "test"),
    [
        ("The training set contains 891 rows and the test set contains 418 rows.", 891, 418),
        ("training set of 4750 images and a test set of 794 images", 4750, 794),
        ("a test set of 794 images and a training set of 4750 images", 4750, 794),
        ("training set of 1,000 documents and a test set of 500", 1000, 500),
        ("train set has 1460 houses and the test set 1459", 1460, 1459),
        ("The training data holds 812 patients and the test data 203 patients.", 812, 203),
        ("train.csv has 880 rows and 15 columns, test.csv has 220 rows and 14 columns", 880, 220),
        ("It is split into a training set (41,000 samples) and a test set (9,000 samples).", 41000, 9000),
        ("The train split consists of 5,000 clips while the test split consists of 1,200 clips.", 5000, 1200),
        ("The training set, with 7,500 homes, is bigger than the test set, with 2,500 homes.", 7500, 2500),
        ("trained on 11,000 questions and evaluated on a test set of 2,750 questions", 11000, 2750),
        ("3,200 training images, a validation set of 400 images and a test set of 800 images", 3200, 800),
        ("We provide 7,200 photos for training and 1,800 photos for testing.", 7200, 1800),
        ("For training we provide 7,200 photos, for testing 1,800.", 7200, 1800),
        ("Trained on 9,000 card payments, tested on 2,000 payments.", 9000, 2000),
        ("14,200 are in the training set and 3,550 in the test set", 14200, 3550),
        ("640 patients are used for training, 160 patients are used for testing", 640, 160),
        ("8600 training images and 2150 testing images of birds", 8600, 2150),
        ("18000 train / 4500 test images", 18000, 4500),
        ("Training set: 8600 images. Test set: 2150 images.", 8600, 2150),
        ("The 5,600 cells of the training set come from 30 mice.", 5600, None),
        ("The test set includes 700 leaf images.", None, 700),
        ("up to 50 labeled images per class, 200 classes", None, None),
        ("50 images per patient, 200 classes", None, None),
    ],
)  # fmt: skip
def test_a_count_is_of_the_set_named_before_it_or_right_behind_it(
    text: str, train: int | None, test: int | None
) -> None:
    stated = stated_in(text)
    assert (stated.get("n_train", (None,))[0], stated.get("n_test", (None,))[0]) == (train, test)


@pytest.mark.parametrize(
    ("text", "train", "test"),
    [
        ("3662 retina images in training, 1928 test images", 3662, 1928),
        ("training set of 2000 images and a test set of 1984 images", 2000, 1984),
        ("2000 images, taken in 2019, of 12 species, at 512x512", 2000, None),
        ("In 2019 images of 12 species were collected, at 512x512.", None, None),
        ("The 2019 photos show 12 species. Entry closes on 14 October 2019 - Entry is free.", None, None),
        ("images of about 960 unique plants, a training set of 4750 and a test set of 794", 4750, 794),
        ("For 4209 cars the testing time in seconds is given.", 4209, None),
    ],
)  # fmt: skip
def test_years_sizes_species_and_plants_are_not_samples(
    text: str, train: int | None, test: int | None
) -> None:
    stated = stated_in(text)
    assert (stated.get("n_train", (None,))[0], stated.get("n_test", (None,))[0]) == (train, test)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Wir haben 1,2 Mio. Fotos von Moos.", {"n_train": 1_200_000}),
        ("Tenemos dos mil fotos de los puentes, tres clases.", {"n_train": 2_000, "n_classes": 3}),
        ("Abbiamo 41.188 recensioni di alberghi e cinque classi.", {"n_train": 41_188, "n_classes": 5}),
        ("Nous avons 3 600 annonces.", {"n_train": 3_600}),
        ("桥梁照片共12万张，分为6类。", {"n_train": 120_000, "n_classes": 6}),
        ("हमारे पास 2 लाख समीक्षाएँ हैं।", {"n_train": 200_000}),
        ("São 1.842 recortes para treino e 460 para teste.", {"n_train": 1842, "n_test": 460}),
        ("録音のクリップが5,400本あります。", {"n_train": 5_400}),
    ],
)
def test_counts_of_other_languages_are_read_as_they_write_them(text: str, facts: dict[str, int]) -> None:
    stated = stated_in(in_english(text, language_of(text)))
    assert {name: stated.get(name, (None,))[0] for name in facts} == facts


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("800 photos for training. 20% of the rooms are dark.", {"n_train": 800, "n_test": None}),
        ("9,000 images carry boxes. 7,000 of the images are for training.", {"n_train": 7000}),
        ("90,000 firms. 4,700 firms carry a label.", {"n_train": 4700}),
        ("12,000 films of 900 people. The hidden set has 300 films of 90 people not seen in training.",
         {"n_train": 12_000, "n_test": 300}),
        ("Ten folds are supplied; fold 10 is the test. 4,000 hymns.", {"n_test": None}),
        ("90 hours of recordings by 300 speakers.", {"n_train": None}),
        ("Find nests. One class only.", {"n_classes": 1}),
        ("8k pairs marked by hand match / no match.", {"n_classes": 2}),
        ("Hares vs rabbits vs pikas, 4,000 photos.", {"n_classes": 3}),
        ("Say whether there is a crack, a hole, a dent.", {"n_classes": None}),
    ],
)  # fmt: skip
def test_a_part_of_the_samples_is_told_from_all_of_them(text: str, facts: dict[str, int | None]) -> None:
    stated = stated_in(text)
    assert {name: stated.get(name, (None,))[0] for name in facts} == facts


def test_several_columns_of_a_customer_make_no_group() -> None:
    told = "Rows have several {} per customer. 10,000 customers, churn yes or no."
    assert "split" not in stated_in(told.format("features"))
    assert stated_in(told.format("orders"))["split"][0] == "group"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("45 numeric and 12 categorical columns", 57),
        ("45 numeric columns, 12 categorical columns and 3 date columns", 60),
        ("ten numerical and four nominal features", 14),
        ("200 features, among them 150 numeric and 10 categorical features", 200),
        ("20 columns, 12 of them categorical", 20),
    ],
)
def test_columns_of_all_types_are_counted_together(text: str, columns: int) -> None:
    assert stated_in(f"train.csv has 9,000 rows: {text}.")["n_features"][0] == columns


@pytest.mark.parametrize(
    ("text", "hours", "seconds"),
    [
        ("Transcribe 100 hours of children's speech.", 100, None),
        ("1,200 hours of Common Voice, MP3.", 1200, None),
        ("Frogs in 10-second clips, 50 hours in all.", 50, 10),
        ("Clips are about 5 seconds long; three thousand hours of radio.", 3000, 5),
        ("20 hours of talks are labelled, 960 hours of radio are not.", None, None),
        ("Recordings of 24 hours each.", None, None),
        ("Bird calls; only two hours of CPU time.", None, None),
    ],
)  # fmt: skip
def test_hours_of_sound_are_told_in_all(text: str, hours: float | None, seconds: float | None) -> None:
    stated = stated_in(text)
    assert stated.get("audio_hours", (None,))[0] == hours
    assert stated.get("clip_seconds", (None,))[0] == seconds
