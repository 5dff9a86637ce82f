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
    """One way of judging. `forms`: the kinds of answer it judges and of input it is used with
    (`domain.description.cues`), with weights."""

    name: str
    family: str
    direction: str
    phrases: str
    forms: Mapping[str, float] = field(default_factory=dict, hash=False)


_TABLE = """
ROC AUC | auc | max | class:3 | roc auc, auc, area under the roc curve, area under the curve, auroc, area
  under the receiver operating characteristic, receiver operating characteristic, roc curve, area under roc
  curve
log loss | log-loss | min | class:3 | log loss, logloss, logarithmic loss, cross entropy, multi class
  logarithmic loss, binary cross entropy
KL divergence | divergence | min | class:3 | kl divergence, kullback leibler, kl score, kl loss
accuracy | accuracy | max | class:2 | accuracy, classification accuracy, categorization accuracy, multiclass
  accuracy, top 1 accuracy, percentage of correctly, correctly classified, accuracy score
balanced accuracy | accuracy | max | class:3 | balanced accuracy, macro averaged recall, average recall,
  macro recall
top-k error | accuracy | min | class:3 | top 1 error, top 5 error, top 1 classification error,
  classification error, misclassification rate, top 3 error
average precision | auc | max | class:2 | average precision, label weighted label ranking average precision,
  lwlrap, label ranking average precision, micro averaged average precision, precision recall curve, average
  precision score, gini coefficient, gini, normalized gini, normalised gini
F1 | f-score | max | class:1.5 | f1, f1 score, macro f1, micro f1, mean f1, f score, f measure, mean f
  score, macro f1 score, micro f1 score, micro averaged f1, macro averaged f1
probabilistic F1 | f-score | max | class:2 | probabilistic f1, probabilistic f score, pf1
F-beta | f-score | max | class:1.5 | fbeta, f beta, f2 score, f2, mean f2, micro averaged f5, f5, f beta 5
entity F1 | f-score | max | token:5 | entity f1, entity level f1, span level f1, seqeval, token level f1
keypoint error | error-regression | min | keypoint:5 | normalized mean error, normalised mean error, mean per
  joint position error, mpjpe, pixel error, mean pixel distance
keypoint similarity | map-detection | max | keypoint:5 | object keypoint similarity, oks, percentage of
  correct keypoint, pck
concordance index | correlation | max | value:3 tabular:3 | concordance index, c index, concordance
Brier score | log-loss | min | class:3 | brier score, brier
F-beta of pixels | f-score | max | mask:2 | f05 score
Matthews correlation coefficient | mcc | max | class:2.5 | matthews correlation coefficient, matthews
  correlation, mcc
quadratic weighted kappa | kappa | max | class:1 value:1 | quadratic weighted kappa, weighted kappa, kappa,
  qwk, cohen kappa
Spearman correlation | correlation | max | value:3 | spearman, spearman correlation, rank correlation,
  spearman rank correlation
Pearson correlation | correlation | max | value:1.5 pair:1 | pearson, pearson correlation, correlation
  coefficient
R2 | correlation | max | value:4 | rsquared, coefficient of determination, r2 score
RMSLE | error-regression | min | value:4 | rmsle, root mean squared logarithmic error, root mean square
  logarithmic error, mean squared logarithmic error, msle
RMSE | error-regression | min | value:4 | rmse, root mean squared error, root mean square error, mean
  squared error, mse, mcrmse, mean columnwise root mean squared error, root mean square deviation, squared
  error, column wise root mean squared error
RMSSE | error-regression | min | value:4 | rmsse, wrmsse, root mean squared scaled error, root mean square
  scaled error, weighted root mean squared scaled error
RMSPE | error-regression | min | value:4 | rmspe, root mean square percentage error, root mean squared
  percentage error
MAE | error-regression | min | value:4 | mae, mean absolute error, absolute error, wmae, mean average error,
  median absolute error, mcmae, weighted mean absolute error, log of the mean absolute error
MAPE | error-regression | min | value:4 | mape, mean absolute percentage error, absolute percentage error
SMAPE | error-regression | min | value:4 | smape, symmetric mean absolute percentage error, symmetric mape
distance error | error-regression | min | value:2.5 | distance error, horizontal metre, horizontal distance,
  horizontal error, positioning error, horizontal distance error, haversine distance, mean haversine,
  distance in meters, euclidean distance
angular error | error-regression | min | value:4 | angular error, mean angular error
quantile loss | likelihood | min | value:4 | pinball loss, quantile loss, crps, continuous ranked
  probability score, weighted interval score
Laplace log likelihood | likelihood | max | value:3 | laplace log likelihood, log likelihood, gaussian log
  likelihood
Dice | iou-dice | max | mask:4 | dice, dice coefficient, dice score, mean dice, global dice, sorensen dice,
  hausdorff distance, surface dice
IoU | iou-dice | max | mask:1.5 boxes:1.5 | iou, intersection over union, mean iou, miou
mean average precision | map-detection | max | boxes:2 mask:0.4 match:0.7 | mean average precision, meanap,
  map at iou, average precision at iou, map at different intersection over union
word Jaccard | iou-dice | max | span:2.5 mask:0.5 | jaccard, jaccard score, word level jaccard, jaccard
  index
MAP@k | ranking | max | match:1.5 topk:1.5 class:0.7 order:1 interactions:1.5 | mapatk, mean average precision
  at k, map at k, map at 5, map at 12, map at 3, map at 7, mean average precision at 5, mean average precision
  at 12, mean average precision at 3
recall@k | ranking | max | match:1.5 topk:1.5 class:0.7 order:1 interactions:1.5 | recallatk, recall at k,
  recall at 20, hit rate
NDCG | ranking | max | order:2.5 topk:1 | ndcg, normalized discounted cumulative gain, discounted cumulative
  gain
mean reciprocal rank | ranking | max | order:2 topk:1 | mean reciprocal rank, mrr
Kendall tau | ranking | max | order:5 | kendall tau, kendall, kendall rank correlation
Levenshtein distance | edit-distance | min | sequence:4 | levenshtein, levenshtein distance, edit distance,
  insertion and deletion, substitution insertion and deletion, mean levenshtein distance
word error rate | edit-distance | min | sequence:4 | word error rate, wer
character error rate | edit-distance | min | sequence:4 | character error rate, cer
BLEU or ROUGE | edit-distance | max | sequence:4 | bleu, rouge, rouge l, rouge 1, meteor, chrf, sacrebleu
CIDEr or SPICE | edit-distance | max | sequence:4 image:2 | cider, spice
exact match | accuracy | max | sequence:1.5 span:1 | exact match, exact string match
PSNR or SSIM | error-regression | max | picture:5 | psnr, peak signal to noise ratio, ssim, structural
  similarity
Frechet inception distance | divergence | min | picture:5 | frechet inception distance, fid, mifid, kernel
  inception distance
perplexity | edit-distance | min | sequence:2 | perplexity
"""
"""Name | family | direction | answer or input:weight | phrases; lines that begin with blanks go on."""


