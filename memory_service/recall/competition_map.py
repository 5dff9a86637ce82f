"""Two-dimensional map of competitions by principal components of meaning and task."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
