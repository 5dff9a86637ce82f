"""Parameters of LightGBM, XGBoost and CatBoost that the library refuses, ignores or does not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.common.tables import shipped_table
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, wrong
from memory_service.review.source.nodes import calls_in, is_call, last_name, receiver

_BOOSTED = re.compile(r"^(LGBM|XGB)\w*(Classifier|Regressor|Ranker)$")
_STOPPING = ("early_stopping_rounds", "early_stopping_round")
_LIBRARIES = {
    "lightgbm": re.compile(r"lightgbm\.(train|cv)$|LGBM"),
    "xgboost": re.compile(r"xgboost\.(train|cv)$|XGB(RF)?(Class|Regr|Rank)"),
    "catboost": re.compile(r"catboost\.(train|cv)$|CatBoost(Classifier|Regressor|Ranker)?$"),
}
"""What trains, and which classes train."""

_TABLE = shipped_table(__package__, "boosted_trees.toml")
LEAST_RATE = 0.002  # below 0.02 every gain is within the noise (docs/methods/boosting_rounds.md)
_MULTICLASS = {
    "lightgbm.train": ("multiclass", "multiclassova", "softmax"),
    "xgboost.train": ("multi:softmax", "multi:softprob"),
}
_SHARES = (
    "subsample", "colsample_bytree", "feature_fraction", "bagging_fraction", "rsm", "colsample_bylevel",
)  # fmt: skip


def boosting_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter of boosted trees."""
    for call in facts.script.calls:
        yield from _nothing_to_stop_by(facts, call)
        library = _library(facts, call)
        if not library:
            continue
        params = facts.given(call, 0 if last_name(call.func) in ("train", "cv") else None)
        yield from _classes(facts, call, params)
        yield from _values(facts, library, params)
        if library == "catboost":
            yield from _aliases(call, params)
            if (facts.values.text(params.get("task_type")) or "").upper() == "GPU":
                yield from _refused_on_card(facts, call, params)


def _library(facts: Facts, call: ast.Call) -> str:
    names = last_name(call.func), facts.script.qualified(call.func)
    library = next((known for known, trains in _LIBRARIES.items() if any(map(trains.match, names))), "")
    return library if library != "catboost" or facts.script.uses("catboost") else ""


def _classes(facts: Facts, call: ast.Call, params: dict[str, ast.AST]) -> Iterator[Finding]:
    """An objective and a number of classes that do not go together."""
    objective = facts.values.text(params.get("objective"))
    complete = not facts.values.entries(facts.argument(call, "params", 0)).open
    multiclass = _MULTICLASS.get(facts.script.qualified(call.func), ())
    if complete and objective in multiclass and not {"num_class", "num_classes"} & set(params):
        yield wrong(call, "num-class-missing", objective=objective)
    count = facts.values.number(params.get("num_class"))
    if objective in ("binary", "regression") and count is not None and count > 1:
        yield wrong(call, "num-class-refused", objective=objective, count=count)


def _values(facts: Facts, library: str, params: dict[str, ast.AST]) -> Iterator[Finding]:
    """Values that the library does not know, or that are out of range."""
    values = facts.values
    if values.text(params.get("tree_method")) == "gpu_hist":
        yield wrong(params["tree_method"], "gpu-hist")
    objectives = ("loss_function", "objective") if library == "catboost" else ()
    for key in ("metric", "eval_metric", *objectives):
        found = values.one(params.get(key))
        for name in found if isinstance(found, list) else [found]:
            instead = _TABLE["metrics"][library].get(name) if isinstance(name, str) else None
            if instead:
                yield wrong(params[key], "metric-unknown", library=library, name=name, instead=instead)
    for key in _TABLE["ignored"].keys() & params if library == "xgboost" else ():
        yield wrong(params[key], "ignored", key=key, instead=_TABLE["ignored"][key])
    device = values.text(params.get("task_type"))
    if library == "catboost" and device is not None and device.upper() not in ("CPU", "GPU"):
        yield wrong(params["task_type"], "task-type", device=device)
    place = params.get("learning_rate") or params.get("eta")
    rate = values.number(place)
    if place is not None and rate is not None and not LEAST_RATE <= rate <= 1:
        what = "over 1" if rate > 1 else "so low that rounds end before the gains do"
        yield wrong(values.origin(place), "boosting-rate", rate=rate, what=what)
    for key in _SHARES:
        share = values.number(params.get(key))
        if share is not None and not 0 < share <= 1:
            yield wrong(params[key], "share-of-rows", key=key, share=share)


def _aliases(call: ast.Call, params: dict[str, ast.AST]) -> Iterator[Finding]:
    for names in _TABLE["aliases"]:
        both = [name for name in names if name in params]
        if len(both) > 1:
            yield wrong(call, "alias", one=both[0], other=both[1])


def _refused_on_card(facts: Facts, call: ast.Call, params: dict[str, ast.AST]) -> Iterator[Finding]:
    """What CatBoost takes on the processor only (its issues 983 and 1792)."""
    pairwise = "Pairwise" in str(facts.values.one(params.get("loss_function")))
    for name in ("rsm", "colsample_bylevel"):
        share = facts.values.number(params.get(name))
        if share is not None and share != 1 and not pairwise:
            yield wrong(params[name], "refused-on-card", name=name)
    for fit in facts.training.fits:
        given = facts.argument(fit.call, "callbacks")
        if given is not None and call in facts.training.objects.makers(receiver(fit.call)):
            yield wrong(given, "callbacks-on-card")


def _nothing_to_stop_by(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Early stopping without rows to judge by is refused."""
    if facts.values.open_ended(call):
        return
    qualified, model = facts.script.qualified(call.func), receiver(call)
    if qualified in ("lightgbm.train", "xgboost.train"):
        rows = "valid_sets" if qualified.startswith("lightgbm") else "evals"
        if facts.argument(call, rows, 3) is None and _stops_early(facts, call):
            fix = "valid_sets=[valid]" if rows == "valid_sets" else 'evals=[(valid, "valid")]'
            yield wrong(call, "no-rows-to-stop-by", rows=rows, fix=fix)
    if last_name(call.func) == "fit" and model is not None and len(call.args) <= 3:
        makers = facts.training.objects.makers(model)
        if len(makers) != 1 or not _BOOSTED.match(last_name(makers[0].func)):
            return
        if any(facts.argument(call, name) is not None for name in ("eval_set", "eval_X")):
            return
        if _stops_early(facts, makers[0]) or _stops_early(facts, call):
            yield wrong(call, "no-rows-to-stop-by", rows="eval_set", fix="eval_set=[(X_valid, y_valid)]")


def _stops_early(facts: Facts, call: ast.Call) -> bool:
    given = facts.given(call, 0)
    if any(facts.values.number(given.get(name)) is not None for name in _STOPPING):
        return True
    callbacks = [*calls_in(given["callbacks"])] if "callbacks" in given else []
    return any(is_call(one, "early_stopping", "EarlyStopping") for one in callbacks)
