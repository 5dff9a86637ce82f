"""Real data, small: what scikit-learn and plotly bring along, laid into a folder as docs/scripts.md says.

Handwritten digits as pictures, masks, boxes and sounds, tumours, diabetes, and the lives of nations.
"""

from __future__ import annotations

import csv
import gzip
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.scripts.harness.data import Data, _image, _sound, _table, _with_sample

TEST_SHARE = 5  # every fifth row


def of_test(count: int) -> Any:
    return np.arange(count) % TEST_SHARE == 0


def digits() -> tuple[Any, Any]:
    from sklearn import datasets  # here: every worker of the tests collects this file

    found: tuple[Any, Any] = datasets.load_digits(return_X_y=True)
    return found


def digit_images(folder: Path, count: int = 300) -> Data:
    """Which digit it is; the sample wants the label."""
    pixels, labels = digits()
    return pictures(folder, pixels[:count], [str(label) for label in labels[:count]], "labels")


def digit_values(folder: Path, count: int = 200) -> Data:
    """How much ink there is."""
    pixels, _ = digits()
    return pictures(folder, pixels[:count], pixels[:count].sum(axis=1).tolist(), "values")


def pictures(folder: Path, pixels: Any, targets: list[Any], form: str) -> Data:
    test, rows = of_test(len(pixels)), []
    for number, values in enumerate(pixels):
        part = "test" if test[number] else "train"
        large = Image.fromarray((values.reshape(8, 8) * 15.9).astype(np.uint8)).resize((32, 32))
        _image(folder / part / f"{number:04d}.png", np.asarray(large))
        rows.append((f"{number:04d}", targets[number]))
    return written(folder, ("id", "answer"), rows, test, form)


def digit_labels(folder: Path, count: int = 300) -> Data:
    """Which of the digits 0, 1 and 4 are among the one or two that a picture shows."""
    pixels, labels = digits()
    kept = np.flatnonzero(np.isin(labels, (0, 1, 4)))
    rng, test = np.random.default_rng(0), of_test(count)
    rows: list[tuple[Any, ...]] = []
    for number in range(count):
        part, name = "test" if test[number] else "train", f"{number:04d}"
        shown = rng.choice(kept, rng.integers(1, 3), replace=False)
        picture = np.zeros((16, 16))
        for row, corner in zip(shown, rng.permutation([(0, 0), (0, 8), (8, 0), (8, 8)]), strict=False):
            picture[corner[0] : corner[0] + 8, corner[1] : corner[1] + 8] = pixels[row].reshape(8, 8)
        _image(folder / part / f"{name}.png", np.kron(np.dstack([picture * 15.9] * 3), np.ones((2, 2, 1))))
        rows.append((name, *(int(digit in labels[shown]) for digit in (0, 1, 4))))
    names = ("id", "zero", "one", "four")
    _table(folder / "train.csv", names, [row for row, out in zip(rows, test, strict=True) if not out])
    _table(folder / "test.csv", ("id",), [row[:1] for row, out in zip(rows, test, strict=True) if out])
    truth = {row[0]: list(row[1:]) for row, out in zip(rows, test, strict=True) if out}
    seen = [list(row[1:]) for row, out in zip(rows, test, strict=True) if not out]
    return _with_sample(folder, "multilabel", names, truth, seen, 0.5)


def digit_sounds(folder: Path, each: int = 30) -> Data:
    """Which of the digits 0 to 4 is played: eight chords of eight pitches, as loud as its pixels."""
    pixels, labels = digits()
    kept = np.concatenate([np.flatnonzero(labels == digit)[:each] for digit in range(5)])
    rng, rows = np.random.default_rng(0), []
    order = rng.permutation(kept)
    test, moment = of_test(len(order)), np.arange(480) / 8000
    tones = np.sin(2 * np.pi * 300 * 1.4 ** np.arange(8)[:, None] * moment)
    for number, row in enumerate(order):
        heard = (pixels[row].reshape(8, 8).T @ tones).ravel() * 200 + rng.normal(0, 300, 8 * 480)
        _sound(folder / ("test" if test[number] else "train") / f"{number:04d}.wav", heard)
        rows.append((f"{number:04d}", f"digit {labels[row]}"))
    return written(folder, ("id", "answer"), rows, test, "labels")


def digit_groups(folder: Path, each: int = 30) -> Data:
    """Which pictures show the same digit, of digits that no training picture shows."""
    pixels, labels = digits()
    kept = np.concatenate([np.flatnonzero(labels == digit)[:each] for digit in range(10)])
    names = [f"{number:04d}" for number in range(len(kept))]
    for name, row in zip(names, kept, strict=True):
        large = Image.fromarray((pixels[row].reshape(8, 8) * 15.9).astype(np.uint8)).resize((32, 32))
        _image(folder / ("train" if labels[row] < 7 else "test") / f"{name}.png", np.asarray(large))
    shown = dict(zip(names, labels[kept].tolist(), strict=True))
    test = {name: digit for name, digit in shown.items() if digit >= 7}
    learned = [(name, f"digit {digit}") for name, digit in shown.items() if digit < 7]
    _table(folder / "train.csv", ("id", "group"), learned)
    _table(folder / "test.csv", ("id",), [(name,) for name in test])
    truth = {name: tuple(other for other in test if test[other] == digit) for name, digit in test.items()}
    return _with_sample(folder, "matches", ("id", "matches"), truth, [], "")


