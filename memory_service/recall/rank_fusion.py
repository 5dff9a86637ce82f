"""Reciprocal rank fusion of several rankings; ties share a rank.

score = sum over signals of weight / (K + rank). Ranks, not scores, are added because a cosine, a bm25 and a
share of common facts have no common unit. The task is uncertain when it was inferred from a text: its part
is the expected reciprocal rank, rank 1 with the probability of being the competition's task, last
otherwise.

One rule stands above the fusion (`outstanding`): a competition that matches the words far better than every
other, and is no further in meaning than the nearest, comes first, whatever task was read from the text.
Whether the text is of that very competition is another question (`recall.recognition`).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

K = 60.0
"""Cormack, Clarke and Buettcher 2009: the constant that made fusion insensitive to single outliers."""

WEIGHTS = {"embedding": 1.0, "words": 1.0, "structure": 1.0, "task": 2.0}
"""`task` at 2 outweighs both text signals together: neighbours of the asked kind come first, and meaning and
words order them. 0.5 loses 4 first neighbours in 100, 4 gains one and loses the competition itself as often
(docs/methods/recall.md)."""

WORD_RATIO_LEFT_OUT, WORD_RATIO_FIRST = 1.2, 1.5
"""bm25 of the best by that of the second: from the first figure on mode "family" leaves the best out, from
the second on it is put first. Of 120 paraphrases 98 and 95 % reach them, of 107 descriptions of other
competitions 36 and 14 %. Putting first from 1.2 on finds no more paraphrases than from 1.5 on and gives
one stranger in eight, not one in fifteen, a first neighbour of another task."""

MEANING_GAP = 0.06
"""How much nearer in meaning another competition may be (cosine)."""

SHARED = {"embedding": 2.88, "words": 0.18, "structure": 0.48, "task": 4.72, "bias": -5.71}
"""Logit of sharing task and two techniques: cosine, log(1 + bm25), structure, probability of its task. Fitted
by logistic regression over all 27 722 pairs of the 167 competitions whose winning solutions are known, each
asked by its description with itself left out; by eighths of the competitions the mean calibration error is
0.007 over all pairs and 0.075 over the first five hits (docs/methods/recall.md)."""

_USUAL_COSINE = 0.35
"""Of a neighbour of the same task, where meaning is not known."""

Scores = NDArray[np.float32]


def ranks_of(scores: Scores, depth: int = 1000) -> NDArray[np.float64]:
    """Rank from 1 for the highest; equal scores share the mean of their ranks, and so do all past `depth`."""
    n = len(scores)
    if n > depth:
        floor = scores[np.argpartition(-scores, depth)[depth]]
        ranks = np.full(n, 0.0)
        top = scores > floor
        ranks[top] = ranks_of(scores[top], n)
        above = int(top.sum())
        ranks[~top] = (above + 1 + n) / 2.0
        return ranks
    _, inverse, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(((ends - counts + 1 + ends) / 2.0)[inverse], dtype=np.float64)


def fuse(
    signals: Mapping[str, Scores],
    task_probability: Scores | None = None,
    weights: Mapping[str, float] = WEIGHTS,
) -> NDArray[np.float64]:
    """One score per competition (C,), scaled so that first in everything is 1.

    signals            "embedding", "words", "structure" -> scores (C,), higher is better
    task_probability   (C,) of each competition's task; at least one of both is given
    """
    n = len(task_probability if task_probability is not None else next(iter(signals.values())))
    total = np.zeros(n, dtype=np.float64)
    best = 0.0
    for name, scores in signals.items():
        total += weights[name] / (K + ranks_of(scores))
        best += weights[name] / (K + 1.0)
    if task_probability is not None:
        total += weights["task"] * (task_probability / (K + 1.0) + (1.0 - task_probability) / (K + n))
        best += weights["task"] / (K + 1.0)
    return total / best


def outstanding(
    embedding: Scores | None, words: Scores | None, ratio: float = WORD_RATIO_FIRST
) -> int | None:
    """The index of the competition whose words stand out by `ratio`, None if none does."""
    if words is None or len(words) < 2:
        return None
    first, second = np.argsort(-words, kind="stable")[:2]
    if words[first] <= 0 or words[first] < ratio * words[second]:
        return None
    if embedding is not None and float(embedding.max() - embedding[first]) > MEANING_GAP:
        return None
    return int(first)


def shared_probability(signals: Mapping[str, Scores], task_probability: Scores | None) -> NDArray[np.float64]:
    """Probability that question and competition (C,) share the task and at least two techniques of winners;
    comparable between questions. `signals` as in `fuse`."""
    structure = signals["structure"].astype(np.float64)
    meaning = signals.get("embedding")
    logit = SHARED["bias"] + SHARED["structure"] * structure
    logit += SHARED["embedding"] * (meaning if meaning is not None else _USUAL_COSINE)
    if "words" in signals:
        logit += SHARED["words"] * np.log1p(signals["words"])
    if task_probability is not None:
        logit += SHARED["task"] * task_probability
    return np.asarray(1.0 / (1.0 + np.exp(-logit)), dtype=np.float64)
