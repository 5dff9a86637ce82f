"""How many fits a run makes and to how many rows: what its minutes are counted in.

Random folds are fitted once for each seed, each to its share of the rows. Split by time, each fold holds out
a window as long as the test's and learns from what is older; then boosted trees are fitted to all rows, and
networks to the latest fold, with each seed (docs/scripts.md#by-time).
"""

from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np

SINGLE_SPLIT_TRAIN_SHARE = 0.8

LEAST_WINDOW, FEW_FOLDS = 1 / 50, 4
"""Split by time a fold validates on a fiftieth of the rows at least; on a fifth at most of up to so many
folds, with more on a share that leaves the oldest as much to learn from."""


@dataclass(frozen=True, slots=True)
class Fits:
    """Numbers, or arrays over folds.

    folds, seeds   as planned; by_time: how rows are split; refits: to all rows behind the folds
    rows           that the first fold learns from, by time the latest; other_rows: another fold, in the mean
    valid          that judge a fold; whole_rows: all
    """

    folds: Any
    seeds: Any
    by_time: bool
    refits: bool
    rows: Any
    other_rows: Any
    valid: Any
    whole_rows: float

    @property
    def first(self) -> Any:
        """Fits of the first fold; others are counted in `other`, those to all rows in `whole`."""
        return self.seeds if self.by_time and not self.refits else 1

    @property
    def other(self) -> Any:
        return self.folds - 1 if self.by_time else self.folds * self.seeds - 1

    @property
    def whole(self) -> Any:
        return self.seeds if self.refits else 0

    @property
    def models(self) -> Any:
        """How many predict the test set."""
        return self.first + self.other + self.whole

    @property
    def averaged(self) -> Any:
        """Models whose mean is submitted: by time those of the latest rows, one for each seed."""
        return self.seeds if self.by_time else self.folds * self.seeds

    @property
    def rows_read(self) -> Any:
        """Rows of all fits together."""
        return self.rows * self.first + self.other_rows * self.other + self.whole_rows * self.whole


def split_of(n_train: int, folds: Any) -> tuple[Any, Any]:
    """(samples trained on, samples validated on) of one random fold: 80/20 for one split, (k-1)/k for k."""
    if isinstance(folds, int):
        part = SINGLE_SPLIT_TRAIN_SHARE if folds <= 1 else (folds - 1) / folds
        trained = max(1.0, float(floor(n_train * part)))
        return trained, max(0.0, n_train - trained)
    k = np.asarray(folds)
    share = np.where(k <= 1, SINGLE_SPLIT_TRAIN_SHARE, (k - 1) / np.maximum(k, 2))
    fit = np.maximum(1.0, np.floor(n_train * share))
    return fit, np.maximum(0.0, n_train - fit)


def fits_of(
    n_train: int, n_test: int, folds: Any, *, seeds: Any = 1, by_time: bool = False, trees: bool = False
) -> Fits:
    """Of a run; by time as if each period had as many rows."""
    if not by_time:
        rows, valid = split_of(n_train, folds)
        return Fits(folds, seeds, False, False, rows, rows, valid, float(n_train))
    share = np.clip(n_test / n_train, LEAST_WINDOW, 1.0 / (np.maximum(folds, FEW_FOLDS) + 1.0))
    others = 1.0 - share * (folds + 2.0) / 2.0  # the mean of 1 - 2 shares, 1 - 3 shares ... 1 - folds shares
    rows, other_rows = (np.maximum(1.0, n_train * part) for part in (1.0 - share, others))
    return Fits(folds, seeds, True, trees, rows, other_rows, n_train * share, float(n_train))
