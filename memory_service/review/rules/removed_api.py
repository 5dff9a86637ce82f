"""Which arguments, values and names have the libraries taken away? Has early stopping rows to judge by?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.script import last_name

__all__ = ["GONE_ARGUMENTS", "gone_rules"]

_TREES = (
    "RandomForestClassifier",
    "RandomForestRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRegressor",
)
_VALUES: dict[tuple[str, str, str], str] = {
    **{(tree, "max_features", "auto"): 'max_features="sqrt"' for tree in _TREES},
    **{(tree, "criterion", "mse"): 'criterion="squared_error"' for tree in _TREES},
    **{(tree, "criterion", "mae"): 'criterion="absolute_error"' for tree in _TREES},
    ("SGDClassifier", "loss", "log"): 'loss="log_loss"',
    ("SGDRegressor", "loss", "squared_loss"): 'loss="squared_error"',
    ("GradientBoostingClassifier", "loss", "deviance"): 'loss="log_loss"',
    ("GradientBoostingRegressor", "loss", "ls"): 'loss="squared_error"',
    ("GradientBoostingRegressor", "loss", "lad"): 'loss="absolute_error"',
    ("HistGradientBoostingRegressor", "loss", "least_squares"): 'loss="squared_error"',
    ("HistGradientBoostingClassifier", "loss", "binary_crossentropy"): 'loss="log_loss"',
    ("LogisticRegression", "penalty", "none"): "C=np.inf",
    ("AdaBoostClassifier", "algorithm", "SAMME.R"): "leave it out",
}
"""(class of scikit-learn, parameter, value that is refused) -> what to write."""

GONE_ARGUMENTS: dict[tuple[str, str], tuple[str, str]] = {
    **{
        (model, "normalize"): ("sklearn", "make_pipeline(StandardScaler(), model)")
        for model in ("LinearRegression", "Ridge", "Lasso", "ElasticNet", "RidgeCV", "LassoCV")
    },
    **{
        (model, "base_estimator"): ("sklearn", "estimator=...")
        for model in ("AdaBoostClassifier", "AdaBoostRegressor", "BaggingClassifier", "BaggingRegressor")
    },
    **{
        (search, "iid"): ("sklearn", "leave it out")
        for search in ("GridSearchCV", "RandomizedSearchCV")
    },
    **{(call, "fit_params"): ("sklearn", "params=...") for call in ("cross_val_score", "cross_val_predict")},
    **{(tree, "min_impurity_split"): ("sklearn", "min_impurity_decrease=...") for tree in _TREES},
    **{(tree, "presort"): ("sklearn", "leave it out") for tree in _TREES},
    ("make_scorer", "needs_proba"): ("sklearn", 'response_method="predict_proba"'),
    ("make_scorer", "needs_threshold"): ("sklearn", 'response_method="decision_function"'),
    ("AgglomerativeClustering", "affinity"): ("sklearn", "metric=..."),
    ("log_loss", "eps"): ("sklearn", "leave it out"),
    ("read_csv", "error_bad_lines"): ("pandas", 'on_bad_lines="skip"'),
    ("read_csv", "squeeze"): ("pandas", '.squeeze("columns") behind it'),
    ("from_pretrained", "use_auth_token"): ("transformers", "token=..."),
    **{
        (name, "verbose"): ("torch", "leave it out; print scheduler.get_last_lr()")
        for name in ("StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "LambdaLR", "LinearLR",
                     "CosineAnnealingWarmRestarts", "OneCycleLR", "CyclicLR")
    },
}  # fmt: skip
"""(what is called, argument) -> (its library, what to write)."""

_IMPORTS: dict[tuple[str, str], str] = {
    ("transformers", "AdamW"): "torch.optim.AdamW",
    ("transformers.optimization", "AdamW"): "torch.optim.AdamW",
    ("sklearn.externals", "joblib"): "import joblib",
    ("sklearn.datasets", "load_boston"): "sklearn.datasets.fetch_california_housing",
    ("sklearn.metrics", "plot_confusion_matrix"): "ConfusionMatrixDisplay.from_estimator",
    ("sklearn.metrics", "plot_roc_curve"): "RocCurveDisplay.from_estimator",
    ("sklearn.preprocessing", "Imputer"): "from sklearn.impute import SimpleImputer",
    ("datasets", "load_metric"): "import evaluate; evaluate.load(...)",
    ("pytorch_lightning.metrics", "Accuracy"): "from torchmetrics import Accuracy",
    ("keras.utils", "np_utils"): "from keras.utils import to_categorical",
    ("lightgbm", "print_evaluation"): "lightgbm.log_evaluation",
}
"""(module, name) -> what took its place."""

_SCORERS = {
    "mean_squared_error": "neg_mean_squared_error",
    "mse": "neg_mean_squared_error",
    "root_mean_squared_error": "neg_root_mean_squared_error",
    "rmse": "neg_root_mean_squared_error",
    "mean_absolute_error": "neg_mean_absolute_error",
    "mae": "neg_mean_absolute_error",
    "mean_squared_log_error": "neg_mean_squared_log_error",
    "median_absolute_error": "neg_median_absolute_error",
    "mean_absolute_percentage_error": "neg_mean_absolute_percentage_error",
    "log_loss": "neg_log_loss",
    "logloss": "neg_log_loss",
    "auc": "roc_auc",
    "roc_auc_score": "roc_auc",
    "f1_score": "f1",
    "accuracy_score": "accuracy",
    "r2_score": "r2",
}
"""Names that are no scorer of scikit-learn, with the one that is meant."""

_GONE_MODULES = {
    "sklearn.cross_validation": "sklearn.model_selection",
    "sklearn.grid_search": "sklearn.model_selection",
    "sklearn.externals.six": "six",
    "keras.wrappers.scikit_learn": "scikeras.wrappers",
    "keras.layers.experimental.preprocessing": "keras.layers",
    "tensorflow.keras.wrappers.scikit_learn": "scikeras.wrappers",
    "tensorflow.keras.layers.experimental.preprocessing": "tensorflow.keras.layers",
}
_XGB = re.compile(r"^XGB(\w*)(Classifier|Regressor|Ranker)$")
_BOOSTED = re.compile(r"^(LGBM|XGB)\w*(Classifier|Regressor|Ranker)$")
_STOPS = ("early_stopping_rounds", "early_stopping_round")


def gone_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter: what is gone, and boosted trees that are to stop early without rows to judge by."""
    yield from _imports(facts)
    for call in facts.script.calls:
        yield from _values(facts, call)
        yield from _scorers(facts, call)
        yield from _arguments(facts, call)
        yield from _xgboost(facts, call)
        yield from _nothing_to_stop_by(facts, call)


