"""Keypoints: coordinates in columns or in lists of a cell, and how they are read, scored and submitted."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.reading import Data, files_of, table_data, target_columns, without_missing

AXIS = re.compile(r"(?:^|[\W_\d])([xyXY])(?=$|[\W_\d])|(?<=[a-z])([XY])(?=$|[\W_\d])")
LIST = re.compile(r"[\s\d.,;eE+\-\[\]()nauloeNAULOE]+")
IN_A_LIST = re.compile(r"nan|none|null|-?\d{1,9}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?", re.IGNORECASE)
OF_COLUMNS = ("rmse_columns", "rmsle", "rmse_logs", "r2", "spearman", "pearson")  # scores: means over them


def axes_of(names: list) -> list[int]:
    """0 of a column of x, 1 of y; nothing where they are not as many of each, by the same names."""
    found = [AXIS.search(str(name)) for name in names]
    if not names or not all(found):
        return []
    axes = ["xy".index((each[1] or each[2]).lower()) for each in found if each]
    rest = [AXIS.sub(" ", str(name)) for name in names]
    points = [{name for name, one in zip(rest, axes, strict=True) if one == axis} for axis in (0, 1)]
    return axes if points[0] == points[1] and 2 * len(points[0]) == len(names) else []


def points_in_cells(column: pd.Series) -> np.ndarray | None:
    """(rows, coordinates) of lists of as many numbers, NaN where a point is not there: of triples x, y, v
    those of v = 0 are not. None where cells are no such lists."""
    cells = column.dropna().astype(str)
    if not len(cells) or pd.api.types.is_numeric_dtype(column) or not cells.str.fullmatch(LIST).all():
        return None
    lists = [IN_A_LIST.findall(str(cell)) for cell in column]
    width = max(map(len, lists))
    if width < 2 or 10 * sum(len(each) == width for each in lists) < 9 * len(cells):
        return None
    empty = ["nan"] * width
    values = pd.DataFrame([each if len(each) == width else empty for each in lists])
    points = values.apply(pd.to_numeric, errors="coerce").to_numpy(float)
    marks = points[:, 2::3][np.isfinite(points[:, 2::3])]
    plan.TRIPLES = width % 3 == 0 and bool(np.isin(marks, (0, 1, 2)).all())
    if plan.TRIPLES:
        places = points.reshape(len(points), -1, 3)
        return np.where(places[..., 2:] > 0, places[..., :2], np.nan).reshape(len(points), -1)
    return points if width % 2 == 0 else None


def read_keypoints(train: pd.DataFrame, test, sample) -> Data:
    """The data of pictures with keypoints; `targets` are pixels, NaN where a point is not seen."""
    columns = target_columns(train, test, sample)
    points = points_in_cells(train[columns[0]]) if len(columns) == 1 else None
    names = columns
    if points is not None:
        names = [f"{columns[0]}_{place // 2}_{'xy'[place % 2]}" for place in range(points.shape[1])]
        shown = [*([] if sample is None else sample.iloc[:1, 1]), train[columns[0]].dropna().iloc[0]]
        plan.SHOWN = next((str(cell).strip() for cell in shown if len(str(cell)) > 4), "")
        plan.submission_of = list_table
    else:
        points = train[columns].apply(pd.to_numeric, errors="coerce").to_numpy(float)
    plan.AXES = axes_of(names) or [0, 1] * (len(names) // 2)
    if len(plan.AXES) != points.shape[1]:
        raise ValueError(f"{', '.join(map(str, columns[:9]))} are no pairs of x and y: change read_data")
    seen = np.isfinite(points).any(axis=1)
    known = without_missing(train, pd.Series(seen, train.index), columns)
    plan.SHARES = bool(np.nanmax(np.abs(points)) <= 1.5)
    plan.score_of = of_seen(plan.score_of)
    paths = {"inputs": files_of("train", known)}
    paths["test_inputs"] = files_of("test", sample if test is None else test)
    points = points[seen]
    if plan.file_members:  # they learn shares of the sides, the usual ones of points that are not seen
        sides, pixels = (np.array([size_of(path) for path in each])[:, plan.AXES] for each in paths.values())
        points = np.where(np.isfinite(points), points / sides, np.nanmean(points / sides, axis=0))
        table = plan.submission_of
        plan.submission_of = lambda data, found: table(data, found * np.nan_to_num(pixels, nan=1.0))
    asked = {"target_columns": names, "targets": points.astype(np.float32), "outputs": names}
    return table_data(known, test, sample, **asked, **paths)


@cache
def size_of(path: Path) -> tuple[float, float]:
    """(width, height) that coordinates count in, upright; 1 of shares, NaN of what cannot be read."""
    from PIL import Image

    if plan.SHARES:
        return 1.0, 1.0
    if plan.BANDS:
        with suppress(Exception):
            return plan.read_image(path).size
    with suppress(Exception), Image.open(path) as image:
        width, height = image.size[::-1] if image.getexif().get(274, 1) > 4 else image.size
        return float(width), float(height)
    return np.nan, np.nan


def of_seen(score: Callable[[np.ndarray, np.ndarray], float]) -> Callable[[np.ndarray, np.ndarray], float]:
    """The score of the coordinates that are known."""

    def judged(truth: np.ndarray, found: np.ndarray) -> float:
        known = np.isfinite(truth)
        if known.all():
            return score(truth, found)
        if plan.SCORE not in OF_COLUMNS:
            return score(truth[known][:, None], found[known][:, None])
        columns = [(known[:, place], [place]) for place in np.flatnonzero(known.any(axis=0))]
        return float(np.mean([score(truth[there][:, one], found[there][:, one]) for there, one in columns]))

    return judged


def list_table(data: Data, predictions: np.ndarray) -> pd.DataFrame:
    """Coordinates of a row in one cell, written as SHOWN; of triples all are seen."""
    points = predictions.reshape(len(predictions), -1, 2)
    if plan.TRIPLES:
        points = np.concatenate([points, np.ones((*points.shape[:2], 1))], axis=2)
    between = ", " if "," in plan.SHOWN else " "
    nested, listed = re.match(r"\W{2}", plan.SHOWN) is not None, plan.SHOWN[:1] in ("[", "(")
    cells = []
    for row in points:
        texts = [between.join(f"{value:.6g}" for value in point) for point in row]
        cell = between.join(f"[{text}]" if nested else text for text in texts)
        cells.append(f"[{cell}]" if listed else cell)
    column = data.target_columns[0] if data.sample is None else data.sample.columns[1]
    return pd.DataFrame({data.id_column: data.test_ids, column: cells})
