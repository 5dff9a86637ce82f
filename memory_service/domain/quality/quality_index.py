"""A quality index of 0 to 100 within a task, from model, input size, epochs, folds and data.

The index is not a metric's value: it ranks plans of one task. It starts at what the model is expected to
reach on this kind of data (`domain.quality.quality_model`), adds what input size and folds buy, and takes off
what too few epochs cost. It never falls when epochs or folds rise. All functions take floats or numpy arrays
and broadcast. A point is about 4 % of the error for images, 2.4 % for tables (docs/methods/quality.md).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import SD_OF_P90, Estimate
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.quality.quality_model import NOTHING_LEARNED, Learned

REFERENCE_N_TRAIN = 9_000

STEADY_N_TRAIN = 2_000
"""Above it the number of useful epochs does not depend on the number of samples: best epochs of 1 336 table
networks grow as n^+0.15 from 1 800 to 724 000 rows, image networks as n^+0.08 (docs/methods/quality.md).
Below it an epoch is too few updates to count as one."""

INDEX_BASIS = "index 0-100 within the task: {source}, input size, epochs, folds (not a metric value)"


@dataclass(frozen=True, slots=True)
class Learning:
    """How fast one kind of model is learned; floats, or arrays over options.

    gap, power, offset   index points lost at e epochs: gap * (e + offset)^-power
    fold_gain   index points an infinite ensemble of folds would add over one split, at the reference size
    octave_up, octave_down   points per doubling of the input size above / below the model's own
    octave_far   points more per doubling below half of it
    """

    gap: Any
    power: Any
    offset: Any
    fold_gain: Any
    octave_up: Any = 0.0
    octave_down: Any = 0.0
    octave_far: Any = 0.0


_CURVES = {
    part: {kind: Learning(*figures) for kind, figures in rows.items()}
    for part, rows in shipped_table(__package__, "learning.toml").items()
}

_IMAGE_CENTER = 75.0
"""A middling published score of image models."""

_DENSE = ("image-segmentation", "object-detection", "image-to-image", "image-captioning", "point-cloud")


def learning_of(
    task: str, pretrained: bool, trees: bool = False, family: str = "", decoder: bool = False
) -> Learning:
    """The learning curve's figures for a task, by modality and by whether pretrained weights exist.

    decoder   a language model that is tuned
    """
    own = "trees" if trees else "decoder" if decoder else family
    if own in _CURVES["own"]:
        return _CURVES["own"][own]
    modality, scratch, usual = modality_of(task), _CURVES["scratch"], _CURVES["pretrained"]
    if modality in scratch or not pretrained:
        return scratch.get(modality, scratch["other"])
    return usual.get("image-dense" if task in _DENSE else modality, usual["other"])


def fold_gain(learning_gain: Any, folds: Any, n_train: float) -> Any:
    """Points gained by averaging `folds` models over one split: variance falls, with diminishing returns.

    gain = G * (1 - folds^-0.7); a small data set has the larger variance, so G grows as (9000/n)^0.15.
    """
    size = float(np.clip((REFERENCE_N_TRAIN / n_train) ** 0.15, 0.6, 1.6))
    return learning_gain * size * (1.0 - np.asarray(folds, dtype=np.float64) ** -0.7)


def _undertrained(learning: Learning, epochs: Any, n_train: float) -> Any:
    worth = min(1.0, (n_train / STEADY_N_TRAIN) ** 0.5)
    trained = np.asarray(epochs, dtype=np.float64) * worth + learning.offset
    return learning.gap * trained**-learning.power


def too_large(params_m: Any, n_train: float) -> Any:
    """Half a point per doubling of the parameters over 14 M * sqrt(n / 5 000), on fewer than 3 000 samples.

    Public results show no loss from 3 000 samples on (21 transfer tables: +0.4 +- 0.6 points per doubling).
    """
    if n_train >= 3_000:
        return np.zeros_like(np.asarray(params_m, dtype=np.float64))
    steerable_m = 14.0 * (n_train / 5_000.0) ** 0.5
    over = np.log2(np.maximum(np.asarray(params_m, dtype=np.float64), 1e-3) / steerable_m)
    return 0.5 * np.maximum(over, 0.0)


_BATCHES_OF_NORM, _LOST_BY_NORM = (1, 2, 4, 8, 16), (12.0, 9.5, 3.6, 1.2, 0.0)


def noisy_normalisation(batch: Any) -> Any:
    """Points that a network normalised over the batch loses where a card holds few samples: ResNet-50 errs
    23.6 % at 16 and more, 24.8 at 8, 27.3 at 4, 34.7 at 2 (Wu and He 2018, arXiv 1803.08494); 1 is judged."""
    return np.interp(np.log2(np.maximum(batch, 1)), np.log2(_BATCHES_OF_NORM), _LOST_BY_NORM)


def from_random_weights(points: Any, params_m: Any, n_train: float) -> Any:
    """Points of image networks that are fully trained from random weights, from their points with pretrained
    ones (image classification).

    All lose what Kornblith et al. (2019, arXiv 1805.08974) saw: twice the error on 5 000 images, a third
    more on 75 000, none on a million. Differences of published scores count half on few images: accuracies
    without pretraining follow ImageNet's at r = 0.55, with it at 0.96 (ibid.). A network larger than a
    ResNet-18 loses with each doubling: against ResNet-50 it was 7.4, 3.7 and 0.8 points on 833, 2 280 and
    19 104 photographs (ISaySalmonYouSayYes/Damage-Level-Classification-from-Images), but ResNet-34 lost
    nothing on 14 000 landscapes (MaoXianXin/note): two thirds of the former are taken.
    """
    lost = float(np.clip(20.0 - 3.8 * np.log(n_train / 5_000.0), 0.0, 25.0))
    share = float(np.interp(np.log(n_train), np.log([50_000, 1_000_000]), [0.5, 1.0]))
    doublings = np.log2(np.maximum(np.asarray(params_m, dtype=np.float64) / 11.7, 1.0))
    per_doubling = 2.4 * (2_280.0 / max(n_train, 833.0)) ** 0.7
    points = _IMAGE_CENTER + share * (np.asarray(points, dtype=np.float64) - _IMAGE_CENTER)
    return points - lost - per_doubling * doublings


def size_points(size_ratio: Any, learning: Learning) -> Any:
    """Points gained (or lost, below zero) by an input size, from its ratio to the model's own size."""
    octaves = np.log2(np.asarray(size_ratio, dtype=np.float64))
    below = learning.octave_down * octaves + learning.octave_far * np.minimum(octaves + 1.0, 0.0)
    return np.where(octaves > 0, learning.octave_up * np.minimum(octaves, 1.0), below)


