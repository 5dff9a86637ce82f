"""Cost of boosted trees and other processor-bound models: seconds to fit and predict, and host memory.

The seconds of one tree are in `domain.cost.tree_seconds`; there is one tree per class and round. More cores
than one follow Amdahl's law and are an extrapolation, said in `basis`. A calibrated host brings its own time
per tree and for binning (`TreeSpeed`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.cost.in_context import context_laws, context_seconds, host_memory
from memory_service.domain.cost.tree_seconds import (
    TREE_LAWS,
    best_threads,
    lightgbm_tree,
    seconds_per_tree,
    start_seconds,
    used_leaves,
)
from memory_service.errors import unknown_name

BINNING_SECONDS_PER_VALUE = 1.3e-7
PREDICT_SECONDS_PER_ROW_LEVEL = 8e-9

SETTLED, SETTLING_ROUNDS = 0.55, 60.0
"""A tree costs less once the gross of the signal is explained. Six kinds of labels on 200 000 x 50 took 20
to 46 ms a tree over 300 trees (median 25) where the first trees of the table that a calibration times take
44."""

PARALLEL_SHARE = 0.9
"""Share of a tree's work that spreads over cores; the rest (split choice, row regrouping) does not."""

BASE_GIB = 0.25
GIB = 2.0**30

MEMORY_SPREAD = 1.4

NODES_PER_ROW = {"random-forest": 1.264, "extra-trees": 2.0}
"""Of each tree of a regression by scikit-learn's defaults, which limit neither depth nor leaves: a leaf for
each distinct row, thus two nodes, and 1 - 1/e of the rows in a bootstrap sample; extra trees draw none."""

CLASSES_EXPONENT = {"random-forest": 0.3, "extra-trees": 0.6}
"""Trees of k classes stop at pure leaves: 1 - k**-exponent of those nodes. Both as counted (scikit-learn 1.9,
2 000 to 60 000 rows x 10 to 40 columns, 2 to 100 classes, of which 10 to 20 % of the labels are noise): the
share does not change with rows. Labels without noise take half at two classes, those of nothing but noise 1.6
times as many, well parted clusters two thirds."""

NODE_BYTES, NODE_VALUE_BYTES = 64.0, 8.0
"""Of a node, and of each value that it holds: one, or one for each class. Forests pickled take as much."""

CLASSES_SPREAD = 2.0


@dataclass(frozen=True, slots=True)
class CpuFit:
    """fit_seconds of one model on all rows; predict_seconds_per_row; memory_gib of the host process at its
    peak."""

    fit_seconds: Estimate
    predict_seconds_per_row: Estimate
    memory_gib: Estimate


@dataclass(frozen=True, slots=True)
class TreeSpeed:
    """Tree building as a host was measured to do it: seconds of a tree = scale x law + tree_seconds, of
    binning = binning x law."""

    scale: float
    tree_seconds: float
    binning: float
    basis: str = "tree building measured on this host"


MEASURED_SPREAD = 1.3
"""Of LightGBM on a calibrated host; of other libraries what they differ from it remains."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """factor: time against LightGBM's law; levels: how many passes a tree makes against LightGBM's."""

    law: str
    factor: float
    spread: float
    bytes_per_value: float
    note: str


CPU_MODELS = {name: _Kind(*row) for name, row in shipped_table(__package__, "cpu_models.toml").items()}

_ONE_CORE = ("linear", "tfidf")
"""Laws of what does not spread over cores: BLAS's threads spin as they wait, so their scripts use one."""


def cost_kind(name: str, library: str, family: str) -> str | None:
    """The law of a model of the processor, None where it has none."""
    if name in context_laws():
        return name
    return next((each for each in (name, library, family) if each in CPU_MODELS), None)


def is_boosting(kind: str) -> bool:
    return kind in CPU_MODELS and CPU_MODELS[kind].law == "boosting"


def grows_trees(kind: str) -> bool:
    """Whether a fit goes through the rows once a tree."""
    return kind in CPU_MODELS and CPU_MODELS[kind].law in ("boosting", "forest")


