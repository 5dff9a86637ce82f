"""A quality index of 0 to 100 within a task, from model, input size, epochs, folds and data.

The index is not a metric's value: it ranks plans of one task. It starts at the model's published score, adds
what input size and folds buy, and takes off what too few epochs and too little data cost. It never falls when
epochs or folds rise. All functions take floats or numpy arrays and broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.vocabulary import modality_of

REFERENCE_N_TRAIN = 9_000
"""The size of the observed run (source 003): best validation loss at epoch 3-5 of 30 on 9 000 images."""

DATA_EXPONENT = 0.4
"""An epoch of n samples teaches as much as (n / 9000)^0.4 reference epochs: more samples need fewer passes,
but not proportionally fewer. Between "epochs do not depend on n" (0) and "updates are all that counts"
(1)."""

EPOCH_WORTH_LIMITS = (0.2, 6.0)

INDEX_BASIS = (
    "index 0-100 within the task: published model score, input size, epochs, folds, data (not a metric value)"
)

HALF_WIDTH = 3.0
"""10th-90th percentile half-width in index points. Transfer of ImageNet rank to one new data set is that
loose: in published fine-tuning tables models 2-3 points apart on ImageNet swap places on about one data set
in five."""


@dataclass(frozen=True, slots=True)
class Learning:
    """How fast one kind of task is learned.

    gap         index points an untrained head is below the fully trained model
    epochs      time constant in reference epochs: after this many, 63 % of the gap is closed
    fold_gain   index points an infinite ensemble of folds would add over one split, at the reference size
    octave_up, octave_down   points per doubling of the input size above / below the model's own
    """

    gap: float
    epochs: float
    fold_gain: float
    octave_up: float
    octave_down: float


_PRETRAINED = {
    "image": Learning(12.0, 1.6, 1.5, 0.9, 3.0),
    "image-dense": Learning(18.0, 2.6, 1.5, 1.5, 3.0),
    "text": Learning(10.0, 0.9, 1.5, 0.8, 1.5),
    "audio": Learning(14.0, 2.2, 1.8, 1.0, 2.0),
    "video": Learning(14.0, 2.2, 1.2, 1.0, 2.5),
    "other": Learning(14.0, 2.2, 1.5, 1.0, 2.0),
}
"""image: 3-5 epochs at the reference (source 003, R16). Dense outputs (masks, boxes) start decoder and head
from nothing: the sources give 8-12 epochs (C64, C65). Text encoders are tuned for 2-4 epochs. Size: ConvNeXt
and EfficientNet gain about 1-1.5 ImageNet points from 224 to 384 (facts/vision_models.csv), and lose more
below."""

_SCRATCH = {
    "tabular": Learning(14.0, 5.0, 1.2, 0.0, 0.0),
    "time-series": Learning(16.0, 6.0, 1.5, 0.5, 1.0),
    "recommendation": Learning(14.0, 3.0, 0.8, 0.0, 0.0),
    "other": Learning(30.0, 8.0, 1.5, 1.0, 3.0),
}
"""Nothing to start from: the whole gap is learned here."""

TREE_LEARNING = Learning(10.0, 220.0, 1.2, 0.0, 0.0)
"""Boosted trees: "epochs" are rounds at learning rate 0.05; 63 % of the gain by ~220 rounds, 99 % by ~1
000."""

_DENSE = ("image-segmentation", "object-detection", "image-to-image", "image-captioning", "point-cloud")


def learning_of(task: str, pretrained: bool, trees: bool = False) -> Learning:
    """The learning curve's figures for a task, by modality and by whether pretrained weights exist."""
    if trees:
        return TREE_LEARNING
    modality = modality_of(task)
    if modality in _SCRATCH:
        return _SCRATCH[modality]
    if not pretrained:
        return _SCRATCH["other"]
    return _PRETRAINED.get("image-dense" if task in _DENSE else modality, _PRETRAINED["other"])


def fold_gain(learning_gain: Any, folds: Any, n_train: float) -> Any:
    """Points gained by averaging `folds` models over one split: variance falls, with diminishing returns.

    gain = G * (1 - folds^-0.7); a small data set has the larger variance, so G grows as (9000/n)^0.15.
    """
    size = float(np.clip((REFERENCE_N_TRAIN / n_train) ** 0.15, 0.6, 1.6))
    return learning_gain * size * (1.0 - np.asarray(folds, dtype=np.float64) ** -0.7)


def _undertrained(gap: Any, tau: Any, epochs: Any, n_train: float, n_classes: int) -> Any:
    worth = float(np.clip((n_train / REFERENCE_N_TRAIN) ** DATA_EXPONENT, *EPOCH_WORTH_LIMITS))
    harder = 1.0 + 0.1 * max(0.0, np.log10(max(n_classes, 1)) - 1.0)
    return gap * np.exp(-np.asarray(epochs, dtype=np.float64) * worth / (tau * harder))


def _too_large(params_m: Any, n_train: float) -> Any:
    """A point per doubling of the parameters over what the data can steer: 14 M at 5 000 samples, 40 M at
    40 000.

    R34 and source 004: small image data is served by B3/ResNet-50 class (12-25 M), medium by B4/B5 and
    larger. A pretrained giant still works on little data, but only with layer-wise rates and long schedules
    that a short plain recipe has not. At 30 M, 87 M-parameter models at 448 px were planned for 1 500 images.
    """
    steerable_m = 14.0 * (n_train / 5_000.0) ** 0.5
    over = np.log2(np.maximum(np.asarray(params_m, dtype=np.float64), 1e-3) / steerable_m)
    return np.maximum(over, 0.0)


def quality_index(
    score: Any,
    params_m: Any,
    size_ratio: Any,
    epochs: Any,
    folds: Any,
    *,
    gap: Any,
    tau: Any,
    gain: Any,
    octave_up: Any,
    octave_down: Any,
    n_train: float,
    n_classes: int = 2,
) -> Any:
    """Expected quality index (0..100) of a plan; arguments broadcast against each other.

    score        published quality score of the model within its modality, at its own input size
    size_ratio   input size / the model's own input size (1.0 where it does not apply)
    epochs       training epochs (rounds for trees); folds: models averaged
    gap, tau, gain, octave_up, octave_down   figures of `Learning`
    """
    octaves = np.log2(np.asarray(size_ratio, dtype=np.float64))
    size = np.where(octaves > 0, octave_up * np.minimum(octaves, 1.0), octave_down * octaves)
    total = (
        np.asarray(score, dtype=np.float64)
        + size
        + fold_gain(gain, folds, n_train)
        - _too_large(params_m, n_train)
        - _undertrained(gap, tau, epochs, n_train, n_classes)
    )
    return np.clip(np.round(total, 2), 0.0, 100.0)


def quality_estimate(index: float) -> Estimate:
    """The index with its interval; grade "estimated": computed from published scores and stated laws."""
    return Estimate(
        index, max(0.0, index - HALF_WIDTH), min(100.0, index + HALF_WIDTH), "estimated", 0, INDEX_BASIS
    )
