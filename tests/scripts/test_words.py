"""Words and their labels: counted text by text, and read from lists as well."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.scripts.harness.workshop import Workshop, rows_of, write_rows
from tests.scripts.test_reading import Open, opened

__all__ = ["opened"]


def as_lists(folder: Path) -> None:
    for name in ("train.csv", "test.csv"):
        head, *rows = rows_of(folder / name)
        lists = [[row[0], *(str(cell.split()) for cell in row[1:])] for row in rows]
        write_rows(folder / name, [head, *lists])


def test_lists_of_words_and_labels_are_read(workshop: Workshop) -> None:
    trial = workshop.short_trial("token-classification", spoil=as_lists, folds=1)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "outputs=3" in ended.log, "GOOD, BAD and O"
    trial.cells()


def test_texts_with_a_label_too_many_are_left_out_and_named_unless_they_are_most(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(folder: Path) -> None:
        head, first, *rows = rows_of(folder / "train.csv")
        write_rows(folder / "train.csv", [head, [*first[:2], f"{first[2]} O"], *rows])

    script = opened("token-classification", spoil)
    data = script.read_data()
    assert "1 of 96 rows have more or fewer labels in labels than words in tokens, the first is 500" in (
        capsys.readouterr().out
    )
    assert (data.samples, len(data.inputs), data.ids[0]) == (95, 95, "501:0")
    assert len(data.ids) == len(data.targets) == len(data.groups) == sum(map(len, data.inputs))
    head, *rows = rows_of(script.DATA_DIR / "train.csv")
    write_rows(script.DATA_DIR / "train.csv", [head, *([*row[:2], f"{row[2]} O"] for row in rows)])
    with pytest.raises(ValueError, match="96 of 96 rows"):
        script.read_data()


def test_a_no_break_space_is_within_a_word_and_a_line_break_between_two(opened: Open) -> None:
    script = opened("token-classification", lambda folder: None)
    cells = script.pd.Series([" a 10\u00a0000  b\u2009c ", "a\nb\tc", "\u00a0", "", None])
    words = [["a", "10\u00a0000", "b\u2009c"], ["a", "b", "c"], ["\u00a0"], [""], [""]]
    assert script.words_of(cells) == words


def test_words_without_a_token_are_told_of_by_their_text_and_place(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(folder: Path) -> None:
        head, first, *rows = rows_of(folder / "test.csv")
        write_rows(folder / "test.csv", [head, [first[0], ""], *rows])

    script = opened("token-classification", spoil)
    data = script.read_data()
    assert script.Pieces("test", data, np.arange(1), {})[0][2] == [], "nobody answers it"
    script.tell_unread(data, np.array([0]))
    told = f"1 of {len(data.test_ids)} test words cannot be read ({data.test_ids[0]})"
    assert told in capsys.readouterr().out


def test_an_entity_is_right_where_its_ends_and_its_kind_are(opened: Open) -> None:
    script = opened("token-classification", lambda folder: None)
    for true, found, score in (
        ("B-PER I-PER O B-LOC B-LOC", "B-PER I-PER O B-LOC I-LOC", 2 * 1 / (3 + 2)),
        ("B-PER I-PER O O", "B-PER O O O", 0.0),
        ("I-PER I-LOC O", "B-PER B-LOC O", 1.0),
        ("S-PER S-PER B-LOC E-LOC I-LOC", "S-PER S-PER B-LOC E-LOC O", 2 * 3 / (4 + 3)),
        ("GOOD GOOD O BAD", "GOOD GOOD O GOOD", 0.5),
        ("O O", "O O", 0.0),
    ):
        script.NAMES[:] = sorted({*true.split(), *found.split()})
        numbers, guessed = (
            np.array([script.NAMES.index(one) for one in each.split()]) for each in (true, found)
        )
        assert script.score_of(numbers, np.eye(len(script.NAMES))[guessed]) == score


def test_of_numbers_as_labels_0_is_outside_and_lists_have_no_quotes_where_the_sample_has_none(
    opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(folder: Path) -> None:
        numbers = {"O": "0", "GOOD": "1", "BAD": "2"}
        head, *rows = rows_of(folder / "train.csv")
        changed = [[*row[:2], " ".join(numbers[name] for name in row[2].split())] for row in rows]
        write_rows(folder / "train.csv", [head, *changed])

    script = opened("token-classification", spoil)
    data = script.read_data()
    assert "WARNING: no label is O (0, 1, 2): 0 counts as O" in capsys.readouterr().out
    assert script.entities_of(np.array([0, 1, 1, 0, 2])) == {(1, 3, "1"), (4, 5, "2")}
    answers, count = np.eye(3)[[0, 1] * (len(data.test_ids) // 2 + 1)], len(data.test_inputs[0])
    for shown, cell in (("[0, 0]", [0, 1] * count), ("['0']", ["0", "1"] * count)):
        data.sample.iloc[0, 1] = shown
        given = script.submission_of(data, answers[: len(data.test_ids)])
        assert given.iloc[0, 1] == str(cell[:count])


def test_each_word_is_answered_once_with_words_around_it(opened: Open) -> None:
    script = opened("token-classification", lambda folder: None)
    size, margin = script.SEQ_LEN // 2, script.SEQ_LEN // 16
    texts = [["film"] * count for count in (1, size, size + 1, 3 * size, 5 * size + 3)]
    pieces = script.Pieces("test", SimpleNamespace(test_inputs=texts), np.arange(sum(map(len, texts))), {})
    answered = [pieces[place][2] for place in range(len(pieces))]
    assert sorted(np.concatenate(answered)) == list(range(sum(map(len, texts))))
    assert len(pieces) == 1 + 1 + 2 + 4 + 7
    for (_, row, start, _, _), rows in zip(pieces.pieces, answered, strict=True):
        assert rows[0] - row - start == (margin if start else 0)


def test_no_word_is_cut_off_where_words_have_many_tokens(opened: Open) -> None:
    """In English texts pieces have PIECE words; here 16 of them were 112 tokens, and 30 fit."""
    script = opened("token-classification", lambda folder: None)
    texts = [["film,film,film,film"] * count for count in (1, 4, 5, 50)] + [["film"] * 9 + ["a," * 99] * 3]
    pieces = script.Pieces("train", SimpleNamespace(inputs=texts), np.arange(sum(map(len, texts))), {})
    answered = np.concatenate([pieces[place][2] for place in range(len(pieces))])
    assert sorted(answered) == list(range(sum(map(len, texts))))
    assert max(len(pieces[place][0]) for place in range(len(pieces))) <= script.SEQ_LEN


def test_words_that_several_cards_have_predicted_stay_in_their_order(opened: Open) -> None:
    script, rows, model = opened("token-classification", lambda folder: None), np.arange(7), object()
    shares = []
    for rank in range(3):
        vars(script.module).update(RANK=rank, WORLD=3)
        shares.append(script.own_rows(rows, model))
    assert np.concatenate(shares).tolist() == rows.tolist()
    assert [len(share) for share in shares] == [3, 2, 2]
