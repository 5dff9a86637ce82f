"""Members that learn from files: what is read once serves all fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.columns import column_kind, typed
from memory_service.train.problem import Fit, Member, Prediction, Problem, installed

MOST_VALUES = 40  # of a category


@dataclass
class FileMember(Member):
    """A member of files that end in one of `endings`; without endings of blocks of features.

    needs   package without which it does not apply
    read    what the fits need of all files, given the problem and the rows of the first fit that train
    cost    seconds of a fit, given the number of files that train and of all files
    alike   numbers of files that belong together, given those that train and those to predict
    """

    name: str
    endings: tuple[str, ...]
    needs: str
    read: Callable[[Problem, np.ndarray], Any]
    learn_from: Callable[[Fit, Any], Prediction]
    cost: Callable[[int, int], float]
    anytime: bool = False
    seeded: bool = False
    alike: Callable[[Sequence[Any], Sequence[Any]], np.ndarray | None] | None = None
    of: Problem | None = None
    known: Any = None

    def applies(self, problem: Problem) -> bool:
        files = problem.inputs
        if not self.endings:
            return bool(problem.blocks)
        named = isinstance(files, list) and all(str(p).lower().endswith(self.endings) for p in files[:20])
        return named and installed(self.needs)

    def price(self, problem: Problem) -> float:
        return self.cost(len(problem.inputs), len(problem.inputs) + len(problem.test_inputs))

    def learn(self, fit: Fit) -> Prediction:
        if self.of is not fit.problem:
            self.known, self.of = self.read(fit.problem, fit.train_rows), fit.problem
            if isinstance(self.known, list) and fit.problem.beside is not None:  # blocks of features
                self.known += columns_beside(fit.problem.beside)
        return self.learn_from(fit, self.known)


def columns_beside(table: pd.DataFrame) -> list[np.ndarray]:
    """A block of standardised numbers and of 0 and 1 for each frequent category; texts are left out."""
    parts: list[pd.Series] = []
    for name in table.columns:
        kind = column_kind(table[name])
        column = typed(table[name], kind)
        if kind in ("number", "code", "date"):
            known = (column - column.mean()) / (column.std() + 1e-9)
            parts += [known.fillna(0.0).clip(-4, 4), *([column.isna()] if column.isna().any() else [])]
        elif kind == "category":
            parts += [column == value for value in column.value_counts().index[:MOST_VALUES]]
    return [np.column_stack(parts).astype(np.float32)] if parts else []
