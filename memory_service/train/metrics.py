"""Scores of predictions: `score_` and the function of `domain.description.metric_resolution`.

`plan.K` is the k of ranked answers or of the first rows, below 1 their share, and of an F-beta beta in
percent; `plan.LEVELS` are the quantiles. Rows first; targets are class numbers, or of labels and values a
column for each.
"""

import functools
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.problem import pinball_losses, poisson_deviances


def judges() -> Any:
    """`sklearn.metrics`, which takes seconds to load: not before a score needs it."""
    import sklearn.metrics

    return sklearn.metrics


def score_accuracy(targets: np.ndarray, predictions: np.ndarray, right: bool = True) -> float:
    if targets.ndim == 2:
        return float((((predictions > 0.5) == (targets > 0.5)) == right).mean())
    return float(((predictions.argmax(axis=1) == targets) == right).mean())


score_error = functools.partial(score_accuracy, right=False)


def one_hot(targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Labels as they are, classes as a column each."""
    return targets if targets.ndim == 2 else np.eye(predictions.shape[1])[targets]


def score_balanced_accuracy(targets: np.ndarray, classes: np.ndarray) -> float:
    """The mean recall of the classes that the fold has; of several labels the mean of that."""
    pairs = zip(targets.T > 0.5, classes.T > 0.5, strict=True) if targets.ndim == 2 else [(targets, classes)]
    each = [judges().recall_score(*pair, labels=np.unique(pair[0]), average="macro") for pair in pairs]
    return float(np.mean(each))


def score_auc(targets: np.ndarray, predictions: np.ndarray) -> float:
    """The mean over the classes of which the fold has both kinds; 0.5 where there is none."""
    truth = one_hot(targets, predictions)
    both = [i for i in range(truth.shape[1]) if 0 < truth[:, i].sum() < len(truth)]
    return float(np.mean([judges().roc_auc_score(truth[:, i], predictions[:, i]) for i in both] or [0.5]))


def score_gini(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Twice the ROC AUC less one."""
    return 2 * score_auc(targets, predictions) - 1


def score_average_precision(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Of the second of two classes; else the mean over the classes that the fold has."""
    truth, of = one_hot(targets, predictions), judges().average_precision_score
    if targets.ndim == 1 and truth.shape[1] == 2:
        truth, predictions = truth[:, 1:], predictions[:, 1:]
    there = [i for i in range(truth.shape[1]) if truth[:, i].any()]
    return float(np.mean([of(truth[:, i], predictions[:, i]) for i in there] or [0.0]))


def score_precision_top(targets: np.ndarray, predictions: np.ndarray, of: str = "precision") -> float:
    """Of the rows that are likeliest of the second class, of the same share as the first `plan.K` are of the
    test rows: the share that is; of all that are, the share there; lift: the first by that of all rows."""
    truth = one_hot(targets, predictions)[:, -1]
    share = plan.K if plan.K < 1 else min(plan.K / max(plan.TEST_ROWS, 1), 1.0)
    first = (-predictions[:, -1]).argsort(kind="stable")[: max(1, round(share * len(truth)))]
    whole = {"precision": len(first), "recall": truth.sum(), "lift": len(first) * truth.mean()}[of]
    return float(truth[first].sum() / max(whole, 1e-9))


score_recall_top = functools.partial(score_precision_top, of="recall")
score_lift_top = functools.partial(score_precision_top, of="lift")


def score_lwlrap(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Label-weighted label-ranking average precision: a sample counts as often as it has labels."""
    truth = one_hot(targets, predictions)
    weights = truth.sum(axis=1)
    return float(judges().label_ranking_average_precision_score(truth, predictions, sample_weight=weights))


def score_log_loss(targets: np.ndarray, predictions: np.ndarray) -> float:
    chances = predictions.clip(1e-7, 1 - 1e-7)
    if targets.ndim == 2:
        return float(-np.where(targets > 0.5, np.log(chances), np.log(1 - chances)).mean())
    return float(-np.log(chances[np.arange(len(targets)), targets]).mean())


def hits_of_likeliest(targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Whether each of the K likeliest classes of a row is right, the likeliest first."""
    order = (-predictions).argsort(axis=1)[:, : plan.K]
    return np.take_along_axis(targets, order, axis=1) if targets.ndim == 2 else order == targets[:, None]


def score_map_at_k(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Mean average precision of the K likeliest: of one true class 1 / its rank."""
    hits = hits_of_likeliest(targets, predictions)
    precision = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
    most = targets.sum(axis=1).clip(1, plan.K) if targets.ndim == 2 else 1
    return float(((precision * hits).sum(axis=1) / most).mean())


def score_top_k(targets: np.ndarray, predictions: np.ndarray) -> float:
    """The share of rows of which a class is among the K likeliest."""
    return float((hits_of_likeliest(targets, predictions) > 0).any(axis=1).mean())


def score_f1(targets: np.ndarray, classes: np.ndarray, average: str = "", by_k: bool = False) -> float:
    """F1, or F-beta `by_k`. By itself of the second of two classes; of more, or several labels, the mean over
    them. "samples" is the mean over the rows; with one label each the share that is right."""
    two = targets.ndim == 1 and max(targets.max(), classes.max()) <= 1
    usual = {"": "binary" if two else "macro", "samples": "samples" if targets.ndim == 2 else "micro"}
    how = {"average": usual.get(average, average), "zero_division": 0}
    return float(judges().fbeta_score(targets, classes, beta=plan.K / 100 if by_k else 1.0, **how))


score_f_beta = functools.partial(score_f1, by_k=True)
score_f1_macro = functools.partial(score_f1, average="macro")
score_f_beta_macro = functools.partial(score_f_beta, average="macro")
score_f1_micro = functools.partial(score_f1, average="micro")
score_f_beta_micro = functools.partial(score_f_beta, average="micro")
score_f1_samples = functools.partial(score_f1, average="samples")
score_f_beta_samples = functools.partial(score_f_beta, average="samples")
score_f1_weighted = functools.partial(score_f1, average="weighted")


def score_mcc(targets: np.ndarray, classes: np.ndarray) -> float:
    """Of several labels the mean over them."""
    pairs = zip(targets.T, classes.T, strict=True) if targets.ndim == 2 else [(targets, classes)]
    return float(np.mean([judges().matthews_corrcoef(*pair) for pair in pairs]))


def score_kappa(targets: np.ndarray, grades: np.ndarray) -> float:
    """Quadratic weighted: squared distances against those expected of grades put together by chance."""
    apart = ((targets - grades) ** 2).mean()
    by_chance = targets.var() + grades.var() + (targets.mean() - grades.mean()) ** 2
    return float(1 - apart / by_chance) if by_chance > 0 else 0.0


def score_mse(targets: np.ndarray, predictions: np.ndarray) -> float:
    return float(((targets - predictions) ** 2).mean())


def score_rmse(targets: np.ndarray, predictions: np.ndarray) -> float:
    return float(np.sqrt(((targets - predictions) ** 2).mean()))


score_rmse_logs = score_rmse  # both are logarithms already


def score_rmse_columns(targets: np.ndarray, predictions: np.ndarray) -> float:
    """The mean over the columns."""
    return float(np.sqrt(((targets - predictions) ** 2).mean(axis=0)).mean())


def score_rmsle(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Both are logarithms already; the mean over the columns."""
    return float(np.sqrt(((targets - predictions.clip(min=0)) ** 2).mean(axis=0)).mean())


def without_logs(targets: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(true values, predicted ones) of what is learned; see `reading.read_answers`."""
    if plan.LOGS == "log":
        return np.exp(targets), np.exp(predictions)
    return (np.expm1(targets), np.expm1(predictions.clip(min=0))) if plan.LOGS else (targets, predictions)


def percent_errors(targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Errors as shares of the true value; rows whose value is 0 are left out, and without others none is."""
    truth, found = without_logs(targets, predictions)
    there = np.abs(truth) > 1e-9
    return np.asarray((found - truth)[there] / truth[there]) if there.any() else np.zeros(1)


def score_mape(targets: np.ndarray, predictions: np.ndarray) -> float:
    """A share, not in percent."""
    return float(np.abs(percent_errors(targets, predictions)).mean())


def score_rmspe(targets: np.ndarray, predictions: np.ndarray) -> float:
    """A share, not in percent."""
    return float(np.sqrt((percent_errors(targets, predictions) ** 2).mean()))


def score_smape(targets: np.ndarray, predictions: np.ndarray) -> float:
    """In percent, 200 at most; nothing there and nothing expected is 0."""
    truth, found = without_logs(targets, predictions)
    total = np.abs(truth) + np.abs(found)
    return float(200 * np.where(total > 1e-9, np.abs(found - truth) / total.clip(1e-9), 0).mean())


def score_poisson(targets: np.ndarray, predictions: np.ndarray) -> float:
    """The mean deviance of counts from expected counts above 0."""
    return float(poisson_deviances(targets, predictions).mean())


def score_brier(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Squared errors of the chances: of the second of two classes, of more summed over them."""
    if targets.ndim == 2:
        return score_mse(targets, predictions)
    if predictions.shape[1] == 2:
        return score_mse(targets, predictions[:, 1])
    return float(((predictions - one_hot(targets, predictions)) ** 2).sum(axis=1).mean())


def score_mae(targets: np.ndarray, predictions: np.ndarray) -> float:
    return float(np.abs(targets - predictions).mean())


def score_median_error(targets: np.ndarray, predictions: np.ndarray) -> float:
    return float(np.median(np.abs(targets - predictions)))


def score_wape(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Absolute errors by the sum of the true values: a share, not in percent."""
    return float(np.abs(targets - predictions).sum() / np.abs(targets).sum().clip(1e-9))


def score_quantile(targets: np.ndarray, predictions: np.ndarray) -> float:
    """The mean pinball loss over the rows and `plan.LEVELS`."""
    return float(pinball_losses(targets, predictions, plan.LEVELS).mean())


def score_r2(targets: np.ndarray, predictions: np.ndarray) -> float:
    """The mean over the columns."""
    spread = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0).clip(1e-12)
    return float((1 - ((targets - predictions) ** 2).sum(axis=0) / spread).mean())


def score_pearson(targets: np.ndarray, predictions: np.ndarray, method: Any = "pearson") -> float:
    """The mean over the columns; 0 where one is constant."""
    return float(pd.DataFrame(targets).corrwith(pd.DataFrame(predictions), method=method).fillna(0).mean())


score_spearman = functools.partial(score_pearson, method="spearman")


def score_dice(common: np.ndarray, found: np.ndarray, true: np.ndarray) -> float:
    """The mean over the images; nothing there and nothing found is 1."""
    both = found + true
    return float(np.where(both > 0, 2 * common / both.clip(1), 1).mean())


def score_dice_global(common: np.ndarray, found: np.ndarray, true: np.ndarray, beta: float = 1.0) -> float:
    """F-beta of the pixels of all images together; below 1 precision weighs more than recall."""
    return float((1 + beta**2) * common.sum() / max((found + beta**2 * true).sum(), 1))


score_f05 = functools.partial(score_dice_global, beta=0.5)


def score_iou(common: np.ndarray, found: np.ndarray, true: np.ndarray) -> float:
    """The mean over the images; nothing there and nothing found is 1."""
    either = found + true - common
    return float(np.where(either > 0, common / either.clip(1), 1).mean())


def score_map_items(truth: list, found: np.ndarray) -> float:
    """Mean average precision of the items that each user is told, against the set that was taken."""
    scores = []
    for taken, told in zip(truth, found, strict=True):
        hits, most = np.array([item in taken for item in told], float), max(min(len(taken), len(told)), 1)
        scores.append((hits * hits.cumsum() / np.arange(1, len(hits) + 1)).sum() / most)
    return float(np.mean(scores))


def score_recall_items(truth: list, found: np.ndarray) -> float:
    """The mean share of the items taken that are told."""
    pairs = zip(truth, found, strict=True)
    return float(np.mean([len(taken.intersection(told)) / max(len(taken), 1) for taken, told in pairs]))
