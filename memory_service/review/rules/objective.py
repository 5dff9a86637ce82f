"""Does the loss of Keras, boosted trees and transformers match the output and the metric?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.common.metrics import metric_named
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.rules.loss import VALUE_FAMILIES
from memory_service.review.script import last_name

__all__ = ["objective_rules"]

_REGRESSION_OBJECTIVES = re.compile(
    r"^(regression(_l[12])?|l[12]|mse|mae|rmse|huber|fair|poisson|quantile|reg:(squarederror|linear|"
    r"absoluteerror|squaredlogerror|pseudohubererror)|RMSE|MAE|MAPE|Poisson)$"
)


_CLASS_OBJECTIVES = re.compile(
    r"^(binary|multiclass|multiclassova|softmax|cross_entropy|binary:logistic|multi:soft(max|prob)|"
    r"Logloss|MultiClass|MultiClassOneVsAll|CrossEntropy)$"
)


_CLASS_METRICS = re.compile(
    r"^(auc|binary_logloss|binary_error|multi_logloss|multi_error|logloss|mlogloss|error|merror|aucpr|"
    r"AUC|Accuracy|Logloss|F1|MultiClass|average_precision)$"
)


_VALUE_METRICS = re.compile(r"^(rmse|mse|mae|l1|l2|mape|rmsle|RMSE|MAE|MAPE|R2|MSLE|huber|quantile)$")


_OF_TWO_CLASSES = re.compile(r"^(binary(:logistic)?|Logloss)$")
_OF_MANY_CLASSES = re.compile(r"^(merror|mlogloss|multi_logloss|multi_error|MultiClass|TotalF1)$")


def objective_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-loss of frameworks that name their loss."""
    if facts.script.uses("keras", "tensorflow", "tf_keras"):
        yield from _keras(facts)
    yield from _boosting(facts)
    yield from _transformers(facts)


def _keras(facts: Facts) -> Iterator[Finding]:
    values = facts.values
    for call in facts.script.called("compile"):
        loss = values.argument(call, "loss", 1)
        if loss is None:
            continue
        name, logits, place = _keras_loss(facts, loss)
        if name is None:
            continue
        units, activation, known = _keras_output(facts, call)
        if not known:
            continue
        metrics = " ".join(_keras_metrics(facts, values.argument(call, "metrics"))).lower()
        wrong: tuple[str, str] | None = None
        if logits and activation in ("softmax", "sigmoid"):
            wrong = (
                f"from_logits=True, but the last layer applies {activation} already.",
                "no activation in the last layer, or from_logits=False",
            )
        elif (
            not logits
            and activation is None
            and name in ("categorical_crossentropy", "sparse_categorical_crossentropy", "binary_crossentropy")
        ):
            wrong = f"{name} takes probabilities, and the last layer has no activation.", "from_logits=True"
        elif activation == "softmax" and units == 1:
            wrong = (
                "Softmax over one unit is always 1.",
                'Dense(1, activation="sigmoid"), loss="binary_crossentropy"',
            )
        elif name == "binary_crossentropy" and activation == "softmax" and units is not None and units > 1:
            wrong = (
                f"binary_crossentropy over {units:g} classes that exclude each other.",
                'loss="sparse_categorical_crossentropy"',
            )
        elif (
            name in ("categorical_crossentropy", "sparse_categorical_crossentropy")
            and activation == "sigmoid"
        ):
            wrong = (
                f"{name} wants classes that exclude each other; sigmoid does not.",
                'activation="softmax", or loss="binary_crossentropy"',
            )
        elif name in ("mse", "mean_squared_error", "mae", "mean_absolute_error") and (
            activation == "softmax"
            or "accuracy" in metrics
            or "auc" in metrics
            or (activation == "sigmoid" and units == 1 and _judges_classes(facts))
        ):
            wrong = (
                f"{name} for classes.",
                'loss="sparse_categorical_crossentropy"  # one unit and sigmoid: "binary_crossentropy"',
            )
        elif (name, _keras_labels(facts)) in _MISMATCHED:
            wrong = (
                f"{name} does not take labels that come as {_keras_labels(facts)}.",
                f'loss="{"" if name.startswith("sparse") else "sparse_"}categorical_crossentropy"',
            )
        elif name in ("categorical_crossentropy", "sparse_categorical_crossentropy") and units == 1:
            wrong = f"{name} over one unit.", 'loss="binary_crossentropy" with sigmoid'
        if wrong is not None:
            yield finding("wrong-loss", place, *wrong)


