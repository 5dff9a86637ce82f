"""Members that learn from files: what is read once serves all fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from memory_service.train.problem import Clock, Prediction, Problem

RowsOfFit = tuple[np.ndarray, np.ndarray]


@dataclass
class FileMember:
    """A member of files that end in one of `endings`.

    needs   package without which it does not apply
    read    what the fits need of all files, given the problem and the rows of the first fit that train
    learn   a fit: (problem, what was read, rows that train and that validate, seed, clock, memo)
    cost    seconds of a fit, given the number of files that train and of all files
    anytime whether a fit that is given less time ends earlier and still answers
    """

    name: str
    endings: tuple[str, ...]
    needs: str
    read: Callable[[Problem, np.ndarray], Any]
    learn: Callable[[Problem, Any, RowsOfFit, int, Clock, dict[str, Any]], Prediction]
    cost: Callable[[int, int], float]
    anytime: bool = False
    seeded: bool = False
    of: Problem | None = None
    known: Any = None

    def applies(self, problem: Problem) -> bool:
        files = problem.inputs
        named = isinstance(files, list) and all(str(p).lower().endswith(self.endings) for p in files[:20])
        return named and find_spec(self.needs) is not None

    def price(self, problem: Problem) -> float:
        return self.cost(len(problem.inputs), len(problem.inputs) + len(problem.test_inputs))

    def fit(
        self,
        problem: Problem,
        train_rows: np.ndarray,
        valid_rows: np.ndarray,
        seed: int,
        clock: Clock,
        memo: dict[str, Any],
    ) -> Prediction:
        if self.of is not problem:
            self.known, self.of = self.read(problem, train_rows), problem
        return self.learn(problem, self.known, (train_rows, valid_rows), seed, clock, memo)
