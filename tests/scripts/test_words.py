"""Words and their labels: counted text by text, and read from lists as well."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.harness.workshop import Workshop, rows_of, write_rows


def as_lists(folder: Path) -> None:
    for name in ("train.csv", "test.csv"):
        head, *rows = rows_of(folder / name)
        lists = [[row[0], *(str(cell.split()) for cell in row[1:])] for row in rows]
        write_rows(folder / name, [head, *lists])


def one_label_moved(folder: Path) -> None:
    """To the next text: as many in all."""
    head, first, second, *rows = rows_of(folder / "train.csv")
    first[2], second[2] = f"{first[2]} O", second[2].rpartition(" ")[0]
    write_rows(folder / "train.csv", [head, first, second, *rows])


def test_lists_of_words_and_labels_are_read(workshop: Workshop) -> None:
    trial = workshop.short_trial("token-classification", spoil=as_lists, folds=1)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "outputs=3" in ended.log, "GOOD, BAD and O"
    trial.cells()


def test_a_text_with_a_label_too_many_is_named(workshop: Workshop) -> None:
    trial = workshop.short_trial("token-classification", spoil=one_label_moved)
    ended = trial.train()
    assert ended.status != 0
    assert "500 has" in ended.log
    assert "change read_data" in ended.log
