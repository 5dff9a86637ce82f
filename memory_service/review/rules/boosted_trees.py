"""Do the parameters of boosted trees mean what they are to mean? Of LightGBM, XGBoost and CatBoost."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.script import last_name

__all__ = ["boosting_rules"]

_BOOSTED_FIT = re.compile(r"^(LGBM|XGB)\w+$")
_CAT = re.compile(r"^CatBoost(Classifier|Regressor|Ranker)?$")
_SAME = (
    ("iterations", "n_estimators", "num_boost_round", "num_trees"),
    ("learning_rate", "eta"),
    ("depth", "max_depth"),
    ("random_seed", "random_state"),
    ("loss_function", "objective"),
    ("l2_leaf_reg", "reg_lambda"),
    ("border_count", "max_bin"),
)
"""Names of CatBoost for one and the same: two of them are refused."""

_METRICS = {
    "lightgbm": {"accuracy": "binary_error", "acc": "binary_error", "f1": "binary_logloss", "roc_auc": "auc",
                 "logloss": "binary_logloss", "r2": "rmse"},
    "xgboost": {"accuracy": "error", "acc": "error", "f1": "logloss", "roc_auc": "auc", "r2": "rmse",
                "AUC": "auc", "RMSE": "rmse", "binary_logloss": "logloss", "multi_logloss": "mlogloss"},
    "catboost": {"auc": "AUC", "rmse": "RMSE", "mae": "MAE", "logloss": "Logloss", "accuracy": "Accuracy",
                 "multiclass": "MultiClass", "f1": "F1", "mse": "RMSE", "MSE": "RMSE", "binary": "Logloss",
                 "roc_auc": "AUC", "LogLoss": "Logloss", "log_loss": "Logloss", "MultiLogloss": "MultiClass"},
}  # fmt: skip
"""Names that a library does not know, with one that it does."""

_IGNORED = {
    "use_label_encoder": "leave it out; labels must be 0 ... n - 1",
    "gpu_id": 'device="cuda:0"',
    "predictor": 'device="cuda"',
    "n_gpus": 'device="cuda"',
}
"""What XGBoost once took and now passes over."""

_SHARES = (
    "subsample",
    "colsample_bytree",
    "feature_fraction",
    "bagging_fraction",
    "rsm",
    "colsample_bylevel",
)


def boosting_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter of boosted trees."""
    for call in facts.script.calls:
        name, qualified = last_name(call.func), facts.script.qualified(call.func)
        if name == "fit" and isinstance(call.func, ast.Attribute):
            yield from _fit(call, facts.training.made_by(call.func.value))
        library = _library(facts, name, qualified)
        if not library:
            continue
        if qualified in ("lightgbm.train", "lightgbm.cv"):
            yield from _gone_from_train(call, qualified)
        held = _held(facts, call, qualified)
        yield from _classes(facts, call, qualified, held)
        yield from _values(facts, library, held)
        if library == "catboost":
            yield from _twice(call, held)


def _library(facts: Facts, name: str, qualified: str) -> str:
    if qualified in ("lightgbm.train", "lightgbm.cv") or name.startswith("LGBM"):
        return "lightgbm"
    if qualified in ("xgboost.train", "xgboost.cv") or re.match(r"XGB(RF)?(Class|Regr|Rank)", name):
        return "xgboost"
    if _CAT.match(name) or qualified in ("catboost.train", "catboost.cv"):
        return "catboost" if facts.script.uses("catboost") else ""
    return ""


def _held(facts: Facts, call: ast.Call, qualified: str) -> dict[str, ast.AST]:
    """The parameters of a model, by keyword or in the dict of parameters."""
    out: dict[str, ast.AST] = {k.arg: k.value for k in call.keywords if k.arg}
    params = facts.values.argument(call, "params", 0 if qualified.endswith((".train", ".cv")) else None)
    return out | (facts.values.held(params).known if params is not None else {})


