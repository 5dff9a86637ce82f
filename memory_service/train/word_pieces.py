"""What networks that label words read: words, texts in pieces that overlap, and their batches."""

import ast
import re
from itertools import compress

import numpy as np
import pandas as pd
import torch
from torch.utils.data import Dataset

from memory_service.train.answers import name_labels
from memory_service.train.budget import plan
from memory_service.train.hub_models import load_tokenizer, padded
from memory_service.train.reading import Data, table_data, target_columns, without_missing


def read_words(train: pd.DataFrame, test, sample) -> Data:
    """The data of words: a row of Data is a word, `inputs` are the words of each text."""
    label = target_columns(train, test, sample)[0]
    inputs = [name for name in train.columns[1:] if name in test.columns and name != label]
    column = next((name for name in ("tokens", "words", "text") if name in inputs), inputs[0])
    train = without_missing(train, pd.Series([names != [""] for names in words_of(train[label])]), [label])
    texts, test_texts, labels = map(words_of, (train[column], test[column], train[label]))
    right = [len(words) == len(names) for words, names in zip(texts, labels, strict=True)]
    if not all(right):
        told = f"{right.count(False)} of {len(right)} rows have more or fewer labels in {label} than words"
        told += f" in {column}, the first is {train.iloc[right.index(False), 0]}"
        if 2 * right.count(False) > len(right):
            raise ValueError(f"{told}: change read_data")
        print(f"WARNING: {told}: they are left out", flush=True)
        train, texts, labels = train[right], list(compress(texts, right)), list(compress(labels, right))
    numbers, names = pd.factorize(np.concatenate(labels), sort=True)
    if plan.SCORE == "f1_entities":
        name_labels(names.tolist())
    more = {"ids": word_ids(train.iloc[:, 0], texts), "inputs": texts, "samples": len(texts)}
    more |= {"test_ids": word_ids(test.iloc[:, 0], test_texts), "test_inputs": test_texts}
    more |= {"targets": numbers.astype(np.int64), "outputs": names.tolist(), "target_columns": [label]}
    more |= {"groups": np.repeat(np.arange(len(texts)), [*map(len, texts)])}  # a text stays whole
    return table_data(train, test, sample, **more)


def words_of(column: pd.Series) -> list[list[str]]:
    """Those of each cell between spaces; of lists such as ['a', 'b'] or ['a' 'b'], where all are, theirs."""
    cells = ["" if pd.isna(text) else str(text).strip(" \t\r\n") for text in column]
    if all(cell[:1] + cell[-1:] in ("", "[]") for cell in cells):
        lists = [re.sub(r"(?<=[^,\[\s])(['\"])\s+(?=['\"])", r"\1, ", cell) or "[]" for cell in cells]
        try:
            return [list(map(str, ast.literal_eval(cell))) or [""] for cell in lists]
        except (ValueError, SyntaxError):  # words that begin and end so
            pass
    return [re.findall(r"(?a:\S+)", cell) or [""] for cell in cells]  # a no-break space is within a word


def word_ids(ids: pd.Series, texts: list[list[str]]) -> list[str]:
    """`text:word`, counted from 0."""
    pairs = zip(ids, texts, strict=True)
    return [f"{name}:{place}" for name, words in pairs for place in range(len(words))]


class Pieces(Dataset):
    """(token numbers, whether each is the first of a word, the words' rows) of pieces of the texts that have
    the rows. They overlap: the margin of words where a text goes on is answered by the piece that has more
    around them. Part is train, valid or test; but in training, longest first."""

    def __init__(self, part: str, data: Data, rows: np.ndarray, checkpoint: dict) -> None:
        load_tokenizer()  # here: what it lacks is said before the loader's workers begin
        texts = data.test_inputs if part == "test" else data.inputs
        self.texts, self.rows, self.pieces = texts, np.sort(rows), []
        starts = np.cumsum([0, *map(len, texts)])
        known = np.unique(np.searchsorted(starts, self.rows, side="right") - 1)
        words = {word for text in known for word in texts[text]}
        how = {"is_split_into_words": True, "add_special_tokens": False}
        coded = load_tokenizer()([[word] for word in words], **how)["input_ids"]
        counts = dict(zip(words, map(len, coded), strict=True))  # of tokens
        most = plan.SEQ_LEN - load_tokenizer().num_special_tokens_to_add()
        for text in known:
            before, start, own = np.cumsum([0, *(counts[word] for word in texts[text])]), 0, 0
            while own < len(texts[text]):
                fitting = np.searchsorted(before, before[start] + most, side="right") - 1
                end = min(max(fitting, start + 1), start + plan.SEQ_LEN // 2)
                margin = min(plan.SEQ_LEN // 16, (end - start) // 4) if end < len(texts[text]) else 0
                self.pieces.append((text, starts[text], start, end, range(own - start, end - margin - start)))
                own, start = end - margin, end - 2 * margin
        if part != "train":
            self.pieces.sort(key=lambda piece: piece[3] - piece[2], reverse=True)

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, index: int) -> tuple[list[int], list[bool], list[int]]:
        text, row, start, end, own = self.pieces[index]
        words = self.texts[text][start:end]
        coded = load_tokenizer()(words, is_split_into_words=True, truncation=True, max_length=plan.SEQ_LEN)
        places = coded.word_ids()
        pairs = zip([None, *places], places, strict=False)
        first = [place in own and place != before for before, place in pairs]
        known = [place for place, begins in zip(places, first, strict=True) if begins]
        return coded["input_ids"], first, [int(row + start) + place for place in known]


def collate(samples: list) -> tuple[dict, torch.Tensor, torch.Tensor]:
    """A batch; its rows are all its words, `first` is whether a token is the first of one."""
    pieces, firsts, rows = zip(*samples, strict=True)
    inputs, widest = padded(list(pieces)), max(map(len, pieces))
    inputs["first"] = torch.tensor([[*first, *[False] * (widest - len(first))] for first in firsts])
    words = torch.tensor([row for some in rows for row in some], dtype=torch.long)
    return inputs, words, torch.ones(len(words))


make_dataset = Pieces
plan.make_dataset, plan.collate = make_dataset, collate
