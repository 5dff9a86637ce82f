"""Metrics by name: family, direction, and the kind of answer they judge.

A family groups metrics that reward the same behaviour, so that "mean column-wise ROC AUC" and "weighted
AUC" meet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from memory_service.domain.description.phrases import PhraseTable, words_of


@dataclass(frozen=True, slots=True)
class Metric:
    """One way of judging. `forms`: the kinds of answer it judges (see `domain.description.answer_cues`),
    with weights."""

    name: str
    family: str
    direction: str
    phrases: str
    forms: Mapping[str, float] = field(default_factory=dict, hash=False)


_CLASS = {"class": 3.0}
_VALUE = {"value": 4.0}

METRICS: tuple[Metric, ...] = (
    Metric(
        "ROC AUC",
        "auc",
        "max",
        "roc auc, auc, area under the roc curve, area under the curve, auroc, area under the receiver "
        "operating characteristic, receiver operating characteristic, roc curve, area under roc curve",
        _CLASS,
    ),
    Metric(
        "log loss",
        "log-loss",
        "min",
        "log loss, logloss, logarithmic loss, cross entropy, "
        "multi class logarithmic loss, binary cross entropy",
        _CLASS,
    ),
    Metric(
        "KL divergence", "divergence", "min", "kl divergence, kullback leibler, kl score, kl loss", _CLASS
    ),
    Metric(
        "accuracy",
        "accuracy",
        "max",
        "accuracy, classification accuracy, categorization accuracy, "
        "multiclass accuracy, top 1 accuracy, percentage of correctly, correctly classified, accuracy score",
        {"class": 2.0},
    ),
    Metric(
        "balanced accuracy",
        "accuracy",
        "max",
        "balanced accuracy, macro averaged recall, average recall, macro recall",
        _CLASS,
    ),
    Metric(
        "top-k error",
        "accuracy",
        "min",
        "top 1 error, top 5 error, top 1 classification error, "
        "classification error, misclassification rate, top 3 error",
        _CLASS,
    ),
    Metric(
        "average precision",
        "auc",
        "max",
        "label weighted label ranking average precision, lwlrap, "
        "label ranking average precision, micro averaged average precision, precision recall curve, "
        "average precision score, gini coefficient, gini, normalized gini",
        {"class": 2.0},
    ),
    Metric(
        "F1",
        "f-score",
        "max",
        "f1, f1 score, macro f1, micro f1, mean f1, f score, f measure, mean f score, macro f1 score, micro "
        "f1 score, micro averaged f1, macro averaged f1, fbeta, f2 score, probabilistic f1, pf1",
        {"class": 1.5},
    ),
    Metric("F-beta of pixels", "f-score", "max", "f05 score", {"mask": 2.0}),
    Metric(
        "Matthews correlation coefficient",
        "mcc",
        "max",
        "matthews correlation coefficient, matthews correlation, mcc",
        {"class": 2.5},
    ),
    Metric(
        "quadratic weighted kappa",
        "kappa",
        "max",
        "quadratic weighted kappa, weighted kappa, kappa, qwk, cohen kappa",
        {"class": 1.0, "value": 1.0},
    ),
    Metric(
        "Spearman correlation",
        "correlation",
        "max",
        "spearman, spearman correlation, rank correlation, spearman rank correlation",
        {"value": 3.0},
    ),
    Metric(
        "Pearson correlation",
        "correlation",
        "max",
        "pearson, pearson correlation, correlation coefficient",
        {"value": 1.5, "pair": 1.0},
    ),
    Metric(
        "R2",
        "correlation",
        "max",
        "rsquared, coefficient of determination, r2 score",
        _VALUE,
    ),
    Metric(
        "RMSLE",
        "error-regression",
        "min",
        "rmsle, root mean squared logarithmic error, "
        "root mean square logarithmic error, mean squared logarithmic error, msle",
        _VALUE,
    ),
    Metric(
        "RMSE",
        "error-regression",
        "min",
        "rmse, root mean squared error, root mean square error, "
        "mean squared error, mse, mcrmse, mean columnwise root mean squared error, rmsse, rmspe, "
        "root mean square percentage error, root mean squared scaled error, root mean square deviation, "
        "squared error, column wise root mean squared error",
        _VALUE,
    ),
    Metric(
        "MAE",
        "error-regression",
        "min",
        "mae, mean absolute error, absolute error, wmae, mean absolute percentage error, mape, smape, mean "
        "average error, median absolute error, mcmae, weighted mean absolute error, log of the mean "
        "absolute error, symmetric mean absolute percentage error",
        _VALUE,
    ),
    Metric(
        "distance error",
        "error-regression",
        "min",
        "distance error, horizontal metre, horizontal distance, horizontal error, positioning error, "
        "horizontal distance error, "
        "haversine distance, mean haversine, distance in meters, euclidean distance",
        {"value": 2.5},
    ),
    Metric(
        "angular error",
        "error-regression",
        "min",
        "angular error, mean angular error",
        _VALUE,
    ),
    Metric(
        "quantile loss",
        "likelihood",
        "min",
        "pinball loss, quantile loss, crps, continuous ranked probability score, weighted interval score",
        _VALUE,
    ),
    Metric(
        "Laplace log likelihood",
        "likelihood",
        "max",
        "laplace log likelihood, log likelihood, gaussian log likelihood",
        {"value": 3.0},
    ),
    Metric(
        "Dice",
        "iou-dice",
        "max",
        "dice, dice coefficient, dice score, mean dice, global dice, "
        "sorensen dice, hausdorff distance, surface dice",
        {"mask": 4.0},
    ),
    Metric(
        "IoU",
        "iou-dice",
        "max",
        "iou, intersection over union, mean iou, miou",
        {"mask": 1.5, "boxes": 1.5},
    ),
    Metric(
        "mean average precision",
        "map-detection",
        "max",
        "mean average precision, meanap, map at iou, "
        "average precision at iou, map at different intersection over union",
        {"boxes": 2.0, "mask": 0.4, "match": 0.7},
    ),
    Metric(
        "word Jaccard",
        "iou-dice",
        "max",
        "jaccard, jaccard score, word level jaccard, jaccard index",
        {"span": 2.5, "mask": 0.5},
    ),
    Metric(
        "MAP@k",
        "ranking",
        "max",
        "mapatk, mean average precision at k, map at k, map at 5, map at 12, map at 3, "
        "map at 7, mean average precision at 5, mean average precision at 12, mean average precision at 3, "
        "recall at 20, recallatk, hit rate",
        {"match": 1.5, "topk": 1.5, "class": 0.7, "order": 1.0},
    ),
    Metric(
        "NDCG",
        "ranking",
        "max",
        "ndcg, normalized discounted cumulative gain, discounted cumulative gain",
        {"order": 2.5, "topk": 1.0},
    ),
    Metric(
        "mean reciprocal rank",
        "ranking",
        "max",
        "mean reciprocal rank, mrr",
        {"order": 2.0, "topk": 1.0},
    ),
    Metric(
        "Kendall tau",
        "ranking",
        "max",
        "kendall tau, kendall, kendall rank correlation",
        {"order": 5.0},
    ),
    Metric(
        "Levenshtein distance",
        "edit-distance",
        "min",
        "levenshtein, levenshtein distance, edit distance, insertion and deletion, substitution insertion "
        "and deletion, mean levenshtein distance, word error rate, character error rate, cer",
        {"sequence": 4.0},
    ),
    Metric(
        "BLEU or ROUGE",
        "edit-distance",
        "max",
        "bleu, rouge, rouge l, rouge 1, meteor, chrf, sacrebleu, cider, spice",
        {"sequence": 4.0},
    ),
    Metric(
        "exact match",
        "accuracy",
        "max",
        "exact match, exact string match",
        {"sequence": 1.5, "span": 1.0},
    ),
    Metric(
        "PSNR or SSIM",
        "error-regression",
        "max",
        "psnr, peak signal to noise ratio, ssim, structural similarity",
        {"picture": 5.0},
    ),
    Metric(
        "Frechet inception distance",
        "divergence",
        "min",
        "frechet inception distance, fid, mifid, kernel inception distance",
        {"picture": 5.0},
    ),
    Metric("perplexity", "edit-distance", "min", "perplexity", {"sequence": 2.0}),
)

METRIC_PHRASES: PhraseTable[Metric] = PhraseTable(
    {phrase.strip(): [metric] for metric in METRICS for phrase in metric.phrases.split(",")}
)

_SPELLED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(?:MAP|mAP|map)\s?@\s?(?:\d+|[kK])\b(?!\.\d)"), " mapatk "),
    (re.compile(r"\b[Mm]ean [Aa]verage [Pp]recision\s?@\s?(?:\d+|[kK])\b(?!\.\d)"), " mapatk "),
    (re.compile(r"\b[Rr]ecall\s?@\s?(?:\d+|[kK])\b"), " recallatk "),
    (re.compile(r"\bmAP\b|\bAP50\b|\bmAP@\[?[.0-9:,]+"), " meanap "),
    (re.compile(r"\bm?IoUs?\b"), " iou "),
    (re.compile(r"\bR\^?2\b|R²|\b[Rr][- ]squared\b"), " rsquared "),
    (re.compile(r"\bF[_ ]?\{?0\.5\}?", re.IGNORECASE), " f05 score "),
    (re.compile(r"\bF[-_ ]?\{?([12])\}?(?=\W)"), r" f\1 "),
)


def spell_out(text: str) -> str:
    """The text with metric signs that lose their meaning as words (`MAP@5`, `mAP`, `R^2`) made into words."""
    for pattern, replacement in _SPELLED:
        text = pattern.sub(replacement, text)
    return text


def metric_named(name: str) -> Metric | None:
    """The metric that a stored metric field names ("mean column-wise ROC AUC"), None if none is known in it.

    Of several, the one whose phrase is longest, then first.
    """
    best: tuple[int, int, Metric] | None = None
    for position, phrase, metric in METRIC_PHRASES.find(words_of(spell_out(name))):
        candidate = (len(phrase.split()), -position, metric)
        if best is None or candidate[:2] > best[:2]:
            best = candidate
    return best[2] if best else None
