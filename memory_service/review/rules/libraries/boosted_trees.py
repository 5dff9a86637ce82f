"""Parameters of LightGBM, XGBoost and CatBoost that the library refuses, ignores or does not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, wrong
from memory_service.review.source.nodes import calls_in, last_name, receiver

_BOOSTED = re.compile(r"^(LGBM|XGB)\w*(Classifier|Regressor|Ranker)$")
_STOPPING = ("early_stopping_rounds", "early_stopping_round")
_LIBRARIES = (
    ("lightgbm", re.compile(r"lightgbm\.(train|cv)$"), re.compile(r"LGBM")),
    ("xgboost", re.compile(r"xgboost\.(train|cv)$"), re.compile(r"XGB(RF)?(Class|Regr|Rank)")),
    (
        "catboost",
        re.compile(r"catboost\.(train|cv)$"),
        re.compile(r"CatBoost(Classifier|Regressor|Ranker)?$"),
    ),
)
"""(library, what trains, which classes train)."""

_ALIASES = (
    ("iterations", "n_estimators", "num_boost_round", "num_trees"),
    ("learning_rate", "eta"),
    ("depth", "max_depth"),
    ("random_seed", "random_state"),
    ("loss_function", "objective"),
    ("l2_leaf_reg", "reg_lambda"),
    ("border_count", "max_bin"),
)
"""Names that CatBoost has for one parameter: two of them are refused."""

_METRICS = {
    "lightgbm": {"accuracy": "binary_error", "acc": "binary_error", "f1": "binary_logloss", "roc_auc": "auc",
                 "logloss": "binary_logloss", "r2": "rmse"},
    "xgboost": {"accuracy": "error", "acc": "error", "f1": "logloss", "roc_auc": "auc", "r2": "rmse",
                "AUC": "auc", "RMSE": "rmse", "binary_logloss": "logloss", "multi_logloss": "mlogloss"},
    "catboost": {"auc": "AUC", "rmse": "RMSE", "mae": "MAE", "logloss": "Logloss", "accuracy": "Accuracy",
                 "multiclass": "MultiClass", "f1": "F1", "mse": "RMSE", "MSE": "RMSE", "binary": "Logloss",
                 "roc_auc": "AUC", "LogLoss": "Logloss", "log_loss": "Logloss", "MultiLogloss": "MultiClass"},
}  # fmt: skip
"""Metrics that a library does not know -> one that it does."""

LEAST_RATE = 0.002
"""From 0.02 down nothing is gained that could be told from noise (docs/boosting_rounds.md)."""

_IGNORED = {
    "use_label_encoder": "leave it out; labels must be 0 ... n - 1",
    "gpu_id": 'device="cuda:0"',
    "predictor": 'device="cuda"',
    "n_gpus": 'device="cuda"',
}
"""What XGBoost took once and ignores now."""

_CALLBACKS = {
    "early_stopping_rounds": "callbacks=[lgb.early_stopping(100)]",
    "verbose_eval": "callbacks=[lgb.log_evaluation(100)]",
    "evals_result": "callbacks=[lgb.record_evaluation(history)]",
    "verbose": "callbacks=[lgb.log_evaluation(100)]",
}
"""Arguments of LightGBM that are callbacks now."""

_SHARES = (
    "subsample", "colsample_bytree", "feature_fraction", "bagging_fraction", "rsm", "colsample_bylevel",
)  # fmt: skip


def boosting_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter of boosted trees."""
    for call in facts.script.calls:
        yield from _removed(facts, call)
        yield from _nothing_to_stop_by(facts, call)
        library = _library(facts, call)
        if not library:
            continue
        trains = last_name(call.func) in ("train", "cv")
        given = facts.argument(call, "params", 0 if trains else None)
        params: dict[str, ast.AST] = {k.arg: k.value for k in call.keywords if k.arg}
        params |= facts.values.entries(given).known if given is not None else {}
        yield from _classes(facts, call, params)
        yield from _values(facts, library, params)
        if library == "catboost":
            yield from _aliases(call, params)
            if (facts.values.text(params.get("task_type")) or "").upper() == "GPU":
                yield from _refused_on_card(facts, call, params)


def _library(facts: Facts, call: ast.Call) -> str:
    name, qualified = last_name(call.func), facts.script.qualified(call.func)
    found = (lib for lib, train, made in _LIBRARIES if train.match(qualified) or made.match(name))
    library = next(found, "")
    return library if library != "catboost" or facts.script.uses("catboost") else ""


