"""Where the weights of `recall/count_classifier.py` come from, and how often it is right.

    python -m benchmarks.fit_counts [--fit] [--further FILE]

Fitted to the blind sets and to `data/short_texts.jsonl`: texts with their counts and classes, of eleven
authors who had read no reader of ours and of one who had ("own"). Each author's texts are judged by weights
fitted to the others. --further: labelled texts that are not kept here, in the same form. --fit writes
seeds/count_classifier.npz, fitted to all.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, vstack

from benchmarks.recall_blind import descriptions
from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.task_inference import facts_and_tasks
from memory_service.recall import count_classifier as reader
from memory_service.recall.task_classifier import task_classifier

ROOT = Path(__file__).parents[1]
WRITTEN = Path(__file__).parent / "data" / "short_texts.jsonl"
BLIND = {"blind4": True, "blind7": False, "blind8": False, "blind9": False, "blind10": False, "blind11": True}
"""Of each blind set, whether its labels tell how many there are to test."""

STRENGTH, NEAR = 1.0, 0.051
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Text:
    """author; counts: of each role the right ones, `[None]` where the text tells none, None if unlabelled."""

    author: str
    text: str
    counts: dict[str, list[int | None] | None]
    candidates: list[reader.Candidate]
    rows: csr_matrix

    def right(self, role: str) -> NDArray[np.bool_]:
        return np.array([self.is_right(role, each.value) for each in self.candidates], dtype=bool)

    def is_right(self, role: str, value: int) -> bool:
        return any(each is not None and abs(value - each) <= NEAR * each for each in self.counts[role] or ())


def written(path: Path) -> Iterator[tuple[str, str, dict[str, list[int | None] | None]]]:
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        if "n_train" in row:
            yield row["author"], row["text"], {name: row.get(name) for name in reader.ROLES}


def labelled(further: Path | None) -> Iterator[Text]:
    rows = list(written(WRITTEN)) + (list(written(further)) if further else [])
    for name, tests in BLIND.items():
        for row in filter(lambda row: row["task"], descriptions(name)):
            unscored = set(row.get("unscored") or ()) | (set() if tests else {"n_test"})
            if "n_classes" not in row["facts"] and not row["task"].endswith(reader.WITHOUT_CLASSES):
                unscored.add("n_classes")  # two are often left out
            facts = {role: row["facts"].get(role) for role in reader.ROLES}
            counts = {
                role: None if role in unscored else value if isinstance(value, list) else [value]
                for role, value in facts.items()
            }
            rows.append((name, row["text"], counts))
    classify = task_classifier().given(None)
    for author, text, told in rows:
        english = in_english(text, language_of(text))
        candidates = reader.candidates_of(english, facts_and_tasks(english, classify)[0].task)
        sparse = [reader.features_of(each) for each in candidates]
        place = np.repeat(np.arange(len(sparse)), [len(each[0]) for each in sparse])
        columns = np.concatenate([np.zeros(0, np.intp), *(each[0] for each in sparse)])
        values = np.concatenate([np.zeros(0, np.float32), *(each[1] for each in sparse)])
        x = csr_matrix((values, (place, columns)), shape=(len(candidates), reader.BUCKETS))
        yield Text(author, text, told, candidates, x)


def fitted(texts: Sequence[Text], role: str) -> Floats:
    """Weights (BUCKETS + 1,) of a softmax over candidates and "not told" of each text."""
    serving = {id(each): [c.serves(role) for c in each.candidates] for each in texts}
    used = [each for each in texts if any(serving[id(each)]) and each.counts[role] is not None]
    serves = np.concatenate([serving[id(each)] for each in used])
    x = vstack([each.rows for each in used]).tocsr().astype(np.float64)[serves]
    transposed = x.T.tocsr()
    right = np.concatenate([each.right(role) for each in used])[serves].astype(float)
    sizes = np.array([sum(serving[id(each)]) for each in used])
    starts, of = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(used)), sizes)
    untold = 1.0 - np.maximum.reduceat(right, starts)

    def loss(weights: Floats) -> tuple[float, Floats]:
        logits, last = x @ weights[:-1], weights[-1]
        most = np.maximum(np.maximum.reduceat(logits, starts), last)
        powers, none = np.exp(logits - most[of]), np.exp(last - most)
        total = np.add.reduceat(powers, starts) + none
        good = np.add.reduceat(powers * right, starts) + none * untold
        slope = powers * right / good[of] - powers / total[of]
        slope_none = np.sum(none * untold / good - none / total)
        fall = np.append(weights[:-1] / STRENGTH - transposed @ slope, -slope_none)
        return float(np.log(total / good).sum() + (weights[:-1] ** 2).sum() / (2 * STRENGTH)), fall

    start = np.zeros(reader.BUCKETS + 1)
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 80}).x)


def counted(text: Text, role: str, value: int | None) -> str:
    told = [each for each in text.counts[role] or () if each is not None]
    if value is None:
        return "missed" if told and None not in (text.counts[role] or ()) else "left"
    return "claimed" if not told else "right" if text.is_right(role, value) else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--further", type=Path)
    parser.add_argument("--authors", help='those to judge, with commas between; "" for none')
    options = parser.parse_args()
    texts = list(labelled(options.further))
    authors = (
        sorted({each.author for each in texts}) if options.authors is None else options.authors.split(",")
    )
    for author in filter(None, authors):
        others = [each for each in texts if each.author != author]
        weights = np.stack([fitted(others, role) for role in reader.ROLES], axis=1).astype(np.float32)
        classifier = reader.CountClassifier(weights)
        judged: Counter[str] = Counter()
        for each in filter(lambda text: text.author == author, texts):
            for role, found in zip(reader.ROLES, classifier.odds(each.candidates), strict=True):
                if each.counts[role] is not None:
                    value = reader.told(found, reader.tells_of(each.text)[role])[0]
                    judged[f"{role} {counted(each, role, value)}"] += 1
        print(author, dict(sorted(judged.items())), flush=True)
    if options.fit:
        weights = np.stack([fitted(texts, role) for role in reader.ROLES], axis=1)
        np.savez_compressed(ROOT / "seeds" / reader.FILE, weights=weights.astype(np.float16))
        print((ROOT / "seeds" / reader.FILE).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
