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


_FAR = 8.0
"""Classified images far below a network's size: ResNet-18 and -50 as they are reach 43.0 and 52.0 % on
ImageNet at 64 pixels (github.com/sndnyang/imagenet64x64) and 69.8 and 76.1 % at 224 (torchvision), 26.8 and
24.2 less. Half of that counts, as with other differences of published scores: 3 points for the first halving
and 11 for each below say 12. Their stride of 32 costs more of it than the lost detail: with a stride of 8 at
32 pixels they lose 16 (github.com/ma-xu/DNN)."""

_PRETRAINED = {
    "image": Learning(15.0, 1.5, 0.5, 1.5, 1.4, 3.0, _FAR),
    "image-dense": Learning(20.0, 0.7, 0.5, 1.5, 1.0, 3.0),
    "text": Learning(8.0, 1.5, 0.5, 1.5, 0.8, 1.5),
    "audio": Learning(15.0, 1.5, 0.5, 1.2, 1.0, 2.0),
    "video": Learning(15.0, 1.5, 0.5, 1.2, 1.0, 2.5),
    "other": Learning(15.0, 1.5, 0.5, 1.5, 1.0, 2.0),
}
"""image: ViT-B/16 on CIFAR-100 loses 7.7 and 2.7 points at 5 and 10 epochs of 98 updates against 102 epochs
(google-research/vision_transformer), which gives the power. The gap is judged, about a sixth
of that (1.2 and 0.4): source 003 saw the best loss of 30 epochs on 9 000 images at the third to fifth. Dense:
Cityscapes 107 -> 215 epochs +0.9 (mmseg, 72 pairs), COCO 12 -> 24 +0.2 (mmdet, 19 pairs); the curve says 0.3
and 1.3. Text, audio, video: no public curve; judged from the usual 2-4 epochs of encoders and 10-30 of the
others. Sizes of images: 31 pairs of the catalogue, median 1.4 points per doubling; the others are judged."""

_SCRATCH = {
    "tabular": Learning(60.0, 1.0, 3.0, 1.2),
    "time-series": Learning(30.0, 0.7, 1.0, 1.0, 0.5, 1.0),
    "recommendation": Learning(14.0, 1.0, 0.5, 0.8),
    "other": Learning(68.0, 0.7, 0.0, 1.5, 1.0, 3.0, _FAR),
}
"""tabular: the best epoch of MLP, FT-Transformer and TabM is 25-85 at the median and 95-140 at the 90th
percentile (yandex-research); judged so that 20 epochs lose 2.6 points and 60 lose 1. other: images from
random weights: imagenette 5 -> 20 -> 80 epochs are worth 13.7 and 6.9 points, ImageNet 16 -> 88 about 5
(fast.ai, ffcv); the curve says 13.7, 5.2 and 6.8. Folds: seeds of MLP and FT-Transformer 0.8 at five, of
series networks 0.5-0.9."""

TREE_LEARNING = Learning(400.0, 1.0, 40.0, 0.6)
"""Boosted trees: "epochs" are rounds at learning rate 0.05. Five seeds add 0.26 points at the median and 0.46
on average, a lower bound for folds."""

_DECODER = Learning(2.5, 1.5, 0.5, 1.5, 0.8, 1.5)
"""Language models are tuned for an epoch or two: reward models on preferences for one, as more overfit
(Ouyang et al. 2022, arXiv 2203.02155), and the one known winner who says it trained one. Judged so that one
loses 1.4 points."""

_IMAGE_CENTER = 75.0
"""A middling published score of image models."""

_TABM_FOLD_GAIN = 0.3
"""TabM is an ensemble inside: five of it add 0.16 to 0.26 points."""

_DENSE = ("image-segmentation", "object-detection", "image-to-image", "image-captioning", "point-cloud")


def learning_of(
    task: str, pretrained: bool, trees: bool = False, family: str = "", decoder: bool = False
) -> Learning:
    """The learning curve's figures for a task, by modality and by whether pretrained weights exist.

    decoder   a language model that is tuned
    """
    if trees:
        return TREE_LEARNING
    if decoder:
        return _DECODER
    modality = modality_of(task)
    if family == "fasttext":
        return Learning(8.0, 1.0, 1.0, 0.8)  # judged: its authors train 5 epochs
    if family == "tabm":
        return Learning(60.0, 1.0, 3.0, _TABM_FOLD_GAIN)
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
