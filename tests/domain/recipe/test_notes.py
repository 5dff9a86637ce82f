"""What does a sentence that a person wrote say of models, size, folds and split?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.recipe.notes import Note, beside_runs, note_of_pattern, read_sentence

CATALOGUE = {
    "convnext_base": "convnext_base.fb_in22k_ft_in1k",
    "tiny_vit": "tiny_vit_21m_384",
    "resnet50": "resnet50.a1_in1k",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "deberta-v3-base": "deberta-v3-base",
    "linear": "linear",
    "unet/resnet34": "unet/resnet34",
}


def catalogue_name(word: str) -> str | None:
    return CATALOGUE.get(word.lower())


def read(text: str) -> Note:
    return read_sentence(text, catalogue_name)


def test_the_sentence_of_issue_13_is_read_whole() -> None:
    note = read("convnext_base at 512, log target, 5 folds beat tiny_vit at 384 by 2.1 kg MAE")
    assert note.prefer == ("convnext_base.fb_in22k_ft_in1k",)
    assert note.avoid == ("tiny_vit_21m_384",)
    assert (note.size, note.folds, note.split) == (512, 5, None)


def test_a_split_and_what_the_groups_are_is_read() -> None:
    note = read("GroupKFold by site matched the LB; random folds looked 6 kg better")
    assert (note.split, note.by, note.prefer, note.avoid) == ("group", "site", (), ())


@pytest.mark.parametrize(
    ("text", "prefer", "avoid"),
    [
        ("resnet50 lost to convnext_base.", "convnext_base", "resnet50"),
        ("resnet50 was worse than convnext_base", "convnext_base", "resnet50"),
        ("convnext_base outperformed resnet50", "convnext_base", "resnet50"),
        ("convnext_base was better than resnet50", "convnext_base", "resnet50"),
        ("resnet50 was beaten by convnext_base", "convnext_base", "resnet50"),
        ("LightGBM beats catboost", "lightgbm", "catboost"),
        ("deberta-v3-base did well", "deberta-v3-base", None),
        ("unet/resnet34 at 256", "unet/resnet34", None),
        ("convnext_base did not beat resnet50", None, None),
        ("resnet50 diverged at 512", None, None),
        ("convnext_base averaged over 5 folds beat resnet50", "convnext_base", "resnet50"),
        ("a linear decay was better than a cosine", None, None),
        ("nothing known beats unknown_net", None, None),
    ],
)
def test_who_beat_whom(text: str, prefer: str | None, avoid: str | None) -> None:
    note = read(text)
    assert note.prefer == ((CATALOGUE[prefer],) if prefer else ())
    assert note.avoid == ((CATALOGUE[avoid],) if avoid else ())


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("resnet50 at 384", 384),
        ("resnet50 at 384x384", 384),
        ("resnet50 of size 640 px", 640),
        ("resnet50 at 224 lost to convnext_base at 512", 512),
        ("at 512 it was slow", None),
        ("resnet50 won in 2024", None),
        ("resnet50 at 16", None),
    ],
)
def test_the_size_is_that_of_the_better_model(text: str, size: int | None) -> None:
    assert read(text).size == size


@pytest.mark.parametrize(
    ("text", "split", "by", "folds"),
    [
        ("group folds by farm", "group", "farm", None),
        ("10-fold, grouped by patient_id", "group", "patient_id", 10),
        ("a time split of the last month", "time", None, None),
        ("split by time", "time", None, None),
        ("1 fold", None, None, None),
        ("99 folds", None, None, None),
    ],
)
def test_splits_and_folds(text: str, split: str | None, by: str | None, folds: int | None) -> None:
    note = read(text)
    assert (note.split, note.by, note.folds) == (split, by, folds)


HOSTILE = ["", " ", "\n", "beat", "over", "lost to", "a" * 100_000, "1" * 5_000, "at 99999999",
           "folds by", "<script>beat</script>", "resnet50" * 3_000, "\x00\ud7ff\U0001f600",
           "- / . _" * 5_000]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_say_nothing(text: str) -> None:
    note = read(text)
    assert (note.prefer, note.avoid, note.size, note.folds, note.split) == ((), (), None, None, None)


WORDS = st.sampled_from(
    [*CATALOGUE, "beat", "lost to", "at 512", "at 12", "5 folds", "group folds by site", ".", ","]
)


@given(st.one_of(st.text(), st.lists(WORDS).map(" ".join)))
def test_what_is_read_stands_in_the_text_and_can_be_planned(text: str) -> None:
    note = read(text)
    assert note.text == text
    known = {CATALOGUE[word] for word in CATALOGUE if word in text.lower()}
    assert {*note.prefer, *note.avoid} <= known
    assert note.size is None or (32 <= note.size <= 9999 and str(note.size) in text)
    assert note.folds is None or 2 <= note.folds <= 50
    assert note.split in (None, "group", "time")
    assert len(set(note.prefer)) == len(note.prefer)


def row(**said: Any) -> dict[str, Any]:
    return {
        "id": "p-1",
        "statement": "resnet50 at 384 beat tiny_vit, group folds by site",
        "advice": {},
        **said,
    }


def test_advice_says_more_than_the_sentence_and_a_shipped_sentence_is_not_read() -> None:
    advice = {"models": ["convnext_base", "unknown"], "image_size": 512, "folds": 4, "split": "time"}
    here = note_of_pattern(row(advice=advice), catalogue_name, True)
    assert here.prefer == (CATALOGUE["convnext_base"],)
    assert here.avoid == (CATALOGUE["tiny_vit"],)
    assert (here.size, here.folds, here.split, here.here) == (512, 4, "time", True)
    shipped = note_of_pattern(row(), catalogue_name, False)
    assert (shipped.prefer, shipped.size, shipped.split, shipped.here) == ((), None, None, False)
    assert note_of_pattern(row(advice=None), catalogue_name, True).size == 384


@pytest.mark.parametrize(
    "advice",
    [
        {"folds": "five", "image_size": "big", "split": 5, "group_by": ["site"], "models": "resnet50"},
        {"folds": -1, "image_size": 10**9, "split": "public-lb", "models": {"a": 1}},
        {"folds": True, "image_size": 2.5, "models": [None, 7]},
    ],
)
def test_advice_of_any_form_is_a_note_that_says_nothing(advice: dict[str, Any]) -> None:
    note = note_of_pattern({"id": "p", "statement": "x", "advice": advice}, catalogue_name, here=True)
    assert note == Note("p", "x", here=True)


def test_a_note_falls_where_runs_show_another_model_to_be_the_best() -> None:
    note = Note("ada", "xgboost beats linear", prefer=("xgboost",), avoid=("linear",), folds=5)
    assert beside_runs([note], {}) == ([note], {})
    assert beside_runs([note], {"xgboost": 3.0, "linear": 2.0}) == ([note], {})
    close, _ = beside_runs([note], {"xgboost": 3.0, "catboost": 4.0})
    assert close == [note], "within the noise of two runs"
    (fallen,), why = beside_runs([note], {"xgboost": 3.0, "linear": 6.0})
    assert (fallen.prefer, fallen.avoid, fallen.folds) == ((), (), 5)
    assert "reached most with linear" in why["ada"]
