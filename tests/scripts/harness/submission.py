"""Is a submission valid, and is it better than knowing nothing but the training labels?"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np

from memory_service.train.transcripts import edits
from tests.scripts.harness.data import Array, Data

LEAST_PROBABILITY = 1e-6


def check_submission(data: Data, path: Path) -> dict[str, list[str]]:
    """Its cells by id; fails with what is wrong with it."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    assert tuple(header) == data.columns
    assert tuple(row[0] for row in rows) == data.ids, "not every id once, in the order of the sample"
    cells = {row[0]: row[1:] for row in rows}
    for name, values in cells.items():
        assert len(values) == len(data.columns) - 1, (name, values)
        _check_cells(data, name, values)
    return cells


def _check_cells(data: Data, name: str, values: list[str]) -> None:
    if data.form == "labels":
        assert values[0] in {str(one) for one in data.seen}, (name, values)
        return
    if data.form == "masks":
        decode(values[0], data.truth[name].shape)
        return
    if data.form == "boxes":
        for kind, score, left, top, width, height in boxes_in(values[0]):
            assert kind in {box[0] for boxes in data.seen for box in boxes}, (name, kind)
            assert 0 < score <= 1, (name, score)
            assert min(left, top) >= 0 < min(width, height), (name, values)
        return
    if data.form == "items":
        assert len({*values[0].split()} & {*data.seen}) == len(values[0].split()) == 5, (name, values)
        return
    if data.form == "matches":
        found = values[0].split()
        assert name in found, (name, values)
        assert len({*found} & {*data.truth}) == len(found), (name, values)
        return
    if data.form == "texts":
        if data.columns[1] == "transcript":  # an answer may be any words of the model
            assert {*values[0]} <= {*"".join(data.seen)}, (name, values)
        return
    if data.form == "words":
        assert len(values[0].split()) == len(data.truth[name].split()), (name, values)
        return
    numbers = [float(one) for one in values]
    assert all(math.isfinite(one) for one in numbers), (name, values)
    if data.form in ("probabilities", "multilabel"):
        assert all(0 <= one <= 1 for one in numbers), (name, values)
    if data.form == "probabilities":
        assert abs(sum(numbers) - 1) < 1e-3, (name, values)


def decode(runs: str, shape: tuple[int, int]) -> Array:
    """The mask (height, width) of 0 and 1 of one-based column-major runs "start length start length …"."""
    numbers = [int(one) for one in runs.split()]
    assert len(numbers) % 2 == 0, runs
    flat, end = np.zeros(shape[0] * shape[1], np.uint8), 0
    for start, length in zip(numbers[::2], numbers[1::2], strict=True):
        assert start > end, "runs overlap, touch or are out of order"
        assert length > 0
        end = start + length
        assert end - 1 <= flat.size, "a run leaves the image"
        flat[start - 1 : end - 1] = 1
    return flat.reshape(shape, order="F")


def boxes_in(text: str) -> list[tuple[str, float, float, float, float, float]]:
    """Class, score, x, y, width, height of each group."""
    words = text.split()
    assert len(words) % 6 == 0, text
    groups = (words[start : start + 6] for start in range(0, len(words), 6))
    return [(kind, *map(float, numbers)) for kind, *numbers in groups]  # type: ignore[misc]


def average_precision(data: Data, cells: dict[str, list[str]]) -> float:
    """At IoU 0.5, the mean over the classes: the highest precision at each true box that is found."""
    each = []
    for kind in sorted({box[0] for boxes in data.truth.values() for box in boxes}):
        left = {name: [box[1:] for box in boxes if box[0] == kind] for name, boxes in data.truth.items()}
        true, hits = sum(map(len, left.values())), []
        found = [
            (box, name) for name, values in cells.items() for box in boxes_in(values[0]) if box[0] == kind
        ]
        for (_, _, x, y, width, height), name in sorted(found, key=lambda one: -one[0][1]):
            ious = [_overlap((x, y, x + width, y + height), box) for box in left[name]]
            hits.append(max(ious, default=0.0) >= 0.5)
            if hits[-1]:
                left[name].pop(int(np.argmax(ious)))
        precisions = [sum(hits[: place + 1]) / (place + 1) for place in range(len(hits))]
        each.append(sum(max(precisions[place:]) for place, hit in enumerate(hits) if hit) / true)
    return float(np.mean(each))


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    sides = [min(one[k + 2], other[k + 2]) - max(one[k], other[k]) for k in (0, 1)]
    common = max(sides[0], 0.0) * max(sides[1], 0.0)
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return common / (area - common)


def gain(data: Data, cells: dict[str, list[str]]) -> float:
    """Score minus that of the best constant answer; over 0 something was learned.

    Accuracy for labels and words, minus log loss for probabilities, the share of the deviation that is
    explained for values, Dice for masks, F1 for matches, average precision for boxes.
    """
    if data.form == "boxes":
        return average_precision(data, cells)
    return _score(data, cells) - _score(data, {name: _constant(data, name) for name in cells})


def _score(data: Data, cells: dict[str, list[str]]) -> float:
    return float(np.mean([_of_one(data, data.truth[name], values) for name, values in cells.items()]))


def _of_one(data: Data, truth: Any, values: list[str]) -> float:
    if data.form == "labels":
        return float(str(truth) == values[0])
    if data.form == "masks":
        found = decode(values[0], truth.shape)
        both = int(found.sum()) + int(truth.sum())
        return 1.0 if both == 0 else float(2 * (found & truth).sum() / both)
    if data.form == "items":
        return len(truth & {*values[0].split()}) / 5
    if data.form == "matches":
        matched = {*values[0].split()}
        return 2 * len(matched & {*truth}) / (len(matched) + len(truth))
    if data.form == "texts":
        return -edits(truth, values[0]) / len(truth)
    if data.form == "words":
        pairs = zip(values[0].split(), truth.split(), strict=True)
        return float(np.mean([one == other for one, other in pairs]))
    numbers = np.clip([float(one) for one in values], *_range(data))
    if data.form in ("values", "points"):
        return -float(np.mean(((numbers - np.array(truth)) / np.std(data.seen, axis=0)) ** 2))
    if data.form == "probabilities":
        return math.log(numbers[data.columns.index(truth) - 1])
    wanted = np.array(truth)
    return float(np.mean(np.log(np.where(wanted == 1, numbers, 1 - numbers))))


def _range(data: Data) -> tuple[float, float]:
    if data.form in ("values", "points"):
        return -math.inf, math.inf
    return LEAST_PROBABILITY, 1 - LEAST_PROBABILITY


def _constant(data: Data, name: str) -> list[str]:
    if data.form == "labels":
        return [max(map(str, data.seen), key=[str(one) for one in data.seen].count)]
    if data.form == "masks":
        return [""]
    if data.form == "matches":
        return [name]
    if data.form == "items":
        return [" ".join(sorted({*data.seen}, key=data.seen.count)[-5:])]
    if data.form == "texts":
        return [""]
    if data.form == "words":
        return [" ".join("O" for _ in data.truth[name].split())]
    if data.form == "probabilities":
        return [str(data.seen.count(one) / len(data.seen)) for one in data.columns[1:]]
    return [str(one) for one in np.atleast_1d(np.mean(np.array(data.seen), axis=0))]
