"""What is wrong in data from outside? Each takes a folder of data and breaks a few places of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.scripts.harness.workshop import rows_of, write_rows

__all__ = ["spoiler_of"]


def files(folder: Path) -> None:
    """In training: one file ends in its middle, one is empty, one is missing; in the test set one is text."""
    train, test = (sorted((folder / part).iterdir()) for part in ("train", "test"))
    train[3].write_bytes(train[3].read_bytes()[: train[3].stat().st_size // 2])
    train[5].write_bytes(b"")
    train[7].unlink()
    test[1].write_text("this is no picture and no sound\n", encoding="utf-8")


def masks(folder: Path) -> None:
    """The same, and of the masks one is text and one is missing."""
    files(folder)
    found = sorted((folder / "train_masks").iterdir())
    found[0].write_text("this is no mask\n", encoding="utf-8")
    found[1].unlink()


def texts(folder: Path) -> None:
    """Texts are missing, one without its target, a line has a field too many, a word is no UTF-8."""
    path = folder / "train.csv"
    rows = rows_of(path)
    rows[4][1] = ""
    rows[6][2] = ""
    rows[8].append("what is this?")
    write_rows(path, rows)
    path.write_bytes(path.read_bytes().replace(b"film", b"fil\xff", 1))
    tests = rows_of(folder / "test.csv")
    tests[2][1] = ""
    write_rows(folder / "test.csv", tests)


def tables(folder: Path) -> None:
    """A word and an infinity where numbers are, one row without its target, one with a field too many; in the
    test set a word for a number and a kind that nobody has seen."""
    path = folder / "train.csv"
    rows = rows_of(path)
    rows[4][1] = "about 80"
    rows[5][2] = "1e999"
    rows[6][5] = ""
    rows[8].append("what is this?")
    write_rows(path, rows)
    tests = rows_of(folder / "test.csv")
    tests[2][1] = "unknown"
    tests[3][2] = "-inf"
    tests[4][4] = "larch"
    write_rows(folder / "test.csv", tests)


def spoiler_of(name: str) -> Callable[[Path], None]:
    if name == "image-segmentation":
        return masks
    for start, spoiler in (("image", files), ("object", files), ("audio", files), ("text", texts)):
        if name.startswith(start):
            return spoiler
    return tables
