"""Writes what a run leaves, whole or not at all: the submission, answers of folds, out-of-fold tables."""

import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from memory_service.train.budget import plan, state
from memory_service.train.folder import find_roles
from memory_service.train.reading import WARNED, Data
from memory_service.train.submission_form import as_list, id_text, in_cells, told_form, with_ranks
from memory_service.train.table_files import columns_in, form_of, has_no_names, is_no_text


def save_result(fold: int | str, result: dict) -> None:
    """answers_K.npz: what `train_fold` and `predict_fold` returned for a fold that has ended."""
    temporary = state.out_dir / "answers.tmp"
    with open(temporary, "wb") as file:
        np.savez(file, **result)
    os.replace(temporary, state.out_dir / f"answers_{fold}.npz")


def load_result(fold: int | str) -> Any:
    """What `save_result` wrote, a dictionary. None where there is none, or half of a file."""
    try:
        with open(state.out_dir / f"answers_{fold}.npz", "rb") as file, np.load(file) as result:
            return dict(result)
    except (OSError, ValueError, EOFError, BadZipFile):
        return None


def held_out_answers() -> tuple[list[int], np.ndarray]:
    """(rows, their predictions) by the folds that did not learn from them."""
    found: dict[int, np.ndarray] = {}
    for path in sorted(state.out_dir.glob("answers_*.npz")):
        result = load_result(path.stem.removeprefix("answers_"))
        found |= dict(zip(result["rows"], result["valid"], strict=True))
    rows = sorted(found)
    return rows, np.array([found[row] for row in rows])


def write_table(table: pd.DataFrame, path: Path, **form: Any) -> None:
    """Whole or not at all."""
    began, temporary = time.monotonic(), path.with_name(f"{path.name}.tmp")
    table.to_csv(temporary, index=False, **form)
    os.replace(temporary, path)
    state.table_seconds = max(state.table_seconds, time.monotonic() - began)


def write_submission(data: Data, table: pd.DataFrame, folder: Path) -> None:
    """submission.csv as the sample has it: in its form and, where it has the same ids as often, its order."""
    table = table if plan.ranks is None else with_ranks(table)
    if plan.listed is not None:
        table = as_list(table)
    elif plan.cells is not None:
        table = in_cells(table)
    elif data.sample is not None:
        asked, given = occurrences(data.sample.iloc[:, 0]), occurrences(table.iloc[:, 0])
        place = given.get_indexer(asked)
        if len(asked) == len(given) and (place >= 0).all():
            table = table.iloc[place]
        elif not plan.fuse and "sample" not in WARNED:  # each box may have a row
            WARNED.add("sample")
            shared = f"{(place >= 0).sum()} of the {len(asked)} rows of sample_submission.csv are predicted"
            print(f"WARNING: {shared}: submission.csv has the {len(given)} of the test set, in its order")
    width, workbook, form = sample_form(plan.DATA_DIR) if plan.ANSWER != "masks" else (0, False, {})
    if width == table.shape[1] - 1:  # ids were made for it
        table = table.iloc[:, 1:]
    elif not (find_roles(plan.DATA_DIR).sample or any(told_form()[:2])):  # in another form than those known
        form = {}
    write_table(table, folder / "submission.csv", **form)
    if workbook:
        table.to_excel(folder / "submission.xlsx", index=False)


@lru_cache
def sample_form(folder: Path) -> tuple[int, bool, dict[str, Any]]:
    """(columns, whether it is a workbook, how its lines are written) of the sample, else of what
    the page shows, else of a file of answers that has no names, where test rows have no ids; 0 of none."""
    roles, (names, cells, mark) = find_roles(folder), told_form()
    if not roles.sample and (names or cells):
        return len(names or cells), False, {"header": bool(names), "sep": mark}
    sources = roles.sample or [each for each in roles.labels if not roles.ids and has_no_names(each)]
    if not sources:
        return 0, False, {}
    form = {} if is_no_text(sources[0]) else form_of(sources[0].path)
    mark, point = form.get("sep", ",").replace(r"\s+", " "), form.get("decimal", ".")
    how = {"header": "header" not in form, "decimal": point, "sep": mark}
    return len(columns_in(sources[0])), sources[0].path.suffix.lower() == ".xlsx", how


def occurrences(ids) -> pd.MultiIndex:
    """Of each row its id, and how many rows before have the same."""
    names = pd.Series([str(name) for name in ids], dtype=object)
    return pd.MultiIndex.from_arrays([names, names.groupby(names).cumcount()])


def columns_of(classes: list[str], columns: list[str]) -> dict[str, str]:
    """Class -> the sample's column, where it has not the class's name: the one that begins or ends with it,
    of several names the longest (prob_cat); where that is not one to one they are taken in their order."""
    if set(classes) <= set(columns):
        return {}
    found: dict[str, list[str]] = {name: [] for name in classes}
    for column in columns:
        written = column.lower()
        alike = [n for n in classes if written.startswith(n.lower()) or written.endswith(n.lower())]
        if alike:
            found[max(alike, key=len)].append(column)
    taken, how = {name: each[0] for name, each in found.items() if len(each) == 1}, "NOTE: taken by name"
    if len(taken) < len(classes):
        if len(classes) != len(columns):
            told = f"the sample has the columns {columns[:9]}, the classes are {classes[:9]}"
            raise ValueError(f"{told}: change read_data or submission_of")
        taken = dict(zip(classes, columns, strict=True))
        how = "WARNING: the sample names other classes, taken in this order"
    if "classes" not in WARNED:
        WARNED.add("classes")
        print(f"{how}: {taken}", flush=True)
    return taken


