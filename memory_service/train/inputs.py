"""Reads data of files and texts: what train.csv names, where its files lie, and what is predicted."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.reading import (
    Data,
    files_of,
    find_files,
    group_column,
    naming_columns,
    read_answers,
    table_data,
    target_columns,
)


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
    """The data of masks: `targets` are their paths, or run lengths where no folder train_masks is there but
    the column of the sample; empty where an image has none, so no object is on it. Folds have their shares
    of the masks' sizes: those of empty ones are small."""
    if sample is not None and len(sample.columns) != 2:
        raise ValueError(f"{list(sample.columns)} are not an id and run lengths: change read_data")
    train = train.drop_duplicates(train.columns[0])
    ids, test_ids = train.iloc[:, 0], (sample if test is None else test).iloc[:, 0].tolist()
    images = find_files("train", ids)
    column = "" if sample is None else sample.columns[1]
    if column in train.columns and not (plan.DATA_DIR / "train_masks").is_dir():
        masks = train[column].fillna("").astype(str).str.strip().tolist()
        sizes = [sum(map(int, mask.split()[1::2])) for mask in masks]
    else:
        masks = [str(path) if path.exists() else "" for path in find_files("train_masks", ids)]
        sizes = [os.path.getsize(path) if path else 0 for path in masks]
    if not any(masks):
        raise FileNotFoundError("no file of train_masks is named as an id of train.csv: change read_data")
    if "" in masks:
        told = f"{masks.count('')} of {len(masks)} images have no mask"
        print(f"WARNING: {told}: they count as without an object", flush=True)
    return table_data(
        train,
        test,
        sample,
        target_columns=["rle_mask" if sample is None else sample.columns[1]],
        inputs=images,
        targets=np.array(masks),
        strata=np.array(sizes)[:, None],
        outputs=["mask"],
        test_ids=test_ids,
        test_inputs=find_files("test", test_ids),
    )


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
