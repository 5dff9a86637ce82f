"""What are small data of each kind, with something to learn in them?

Each writer lays a competition of its kind into a folder as docs/scripts.md says, from a seed alone, and knows
the truth about the test samples. Ids have leading zeros where files are named by them, labels are words
or begin at no 0, and the sample submission has another order than test.csv: who renumbers or sorts is found.
"""

from __future__ import annotations

import csv
import datetime as dt
import wave
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from memory_service.train.writing import run_lengths

Array = npt.NDArray[Any]
Rows = Sequence[Sequence[object]]


@dataclass(frozen=True)
class Data:
    """Where it lies and what is true of its test samples.

    form       "probabilities" (a column a class), "labels", "multilabel", "values", "masks", "boxes",
               "words", "matches", "items", "texts", "points" (pixels)
    ids        of the submission, in the order of the sample
    columns    of the submission, the id's first
    truth      by id: the class's name, the value, the row of 0 and 1, the mask (height, width) of 0 and 1,
               boxes (class, x0, y0, x1, y1), labels between spaces, the ids of its group, items
    seen       what the baseline knows: the same of the training samples
    """

    folder: Path
    form: str
    ids: tuple[str, ...]
    columns: tuple[str, ...]
    truth: dict[str, Any]
    seen: tuple[Any, ...]


@dataclass(frozen=True)
class Size:
    train: int = 48
    test: int = 12


Writer = Callable[[Path, Size], Data]

COLOURS = {"ape": (200, 60, 60), "bee": (60, 200, 60), "cat": (60, 60, 200)}
PITCHES = {"low": 300.0, "high": 2400.0}
POSITIVE, NEGATIVE = ("good", "nice", "fine", "lovely"), ("bad", "poor", "awful", "dull")
FILLER = ("the", "a", "film", "book", "was", "very", "and", "so", "of", "it")
WORDS = (*POSITIVE, *NEGATIVE, *FILLER)
SAMPLE_RATE = 8_000
LETTERS = {"a": 300.0, "b": 600.0, "c": 1200.0, "d": 2400.0}


def images_of_classes(folder: Path, size: Size) -> Data:
    """One colour a class; the sample wants a probability for each."""
    rng, names = np.random.default_rng(1), tuple(COLOURS)
    labels = [names[k % 3] for k in range(size.train + size.test)]
    train, test = _ids(size)
    for part, ids, offset in (("train", train, 0), ("test", test, size.train)):
        for k, name in enumerate(ids):
            _picture(folder / part / f"{name}.jpg", COLOURS[labels[offset + k]], rng)
    _table(folder / "train.csv", ("image", "animal"), zip(train, labels, strict=False))
    _table(folder / "test.csv", ("image",), [(name,) for name in test])
    truth = dict(zip(test, labels[size.train :], strict=True))
    columns = ("image", *names)
    return _with_sample(folder, "probabilities", columns, truth, labels[: size.train], 1 / 3)


def images_of_labels(folder: Path, size: Size) -> Data:
    """Which of three colours are in it; any number of them may be."""
    rng = np.random.default_rng(2)
    rows = [[(k >> bit) & 1 for bit in range(3)] for k in rng.permutation(size.train + size.test) % 8]
    train, test = _ids(size)
    for part, ids, offset in (("train", train, 0), ("test", test, size.train)):
        for k, name in enumerate(ids):
            colour = tuple(50 + 150 * on for on in rows[offset + k])
            _picture(folder / part / f"{name}.png", colour, rng)
    names = ("red", "green", "blue")
    _table(folder / "train.csv", ("image", *names), [(a, *b) for a, b in zip(train, rows, strict=False)])
    _table(folder / "test.csv", ("image",), [(name,) for name in test])
    truth = dict(zip(test, rows[size.train :], strict=True))
    return _with_sample(folder, "multilabel", ("image", *names), truth, rows[: size.train], 0.5)


