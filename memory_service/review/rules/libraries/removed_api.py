"""Arguments, values, names and modules that the libraries have removed, and arguments they never had."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.rules.libraries.signatures import parameters_of
from memory_service.review.source.nodes import keyword_names
from memory_service.review.source.script import last_name, word_pairs
from memory_service.review.training.training import KERAS, LIGHTNING

wrong = partial(finding, "wrong-parameter")

_TREES = (
    "RandomForestClassifier RandomForestRegressor ExtraTreesClassifier ExtraTreesRegressor "
    "DecisionTreeClassifier DecisionTreeRegressor GradientBoostingClassifier GradientBoostingRegressor"
)
_SCHEDULES = (
    "StepLR MultiStepLR ExponentialLR CosineAnnealingLR LambdaLR LinearLR CosineAnnealingWarmRestarts "
    "OneCycleLR CyclicLR ReduceLROnPlateau"
)
_TRAINING_ARGUMENTS = "TrainingArguments Seq2SeqTrainingArguments"
_LEARNING_RATE = "learning_rate=keras.optimizers.schedules.CosineDecay(1e-3, steps)"
_DATASET = "leave it out; a PyDataset takes it: super().__init__({}=...)"

_ARGUMENTS = (
    ("sklearn", "LinearRegression Ridge Lasso ElasticNet RidgeCV LassoCV", "normalize",
     "make_pipeline(StandardScaler(), model)"),
    ("sklearn", "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor", "base_estimator",
     "estimator=..."),
    ("sklearn", "GridSearchCV RandomizedSearchCV", "iid", "leave it out"),
    ("sklearn", "cross_val_score cross_val_predict", "fit_params", "params=..."),
    ("sklearn", _TREES, "min_impurity_split", "min_impurity_decrease=..."),
    ("sklearn", _TREES, "presort", "leave it out"),
    ("sklearn", "make_scorer", "needs_proba", 'response_method="predict_proba"'),
    ("sklearn", "make_scorer", "needs_threshold", 'response_method="decision_function"'),
    ("sklearn", "AgglomerativeClustering", "affinity", "metric=..."),
    ("sklearn", "log_loss", "eps", "leave it out"),
    ("sklearn", "OneHotEncoder", "sparse", "sparse_output=False"),
    ("sklearn", "mean_squared_error", "squared", "root_mean_squared_error(y, prediction)"),
    ("sklearn", "mean_squared_log_error", "squared", "root_mean_squared_log_error(y, prediction)"),
    ("pandas", "read_csv", "error_bad_lines", 'on_bad_lines="skip"'),
    ("pandas", "read_csv", "squeeze", '.squeeze("columns") behind it'),
    ("torch", _SCHEDULES, "verbose", "leave it out; print scheduler.get_last_lr()"),
    ("transformers", "from_pretrained", "use_auth_token", "token=..."),
    ("transformers", _TRAINING_ARGUMENTS, "evaluation_strategy", 'eval_strategy="epoch"'),
    ("transformers", _TRAINING_ARGUMENTS, "no_cuda", "use_cpu=True"),
    ("transformers", "TrainingArguments", "per_gpu_train_batch_size", "per_device_train_batch_size=..."),
    ("transformers", "TrainingArguments", "per_gpu_eval_batch_size", "per_device_eval_batch_size=..."),
    ("transformers", "TrainingArguments", "fp16_backend", "half_precision_backend is gone too; leave it out"),
    ("transformers", "Trainer Seq2SeqTrainer", "tokenizer", "processing_class=tokenizer"),
    ("lightning", "Trainer", "gpus", 'accelerator="gpu", devices=1'),
    ("lightning", "Trainer", "tpu_cores", 'accelerator="tpu", devices=8'),
    ("lightning", "Trainer", "progress_bar_refresh_rate",
     "enable_progress_bar=False, or TQDMProgressBar(refresh_rate=...)"),
    ("lightning", "Trainer", "checkpoint_callback", "enable_checkpointing=..."),
    ("lightning", "Trainer", "weights_summary", "enable_model_summary=..."),
    ("lightning", "Trainer", "distributed_backend", 'strategy="ddp"'),
    ("lightning", "Trainer", "auto_lr_find", "Tuner(trainer).lr_find(model)"),
    ("lightning", "Trainer", "auto_scale_batch_size", "Tuner(trainer).scale_batch_size(model)"),
    ("lightning", "Trainer", "amp_level", 'precision="16-mixed"'),
    ("lightning", "Trainer", "amp_backend", 'precision="16-mixed"'),
    ("lightning", "Trainer", "flush_logs_every_n_steps", "log_every_n_steps=..."),
    ("lightning", "Trainer", "resume_from_checkpoint", "trainer.fit(model, ckpt_path=...)"),
    ("lightning", "Trainer", "stochastic_weight_avg", "callbacks=[StochasticWeightAveraging(...)]"),
    ("keras", "Adam AdamW SGD RMSprop Adagrad Nadam Adamax", "lr", "learning_rate=1e-3"),
    ("keras", "Adam AdamW SGD RMSprop Adagrad Nadam Adamax", "decay", _LEARNING_RATE),
    ("keras", "fit evaluate predict", "workers", _DATASET.format("workers")),
    ("keras", "fit evaluate predict", "use_multiprocessing", _DATASET.format("use_multiprocessing")),
    ("keras", "fit evaluate predict", "max_queue_size", _DATASET.format("max_queue_size")),
)  # fmt: skip
"""(library, what is called, argument, what to write)."""

_REMOVED: dict[tuple[str, str | None], list[tuple[str, str]]] = {}
for _library, _callables, _argument, _instead in _ARGUMENTS:
    for _callable in _callables.split():
        _REMOVED.setdefault((_callable, _argument), []).append((_library, _instead))

_VALUES: dict[tuple[str, str, str], str] = {
    **{(tree, "max_features", "auto"): 'max_features="sqrt"' for tree in _TREES.split()},
    **{(tree, "criterion", "mse"): 'criterion="squared_error"' for tree in _TREES.split()},
    **{(tree, "criterion", "mae"): 'criterion="absolute_error"' for tree in _TREES.split()},
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
"""(class of scikit-learn, parameter, refused value) -> what to write."""

_SCORERS = word_pairs(
    "mean_squared_error:neg_mean_squared_error mse:neg_mean_squared_error "
    "root_mean_squared_error:neg_root_mean_squared_error rmse:neg_root_mean_squared_error "
    "mean_absolute_error:neg_mean_absolute_error mae:neg_mean_absolute_error "
    "mean_squared_log_error:neg_mean_squared_log_error median_absolute_error:neg_median_absolute_error "
    "mean_absolute_percentage_error:neg_mean_absolute_percentage_error log_loss:neg_log_loss "
    "logloss:neg_log_loss auc:roc_auc roc_auc_score:roc_auc f1_score:f1 accuracy_score:accuracy r2_score:r2"
)
"""Names that are no scorer of scikit-learn -> the scorer that is meant."""

_NAMES = {
    "transformers.AdamW": "torch.optim.AdamW",
    "transformers.optimization.AdamW": "torch.optim.AdamW",
    "sklearn.externals.joblib": "import joblib",
    "sklearn.datasets.load_boston": "sklearn.datasets.fetch_california_housing",
    "sklearn.metrics.plot_confusion_matrix": "ConfusionMatrixDisplay.from_estimator",
    "sklearn.metrics.plot_roc_curve": "RocCurveDisplay.from_estimator",
    "sklearn.preprocessing.Imputer": "from sklearn.impute import SimpleImputer",
    "datasets.load_metric": "import evaluate; evaluate.load(...)",
    "pytorch_lightning.metrics.Accuracy": "from torchmetrics import Accuracy",
    "keras.utils.np_utils": "from keras.utils import to_categorical",
    "lightgbm.print_evaluation": "lightgbm.log_evaluation",
}
_MODULES = {
    "sklearn.cross_validation": "sklearn.model_selection",
    "sklearn.grid_search": "sklearn.model_selection",
    "sklearn.externals.six": "six",
    "keras.wrappers.scikit_learn": "scikeras.wrappers",
    "keras.layers.experimental.preprocessing": "keras.layers",
    "tensorflow.keras.wrappers.scikit_learn": "scikeras.wrappers",
    "tensorflow.keras.layers.experimental.preprocessing": "tensorflow.keras.layers",
}


def removed_api_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter: what a library does not have any more, or never had."""
    yield from _imports(facts)
    for call in facts.script.calls:
        yield from _unknown_arguments(facts, call)
        yield from _removed_arguments(facts, call)
        yield from _removed_calls(facts, call)
        if facts.script.qualified(call.func).startswith("sklearn."):
            yield from _values(facts, call)


