"""What all scripts that find boxes share: tables of boxes, whose columns are corners or sizes or one cell,
overlaps, which boxes are right, and fusing what several folds found.

Predictions are (images, 6 x MAX_BOXES): score, class and corners of each box,
the best first; a score of 0 is no box.
"""

import re
from ast import literal_eval
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan, state
from memory_service.train.folder import find_roles
from memory_service.train.reading import Data, files_of, find_files, table_data, unnamed, without_missing
from memory_service.train.table_files import columns_in
from memory_service.train.writing import held_out_answers, write_table

CORNER_COLUMNS = ("xmin ymin xmax ymax", "x0 y0 x1 y1", "x1 y1 x2 y2", "left top right bottom")
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
    for names in CORNER_COLUMNS + SIZES:
        if set(names.split()) <= known.keys():
            return [known[name] for name in names.split()], names in CORNER_COLUMNS
    return [], False


def things_in(cell: str) -> list[tuple[str, str]]:
    """(box, class) of each dict of a cell, by the names in it; none where it holds something else."""
    with suppress(Exception):
        found = literal_eval(cell.strip()) if "{" in cell else []
        things = [found] if isinstance(found, dict) else found
        corners = [[each[name] for name in box_columns(each)[0]] for each in things]
        boxes = [box or each[first_of(WHOLE, each)] for box, each in zip(corners, things, strict=True)]
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
    target = [name for name in train if name in (*columns, told)]
    found = {"task": "object-detection", "answer": "boxes", "target": target}
    return found | {"n_classes": int(long[kind].nunique()) if kind else 1}


def table_of(data: Data, ids: list, predictions: np.ndarray) -> pd.DataFrame:
    """What was found on these images, as the submission wants it."""
    shown = pd.DataFrame(columns=[data.id_column, "PredictionString"]) if data.sample is None else data.sample
    known = columns_in(find_roles(plan.DATA_DIR).train[0])
    columns, corners = box_columns(shown.columns)
    found = predictions.reshape(len(ids), -1, 6)
    images, places = np.nonzero(found[..., 0] > 0)
    scores, kinds, boxes = np.split(found[images, places], [1, 2], axis=1)
    if not (corners if columns else plan.CORNERS):
        boxes[:, 2:] -= boxes[:, :2]
    names, scores = np.array(data.outputs, dtype=object)[kinds[:, 0].astype(int)], scores[:, 0]
    if columns:  # a row a box
        table = pd.DataFrame(boxes.round(1), columns=columns)
        table[first_of(SCORES, shown.columns) or "score"] = scores.round(4)
        table[first_of(CLASSES, shown.columns) or "class"] = names
        return table.assign(**{data.id_column: np.array(ids)[images]}).reindex(columns=shown.columns)
    column = next((name for name in shown.columns if "prediction" in name.lower()), shown.columns[-1])
    words = shown[column].dropna().astype(str).str.split().str.len()
    five, six = ((words % each == 0).all() for each in (5, 6))  # of each box shown
    with_class = six if five != six else first_of(CLASSES, known) is not None
    texts: list[list[str]] = [[] for _ in ids]
    for image, name, score, box in zip(images, names, scores, boxes, strict=True):
        corner = " ".join(f"{side:.1f}" for side in box)
        texts[image].append(f"{name} {score:.4f} {corner}" if with_class else f"{score:.4f} {corner}")
    shown = shown.drop_duplicates(data.id_column).set_index(data.id_column).reindex(ids)
    return shown.assign(**{column: [" ".join(text) for text in texts]}).reset_index()


