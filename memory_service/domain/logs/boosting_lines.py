"""Log lines of LightGBM, XGBoost and CatBoost: rounds, and the end of a fit.

A fit is a fold. Their logs seldom name folds, so rounds that begin anew are the next one's.
"""

import re
from dataclasses import replace

from memory_service.domain.logs.context import Body, Context, Events
from memory_service.domain.logs.values import float_of

_TREES = re.compile(r"^\[(\d{1,7})\][\t ]{1,8}(\S.*)$")
_TREE_SCORE = re.compile(
    r"([\w.]{1,40})(?:'s |-)([\w@.\-]{1,40}):\s?([-+]?[\d.]{1,24}(?:[eE][-+]?\d{1,3})?|nan|inf)"
)
_CATBOOST = re.compile(
    r"^(\d{1,7}):\s{1,4}(?:learn: ([-\d.einfa]{1,24})\s{1,4})?(?:test: ([-\d.einfa]{1,24})\s{1,4})?(?:best: "
    r"\S{1,24} \(\d{1,7}\)\s{1,4})?total: ([\d.]{1,9})(us|ms|s|m)(?: ([\d.]{1,9})(s|ms))?"
)
_PLAIN = re.compile(r"-?\d{1,12}(?:\.\d{1,20})?(?:e-?\d{1,3})?|nan|inf")
_BEST_FOLLOWS = re.compile(r"best iteration is:|^stopping\. best iteration:", re.IGNORECASE)
_ENDED = re.compile(r"^stopped by overfitting detector|^bestiteration = |^shrink model to", re.IGNORECASE)
_LOWER_IS_BETTER = re.compile(
    r"loss|rmse|mae|mse|l1|l2|error|mape|poisson|quantile|huber|tweedie|gamma|rmsle", re.IGNORECASE
)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


def boosting(line: str, context: Context) -> tuple[Events, Context] | None:
    """LightGBM `[100] valid_0's auc: 0.9`, XGBoost `[10] train-logloss:0.45 eval-logloss:0.46`."""
    found = _TREES.match(line)
    scores = [] if found is None else _TREE_SCORE.findall(found[2])
    if found is None or not scores:
        return None
    if context.ended == "best":
        return [], replace(context, ended="yes")
    after = _at_round(context, int(found[1]))
    body: Body = {"fold": after.fold, "epoch": after.epoch}
    for n, (where, what, value) in enumerate(scores):
        again = any(name == what for _, name, _ in scores[n + 1 :])  # of several sets the last is watched
        of_training = where.lower().startswith(("train", "learn")) or (where == "validation_0" and again)
        side = "train" if of_training else "valid"
        number: float | str | None = value if value in ("nan", "inf") else float_of(value)
        if number is None:
            continue
        if _LOWER_IS_BETTER.search(what):
            body.setdefault(f"{side}_loss", number)
        elif side == "valid":
            body.setdefault("metric", number)
            body.setdefault("metric_name", what)
    return [("epoch", body)], after


def catboost(line: str, context: Context) -> tuple[Events, Context] | None:
    """`100: learn: 0.5 test: 0.55 best: 0.54 (98) total: 1.2s remaining: 10.1s`."""
    found = _CATBOOST.match(line)
    if found is None:
        return None
    after = _at_round(context, int(found[1]))
    whole, part = float_of(found[4]), float_of(found[6] or "0")
    body: Body = {"fold": after.fold, "epoch": after.epoch}
    if whole is not None and part is not None:
        total = whole * _SECONDS[found[5]] + part * _SECONDS[found[7] or "s"]
        body["seconds"] = total / (int(found[1]) + 1)
    for name, value in (("train_loss", found[2]), ("valid_loss", found[3])):
        if value is not None and _PLAIN.fullmatch(value):
            body[name] = value if value in ("nan", "inf") else float(value)
    return [("epoch", body)], after


def fit_ended(line: str, context: Context) -> tuple[Events, Context] | None:
    """`Early stopping, best iteration is:` and the round again on the next line; CatBoost's end."""
    best = _BEST_FOLLOWS.search(line) is not None
    if not best and _ENDED.search(line) is None:
        return None
    after = replace(context, ended="best" if best else "yes")
    if context.ended or context.epoch is None:
        return [], after
    return [("fold", {"fold": context.fold, "done": True})], after


def _at_round(context: Context, number: int) -> Context:
    anew = context.epoch is not None and (bool(context.ended) or number < context.epoch)
    return replace(context, fold=context.fold + anew, epoch=number, ended="")
