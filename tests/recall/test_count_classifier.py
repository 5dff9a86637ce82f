"""Are numbers of samples and of classes told where they are sure, and left untold where not?"""

import pytest

from memory_service.domain.description.known_facts import Sources
from memory_service.recall.count_classifier import (
    ROLES,
    TELLS,
    Odds,
    candidates_of,
    count_classifier,
    told,
)
from memory_service.services.competitions.signals import read_text
from tests.reading import counts_alone


@pytest.mark.parametrize(
    ("text", "train", "test"),
    [
        ("9,000 rows; a third is held back as test.", 6000, 3000),
        ("6 species of moss, 250 photos of each species.", 1500, None),
        ("train.csv 8,120 rows, test.csv 91,400 rows, five kinds of soil.", 8120, 91_400),
        ("Unos 85 mil correos en 27 categorías.", 85_000, None),
        ("This dataset includes 5671 requests collected from [Reddit](http://www.reddit.com/r/30194).", 5671,
         None),
        ("8600 training images and 2150 testing images of birds", 8600, 2150),
        ("5,000 photos of dogs, split 80/10/10.", 4000, 500),
        ("Hives: 70 hours of sound, a quarter of them marked.", None, None),
    ],
)  # fmt: skip
def test_counts_are_told_with_what_is_held_back_and_what_is_of_each(
    text: str, train: int | None, test: int | None
) -> None:
    facts = read_text(text, None).facts
    assert (facts.n_train, facts.n_test) == (train, test)


@pytest.mark.parametrize(
    ("text", "task", "classes"),
    [
        ("Sort 4,000 photos of bolts into good, rusty or bent. Accuracy.", "image", 3),
        ("Which of nine moods has each of the 6,000 songs? Macro F1.", "audio", 9),
        ("12,000 letters with a topic, 60 topics in all, macro F1.", "text", 60),
        ("Grade 3,000 photos of eyes from 0 to 4, quadratic weighted kappa.", "image", 5),
        ("2,000 photos. Which disease?\n- rust\n- mildew\n- blight\n- healthy\nAccuracy.", "image", 4),
        ("Will a customer leave within a month, yes or no? 20,000 rows, 30 columns. AUC.", "tabular", 2),
    ],
)
def test_classes_are_read_of_numbers_lists_ranges_and_questions(text: str, task: str, classes: int) -> None:
    found = count_classifier().odds(candidates_of(text, f"{task}-classification"))[ROLES.index("n_classes")]
    assert max(found, key=lambda value: found[value][0]) == classes


@pytest.mark.parametrize("task", ["tabular-regression", "image-keypoints", "text-ranking"])
def test_a_task_without_classes_has_none(task: str) -> None:
    text = "900 photos of sheep of 8 breeds, in three classes: good, fair, bad."
    found = count_classifier().odds(candidates_of(text, task))[ROLES.index("n_classes")]
    assert not any(probability for probability, _ in found.values())