def write_baseline(data: Data) -> None:
    """A submission that needs no model, so that there is one whatever happens."""
    if plan.ANSWER == "masks":  # no object on any
        table = mask_table(data, ["\n" * (len(data.outputs) - 1)] * len(data.test_ids))
    elif plan.baseline_table:
        table = plan.baseline_table(data)
    else:
        constant = np.tile(plan.prior_of(data.targets, len(data.outputs)), (len(data.test_ids), 1))
        table = plan.submission_of(data, constant)
    write_submission(data, table, state.out_dir)
    print(f"Baseline submission written{plan.BASELINE}", flush=True)


def write_answers(data: Data, rows: np.ndarray, held_out: np.ndarray, test: np.ndarray) -> None:
    """oof.csv, of these rows, and test_predictions.csv: blend.py joins them with other runs'."""
    names, order = [f"p_{name}" for name in data.outputs], np.argsort(rows, kind="stable")
    oof, truth = pd.DataFrame(held_out[order], columns=names), data.targets[rows[order]]
    if truth.ndim == 1 and len(data.target_columns) > 1:
        truth = np.eye(len(data.outputs), dtype=int)[truth]
    elif truth.ndim == 1:
        truth = np.array(data.outputs, dtype=object)[truth][:, None]
    for place, name in enumerate(data.target_columns):
        oof.insert(place, f"true_{name}", truth[:, place])
    oof.insert(0, data.id_column, [data.ids[row] for row in rows[order]])
    asked = pd.DataFrame(test, columns=names)
    asked.insert(0, data.id_column, data.test_ids)
    write_table(oof, state.out_dir / "oof.csv")
    write_table(asked, state.out_dir / "test_predictions.csv")


def mask_table(data: Data, encoded: list[str]) -> pd.DataFrame:
    """The submission of masks, of each image a text with a line for each kind."""
    rows = mask_rows(data)
    texts = [encoded[image].split("\n")[kind] for image, kind in rows]
    if data.sample is None or len(data.outputs) == 1:
        ids = [f"{one}_{kind}" for one in data.test_ids for kind in data.outputs]
        ids = data.test_ids if len(data.outputs) == 1 else ids
        return pd.DataFrame({data.id_column: ids, data.target_columns[0]: texts})
    return data.sample.assign(**{data.target_columns[0]: texts})


def mask_rows(data: Data) -> list[tuple[int, int]]:
    """(place of the image, of the kind) of each row of a submission, in the order of the sample."""
    kinds = range(len(data.outputs))
    if data.sample is None or len(data.outputs) == 1:
        return [(image, kind) for image in range(len(data.test_ids)) for kind in kinds]
    asked = data.sample.iloc[:, 0].astype(str)
    if len(data.sample.columns) == 3:
        asked += "_" + id_text(data.sample.iloc[:, 1].astype(object).fillna(""))
    images = enumerate(data.test_ids)
    places = {f"{one}_{name}": (at, of) for at, one in images for of, name in enumerate(data.outputs)}
    return [places[each] for each in asked]


def run_lengths(mask: np.ndarray) -> str:
    """`start length` pairs down the columns, counted from 1."""
    pixels = np.concatenate([[False], mask.T.flatten(), [False]])
    changes = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    changes[1::2] -= changes[::2]
    return " ".join(map(str, changes))


def with_earlier(data: Data, encoded: list[str | None]) -> list[str]:
    """Run lengths of the test masks; of None, which the time did not allow, those that submission.csv has."""
    path, empty = state.out_dir / "submission.csv", "\n" * (len(data.outputs) - 1)
    before = [empty.split("\n") for _ in encoded]
    if None in encoded and path.exists():
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        known = {row[:-1]: row[-1] for row in table.itertuples(index=False, name=None)}
        keys = mask_table(data, [empty] * len(encoded)).iloc[:, :-1].astype(str)
        rows = zip(mask_rows(data), keys.itertuples(index=False, name=None), strict=True)
        for (image, kind), key in rows:
            before[image][kind] = known.get(key, "")
    return ["\n".join(old) if text is None else text for old, text in zip(before, encoded, strict=True)]


def add_out_of_fold(data: Data, found: dict[str, list[str]]) -> None:
    """The same of masks: (true, predicted) texts by id, or id and kind, beside what oof.csv has of other
    folds."""
    path, name, ids = state.out_dir / "oof.csv", data.target_columns[0], data.ids
    if len(data.outputs) > 1:
        ids = [f"{one}_{kind}" for one in data.ids for kind in data.outputs]
        lines = {one: [text.split("\n") for text in texts] for one, texts in found.items()}
        pairs = [(place, kind, one) for one in lines for place, kind in enumerate(data.outputs)]
        found = {f"{one}_{kind}": [text[place] for text in lines[one]] for place, kind, one in pairs}
    if path.exists():
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        found = {one: texts for one, *texts in table.itertuples(index=False)} | found
    ids = [one for one in ids if one in found]
    oof = pd.DataFrame([found[one] for one in ids], columns=[f"true_{name}", f"p_{name}"])
    oof.insert(0, data.id_column, ids)
    write_table(oof, path)
