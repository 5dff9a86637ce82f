"""What a member of a training run is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np


@dataclass
class Problem:
    """What is learned and what is predicted. Row i of `inputs` belongs to row i of `targets`.

    inputs, test_inputs   a DataFrame, or a list of paths of files
    targets               classes: class numbers, (rows,); labels: 0 and 1, (rows, labels); values: (rows,
                          targets), in the scale that the metric judges
    outputs               names of the classes, labels or targets: predictions have as many columns
    loss                  what a fit minimises
    score                 the metric of (truth, predictions): higher is better
    groups, times         one value a row: rows of a group stay together, later rows validate
    columns               of a table: column -> number, code, category, date or text
    metric                the function of the score, such as "auc"; "" where it is the loss
    shared                what members keep for each other: encoded texts, features of a fold
    cache                 a folder where a member keeps what is dear to make
    """

    kind: Literal["classes", "labels", "values"]
    inputs: Any
    test_inputs: Any
    targets: np.ndarray
    outputs: list[Any]
    score: Callable[[np.ndarray, np.ndarray], float]
    loss: Literal["log_loss", "squared", "absolute"] = "log_loss"
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    test_times: np.ndarray | None = None
    columns: dict[str, str] = field(default_factory=dict)
    cores: int = 1
    metric: str = ""
    shared: dict[str, Any] = field(default_factory=dict)
    cache: Path | None = None

    @property
    def width(self) -> int:
        return len(self.outputs)


@dataclass
class Prediction:
    """What a fit gives: (rows, outputs) of the rows that validate and of the test set.

    memo       what a fit to all rows must know, such as {"rounds": 120}
    complete   whether it gained what it can: False where the clock cut it
    """

    valid: np.ndarray
    test: np.ndarray
    memo: dict[str, Any] = field(default_factory=dict)
    complete: bool = True


class Clock(Protocol):
    def left(self) -> float:
        """Seconds that this fit may still use, with predicting."""


class Member(Protocol):
    """One way to learn a problem. Three more attributes are read where a member has them:

    anytime   it ends whenever the clock says so, and is fitted however little time there is
    once      most of its price is paid once, whatever the number of fits
    seeded    fits with other seeds differ, and their mean is better than one
    """

    name: str

    def applies(self, problem: Problem) -> bool: ...

    def price(self, problem: Problem) -> float:
        """Seconds that one fit takes on one core, at the median."""

    def fit(
        self,
        problem: Problem,
        train_rows: np.ndarray,
        valid_rows: np.ndarray,
        seed: int,
        clock: Clock,
        memo: dict[str, Any],
    ) -> Prediction:
        """Learn from `train_rows`; `valid_rows` may be none, and then `memo` is that of earlier fits."""
