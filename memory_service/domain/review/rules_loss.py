"""Does the loss match what the model puts out, and what predictions are judged by?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.metrics import metric_named
from memory_service.domain.review.facts import Facts
from memory_service.domain.review.findings import Finding, finding
from memory_service.domain.review.script import last_name

__all__ = ["loss_rules"]

_LOSSES = {
    "CrossEntropyLoss": "ce",
    "cross_entropy": "ce",
    "BCEWithLogitsLoss": "bce-logits",
    "binary_cross_entropy_with_logits": "bce-logits",
    "BCELoss": "bce",
    "binary_cross_entropy": "bce",
    "NLLLoss": "nll",
    "nll_loss": "nll",
    "MSELoss": "mse",
    "mse_loss": "mse",
    "L1Loss": "l1",
    "l1_loss": "l1",
    "SmoothL1Loss": "mse",
    "HuberLoss": "mse",
    "LabelSmoothingCrossEntropy": "ce",
}
_ACTIVATIONS = {
    "softmax": "softmax",
    "Softmax": "softmax",
    "sigmoid": "sigmoid",
    "Sigmoid": "sigmoid",
    "log_softmax": "log_softmax",
    "LogSoftmax": "log_softmax",
    "sigmoid_": "sigmoid",
    "softmax2d": "softmax",
    "logsigmoid": "log_sigmoid",
}
_SHAPES = frozenset(
    (
        "squeeze",
        "view",
        "reshape",
        "flatten",
        "float",
        "unsqueeze",
        "contiguous",
        "to",
        "permute",
        "transpose",
        "mean",
        "cpu",
        "type_as",
        "double",
    )
)
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
_CLASS_FAMILIES = frozenset(("auc", "log-loss", "accuracy", "f-score", "mcc"))
_VALUE_FAMILIES = frozenset(("error-regression",))


def loss_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-loss."""
    if facts.script.uses("torch", "lightning", "pytorch_lightning"):
        yield from _torch(facts)
    if facts.script.uses("keras", "tensorflow", "tf_keras"):
        yield from _keras(facts)
    yield from _boosting(facts)
    yield from _transformers(facts)