def _keras_metrics(facts: Facts, given: ast.AST | None) -> list[str]:
    """Names of metrics: texts, and classes that are called in the list."""
    said = facts.values.one(given)
    named = [str(one) for one in said] if isinstance(said, list) else []
    called = [last_name(n.func) for n in ast.walk(given) if isinstance(n, ast.Call)] if given else []
    return [*named, *called]


def _judges_classes(facts: Facts) -> bool:
    metric = metric_named(facts.asked.metric) if facts.asked.metric else None
    return metric is not None and metric.family in ("auc", "log-loss", "accuracy", "mcc")


_MISMATCHED = (
    ("categorical_crossentropy", "numbers"),
    ("sparse_categorical_crossentropy", "one-hot vectors"),
)


def _keras_labels(facts: Facts) -> str:
    """How labels come: "numbers", "one-hot vectors", or "" where it cannot be told."""
    values, script = facts.values, facts.script
    found = {"one-hot vectors" for _ in script.called("to_categorical", "one_hot", "CategoryEncoding")}
    for call in script.called("image_dataset_from_directory", "text_dataset_from_directory"):
        given = values.argument(call, "label_mode", 2)
        found.add("int" if given is None else values.text(given) or "")
    for call in script.called("flow_from_directory", "flow_from_dataframe"):
        given = values.argument(call, "class_mode")
        found.add("categorical" if given is None else values.text(given) or "")
    said = {"int": "numbers", "sparse": "numbers", "categorical": "one-hot vectors"}
    forms = {said.get(form, form) for form in found}
    return forms.pop() if len(forms) == 1 else ""


def _keras_loss(facts: Facts, node: ast.AST) -> tuple[str | None, bool, ast.AST]:
    """(name in snake case, from_logits, where)."""
    if isinstance(node, ast.Name):
        sources = facts.values.assigned(node.id, node)
        if sources and isinstance(sources[0], ast.Call):
            return _keras_loss(facts, sources[0])
    text = facts.values.text(node)
    if text is not None:
        return text, False, node
    if isinstance(node, ast.Call):
        snake = (
            re.sub(r"(?<!^)(?=[A-Z])", "_", last_name(node.func))
            .lower()
            .replace("crossentropy", "crossentropy")
        )
        known = {
            "sparse_categorical_crossentropy",
            "categorical_crossentropy",
            "binary_crossentropy",
            "mean_squared_error",
            "mean_absolute_error",
        }
        if snake in known:
            return snake, facts.values.one(facts.values.argument(node, "from_logits")) is True, node
    return None, False, node


def _keras_output(facts: Facts, compiled: ast.Call) -> tuple[float | None, str | None, bool]:
    """(units, activation, whether it could be told) of the last Dense layer of the model compiled."""
    values = facts.values
    denses = list(facts.script.called("Dense"))
    followers = list(facts.script.called("Activation", "Softmax", "Reshape"))
    listed = _layers_of(facts, compiled)
    if listed is not None:
        last_layer = listed[-1] if listed else None
        if not isinstance(last_layer, ast.Call) or last_name(last_layer.func) != "Dense":
            return None, None, False
        denses, followers = [last_layer], []
    elif len(facts.script.called("compile")) > 1 and not facts.script.function(compiled):
        return None, None, False
    if not denses or followers:
        return None, None, False
    last = denses[-1]
    given = values.argument(last, "activation", 1)
    if given is None:
        return values.number(values.argument(last, "units", 0)), None, True
    activation = values.text(given)
    if activation is None and not (isinstance(given, ast.Constant) and given.value is None):
        return None, None, False
    return (
        values.number(values.argument(last, "units", 0)),
        None if activation in (None, "linear") else activation,
        True,
    )


def _layers_of(facts: Facts, compiled: ast.Call) -> list[ast.expr] | None:
    """The layers of `model = Sequential([...])` that is compiled; None where it is not made so."""
    model = compiled.func.value if isinstance(compiled.func, ast.Attribute) else None
    if not isinstance(model, ast.Name):
        return None
    sources = facts.values.assigned(model.id, model)
    if (
        len(sources) != 1
        or not isinstance(sources[0], ast.Call)
        or last_name(sources[0].func) != "Sequential"
    ):
        return None
    added = [c for c in facts.script.called("add") if isinstance(c.func, ast.Attribute)]
    given = sources[0].args[0] if sources[0].args else None
    if any(last_name(c.func.value) == model.id for c in added if isinstance(c.func, ast.Attribute)):
        return None
    return list(given.elts) if isinstance(given, ast.List | ast.Tuple) else None