def _metric(line: str) -> Metric:
    name, family, direction, forms, phrases = (part.strip() for part in line.split("|"))
    weights = {kind: float(weight) for kind, weight in (form.split(":") for form in forms.split())}
    return Metric(name, family, direction, phrases, weights)


METRICS = tuple(_metric(line) for line in _TABLE.strip().replace("\n  ", " ").splitlines())

METRIC_PHRASES: PhraseTable[Metric] = PhraseTable(
    {phrase.strip(): [metric] for metric in METRICS for phrase in metric.phrases.split(",")}
)

_SPELLED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(?:MAP|mAP|map)\s?@\s?(?:\d+|[kK])\b(?!\.\d)"), " mapatk "),
    (re.compile(r"\b[Mm]ean [Aa]verage [Pp]recision\s?@\s?(?:\d+|[kK])\b(?!\.\d)"), " mapatk "),
    (re.compile(r"\b[Rr]ecall\s?(?:@|at)\s?(?:\d+|[kK])\b"), " recallatk "),
    (re.compile(r"\b[nN](?=DCG\b)"), "N"),
    (re.compile(r"\b[sS](?=MAPE\b)"), "S"),
    (re.compile(r"\bchrF\b"), " chrf "),
    (re.compile(r"\bmAP\b|\bm?AP(?:50|75)(?:[-:]95)?\b|\bmAP@\[?[.0-9:,]+"), " meanap "),
    (re.compile(r"\bm?IoUs?\b"), " iou "),
    (re.compile(r"\bR\^?2\b|R²|\b[Rr][- ]squared\b"), " rsquared "),
    (re.compile(r"\bF[_ ]?\{?0\.5\}?", re.IGNORECASE), " f05 score "),
    (re.compile(r"\bpF1\b|\bpF-?score\b"), " probabilistic f1 "),
    (re.compile(r"\bF[-_ ]?\{?([125])\}?(?=\W)"), r" f\1 "),
)


def spell_out(text: str) -> str:
    """The text with metric signs that lose their meaning as words (`MAP@5`, `mAP`, `R^2`) made into words."""
    for pattern, replacement in _SPELLED:
        text = pattern.sub(replacement, text)
    return text


_IN_SCRIPTS = re.compile(r"^(eval|val|valid|validation|dev|best|mean|cv|oof)[_/ ]|[_-]", re.IGNORECASE)
_SHORT = {"acc": "max", "ap": "max", "map": "max", "loss": "min", "precision": "max", "recall": "max",
          "ppl": "min", "error": "min", "error rate": "min", "r2": "max", "score": None}  # fmt: skip


def direction_of_name(name: str | None) -> str | None:
    """max | min: which way a metric gets better, by its name as scripts write it ("eval_f1", "val_acc",
    "neg_log_loss"); None where the name does not say."""
    plain = " ".join(_IN_SCRIPTS.sub(" ", _IN_SCRIPTS.sub(" ", name or "")).lower().split())
    if plain.startswith("neg "):  # sklearn's: the larger the better
        return "max"
    if plain in _SHORT:
        return _SHORT[plain]
    known = metric_named(plain)
    last = plain.rpartition(" ")[2]
    return known.direction if known is not None else _SHORT.get(last)


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