def _imports(facts: Facts) -> Iterator[Finding]:
    for node in facts.script.all(ast.ImportFrom):
        if any(isinstance(up, ast.Try) for up in facts.script.above(node)):
            continue
        module = node.module or ""
        if module in _MODULES:
            yield wrong(node, f"{module} is gone.", f"from {_MODULES[module]} import ...")
        for alias in node.names:
            instead = _NAMES.get(f"{module}.{alias.name}")
            if instead:
                yield wrong(node, f"{module} has no {alias.name} any more.", instead)


def _unknown_arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    allowed, name = parameters_of(facts.script.qualified(call.func)), last_name(call.func)
    for keyword in call.keywords if allowed else ():
        if keyword.arg is None or keyword.arg in allowed or (name, keyword.arg) in _REMOVED:
            continue
        near = get_close_matches(keyword.arg, allowed, n=1, cutoff=0.4)
        near = ["lr"] if keyword.arg == "learning_rate" and "lr" in allowed else near
        inside = facts.script.statement(keyword.value) is facts.script.statement(call)
        same_line = call.lineno == keyword.value.lineno
        yield wrong(
            call if inside and not same_line else keyword.value,
            f"{name} has no parameter {keyword.arg}.",
            f"{near[0]}=..." if near else f"leave it out; there are {', '.join(allowed[:6])} ...",
        )