def _torch(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    made: set[ast.AST] = set()
    for call in script.calls:
        kind, maker = _loss_of(facts, call)
        if kind is None or not call.args:
            continue
        place = maker or call
        if place in made:
            continue
        activation = _activation(facts, call.args[0])
        wrong = _mismatch(kind, activation)
        if wrong is None and kind == "ce" and _one_output(facts, call.args[0]):
            wrong = (
                "The model has one output: cross entropy over one class is always zero.",
                "nn.BCEWithLogitsLoss()  # or num_classes=2",
            )
        if wrong is None and kind == "ce" and _predicts_by_sigmoid(facts):
            wrong = (
                (
                    "Predictions are taken by sigmoid, label by label, while cross entropy trains one class "
                    "against the others."
                ),
                "nn.BCEWithLogitsLoss()  # targets as floats",
            )
        if wrong is None:
            wrong = _against_metric(facts, kind)
        if wrong is not None:
            made.add(place)
            yield finding("wrong-loss", place, *wrong)
    yield from _segmentation(facts)


def _loss_of(facts: Facts, call: ast.Call) -> tuple[str | None, ast.Call | None]:
    """(kind of loss that a call computes, the call that made the loss object)."""
    name = last_name(call.func)
    if name in _LOSSES and name[0].islower():
        return (
            (_LOSSES[name], None)
            if facts.script.qualified(call.func).startswith(("torch.", "F."))
            else (None, None)
        )
    sources: list[ast.AST] = []
    if isinstance(call.func, ast.Call):
        sources = [call.func]
    elif isinstance(call.func, ast.Name):
        sources = facts.values.assigned(call.func.id, call)
        function = facts.script.function(call)
        if not sources and function is not None and call.func.id in {a.arg for a in function.args.args}:
            position = [a.arg for a in function.args.args].index(call.func.id)
            for outer in facts.script.calls_by_name.get(function.name, ()):
                given = facts.values.argument(outer, call.func.id, position)
                if isinstance(given, ast.Name):
                    sources += facts.values.assigned(given.id, given)
                elif given is not None:
                    sources.append(given)
    elif isinstance(call.func, ast.Attribute):
        sources = facts.values.sources(call.func)
    for source in sources:
        while (
            isinstance(source, ast.Call)
            and last_name(source.func) in ("to", "cuda")
            and isinstance(source.func, ast.Attribute)
        ):
            source = source.func.value  # noqa: PLW2901
        if isinstance(source, ast.Call) and last_name(source.func) in _LOSSES:
            return _LOSSES[last_name(source.func)], source
    return None, None


def _mismatch(kind: str, activation: str | None) -> tuple[str, str] | None:
    if kind == "ce" and activation in ("softmax", "sigmoid"):
        return (
            (
                f"Cross entropy takes logits; here it gets what {activation} has squashed, and learns slowly "
                "and badly."
            ),
            f"return logits; {activation} only at prediction",
        )
    if kind == "bce-logits" and activation in ("sigmoid", "softmax"):
        return (
            f"BCEWithLogitsLoss applies sigmoid itself; the output went through {activation} already.",
            "return logits; sigmoid only at prediction",
        )
    if kind == "bce" and activation in ("none", "log_softmax"):
        return (
            "BCELoss takes probabilities; here it gets logits, and fails or saturates.",
            "nn.BCEWithLogitsLoss()",
        )
    if kind == "nll" and activation in ("none", "softmax", "sigmoid"):
        return "NLLLoss takes log probabilities, which nothing here makes.", "nn.CrossEntropyLoss()"
    return None


def _activation(facts: Facts, node: ast.AST, deep: int = 0) -> str | None:
    """What an output went through last; "none" for a plain layer, None where it cannot be told."""
    if deep > 8:
        return None
    if isinstance(node, ast.Subscript):
        return _activation(facts, node.value, deep + 1)
    if isinstance(node, ast.Attribute):
        if node.attr == "logits":
            return "none"
        return None
    if isinstance(node, ast.Name):
        source = _last_assigned(facts, node)
        return _activation(facts, source, deep + 1) if source is not None else None
    if not isinstance(node, ast.Call):
        return None
    name = last_name(node.func)
    if name in _ACTIVATIONS and not (
        isinstance(node.func, ast.Attribute) and last_name(node.func.value) == "self"
    ):
        return _ACTIVATIONS[name]
    if name in _SHAPES and isinstance(node.func, ast.Attribute):
        return _activation(facts, node.func.value, deep + 1)
    if name in ("Linear", "Conv2d", "Conv1d"):
        return "none"
    return _of_module(facts, node, deep)


def _of_module(facts: Facts, call: ast.Call, deep: int) -> str | None:
    """What the module behind a call puts out."""
    script = facts.script
    name = last_name(call.func)
    owner: ast.ClassDef | None = None
    around = script.class_of(call)
    sources: list[ast.AST] = []
    if (isinstance(call.func, ast.Name) and name == "self" and around is not None) or (
        name == "forward"
        and isinstance(call.func, ast.Attribute)
        and last_name(call.func.value) == "self"
        and around is not None
    ):
        owner = around
    elif isinstance(call.func, ast.Name):
        sources = facts.values.assigned(name, call) or _handed(facts, call)
    elif isinstance(call.func, ast.Attribute) and last_name(call.func.value) == "self":
        sources = facts.values.sources(call.func)
    for source in sources:
        made = facts.training.made_by(source)
        if made in script.classes:
            owner = script.classes[made]
            break
        while isinstance(source, ast.Call) and last_name(source.func) in (
            "to",
            "cuda",
            "compile",
            "DataParallel",
        ):
            inner = (
                source.func.value
                if isinstance(source.func, ast.Attribute) and last_name(source.func) in ("to", "cuda")
                else next(iter(source.args), None)
            )
            if inner is None:
                break
            source = inner  # noqa: PLW2901
        if isinstance(source, ast.Call):
            found = _of_constructor(facts, source, deep)
            if found is not None:
                return found
    if (
        owner is None
        and len(candidates := _modules(facts)) == 1
        and re.search(r"model|net", name, re.IGNORECASE)
        and not sources
    ):
        owner = candidates[0]
    if owner is None:
        return None
    return _returned(facts, owner, deep)


def _handed(facts: Facts, call: ast.Call) -> list[ast.AST]:
    """What callers hand over for a parameter of that name."""
    function = facts.script.function(call)
    name = last_name(call.func)
    if function is None or name not in {a.arg for a in function.args.args}:
        return []
    position = [a.arg for a in function.args.args].index(name)
    out: list[ast.AST] = []
    for outer in facts.script.calls_by_name.get(function.name, ()):
        given = facts.values.argument(outer, name, position)
        if isinstance(given, ast.Name):
            out += facts.values.assigned(given.id, given)
    return out


def _modules(facts: Facts) -> list[ast.ClassDef]:
    return [
        c
        for c in facts.script.classes.values()
        if any(last_name(b) in ("Module", "LightningModule") for b in c.bases)
    ]


def _of_constructor(facts: Facts, call: ast.Call, deep: int) -> str | None:
    name = last_name(call.func)
    if name in _ACTIVATIONS:
        return _ACTIVATIONS[name]
    if name == "Sequential" and call.args and not isinstance(call.args[-1], ast.Starred):
        last = call.args[-1]
        if isinstance(last, ast.Call):
            if (
                last_name(last.func) in ("Flatten", "Squeeze", "Unflatten")
                and len(call.args) > 1
                and isinstance(call.args[-2], ast.Call)
            ):
                last = call.args[-2]
            return _of_constructor(facts, last, deep + 1) if deep < 8 else None
        return None
    if name in ("Linear", "Conv2d", "LazyLinear"):
        return "none"
    if name == "create_model":
        return "none"
    activation = facts.values.argument(call, "activation")
    if facts.script.qualified(call.func).startswith(
        "segmentation_models_pytorch."
    ) and "." not in facts.script.qualified(call.func).removeprefix("segmentation_models_pytorch."):
        said = facts.values.one(activation)
        return (
            "none"
            if activation is None or (said is None and isinstance(activation, ast.Constant))
            else {"sigmoid": "sigmoid", "softmax": "softmax", "softmax2d": "softmax"}.get(str(said))
        )
    return None


def _returned(facts: Facts, owner: ast.ClassDef, deep: int) -> str | None:
    forward = next((n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
    if forward is None:
        return None
    found = set()
    for node in ast.walk(forward):
        if isinstance(node, ast.Return) and node.value is not None and facts.script.function(node) is forward:
            if any(isinstance(up, ast.If) for up in facts.script.above(node)):
                continue
            found.add(_activation(facts, node.value, deep + 1))
    return found.pop() if len(found) == 1 else None


def _last_assigned(facts: Facts, node: ast.Name) -> ast.AST | None:
    """What a name was set to last before a place of its function."""
    function = facts.script.function(node)
    best: ast.AST | None = None
    order = facts.script.order
    for assigned in facts.script.all(ast.Assign):
        if facts.script.function(assigned) is not function or order[assigned] > order[node]:
            continue
        if any(isinstance(t, ast.Name) and t.id == node.id for t in assigned.targets):
            inside = node in set(ast.walk(assigned))
            if not inside:
                best = assigned.value
    return best


def _one_output(facts: Facts, node: ast.AST) -> bool:
    """The model behind an output has one: num_classes=1, or a last Linear(..., 1)."""
    source = _last_assigned(facts, node) if isinstance(node, ast.Name) else node
    while (
        isinstance(source, ast.Call)
        and isinstance(source.func, ast.Attribute)
        and last_name(source.func) in _SHAPES
    ):
        source = source.func.value
    if not isinstance(source, ast.Call):
        return False
    for made in (
        facts.values.assigned(last_name(source.func), source) if isinstance(source.func, ast.Name) else ()
    ):
        while (
            isinstance(made, ast.Call)
            and last_name(made.func) in ("to", "cuda")
            and isinstance(made.func, ast.Attribute)
        ):
            made = made.func.value  # noqa: PLW2901
        if (
            isinstance(made, ast.Call)
            and facts.values.number(facts.values.argument(made, "num_classes")) == 1
        ):
            return True
    return False


def _predicts_by_sigmoid(facts: Facts) -> bool:
    """The model's outputs go through sigmoid at prediction, and never through softmax or argmax."""
    script = facts.script
    text = script.text
    if re.search(r"softmax|argmax|\.topk|\.max\(\s*(dim=)?(1|-1)|bcewithlogits|binary_cross_entropy", text):
        return False
    for call in script.called("sigmoid"):
        inner = (
            call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        )
        while (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and last_name(inner.func) in _SHAPES
        ):
            inner = inner.func.value
        source = _last_assigned(facts, inner) if isinstance(inner, ast.Name) else inner
        if isinstance(source, ast.Call) and re.search(r"model|net", last_name(source.func), re.IGNORECASE):
            return True
    return False


def _against_metric(facts: Facts, kind: str) -> tuple[str, str] | None:
    """The loss of values for a metric of classes, and the other way round."""
    metric = metric_named(facts.asked.metric) if facts.asked.metric else None
    if metric is not None and kind in ("mse", "l1") and metric.family in _CLASS_FAMILIES:
        return (
            f"{metric.name} judges classes; this loss fits values.",
            "nn.CrossEntropyLoss()  # or nn.BCEWithLogitsLoss()",
        )
    if metric is not None and kind in ("ce", "nll") and metric.family in _VALUE_FAMILIES:
        return f"{metric.name} judges values; this loss fits classes.", "nn.MSELoss()"
    if (
        metric is not None
        and metric.name == "RMSLE"
        and kind == "mse"
        and not re.search(r"log1p|\blog\(", facts.script.text)
    ):
        return (
            "RMSLE judges logarithms; squared error of plain values follows the largest ones.",
            "y = np.log1p(y)  # and np.expm1 of predictions",
        )
    if (
        facts.asked.task in ("image-regression", "tabular-regression", "text-regression")
        and kind
        in (
            "ce",
            "nll",
        )
        and (metric is None or metric.family != "kappa")
    ):
        return "The task is a regression; this loss fits classes.", "nn.MSELoss()"
    if (
        facts.asked.task
        in (
            "image-classification",
            "text-classification",
            "tabular-classification",
            "audio-classification",
        )
        and kind in ("mse", "l1")
        and (metric is None or metric.family not in ("kappa", "correlation"))
    ):
        return "The task is a classification; this loss fits values.", "nn.CrossEntropyLoss()"
    return None


def _segmentation(facts: Facts) -> Iterator[Finding]:
    """smp's losses: the mode against the classes, logits against an activation."""
    script, values = facts.script, facts.values
    if not script.uses("segmentation_models_pytorch"):
        return
    models = [
        c
        for c in script.calls
        if script.qualified(c.func).startswith("segmentation_models_pytorch.")
        and any(k.arg in ("classes", "encoder_name", "encoder_weights") for k in c.keywords)
    ]
    classes = {values.number(values.argument(c, "classes")) for c in models}
    activated = [c for c in models if isinstance(values.one(values.argument(c, "activation")), str)]
    for call in script.called("DiceLoss", "JaccardLoss", "FocalLoss", "TverskyLoss", "LovaszLoss"):
        mode = values.text(values.argument(call, "mode", 0))
        count = next(iter(classes)) if len(classes) == 1 else None
        if mode == "multiclass" and count == 1:
            yield finding("wrong-loss", call, "A multiclass loss over one class.", 'mode="binary"')
        if mode == "binary" and count is not None and count > 1:
            yield finding(
                "wrong-loss",
                call,
                f"A binary loss over {count:g} classes.",
                'mode="multiclass"  # or "multilabel"',
            )
        if (
            activated
            and last_name(call.func) != "FocalLoss"
            and values.one(values.argument(call, "from_logits")) is not False
            and values.argument(call, "from_logits") is None
        ):
            yield finding(
                "wrong-loss",
                call,
                f"{last_name(call.func)} takes logits; the model has an activation already.",
                "no activation in the model, or from_logits=False",
            )


def _keras(facts: Facts) -> Iterator[Finding]:
    values = facts.values
    for call in facts.script.called("compile"):
        loss = values.argument(call, "loss", 1)
        if loss is None:
            continue
        name, logits, place = _keras_loss(facts, loss)
        if name is None:
            continue
        units, activation, known = _keras_output(facts)
        if not known:
            continue
        metrics = " ".join(str(v) for v in (values.one(values.argument(call, "metrics")) or []))
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
            activation == "softmax" or ("accuracy" in metrics or "auc" in metrics.lower())
        ):
            wrong = (
                f"{name} for classes.",
                'loss="sparse_categorical_crossentropy"  # one unit and sigmoid: "binary_crossentropy"',
            )
        elif name in ("categorical_crossentropy", "sparse_categorical_crossentropy") and units == 1:
            wrong = f"{name} over one unit.", 'loss="binary_crossentropy" with sigmoid'
        if wrong is not None:
            yield finding("wrong-loss", place, *wrong)


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


def _keras_output(facts: Facts) -> tuple[float | None, str | None, bool]:
    """(units, activation, whether it could be told) of the last Dense layer."""
    values = facts.values
    denses = list(facts.script.called("Dense"))
    followers = list(facts.script.called("Activation", "Softmax", "Reshape"))
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


def _boosting(facts: Facts) -> Iterator[Finding]:
    values, script = facts.values, facts.script
    if not script.uses("lightgbm", "xgboost", "catboost"):
        return
    asked = metric_named(facts.asked.metric) if facts.asked.metric else None
    for call in script.calls:
        name, qualified = last_name(call.func), script.qualified(call.func)
        if qualified in ("lightgbm.train", "xgboost.train", "lightgbm.cv", "xgboost.cv"):
            params = values.argument(call, "params", 0)
            held = values.mapping(params) if params is not None else None
        elif re.match(r"^(LGBM|XGB|CatBoost)\w*(Classifier|Regressor)?$", name):
            held = {k.arg: k.value for k in call.keywords if k.arg}
            for keyword in call.keywords:
                if keyword.arg is None:
                    held |= values.mapping(keyword.value) or {}
        else:
            continue
        if not held and not name.endswith(("Regressor", "Classifier")):
            continue
        held = held or {}
        place_of = next((k for k in ("objective", "loss_function", "application") if k in held), None)
        objective = values.text(held[place_of]) if place_of else None
        place: ast.AST = held[place_of] if place_of else call
        metric = values.one(held.get("metric") or held.get("eval_metric"))
        metrics = metric if isinstance(metric, list) else [metric] if isinstance(metric, str) else []
        regression = bool(objective and _REGRESSION_OBJECTIVES.match(objective)) or (
            objective is None and place_of is None and name.endswith("Regressor")
        )
        classes = bool(objective and _CLASS_OBJECTIVES.match(objective)) or (
            objective is None and place_of is None and name.endswith("Classifier")
        )
        if regression and any(_CLASS_METRICS.match(str(m)) for m in metrics):
            yield finding(
                "wrong-loss",
                place,
                f"Objective {objective or name} fits values, judged by {metrics[0]}, which is of classes.",
                '"objective": "binary"  # or multiclass',
            )
        elif classes and any(_VALUE_METRICS.match(str(m)) for m in metrics):
            yield finding(
                "wrong-loss",
                place,
                f"Objective {objective or name} fits classes, judged by {metrics[0]}, which is of values.",
                '"objective": "regression"',
            )
        elif regression and asked is not None and asked.family in ("auc", "log-loss", "accuracy", "mcc"):
            yield finding(
                "wrong-loss",
                place,
                f"{asked.name} judges classes; {objective or name} fits values.",
                '"objective": "binary"  # or multiclass',
            )
        elif classes and asked is not None and asked.family in _VALUE_FAMILIES:
            yield finding(
                "wrong-loss",
                place,
                f"{asked.name} judges values; {objective or name} fits classes.",
                '"objective": "regression"',
            )
        elif (
            regression
            and asked is not None
            and asked.name == "RMSLE"
            and not re.search(r"log1p|\blog\(|squaredlog", script.text)
        ):
            yield finding(
                "wrong-loss",
                place,
                "RMSLE judges logarithms; squared error of plain values follows the largest ones.",
                "y = np.log1p(y)  # and np.expm1 of predictions",
            )
        elif (
            regression
            and facts.asked.task == "tabular-classification"
            and (asked is None or asked.family not in ("kappa", "correlation"))
        ):
            yield finding(
                "wrong-loss",
                place,
                f"The task is a classification; {objective or name} fits values.",
                '"objective": "binary"  # or multiclass',
            )
        elif classes and facts.asked.task == "tabular-regression":
            yield finding(
                "wrong-loss",
                place,
                f"The task is a regression; {objective or name} fits classes.",
                '"objective": "regression"',
            )


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
