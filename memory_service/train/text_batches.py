"""Texts as networks take them: tokens, windows of long texts, and batches of about one length."""

import random
from typing import Any

import numpy as np
import torch

from memory_service.train.budget import plan
from memory_service.train.hub_models import between, load_tokenizer, padded, padding
from memory_service.train.reading import Data
from memory_service.train.torch_loop import AlikeLengths, Samples


def encode(text: str, train: bool = False) -> list[list[int]]:
    """Windows of SEQ_LEN tokens or fewer: one, cut at the end; by WINDOWS so many spread over it, in training
    one of all."""
    how: dict[str, Any] = {"truncation": True, "max_length": plan.SEQ_LEN}
    if not plan.WINDOWS:
        tokens = load_tokenizer()(shortened(text) if plan.PAIRS else text, **how)["input_ids"]
        return [tokens or [padding()]]
    how |= {"stride": plan.SEQ_LEN // 2, "return_overflowing_tokens": True}
    windows = load_tokenizer()(text, **how)["input_ids"]
    if train:
        return [random.choice(windows) or [padding()]]
    places = np.linspace(0, len(windows) - 1, min(plan.WINDOWS, len(windows))).round().astype(int)
    return [windows[place] or [padding()] for place in places]


def shortened(text: str) -> str:
    """Texts of a row with at most SEQ_LEN tokens together; where they have more, the longest lose them."""
    tokenizer, parts = load_tokenizer(), text.split(between())
    if len(tokenizer(text)["input_ids"]) <= plan.SEQ_LEN:
        return text
    coded = [tokenizer(part, add_special_tokens=False, return_offsets_mapping=True) for part in parts]
    ends = [[end for _, end in each["offset_mapping"]] for each in coded]
    most, left = 0, plan.SEQ_LEN - 4 * len(parts)  # marks and blanks
    for place, length in enumerate(sorted(map(len, ends))):
        most = left // (len(ends) - place)
        left -= min(length, most)
    pairs = zip(parts, ends, strict=True)
    return between().join(part[: end[most - 1]] if len(end) > most else part for part, end in pairs)


class Texts(Samples):
    """(windows of token numbers, row, 1.0) of the rows; part is train, valid or test. But in training the
    longest texts come first."""

    def __init__(self, part: str, data: Data, rows, checkpoint: dict) -> None:
        load_tokenizer()  # here: what it lacks is said before the loader's workers begin
        texts, self.train = data.test_inputs if part == "test" else data.inputs, part == "train"
        if not self.train:
            rows = np.array(sorted(rows, key=lambda row: len(texts[row]), reverse=True))
        super().__init__(texts, rows)
        self.lengths = np.array([len(texts[row]) for row in rows])

    def __getitem__(self, index: int):
        row = int(self.rows[index])
        return encode(self.paths[row], self.train), row, 1.0


def collate(samples: list) -> tuple[dict, torch.Tensor, torch.Tensor]:
    """A batch; by WINDOWS `text` is the place of the text that each window is of."""
    windows, rows, readable = zip(*samples, strict=True)
    inputs = padded([window for found in windows for window in found])
    if plan.WINDOWS:
        inputs["text"] = torch.tensor([place for place, found in enumerate(windows) for _ in found])
    return inputs, torch.tensor(rows), torch.tensor(readable)


make_dataset = Texts
plan.make_dataset, plan.collate, plan.training_order = make_dataset, collate, AlikeLengths