PLANTS = (
    "A dataset of images of approximately 960 unique plants belonging to 12 species. You are given a "
    "training set of 4750 images and a test set of 794 images."
)
CASES: list[tuple[str, dict[str, int | None]]] = [
    ("7349 pictures", {"n_train": 7349}),
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
    ("The mill grinds 3 million grains a day. 800 labelled grains.", {"n_train": 800}),
    (
        "x_train.npy has shape (7040, 96, 5), x_test.npy shape (1760, 96, 5).",
        {"n_train": 7040, "n_test": 1760},
    ),
    ("Label 5,200 clips as one of 12 crops.", {"n_train": 5200}),
    ("Say whether the hen is laying, brooding, eating or asleep.", {"n_classes": 4}),
    ("Decide who rang: left, right or nobody.", {"n_classes": 3}),
    ("Give the grade: 0 (new), 1 (worn), 2 (broken). 900 photos.", {"n_classes": 3}),
    ("Tell four layers: bark, bast, wood, pith. 900 photos.", {"n_classes": 4}),
    ("12k clips -> calm / nervous / gone", {"n_train": 12000, "n_classes": 3}),
    ("Rate pets' charm (0-3); quadratic weighted kappa.", {"n_classes": 4}),
    ("5k labelled clips, 2k to classify", {"n_train": 5000, "n_test": 2000}),
    ("165 thousand labelled and 110 thousand test customers", {"n_train": 165_000, "n_test": 110_000}),
    ("Grades 0 to 4", {"n_classes": 5}),
    ("3,422 photos with 147,000 classes", {"n_train": 3422, "n_classes": None}),
    (
        "The training set contains 891 rows and the test set contains 418 rows.",
        {"n_train": 891, "n_test": 418},
    ),
    ("a test set of 794 images and a training set of 4750 images", {"n_train": 4750, "n_test": 794}),
    ("training set of 1,000 documents and a test set of 500", {"n_train": 1000, "n_test": 500}),
    ("train set with 10,000 images and test set with 2,000", {"n_train": 10000, "n_test": 2000}),
    ("train set has 1460 houses and the test set 1459", {"n_train": 1460, "n_test": 1459}),
    (PLANTS, {"n_train": 4750, "n_test": 794}),
    ("3662 retina images in training, 1928 test images", {"n_train": 3662, "n_test": 1928}),
    ("The data: 12,000 clips for training; 3,000 clips for testing.", {"n_train": 12000, "n_test": 3000}),
    (
        "The train folder holds 25,000 pictures while the test folder holds 12,500.",
        {"n_train": 25000, "n_test": 12500},
    ),
    ("train (3,000 images) and test (1,000 images)", {"n_train": 3000, "n_test": 1000}),
    (
        "Fine-tune a model on 4,000 essays to score them; 1,000 essays in the test.",
        {"n_train": 4000, "n_test": 1000},
    ),
    (
        "Train on 20,000 reviews to predict the stars of 5,000 test reviews.",
        {"n_train": 20000, "n_test": 5000},
    ),
    ("After learning from 900 scans there are 300 scans to score.", {"n_train": 900, "n_test": 300}),
    (
        "In 2019 images of cows were taken: 6,000 for training, 1,500 for the test",
        {"n_train": 6000, "n_test": 1500},
    ),
    ("training set of 4750 images and a test set of 794 images", {"n_train": 4750, "n_test": 794}),
    ("The training data holds 812 patients and the test data 203 patients.", {"n_train": 812, "n_test": 203}),
    (
        "train.csv has 880 rows and 15 columns, test.csv has 220 rows and 14 columns",
        {"n_train": 880, "n_test": 220},
    ),
    (
        "It is split into a training set (41,000 samples) and a test set (9,000 samples).",
        {"n_train": 41000, "n_test": 9000},
    ),
    (
        "The train split consists of 5,000 clips while the test split consists of 1,200 clips.",
        {"n_train": 5000, "n_test": 1200},
    ),
    (
        "The training set, with 7,500 homes, is bigger than the test set, with 2,500 homes.",
        {"n_train": 7500, "n_test": 2500},
    ),
    (
        "trained on 11,000 questions and evaluated on a test set of 2,750 questions",
        {"n_train": 11000, "n_test": 2750},
    ),
    (
        "3,200 training images, a validation set of 400 images and a test set of 800 images",
        {"n_train": 3200, "n_test": 800},
    ),
    ("We provide 7,200 photos for training and 1,800 photos for testing.", {"n_train": 7200, "n_test": 1800}),
    ("For training we provide 7,200 photos, for testing 1,800.", {"n_train": 7200, "n_test": 1800}),
    ("Trained on 9,000 card payments, tested on 2,000 payments.", {"n_train": 9000, "n_test": 2000}),
    ("14,200 are in the training set and 3,550 in the test set", {"n_train": 14200, "n_test": 3550}),
    (
        "640 patients are used for training, 160 patients are used for testing",
        {"n_train": 640, "n_test": 160},
    ),
    ("8600 training images and 2150 testing images of birds", {"n_train": 8600, "n_test": 2150}),
    ("18000 train / 4500 test images", {"n_train": 18000, "n_test": 4500}),
    ("Training set: 8600 images. Test set: 2150 images.", {"n_train": 8600, "n_test": 2150}),
    ("The 5,600 cells of the training set come from 30 mice.", {"n_train": 5600, "n_test": None}),
    ("The test set includes 700 leaf images.", {"n_train": None, "n_test": 700}),
    ("50 images per patient, 200 classes", {"n_train": None, "n_test": None}),
    ("training set of 2000 images and a test set of 1984 images", {"n_train": 2000, "n_test": 1984}),
    ("2000 images, taken in 2019, of 12 species, at 512x512", {"n_train": 2000, "n_test": None}),
    ("In 2019 images of 12 species were collected, at 512x512.", {"n_train": None, "n_test": None}),
    (
        "The 2019 photos show 12 species. Entry closes on 14 October 2019 - Entry is free.",
        {"n_train": None, "n_test": None},
    ),
    (
        "images of about 960 unique plants, a training set of 4750 and a test set of 794",
        {"n_train": 4750, "n_test": 794},
    ),
    ("For 4209 cars the testing time in seconds is given.", {"n_train": 4209, "n_test": None}),
    ("Wir haben 1,2 Mio. Fotos von Moos.", {"n_train": 1200000}),
    ("Tenemos dos mil fotos de los puentes, tres clases.", {"n_train": 2000, "n_classes": 3}),
    ("Abbiamo 41.188 recensioni di alberghi e cinque classi.", {"n_train": 41188, "n_classes": 5}),
    ("Nous avons 3 600 annonces.", {"n_train": 3600}),
    ("桥梁照片共12万张，分为6类。", {"n_train": 120000, "n_classes": 6}),
    ("हमारे पास 2 लाख समीक्षाएँ हैं।", {"n_train": 200000}),
    ("São 1.842 recortes para treino e 460 para teste.", {"n_train": 1842, "n_test": 460}),
    ("録音のクリップが5,400本あります。", {"n_train": 5400}),
    ("800 photos for training. 20% of the rooms are dark.", {"n_train": 800, "n_test": None}),
    ("9,000 images carry boxes. 7,000 of the images are for training.", {"n_train": 7000}),
    ("90,000 firms. 4,700 firms carry a label.", {"n_train": 4700}),
    (
        "12,000 films of 900 people. The hidden set has 300 films of 90 people not seen in training.",
        {"n_train": 12000, "n_test": 300},
    ),
    ("Ten folds are supplied; fold 10 is the test. 4,000 hymns.", {"n_test": None}),
    ("90 hours of recordings by 300 speakers.", {"n_train": None}),
    ("Find nests. One class only.", {"n_classes": 1}),
    ("8k pairs marked by hand match / no match.", {"n_classes": 2}),
    ("Hares vs rabbits vs pikas, 4,000 photos.", {"n_classes": 3}),
    ("Chat pairs: 7,400 pairs, we set aside 300 pairs.", {"n_train": 7400, "n_test": 300}),
    ("9,100 scans; 700 scans are kept back.", {"n_train": 8400, "n_test": 700}),
    ("Breeds such as beagle, chow, dhole and so on are to be told apart.", {"n_classes": None}),
    ("対話のペアが7,400組、うち300組は評価用です。", {"n_train": 7100, "n_test": 300}),
    ("20 clips per singer, 30 tunes.", {"n_train": None}),
    ("Da 300 a 500 segmenti per classe, con i guasti da dire.", {"n_train": None}),
    ("Water per pixel from 9 000 tiles of 256×256 out of 11 villages.", {"n_classes": None}),
    ("18 homes wrote down what ran, 240 cycles altogether.", {"n_train": None}),
    ("We matched 1,900 questions to their paragraph.", {"n_test": None}),
    ("a_train.csv has 600 lines. a_test.csv has 200 lines. p.tar has all 800 photos.", {"n_test": 200}),
    ("7,000 games: 2.1 million ratings for training.", {"n_train": 2100000}),
    ("एक परीक्षण: 900 वाक्यों का टेस्ट सेट।", {"n_train": None, "n_test": 900}),
    ("There are 17,500 training images and 4,000 test images.", {"n_train": 17500}),
    ("The training set contains about 25,000 labelled photos.", {"n_train": 25000}),
    ("1.6 million training samples", {"n_train": 1600000}),
    ("The test set has 4,000 images.", {"n_train": None}),
    ("You have 30 minutes and 5 submissions a day.", {"n_train": None}),
    ("one of 120 breeds", {"n_classes": 120}),
    ("more than 32,000 species", {"n_classes": 32000}),
    ("a binary target", {"n_classes": 2}),
    ("five classes", {"n_classes": 5}),
    ("28 labels in 4 categories", {"n_classes": None}),
    ("12 clean pages", {"n_classes": None}),
]


