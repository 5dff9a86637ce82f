"""Labels of words: entities that they mark, their score, and the table of the labels of texts."""

import re

import numpy as np
import pandas as pd

from memory_service.train.reading import Data

NAMES: list[str] = []  # of the labels, by number
MARKED = re.compile("([BIESLU])[-_](.+)")


def name_labels(names: list) -> None:
    """Take them; 0 is outside of entities where no label is O."""
    NAMES[:] = ["O" if str(name) == "0" and "O" not in names else str(name) for name in names]
    if "O" not in names:
        outside = "0 counts as O" if "O" in NAMES else "every word counts as of an entity"
        print(f"WARNING: no label is O ({', '.join(map(str, names[:5]))}): {outside}", flush=True)


def entities_of(numbers: np.ndarray) -> set[tuple]:
    """(first word, word behind it, kind) of each: B-X I-X, also with the marks E, S, L and U, or labels
    without marks that are alike in a row. O is none."""
    found: set[tuple] = set()
    start, kind, last = 0, "O", ""
    for place, name in enumerate([*(NAMES[number] for number in numbers), "O"]):
        marked = MARKED.fullmatch(name)
        mark, now = marked.groups() if marked else ("", name)
        if now != kind or mark in ("B", "S", "U") or last in ("E", "S", "L", "U"):
            if kind != "O":
                found.add((start, place, kind))
            start, kind = place, now
        last = mark
    return found


def label_table(data: Data, predictions: np.ndarray) -> pd.DataFrame:
    """The likeliest label of each word, those of a text between spaces, or a list as in the sample."""
    ids: list[str] = []
    texts: list[list[str]] = []
    for word, best in zip(data.test_ids, predictions.argmax(axis=1), strict=True):
        name, _, place = word.rpartition(":")
        if place == "0":
            ids.append(name)
            texts.append([])
        texts[-1].append(str(data.outputs[best]))
    column, shown = data.target_columns[0], ""
    if data.sample is not None:
        column, shown = data.sample.columns[1], str(data.sample.iloc[0, 1])
    bare = not {"'", '"'} & set(shown) and all(str(name).isdigit() for name in data.outputs)
    lists = [f"[{', '.join(names)}]" if bare else str(names) for names in texts]
    cells = lists if shown.startswith("[") else [" ".join(names) for names in texts]
    return pd.DataFrame({data.id_column: ids, column: cells})


def score_f1_entities(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Of whole entities, of all kinds together, as seqeval has it, but that a text's end does not end one."""
    true, found = (entities_of(numbers) for numbers in (targets, predictions.argmax(axis=1)))
    return 2 * len(true & found) / max(len(true) + len(found), 1)