def _removed(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Arguments of train(), fit() and predict() that are gone."""
    qualified, name = facts.script.qualified(call.func), last_name(call.func)
    model = receiver(call)
    made = facts.training.objects.made_by(model) if model is not None and name == "fit" else ""
    dropped: dict[str, str] = {}
    shown = qualified if qualified in ("lightgbm.train", "lightgbm.cv") else f"fit() of {made}"
    if shown == qualified:
        dropped = {key: text for key, text in _CALLBACKS.items() if key != "verbose"}
    elif made.startswith("LGBM"):
        dropped = {key: text for key, text in _CALLBACKS.items() if key != "evals_result"}
    elif re.match(r"XGB\w", made):
        dropped = {"early_stopping_rounds": f"{made}(early_stopping_rounds=50)",
                "verbose_eval": _CALLBACKS["verbose_eval"],
                "eval_metric": f"{made}(eval_metric=...)", "callbacks": f"{made}(callbacks=...)"}  # fmt: skip
    elif name in ("predict", "predict_proba") and facts.script.uses("xgboost"):
        dropped, shown = {"ntree_limit": "iteration_range=(0, model.best_iteration + 1)"}, "xgboost's predict"
    for keyword in call.keywords:
        if keyword.arg in dropped:
            yield wrong(keyword.value, f"{shown} takes no {keyword.arg} any more.", dropped[keyword.arg])


def _classes(facts: Facts, call: ast.Call, params: dict[str, ast.AST]) -> Iterator[Finding]:
    """An objective and a number of classes that do not go together."""
    objective, given = facts.values.text(params.get("objective")), facts.argument(call, "params", 0)
    complete = given is not None and not facts.values.entries(given).open
    multiclass = {
        "lightgbm.train": ("multiclass", "multiclassova", "softmax"),
        "xgboost.train": ("multi:softmax", "multi:softprob"),
    }.get(facts.script.qualified(call.func), ())
    if complete and objective in multiclass and not {"num_class", "num_classes"} & set(params):
        yield wrong(call, f"objective {objective} needs num_class.", '"num_class": N_CLASSES')
    count = facts.values.number(params.get("num_class"))
    if objective in ("binary", "regression") and count is not None and count > 1:
        message = f"objective {objective} with num_class={count:g} is refused."
        yield wrong(call, message, '"objective": "multiclass"')


def _values(facts: Facts, library: str, params: dict[str, ast.AST]) -> Iterator[Finding]:
    """Values that the library does not know, or that are out of range."""
    values = facts.values
    if values.text(params.get("tree_method")) == "gpu_hist":
        message = "tree_method gpu_hist is gone from xgboost."
        yield wrong(params["tree_method"], message, 'tree_method="hist", device="cuda"')
    objectives = ("loss_function", "objective") if library == "catboost" else ()
    for key in ("metric", "eval_metric", *objectives):
        found = values.one(params.get(key))
        for name in found if isinstance(found, list) else [found]:
            instead = _METRICS[library].get(name) if isinstance(name, str) else None
            if instead:
                yield wrong(params[key], f"{library} knows no {name!r}.", f'"{instead}"')
    for key in _IGNORED.keys() & params if library == "xgboost" else ():
        yield wrong(params[key], f"xgboost passes over {key} now.", _IGNORED[key])
    device = values.text(params.get("task_type"))
    if library == "catboost" and device is not None and device.upper() not in ("CPU", "GPU"):
        yield wrong(params["task_type"], f"task_type is CPU or GPU, not {device!r}.", '"GPU"')
    place = params.get("learning_rate") or params.get("eta")
    rate = values.number(place)
    if place is not None and rate is not None and not LEAST_RATE <= rate <= 1:
        what = "over 1" if rate > 1 else "so low that rounds end before the gains do"
        yield wrong(
            values.origin(place), f"learning rate {rate:g} of boosting is {what}.", "learning_rate=0.05"
        )
    for key in _SHARES:
        share = values.number(params.get(key))
        if share is not None and not 0 < share <= 1:
            yield wrong(params[key], f"{key}={share:g} is no share of rows or columns.", f"{key}=0.8")


def _aliases(call: ast.Call, params: dict[str, ast.AST]) -> Iterator[Finding]:
    for names in _ALIASES:
        both = [name for name in names if name in params]
        if len(both) > 1:
            message = f"CatBoost refuses {both[0]} and {both[1]} together: they are one parameter."
            yield wrong(call, message, f"{both[0]}=...")


def _refused_on_card(facts: Facts, call: ast.Call, params: dict[str, ast.AST]) -> Iterator[Finding]:
    """What CatBoost takes on the processor only (its issues 983 and 1792)."""
    pairwise = "Pairwise" in str(facts.values.one(params.get("loss_function")))
    for name in ("rsm", "colsample_bylevel"):
        share = facts.values.number(params.get(name))
        if share is not None and share != 1 and not pairwise:
            yield wrong(params[name], f"CatBoost refuses {name} on a card.", f'no {name}, or task_type="CPU"')
    for fit in facts.training.fits:
        model, given = receiver(fit.call), facts.argument(fit.call, "callbacks")
        if given is not None and model is not None and call in facts.training.objects.makers(model):
            yield wrong(given, "CatBoost refuses callbacks on a card.", 'no callbacks, or task_type="CPU"')


def _nothing_to_stop_by(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Early stopping without rows to judge by is refused."""
    if facts.values.open_ended(call):
        return
    qualified, model = facts.script.qualified(call.func), receiver(call)
    message = "Early stopping needs rows to judge by: {} is missing."
    if qualified in ("lightgbm.train", "xgboost.train"):
        rows = "valid_sets" if qualified.startswith("lightgbm") else "evals"
        if facts.argument(call, rows, 3) is None and _stops_early(facts, call):
            fix = "valid_sets=[valid]" if rows == "valid_sets" else 'evals=[(valid, "valid")]'
            yield wrong(call, message.format(rows), fix)
    if last_name(call.func) == "fit" and model is not None and len(call.args) <= 3:
        makers = facts.training.objects.makers(model)
        if len(makers) != 1 or not _BOOSTED.match(last_name(makers[0].func)):
            return
        if any(facts.argument(call, name) is not None for name in ("eval_set", "eval_X")):
            return
        if _stops_early(facts, makers[0]) or _stops_early(facts, call):
            yield wrong(call, message.format("eval_set"), "eval_set=[(X_valid, y_valid)]")


def _stops_early(facts: Facts, call: ast.Call) -> bool:
    params = facts.argument(call, "params", 0)
    known = (facts.values.mapping(params) or {}) if params is not None else {}
    for name in _STOPPING:
        if facts.number(call, name) is not None or facts.values.number(known.get(name)) is not None:
            return True
    callbacks = facts.argument(call, "callbacks")
    return callbacks is not None and any(
        last_name(c.func) in ("early_stopping", "EarlyStopping") for c in calls_in(callbacks)
    )
