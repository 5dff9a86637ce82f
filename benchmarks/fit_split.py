"""Where the weights of `recall/split_classifier.py` come from, and how often it is right.

    python -m benchmarks.fit_split [--fit]

Fitted to `data/split_sentences.jsonl`: sentences of two authors who had read no reader of ours, each with its
label (group, time, random, none) and the noun of its unit, then 60 plain denials of our own; to sentences of
stored competitions and of blind4,
blind7 and blind8 in which the rules see no split, as "none"; and to texts of the blind sets that tell of no
split, but never of the set that is judged. --fit writes seeds/split_classifier.npz, fitted to all of them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack, vstack
from sklearn.linear_model import LogisticRegression

from benchmarks.recall_blind import descriptions
from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.phrases import task_sentences
from memory_service.domain.description.stated_split import split_in
from memory_service.domain.description.task_inference import InferredFacts, with_separation
from memory_service.recall import split_classifier as reader
from memory_service.recall.encoder import load_encoder

ROOT = Path(__file__).parents[1]
WRITTEN = Path(__file__).parent / "data" / "split_sentences.jsonl"
JUDGED = ("blind9", "blind10", "blind11")
USUAL = 8
"""Sentences in which a word must stand to be a part of shapes."""

STRENGTH, SEEDS_WEIGHT, TEXTS_WEIGHT = 3.0, 1.0, 0.5
Floats = NDArray[np.float32]


def english(text: str) -> str:
    return in_english(text, language_of(text))


class Vectors:
    """Vectors of clauses, each encoded once."""

    def __init__(self) -> None:
        self._known: dict[str, Floats] = {}
        encoder = load_encoder().encoder
        if encoder is None:
            raise SystemExit("the packaged encoder is not installed")
        self._encoder = encoder

    def of(self, clauses: Sequence[str]) -> Floats:
        new = list(dict.fromkeys(each for each in clauses if each not in self._known))
        for start in range(0, len(new), 32):
            some = new[start : start + 32]
            self._known |= dict(zip(some, self._encoder.encode(some), strict=True))
        return np.stack([self._known[each] for each in clauses])


def sparse(sets: list[set[str]], buckets: int) -> csr_matrix:
    """What `split_classifier.summed` multiplies, a row of each set."""
    rows = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
    places = np.concatenate([reader.places_of(each, buckets) for each in sets])
    values = np.concatenate([np.full(len(each), reader.WORDS / np.sqrt(max(len(each), 1))) for each in sets])
    return csr_matrix((values, (rows, places)), shape=(len(sets), buckets))


class Examples:
    """Clauses with labels and weights, and their features."""

    def __init__(
        self, clauses: list[str], labels: list[int], weight: float, usual: frozenset[str], vectors: Vectors
    ) -> None:
        self.labels, self.weights = labels, [weight] * len(clauses)
        tokens = [reader.tokens_of(clause) for clause in clauses]
        self.words = sparse([reader.word_grams(each) for each in tokens], reader.WORD_BUCKETS)
        words = sparse([reader.all_grams(each) for each in tokens], reader.BUCKETS)
        shapes = sparse([reader.shape_grams(each, usual) for each in tokens], reader.BUCKETS)
        rules = csr_matrix([reader.rules_of(clause) for clause in clauses])
        self.plain = hstack([words, shapes, rules]).tocsr()
        self.encoded = hstack([self.plain, csr_matrix(reader.VECTOR * vectors.of(clauses))]).tocsr()


def fitted(parts: list[Examples], which: str) -> Floats:
    """(features + 1, labels): weights, the bias last."""
    x = vstack([getattr(part, which) for part in parts]).tocsr()
    y = np.concatenate([part.labels for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    model = LogisticRegression(C=STRENGTH, max_iter=500).fit(x, y, sample_weight=weights)
    return np.concatenate([model.coef_.T, model.intercept_[None]]).astype(np.float32)


def units(rows: list[dict[str, Any]]) -> Floats:
    found, right = [], []
    for row in rows:
        last = row["unit"].split()[-1].lower()
        for noun, features in reader.nouns_of(row["text"]):
            found.append(features)
            right.append(noun[:5] == last[:5])
    model = LogisticRegression(C=3.0, max_iter=500).fit(sparse(found, reader.UNIT_BUCKETS), right)
    return np.concatenate([model.coef_[0], model.intercept_]).astype(np.float32)


def judge(classifier: reader.SplitClassifier, name: str, vectors: Vectors) -> Counter[str]:
    """How often texts of a blind set are told rightly, asked, or left."""
    found: Counter[str] = Counter()
    for row in descriptions(name):
        if not row["task"]:
            continue
        text = english(row["text"])
        said = classifier.separation(text, vectors.of)
        told = split_in("\n".join(task_sentences(text)))
        facts = InferredFacts(None, 0.0, **{key: value for key, (value, _) in told.items()})
        facts = with_separation(facts, said)
        want = {"stratified": "random"}.get(row["facts"].get("split"), row["facts"].get("split"))
        asked = facts.split_open.split if facts.split_open is not None else None
        if want is None:
            found["false" if facts.split in ("group", "time") else "asked in vain" if asked else "left"] += 1
        elif facts.split is not None:
            found["right" if facts.split == want else "wrong"] += 1
        else:
            found["missed" if asked is None else "asked" if asked == want else "asked for another"] += 1
        if want == "group" and facts.split == "group" and row["facts"].get("group_by"):
            unit = row["facts"]["group_by"].split()[-1].lower()
            found["unit right" if unit[:5] in (facts.group_by or "") else "unit wrong"] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    rows = [json.loads(line) for line in WRITTEN.read_text("utf-8").splitlines()]
    clauses = [english(row["text"]) for row in rows]
    counted = Counter(word for each in clauses for word in set(reader.tokens_of(each)))
    usual = frozenset(word for word, count in counted.items() if count >= USUAL)
    vectors = Vectors()
    labels = [reader.LABELS.index(row["label"]) for row in rows]
    written = Examples(clauses, labels, 1.0, usual, vectors)
    stored = [
        json.loads(line)["description"] for line in (ROOT / "seeds/competitions.jsonl").open(encoding="utf-8")
    ]
    stored += [english(row["text"]) for name in ("blind4", "blind7", "blind8") for row in descriptions(name)]
    quiet = [each for text in stored for each in reader.clauses_of(text) if "split" not in split_in(each)]
    background = Examples(quiet, [0] * len(quiet), SEEDS_WEIGHT, usual, vectors)
    silent = {
        name: [
            clause for row in descriptions(name) if row["task"] and "split" not in row["facts"]
            for clause in reader.clauses_of(english(row["text"]))
        ]
        for name in JUDGED
    }  # fmt: skip
    aside = {
        name: Examples(found, [0] * len(found), TEXTS_WEIGHT, usual, vectors)
        for name, found in silent.items()
    }
    noun = units([row for row in rows if row["label"] == "group" and row["unit"] and row["text"].isascii()])

    def made(parts: list[Examples]) -> reader.SplitClassifier:
        weights = {which: fitted(parts, which) for which in ("words", "encoded", "plain")}
        return reader.SplitClassifier(usual, weights["words"], weights["encoded"], weights["plain"], noun)

    for name in JUDGED:
        others = [found for other, found in aside.items() if other != name]
        print(name, dict(judge(made([written, background, *others]), name, vectors)), flush=True)
    if options.fit:
        final = made([written, background, *aside.values()])
        arrays = {
            name: getattr(final, name).astype(np.float16) for name in ("finds", "encoded", "plain", "units")
        }
        np.savez_compressed(ROOT / "seeds" / reader.FILE, usual=np.array(sorted(usual)), **arrays)
        print((ROOT / "seeds" / reader.FILE).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