def quality_index(
    points: Any, size_ratio: Any, epochs: Any, folds: Any, learning: Learning, n_train: float
) -> Any:
    """Expected quality index (0..100) of a plan; arguments broadcast against each other.

    points       of the model at its own input size, fully trained, one split
    size_ratio   input size / the model's own input size (1.0 where it does not apply)
    epochs       training epochs; folds: models averaged
    """
    total = np.asarray(points, dtype=np.float64) + size_points(size_ratio, learning)
    total = total + fold_gain(learning.fold_gain, folds, n_train) - _undertrained(learning, epochs, n_train)
    return np.clip(np.round(total, 2), 0.0, 100.0)


def quality_estimate(index: float, sd: float, measured: bool, learned: Learned = NOTHING_LEARNED) -> Estimate:
    """The index with its 80 % interval. sd: index points, of what is not known of the mean and of one data
    set beside others; measured: whether public results of this very model went into it; learned: what runs
    here say of it."""
    half = SD_OF_P90 * sd
    source = "public results of this model" if measured else "published score; this model was not measured"
    if learned.competitions:
        many = "s" if learned.competitions > 1 else ""
        source += f" and runs here on {learned.competitions} other competition{many} ({learned.points:+.1f})"
    return Estimate(
        index,
        max(0.0, index - half),
        min(100.0, index + half),
        "estimated" if measured else "claimed",
        learned.competitions,
        INDEX_BASIS.format(source=source),
    )
