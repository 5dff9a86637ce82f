"""Reads data of files and texts: what train.csv names, where its files lie, and what is predicted."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.reading import (
    RUNS,
    Data,
    files_of,
    find_files,
    group_column,
    look_up,
    naming_columns,
    read_answers,
    table_data,
    target_columns,
)

MOST_KINDS = 50  # of masks
NO_RUNS = ("-1", "-1.0", "nan", "0")  # of no object


def read_files(train: pd.DataFrame, test, sample) -> Data:
    """The data of pictures or sounds, `inputs` are paths; where groups are to be matched, whole groups
    validate."""
    given = {*target_columns(train, test, sample), *naming_columns(train), train.columns[0]}
    given |= {group_column(train)}
    train, columns, targets, outputs = read_answers(train, test, sample)
    asked, more = (sample if test is None else test), dict[str, Any]()
    if plan.ANSWER == "matches":
        more["groups"] = targets
        shown = set() if sample is None else {*" ".join(sample.iloc[:, 1].dropna().astype(str)).split()}
        if shown and not shown & set(asked.iloc[:, 0]):
            told = f"the sample shows no ids of test images, but {', '.join(sorted(shown)[:5])}"
            raise ValueError(f"{told}: for groups of train.csv plan image-classification")
    more |= {"inputs": files_of("train", train), "test_inputs": files_of("test", asked)}
    others = [name for name in train.columns if test is not None and name in test.columns]
    if others := [name for name in others if name not in given]:
        more["beside"] = pd.concat([train[others], test[others]], ignore_index=True)
    return table_data(train, test, sample, target_columns=columns, targets=targets, outputs=outputs, **more)


def read_masks(train: pd.DataFrame, test, sample) -> Data:
    """The data of masks: of each image a text with a line for each kind: a path, run lengths where train.csv
    has the column of the sample and no folder train_masks is there, or nothing: no object is on it. Kinds are
    a column between, or ids such as <image>_<kind>. Folds have their shares of the masks' sizes: those of
    empty ones are small."""
    drawn = not (plan.DATA_DIR / "train_masks").is_dir()
    asked, kinds = (sample if test is None else test), mask_kinds(sample)
    if kinds is None and sample is not None and len(sample.columns) != 2:
        raise ValueError(f"{list(sample.columns)} are not an id, a kind and run lengths: change read_data")
    if kinds is not None:
        asked = kinds.drop_duplicates("image")
        known = mask_kinds(train) if drawn else None
        train = train.drop_duplicates(train.columns[0]) if known is None else known.drop_duplicates("image")
    else:
        train = train.drop_duplicates(train.columns[0])
    names = ["mask"] if kinds is None else list(dict.fromkeys(kinds["kind"]))
    plan.MASKS = len(names)
    ids, test_ids = train.iloc[:, 0], asked.iloc[:, 0].tolist()
    column = "" if sample is None else sample.columns[-1]
    if kinds is not None and drawn:
        if known is None:
            raise ValueError("train.csv has no rows of images and kinds, as the sample has: change read_data")
        runs = dict(zip(zip(known["image"], known["kind"], strict=True), known["runs"], strict=True))
        parts = [[runs.get((name, kind), "") for kind in names] for name in ids]
    elif drawn and column in train.columns:
        parts = [[runs] for runs in runs_in(train[column])]
    else:
        values = {n: n if n.isdigit() and int(n) else str(place + 1) for place, n in enumerate(names)}
        ends = [""] if kinds is None else [f"#{values[name]}" for name in names]
        paths = [str(path) if path.exists() else "" for path in find_files("train_masks", ids)]
        parts = [[path and path + end for end in ends] for path in paths]
    sizes = [sum(map(size_of_mask, each)) for each in parts]
    empty = sum(not any(each) for each in parts)
    if empty == len(parts):
        told = f"{column} of train.csv has no run lengths" if drawn and column in train.columns else ""
        told = told or "no file of train_masks is named as an id of train.csv"
        raise FileNotFoundError(f"{told}: change read_data")
    if empty:
        print(
            f"WARNING: {empty} of {len(parts)} images have no mask: they count as without an object",
            flush=True,
        )
    return table_data(
        train,
        test,
        sample,
        target_columns=["rle_mask" if sample is None else column],
        ids=ids.tolist(),
        inputs=find_files("train", ids),
        targets=np.array(["\n".join(each) for each in parts]),
        strata=np.array(sizes)[:, None],
        outputs=names,
        test_ids=test_ids,
        test_inputs=find_files("test", test_ids),
    )


def mask_kinds(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """(image, kind, runs) of a table that has a row for each image and kind; None where it has one kind."""
    if table is None or len(table.columns) < 2:
        return None
    first, last = table.columns[0], table.columns[-1]
    if len(table.columns) == 3:
        image, kind = table[first], table.iloc[:, 1].astype(str)
    else:  # <image>_<kind>, where no file has that name
        with suppress(FileNotFoundError):
            if any(look_up("test", table[first].head(50))[1]) or any(
                look_up("train", table[first].head(50))[1]
            ):
                return None
        image, kind = (table[first].str.rpartition("_")[place] for place in (0, 2))
    if not 2 <= kind.nunique() <= MOST_KINDS:
        return None
    return pd.DataFrame({"image": image, "kind": kind, "runs": runs_in(table[last])})


def runs_in(column: pd.Series) -> list[str]:
    """Run lengths with single spaces; nothing where it has none, or "-1"."""
    texts = [" ".join(text.split()) for text in column.astype(object).fillna("").astype(str)]
    if other := [text for text in texts if text and text not in NO_RUNS and not RUNS.fullmatch(text)]:
        told = f"{len(other)} masks of {column.name} are no run lengths, as {other[0]:.50}"
        print(f"WARNING: {told}: they count as without an object", flush=True)
    return [text if RUNS.fullmatch(text) else "" for text in texts]


def size_of_mask(text: str) -> int:
    """Pixels of run lengths, bytes of a file."""
    if RUNS.fullmatch(text):
        return sum(map(int, text.split()[1::2]))
    return os.path.getsize(text.partition("#")[0]) if text else 0


def read_texts(train: pd.DataFrame, test, sample) -> Data:
    """The data of texts, `inputs` are texts: the column `text` or else columns of text as one, those that are
    far shorter left out; of pairs all columns of text."""
    train, columns, targets, outputs = read_answers(train, test, sample)
    inputs = [name for name in train.columns[1:] if name in test.columns and name not in columns]
    inputs = [name for name in inputs if not pd.api.types.is_numeric_dtype(train[name])]
    if not inputs:
        raise ValueError("train.csv and test.csv share no column of text: change read_data")
    if not plan.PAIRS:
        lengths = {name: sum(map(len, texts_in(train[name]))) for name in inputs}
        read = [name for name in inputs if 10 * lengths[name] >= max(lengths.values())]
        read = ["text"] if "text" in inputs else read
        others = [name for name in inputs if name not in read]
        if others or len(read) > 1:
            ignored = f"; not read: {', '.join(others)}" if others else ""
            print(f"NOTE: the texts are {', '.join(read)}{ignored} (see read_data)", flush=True)
        inputs = read
    texts = {"inputs": joined(train[inputs]), "test_inputs": joined(test[inputs])}
    return table_data(train, test, sample, target_columns=columns, targets=targets, outputs=outputs, **texts)


def texts_in(column: pd.Series) -> list[str]:
    return ["" if pd.isna(value) else str(value) for value in column]


def joined(columns: pd.DataFrame) -> list[str]:
    """The texts of each row as one."""
    rows = zip(*(texts_in(columns[name]) for name in columns), strict=True)
    return [(plan.between() if plan.PAIRS else " | ").join(row) for row in rows]