def fit_cost(
    kind: str,
    n_train: int,
    n_features: int,
    n_classes: int = 1,
    *,
    rounds: Any = 500,
    leaves: int = 31,
    cpu_count: int = 8,
    speed: TreeSpeed | None = None,
) -> CpuFit:
    """Cost of one fit on `cpu_count` cores; without a GPU.

    kind       a name of `CPU_MODELS` or of `in_context.toml`
    n_classes  1 for regression; two classes need one tree a round, more need one each
    rounds     boosting rounds, or trees of a forest; an array of them gives figures of arrays
    speed      of a calibrated host, for boosting; None = the constants above
    Time and memory never fall with rows, columns, classes (from two on), rounds or leaves; time never rises
    with cores.
    """
    if kind in context_laws():
        fit, each = context_seconds(kind, n_train, n_features, None, cpu_count)
        return CpuFit(fit, each, host_memory(n_train, n_features))
    if kind not in CPU_MODELS:
        raise unknown_name("model", kind, tuple(CPU_MODELS))
    law = CPU_MODELS[kind]
    rows, columns = float(max(n_train, 1)), float(max(n_features, 1))
    outputs = float(n_classes) if n_classes > 2 else 1.0
    built, spread = speed if law.law == "boosting" else None, law.spread
    if law.law == "boosting":
        (one_core, per_row), extra = _boosting(rows, columns, outputs, rounds, leaves, built), 0.0
    else:
        one_core, per_row, extra = _ESTIMATORS[law.law](rows, columns, outputs, rounds)
    cores = 1 if law.law in _ONE_CORE else max(cpu_count, 1)
    started = 0.0
    if law.law == "boosting" and built is None:  # on small tables, starting the threads is most of the time
        used = used_leaves(rows, leaves)
        trees = rounds * outputs
        cores = best_threads(kind, law.factor * one_core / trees, used, cores, PARALLEL_SHARE)
        started = trees * start_seconds(kind, used, cores)
    speedup = 1.0 / (1.0 - PARALLEL_SHARE + PARALLEL_SHARE / cores)
    spread = spread * (1.0 + 0.1 * np.log2(cores))
    where = "one core" if law.law in _ONE_CORE else f"2 cores, {np.max(cores):.0f} by Amdahl's law"
    basis = f"{law.note}; measured on {where}"
    seconds = law.factor * one_core / speedup + started
    if built is not None:
        spread = MEASURED_SPREAD * law.spread / CPU_MODELS["lightgbm"].spread
        basis = f"{law.note} x {built.basis}"
        seconds += law.factor * rounds * outputs * built.tree_seconds
    memory = BASE_GIB + (rows * columns * law.bytes_per_value + rows * outputs * 24.0) / GIB
    memory += extra / GIB
    memory_spread, of_memory = MEMORY_SPREAD, "histograms"
    if law.law == "forest":
        nodes, node_bytes = forest_nodes(kind, rows, n_classes)
        memory += rounds * nodes * node_bytes / GIB
        memory_spread = CLASSES_SPREAD if n_classes > 1 else MEMORY_SPREAD
        of_memory = f"trees of {nodes / rows:.2f} nodes a row, {node_bytes:.0f} bytes each"
    else:
        memory += rounds * outputs * leaves * 100.0 / GIB + leaves * columns * 255 * 16.0 / GIB
    return CpuFit(
        fit_seconds=_wide(seconds, spread, basis),
        predict_seconds_per_row=_wide(per_row * law.factor / speedup, spread * 1.5, basis),
        memory_gib=_wide(
            memory, memory_spread, f"rows x columns x {law.bytes_per_value:g} bytes + {of_memory}"
        ),
    )


def forest_nodes(kind: str, rows: float, n_classes: int) -> tuple[float, float]:
    """(nodes of a tree of a forest, bytes of each), grown until leaves are pure; n_classes is 1 for a
    regression."""
    nodes = NODES_PER_ROW[kind] * rows
    if n_classes > 1:
        nodes *= 1.0 - n_classes ** -CLASSES_EXPONENT[kind]
    return nodes, NODE_BYTES + NODE_VALUE_BYTES * n_classes


NETWORK_BYTES_PER_VALUE = 16.0
"""Of a network's table, by its script: as pandas reads it (8), each column in fp32 (4), all of them (4)."""


def table_memory(n_train: int, n_features: int) -> Estimate:
    """GiB of the host that a network's table takes."""
    gib = BASE_GIB + n_train * n_features * NETWORK_BYTES_PER_VALUE / GIB
    return _wide(gib, MEMORY_SPREAD, f"rows x columns x {NETWORK_BYTES_PER_VALUE:g} bytes")


