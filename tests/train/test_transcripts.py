"""Are transcripts found, compared and joined as their metrics have it?"""

from __future__ import annotations

import wave
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memory_service.train import transcripts
from memory_service.train.budget import plan
from memory_service.train.look import describe
from memory_service.train.reading import read_tables
from memory_service.train.transcripts import (
    agreed_texts,
    as_codes,
    as_texts,
    edits,
    read_written,
    score_cer,
    score_edits,
    score_per,
    score_same,
    score_wer,
    transcript_table,
    usual_text,
)
from tests.train.conftest import Prepare


@pytest.fixture
def heard(prepared: Prepare) -> ModuleType:
    prepared("labels", CHARACTERS=40, score_of=score_wer)
    return transcripts


@pytest.mark.parametrize(
    ("true", "found", "count"),
    [("kitten", "sitting", 3), ("", "ab", 2), ("ab", "", 2), ("abc", "abc", 0), ("flaw", "lawn", 2)],
)
def test_edits_are_the_fewest(true: str, found: str, count: int) -> None:
    assert edits(true, found) == count == edits(found, true)


@pytest.mark.usefixtures("heard")
def test_rates_are_of_all_texts_together() -> None:
    truth = np.array(["the cat sat", "no"], dtype=object)
    told = as_codes(["the cat sat on", "on"])
    assert score_wer(truth, told) == pytest.approx((1 + 1) / 4)
    assert score_cer(truth, told) == pytest.approx((3 + 2) / 13)

    assert score_edits(truth, told) == pytest.approx((3 + 2) / 2)
    assert as_texts(as_codes(["日本 🎵", ""])) == ["日本 🎵", ""]


@pytest.mark.usefixtures("heard")
def test_phones_stand_between_spaces_or_are_characters() -> None:
    spaced, joined = np.array(["sh iy hh"], dtype=object), np.array(["ʃiːh"], dtype=object)
    assert score_per(spaced, as_codes(["sh iy d"])) == pytest.approx(1 / 3)
    assert score_per(joined, as_codes(["ʃih"])) == pytest.approx(1 / 4)


@pytest.mark.usefixtures("heard")
def test_the_baseline_is_the_best_constant() -> None:
    often = np.array(["yes", "yes", "yes", "no way"], dtype=object)
    assert as_texts([usual_text(often, 0)]) == ["yes"]
    words = np.array(["q w e r t y", "a the", "b the", "c the"], dtype=object)
    assert as_texts([usual_text(words, 0)]) == ["the"]
    plan.score_of = score_cer
    assert as_texts([usual_text(np.array(["abcdef", "g", "h"], dtype=object), 0)]) == [""]


@pytest.mark.usefixtures("heard")
def test_folds_agree_on_the_text_nearest_to_all() -> None:
    parts = [as_codes(["a b c", "x"]), as_codes(["a b d", "x"]), as_codes(["a b c e", "y"])]
    assert as_texts(agreed_texts(parts)) == ["a b c", "x"]
    assert as_texts(agreed_texts(parts[1:])) == ["a b d", "x"]


def spoken(folder: Path, texts: list[str]) -> None:
    for part in ("train", "test"):
        (folder / part).mkdir()
        for number in range(len(texts)):
            with wave.open(str(folder / part / f"{part}{number}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes(bytes(2 * 4000 * (1 + number % 3)))
    ids = [f"train{number}" for number in range(len(texts))]
    speakers = [f"s{number % 6}" for number in range(len(texts))]
    train = pd.DataFrame({"clip": ids, "speaker": speakers, "seconds": 1.5, "sentence": texts})
    test = pd.DataFrame({"clip": [name.replace("train", "test") for name in ids]})
    test["speaker"] = [f"t{number % 4}" for number in range(len(texts))]
    train.to_csv(folder / "train.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)
    test[["clip"]].assign(sentence="").iloc[::-1].to_csv(folder / "sample_submission.csv", index=False)


TEXTS = [f"this is  sentence {number}" if number else "" for number in range(24)]


def test_a_folder_of_clips_and_sentences_is_speech(tmp_path: Path) -> None:
    spoken(tmp_path, TEXTS)
    found = describe(tmp_path)
    assert (found["task"], found["target"], found["answer"]) == ("speech-recognition", ["sentence"], "texts")
    assert found["group_by"] == "speaker"
    assert "n_classes" not in found


def test_labels_of_clips_are_no_transcripts(tmp_path: Path) -> None:
    spoken(tmp_path, [("yes", "no", "stop")[number % 3] for number in range(24)])
    table = pd.read_csv(tmp_path / "train.csv").rename(columns={"sentence": "word"})
    table.to_csv(tmp_path / "train.csv", index=False)
    (tmp_path / "sample_submission.csv").unlink()
    assert describe(tmp_path, "word")["task"] == "audio-classification"


def test_rows_without_a_text_are_left_out_and_speakers_stay_whole(prepared: Prepare, tmp_path: Path) -> None:
    spoken(tmp_path / "data", TEXTS)
    prepared("labels", SPLIT="group", GROUP_BY="speaker", TASK="speech-recognition")
    data = read_written(*read_tables("test.csv or sample_submission.csv"))
    assert len(data.targets) == 23
    assert data.targets[0] == "this is sentence 1", "blanks are single"
    assert data.outputs[0] == ""
    assert set(data.outputs[1:]) == set("".join(data.targets))
    assert data.groups is not None
    assert len(set(data.groups)) == 6
    told = transcript_table(data, as_codes(["hello"] * 24))
    assert (list(told), told["sentence"].tolist()) == (["clip", "sentence"], ["hello"] * 24)


def pictures(folder: Path, **columns: list[str]) -> Path:
    ids = [f"p{k}" for k in range(len(columns["answer"]))]
    table = pd.DataFrame({"image": ids, **columns})
    for part, rows in (("train", table), ("test", table.drop(columns="answer"))):
        (folder / part).mkdir()
        rows.to_csv(folder / f"{part}.csv", index=False)
        for name in ids:
            Image.new("RGB", (40, 48)).save(folder / part / f"{name}.png")
    return folder


@pytest.mark.parametrize(
    ("asked", "answers", "task"),
    [
        ("how many are there of", ["yes", "two"] * 4, "visual-question-answering"),
        ("", [f"a dog runs to {k} cats" for k in "abcdefgh"], "image-captioning"),
        ("", ["dog cat", "dog", "cat", "dog cat bird", "bird", "cat"] + ["dog"] * 2, "image-classification"),
        ("", [f"{k} {9 - k} {2 * k} {k + 3}" for k in range(8)], "image-"),
    ],
)
def test_pictures_are_asked_or_told_of_only_where_texts_are_written(
    tmp_path: Path, asked: str, answers: list[str], task: str
) -> None:
    columns = {"question": [f"{asked} {k}" for k in "abcdefgh"]} if asked else {}
    found = describe(pictures(tmp_path, **columns, answer=answers))
    assert found["task"].startswith(task)
    assert ("captioning" in found["task"]) == (task == "image-captioning")
    assert (found["answer"] == "texts") == (task in ("visual-question-answering", "image-captioning"))


def test_an_answer_is_the_same_whatever_its_capitals(heard: ModuleType) -> None:
    assert score_same(np.array(["Two dogs", "red"], dtype=object), as_codes(["two dogs ", "blue"])) == 0.5
