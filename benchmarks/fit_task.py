"""Where the weights of `recall/task_classifier.py` come from, and how far its probabilities can be believed.

    python -m benchmarks.fit_task [--vectors FILE] [--fit]

Fitted to: the stored competitions that have a task, each as it is and as pages made of it by rule (headings,
links, rules, prizes and file lists around it, sentences dropped); the halves "tune" of their paraphrases and
of tests/recall/descriptions.txt; blind2, blind3 and blind4 there, whose errors were studied before; the short
texts of eight authors (`data/short_texts.jsonl`: blind14 to blind17, measured before errors were studied,
and four sets written for the fit); the sentences of `data/task_texts.txt`, written for the kinds and after no
competition that is kept apart, of tasks, of what is none ("outside: ...") and of texts that tell nothing
("untold").
Probabilities are calibrated, and judged, on competitions left out: by quarters of them, all texts of one
together. blind7 and blind8 of tests/recall are only looked at.

--vectors keeps what the encoder made between runs; --fit writes seeds/task_classifier.npz.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.linear_model import LogisticRegression

from benchmarks.recall_blind import descriptions
from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.phrases import sentences_of
from memory_service.domain.description.task_inference import UNTOLD, cue_scores
from memory_service.recall.encoder import load_encoder
from memory_service.recall.passages import query_passages
from memory_service.recall.task_classifier import (
    BUCKETS,
    FILE,
    dense_features,
    word_features,
    words_in,
)

ROOT = Path(__file__).parents[1]
WRITTEN = Path(__file__).parent / "data" / "task_texts.txt"
SHORT = Path(__file__).parent / "data" / "short_texts.jsonl"
FOLDS = 4
STRENGTH = 3.0
"""Inverse strength of the l2 penalty."""

PAGES, PAGE_WEIGHT, SHORT_WEIGHT = 3, 0.5, 2.0
RARE = 3
"""Texts in which a word must stand to count."""

KINDS_OF_STORED = {
    "ai-mathematical-olympiad-progress-prize-2": "reasoning",
    "ai-mathematical-olympiad-progress-prize-3": "reasoning",
    "drawing-with-llms": "generation",
    "fide-google-efficiency-chess-ai-challenge": "agents-games",
    "konwinski-prize": "code-repair",
    "llms-you-cant-please-them-all": "text-generation",
}
"""Of stored competitions that have no task, as nothing here plans such."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Labelled:
    """group: what is held out together; read_as: the text whose vectors it has; weight in the fit."""

    group: str
    label: str
    text: str
    read_as: str
    weight: float = 1.0


_HEADINGS = ("Overview", "Description", "Evaluation", "Data", "Goal of the Competition", "Files")
_AROUND = (
    "## Timeline\n- March 3 - Start Date.\n- May 26 - Team Merger deadline.\n- June 2 - Final submission.",
    "## Prizes\nFirst Prize: $12,000. Second Prize: $6,000.",
    "## Code Requirements\nSubmissions must be made through Notebooks, without internet access.",
    "## Submission File\nFor each id in the test set, you must predict a value.\n```\nid,target\n1,0.5\n```",
    "## Files\n- **train.csv** - the training set\n- **sample_submission.csv** - in the correct format",
    "## Acknowledgements\nWe thank the annotators and the university. Photo by an artist.",
    "## Citation\nA. Host, B. Host. Our Competition. https://example.org/competitions/ours, 2021.",
)