TREE_SPREAD = 2.0
"""Of seconds a tree by its law, either way, of eight in ten public rows: machines and options differ. Of
XGBoost on cards 12 of 15 rows since 2024; before it was up to six times as slow."""


def fit_on_card(
    kind: str, n_train: int, n_features: int, n_classes: int, rounds: Any, card_gb_s: float, leaves: int = 31
) -> Estimate | None:
    """Seconds of a fit by the library's own trees on a card of this bandwidth; None where no law is known."""
    outputs = n_classes if n_classes > 2 else 1
    tree = seconds_per_tree(kind, n_train, n_features, leaves, card_gb_s=card_gb_s)
    if tree is None:
        return None
    binning = n_train * n_features * BINNING_SECONDS_PER_VALUE
    spread = max(TREE_SPREAD, CPU_MODELS[kind].spread)
    which = "" if TREE_LAWS[kind].card_power else ", the same for every card: public figures tell none apart"
    return _wide(binning + rounds * outputs * tree, spread, f"law of {kind} trees on a card{which}")


CARD_BYTES = {"xgboost": (2.0, 3.0, 8.0), "catboost": (1.0, 1.5, 1.0)}
"""Of each value on a card: (median, p90) of rows to train on, and of those that validate. Only these
libraries: the wheel of LightGBM 4.7 says that its CUDA learner "was not enabled in this build".

xgboost    a quarter of a CSR matrix (its docs, "Memory usage"); 3 before 3.0 or with missing values (issue
           10981), 1 without; validation rows lie there as CSR for prediction
catboost   borders of 128 bins in a byte, validation rows, too
"""

CARD_ROW_BYTES, CONTEXT_GIB = 48.0, 0.6
"""Gradients, positions, scores and sort keys of a row for each output, judged; CUDA context and library."""

CATBOOST_SHARE = 0.95
"""Of the card, which CatBoost takes for itself whatever the data (`gpu_ram_part`, its docs)."""


def card_memory(kind: str, n_train: int, n_valid: int, n_features: int, n_classes: int) -> Estimate:
    """GiB of a card that the data of a fit need; `kind` is one of `CARD_BYTES`."""
    train, most, valid = CARD_BYTES[kind]
    outputs = n_classes if n_classes > 2 else 1
    rest = n_valid * n_features * valid + (n_train + n_valid) * outputs * CARD_ROW_BYTES

    def gib(of_value: float) -> float:
        return CONTEXT_GIB + (n_train * n_features * of_value + rest) / GIB

    value, high = gib(train), gib(most)
    return Estimate(value, max(CONTEXT_GIB, 2 * value - high), high, basis=f"binned data of {kind} on a card")


def no_device_memory(name: str) -> str:
    """Why a card's memory is 0 for what is fitted in one go."""
    return f"{name} is fitted in the host's memory"


def card_peak(
    kind: str, n_train: int, n_valid: int, n_features: int, n_classes: int, usable_gib: float
) -> Estimate | None:
    """The same as the driver shows it, of a card of which a process can use so much; None where the data do
    not fit it nine times in ten. CatBoost takes its share whatever they need."""
    needed = card_memory(kind, n_train, n_valid, n_features, n_classes)
    most = usable_gib * CATBOOST_SHARE if kind == "catboost" else usable_gib
    if needed.high > most:
        return None
    if kind == "catboost":
        basis = f"CatBoost takes {CATBOOST_SHARE:.0%} of a card; the data need {needed.value:.1f} GiB"
        return Estimate(most, most, most, basis=basis)
    return needed


def _forest(n: float, d: float, _outputs: float, trees: Any) -> tuple[Any, Any, float]:
    depth = max(log2(n), 1.0)
    return trees * n * depth * d**0.5 * 2.5e-8, trees * depth * 2.5e-8, 0.0


