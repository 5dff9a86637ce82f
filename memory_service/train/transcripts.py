"""Texts of sounds and pictures: how transcripts, captions and answers are read, compared, chosen, submitted.

Predictions are (rows, CHARACTERS): the code points of a text, then zeros.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan, state
from memory_service.train.reading import Data, files_of, table_data, target_columns, without_missing
from memory_service.train.writing import held_out_answers, write_table

TRANSCRIPT = re.compile("transcri|sentence|utterance|text|caption|answer", re.IGNORECASE)  # a column
QUESTION = re.compile("question|query|prompt|instruction", re.IGNORECASE)
MOST_CHARACTERS = 4_000
SOME_TEXTS = 500  # by which the best constant is chosen


def transcript_column(train: pd.DataFrame, columns: list) -> Any:
    """Of those that may be asked for: the one so named, else of the longest texts."""
    named = [name for name in columns if TRANSCRIPT.search(str(name))]
    return max(named or columns, key=lambda name: train[name].astype(str).str.len().mean())


def question_column(*tables: pd.DataFrame) -> Any:
    """What is asked of each picture, in all these tables; None where nothing is."""
    shared = [name for name in tables[0] if all(name in table for table in tables)]
    named = [name for name in shared[1:] if QUESTION.search(str(name))]
    return next((name for name in named if tables[0][name].astype(str).str.contains(" ").mean() > 0.5), None)


def are_transcripts(column: pd.Series) -> bool:
    """Whether texts of a sound are sentences or so named: labels come again, and are words."""
    known = column.dropna()
    if pd.api.types.is_numeric_dtype(known) or known.nunique() < 0.3 * len(known):
        return False
    return bool(TRANSCRIPT.search(str(column.name)) or known.astype(str).str.split().str.len().mean() > 2.5)


def read_written(train: pd.DataFrame, test, sample) -> Data:
    """The data of texts, `inputs` are paths; what is asked of a file is `beside` it."""
    column = transcript_column(train, target_columns(train, test, sample))
    train = without_missing(train, train[column].notna(), [column])
    texts = [" ".join(str(text).split()) for text in train[column]]
    plan.CHARACTERS = min(MOST_CHARACTERS, 16 + 2 * max(map(len, texts)))
    asked = sample if test is None else test
    question = question_column(train, asked)
    found: dict[str, Any] = {"targets": np.array(texts, dtype=object)}
    found["outputs"] = ["", *sorted({*"".join(texts)})]
    if question is not None:
        found["beside"] = pd.concat([train, asked])[[question]].set_axis(["question"], axis=1)
    found |= {"inputs": files_of("train", train), "test_inputs": files_of("test", asked)}
    return table_data(train, test, sample, target_columns=[column], **found)


def as_codes(texts: Sequence[str]) -> np.ndarray:
    found = np.zeros((len(texts), plan.CHARACTERS), np.float32)
    for row, text in enumerate(texts):
        codes = [ord(each) for each in text[: plan.CHARACTERS]]
        found[row, : len(codes)] = codes
    return found


def as_texts(codes: Iterable[np.ndarray]) -> list[str]:
    return ["".join(map(chr, row[row > 0].astype(int))) for row in codes]


def edits(true: Sequence[str], found: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that make one the other."""
    names, places = np.array([*found], dtype=str), np.arange(len(found) + 1)
    row = places
    for number, one in enumerate(true, 1):
        changed = np.minimum(row[1:] + 1, row[:-1] + (names != one))
        row = np.minimum.accumulate(np.append(number, changed) - places) + places
    return int(row[-1])


def error_rate(targets: Iterable[str], predictions: np.ndarray, parts: Callable[[str], list]) -> float:
    """Edits of words or characters by the number of true ones, of all texts together."""
    pairs = [(parts(true), parts(told)) for true, told in zip(targets, as_texts(predictions), strict=True)]
    return sum(edits(*pair) for pair in pairs) / max(sum(len(true) for true, _ in pairs), 1)


def score_wer(targets: np.ndarray, predictions: np.ndarray) -> float:
    return error_rate(targets, predictions, str.split)


def score_cer(targets: np.ndarray, predictions: np.ndarray) -> float:
    return error_rate(targets, predictions, list)


def score_per(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Of phones between spaces; of texts without spaces each character is one."""
    spaced = any(" " in text.strip() for text in targets)
    return error_rate(targets, predictions, str.split if spaced else list)


def score_edits(targets: np.ndarray, predictions: np.ndarray) -> float:
    """The mean Levenshtein distance of a row, in characters."""
    return float(np.mean([edits(*pair) for pair in zip(targets, as_texts(predictions), strict=True)]))


def score_same(targets: np.ndarray, predictions: np.ndarray) -> float:
    """The share of texts that are as the true ones, but for capitals and spaces at their ends."""
    pairs = zip(targets, as_texts(predictions), strict=True)
    return float(np.mean([true.strip().casefold() == told.strip().casefold() for true, told in pairs]))


def usual_text(targets: np.ndarray, width: int) -> np.ndarray:
    """What scores best as the answer to all: nothing, the commonest text or the commonest word."""
    known = targets[:: -(-len(targets) // SOME_TEXTS)]
    counts = Counter(known), Counter(word for text in known for word in text.split())
    tried = as_codes(["", *(each.most_common(1)[0][0] for each in counts if each)])
    return min(tried, key=lambda text: plan.score_of(known, np.tile(text, (len(known), 1))))


def agreed_texts(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Of each row the text that has the fewest edits of words to those of the other predictions."""
    if len(parts) < 3:
        return parts[0]
    chosen = []
    for texts in zip(*map(as_texts, parts), strict=True):
        words = {text: text.split() for text in texts}
        off = {one: sum(edits(words[one], words[other]) for other in texts) for one in words}
        chosen.append(min(off, key=lambda text: off[text]))
    return as_codes(chosen)


def transcript_table(data: Data, predictions: np.ndarray) -> pd.DataFrame:
    """The id column and that of the transcripts, named as in the sample."""
    column = data.target_columns[0] if data.sample is None else data.sample.columns[1]
    return pd.DataFrame({data.id_column: data.test_ids, column: as_texts(predictions)})


def write_texts(data: Data) -> None:
    """oof.csv: the true text and that of the fold that did not learn it."""
    rows, found = held_out_answers()
    texts, name = as_texts(found), data.target_columns[0]
    table = {data.id_column: [data.ids[row] for row in rows], f"true_{name}": data.targets[rows]}
    write_table(pd.DataFrame({**table, f"p_{name}": texts}), state.out_dir / "oof.csv")


plan.prior_of, plan.fuse, plan.submission_of = usual_text, agreed_texts, transcript_table
plan.validation_loss, plan.write_held_out = (lambda truth, told, kept: score_cer(truth, told)), write_texts