def images_of_values(folder: Path, size: Size) -> Data:
    """How bright it is, far from 0 and 1 as many targets are. No sample submission."""
    rng = np.random.default_rng(3)
    bright = rng.uniform(0, 1, size.train + size.test)
    values = [round(100 + 40 * float(one), 3) for one in bright]
    train, test = _ids(size)
    for part, ids, offset in (("train", train, 0), ("test", test, size.train)):
        for k, name in enumerate(ids):
            level = int(30 + 200 * bright[offset + k])
            _picture(folder / part / f"{name}.png", (level, level, level), rng)
    _table(folder / "train.csv", ("id", "weight"), zip(train, values, strict=False))
    _table(folder / "test.csv", ("id",), [(name,) for name in test])
    truth = dict(zip(test, values[size.train :], strict=True))
    return Data(folder, "values", test, ("id", "weight"), truth, tuple(values[: size.train]))


def images_with_masks(folder: Path, size: Size) -> Data:
    """A bright disk on a dark ground, of a size of its own and wider than high; on some there is none."""
    rng = np.random.default_rng(4)
    train, test = _ids(size)
    masks: dict[str, Array] = {}
    for part, ids in (("train", train), ("test", test)):
        for k, name in enumerate(ids):
            height, width = 40 + 4 * (k % 3), 56
            y, x = np.mgrid[:height, :width]
            radius = 0 if k % 8 == 7 else rng.integers(10, 16)
            middle = rng.integers(16, height - 16), rng.integers(16, width - 16)
            disk = ((y - middle[0]) ** 2 + (x - middle[1]) ** 2 < radius**2).astype(np.uint8)
            picture = 40 + 160 * disk[..., None] + rng.normal(0, 12, (height, width, 3))
            _image(folder / part / f"{name}.png", picture)
            masks[name] = disk
            if part == "train":
                _image(folder / "train_masks" / f"{name}.png", disk * 255)
    _table(folder / "train.csv", ("id",), [(name,) for name in train])
    _table(folder / "test.csv", ("id",), [(name,) for name in test])
    truth = {name: masks[name] for name in test}
    return _with_sample(folder, "masks", ("id", "rle_mask"), truth, [masks[n] for n in train], "")


def images_with_two_masks(folder: Path, size: Size) -> Data:
    """A bright disk and a dark square on grey; run lengths of each in rows of their own, none where there is
    no disk. The sample asks for `<image>_<kind>`."""
    rng = np.random.default_rng(14)
    train, test = _ids(size)
    masks: dict[str, Array] = {}
    for part, ids in (("train", train), ("test", test)):
        for k, name in enumerate(ids):
            y, x = np.mgrid[:40, :56]
            middle, corner = rng.integers(12, 28), rng.integers(4, 20)
            disk = ((y - middle) ** 2 + (x - 16) ** 2 < (100 if k % 6 else 0)).astype(np.uint8)
            square = ((abs(y - corner - 8) < 8) & (abs(x - 42) < 8)).astype(np.uint8)
            picture = 120 + 100 * disk[..., None] - 90 * square[..., None] + rng.normal(0, 12, (40, 56, 3))
            _image(folder / part / f"{name}.png", picture)
            masks |= {f"{name}_disk": disk, f"{name}_square": square}
    asked = [f"{name}_{kind}" for name in test for kind in ("disk", "square")]
    learned = [(f"{name}_{kind}", run_lengths(masks[f"{name}_{kind}"]))
               for name in train for kind in ("disk", "square") if masks[f"{name}_{kind}"].any()]  # fmt: skip
    _table(folder / "train.csv", ("image_kind", "runs"), learned)
    truth = {name: masks[name] for name in asked}
    seen = [mask for name, mask in masks.items() if name not in truth]
    return _with_sample(folder, "masks", ("image_kind", "runs"), truth, seen, "")


