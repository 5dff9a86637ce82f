"""Members that learn from files: what is read once serves all fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from memory_service.train.problem import Fit, Member, Prediction, Problem, installed


@dataclass
class FileMember(Member):
    """A member of files that end in one of `endings`.

    needs   package without which it does not apply
    read    what the fits need of all files, given the problem and the rows of the first fit that train
    cost    seconds of a fit, given the number of files that train and of all files
    """

    name: str
    endings: tuple[str, ...]
    needs: str
    read: Callable[[Problem, np.ndarray], Any]
    learn_from: Callable[[Fit, Any], Prediction]
    cost: Callable[[int, int], float]
    anytime: bool = False
    seeded: bool = False
    of: Problem | None = None
    known: Any = None

    def applies(self, problem: Problem) -> bool:
        files = problem.inputs
        named = isinstance(files, list) and all(str(p).lower().endswith(self.endings) for p in files[:20])
        return named and installed(self.needs)

    def price(self, problem: Problem) -> float:
        return self.cost(len(problem.inputs), len(problem.inputs) + len(problem.test_inputs))

    def learn(self, fit: Fit) -> Prediction:
        if self.of is not fit.problem:
            self.known, self.of = self.read(fit.problem, fit.train_rows), fit.problem
        return self.learn_from(fit, self.known)
