"""Pages as hosts publish them: what counts training samples, and what only looks as if it did."""

from __future__ import annotations

import pytest

from memory_service.domain.description.phrases import prose_of
from memory_service.domain.description.stated_facts import stated_in
from memory_service.domain.recipe.validation import unit_named
from tests.reading import counts_alone, read_alone

AROUND = """

## Timeline
- **August 10, 2020** - Entry deadline. You must accept the competition rules before this date.

All deadlines are at 11:59 PM UTC on the corresponding day unless otherwise noted. The organizers reserve the
right to update the contest timeline if they deem it necessary. You may submit five times a day and select two
final submissions. Teams of up to five people may join until a week before the end of the competition.

## Prizes
- 1st Place - \\$10,000
- 2nd Place - USD 6,000
- 3rd Place - 2,500.00 euros

## Citation
A. Host, B. Helper. (2020). Some Challenge. https://example.org/competitions/some-challenge-2020

# Dataset Description

"""


@pytest.mark.parametrize(
    "text",
    [
        "```\nid,wren,robin\n000771ce92,0.0083,0.0083\n```\nThe labelled photographs lie in train/.",
        "id,label\n58857ccf-23d2,1\n59100000,5",
        "![The clinic](https://example.org/files/20East%20Hospital%202349x%20900.jpg)\nPictures of moles.",
        "The clips are named by time, e.g. 20110618_041500_clip00231_0.aif.",
        "More than 1.2 billion people will live in the region in ten years.",
        "Breast cancer is the commonest cancer of women in 140 countries.",
        "Each file contains ten minutes of logs from ten different sensors.",
        "First place: $ 60,000. Second place: $ 25,000.",
        "The office holds more than 11 million patents.",
        "The goal is a mean absolute error below 20000.",
        "GOES-16 sees the Earth; images of COVID-19 patients; ImageNet-21k.",
        "The data has been split 80%/20% for training/test.",
        "The private test set has 13,000 images.",
        "Submissions are limited to 100 per day; the top 100 boxes count.",
        "<p>Our clinics treat 1,500 patients each year.</p><pre>id,target 900000,0.65</pre>",
    ],
)
@pytest.mark.parametrize("around", ["", AROUND])
def test_ids_dates_prizes_populations_and_sensors_count_no_training_samples(text: str, around: str) -> None:
    assert counts_alone(around + text).n_train is None


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("The training set contains 196,157 images from 138 different locations.", 196_157),
        ("- **train.csv** - Personal records for two-thirds (~8700) of the passengers, for training.", 8700),
        ("| Set | Images | Patients |\n|---|---|---|\n| train | 8,420 | 310 |\n| test | 3,610 | 120 |", 8420),
        ("|  | train | test |\n|---|---|---|\n| images | 8,420 | 3,610 |", 8420),
        ("<table><tr><th>Set</th><th>Images</th></tr><tr><td>train</td><td>8,420</td></tr></table>", 8420),
        ("High-quality data are provided for 3,000 materials.", 3000),
        ("The dataset comprises 1.05 M images of 15,501 vascular plants.", 1_050_000),
        ("Practice with 7,754 labelled clips; the validation data (3,362 labelled clips) follow.", 7754),
        ("This is version 2 of the data set containing 7,754 clips.", 7754),
        ("- width - (107 in train and test)\n\nThe 2160 coils in the training data.", 2160),
    ],
)
@pytest.mark.parametrize("around", ["", AROUND])
def test_a_count_with_its_noun_and_role_is_read_on_a_page_and_in_a_sentence(
    text: str, n: int, around: str
) -> None:
    assert counts_alone(around + text).n_train in (n, None)


def test_a_metric_that_is_the_text_of_a_link_is_read() -> None:
    link = "Submissions are evaluated on [area under the ROC curve](http://en.example.org/wiki/Receiver)."
    assert read_alone("Which photos show a beetle?\n\n## Evaluation\n" + link + AROUND).metric == "ROC AUC"


