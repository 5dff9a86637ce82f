"""Tokenizers of transformers, from the hub or the folder WEIGHTS."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from memory_service.train.budget import plan
from memory_service.train.torch_loop import pretrained_or_exit

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the loader's workers are parallel already


@cache
def load_tokenizer() -> Any:
    with pretrained_or_exit(True):
        tokenizer = AutoTokenizer.from_pretrained(source())
        if len(tokenizer) < 10:  # what transformers makes of special tokens alone where the files are missing
            raise FileNotFoundError(f"no vocabulary in {source()}")
        if tokenizer("a b")["input_ids"] == tokenizer("ab")["input_ids"]:  # taken for Llama's, as some 5.x do
            return PreTrainedTokenizerFast.from_pretrained(source())
        return tokenizer


def source() -> str:
    """The hub's repository, or its folder in WEIGHTS or WEIGHTS itself."""
    if plan.WEIGHTS == "hub":
        return plan.HUB_NAME
    inner = os.path.join(plan.WEIGHTS, os.path.basename(plan.HUB_NAME))
    return inner if os.path.isdir(inner) else plan.WEIGHTS


def between() -> str:
    """The model's own mark between two texts."""
    return f" {load_tokenizer().sep_token or '|'} "


def padding() -> int:
    tokenizer = load_tokenizer()
    return tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def padded(texts: list[list[int]]) -> dict[str, torch.Tensor]:
    """A batch as wide as its longest text."""
    filler, widest = padding(), max(map(len, texts))
    return {
        "input_ids": torch.tensor([[*text, *[filler] * (widest - len(text))] for text in texts]),
        "attention_mask": torch.tensor([[1] * len(text) + [0] * (widest - len(text)) for text in texts]),
    }


plan.between = between
