"""Seconds of one boosted tree by library, on the threads of a processor or on a card; whole fits are in
`domain.cost.boosted_trees`. There are two laws, of public tables and of this project's own timings.

By public tables (`seconds_per_tree`):

    processor = (rows x features x levels x a + rows x levels x r + leaves x features x b) x (1 - p + p /
    threads)
                + leaves x threads x s
    card      = leaves x l + rows x levels x (features x g + t) x (900 GB/s / bandwidth) ^ w

levels = log2(leaves) / 2. `s` is what starting and joining
the threads costs each leaf: on small tables it is most of the time, and more threads than `best_threads`
only slow them down. Fitted on public tables (szilard/GBM-perf, catboost/benchmarks: LightGBM 101, XGBoost
34, CatBoost 37, H2O 46 rows of processors from 2 to 96 threads; 44, 28 and 9 of cards); errors stand in
docs/methods/accuracy.md. On cards all but LightGBM's rows have 8 columns. CatBoost's `g` is of 400 000 x
2 000 (gpu_vs_cpu_training_speed: 194 s on a GTX 1080, taken as its default of 1 000 rounds), and `t` keeps
the rows of 8 columns where they were; XGBoost's `g` meets 25 ms a tree of 750 000 x 50 on a GTX 1080 Ti (its
docs).

By own timings (`lightgbm_tree`), which plans on a processor take: the four constants were fitted on LightGBM
4.7, one thread, 2 000-200 000 rows x 10-200 columns x 1 or 7 classes x 31 or 127 leaves, on a machine of two
cores (benchmarks/fit_trees.py). A histogram tree of L leaves reads every row once a level, but of two
children only the smaller one is counted, so about log2(L)/2 passes over rows x features remain; finding
splits costs features x leaves (255 bins); rows are regrouped and scores updated once per tree.
"""

from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from memory_service.domain.common.tables import shipped_table

LEAST_ROWS_A_LEAF = 20.0
REFERENCE_GB_S = 900.0

SECONDS_PER_ROW_FEATURE_LEVEL = 2.0e-9
SECONDS_PER_ROW = 3.5e-9
SECONDS_PER_FEATURE_LEAF = 1.8e-6
SECONDS_PER_LEAF = 2.8e-6


@dataclass(frozen=True, slots=True)
class TreeLaw:
    """Constants of the formulas above, in seconds; share: p."""

    value: float
    row: float
    leaf_column: float
    start: float
    share: float
    card_leaf: float = 0.0
    card_value: float = 0.0
    card_power: float = 0.0
    card_row: float = 0.0


TREE_LAWS = {name: TreeLaw(**row) for name, row in shipped_table(__package__, "tree_laws.toml").items()}


def used_leaves(rows: float, leaves: float) -> float:
    """How many of its leaves a tree has on so many rows."""
    return min(float(max(leaves, 2)), max(rows / LEAST_ROWS_A_LEAF, 2.0))


def lightgbm_tree(rows: float, columns: float, leaves: float) -> float:
    """Seconds of one of its trees on one core, without the start of threads."""
    used = used_leaves(rows, leaves)
    levels = log2(used) / 2.0
    tree = rows * columns * levels * SECONDS_PER_ROW_FEATURE_LEVEL
    tree += rows * SECONDS_PER_ROW * log2(used)
    return tree + used * (columns * SECONDS_PER_FEATURE_LEAF + SECONDS_PER_LEAF)


def seconds_per_tree(
    library: str,
    rows: float,
    features: float,
    leaves: float,
    *,
    threads: int = 1,
    card_gb_s: float | None = None,
) -> float | None:
    """Seconds of one tree; card_gb_s: on a card of this bandwidth. None where no law is known."""
    law = TREE_LAWS.get(library)
    if law is None or (card_gb_s is not None and not law.card_leaf):
        return None
    used = used_leaves(rows, leaves)
    levels = log2(used) / 2.0
    if card_gb_s is not None:
        moved = rows * levels * (features * law.card_value + law.card_row)
        return float(used * law.card_leaf + moved * (REFERENCE_GB_S / card_gb_s) ** law.card_power)
    work = rows * levels * (features * law.value + 2.0 * law.row) + used * features * law.leaf_column
    return float(work * (1.0 - law.share + law.share / threads) + used * threads * law.start)


def best_threads(
    library: str, tree_seconds: Any, leaves: float, cores: int, share: float | None = None
) -> Any:
    """How many of the cores make trees of `tree_seconds` on one core (a number, or an array of them) fastest;
    share: p, the law's own if None."""
    law = TREE_LAWS.get(library)
    if law is None or not law.start:
        return cores
    spread = law.share if share is None else share
    best = np.sqrt(tree_seconds * spread / (max(leaves, 2.0) * law.start))
    fewer = np.minimum(np.maximum(np.floor(best), 1), cores)
    more = np.minimum(np.maximum(np.ceil(best), 1), cores)

    def seconds(threads: Any) -> Any:
        return tree_seconds * (1.0 - spread + spread / threads) + start_seconds(library, leaves, threads)

    threads = np.where(seconds(fewer) < seconds(1.0), fewer, 1.0)
    return np.where(seconds(more) < seconds(threads), more, threads)[()]


def start_seconds(library: str, leaves: float, threads: Any) -> Any:
    """Seconds that starting the threads costs a tree."""
    law = TREE_LAWS.get(library)
    return 0.0 if law is None else np.where(np.asarray(threads) > 1, leaves * threads * law.start, 0.0)
