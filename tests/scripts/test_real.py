"""Does each kind of script learn from real data, on the processor, by a margin that docs/scripts.md states?

Small data that scikit-learn brings along: handwritten digits, breast cancer, diabetes, and the sentences of
its own documentation. There are no sounds among them: those of `data.py` stand for them in test_normal.py.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn import datasets, ensemble, linear_model, preprocessing

from tests.scripts.harness.data import Data, _image, _table, _with_sample
from tests.scripts.harness.ending import ON_REAL_DATA, ends_whole
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop

DOCS = Path(__file__).parents[2] / "docs" / "scripts.md"
TEST_SHARE = 5  # every fifth row


def of_test(count: int) -> Any:
    return np.arange(count) % TEST_SHARE == 0


def digit_images(folder: Path, count: int = 300) -> Data:
    """Which digit it is; the sample wants the label."""
    pixels, labels = datasets.load_digits(return_X_y=True)
    return pictures(folder, pixels[:count], [str(label) for label in labels[:count]], "labels")


def digit_values(folder: Path, count: int = 200) -> Data:
    """How much ink there is."""
    pixels, _ = datasets.load_digits(return_X_y=True)
    return pictures(folder, pixels[:count], pixels[:count].sum(axis=1).tolist(), "values")


def pictures(folder: Path, pixels: Any, targets: list[Any], form: str) -> Data:
    test, rows = of_test(len(pixels)), []
    for number, values in enumerate(pixels):
        part = "test" if test[number] else "train"
        large = Image.fromarray((values.reshape(8, 8) * 15.9).astype(np.uint8)).resize((32, 32))
        _image(folder / part / f"{number:04d}.png", np.asarray(large))
        rows.append((f"{number:04d}", targets[number]))
    return written(folder, ("id", "answer"), rows, test, form)


def digit_groups(folder: Path, each: int = 30) -> Data:
    """Which pictures show the same digit, of digits that no training picture shows."""
    pixels, labels = datasets.load_digits(return_X_y=True)
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
    pixels, _ = datasets.load_digits(return_X_y=True)
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
    pixels, labels = datasets.load_digits(return_X_y=True)
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


def sentences(folder: Path) -> Data:
    """Which part of scikit-learn a sentence of its documentation is about."""
    rows: list[tuple[str, str, str]] = []
    for module in (ensemble, linear_model, preprocessing):
        found = [getattr(module, name) for name in module.__all__]
        text = " ".join(inspect.getdoc(each) or "" for each in found)
        for sentence in dict.fromkeys(re.split(r"(?<=[.:])\s+", text)):
            if 6 <= len(sentence.split()) <= 40:
                rows.append((str(len(rows)), " ".join(sentence.split()), module.__name__.split(".")[-1]))
    order = np.random.default_rng(0).permutation(len(rows))[:900]
    return written(folder, ("id", "text", "about"), [rows[k] for k in order], of_test(len(order)), "labels")


def cancer(folder: Path) -> Data:
    values, labels = datasets.load_breast_cancer(return_X_y=True)
    rows = [
        (str(n), *row, str(label)) for n, (row, label) in enumerate(zip(values.round(5), labels, strict=True))
    ]
    return written(folder, columns(values), rows, of_test(len(rows)), "labels")


def diabetes(folder: Path) -> Data:
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


@dataclass(frozen=True)
class Case:
    write: Callable[[Path], Data]
    settings: dict[str, Any] = field(default_factory=dict)


NETWORK = {"epochs": 8, "batch_size": 32, "learning_rate": 2e-3}
SMALL = NETWORK | {"epochs": 6, "batch_size": 16}
BOXES = {"epochs": 14, "early_stopping_patience": 14, "batch_size": 16, "folds": 1, "learning_rate": 3e-2}
TREES = {"epochs": 300, "early_stopping_patience": 30}
TABLES = {"epochs": 20, "batch_size": 32, "learning_rate": 2e-3}
CASES = {
    "image-classification": Case(digit_images, SMALL),
    "image-regression": Case(digit_values, SMALL),
    "image-retrieval": Case(digit_groups, NETWORK),
    "image-segmentation": Case(digit_masks, {**NETWORK, "epochs": 4}),
    "object-detection": Case(digit_boxes, BOXES),
    "text-classification": Case(sentences, {"epochs": 8, "batch_size": 32, "learning_rate": 2e-2}),
    "tabular-classification-network": Case(cancer, TABLES),
    "tabular-regression-network": Case(diabetes, TABLES),
    **{f"tabular-classification-{name}": Case(cancer, TREES) for name in ("lightgbm", "xgboost", "catboost")},
    **{f"tabular-regression-{name}": Case(diabetes, TREES) for name in ("lightgbm", "xgboost", "catboost")},
}


def promised(name: str) -> float:
    """The least gain over the best constant that docs/scripts.md states for this kind."""
    found = re.search(rf"^\| `{name}` \|.*\| ([\d.]+) \|$", DOCS.read_text(), re.MULTILINE)
    assert found, name
    return float(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_beats_the_best_constant_by_what_the_documentation_says(
    workshop: Workshop, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    changes = dict(case.settings)
    if name.startswith("text"):  # without weights
        changes["model"] = workshop.plan(name)["model"] | {"name": "fasttext", "library": "torch"}
    trial = workshop.trial(name, own={"WEIGHTS": "none"}, **changes)
    trial.data = case.write(tmp_path / "data")
    ended = trial.train()
    assert ended.status == 0, ended.log
    found = ends_whole(trial, ended) if name in ON_REAL_DATA else gain(trial.data, trial.cells())
    print(f"GAIN {name} {found:.3f} {ended.seconds:.1f} s")
    assert found >= promised(name), (found, ended.log)