def read_boxes(train: pd.DataFrame, test, sample) -> Data:
    """The data of boxes: `targets` are of each image (boxes, 5), class and corners in pixels."""
    train = without_missing(train, train.iloc[:, 0].notna(), list(train.columns[:1]))
    train = a_row_a_box(train)
    ids, boxes = train.iloc[:, 0], boxes_of(train)
    classes = train.get(first_of(CLASSES, train.columns), pd.Series("object", train.index))
    whole = (boxes[:, 2:] > boxes[:, :2]).all(axis=1) & classes.notna().to_numpy()  # not of NaN
    if left := int((np.isfinite(boxes).all(axis=1) & ~whole).sum()):
        print(f"NOTE: {left} boxes without an area or a class are left out", flush=True)
    if whole.any() and boxes[whole].max() < 2:
        raise ValueError("boxes are shares of their images, not pixels: change read_data")
    numbers, names = pd.factorize(classes[whole].convert_dtypes(), sort=True)  # 1.0 of fractions is 1
    table = np.column_stack([numbers, boxes[whole]])
    images = train.drop_duplicates(train.columns[0])
    more = pd.DataFrame({train.columns[0]: unnamed("train", images.iloc[:, 0])}, dtype=object)
    images = pd.concat([images, more], ignore_index=True)
    places = pd.Series(range(len(table))).groupby(ids[whole].to_numpy()).indices
    targets = np.empty(len(images), dtype=object)  # of each image (boxes, 5): class, x0, y0, x1, y1
    for row, name in enumerate(images.iloc[:, 0]):
        targets[row] = table[places.get(name, [])]
    if (most := max(map(len, targets))) > plan.MAX_BOXES:
        print(f"NOTE: {most} boxes are on an image, but MAX_BOXES is {plan.MAX_BOXES}: raise it", flush=True)
    key = np.bincount(numbers, minlength=1).__getitem__  # how often a class is
    rarest = [min(each[:, 0].astype(int), key=key, default=-1) for each in targets]
    asked = sample if test is None else test
    asked = asked.drop_duplicates(asked.columns[0])
    test_ids, more_ids = asked.iloc[:, 0].tolist(), list[str]()
    if test is None and box_columns(sample.columns)[0]:  # not each image has a row there
        more_ids = unnamed("test", test_ids)
        test_ids += more_ids
    more = {"inputs": files_of("train", images), "targets": targets, "outputs": names.tolist()}
    more |= {"test_inputs": find_files("test", test_ids) if more_ids else files_of("test", asked)}
    more |= {"test_ids": test_ids, "target_columns": ["boxes"], "strata": np.array(rarest) + 1}
    return table_data(images, test, sample, **more)


def overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of (n, 4) and (m, 4) corners: (n, m)."""
    (left, top, right, bottom), (x, y, u, v) = boxes.T[..., None], others.T
    common = (np.minimum(right, u) - np.maximum(left, x)).clip(0)
    common = common * (np.minimum(bottom, v) - np.maximum(top, y)).clip(0)
    return common / ((right - left) * (bottom - top) + (u - x) * (v - y) - common).clip(1e-9)


def fuse(parts) -> np.ndarray:
    """Boxes of several predictions, (parts, images, 6 x MAX_BOXES), as those of one."""
    if len(parts) == 1:
        return parts[0]
    each = np.stack([part.reshape(len(part), -1, 6) for part in parts], axis=1)  # (images, parts, boxes, 6)
    fused = np.zeros((len(each), plan.MAX_BOXES, 6), dtype=np.float32)
    for image, found in enumerate(each):
        origin, _ = there = np.nonzero(found[..., 0] > 0)
        boxes = fused_boxes(found[there], origin, len(parts))[: plan.MAX_BOXES]
        fused[image, : len(boxes)] = boxes
    return fused.reshape(len(fused), -1)


def fused_boxes(found: np.ndarray, origin: np.ndarray, parts: int) -> np.ndarray:
    """Boxes of a class that overlap a better one by FUSE_IOU stand for the same object. Of each part the best
    one there counts: their mean by score, and the mean of their scores, 0 of a part that has none. So does
    weighted boxes fusion (Solovyev et al., 2021), of all boxes there, which scored lower.

    origin   which part each box is from
    """
    order = np.argsort(-found[:, 0], kind="stable")
    found, origin = found[order], origin[order]
    alike = (overlaps(found[:, 2:], found[:, 2:]) > plan.FUSE_IOU) & (found[:, None, 1] == found[:, 1])
    leaders = np.full(len(found), -1)
    for place in range(len(found)):
        if leaders[place] < 0:
            leaders[alike[place] & (leaders < 0)] = place
            leaders[place] = place
    _, best = np.unique(leaders * parts + origin, return_index=True)
    first, member = np.unique(leaders[best], return_inverse=True)
    boxes, scores = found[first], found[best, 0]
    total = np.bincount(member, scores)
    for side in range(2, 6):
        boxes[:, side] = np.bincount(member, scores * found[best, side]) / total
    boxes[:, 0] = total / parts
    return boxes[np.argsort(-boxes[:, 0], kind="stable")]


def right_boxes(truth: np.ndarray, found: np.ndarray, ious) -> np.ndarray:
    """Whether each found box of an image, the best first, is right at each IoU, (ious, boxes). As COCO has
    it, each takes the true box of its class that it overlaps most, of those that no better one took."""
    right = np.zeros((len(ious), len(found)), dtype=bool)
    shared = overlaps(found[:, 2:], truth[:, 1:]) * (found[:, None, 1] == truth[:, 0])
    free = np.ones((len(ious), len(truth)), dtype=bool)
    for place in np.flatnonzero((shared >= min(ious)).any(axis=1)):
        left = np.where(free, shared[place], 0)
        right[:, place] = left.max(axis=1) >= ious
        free[right[:, place], left.argmax(axis=1)[right[:, place]]] = False
    return right


def ranked_boxes(targets: np.ndarray, predictions: np.ndarray, ious) -> Iterator[tuple[np.ndarray, int]]:
    """Of each class (whether each found box is right, (ious, boxes), the best first; its true boxes)."""
    found_in_order, right_in_order = [], []
    for truth, found in zip(targets, predictions.reshape(len(targets), -1, 6), strict=True):
        found = found[found[:, 0] > 0]
        found_in_order.append(found[np.argsort(-found[:, 0], kind="stable")])
        right_in_order.append(right_boxes(truth, found_in_order[-1], np.asarray(ious)))
    boxes, right = np.concatenate(found_in_order), np.hstack(right_in_order)
    true = np.concatenate([*targets])[:, 0]
    order = np.argsort(-boxes[:, 0], kind="stable")
    for kind in np.unique(true):
        yield right[:, order[boxes[order, 1] == kind]], int((true == kind).sum())


def score_map_iou(targets: np.ndarray, predictions: np.ndarray, percent: int = 0) -> float:
    """Mean over the classes: the area under the highest precision at each recall. Right is an IoU of so many
    percent, or K, or more."""
    ranked = ranked_boxes(targets, predictions, [(percent or plan.K) / 100])
    each = [(highest_precision(right) * right).sum() / true for right, true in ranked]
    return float(np.mean(each)) if each else 0.0


def highest_precision(right: np.ndarray) -> np.ndarray:
    """At the recall of each box, or a higher one."""
    precision = right.cumsum(axis=1) / np.arange(1, right.shape[1] + 1)
    return np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]


def score_map_coco(targets: np.ndarray, predictions: np.ndarray) -> float:
    """COCO's: mean over the classes, IoU 0.5, 0.55 ... 0.95, and precision at 101 places of recall."""
    each, places = [], np.linspace(0, 1, 101)
    for right, true in ranked_boxes(targets, predictions, np.linspace(0.5, 0.95, 10)):
        for recall, one in zip(right.cumsum(axis=1) / true, highest_precision(right), strict=True):
            each.append(np.append(one, 0)[np.searchsorted(recall, places)].mean())
    return float(np.mean(each)) if each else 0.0


def score_missed_boxes(targets: np.ndarray, predictions: np.ndarray) -> float:
    """One less the mean average precision at IoU 0.5."""
    return 1 - score_map_iou(targets, predictions, 50)


def no_boxes(targets: np.ndarray, width: int) -> np.ndarray:
    """What is predicted where nothing is known."""
    return np.zeros(6 * plan.MAX_BOXES, dtype=np.float32)


def write_held_out(data: Data) -> None:
    """oof.csv: what each fold found on the images that it did not learn from, in the submission's form."""
    rows, found = held_out_answers()
    table = table_of(data, [data.ids[row] for row in rows], found)
    write_table(table, state.out_dir / "oof.csv")


plan.BASELINE = ": no boxes, whose AP is 0; every fold that finds some is better"
plan.prior_of = no_boxes
plan.submission_of = lambda data, predictions: table_of(data, data.test_ids, predictions)
plan.fuse, plan.write_held_out = fuse, write_held_out
