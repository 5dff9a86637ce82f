"""Real texts, small: the documentation of scikit-learn's own classes."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np

from tests.scripts.harness.data import Data
from tests.scripts.harness.real import of_test, written

MODULES = ("ensemble", "linear_model", "preprocessing")


def documentation(*modules: str) -> Iterator[tuple[str, str]]:
    """(module, docstring) of each of their names."""
    for module in modules:
        found = import_module(f"sklearn.{module}")
        for name in found.__all__:
            yield module, inspect.getdoc(getattr(found, name)) or ""


def split_up(text: str) -> list[str]:
    """Its sentences of 6 to 40 words."""
    found = (" ".join(sentence.split()) for sentence in re.split(r"(?<=[.:])\s+", text))
    return [sentence for sentence in found if 6 <= len(sentence.split()) <= 40]


def sentences(folder: Path) -> Data:
    """Which part of scikit-learn a sentence is about."""
    known = {sentence: module for module, text in documentation(*MODULES) for sentence in split_up(text)}
    rows = [(str(n), sentence, module) for n, (sentence, module) in enumerate(known.items())]
    order = np.random.default_rng(0).permutation(len(rows))[:900]
    return written(folder, ("id", "text", "about"), [rows[k] for k in order], of_test(len(order)), "labels")


def places(folder: Path) -> Data:
    """How far into its page a sentence stands, in hundredths."""
    known: dict[str, float] = {}
    for _, text in documentation(*MODULES):
        found = split_up(text)
        known |= {sentence: round(100 * place / len(found), 1) for place, sentence in enumerate(found)}
    rows = [(str(n), sentence, place) for n, (sentence, place) in enumerate(known.items())]
    order = np.random.default_rng(0).permutation(len(rows))[:900]
    return written(folder, ("id", "text", "place"), [rows[k] for k in order], of_test(len(order)), "values")


def pairs(folder: Path) -> Data:
    """How many of two sentences are about linear models: none, half or all."""
    known = {sentence: module for module, text in documentation(*MODULES) for sentence in split_up(text)}
    texts = np.random.default_rng(0).permutation(list(known)).tolist()
    rows: list[tuple[object, ...]] = []
    for one, other in zip(texts[:1400:2], texts[1:1400:2], strict=True):
        share = [known[text] == "linear_model" for text in (one, other)]
        rows.append((str(len(rows)), one, other, sum(share) / 2))
    return written(folder, ("id", "first", "second", "share"), rows, of_test(len(rows)), "values")


def parameters(*modules: str) -> Iterator[tuple[str, str, str]]:
    """(name, type, first words about it) of the parameters of their pages."""
    for _, text in documentation(*modules):
        yield from re.findall(r"^(\w+) : (.+)\n {4}(.+)$", text, re.MULTILINE)


def signatures(folder: Path) -> Data:
    """Which words of a parameter's line are its name, its type, its default and the text behind them."""
    rows: list[tuple[str, ...]] = []
    for name, said, about in dict.fromkeys(parameters(*MODULES, "cluster", "svm", "tree")):
        kind, _, default = said.partition(", default=")
        parts = (("NAME", name), ("TYPE", kind), ("DEFAULT", default), ("O", about))
        words = [(word, label) for label, part in parts for word in re.findall(r"[\w.]+|[^\w\s]", part)]
        rows.append((str(len(rows)), *(" ".join(column) for column in zip(*words, strict=True))))
    rows = [rows[k] for k in np.random.default_rng(0).permutation(len(rows))[:600]]
    return written(folder, ("id", "tokens", "labels"), rows, of_test(len(rows)), "words")


def words_of(folder: Path, most: int = 2000) -> list[str]:
    """Those of its two tables, the most frequent first, as a tokenizer of BERT cuts them."""
    text = " ".join((folder / name).read_text("utf-8").lower() for name in ("train.csv", "test.csv"))
    words = re.findall(r"\w+|[^\w\s]", text.replace("_", " _ "))
    return [word for word, _ in Counter(words).most_common(most)]