def signals_of_classes(folder: Path, size: Size) -> Data:
    """A wave or a square somewhere in noise, in a table with a row a step."""
    rng = np.random.default_rng(21)
    train, test = _ids(size)
    steps: list[tuple[object, ...]] = []
    rows: dict[str, tuple[object, ...]] = {}
    for name in (*train, *test):
        kind, start, length = int(rng.integers(2)), int(rng.integers(4, 60)), int(rng.integers(90, 110))
        signal, turn = rng.normal(0, 0.4, (2, length)), np.arange(24)
        signal[0, start : start + 24] += 2 * np.sin(turn) if kind else 1.4 * np.sign(12 - turn)
        steps += [(name, step, *map(float, both.round(3))) for step, both in enumerate(signal.T)]
        rows[name] = (name, float(rng.normal()), ("square", "wave")[kind])
    _table(folder / "steps.csv", ("series", "step", "left", "right"), steps)
    _table(folder / "train.csv", ("series", "age", "shape"), [rows[name] for name in train])
    _table(folder / "test.csv", ("series", "age"), [rows[name][:2] for name in test])
    truth = {name: rows[name][2] for name in test}
    return _with_sample(
        folder, "labels", ("series", "shape"), truth, [rows[name][2] for name in train], "wave"
    )


def pictures_with_words(folder: Path, size: Size) -> Data:
    """A value that a picture's colour, a word of its text and a number tell together."""
    rng = np.random.default_rng(22)
    train, test = _ids(size)
    rows: dict[str, tuple[object, ...]] = {}
    for name in (*train, *test):
        word, number, colour = int(rng.integers(2)), float(rng.normal()), int(rng.integers(2))
        _picture(folder / "photos" / f"{name}.png", ((200, 60, 60), (60, 60, 200))[colour], rng)
        text = " ".join([*rng.choice(FILLER, 5), (POSITIVE, NEGATIVE)[word][int(rng.integers(4))]])
        value = 3.0 * colour + 2.0 * word + number + float(rng.normal(0, 0.2))
        rows[name] = (name, f"photos/{name}.png", text, round(number, 3), round(value, 3))
    head = ("id", "image", "description", "weight", "price")
    _table(folder / "train.csv", head, [rows[name] for name in train])
    _table(folder / "test.csv", head[:4], [rows[name][:4] for name in test])
    truth = {name: rows[name][4] for name in test}
    return _with_sample(folder, "values", ("id", "price"), truth, [rows[name][4] for name in train], 0.5)


def videos_of_classes(folder: Path, size: Size) -> Data:
    """A disk that goes left or right: folders of frames, none of which alone tells the way."""
    rng = np.random.default_rng(23)
    train, test = _ids(size)
    rows: dict[str, str] = {}
    y, x = np.mgrid[:32, :48]
    for part, ids in (("train", train), ("test", test)):
        for name in ids:
            right, row = bool(rng.integers(2)), int(rng.integers(8, 24))
            for frame in range(5):
                middle = 8 + 8 * (frame if right else 4 - frame)
                disk = (y - row) ** 2 + (x - middle) ** 2 < 36
                picture = 60 + 150 * disk[..., None] + rng.normal(0, 12, (32, 48, 3))
                _image(folder / part / name / f"{frame:02d}.png", picture)
            rows[name] = "right" if right else "left"
    _table(folder / "train.csv", ("id", "way"), [(name, rows[name]) for name in train])
    truth = {name: rows[name] for name in test}
    return _with_sample(folder, "labels", ("id", "way"), truth, [rows[name] for name in train], "left")


def items_of_users(folder: Path, size: Size) -> Data:
    """Users who take items of their own half, another one each day; what they take then is asked."""
    rng = np.random.default_rng(24)
    rows: list[tuple[object, ...]] = []
    truth: dict[str, Any] = {}
    for k in range(size.train):
        own = [f"i{2 * item + k % 2:02d}" for item in rng.permutation(40)]
        days = [f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}" for day in range(30)]
        rows += [(f"u{k:03d}", item, day) for item, day in zip(own, days, strict=False)]
        truth[f"u{k:03d}"] = {*own[30:]}
    _table(folder / "train.csv", ("user", "item", "day"), rows)
    seen = [row[1] for row in rows]
    return _with_sample(folder, "items", ("user", "items"), truth, seen, "i00 i01 i02 i03 i04")