def _imports(facts: Facts) -> Iterator[Finding]:
    for node in facts.script.all(ast.ImportFrom):
        if any(isinstance(up, ast.Try) for up in facts.script.above(node)):
            continue
        instead = _GONE_MODULES.get(node.module or "")
        if instead:
            yield finding("wrong-parameter", node, f"{node.module} is gone.", f"from {instead} import ...")
            continue
        for alias in node.names:
            instead = _IMPORTS.get((node.module or "", alias.name))
            if instead:
                yield finding(
                    "wrong-parameter", node, f"{node.module} has no {alias.name} any more.", instead
                )


def _values(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name = last_name(call.func)
    if not facts.script.qualified(call.func).startswith("sklearn."):
        return
    for keyword in call.keywords:
        said = facts.values.text(keyword.value) if keyword.arg else None
        instead = _VALUES.get((name, str(keyword.arg), str(said)))
        if said is not None and instead:
            yield finding(
                "wrong-parameter", keyword.value, f"{name} takes no {keyword.arg}={said!r} any more.", instead
            )


def _scorers(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """`scoring="rmse"`: no such name."""
    if not facts.script.qualified(call.func).startswith("sklearn."):
        return
    for keyword in call.keywords:
        said = facts.values.text(keyword.value) if keyword.arg == "scoring" else None
        if said in _SCORERS:
            why = f"scoring={said!r} is no scorer of scikit-learn."
            yield finding("wrong-parameter", keyword.value, why, f"scoring={_SCORERS[said]!r}")


def _arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name = last_name(call.func)
    for keyword in call.keywords:
        library, instead = GONE_ARGUMENTS.get((name, str(keyword.arg)), ("", ""))
        if library and facts.script.uses(library):
            yield finding(
                "wrong-parameter", keyword.value, f"{name} takes no {keyword.arg} any more.", instead
            )


def _xgboost(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """What moved from fit() to the constructor, and predict's limit of trees."""
    name = last_name(call.func)
    if name not in ("fit", "predict", "predict_proba") or not isinstance(call.func, ast.Attribute):
        return
    made = facts.training.made_by(call.func.value)
    for keyword in call.keywords:
        if name == "fit" and _XGB.match(made) and keyword.arg in ("eval_metric", "callbacks"):
            yield finding(
                "wrong-parameter",
                keyword.value,
                f"fit() of {made} takes no {keyword.arg} any more.",
                f"{made}({keyword.arg}=...)",
            )
        if name != "fit" and keyword.arg == "ntree_limit" and facts.script.uses("xgboost"):
            yield finding(
                "wrong-parameter",
                keyword.value,
                "xgboost's predict takes no ntree_limit any more.",
                "iteration_range=(0, model.best_iteration + 1)",
            )


def _nothing_to_stop_by(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """Early stopping is asked for and no rows are given to judge by: refused."""
    values, script = facts.values, facts.script
    if values.open_ended(call):
        return
    name, qualified = last_name(call.func), script.qualified(call.func)
    if qualified in ("lightgbm.train", "xgboost.train"):
        rows = "valid_sets" if qualified.startswith("lightgbm") else "evals"
        if values.argument(call, rows, 3) is None and _stops_early(facts, call):
            yield finding(
                "wrong-parameter",
                call,
                f"Early stopping needs rows to judge by: {rows} is missing.",
                "valid_sets=[valid]" if rows == "valid_sets" else 'evals=[(valid, "valid")]',
            )
    if name == "fit" and isinstance(call.func, ast.Attribute):
        makers = facts.training.makers(call.func.value)
        if len(makers) != 1 or not _BOOSTED.match(last_name(makers[0].func)):
            return
        if any(values.argument(call, n) is not None for n in ("eval_set", "eval_X")) or len(call.args) > 3:
            return
        if _stops_early(facts, makers[0]) or _stops_early(facts, call):
            yield finding(
                "wrong-parameter",
                call,
                "Early stopping needs rows to judge by: eval_set is missing.",
                "eval_set=[(X_valid, y_valid)]",
            )


def _stops_early(facts: Facts, call: ast.Call) -> bool:
    values = facts.values
    for name in _STOPS:
        if values.number(values.argument(call, name)) is not None:
            return True
    params = values.argument(call, "params", 0)
    held = values.mapping(params) if params is not None else None
    if any(values.number((held or {}).get(name)) is not None for name in _STOPS):
        return True
    given = values.argument(call, "callbacks")
    return given is not None and any(
        isinstance(n, ast.Call) and last_name(n.func) in ("early_stopping", "EarlyStopping")
        for n in ast.walk(given)
    )
