"""What does a boosting round cost? Times LightGBM on one thread; fits the constants of
`domain/cost/tree_seconds.py`.

    python benchmarks/fit_trees.py [--quick]

Processor seconds, not wall-clock: a busy machine does not change them much. About three minutes on one core.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from math import log2

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

NAMES = (
    "SECONDS_PER_ROW_FEATURE_LEVEL",
    "SECONDS_PER_ROW",
    "SECONDS_PER_FEATURE_LEAF",
    "SECONDS_PER_LEAF",
)
START = (2e-9, 4e-9, 2e-6, 3e-6)


def work(rows: int, columns: int, classes: int, leaves: int) -> list[float]:
    """The four amounts the constants multiply, of one round: see `domain.cost.tree_seconds`."""
    used = min(float(max(leaves, 2)), max(rows / 20.0, 2.0))
    trees = classes if classes > 2 else 1
    levels = log2(used)
    return [trees * v for v in (rows * columns * levels / 2, rows * levels, used * columns, used)]


def seconds_per_round(rows: int, columns: int, classes: int, leaves: int) -> float:
    """Processor seconds of one round on random numbers that a tree can learn from."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(rows, columns)).astype(np.float32)
    signal = table[:, 0] + table[:, 1] * table[:, 2] + rng.normal(size=rows) * 0.3
    cuts = np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1])
    settings = {
        "objective": "multiclass" if classes > 2 else "binary",
        "num_leaves": leaves,
        "num_threads": 1,
        "verbose": -1,
        **({"num_class": classes} if classes > 2 else {}),
    }
    data = lightgbm.Dataset(table, np.digitize(signal, cuts), params={"num_threads": 1, "verbose": -1})
    data.construct()
    rounds = 20 if rows < 100_000 else 5
    start = time.process_time()
    lightgbm.train(settings, data, num_boost_round=rounds)
    return (time.process_time() - start) / rounds


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="leave out the 200 000 rows")
    sizes = (2_000, 20_000) if arguments.parse_args().quick else (2_000, 20_000, 200_000)
    cases = list(product(sizes, (10, 50, 200), (2, 7), (31, 127)))
    measured = np.log([seconds_per_round(*case) for case in cases])
    amounts = np.array([work(*case) for case in cases])

    def residuals(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.log(amounts @ np.exp(theta)) - measured)

    found = least_squares(residuals, np.log(START), loss="soft_l1", f_scale=0.2).x
    error = np.abs(np.expm1(residuals(found)))
    for name, value in zip(NAMES, np.exp(found), strict=True):
        print(f"{name} = {value:.2g}")
    print(f"{len(cases)} cases: median error {np.median(error):.0%}, p90 {np.quantile(error, 0.9):.0%}")


if __name__ == "__main__":
    main()
