"""Reads data of files and texts: what train.csv names, where its files lie, and what is predicted."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.folder import masked
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
    unnamed,
)
from memory_service.train.submission_form import id_text
from memory_service.train.table_files import IMAGE_FILES

MOST_KINDS = 50  # of masks
NO_RUNS = ("-1", "-1.0", "nan", "0")  # of no object


def read_files(train: pd.DataFrame, test, sample) -> Data:
    """The data of pictures or sounds, `inputs` are paths; where groups are matched, whole ones validate."""
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
    drawn = not (plan.DATA_DIR / "train_masks").is_dir() and masked(plan.DATA_DIR) is None
    rows, kinds = (sample if test is None else test), mask_kinds(sample)
    if kinds is None and sample is not None and len(sample.columns) != 2:
        raise ValueError(f"{list(sample.columns)} are not an id, a kind and run lengths: change read_data")
    names, known = ["mask"], None
    if kinds is not None and sample is not None:
        rows, names = kinds.drop_duplicates("image"), list(dict.fromkeys(kinds["kind"]))
        if drawn and {*sample.columns} <= {*train.columns}:
            known = mask_kinds(train[list(sample.columns)], names)
            own = [name for name in train.columns if name != sample.columns[0]]
            train = pd.concat([known["image"].rename(sample.columns[0]), train[own]], axis=1)  # type: ignore[index]
        elif drawn and sample.columns[-1] in train.columns:  # the kind is a column of its own
            kind = [each for each in train if set() < {*id_text(train[each].dropna())} <= {*names}][:1]
            known = mask_kinds(train[[train.columns[0], *kind, sample.columns[-1]]], names) if kind else None
            if known is not None and known["runs"].all():  # others have no object
                more = {train.columns[0]: unnamed("train", train.iloc[:, 0].unique())}
                train = pd.concat([train, pd.DataFrame(more, dtype=object)], ignore_index=True)
    train = train.drop_duplicates(train.columns[0])
    plan.MASKS = len(names)
    ids, test_ids = train.iloc[:, 0], rows.iloc[:, 0].tolist()
    column = "" if sample is None else sample.columns[-1]
    if kinds is not None and drawn:
        if known is None:
            missing = [name for name in sample.columns if name not in train.columns]
            raise ValueError(f"train.csv has no column {', '.join(missing)} of the sample: change read_data")
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
        told = f"{empty} of {len(parts)} images have no mask"
        print(f"WARNING: {told}: they count as without an object", flush=True)
    asked = {"target_columns": ["rle_mask" if sample is None else column], "ids": ids.tolist()}
    asked |= {"inputs": find_files("train", ids), "targets": np.array(["\n".join(each) for each in parts])}
    asked |= {"strata": np.array(sizes)[:, None], "outputs": names, "test_ids": test_ids}
    return table_data(train, test, sample, test_inputs=find_files("test", test_ids), **asked)


def mask_kinds(table: pd.DataFrame | None, known: Sequence[str] = ()) -> pd.DataFrame | None:
    """(image, kind, runs) of a table that has a row for each image and kind; None where it has one kind.

    known   kinds that are asked for
    """
    if table is None or not 2 <= len(table.columns) <= 3:
        return None
    image, kind = table.iloc[:, 0].astype(str), table.iloc[:, 1]
    if len(table.columns) == 3:
        kind = id_text(kind.astype(object).fillna(""))
        kinds = kind.unique()
    else:  # <image>_<kind>
        kinds = known or kinds_of_ids(image)
        kinds = sorted(kinds, key=len, reverse=True)  # of small_bowel and bowel the first
        ends = [next((end for end in kinds if name.endswith(f"_{end}")), "") for name in image]
        cuts = [end or name.rpartition("_")[2] for name, end in zip(image, ends, strict=True)]
        kind = pd.Series(cuts, image.index, dtype=object)
        image = pd.Series([name[: -len(end) - 1] for name, end in zip(image, cuts, strict=True)], image.index)
    if not known and not 2 <= len(kinds) <= MOST_KINDS:
        return None
    return pd.DataFrame({"image": image, "kind": kind, "runs": runs_in(table.iloc[:, -1])})


def kinds_of_ids(ids: pd.Series) -> set[str]:
    """The kinds of ids such as <image>_<kind>; none where ids name files themselves."""
    begins = {
        name: [name[:at] for at in range(len(name), 0, -1) if f"{name}_"[at] == "_"] for name in ids.unique()
    }
    asked, files = sorted({each for parts in begins.values() for each in parts}), set[str]()
    for folder in ("test", "train"):
        with suppress(FileNotFoundError):
            paths = look_up(folder, asked)[1]
            files |= {name for name, path in zip(asked, paths, strict=True) if path and names_it(name, path)}
    if 2 * sum(name in files for name in ids) > len(ids):
        return set()
    longest = {name: next((each for each in parts if each in files), None) for name, parts in begins.items()}
    found = {name[len(begin) + 1 :] for name, begin in longest.items() if begin and begin != name}
    return found or {name.rpartition("_")[2] for name in ids}


def names_it(name: str, path: Path) -> bool:
    """Whether it is the file's name, with its ending, another one of pictures, or none."""
    own = Path(name)
    return own.name in (path.name, path.stem) or (own.suffix in IMAGE_FILES and own.stem == path.stem)


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
    """The data of texts: the column `text`, else columns of text as one; of pairs all columns of text."""
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