_ESTIMATORS: dict[str, Callable[[float, float, float, Any], tuple[Any, Any, float]]] = {
    "forest": _forest,
    "linear": lambda n, d, outputs, _: (n * d * (2.5e-7 + 6e-8 * outputs), d * (1e-7 + outputs * 1e-9), 0.0),
    "tfidf": lambda n, d, outputs, _: (n * d * (6.6e-6 + 1.5e-6 * outputs), d * 5e-6, 0.0),
    "neighbours": lambda n, d, *_: (n * d * 1e-9, n * d * 1e-9, 0.0),
    "kernel": lambda n, d, *_: (n * n * (2e-8 + 4e-10 * d), n * (1.5e-8 + 2.5e-10 * d), 2e8),
    "cholesky": lambda n, d, *_: (n * n * (n * 5e-11 + d * 2e-9), n * n * 1e-9, 24.0 * n * n),
    "words": lambda n, d, *_: (n * d * 4e-6, d * 4e-6, 0.0),
    "factors": lambda n, *_: (n * 8e-6, 1e-4, 0.0),
    "pairs": lambda n, *_: (n * 3e-6, 1e-5, 0.0),
    "ets": lambda n, d, *_: (n * (0.02 + 8.7e-4 * d), 1e-3, 0.0),
    "theta": lambda n, d, *_: (n * d * (6e-5 + 2.2e-7 * d), 1e-3, 0.0),
    "arima": lambda n, d, *_: (n * 0.11 * d**0.5, 1e-3, 0.0),
    "prophet": lambda n, d, *_: (n * (0.06 + 2.7e-4 * d), 1e-2, 0.0),
    "last": lambda n, d, *_: (1.0 + n * d * 1e-7, 1e-6, 0.0),
    "engine": lambda n, d, *_: (300.0 + n * d * 2e-3, d * 2e-5, 0.0),
    "additive": lambda n, d, outputs, _: (n * d * outputs * 2e-4, d * 1e-7, 0.0),
}
"""Law -> (seconds of a fit on one core, seconds to predict a row, further bytes) of rows, columns, outputs
and trees of a forest."""


def tree_speed(seconds: Mapping[tuple[int, int, int], float], cores: int, leaves: int) -> TreeSpeed | None:
    """The speed of a host from measured times; None without a time per tree.

    seconds   (rows, columns, 1) -> seconds per tree after binning; (rows, columns, 0) -> seconds of binning
    cores     they were measured on; leaves: of each tree
    Two sizes separate the cost per row from the cost of starting a tree; one size scales the law.
    """
    speedup = 1.0 / (1.0 - PARALLEL_SHARE + PARALLEL_SHARE / max(cores, 1))

    def law(rows: int, columns: int, rounds: int) -> float:
        return float(_boosting(float(rows), float(columns), 1.0, rounds, leaves, None)[0] / speedup)

    trees, binning = [], 0.0
    for (rows, columns, rounds), measured in sorted(seconds.items()):
        if rounds:
            trees.append((law(rows, columns, 1) - law(rows, columns, 0), measured))
        else:
            binning = measured / law(rows, columns, 0)
    if not trees:
        return None
    (small, quick), (large, slow) = trees[0], trees[-1]
    scale = (slow - quick) / (large - small) if large > small else 0.0
    start = slow - scale * large
    if scale <= 0.0 or start < 0.0:
        scale, start = slow / large, 0.0
    return TreeSpeed(scale, start, binning or scale)


def _boosting(
    rows: float, columns: float, outputs: float, rounds: Any, leaves: int, speed: TreeSpeed | None
) -> tuple[Any, Any]:
    """(seconds of a fit, seconds to predict one row) on one core, without the start of each tree."""
    tree = lightgbm_tree(rows, columns, leaves)
    binning = rows * columns * BINNING_SECONDS_PER_VALUE
    if speed is not None:
        tree, binning = tree * speed.scale, binning * speed.binning
    per_row = rounds * outputs * log2(used_leaves(rows, leaves)) * PREDICT_SECONDS_PER_ROW_LEVEL
    return binning + _early_trees(rounds) * outputs * tree, per_row


def _early_trees(rounds: Any) -> Any:
    """How many of its first trees `rounds` trees cost as much as."""
    return SETTLED * rounds + (1.0 - SETTLED) * SETTLING_ROUNDS * -np.expm1(-rounds / SETTLING_ROUNDS)


def _wide(value: Any, spread: Any, basis: str) -> Estimate:
    if np.ndim(value) == 0:
        value, spread = float(value), float(spread)
    return Estimate(value, value / spread, value * spread, "estimated", 0, basis)