def images_with_boxes(folder: Path, size: Size) -> Data:
    """A bright square or two on a dark ground, red or blue; of the training images some have none and no row,
    one has a box that leaves it. The sample wants groups of class, score, x, y, width and height."""
    rng = np.random.default_rng(15)
    train, test = _ids(size)
    rows: list[tuple[object, ...]] = []
    truth: dict[str, Any] = {}
    for part, ids in (("train", train), ("test", test)):
        for k, name in enumerate(ids):
            height, width, boxes = 48, 56 + 8 * (k % 2), []
            picture = 50 + rng.normal(0, 12, (height, width, 3))
            for corner in [] if k % 8 == 7 else (4, 30)[: 1 + k % 2]:
                side, kind = int(rng.integers(12, 20)), int(rng.integers(2))
                x, y = corner + int(rng.integers(0, 6)), int(rng.integers(4, height - side))
                picture[y : y + side, x : x + side, 2 * kind] += 160
                boxes.append((("red", "blue")[kind], x, y, x + side, y + side))
            _image(folder / part / f"{name}.jpg", picture)
            truth[name] = boxes
            rows += [
                (name, x, y, u - x + 40 * (k == 0), v - y, c) for c, x, y, u, v in boxes if part == "train"
            ]
    _table(folder / "train.csv", ("image", "x", "y", "w", "h", "class"), rows)
    seen = [truth[name] for name in train]
    truth = {name: truth[name] for name in test}
    return _with_sample(folder, "boxes", ("image", "PredictionString"), truth, seen, "")


def texts_of_classes(folder: Path, size: Size) -> Data:
    """Its words say it; commas, quotes and line breaks are in some. The sample wants the label."""
    rng = np.random.default_rng(5)
    moods = [("glad", "sad")[k % 2] for k in range(size.train + size.test)]
    texts = [_sentence(rng, 5 if mood == "glad" else 0, 5) for mood in moods]
    return _texts(folder, size, texts, moods, "labels", "mood", "glad")


def texts_of_values(folder: Path, size: Size) -> Data:
    """How many of its words are good ones."""
    rng = np.random.default_rng(6)
    good = rng.integers(0, 6, size.train + size.test)
    texts = [_sentence(rng, int(one), 5) for one in good]
    return _texts(folder, size, texts, [10.0 + 2.0 * int(one) for one in good], "values", "stars", 0.0)


def words_of_classes(folder: Path, size: Size) -> Data:
    """Whether each word of a sentence is a good one, a bad one or another."""
    rng = np.random.default_rng(13)
    kinds = dict.fromkeys(POSITIVE, "GOOD") | dict.fromkeys(NEGATIVE, "BAD")
    rows = []
    for number in range(size.train + size.test):
        words = [str(word) for word in rng.choice(WORDS, int(rng.integers(3, 40)))]
        rows.append((str(500 + number), " ".join(words), " ".join(kinds.get(word, "O") for word in words)))
    _table(folder / "train.csv", ("id", "tokens", "labels"), rows[: size.train])
    _table(folder / "test.csv", ("id", "tokens"), [row[:2] for row in rows[size.train :]])
    truth = {row[0]: row[2] for row in rows[size.train :]}
    return _with_sample(folder, "words", ("id", "labels"), truth, [r[2] for r in rows[: size.train]], "O")


def images_of_groups(folder: Path, size: Size) -> Data:
    """Four pictures a group, upper and lower half of its own colours; the test set has other groups."""
    rng, rows = np.random.default_rng(14), []
    for number in range(size.train + size.test):
        if number % 4 == 0:
            colours = rng.integers(30, 220, (2, 1, 1, 3))
        name, part = f"{number:03d}", "train" if number < size.train else "test"
        halves = np.concatenate([np.tile(colour, (20, 40, 1)) for colour in colours])
        _image(folder / part / f"{name}.jpg", halves + rng.normal(0, 25, halves.shape))
        rows.append((name, f"g{number // 4}"))
    test = rows[size.train :]
    _table(folder / "train.csv", ("image", "group"), rows[: size.train])
    _table(folder / "test.csv", ("image",), [row[:1] for row in test])
    truth = {name: tuple(other for other, same in test if same == group) for name, group in test}
    return _with_sample(folder, "matches", ("image", "matches"), truth, [], "")