@pytest.mark.parametrize(("text", "counts"), CASES)
def test_a_number_is_told_as_it_is_or_not_at_all(text: str, counts: dict[str, int | None]) -> None:
    facts = counts_alone(text)
    assert all(getattr(facts, name) in (value, None) for name, value in counts.items())


def test_a_table_of_many_rows_is_no_share_of_them() -> None:
    """ "a table of 15,000" was read as one of fifteen."""
    facts = counts_alone("Predict the price of used tractors from a table of 15,000 rows. MAE decides.")
    assert facts.n_train == 15_000


def test_most_numbers_that_a_text_states_are_told() -> None:
    stated = [(text, name, value) for text, counts in CASES for name, value in counts.items() if value]
    right = [getattr(counts_alone(text), name) == value for text, name, value in stated]
    assert sum(right) >= 0.85 * len(right)


def test_numbers_that_contradict_each_other_are_named() -> None:
    facts = counts_alone("Training set: 500 images. Name the dog. Our training set has 1,000 images.")
    assert set(facts.rivals["n_train"]) == {500, 1000}
    fact = Sources(said=facts).fact("n_train", 3000)
    assert fact is not None
    assert [each.code for each in fact.warnings] == ["counts-compete"]
    assert not counts_alone("8600 training images and 2150 testing images of birds").rivals


def test_an_unsure_number_is_not_told() -> None:
    sure: Odds = {900: (TELLS["n_train"], "900 photos"), 30: (0.1, "30 birds")}
    assert told(sure, TELLS["n_train"]) == (900, "900 photos")
    assert told({900: (TELLS["n_train"] - 0.01, "900 photos")}, TELLS["n_train"]) == (None, "")
    assert told({}, TELLS["n_train"]) == (None, "")


def test_probabilities_of_a_role_and_of_none_sum_to_one() -> None:
    text = "12,000 photos, 20 % of them for test. 40 photos of each of 300 birds."
    candidates = candidates_of(text, "image-classification")
    for role, found in zip(ROLES, count_classifier().odds(candidates), strict=True):
        assert 0 < sum(probability for probability, _ in found.values()) < 1
        unfit = {each.value for each in candidates} - {each.value for each in candidates if each.serves(role)}
        assert all(found[value][0] == 0 for value in unfit)
