"""Structural similarity: task, metric family, size, number of classes, split, modality.

Facts become small integer codes, one array per fact, so that ten thousand competitions are compared in well
under a millisecond and without any text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.vocabulary import TASKS, modality_of, size_of
from memory_service.domain.description.metrics import metric_named

FACT_WEIGHTS = {
    "task": 4.0,
    "modality": 1.5,
    "answer": 1.5,
    "metric_family": 2.0,
    "n_classes": 0.75,
    "size": 0.75,
    "split": 0.5,
}
"""What agreeing on a fact is worth in the structure score. `answer` is the kind of answer that the task
asks for."""

_ANSWERS = {
    "classification": "class",
    "regression": "value",
    "segmentation": "mask",
    "detection": "boxes",
    "ranking": "order",
    "retrieval": "order",
    "recommendation": "order",
    "seq2seq": "sequence",
    "captioning": "sequence",
    "answering": "span",
    "similarity": "value",
    "image": "picture",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """The facts competitions are compared by; None where unknown. `n_classes` and `size` are buckets."""

    task: str | None = None
    modality: str | None = None
    answer: str | None = None
    metric_family: str | None = None
    n_classes: str | None = None
    size: str | None = None
    split: str | None = None


def kind_of(facts: Mapping[str, Any]) -> Kind:
    """The kind of a competition's row or of a question's facts. `size` may replace `n_train`."""
    task = facts.get("task")
    metric, family = facts.get("metric"), facts.get("metric_family")
    if not family and metric:
        named = metric_named(str(metric))
        family = named.family if named else None
    n_train, n_classes = facts.get("n_train"), facts.get("n_classes")
    return Kind(
        task=task,
        modality=facts.get("modality") or (modality_of(task) if task in TASKS else None),
        answer=answer_of(task) if task else None,
        metric_family=family,
        n_classes=_class_bucket(int(n_classes)) if n_classes else None,
        size=facts.get("size") or (size_of(int(n_train)) if n_train else None),
        split=facts.get("split") if facts.get("split") != "unknown" else None,
    )


class StructureTable:
    """The kinds of all stored competitions, comparable with one kind at once."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.kinds = tuple(kinds)
        self._codes: dict[str, dict[str, int]] = {name: {} for name in FACT_WEIGHTS}
        self._columns: dict[str, NDArray[np.int32]] = {}
        for name, codes in self._codes.items():
            values = [getattr(kind, name) for kind in kinds]
            for value in values:
                if value is not None:
                    codes.setdefault(value, len(codes))
            self._columns[name] = np.array([codes.get(value, -1) for value in values], dtype=np.int32)

    def task_probability(self, probabilities: Mapping[str, float]) -> NDArray[np.float32]:
        """Probability of each competition's task (C,); 0 where it is unknown."""
        return self.probability("task", probabilities)

    def probability(self, fact: str, probabilities: Mapping[str, float]) -> NDArray[np.float32]:
        """Probability of each competition's value of a fact (C,); 0 where it is unknown."""
        by_code = np.zeros(len(self._codes[fact]) + 1, dtype=np.float32)
        for value, code in self._codes[fact].items():
            by_code[code] = probabilities.get(value, 0.0)
        return by_code[self._columns[fact]]

    def scores(self, kind: Kind) -> NDArray[np.float32]:
        """0..1 per competition: weight of shared facts over the weight of the question's known facts."""
        known = sum(weight for name, weight in FACT_WEIGHTS.items() if getattr(kind, name) is not None)
        total = self.shared_weight(kind, FACT_WEIGHTS)
        return total / np.float32(known) if known else total

    def shared_weight(self, kind: Kind, weights: Mapping[str, float]) -> NDArray[np.float32]:
        """Summed weight of the facts that a competition shares with a kind (C,)."""
        total = np.zeros(len(self.kinds), dtype=np.float32)
        for name, weight in weights.items():
            code = self._codes[name].get(getattr(kind, name))
            if code is not None:
                total += weight * (self._columns[name] == code)
        return total


def answer_of(task: str) -> str | None:
    """The kind of answer that a task asks for."""
    return _ANSWERS.get(task.rsplit("-", 1)[-1])


def _class_bucket(n_classes: int) -> str:
    for limit, name in ((2, "2"), (10, "3-10"), (100, "11-100"), (1000, "101-1000")):
        if n_classes <= limit:
            return name
    return "over 1000"


def shared_facts(query: Kind, match: Kind) -> list[str]:
    """What two kinds have in common, in words, weightiest first."""
    words = []
    for name, form in _SHARED.items():
        value = getattr(query, name)
        told = name == "modality" and "task" in words
        if value is not None and value == getattr(match, name) and not told:
            words.append("2 classes" if (name, value) == ("n_classes", "2") else form.format(value))
    return words


_SHARED = {
    "task": "task", "modality": "data ({})", "metric_family": "metric family ({})",
    "n_classes": "number of classes ({})", "size": "size ({})", "split": "{} split",
}  # fmt: skip


TASK_WEIGHT = 0.5
"""Beside unit vectors of meaning: texts of one field that ask for other answers stand apart, kinds stay
together. 0 mixed photographs with tables about photographs, 1 drew one heap per task (both looked at)."""


def pca_projection(vectors: NDArray[np.float32], tasks: Sequence[str | None]) -> NDArray[np.float64]:
    """Places (N, 2), about -1..1, of unit vectors (N, D) and tasks by two principal components."""
    if len(tasks) < 3:
        return np.array([[float(i), 0.0] for i in range(len(tasks))]).reshape(-1, 2)
    names = sorted({task for task in tasks if task})
    of_task = np.zeros((len(tasks), len(names)))
    for row, task in enumerate(tasks):
        if task:
            of_task[row, names.index(task)] = TASK_WEIGHT
    points = np.hstack([np.asarray(vectors, dtype=np.float64), of_task])
    points -= points.mean(axis=0)
    _, axes = np.linalg.eigh(points.T @ points)
    two = axes[:, [-1, -2]]
    # An axis has no direction of its own: its largest part points up.
    two = two * np.sign(two[np.abs(two).argmax(axis=0), [0, 1]])
    places = points @ two
    return np.asarray(places / max(float(np.abs(places).max()), 1e-12), dtype=np.float64)