def pairs_of_values(folder: Path, size: Size) -> Data:
    """How many words of both texts are good ones."""
    rng = np.random.default_rng(11)
    good = rng.integers(0, 4, (size.train + size.test, 2))
    ids = [str(300 + k) for k in range(len(good))]
    rows = [
        (name, _sentence(rng, int(one), 3), _sentence(rng, int(other), 3), round(0.5 * int(one + other), 1))
        for name, (one, other) in zip(ids, good, strict=True)
    ]
    _table(folder / "train.csv", ("id", "anchor", "target", "score"), rows[: size.train])
    _table(folder / "test.csv", ("id", "anchor", "target"), [row[:3] for row in rows[size.train :]])
    truth = {row[0]: row[3] for row in rows[size.train :]}
    return _with_sample(folder, "values", ("id", "score"), truth, [r[3] for r in rows[: size.train]], 0.0)


def series_of_values(folder: Path, size: Size) -> Data:
    """Sales of four shops that grow a little, with a weekly rhythm and so much noise that last week's are no
    good forecast; the days to forecast follow the known ones."""
    rng = np.random.default_rng(12)
    days = (size.train + size.test) // 4
    rows = []
    for number in range(4 * days):
        day, shop = divmod(number, 4)
        sold = (shop + 1) * (100 + day / 5) * (1.5 if day % 7 > 4 else 1.0) * rng.normal(1, 0.15)
        date = (dt.date(2025, 1, 1) + dt.timedelta(days=day)).isoformat()
        rows.append((str(9000 + number), date, f"shop {shop}", round(float(sold), 1)))
    known = rows[: 4 * (size.train // 4)]
    asked = rows[len(known) :]
    _table(folder / "train.csv", ("id", "date", "shop", "sold"), known)
    _table(folder / "test.csv", ("id", "date", "shop"), [row[:3] for row in asked])
    truth = {row[0]: row[3] for row in asked}
    return _with_sample(folder, "values", ("id", "sold"), truth, [row[3] for row in known], 0.0)


def table_of_classes(folder: Path, size: Size) -> Data:
    """Two numbers and a word decide; numbers are missing, labels are 1, 2, 5. The sample wants the label."""
    rng = np.random.default_rng(7)
    inputs, hidden = _inputs(rng, size)
    labels = [("1", "2", "5")[int(one)] for one in np.digitize(hidden, (-0.6, 0.6))]
    return _rows(folder, size, inputs, labels, "labels", "grade", 1)


def table_of_values(folder: Path, size: Size) -> Data:
    """The same two numbers and word, as a sum."""
    rng = np.random.default_rng(8)
    inputs, hidden = _inputs(rng, size)
    return _rows(
        folder, size, inputs, [round(5000 + 900 * float(h), 2) for h in hidden], "values", "price", 0
    )


def sounds_of_classes(folder: Path, size: Size) -> Data:
    """High or low, and not all of one length."""
    rng, names = np.random.default_rng(9), tuple(PITCHES)
    labels = [names[k % len(names)] for k in range(size.train + size.test)]
    train, test = _ids(size)
    for part, ids, offset in (("train", train, 0), ("test", test, size.train)):
        for k, name in enumerate(ids):
            seconds = np.arange(int(SAMPLE_RATE * (0.4 + 0.1 * (k % 3)))) / SAMPLE_RATE
            pitch = PITCHES[labels[offset + k]] * rng.uniform(0.9, 1.1)
            heard = np.sin(2 * np.pi * pitch * seconds) * 9000 + rng.normal(0, 500, len(seconds))
            _sound(folder / part / f"{name}.wav", heard)
    _table(folder / "train.csv", ("clip", "pitch"), zip(train, labels, strict=False))
    _table(folder / "test.csv", ("clip",), [(name,) for name in test])
    truth = dict(zip(test, labels[size.train :], strict=True))
    columns = ("clip", *sorted(names))
    return _with_sample(folder, "probabilities", columns, truth, labels[: size.train], 0.5)


def sounds_of_texts(folder: Path, size: Size) -> Data:
    """Each letter is a short tone, and between words is silence."""
    return _spoken(
        folder, size, lambda rng: [int(length) for length in rng.integers(1, 4, rng.integers(1, 3))]
    )


def sounds_of_words(folder: Path, size: Size) -> Data:
    """The same of two words of a letter each."""
    return _spoken(folder, size, lambda rng: [1, 1])


def _spoken(folder: Path, size: Size, lengths: Callable[[np.random.Generator], list[int]]) -> Data:
    rng, texts = np.random.default_rng(25), []
    train, test = _ids(size)
    for part, name in (*(("train", one) for one in train), *(("test", one) for one in test)):
        text = " ".join("".join(rng.choice(list(LETTERS), length)) for length in lengths(rng))
        time = np.arange(int(0.16 * SAMPLE_RATE)) / SAMPLE_RATE
        tones = [np.sin(2 * np.pi * LETTERS.get(each, 0.0) * time) * (time < 0.11) for each in text]
        heard = np.concatenate(tones) * 9000 + rng.normal(0, 200, len(text) * len(time))
        _sound(folder / part / f"{name}.wav", heard)
        texts.append(text)
    speakers = [f"s{k % 8}" for k in range(len(texts))]
    rows = list(zip((*train, *test), speakers, texts, strict=True))
    _table(folder / "train.csv", ("clip", "speaker", "transcript"), rows[: size.train])
    _table(folder / "test.csv", ("clip", "speaker"), [row[:2] for row in rows[size.train :]])
    truth = dict(zip(test, texts[size.train :], strict=True))
    return _with_sample(folder, "texts", ("clip", "transcript"), truth, texts[: size.train], "")


ASKED = ("which", "colour", "is", "above", "below", "red", "green", "blue", "Describe", "the", "picture", ".")


def pictures_with_questions(folder: Path, size: Size) -> Data:
    """Two colours, one above the other, of which one is asked for."""
    rng = np.random.default_rng(31)
    train, test = _ids(size)
    rows = []
    for part, name in (*(("train", one) for one in train), *(("test", one) for one in test)):
        shown, asked = rng.permutation(3)[:2], int(rng.integers(2))
        pixels = rng.normal(60, 20, (64, 64, 3))
        for half, channel in enumerate(shown):
            pixels[32 * half : 32 * half + 32, :, channel] += 160
        _image(folder / part / f"{name}.png", pixels)
        question = f"which colour is {('above', 'below')[asked]}"
        rows.append((name, question, ("red", "green", "blue")[shown[asked]]))
    _table(folder / "train.csv", ("image", "question", "answer"), rows[: size.train])
    _table(folder / "test.csv", ("image", "question"), [row[:2] for row in rows[size.train :]])
    answers = [row[2] for row in rows]
    truth = dict(zip(test, answers[size.train :], strict=True))
    return _with_sample(folder, "texts", ("image", "answer"), truth, answers[: size.train], "")


def images_with_points(folder: Path, size: Size) -> Data:
    """The middles of a red and a blue disk, in pixels of pictures of several sizes; the blue one is missing
    on some, and so are its coordinates."""
    rng = np.random.default_rng(26)
    train, test = _ids(size)
    rows: dict[str, list[Any]] = {}
    for part, ids in (("train", train), ("test", test)):
        for k, name in enumerate(ids):
            height, width = 40 + 8 * (k % 3), 64
            y, x = np.mgrid[:height, :width]
            picture, rows[name] = 60 + rng.normal(0, 12, (height, width, 3)), []
            for channel in (0, 2):
                middle = rng.integers(8, width - 8), rng.integers(8, height - 8)
                there = channel == 0 or part == "test" or k % 4 != 3
                if there:
                    picture[(x - middle[0]) ** 2 + (y - middle[1]) ** 2 < 49, channel] += 160
                rows[name] += [int(side) for side in middle] if there else ["", ""]
            _image(folder / part / f"{name}.png", picture)
    head = ("image", "red_x", "red_y", "blue_x", "blue_y")
    _table(folder / "train.csv", head, [(name, *rows[name]) for name in train])
    truth = {name: rows[name] for name in test}
    seen = [rows[name] for name in train if "" not in rows[name]]
    return _with_sample(folder, "points", head, truth, seen, 0)


def _ids(size: Size) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = [f"{k:04d}" for k in range(size.train + size.test)]
    return tuple(names[: size.train]), tuple(names[size.train :])


def _texts(
    folder: Path, size: Size, texts: list[str], targets: list[Any], form: str, target: str, empty: object
) -> Data:
    ids = [str(100 + k) for k in range(len(texts))]
    rows = list(zip(ids, texts, targets, strict=True))
    _table(folder / "train.csv", ("id", "text", target), rows[: size.train])
    _table(folder / "test.csv", ("id", "text"), [row[:2] for row in rows[size.train :]])
    truth = {row[0]: row[2] for row in rows[size.train :]}
    return _with_sample(folder, form, ("id", target), truth, targets[: size.train], empty)


def _rows(
    folder: Path, size: Size, inputs: Rows, targets: list[Any], form: str, target: str, empty: object
) -> Data:
    names = ("width", "height", "noise", "kind")
    ids = [str(7000 + k) for k in range(len(targets))]
    rows = [(name, *given, wanted) for name, given, wanted in zip(ids, inputs, targets, strict=True)]
    _table(folder / "train.csv", ("row", *names, target), rows[: size.train])
    _table(folder / "test.csv", ("row", *names), [row[:-1] for row in rows[size.train :]])
    truth = {row[0]: row[-1] for row in rows[size.train :]}
    return _with_sample(folder, form, ("row", target), truth, targets[: size.train], empty)


def _inputs(rng: np.random.Generator, size: Size) -> tuple[Rows, Array]:
    n = size.train + size.test
    numbers = rng.normal(0, 1, (n, 3))
    kinds = rng.integers(0, 3, n)
    hidden = numbers[:, 0] + 0.5 * numbers[:, 1] + (kinds - 1)
    missing = rng.uniform(0, 1, n) < 0.05
    rows = [
        (
            f"{a * 30 + 100:.3f}",
            "" if lost else f"{b:.4f}",
            f"{c:.4f}",
            ("oak", "elm", "fir, tall")[kind],
        )
        for (a, b, c), kind, lost in zip(numbers, kinds, missing, strict=True)
    ]
    return rows, hidden


def _sentence(rng: np.random.Generator, good: int, of: int) -> str:
    words = [*rng.choice(POSITIVE, good), *rng.choice(NEGATIVE, of - good), *rng.choice(FILLER, 4)]
    rng.shuffle(words)
    text = " ".join(words)
    return text.replace(" the ", ' "the", ').replace(" it ", " it\n")


def _with_sample(
    folder: Path,
    form: str,
    columns: tuple[str, ...],
    truth: dict[str, Any],
    seen: Sequence[Any],
    empty: object,
) -> Data:
    ids = tuple(reversed(truth))
    rest = [empty] * (len(columns) - 1)
    _table(folder / "sample_submission.csv", columns, [(name, *rest) for name in ids])
    return Data(folder, form, ids, columns, truth, tuple(seen))


def _table(path: Path, columns: Sequence[str], rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def _picture(path: Path, colour: Sequence[int], rng: np.random.Generator, side: int = 40) -> None:
    _image(path, np.array(colour) + rng.normal(0, 25, (side, side, 3)))


def _image(path: Path, pixels: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


def _sound(path: Path, samples: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples.clip(-32768, 32767).astype("<i2").tobytes())