def _removed_arguments(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name, qualified = last_name(call.func), facts.script.qualified(call.func)
    for keyword in call.keywords:
        for library, instead in _REMOVED.get((name, keyword.arg), ()):
            if not _is_of(facts, name, qualified, library):
                continue
            shown = f"Keras' {name}{'()' if name.islower() else ''}" if library == "keras" else name
            yield wrong(keyword.value, f"{shown} takes no {keyword.arg} any more.", instead)


def _is_of(facts: Facts, name: str, qualified: str, library: str) -> bool:
    """Whether a call of this name is one of the library; several have an `Adam` or a `Trainer`."""
    uses = facts.script.uses
    if library == "keras":
        return uses(*KERAS) and not qualified.startswith("torch.")
    if library == "lightning":
        return uses(*LIGHTNING) and not qualified.startswith("transformers.")
    return uses(library) and not (name == "Trainer" and uses(*LIGHTNING))


def _removed_calls(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name = last_name(call.func)
    if name in ("fit_generator", "predict_generator", "evaluate_generator") and facts.script.uses(*KERAS):
        yield wrong(call, f"{name} is gone from Keras.", f"{name.split('_')[0]}(generator, ...)")
    of_torchvision = facts.script.qualified(call.func).startswith("torchvision.models.")
    if of_torchvision and "pretrained" in keyword_names(call):
        message = f"{name}(pretrained=...) is deprecated in torchvision."
        yield wrong(call, message, f'{name}(weights="DEFAULT")')


def _values(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name = last_name(call.func)
    for keyword in call.keywords:
        value = facts.values.text(keyword.value) if keyword.arg else None
        instead = _VALUES.get((name, str(keyword.arg), str(value)))
        if instead:
            yield wrong(keyword.value, f"{name} takes no {keyword.arg}={value!r} any more.", instead)
        if keyword.arg == "scoring" and value in _SCORERS:
            message = f"scoring={value!r} is no scorer of scikit-learn."
            yield wrong(keyword.value, message, f"scoring={_SCORERS[value]!r}")
