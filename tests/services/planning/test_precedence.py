"""Facts by precedence: asked, the record of the competition, the text, a usual value."""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.request import Question
from memory_service.domain.recipe.notes import Note
from memory_service.errors import InvalidInput
from memory_service.schemas.recommend import plan_request
from memory_service.services.planning.memory import split_fact
from memory_service.services.planning.planning_problem import case_of
from memory_service.services.planning.request_text import RequestText
from tests.planning import seed_knowledge
from tests.reading import counts_alone

MELANOMA = "siim-isic-melanoma-classification"
LESIONS = "Photos of moles. The training set has 100 images. Metric: area under the ROC curve."


def case(text: str, described: str | None = None, **asked: Any) -> PlanningProblem:
    said = counts_alone(text)
    question = plan_request({"gpu": "a100", "minutes": 240, "description": text, **asked})
    return case_of(seed_knowledge(), question, RequestText(said, said, described))


def fact(problem: PlanningProblem, name: str) -> tuple[Any, str]:
    return next((each.value, each.source) for each in problem.facts if each.name == name)


@pytest.mark.parametrize("how", [{"competition": MELANOMA}, {"described": MELANOMA}])
def test_a_text_never_overrules_a_record_and_the_contradiction_is_the_first_warning(
    how: dict[str, str],
) -> None:
    problem = case(LESIONS, **how)
    assert fact(problem, "n_train") == (33_126, "record")
    assert problem.warnings[0].startswith("n_train 100 (from the description) is not what the record of")
    assert "the record counts" in problem.warnings[0]


def test_what_was_asked_overrules_the_record_and_says_so() -> None:
    problem = case(LESIONS, competition=MELANOMA, n_train=500)
    assert fact(problem, "n_train") == (500, "asked")
    assert problem.warnings[0].endswith("500 counts.")


def test_a_number_of_other_groups_than_those_asked_for_is_left_out() -> None:
    text = "Is the mole malignant, yes or no? 2,000 photos from 80 hospitals, new hospitals in the test."
    assert fact(case(text, group_by="hospital"), "n_groups") == (80, "text")
    of_patients = case(text, group_by="patient")
    assert "n_groups" not in {each.name for each in of_patients.facts}


def test_another_mode_reads_no_record_but_the_text_and_what_is_usual() -> None:
    problem = case(LESIONS, competition=MELANOMA, mode="family")
    assert fact(problem, "n_train") == (100, "text")
    untold = case("Photos of moles: which are malignant?", task="image-classification")
    assert fact(untold, "n_train")[1] == "usual"
    assert any("training samples assumed" in sentence for sentence in untold.inferred)


def test_hours_of_sound_are_counted_in_clips_and_mean_nothing_of_pictures() -> None:
    text = "Transcribe 100 hours of children's speech. Word error rate."
    assert fact(case(text), "n_train") == (36_000, "text")
    assert fact(case(text), "audio_hours") == (100, "text")
    assert fact(case(text + " Clips of 5 seconds."), "n_train") == (72_000, "text")
    assert fact(case(text, audio_hours=10, seq_len=500), "n_train") == (7_200, "asked")
    assert fact(case(text, n_train=900), "n_train") == (900, "asked")
    assert "36000 training samples: 100 hours of sound in clips of 10 s, as is usual." in case(text).inferred
    with pytest.raises(InvalidInput, match="audio_hours"):
        case(LESIONS, task="image-classification", audio_hours=3)


def test_the_split_of_a_record_gets_the_column_that_its_notes_name() -> None:
    record = {"slug": "moles", "split": "group", "group_by": None}
    note = Note("p1", "Split by patient.", split="group", by="patient_id")
    found = split_fact(Question(gpus=("t4",)), None, record, [note])
    assert found is not None
    assert (found.split, found.by, found.firm, found.source) == ("group", "patient_id", True, ("moles", "p1"))
    bare = split_fact(Question(gpus=("t4",)), None, {**record, "group_by": "all tests are of one enzyme"}, [])
    assert bare is not None
    assert (bare.by, bare.firm) == (None, False)


def test_masks_of_volumes_are_planned_in_three_dimensions_and_slices_as_pictures() -> None:
    text = "Segment the aorta, voxel by voxel: 50 annotated CT volumes (NIfTI) for training. Metric: Dice."
    assert case(text, task="image-segmentation").volumes
    assert not case(text + " Slices are given as PNG images.", task="image-segmentation").volumes
    assert not case(text, task="image-segmentation", image_size=256).volumes