def _fit(call: ast.Call, made: str) -> Iterator[Finding]:
    if not _BOOSTED_FIT.match(made):
        return
    for keyword in call.keywords:
        if keyword.arg in ("early_stopping_rounds", "verbose_eval") or (
            keyword.arg == "verbose" and made.startswith("LGBM")
        ):
            instead = {
                "early_stopping_rounds": "callbacks=[lgb.early_stopping(100)]"
                if made.startswith("LGBM")
                else f"{made}(early_stopping_rounds=50)",
            }.get(keyword.arg, "callbacks=[lgb.log_evaluation(100)]")
            yield finding(
                "wrong-parameter", keyword.value, f"fit() of {made} takes no {keyword.arg} any more.", instead
            )


def _gone_from_train(call: ast.Call, qualified: str) -> Iterator[Finding]:
    for keyword in call.keywords:
        if keyword.arg in ("early_stopping_rounds", "verbose_eval", "evals_result"):
            instead = {
                "early_stopping_rounds": "lgb.early_stopping(100)",
                "verbose_eval": "lgb.log_evaluation(100)",
            }.get(keyword.arg, "lgb.record_evaluation(history)")
            yield finding(
                "wrong-parameter",
                keyword.value,
                f"{qualified} takes no {keyword.arg} any more.",
                f"callbacks=[{instead}]",
            )


def _classes(facts: Facts, call: ast.Call, qualified: str, held: dict[str, ast.AST]) -> Iterator[Finding]:
    """An objective and a number of classes that do not belong together."""
    values = facts.values
    objective = values.text(held.get("objective"))
    params = values.argument(call, "params", 0)
    known = params is not None and held and not values.held(params).open
    multi = {
        "lightgbm.train": ("multiclass", "multiclassova", "softmax"),
        "xgboost.train": ("multi:softmax", "multi:softprob"),
    }.get(qualified, ())
    if known and objective in multi and not {"num_class", "num_classes"} & set(held):
        yield finding(
            "wrong-parameter", call, f"objective {objective} needs num_class.", '"num_class": N_CLASSES'
        )
    count = values.number(held.get("num_class"))
    if objective in ("binary", "regression") and count is not None and count > 1:
        yield finding(
            "wrong-parameter",
            call,
            f"objective {objective} with num_class={count:g} is refused.",
            '"objective": "multiclass"',
        )


def _values(facts: Facts, library: str, held: dict[str, ast.AST]) -> Iterator[Finding]:
    """Values that the library does not know, or that are out of range."""
    values = facts.values
    if values.text(held.get("tree_method")) == "gpu_hist":
        yield finding(
            "wrong-parameter",
            held["tree_method"],
            "tree_method gpu_hist is gone from xgboost.",
            'tree_method="hist", device="cuda"',
        )
    for key in ("metric", "eval_metric", "loss_function", "objective"):
        if key not in held or (key in ("objective", "loss_function") and library != "catboost"):
            continue
        said = values.one(held[key])
        for name in said if isinstance(said, list) else [said]:
            instead = _METRICS[library].get(name) if isinstance(name, str) else None
            if instead:
                yield finding("wrong-parameter", held[key], f"{library} knows no {name!r}.", f'"{instead}"')
    if library == "xgboost":
        for key, instead in _IGNORED.items():
            if key in held:
                yield finding("wrong-parameter", held[key], f"xgboost passes over {key} now.", instead)
    kind = values.text(held.get("task_type"))
    if library == "catboost" and kind is not None and kind.upper() not in ("CPU", "GPU"):
        yield finding(
            "wrong-parameter", held["task_type"], f"task_type is CPU or GPU, not {kind!r}.", '"GPU"'
        )
    rate = values.number(held.get("learning_rate") or held.get("eta"))
    if rate is not None and rate > 1:
        yield finding(
            "wrong-parameter",
            held.get("learning_rate") or held["eta"],
            f"learning rate {rate:g} of boosting is over 1.",
            "learning_rate=0.05",
        )
    for key in _SHARES:
        share = values.number(held.get(key))
        if share is not None and not 0 < share <= 1:
            yield finding("wrong-parameter", held[key], f"{key}={share:g} is no share of rows or columns.",
                          f"{key}=0.8")  # fmt: skip


def _twice(call: ast.Call, held: dict[str, ast.AST]) -> Iterator[Finding]:
    for names in _SAME:
        both = [name for name in names if name in held]
        if len(both) > 1:
            yield finding(
                "wrong-parameter",
                call,
                f"CatBoost refuses {both[0]} and {both[1]} together: they are one parameter.",
                f"{both[0]}=...",
            )
