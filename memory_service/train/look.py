"""What a folder of data says of its problem, in about a second: nothing but these facts leaves the box."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.columns import IDS, column_kind, is_later, new_groups
from memory_service.train.detection import BOX_NUMBERS, box_facts
from memory_service.train.folder import VALID, find_roles, masked, name_words, not_understood, opened
from memory_service.train.media_files import sound_seconds
from memory_service.train.points import AXIS, axes_of, points_in_cells
from memory_service.train.reading import (
    as_days,
    files_of,
    keep_first,
    labels_in_cells,
    naming_columns,
    read_parts,
    target_columns,
    three_tables,
    unnamed,
)
from memory_service.train.side_tables import side_files
from memory_service.train.table_files import IMAGE_FILES, SOUND_FILES
from memory_service.train.transcripts import TRANSCRIPT, are_transcripts, question_column, transcript_column

MOST_ROWS = 50_000  # that are looked at
MOST_FILES = 30
MOST_KEYS = 4  # columns that name a series
WITH_TEXT = 3  # further columns, none of numbers, beside which a text says the most
FEW_ANSWERS = 20  # to a question about a picture: else they are classes
FEW_SPANS = 50  # different targets, which may be classes that texts name
FEW_CLASSES = 15  # distinct whole numbers of a target that may be classes


def describe(folder: Path, target: str = "") -> dict[str, Any]:
    """Facts of train.csv, test.csv, sample_submission.csv and the files beside them.

    target   the column to predict, where the sample does not say

    Raises FileNotFoundError where no table is that of training rows, ValueError where no column is to be
    predicted. `task`, `n_train`, `n_test`, `n_classes`, `n_features`, `image_size`, `seq_len` and `group_by`
    are fields of a question of /recommend.

    >>> describe(Path("data"))  # doctest: +SKIP
    {'task': 'tabular-classification', 'n_train': 18310, 'target': ['died'], 'n_classes': 2, ...}
    """
    folder = opened(folder)
    plan.DATA_DIR, plan.TARGET = folder, target
    train, test, sample = three_tables(MOST_FILES)
    if train is None:
        raise FileNotFoundError(not_understood(folder))
    targets = target_columns(train, test, sample)
    asked = test if test is not None else sample
    parts = find_roles(folder).train
    validation = [part for part in parts if VALID & {*name_words(f"{part.path.name} {part.part}")}]
    known = int(train[targets].notna().any(axis=1).sum()) if targets else len(train)
    found: dict[str, Any] = {"n_train": known, "target": targets[:20]}
    found |= {} if asked is None else {"n_test": len(asked)}
    if validation and (rows := len(read_parts(validation))) < known:
        found |= {"n_train": known - rows, "n_validation": rows}
    if others := [part.path.name for parts in side_files(folder).values() for part in parts]:
        found["further_tables"] = others
    what = what_files(folder, train.head(MOST_ROWS))
    if test is not None and what is None:
        keep_first(train, test)
    some = train.head(MOST_ROWS)
    shared = [name for name in train.columns[1:] if test is not None and name in test.columns]
    inputs = [name for name in shared if name not in targets]
    kinds = {name: column_kind(some[name]) for name in inputs}
    found["columns"] = kinds
    if test is None and sample is not None and what is None and asks_for_items(train, sample):
        return {"n_train": len(train), "n_test": len(sample), "task": "recommendation", "columns": {}}
    if not targets and (what is None or what["modality"] != "masks"):
        asked_for = "" if sample is None else f" as {', '.join(map(str, sample.columns[1:6]))} of the sample"
        told = f"no column of train.csv is known{asked_for} or is not in test.csv, too"
        raise ValueError(f"what is to be predicted is not found: {told}: name it by --target (there are "
                         f"{', '.join(map(str, train.columns[:20]))}), in train.py as TARGET")  # fmt: skip
    there = targets and not target and test is not None and {*targets} <= {*test.columns}
    if there and test[targets].nunique().max() > 1:
        raise ValueError(f"{', '.join(targets[:12])} is known of rows to predict: name another by --target")
    unlike = {column_kind(some[name]) for name in targets} if what is None and len(targets) > 1 else set()
    unlike |= {str(name) for name in targets if unlike and IDS.search(str(name))}
    if len(unlike) > 1 and (sample is None or not {*targets} & {*sample.columns}):
        raise ValueError(
            f"which of {', '.join(map(str, targets[:12]))} is to be predicted: name it by --target"
        )
    if what is None and len(targets) == 1 and (whole := part_of_text(some, targets[0], inputs)):
        raise ValueError(f"{targets[0]} is a part of the text {whole}: no script cuts parts out of texts yet")
    answer = {"answer": "values"} if "qid" in kinds else target_facts(some, targets, sample)  # in order
    found |= answer
    axes = sum(AXIS.search(str(name)) is not None for name in targets)  # of points, if over four
    pictures = what is not None and what["modality"] == "image"
    boxes = box_facts(train, targets) if pictures and axes <= BOX_NUMBERS else {}
    if what is not None:
        found |= what
        if what["modality"] == "image" and len(targets) == 1 and are_run_lengths(some[targets[0]]):
            found["modality"] = "masks"
        task = found["modality"]
        if boxes:
            ids = train.iloc[:, 0].drop_duplicates()
            boxes["n_train"] = len(ids) + len(unnamed("train", ids))
            found |= boxes | ({} if asked is None else {"n_test": asked.iloc[:, 0].nunique()})
        elif task == "image" and are_points(some, targets):
            found["task"] = "image-keypoints"
        elif targets and (written := task_of_texts(task, some, asked, transcript_column(some, targets))):
            found |= {"task": written, "target": [transcript_column(some, targets)]}
        if task == "image" and "image_size" in found:  # no network takes smaller ones: they are enlarged
            found["image_size"] = max(32, found["image_size"])
            plain = {*kinds} - {*naming_columns(some)}
            if "text" in {kinds[name] for name in plain} and not found.get("task"):
                task = "multimodal"
    else:
        found |= {"n_features": len(kinds)} if kinds else {}
        others = [name for name, kind in kinds.items() if kind != "text"]
        texts = [name for name, kind in kinds.items() if kind == "text"]
        few = len(others) <= WITH_TEXT and all(kinds[name] == "category" for name in others)
        task = "text" if texts and (few or len(others) <= 1) else "tabular"
        if plan.STEPS and answer["answer"] == "classes":
            task = "time-series"
        if texts:
            found["texts"] = texts
            words = some[texts[0]].dropna().astype(str).str.split().str.len()
            found["seq_len"] = int(min(512, max(16, 1.5 * words.quantile(0.95))))
        if asked is None or not (kinds or "further_tables" in found):
            told = f"no column to learn from: the rows to predict have none of {list(train.columns[:9])}"
            raise ValueError(f"{told}: name tables train.csv and test.csv, or sort files into train/, test/")
        found |= time_facts(some, asked, kinds)
        series = found.pop("is_series", False) and found["test_is_later"] and task != "text"
        if series and answer["answer"] == "values":
            task = "time-series"
    groups = [] if test is None else new_groups(train, test, kinds)
    for name in train.columns[1:]:
        rows, values = train[name].count(), train[name].nunique()
        several = 3 * found.get("n_classes", 2) <= values <= rows / 2 and IDS.search(str(name))
        groups += [name] if several and name not in (*inputs, *targets) else []
    found |= {"group_by": groups[0]} if groups else {}
    kind = "regression" if answer["answer"] == "values" else "classification"
    if task == "masks":
        found |= {"n_train": len(train), "answer": "masks", "n_classes": 2}  # of no object there is none
        found.pop("rarest_class", None)
    if found.get("task"):  # texts, points or boxes
        answer_of = boxes or {"answer": "values" if found["task"] == "image-keypoints" else "texts"}
        return {name: each for name, each in found.items() if name not in OF_CLASSES} | answer_of
    found["task"] = {"masks": "image-segmentation", "multimodal": task}.get(task, f"{task}-{kind}")
    return found


def part_of_text(train: pd.DataFrame, target: str, inputs: list) -> str:
    """The column whose text has the target in it, one of many; "" where there is none."""
    known = train[train[target].map(lambda cell: isinstance(cell, str))].head(1000)
    for name in inputs if known[target].nunique() > max(FEW_SPANS, len(known) / 4) else ():
        if np.mean([part in str(text) for text, part in zip(known[name], known[target], strict=True)]) > 0.95:
            return str(name)
    return ""


def asks_for_items(train: pd.DataFrame, sample) -> bool:
    """Whether train.csv has several rows a user, each of an item, and the sample items between spaces."""
    user, cells = str(sample.columns[0]), sample.iloc[:200, -1].dropna().astype(str)
    shown = {word.lstrip("0") for cell in cells for word in cell.split()}
    if sample.shape[1] != 2 or cells.str.count(" ").mean() < 1 or user not in train or train[user].is_unique:
        return False
    others = (train[name].dropna().astype(str).str.lstrip("0") for name in train if name != user)
    return any(len(shown & {*column}) > len(shown) / 2 for column in others)


def target_facts(train: pd.DataFrame, targets: list[str], sample=None) -> dict[str, Any]:
    """answer: values, classes or labels; of classes their number, rarest share, if they are numbers."""
    columns = train[targets].dropna()  # rows without an answer say nothing of it
    numbers = columns.apply(pd.to_numeric, errors="coerce")
    if not targets:
        return {"answer": "masks"}
    if len(targets) > 1 and numbers.dropna().isin([0, 1]).all(axis=None):
        return {"answer": "labels", "n_classes": len(targets)}
    one = columns.iloc[:, 0].dropna()
    whole = bool((numbers.iloc[:, 0].dropna() % 1 == 0).all())
    shown = pd.Series() if sample is None or sample.shape[1] != 2 or len(targets) > 1 else sample.iloc[:, 1]
    several = whole and shown.astype(str).str.fullmatch(r"\d+(?: \d+)+").mean() > 0.9
    fractions = bool((pd.to_numeric(shown, errors="coerce").dropna() % 1 != 0).any())
    many = not whole or one.nunique() > (2 if fractions else FEW_CLASSES)
    if numbers.notna().mean().min() > 0.99 and many and not several:
        return {"answer": "values"}
    if (labels := labels_in_cells(one)) is not None:
        return {"answer": "labels", "n_classes": labels.shape[1]}
    shares = one.value_counts(normalize=True)
    return {
        "answer": "classes",
        "n_classes": int(one.nunique()),
        "rarest_class": round(float(shares.min()), 5),
        **({"numbered": True} if len(shares) > 2 and not several and numbers.notna().all(axis=None) else {}),
    }


def are_points(train: pd.DataFrame, targets: list[str]) -> bool:
    """Whether the targets are columns of x and y by their names, or lists, one of a picture."""
    one = train[targets[0]]
    lists = len(targets) == 1 and bool(one.dropna().astype(str).str.match(r"[\[(]").all())
    return bool(axes_of(targets)) or (
        lists and train.iloc[:, 0].is_unique and points_in_cells(one) is not None
    )


def task_of_texts(modality: str, train: pd.DataFrame, asked: pd.DataFrame | None, column: str) -> str:
    """Of files whose column is a text to write: what they hold, or their answer to a question; else ""."""
    if modality == "image" and not pd.api.types.is_numeric_dtype(train[column]):
        written = TRANSCRIPT.search(column) or train[column].nunique() > FEW_ANSWERS
        if written and asked is not None and question_column(train, asked) is not None:
            return "visual-question-answering"
        words = train[column].astype(str).str.contains("[^\\W\\d_]{2}").mean() > 0.5
        if words and labels_in_cells(train[column]) is None and are_transcripts(train[column]):
            return "image-captioning"
    return "speech-recognition" if modality == "audio" and are_transcripts(train[column]) else ""


def are_run_lengths(column: pd.Series) -> bool:
    """Whether the targets are masks such as "32 33 96 33": where a run begins, and how long it is."""
    known = column.dropna().astype(str).str.strip()
    known = known[known != ""]
    runs = known.str.fullmatch(r"\d+ \d+(?: \d+ \d+)*")
    return bool(len(known) and runs.mean() > 0.9 and known.str.count(" ").mean() > 3)


def what_files(folder: Path, train: pd.DataFrame) -> dict[str, Any] | None:
    """modality: image, audio or masks, and sizes; None where the rows are all there is."""
    try:
        files = [path for path in files_of("train", train.head(4000)) if path.exists()]
    except FileNotFoundError:
        return None
    if sum(path.is_dir() for path in files) > min(len(train), 4000) / 2:
        return {"modality": "multimodal"}  # of frames: the script of videos, with models that need no weights
    files = [path for path in files if path.is_file()]
    if len(files) < min(len(train), 4000) / 2:
        return None
    drawn = files[:: max(1, len(files) // MOST_FILES)]
    if any(path.suffix.lower() in SOUND_FILES for path in drawn):
        seconds = [one for path in drawn if (one := sound_seconds(path))]
        found: dict[str, Any] = {"modality": "audio"}
        if seconds:
            found["seconds"] = round(float(np.median(seconds)), 2)
            found["seq_len"] = int(max(32, 100 * np.quantile(seconds, 0.9)))
        return found
    if not any(path.suffix.lower() in IMAGE_FILES for path in drawn):
        return None
    sizes = []
    with suppress(ImportError):
        from PIL import Image

        for path in drawn:
            with suppress(OSError, SyntaxError), Image.open(path) as image:
                sizes.append(image.size)
    masks = (folder / "train_masks").is_dir() or masked(folder) is not None
    found = {"modality": "masks" if masks else "image"}
    if sizes:
        found |= {"image_size": int(np.median([min(size) for size in sizes])), "sizes": sorted({*sizes})[:5]}
    return found


def time_facts(train: pd.DataFrame, test: pd.DataFrame, kinds: dict[str, str]) -> dict[str, Any]:
    """Of the first column of dates: whether the test rows are later, and how many rows share a moment."""
    dates = [name for name, kind in kinds.items() if kind == "date"]
    if not dates:
        return {}
    before, later = as_days(train[dates[0]]), is_later(train, test, dates[0], "date")
    each = round(float(before.value_counts().mean()), 2)
    names = [name for name, kind in kinds.items() if kind in ("category", "code")]
    names = [name for name in names if train[name].nunique() < 3 * each]
    keys: list[Any] = []  # as few columns as tell the rows of a moment apart
    while names and len(keys) < MOST_KEYS:
        again = {name: train[[*keys, name]].assign(**{" ": before}).duplicated().sum() for name in names}
        names.remove(best := min(names, key=lambda name: again[name]))
        keys.append(best)
        if not again[best]:
            break
    apart = bool(keys) and not again[best] and len(train[keys].drop_duplicates()) < 3 * each
    series = each == 1 or (apart and bool(test[keys[0]].isin(train[keys[0]]).mean() > 0.5))
    return {"time_column": dates[0], "test_is_later": later, "rows_per_moment": each, "is_series": series}


OF_CLASSES = ("n_classes", "rarest_class", "numbered")
FIELDS = ("task", "n_train", "n_test", "n_classes", "n_features", "image_size", "seq_len", "group_by")
"""Of `describe`, what a question of /recommend takes."""