def _boosting(facts: Facts) -> Iterator[Finding]:
    if not facts.script.uses("lightgbm", "xgboost", "catboost"):
        return
    for call in facts.script.calls:
        held = _boosted_by(facts, call)
        if held is None:
            continue
        named = next((k for k in ("objective", "loss_function", "application") if k in held), None)
        place = held[named] if named else call
        said = facts.values.text(held[named]) if named else last_name(call.func)
        metric = facts.values.one(held.get("metric") or held.get("eval_metric"))
        metrics = metric if isinstance(metric, list) else [metric] if isinstance(metric, str) else []
        if said is not None:
            wrong = _wrong_objective(facts, said, [str(m) for m in metrics])
            if wrong is not None:
                yield finding("wrong-loss", place, *wrong)


def _boosted_by(facts: Facts, call: ast.Call) -> dict[str, ast.AST] | None:
    """The parameters of a call that makes or trains boosted trees; None for any other call."""
    values, name = facts.values, last_name(call.func)
    if facts.script.qualified(call.func) in ("lightgbm.train", "xgboost.train", "lightgbm.cv", "xgboost.cv"):
        params = values.argument(call, "params", 0)
        return (values.mapping(params) or None) if params is not None else None
    if not re.match(r"^(LGBM|XGB|CatBoost)\w*$", name):
        return None
    held: dict[str, ast.AST] = {k.arg: k.value for k in call.keywords if k.arg}
    for keyword in call.keywords:
        if keyword.arg is None:
            held |= values.mapping(keyword.value) or {}
    return held


def _wrong_objective(facts: Facts, said: str, metrics: list[str]) -> tuple[str, str] | None:
    """Why an objective (or a class that implies one) does not go with the metric or the task."""
    asked = metric_named(facts.asked.metric) if facts.asked.metric else None
    family, task = asked.family if asked else "", facts.asked.task
    if _REGRESSION_OBJECTIVES.match(said) or said.endswith("Regressor"):
        fix = '"objective": "binary"  # or multiclass'
        if any(_CLASS_METRICS.match(m) for m in metrics):
            return f"{said} fits values, judged by {metrics[0]}, which is of classes.", fix
        if asked is not None and family in ("auc", "log-loss", "accuracy", "mcc"):
            return f"{asked.name} judges classes; {said} fits values.", fix
        if asked is not None and asked.name == "RMSLE" and not _logarithms(facts):
            return (
                "RMSLE judges logarithms; squared error of plain values follows the largest ones.",
                "y = np.log1p(y)  # and np.expm1 of predictions",
            )
        if task == "tabular-classification" and family not in ("kappa", "correlation"):
            return f"The task is a classification; {said} fits values.", fix
    elif _CLASS_OBJECTIVES.match(said) or said.endswith("Classifier"):
        many = next((m for m in metrics if _OF_MANY_CLASSES.match(m)), None)
        if many is not None and _OF_TWO_CLASSES.match(said):
            return (
                f"{said} fits two classes, judged by {many}, which is of many.",
                '"multi:softprob"  # or multiclass',
            )
        two = next((m for m in metrics if m in ("binary_logloss", "binary_error")), None)
        if two is not None and _CLASS_OBJECTIVES.match(said) and said.lower().startswith("multi"):
            return f"{said} fits many classes, judged by {two}, which is of two.", 'metric="multi_logloss"'
        fix = '"objective": "regression"'
        if any(_VALUE_METRICS.match(m) for m in metrics):
            return f"{said} fits classes, judged by {metrics[0]}, which is of values.", fix
        if asked is not None and family in VALUE_FAMILIES:
            return f"{asked.name} judges values; {said} fits classes.", fix
        if task == "tabular-regression":
            return f"The task is a regression; {said} fits classes.", fix
    return None


def _logarithms(facts: Facts) -> bool:
    return bool(re.search(r"log1p|\blog\(|squaredlog|rmsle", facts.script.text))


def _transformers(facts: Facts) -> Iterator[Finding]:
    """num_labels=1 means regression by squared error to transformers."""
    script, values = facts.script, facts.values
    for call in script.called("from_pretrained"):
        if "ForSequenceClassification" not in script.qualified(
            call.func
        ) and "ForSequenceClassification" not in ast.dump(call.func):
            continue
        if (
            values.number(values.argument(call, "num_labels")) != 1
            or values.argument(call, "problem_type") is not None
        ):
            continue
        text = script.text
        if re.search(
            r"bcewithlogits|binary_cross_entropy_with_logits|mean_squared|rmse|mse|pearson|spearman|"
            r"regression|mae\b|kappa",
            text,
        ):
            continue
        if re.search(r"accuracy|roc_auc|f1_score|log_loss", text) or (
            facts.asked.task == "text-classification"
        ):
            yield finding(
                "wrong-loss",
                call,
                "num_labels=1 means regression by squared error; predictions are judged as classes.",
                "num_labels=2",
            )
