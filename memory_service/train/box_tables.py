"""Boxes of a table: columns of corners or sizes, or all of an image in one cell."""

from __future__ import annotations

import re
from ast import literal_eval
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan

CORNERS = ("xmin ymin xmax ymax", "x0 y0 x1 y1", "x1 y1 x2 y2", "left top right bottom")
SIZES = ("x y w h", "x y width height", "xmin ymin width height", "left top width height")
CLASSES = ("classid", "categoryid", "labelid", "class", "classname", "category", "categoryname", "label")
WHOLE = ("bbox", "box", "bboxes", "boxes", "boxesstring", "boundingbox", "boundingboxes", "predictionstring",
         "annotations", "annotation", "objects")  # fmt: skip
BOX_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{0,20})?(?:e[+-]?\d{1,3})?")
BOX_NUMBERS = 4
LEAST_BOXES, LEAST_BOXED = 10, 0.1  # boxes; the share of rows that have one
MOST_FLAT = 0.05  # of boxes, that end where they begin
SCORES = ("score", "confidence", "conf", "probability")


def plain_names(columns) -> dict[str, str]:
    """Columns by their names in small letters alone: x_min is xmin."""
    return {re.sub(r"[\W_]", "", str(name).lower()): name for name in columns}


def first_of(names: tuple, columns) -> str | None:
    """The first of these names that is a column."""
    known = plain_names(columns)
    return next((known[name] for name in names if name in known), None)


def box_columns(columns) -> tuple[list[str], bool]:
    """(the four columns of a box, whether they are corners); none where they are not there."""
    known = plain_names(columns)
    for names in CORNERS + SIZES:
        if set(names.split()) <= known.keys():
            return [known[name] for name in names.split()], names in CORNERS
    return [], False


def things_in(cell: str) -> list[tuple[str, str]]:
    """(box, class) of each dict of a cell, by the names in it; none where it holds something else."""
    with suppress(Exception):
        found = literal_eval(cell.strip()) if "{" in cell else []
        things = [found] if isinstance(found, dict) else found
        boxes = [
            [each[name] for name in box_columns(each)[0]] or each[first_of(WHOLE, each)] for each in things
        ]
        kinds = [each.get(first_of(CLASSES, each), "") for each in things]
        return [(" ".join(map(str, box)), str(kind)) for box, kind in zip(boxes, kinds, strict=True)]
    return []


def a_row_a_box(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a row for each box of a cell such as "[[1, 2, 3, 4], [5, 6, 7, 8]]", "[{'x': 1, 'y': 2,
    'width': 3, 'height': 4}]" or "cat 1 2 3 4 dog 5 6 7 8"; one without a box keeps its row."""
    whole = first_of(WHOLE, table.columns)
    if whole is None or box_columns(table.columns)[0]:
        return table
    rows, boxes, classes = list[int](), list[str](), list[str]()
    for row, cell in enumerate(table[whole].fillna("").astype(str)):
        words, numbers = cell.split(), BOX_NUMBER.findall(cell)
        named = cell[:1] not in ("", "[", "{", "(") and len(words) % 5 == 0
        size, parts = (5, words) if named else (4, numbers)
        found = [" ".join(parts[at + size - 4 : at + size]) for at in range(0, len(parts), size)]
        kinds = words[::5] if named else [""] * len(found)
        if things := things_in(cell):
            found, kinds = map(list, zip(*things, strict=True))
        elif len(parts) % size or not found:
            found, kinds = [""], [""]
        rows += [row] * len(found)
        boxes += found
        classes += kinds
    long = table.iloc[rows].reset_index(drop=True).assign(**{whole: boxes})
    return long.assign(label=[name or None for name in classes]) if any(classes) else long


def boxes_of(table: pd.DataFrame) -> np.ndarray:
    """Corners of each row, (rows, 4), no numbers where it has no box."""
    (columns, corners), whole = box_columns(table.columns), first_of(WHOLE, table.columns)
    if columns:
        boxes = table[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
    elif whole:
        texts = table[whole].astype(str).str.findall(BOX_NUMBER)
        boxes = np.array([list(map(float, text)) if len(text) == 4 else [np.nan] * 4 for text in texts])
        there = boxes[np.isfinite(boxes).all(axis=1)]
        flat = 1 - (there[:, 2:] > there[:, :2]).all(axis=1).mean() if len(there) else 1.0
        corners = len(there) >= LEAST_BOXES and bool(flat <= MOST_FLAT)
    else:
        raise KeyError("train.csv has no columns of boxes that are known here: change read_data")
    plan.CORNERS = corners
    return boxes if corners else np.column_stack([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]])


def box_facts(train: pd.DataFrame, targets: list[str]) -> dict[str, Any]:
    """Target, task and classes of boxes; nothing where targets are none."""
    columns = box_columns(targets)[0] or [name for name in [first_of(WHOLE, targets)] if name]
    long = a_row_a_box(train) if columns else train
    if not columns or np.isfinite(boxes_of(long)).all(axis=1).mean() < LEAST_BOXED:
        return {}
    kind, told = first_of(CLASSES, long.columns), first_of(CLASSES, targets)
    found = {
        "task": "object-detection",
        "answer": "boxes",
        "target": [name for name in train if name in (*columns, told)],
    }
    return found | {"n_classes": int(long[kind].nunique()) if kind else 1}
