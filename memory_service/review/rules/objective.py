"""The loss of Keras, boosted trees and transformers against the output, the labels and the metric."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.rules.loss import RMSLE, VALUE_FAMILIES, Why, metric_of
from memory_service.review.source.nodes import calls_in, is_call, is_none, last_name, receiver, receiver_name
from memory_service.review.training.training import BOOSTED, BOOSTERS, KERAS, TRAINS_TREES

_OBJECTIVES = {
    "values": re.compile(
        r"^(regression(_l[12])?|l[12]|mse|mae|rmse|huber|fair|poisson|quantile|reg:(squarederror|linear|"
        r"absoluteerror|squaredlogerror|pseudohubererror)|RMSE|MAE|MAPE|Poisson|\w*Regressor)$"
    ),
    "classes": re.compile(
        r"^(binary|multiclass|multiclassova|softmax|cross_entropy|binary:logistic|multi:soft(max|prob)|"
        r"Logloss|MultiClass|MultiClassOneVsAll|CrossEntropy|\w*Classifier)$"
    ),
}
_CLASS_METRICS = re.compile(
    r"^(auc|binary_logloss|binary_error|multi_logloss|multi_error|logloss|mlogloss|error|merror|aucpr|"
    r"AUC|Accuracy|Logloss|F1|MultiClass|average_precision)$"
)
_VALUE_METRICS = re.compile(r"^(rmse|mse|mae|l1|l2|mape|rmsle|RMSE|MAE|MAPE|R2|MSLE|huber|quantile)$")
_OF_TWO_CLASSES = re.compile(r"^(binary(:logistic)?|Logloss)$")
_OF_MANY_CLASSES = re.compile(r"^(merror|mlogloss|multi_logloss|multi_error|MultiClass|TotalF1)$")
_FOR_CLASSES = ("auc", "log-loss", "accuracy", "mcc")
_CATEGORICAL = ("categorical_crossentropy", "sparse_categorical_crossentropy")
_SQUARED = ("mse", "mean_squared_error", "mae", "mean_absolute_error")
_WRONG_LABELS = {"categorical_crossentropy": "numbers", "sparse_categorical_crossentropy": "one-hot vectors"}
_BY_CLASS = re.compile(r"^(eval_)?(accuracy(_score)?|roc_auc(_score)?|f1_score|log_loss)$")
LONGEST_METRIC = 30
_JUDGED_AS_VALUES = re.compile(
    r"bcewithlogits|binary_cross_entropy_with_logits|mean_squared|rmse|mse|pearson|spearman|regression|mae\b|"
    r"kappa"
)


def objective_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-loss of frameworks that name their loss."""
    if facts.script.uses(*KERAS):
        yield from _keras(facts)
    if facts.script.uses(*BOOSTERS):
        yield from _boosting(facts)
    yield from _transformers(facts)


def _keras(facts: Facts) -> Iterator[Finding]:
    for call in facts.script.called("compile"):
        loss, output = facts.argument(call, "loss", 1), _keras_output(facts, call)
        name, logits, place = _keras_loss(facts, loss) if loss is not None else (None, False, call)
        if name is not None and output is not None:
            metrics = " ".join(_keras_metrics(facts, facts.argument(call, "metrics"))).lower()
            wrong = _wrong_keras(facts, name, logits, *output, metrics)
            if wrong is not None:
                yield finding("wrong-loss", place, wrong[0], **wrong[1])


def _wrong_keras(
    facts: Facts, name: str, logits: bool, units: float | None, activation: str | None, metrics: str
) -> Why | None:
    metric = metric_of(facts)
    labels = _keras_labels(facts)
    classes = activation == "softmax" or "accuracy" in metrics or "auc" in metrics
    if activation == "sigmoid" and units == 1 and metric is not None:
        classes = classes or metric.family in _FOR_CLASSES
    if logits and activation in ("softmax", "sigmoid"):
        return "keras-logits", {"activation": activation}
    if not logits and activation is None and name in (*_CATEGORICAL, "binary_crossentropy"):
        return "keras-no-activation", {"name": name}
    if activation == "softmax" and units == 1:
        return "keras-softmax-of-one", {}
    if name == "binary_crossentropy" and activation == "softmax" and units is not None:
        return "keras-binary-of-many", {"units": units}
    if name in _CATEGORICAL and activation == "sigmoid":
        return "keras-sigmoid", {"name": name}
    if name in _SQUARED and classes:
        return "keras-squared", {"name": name}
    if labels and _WRONG_LABELS.get(name) == labels:
        return "keras-labels", {
            "name": name,
            "labels": labels,
            "sparse": "" if name.startswith("sparse") else "sparse_",
        }
    if name in _CATEGORICAL and units == 1:
        return "keras-one-unit", {"name": name}
    return None


def _keras_metrics(facts: Facts, given: ast.AST | None) -> list[str]:
    listed = facts.values.one(given)
    named = [str(one) for one in listed] if isinstance(listed, list) else []
    return named + [last_name(call.func) for call in calls_in(given)] if given else []


def _keras_labels(facts: Facts) -> str:
    """How labels come: "numbers", "one-hot vectors", or "" where it is unknown."""
    called, argument = facts.script.called, facts.argument
    found = {"categorical"} if called("to_categorical", "one_hot", "CategoryEncoding") else set()
    readers = called("image_dataset_from_directory", "text_dataset_from_directory")
    stated = [(argument(call, "label_mode", 2), "int") for call in readers]
    flows = called("flow_from_directory", "flow_from_dataframe")
    stated += [(argument(call, "class_mode"), "categorical") for call in flows]
    found |= {default if given is None else facts.values.text(given) or "" for given, default in stated}
    forms = {"int": "numbers", "sparse": "numbers", "categorical": "one-hot vectors"}
    kinds = {forms.get(form, "") for form in found}
    return kinds.pop() if len(kinds) == 1 else ""