def pages(chance: random.Random, title: str, text: str, count: int) -> Iterator[str]:
    """Versions of a description as pages have it."""
    for number in range(count):
        least = chance.choice((0.6, 0.8, 1.0))
        kept = [each for each in sentences_of(text) if chance.random() < least] or [text]
        kept = [_linked(chance, each) if chance.random() < 0.15 else each for each in kept]
        if number % 3 == 2:
            yield " ".join(kept[:2])
            continue
        half = max(1, len(kept) // 2)
        parts = [f"# {title}"] if title else []
        pieces = filter(None, (kept[:half], kept[half:]))
        parts += [f"## {chance.choice(_HEADINGS)}\n" + " ".join(piece) for piece in pieces]
        for block in chance.sample(_AROUND, chance.randrange(2, 5)):
            parts.insert(chance.randrange(1, len(parts) + 1), block)
        yield "\n\n".join(parts)


def _linked(chance: random.Random, sentence: str) -> str:
    words = sentence.split()
    if len(words) > 5:
        place = chance.randrange(len(words) - 2)
        shown = " ".join(words[place : place + 2])
        words[place : place + 2] = [f"[{shown}](https://example.org/wiki/{words[place].strip('.,')})"]
    return " ".join(words)


def labelled() -> list[Labelled]:
    """All that is fitted to."""
    chance, out = random.Random(0), []
    for row in map(json.loads, (ROOT / "seeds/competitions.jsonl").read_text("utf-8").splitlines()):
        kind = KINDS_OF_STORED.get(row["slug"])
        task = f"outside: {kind}" if kind else row["task"]
        if task is None:
            continue
        text = f"{row['title']}. {row['description']}"
        out.append(Labelled(row["slug"], task, text, text))
        made = pages(chance, row["title"], row["description"], PAGES)
        out += [Labelled(row["slug"], task, page, text, PAGE_WEIGHT) for page in made]
    for row in map(json.loads, (ROOT / "tests/knowledge/paraphrases.jsonl").read_text("utf-8").splitlines()):
        if row["half"] == "tune":
            out.append(Labelled(row["slug"] or row["id"], row["task"], row["text"], row["text"]))
            made = pages(chance, "", row["text"], 1)
            out += [
                Labelled(row["slug"] or row["id"], row["task"], page, row["text"], PAGE_WEIGHT)
                for page in made
            ]
    for file in ("descriptions", "blind2", "blind3"):
        for block in (ROOT / f"tests/recall/{file}.txt").read_text("utf-8").split("\n=== "):
            head, text = block.removeprefix("=== ").split("\n", 1)
            name, task, part = (field.strip() for field in head.split("|"))
            if part not in ("held-out", "skip"):
                out.append(Labelled(f"{file} {name}", task, text.strip(), text.strip()))
    for row in descriptions("blind4"):
        out.append(Labelled(row["text"], row["task"], row["text"], row["text"]))
    short = map(json.loads, SHORT.read_text("utf-8").splitlines())
    for row in (row for row in short if "task" in row):
        text = in_english(row["text"], language_of(row["text"]))
        out.append(Labelled(f"{row['author']} {text}", row["task"], text, text, SHORT_WEIGHT))
    label = ""
    for line in WRITTEN.read_text("utf-8").splitlines():
        if line.startswith("= "):
            label = line[2:]
        elif line and not line.startswith("#"):
            text = in_english(line, language_of(line))
            out.append(Labelled(text, label, text, text))
            made = pages(chance, "", text, int(label != UNTOLD))
            out += [Labelled(text, label, page, text, PAGE_WEIGHT) for page in made]
    return out


class Vectors:
    """Mean vector of a text's passages, encoded once and kept in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, Floats] = {}
        if file.exists():
            with np.load(file, allow_pickle=False) as kept:
                self._known = dict(zip(kept["texts"].tolist(), kept["vectors"], strict=True))

    def of(self, texts: list[str]) -> list[Floats]:
        """(passages, 384) of each text."""
        passages = {text: [p.text for p in query_passages(text)] for text in texts}
        missing = sorted({p for each in passages.values() for p in each} - self._known.keys(), key=len)
        encoder = load_encoder().encoder
        if encoder is None:
            raise SystemExit("the packaged encoder is not installed")
        for start in range(0, len(missing), 64):
            batch = missing[start : start + 64]
            self._known |= dict(zip(batch, encoder.encode(batch), strict=True))
        if missing:
            kept = np.array(list(self._known.values()), dtype=np.float32)
            np.savez(self._file, texts=np.array(list(self._known)), vectors=kept)
        return [np.array([self._known[p] for p in passages[text]]) for text in texts]


@dataclass(frozen=True)
class Features:
    """dense (n, d) with vectors; words (n, BUCKETS) not yet weighed."""

    dense: Floats
    words: list[Counter[int]]

    def matrix(self, rarity: Floats, *, encoded: bool) -> csr_matrix:
        rows, places, values = [], [], []
        for row, buckets in enumerate(self.words):
            found, weights = word_features(buckets, rarity)
            rows += [row] * len(found)
            places += found.tolist()
            values += weights.tolist()
        words = csr_matrix((values, (rows, places)), shape=(len(self.words), BUCKETS))
        dense = self.dense if encoded else self.dense[:, :-384]
        return hstack([csr_matrix(dense), words]).tocsr()


def features(texts: list[str], vectors: list[Floats]) -> Features:
    dense = [dense_features(cue_scores(text), own) for text, own in zip(texts, vectors, strict=True)]
    return Features(np.array(dense), [words_in(text) for text in texts])


def rarity_of(words: list[Counter[int]]) -> Floats:
    """Log of all texts over those with the word (BUCKETS,); 0 of the rarest."""
    texts = np.zeros(BUCKETS)
    for buckets in words:
        texts[list(buckets)] += 1
    weights = np.log((1.0 + len(words)) / (1.0 + texts))
    return np.where(texts >= RARE, weights, 0.0).astype(np.float32)


def fitted(x: csr_matrix, y: NDArray[np.str_], weights: NDArray[np.float64]) -> LogisticRegression:
    return LogisticRegression(C=STRENGTH, max_iter=200, tol=1e-3).fit(x, y, sample_weight=weights)


def temperature_of(logits: Floats, right: NDArray[np.intp], weights: NDArray[np.float64]) -> float:
    """What logits are divided by to make held-out labels likeliest."""

    def loss(temperature: float) -> float:
        scaled = logits / temperature
        top = scaled.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(scaled - top).sum(axis=1)) + top[:, 0]
        losses: Floats = log_sum - scaled[np.arange(len(right)), right]
        return float(np.average(losses, weights=weights))

    return float(min(np.geomspace(0.3, 2.0, 60).tolist(), key=loss))


def probabilities(logits: Floats, temperature: float) -> Floats:
    scaled = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
    return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))


@dataclass
class Told:
    """Of texts that have a task: how many are told at a confidence, how many of those rightly; of texts
    that have none, how many are left."""

    n: int = 0
    told: int = 0
    right: int = 0
    outside: int = 0
    left: int = 0


def judged(
    odds: Floats, classes: list[str], labels: list[tuple[str | None, tuple[str, ...]]], least: float
) -> Told:
    out = Told()
    for row, (task, also) in zip(odds, labels, strict=True):
        best = classes[int(row.argmax())]
        outside = sum(p for p, name in zip(row, classes, strict=True) if name.startswith("outside"))
        inside = best != UNTOLD and not best.startswith("outside")
        told = inside and row.max() >= least and row.max() > outside
        if task is None or task.startswith("outside") or task == UNTOLD:
            out.outside += 1
            out.left += not told
        else:
            out.n += 1
            out.told += told
            out.right += told and (best == task or best in also)
    return out


def reliability(odds: Floats, right: NDArray[np.bool_]) -> Iterator[tuple[str, int, float, float]]:
    """(range, texts, mean probability, share right) of the likeliest answer."""
    best = odds.max(axis=1)
    edges = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.01)
    for low, high in pairwise(edges):
        within = (best >= low) & (best < high)
        if within.any():
            name = f"{low:.2f} to {min(high, 1.0):.2f}"
            yield name, int(within.sum()), float(best[within].mean()), float(right[within].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=Path, default=Path(tempfile.gettempdir()) / "task-vectors.npz")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    rows, vectors = labelled(), Vectors(options.vectors)
    print(len(rows), "texts", flush=True)
    own = features([row.text for row in rows], vectors.of([row.read_as for row in rows]))
    names = ("blind7", "blind8")
    others = [(name, row) for name in names for row in descriptions(name)]
    texts = [in_english(row["text"], language_of(row["text"])) for _, row in others]
    aside = features(texts, vectors.of(texts))
    y, weights = np.array([row.label for row in rows]), np.array([row.weight for row in rows])
    names_of, count = np.unique(y, return_counts=True)
    rare = dict(zip(names_of.tolist(), np.clip(np.sqrt(np.median(count) / count), 0.5, 2.0), strict=True))
    weights = weights * np.array([rare[label] for label in y.tolist()])
    fold = np.array([zlib.crc32(row.group.encode()) % FOLDS for row in rows])
    whole = np.array([row.text == row.read_as for row in rows])
    rarity = rarity_of(own.words)
    written: dict[str, Any] = {"rarity": rarity.astype(np.float16)}
    scales = []
    for name, encoded in (("encoded", True), ("plain", False)):
        x, x_aside = own.matrix(rarity, encoded=encoded), aside.matrix(rarity, encoded=encoded)
        final = fitted(x, y, weights)
        classes = final.classes_.tolist()
        right = np.array([classes.index(label) for label in y])
        logits = np.zeros((len(rows), len(classes)), dtype=np.float32)
        for held in range(FOLDS):
            inside = fold != held
            model = fitted(x[inside], y[inside], weights[inside])
            found = model.decision_function(x[~inside])
            logits[~inside] = -20.0
            places = [classes.index(each) for each in model.classes_]
            logits[np.ix_(~inside, places)] = found
        temperature = temperature_of(logits, right, weights)
        odds = probabilities(logits, temperature)
        correct = odds.argmax(axis=1) == right
        print(f"\n{name}: temperature {temperature:.2f}")
        for part, chosen in (("whole texts", whole), ("pages", ~whole)):
            told = judged(odds[chosen], classes, [(label, ()) for label in y[chosen]], 0.5)
            print(f"held out, {part}: {told}")
        print("| probability | texts | mean | right |\n|---|---|---|---|")
        for span, number, average, share in reliability(odds, correct):
            print(f"| {span} | {number} | {average:.2f} | {share:.2f} |")
        beside = probabilities(final.decision_function(x_aside), temperature)
        for least in (0.4, 0.5, 0.6):
            for of in names:
                of_set = [place for place, (set_name, _) in enumerate(others) if set_name == of]
                labels = [(others[i][1]["task"], tuple(others[i][1].get("also_ok") or ())) for i in of_set]
                print(f"{of} told from {least}: {judged(beside[of_set], classes, labels, least)}")
        weight = final.coef_.T / temperature
        dense = weight[:-BUCKETS]
        scale = np.abs(weight[-BUCKETS:]).max() / 127.0
        scales.append(scale)
        written[f"{name}_dense"] = dense.astype(np.float16)
        written[f"{name}_words"] = np.round(weight[-BUCKETS:] / scale).astype(np.int8)
        written[f"{name}_bias"] = (final.intercept_ / temperature).astype(np.float32)
        written["classes"] = np.array(classes)
    if options.fit:
        np.savez_compressed(ROOT / "seeds" / FILE, words_scale=np.array(scales), **written)
        print(f"\nseeds/{FILE}: {(ROOT / 'seeds' / FILE).stat().st_size} bytes")


if __name__ == "__main__":
    main()