def digit_masks(folder: Path, count: int = 150) -> Data:
    """Where the ink is, in a noisy picture."""
    pixels, _ = digits()
    rng, test, masks = np.random.default_rng(0), of_test(count), {}
    for number, values in enumerate(pixels[:count]):
        mask = np.kron(values.reshape(8, 8) > 6, np.ones((4, 4))).astype(np.uint8)
        part, name = "test" if test[number] else "train", f"{number:04d}"
        noisy = 60 + 120 * mask[..., None] + rng.normal(0, 30, (32, 32, 3))
        _image(folder / part / f"{name}.png", noisy)
        if part == "train":
            _image(folder / "train_masks" / f"{name}.png", mask * 255)
        masks[name] = mask
    ids = list(masks)
    _table(folder / "train.csv", ("id",), [(name,) for name, out in zip(ids, test, strict=True) if not out])
    _table(folder / "test.csv", ("id",), [(name,) for name, out in zip(ids, test, strict=True) if out])
    truth = {name: masks[name] for name, out in zip(ids, test, strict=True) if out}
    seen = [masks[name] for name, out in zip(ids, test, strict=True) if not out]
    return _with_sample(folder, "masks", ("id", "rle_mask"), truth, seen, "")


def digit_boxes(folder: Path, count: int = 200) -> Data:
    """Where the digits 0, 1 and 4 are, none to three of two sizes among strokes that are no digits."""
    pixels, labels = digits()
    shown = iter(np.flatnonzero(np.isin(labels, (0, 1, 4))))
    rng, test, truth, seen = np.random.default_rng(0), of_test(count), {}, []
    rows: list[tuple[Any, ...]] = []
    for number in range(count):
        part, name, boxes = "test" if test[number] else "train", f"{number:04d}", []
        picture = rng.normal(60, 15, (64, 64))
        for x, y, w, h in ((*rng.integers(0, 52, 2), *rng.permutation((2, 12))) for _ in range(5)):
            picture[y : y + h, x : x + w] += rng.uniform(60, 140)
        for corner in rng.permutation([(0, 0), (0, 32), (32, 0), (32, 32)])[: rng.integers(4)]:
            digit, zoom = next(shown), int(rng.integers(2, 4))
            x, y = (int(side + rng.integers(33 - 8 * zoom)) for side in corner)
            ink = np.kron(pixels[digit].reshape(8, 8), np.ones((zoom, zoom)))
            picture[y : y + 8 * zoom, x : x + 8 * zoom] += 10 * ink
            boxes.append((f"digit_{labels[digit]}", x, y, x + 8 * zoom, y + 8 * zoom))
        _image(folder / part / f"{name}.png", np.dstack([picture] * 3))
        if test[number]:
            truth[name] = boxes
        else:
            seen.append(boxes)
            rows += [(name, kind, x, y, u - x, v - y) for kind, x, y, u, v in boxes] or [(name, *[""] * 5)]
    _table(folder / "train.csv", ("id", "label", "x", "y", "width", "height"), rows)
    return _with_sample(folder, "boxes", ("id", "PredictionString"), truth, seen, "")


def cancer(folder: Path) -> Data:
    from sklearn import datasets

    values, labels = datasets.load_breast_cancer(return_X_y=True)
    rows = [
        (str(n), *row, str(label)) for n, (row, label) in enumerate(zip(values.round(5), labels, strict=True))
    ]
    return written(folder, columns(values), rows, of_test(len(rows)), "labels")


def diabetes(folder: Path) -> Data:
    from sklearn import datasets

    values, targets = datasets.load_diabetes(return_X_y=True)
    rows = [
        (str(n), *row, target) for n, (row, target) in enumerate(zip(values.round(5), targets, strict=True))
    ]
    return written(folder, columns(values), rows, of_test(len(rows)), "values")


def columns(values: Any) -> tuple[str, ...]:
    return ("id", *(f"c{n}" for n in range(values.shape[1])), "answer")


def written(folder: Path, names: tuple[str, ...], rows: list[Any], test: Any, form: str) -> Data:
    """train.csv, test.csv and a sample of these rows: the id first, the target last."""
    learned = [row for row, out in zip(rows, test, strict=True) if not out]
    asked = [row for row, out in zip(rows, test, strict=True) if out]
    _table(folder / "train.csv", names, learned)
    _table(folder / "test.csv", names[:-1], [row[:-1] for row in asked])
    truth, seen = {row[0]: row[-1] for row in asked}, [row[-1] for row in learned]
    return _with_sample(
        folder, form, (names[0], names[-1]), truth, seen, seen[0] if form == "labels" else 0.0
    )


def lives(folder: Path) -> Data:
    """How long people live, by nation, every five years: the last of twelve years is asked (Gapminder)."""
    place = resources.files("plotly") / "package_data" / "datasets" / "gapminder.csv.gz"
    table = csv.DictReader(gzip.decompress(place.read_bytes()).decode().splitlines())
    rows = [
        (str(n), f"{row['year']}-01-01", row["country"], float(row["lifeExp"])) for n, row in enumerate(table)
    ]
    asked = [row[1] == "2007-01-01" for row in rows]
    return written(folder, ("id", "date", "nation", "years"), rows, asked, "values")
