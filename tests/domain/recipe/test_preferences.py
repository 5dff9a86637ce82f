"""What does memory add to the quality index, and in what order do its voices count?"""

from __future__ import annotations

from itertools import pairwise
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.recipe.notes import Note
from memory_service.domain.recipe.preferences import (
    FAMILY_WEIGHT,
    FAR,
    FOLDS_NOTED,
    FOLDS_USUAL,
    LOST,
    MOST_FAMILY_POINTS,
    NO_PREFERENCES,
    SHARE_FLOOR,
    SHOWN_BY_RUNS,
    ModelPreference,
    Preferences,
    SizePreference,
    preferences_of,
)
from memory_service.domain.recipe.solution import targets_of
from tests.domain.recipe.solutions import solution


def preferred(**said: Any) -> Preferences:
    given_ = {
        "families": {}, "notes": [], "by_runs": {}, "usual": {},
        "own_size": {}, "folds": 5, **said,
    }  # fmt: skip
    return preferences_of(**given_)


def test_the_share_of_a_usual_winner_s_family_stands_at_nothing() -> None:
    said = preferred(families={"vit": 0.6, "swin": 0.3})
    usual = (0.6 * 0.6 + 0.3 * 0.3) / 0.9 + SHARE_FLOOR
    assert said.family_points(("vit",)) == pytest.approx(FAMILY_WEIGHT * log(0.62 / usual))
    assert said.family_points(("swin",)) == pytest.approx(FAMILY_WEIGHT * log(0.32 / usual))
    assert said.family_points(("vit", "swin")) == said.family_points(("vit",)), "the more used counts"
    assert NO_PREFERENCES.family_points(("vit",)) == 0.0


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), min_size=1))
def test_a_family_with_a_larger_share_never_has_fewer_points(shares: dict[str, float]) -> None:
    said = Preferences(families=shares)
    points = [said.family_points((name,)) for name in sorted(shares, key=lambda name: shares[name])]
    assert all(low <= high for low, high in pairwise(points))
    assert all(abs(each) <= MOST_FAMILY_POINTS == 1.0 for each in (*points, said.family_points(("new",))))


SIZES = np.array([64, 128, 224, 256, 384, 512, 1024])


def test_sizes_within_half_a_doubling_are_alike_and_others_cost_more_the_further_they_are() -> None:
    points = Preferences(image_size=SizePreference(256, None, "")).size_points("image_size", SIZES)
    assert points[2] == points[3] == 0.0
    assert points[5] < points[1] < 0.0, "the quality index gives a doubling points of its own"
    assert (np.diff(points[:4]) >= 0).all()
    assert (np.diff(points[3:]) <= 0).all()
    assert (Preferences().size_points("image_size", SIZES) == 0.0).all()
    assert (Preferences(image_size=SizePreference(256, None, "")).size_points("seq_len", SIZES) == 0.0).all()


def test_beyond_three_times_its_own_pixels_an_image_is_not_planned() -> None:
    said = preferred(usual={"image_size": (512, 30)}, own_size={"image_size": 101}).image_size
    assert said is not None
    assert (said.usual, said.most) == (303, 303)
    assert "101" in said.why
    points = Preferences(image_size=said).size_points("image_size", SIZES)
    assert (points[SIZES > 303] == -FAR).all()
    assert (points[SIZES <= 303] > -FAR).all()
    noted = preferred(notes=[Note("p-1", "", size=128)], own_size={"image_size": 101}).image_size
    assert noted is not None
    assert (noted.usual, noted.most) == (128, 303), "a note does not lift the limit"
    larger = preferred(notes=[Note("p-1", "", size=512)], own_size={"image_size": 101}).image_size
    assert larger is not None
    assert larger.most == 512, "but for the size that it names"
    only_large = Preferences(image_size=said).size_points("image_size", np.array([384, 512]))
    assert only_large[0] > -FAR == only_large[1], "where all are too large the smallest is left"


def test_the_length_of_texts_is_their_own_and_a_note_beats_what_is_usual() -> None:
    said = preferred(usual={"seq_len": (512, 9)}, own_size={"seq_len": 1000}).seq_len
    assert said is not None
    assert said.usual == 1000
    shipped, here = Note("p-1", "", size=256), Note("p-2", "", size=512, here=True)
    noted = preferred(notes=[shipped, here], usual={"image_size": (384, 9)}).image_size
    assert noted is not None
    assert noted.usual == 512
    assert "p-2" in noted.why
    assert preferred().image_size is None


def test_what_runs_showed_beats_what_was_noted_and_the_first_note_beats_the_next() -> None:
    ran = ModelPreference(SHOWN_BY_RUNS, "run 7", "best here")
    notes = [Note("p-1", "", prefer=("a", "b"), avoid=("c",), here=True), Note("p-2", "", prefer=("c",))]
    models = preferred(notes=notes, by_runs={"c": ran}).models
    assert models["a"].points > models["b"].points > 0.0
    assert models["c"] == ran
    assert preferred(notes=notes).models["c"].points == LOST


def test_folds_are_those_noted_else_those_of_the_recipe() -> None:
    assert preferred(folds=4).folds == {4: FOLDS_USUAL}
    assert preferred(folds=4, notes=[Note("p-1", ""), Note("p-2", "", folds=7, here=True)]).folds == {
        7: FOLDS_NOTED
    }
    assert preferred(folds=4, notes=[Note("p-1", "", folds=7)]).folds == {4: FOLDS_USUAL}, "a shipped one"


def test_targets_are_scores_of_the_very_competition() -> None:
    record = {"metric": "RMSE", "metric_direction": "min"}
    found = targets_of(
        record, (solution("a", 1, private=0.5), solution("a", 2), solution("a", 3, private=0.6))
    )
    assert found == {
        "metric": "RMSE",
        "direction": "min",
        "by_rank": [{"rank": 1, "score": 0.5, "from": "a#1"}, {"rank": 3, "score": 0.6, "from": "a#3"}],
    }
    assert targets_of(None, (solution(private=0.5),)) is None
    assert targets_of({}, (solution(private=0.5),)) is None
    assert targets_of(record, (solution(),)) is None


def test_an_image_is_hardly_planned_past_its_own_pixels_and_the_usual_ones() -> None:
    said = preferred(usual={"image_size": (364, 51)}, own_size={"image_size": 256})
    sizes = np.array([224, 256, 380, 512, 544])
    points = said.size_points("image_size", sizes)
    assert points[:2] == pytest.approx([-0.3, -0.01], abs=0.3)
    assert points[2] > points[3] > -1.1
    assert points[4] == -FAR
    tiny = preferred(usual={"image_size": (224, 51)}, own_size={"image_size": 101})
    assert tiny.size_points("image_size", np.array([128, 256]))[1] > -1, "as winners did"