@pytest.mark.parametrize(
    ("words", "metric", "direction"),
    [
        ("pearsonr between prediction and measurement", "Pearson correlation", "max"),
        ("PR-AUC", "average precision", "max"),
        ("area under the precision-recall curve", "average precision", "max"),
        ("area under the ROC curve", "ROC AUC", "max"),
        ("negative log likelihood", "negative log likelihood", "min"),
    ],
)
def test_metrics_alike_in_name_are_kept_apart(words: str, metric: str, direction: str) -> None:
    facts = read_alone(f"Tabular data of 3,100 rows. Metric: {words}.")
    assert (facts.metric, facts.metric_direction) == (metric, direction)


def test_a_plain_text_stays_as_it_is_and_an_unclosed_fence_hides_nothing() -> None:
    plain = "7,349 pictures of dogs.\nSizes are 512x512; a < b and c > d."
    assert prose_of(plain) == plain
    assert prose_of("```\nThe train set has 500 rows.") == "The train set has 500 rows."


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("Group by patient_id.", "patient_id"),
        ("There are several images of a patient.", "patient"),
        ("Rows of the same customer must not be split.", "customer"),
        ("We validate by StratifiedGroupKFold on site_id.", "site_id"),
        ("All images of one patient must stay together.", "patient"),
        ("Several photos show the same plant on different days (plant_id in train.csv).", "plant"),
        ("GroupKFold was best.", None),
    ],
)
def test_groups_are_read_in_the_words_of_programmers_and_of_people(text: str, by: str | None) -> None:
    found = stated_in(f"20,000 rows of measurements. {text}")
    assert (found["split"][0], found.get("group_by", (None,))[0]) == ("group", by)


STORY = "Walls crack, and nobody looks. " * 20


@pytest.mark.parametrize(
    "text",
    [
        "The theme of next year's congress is the future of walls.",
        "Our firm earned two million last year and writes forecasts.",
        "Compared with last year's contest the training set has grown.",
        "For each test photo, give a probability for each of the different houses.",
        "Houses that are not predicted to carry a label of the training data count as new_house.",
        "The spots were chosen at random. All labels were read by a separate annotator.",
        "- train/ - the training files, each top-level folder is a house.",
        "- **[train/test]/[drive_name]/extra.txt** - Equivalent data in other formats.",
    ],
)
def test_the_story_the_answers_and_earlier_editions_of_a_page_tell_no_split(text: str) -> None:
    assert read_alone(STORY + AROUND + text).split is None


@pytest.mark.parametrize(
    ("text", "split", "by"),
    [
        ("- **[train/test]_scans/[patient_id]/[scan_id].png** - the scans.", "group", "patient"),
        ("train/<well_id>/<depth>.tif - slices", "group", "well"),
        ("- `patient_id` - who it is\n\nCompare the photos within the same patient.", "group", "patient"),
        ("- `breath_id` - of the breath\n\nEach line is a moment in a breath.", "group", "breath"),
        ("- `patient_id` - one patient has one photo", None, None),
        ("Some walls are split by time, the others are split by house.", "group", "house"),
        ("You get four days of training and three days of testing data.", "time", None),
        ("Forecast the loads of the following week.", "time", None),
    ],
)
def test_ids_folders_and_sets_of_a_page_tell_its_split(text: str, split: str | None, by: str | None) -> None:
    found = read_alone(STORY + AROUND + text)
    assert (found.split, found.group_by) == (split, by)


@pytest.mark.parametrize(
    "text",
    [
        "The labels of the final test set stay hidden at all times, during and after the contest.",
        "Each file holds ten minutes of ten different sensors.",
        "Predict two target properties of each material.",
        "They have been graded by two teachers so far.",
        "Outlines were drawn independently by up to 12 radiologists.",
    ],
)
def test_other_sentences_with_such_words_tell_no_split_and_no_groups(text: str) -> None:
    assert {"split", "group_by", "n_groups"}.isdisjoint(stated_in(f"Train has 900 samples. {text}"))


@pytest.mark.parametrize(
    ("by", "unit"),
    [
        ("patient_id", "patient_id"),
        ("hospital / patient", "hospital"),
        ("recording site (test is continuous soundscape)", "recording site"),
        ("the next 28 days of the same series", None),
        ("card holder (not given)", None),
        ("laboratory (HPA versus HuBMAP)", None),
        (None, None),
    ],
)
def test_groups_are_named_by_a_column_or_a_noun_never_by_a_sentence(by: str | None, unit: str | None) -> None:
    assert unit_named(by) == unit