def _keras_loss(facts: Facts, node: ast.AST) -> tuple[str | None, bool, ast.AST]:
    """(name in snake case, from_logits, where)."""
    text = facts.values.text(node)
    if text is not None:
        return text, False, node
    source = next(iter(facts.values.sources(node)), node) if isinstance(node, ast.Name) else node
    if isinstance(source, ast.Call):
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", last_name(source.func)).lower()
        if snake in (*_CATEGORICAL, "binary_crossentropy", "mean_squared_error", "mean_absolute_error"):
            return snake, facts.value(source, "from_logits") is True, source
    return None, False, node


def _keras_output(facts: Facts, compiled: ast.Call) -> tuple[float | None, str | None] | None:
    """(units, activation) of the last Dense layer of the model compiled; None where it is unknown."""
    called = facts.script.called
    layers = _keras_layers(facts, compiled)
    if layers is None:
        shared = len(called("compile")) > 1 and not facts.script.function(compiled)
        layers = [] if shared or called("Activation", "Softmax", "Reshape") else [*called("Dense")]
    last = layers[-1] if layers else None
    if not isinstance(last, ast.Call) or not is_call(last, "Dense"):
        return None
    given, units = facts.argument(last, "activation", 1), facts.number(last, "units", 0)
    activation = facts.values.text(given)
    if given is not None and activation is None and not is_none(given):
        return None
    return units, None if activation == "linear" else activation


def _keras_layers(facts: Facts, compiled: ast.Call) -> list[ast.expr] | None:
    """The layers of `model = Sequential([...])` that is compiled; None where it is not made so."""
    model = receiver(compiled)
    sources = facts.values.sources(model) if isinstance(model, ast.Name) else []
    if not isinstance(model, ast.Name) or len(sources) != 1 or not is_call(sources[0], "Sequential"):
        return None
    if any(receiver_name(call) == model.id for call in facts.script.called("add")):
        return None
    given = sources[0].args[:1]
    return list(given[0].elts) if given and isinstance(given[0], ast.List | ast.Tuple) else None


def _boosting(facts: Facts) -> Iterator[Finding]:
    for call in facts.script.calls:
        trains = TRAINS_TREES.match(facts.script.qualified(call.func))
        if not trains and not BOOSTED.match(last_name(call.func)):
            continue
        params = facts.given(call, 0 if trains else None)
        named = next((params[k] for k in ("objective", "loss_function", "application") if k in params), None)
        objective = facts.values.text(named) if named is not None else last_name(call.func)
        metric = facts.values.one(params.get("metric") or params.get("eval_metric"))
        metrics = metric if isinstance(metric, list) else [metric] if isinstance(metric, str) else []
        wrong = _wrong_objective(facts, objective, [str(m) for m in metrics]) if objective else None
        if wrong is not None:
            yield finding("wrong-loss", named or call, wrong[0], **wrong[1])


def _wrong_objective(facts: Facts, objective: str, metrics: list[str]) -> Why | None:
    """Why an objective (or a class that implies one) does not go with the metric or the task."""
    judged, task = metric_of(facts), facts.context.task
    family, name = (judged.family, judged.name) if judged is not None else ("", "")
    if _OBJECTIVES["values"].match(objective):
        if any(_CLASS_METRICS.match(m) for m in metrics):
            return "trees-metric-of-classes", {"objective": objective, "metric": metrics[0]}
        if family in _FOR_CLASSES:
            return "trees-of-values", {"name": name, "objective": objective}
        if name == "RMSLE" and not re.search(r"log1p|\blog\(|squaredlog|rmsle", facts.script.text):
            return RMSLE
        if task == "tabular-classification" and family not in ("kappa", "correlation"):
            return "trees-classification", {"objective": objective}
    elif _OBJECTIVES["classes"].match(objective):
        many = next((m for m in metrics if _OF_MANY_CLASSES.match(m)), None)
        two = next((m for m in metrics if m in ("binary_logloss", "binary_error")), None)
        if many is not None and _OF_TWO_CLASSES.match(objective):
            return "trees-of-two", {"objective": objective, "many": many}
        if two is not None and objective.lower().startswith("multi"):
            return "trees-of-many", {"objective": objective, "two": two}
        if any(_VALUE_METRICS.match(m) for m in metrics):
            return "trees-metric-of-values", {"objective": objective, "metric": metrics[0]}
        if family in VALUE_FAMILIES:
            return "trees-of-classes", {"name": name, "objective": objective}
        if task == "tabular-regression":
            return "trees-regression", {"objective": objective}
    return None


def _transformers(facts: Facts) -> Iterator[Finding]:
    """num_labels=1 means regression by squared error to transformers."""
    script, text, task = facts.script, facts.script.text, facts.context.task
    named = (*script.calls_by_name, *script.imports, *(s for s in script.strings if len(s) <= LONGEST_METRIC))
    by_class = any(map(_BY_CLASS.search, named)) or task == "text-classification"
    for call in facts.script.called("from_pretrained") if by_class else ():
        classifies = "ForSequenceClassification" in ast.dump(call.func) + facts.script.qualified(call.func)
        known = facts.argument(call, "problem_type") is not None or _JUDGED_AS_VALUES.search(text)
        if classifies and facts.number(call, "num_labels") == 1 and not known:
            yield finding("wrong-loss", call, "one-label")
