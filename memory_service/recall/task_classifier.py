"""The task of a text, a kind that is no task here ("outside: generation"), or "untold", with probabilities.

Multinomial logistic regression over the cues (`domain.description.phrases`), hashed words and pairs of words,
and the mean vector of the passages that the encoder reads anyway; without an encoder a second set of weights,
of cues and words alone. `python -m benchmarks.fit_task` fits, calibrates and writes both.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memory_service import resources
from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.description.phrases import TASK_OF, task_sentences, words_of
from memory_service.domain.description.task_inference import NUMBERS

FILE = "task_classifier.npz"
BUCKETS = 8192
_READ_WORDS = 1_200
AXES = (*sorted({given for given, _ in TASK_OF}), NUMBERS), tuple(sorted({answer for _, answer in TASK_OF}))
"""Kinds of input and of answer whose scores are features."""

_CUES, _VECTOR, _WORDS = 0.06, 2.0, 1.5
"""Scale of the features: the same penalty then suits all three."""

Floats = NDArray[np.float32]


def words_in(text: str) -> Counter[int]:
    """Bucket -> occurrences, of the words and neighbouring pairs of a text's beginning; numbers are alike."""
    counts: Counter[str] = Counter()
    left = _READ_WORDS
    for sentence in task_sentences(text):
        words = ["#" if word.isdigit() else word for word in words_of(sentence)[:left]]
        left -= len(words)
        counts.update(words)
        counts.update(f"{first} {second}" for first, second in pairwise(words))
    buckets: Counter[int] = Counter()
    for word, count in counts.items():
        buckets[zlib.crc32(word.encode()) % BUCKETS] += count
    return buckets


def dense_features(axes: tuple[Mapping[str, float], Mapping[str, float]], vectors: Floats | None) -> Floats:
    """Scores of both axes, then the mean of the passages' vectors where there are any."""
    cues = [_CUES * scores.get(name, 0.0) for scores, names in zip(axes, AXES, strict=True) for name in names]
    parts = [np.asarray(cues, dtype=np.float32)]
    if vectors is not None:
        parts.append(_VECTOR * vectors.mean(axis=0))
    return np.concatenate(parts)


def word_features(buckets: Counter[int], rarity: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Places of the words and their weights, of length `_WORDS` in all."""
    places = np.fromiter(buckets, dtype=np.intp, count=len(buckets))
    counts = np.fromiter(buckets.values(), dtype=np.float32, count=len(buckets))
    weights = (1.0 + np.log(counts)) * rarity[places]
    length = float(np.linalg.norm(weights))
    return places, (_WORDS / length * weights if length else weights).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Head:
    """Weights of dense features (d, classes), of words (BUCKETS, classes), bias (classes,); all divided by
    the temperature."""

    dense: Floats
    words: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class TaskClassifier:
    """classes; rarity (BUCKETS,) of words; heads with and without vectors."""

    classes: tuple[str, ...]
    rarity: Floats
    encoded: Head
    plain: Head

    def given(self, vectors: Floats | None) -> "Classify":
        """What classifies a text of these passages' vectors (n, 384)."""

        def classify(axes: tuple[Mapping[str, float], Mapping[str, float]], text: str) -> dict[str, float]:
            head = self.plain if vectors is None else self.encoded
            places, weights = word_features(words_in(text), self.rarity)
            logits = dense_features(axes, vectors) @ head.dense + weights @ head.words[places] + head.bias
            odds = np.exp(logits - logits.max())
            return dict(zip(self.classes, (odds / odds.sum()).tolist(), strict=True))

        return classify


Classify = Callable[[tuple[Mapping[str, float], Mapping[str, float]], str], dict[str, float]]


@cache
def task_classifier() -> TaskClassifier:
    """The one that ships."""
    with np.load(resources.path("seeds", FILE), allow_pickle=False) as file:
        scale = file["words_scale"].astype(np.float32)
        heads = [
            Head(
                file[f"{name}_dense"].astype(np.float32),
                file[f"{name}_words"].astype(np.float32) * scale[place],
                file[f"{name}_bias"].astype(np.float32),
            )
            for place, name in enumerate(("encoded", "plain"))
        ]
        classes = (str(name) for name in file["classes"])
        named = tuple(
            planned if (planned := name.removeprefix("outside: ")) in TASKS else name for name in classes
        )
        return TaskClassifier(named, file["rarity"].astype(np.float32), *heads)
