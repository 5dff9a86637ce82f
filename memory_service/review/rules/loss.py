"""A loss against output, labels, metric and task; metrics of probabilities that get classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from memory_service.domain.description.metrics import Metric, metric_named
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.source.script import (
    Script,
    arguments_of,
    calls_in,
    is_call,
    is_none,
    is_of_self,
    last_name,
    name_of,
    names_in,
    receiver,
    receiver_name,
)
from memory_service.review.tables import words_of
from memory_service.review.training import BOOSTED, BOOSTERS, KERAS, TRAINS_TREES

_RE, _SET, _, _MAP = words_of("loss")
Why = tuple[str, dict[str, Any]]  # case of wrong-loss, and values in its message
_LOSSES = {name: kind for kind, names in _MAP.names_of.items() for name in names.split()}
CLASS_FAMILIES = frozenset(("auc", "log-loss", "accuracy", "f-score", "mcc"))
VALUE_FAMILIES = frozenset(("error-regression",))


def metric_of(facts: Facts) -> Metric | None:
    return metric_named(facts.context.metric) if facts.context.metric else None


def loss_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-loss."""
    if not facts.script.uses("torch", "lightning", "pytorch_lightning"):
        return
    shown: set[ast.AST] = set()
    for call in (call for call in facts.script.calls if call.args):
        kind, maker = _loss_of(facts, call)
        why = _wrong(facts, call, kind) if kind is not None and (maker or call) not in shown else None
        if why is not None:
            shown.add(maker or call)
            yield finding("wrong-loss", maker or call, why[0], **why[1])


def _wrong(facts: Facts, call: ast.Call, kind: str) -> Why | None:
    """Why a loss does not fit what it gets or what predictions are judged by."""
    activation, (case, wrong) = activation_of(facts, call.args[0]), _MISMATCHES.get(kind, ("", ()))
    if activation in wrong:
        return case, {"activation": activation}
    if kind == "ce" and _has_one_output(facts, call.args[0]):
        return "one-output", {}
    if kind == "ce" and _predicts_labels(facts):
        return "labels-by-sigmoid", {}
    return against_metric(facts, kind)


def _loss_of(facts: Facts, call: ast.Call) -> tuple[str | None, ast.Call | None]:
    """(kind of loss that a call computes, the call that made the loss object)."""
    name, called = last_name(call.func), call.func
    if name in _LOSSES and name[0].islower():
        of_torch = facts.script.qualified(called).startswith(("torch.", "F."))
        return (_LOSSES[name] if of_torch else None), None
    made = {last_name(maker.func): maker for maker in facts.values.makers(called)}
    kinds = {_LOSSES.get(name) for name in made}
    theirs = (one for name, one in made.items() if name in _LOSSES)
    theirs = (one for one in theirs if facts.script.is_of(one.func, "torch", "timm"))
    found = next(theirs, None) if len(kinds) == 1 else None  # else by a branch, as the output may be
    return (_LOSSES[last_name(found.func)], found) if found is not None else (None, None)


# kind of loss -> (case of wrong-loss, what its input went through)
_MISMATCHES = {
    "ce": ("cross-entropy", ("softmax", "sigmoid")), "bce-logits": ("bce-logits", ("softmax", "sigmoid")),
    "bce": ("bce", ("none", "log_softmax")), "nll": ("nll", ("none", "softmax", "sigmoid")),
}  # fmt: skip


def _has_one_output(facts: Facts, node: ast.AST) -> bool:
    """An output, as the network gives it, of one class: what is laid out anew may be several choices."""
    source = next(iter(facts.values.last(node)), None) if isinstance(node, ast.Name) else node
    made = facts.values.makers(source.func) if isinstance(source, ast.Call) else []
    last = [one.args[-1] if is_call(one, "Sequential") and one.args else one for one in made]
    units = [facts.number(one, "out_features", 1) if is_call(one, "Linear") else None for one in last]
    return 1 in units or any(facts.number(one, "num_classes") == 1 for one in made)


def _predicts_labels(facts: Facts) -> bool:
    """The model's outputs go through sigmoid at prediction, and never through softmax or argmax."""
    script = facts.script
    if _RE.of_labels.search(script.text):
        return False
    switched = {receiver_name(call) for call in script.called("eval", "train")}
    for call in script.called("sigmoid"):
        source: ast.AST | None = call.args[0] if call.args else receiver(call)
        for _ in range(4):  # what made the output, without changes of its shape
            while is_call(source, *_SET.shapes) and receiver(source) is not None:
                source = receiver(source)
            source = next(iter(facts.values.last(source)), None) if isinstance(source, ast.Name) else source
        name = last_name(source.func) if isinstance(source, ast.Call) else ""
        if name and (re.search(r"model|net", name, re.IGNORECASE) or name in switched):
            return True
    values = facts.values  # or the Trainer's are compared with a threshold and judged over several labels
    averages = {values.text(given) for given in script.given_as("average")}
    judged = script.called("f1_score", "average_precision_score", "roc_auc_score", "fbeta_score")
    tests = (test for test in script.all(ast.Compare) if isinstance(test.ops[0], ast.Gt | ast.GtE))
    tests = (test for test in tests if values.number(test.comparators[0]) is not None)
    read = (n.attr for test in tests for n in ast.walk(test.left) if isinstance(n, ast.Attribute))
    return bool(judged and averages & {"micro", "macro", "samples", "weighted"}) and "predictions" in read


def against_metric(facts: Facts, kind: str) -> Why | None:
    """A loss of values for a metric or task of classes, and the other way round."""
    metric, task = metric_of(facts), facts.context.task or ""
    family = metric.family if metric is not None else ""
    of_values, of_classes = kind in ("mse", "l1"), kind in ("ce", "nll")
    if metric is not None and of_values and family in CLASS_FAMILIES:
        return "metric-of-classes", {"metric": metric.name}
    if metric is not None and of_classes and family in VALUE_FAMILIES:
        return "metric-of-values", {"metric": metric.name}
    if of_classes and task in _SET.regressions and family != "kappa":
        return "regression", {}
    if of_values and task in _SET.classifications and family not in ("kappa", "correlation"):
        return "classification", {}
    return None


DEEPEST = 6
DEEPEST_ACTIVATION = 8
_SMP = "segmentation_models_pytorch."


def score_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-loss: AUC, log loss … of hard classes."""
    for call in facts.script.called(*_MAP.metrics):
        given = facts.argument(call, "y_score", 1) or facts.argument(call, "y_pred")
        if given is not None and (why := _hard(facts, given, 0)):
            metric = _MAP.metrics[last_name(call.func)]
            yield finding("wrong-loss", call, "probabilities", metric=metric, why=why)
    for node in facts.script.all(ast.Compare):
        against = facts.values.number(node.comparators[0])
        loops = (loop for loop in facts.script.loops(node) if isinstance(loop, ast.For) and against is None)
        numbers = (x.target for x in loops if is_call(x.iter, "arange", "linspace"))  # `for t in arange(...)`
        tried = any(last_name(node.comparators[0]) in names_in(target) for target in numbers)
        why = _hard(facts, node.left, 0) if tried or against not in (None, 0.5, *range(100)) else ""
        if "predict" in why:
            yield finding("wrong-loss", node, "threshold", why=why)


def _hard(facts: Facts, node: ast.AST, deep: int) -> str:
    """What makes these predictions hard classes; "" where nothing does for sure."""
    if deep > DEEPEST:
        return ""
    if isinstance(node, ast.Name):
        source = next(iter(facts.values.last(node)), None)
        found = _hard(facts, source, deep + 1) if source is not None else ""
        empty = source is None or is_call(source, *_SET.empty) or getattr(source, "elts", None) == []
        return found or (_filled(facts, node, deep) if empty else "")
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return _hard(facts, node.value, deep + 1)
    name, base = name_of(node), receiver(node)
    given = node.args if isinstance(node, ast.Call) else []
    where = name == "where" and len(given) == 3 and {facts.values.one(n) for n in given[1:]} <= {0, 1, -1}
    compared = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE)
    if where or compared:
        return "what a threshold made"
    if not isinstance(node, ast.Call) or name == "argmax":
        return "what argmax picked" if isinstance(node, ast.Call) else ""
    if name == "predict" and base is not None:
        made = _estimator(facts, base)
        return f"the classes of {made}.predict" if _RE.classifier.search(made) else ""
    inner = node.args[0] if name in _SET.converting and node.args else base
    passes = inner is not None and name in _SET.converting | _SET.keeping
    return _hard(facts, inner, deep + 1) if passes else ""  # type: ignore[arg-type]


def _estimator(facts: Facts, node: ast.AST) -> str:
    """The class that predicts: of a pipeline or a search the one within it."""
    if isinstance(node, ast.Name):
        looped = [_estimator(facts, one) for one in _looped(facts, node)[:20]]
        if looped:
            return looped[0] if all(_RE.classifier.search(one) for one in looped) else ""
    source = next(iter(facts.values.sources(node)), node)
    if is_call(source, "fit") and (fitted := receiver(source)) is not None:
        return _estimator(facts, fitted)
    if isinstance(source, ast.Call) and re.search(r"ipeline$|SearchCV$", last_name(source.func)):
        inner = [last_name(call.func) for call in calls_in(source)]
        given = arguments_of(source) if "Search" in last_name(source.func) else []
        inner += [_estimator(facts, one) for one in given]
        return next((name for name in inner if _RE.classifier.search(name)), "")
    return facts.values.made_by(node)


def _looped(facts: Facts, node: ast.Name) -> Sequence[ast.AST]:
    """The models that a loop goes through: `for name, model in {"a": LogisticRegression()}.items()`."""
    for loop in facts.script.loops(node):
        if not isinstance(loop, ast.For) or node.id not in names_in(loop.target):
            continue
        over: ast.AST | None = receiver(loop.iter) if is_call(loop.iter, "items", "values") else loop.iter
        over = next(iter(facts.values.sources(over)), over) if over is not None else over
        if isinstance(over, ast.Dict):
            return over.values
    return []


def _filled(facts: Facts, node: ast.Name, deep: int) -> str:
    """What an array or list is filled with: `oof[valid] = ...`, `preds.append(...)`, all of it hard."""
    script = facts.script
    items = [(t, a.value) for a in script.all(ast.Assign) for t in a.targets if isinstance(t, ast.Subscript)]
    filled = [value for t, value in items if last_name(t.value) == node.id]
    calls = script.called("append", "extend")
    filled += [c.args[0] for c in calls if receiver_name(c) == node.id and c.args]
    filled += [a.value for a in script.all(ast.AugAssign) if last_name(a.target) == node.id]
    beside = [value for value in filled if script.function(value) is script.function(node)]
    found = [_hard(facts, value, deep + 1) for value in beside]
    return found[0] if found and all(found) else ""


def objective_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-loss of frameworks that name their loss."""
    if facts.script.uses(*BOOSTERS):
        yield from _boosting(facts)
    if "transformers" in facts.training.kinds and not _RE.masks.search(facts.script.text):
        yield from _padded(facts)
    for call in facts.script.called("compile") if facts.script.uses(*KERAS) else ():
        loss, output = facts.argument(call, "loss", 1), _keras_output(facts, call)
        name, logits, place = _keras_loss(facts, loss) if loss is not None else (None, False, call)
        if name is not None and output is not None:
            given = facts.argument(call, "metrics")
            metrics = ast.unparse(given).lower() if given is not None else ""
            wrong = _wrong_keras(facts, name, logits, *output, metrics)
            if wrong is not None:
                yield finding("wrong-loss", place, wrong[0], **wrong[1])


def _padded(facts: Facts) -> Iterator[Finding]:
    """Labels that are the tokens of padded texts, as the tokenizer gives them."""
    for node in facts.script.all(ast.Assign):
        to, value = node.targets[0], receiver(node.value) if is_call(node.value, "copy") else node.value
        if isinstance(to, ast.Subscript) and isinstance(value, ast.Subscript):
            keys, made = map(facts.values.text, (to.slice, value.slice)), facts.values.makers(value.value)
            padded = any(facts.value(maker, "padding") in (True, "max_length") for maker in made)
            if padded and [*keys] == ["labels", "input_ids"]:
                yield finding("wrong-loss", node, "padding")


def _wrong_keras(
    facts: Facts, name: str, logits: bool, units: float | None, activation: str | None, metrics: str
) -> Why | None:
    metric, labels = metric_of(facts), _keras_labels(facts)
    two = activation == "sigmoid" and units == 1 and metric is not None and metric.family in _SET.for_classes
    classes = two or activation == "softmax" or "accuracy" in metrics or "auc" in metrics
    if logits and activation in ("softmax", "sigmoid"):
        return "keras-logits", {"activation": activation}
    if not logits and activation is None and name in (*_SET.categorical, "binary_crossentropy"):
        return "keras-no-activation", {"name": name}
    if activation == "softmax" and (units == 1 or (units and name == "binary_crossentropy")):
        return "keras-softmax-of-one" if units == 1 else "keras-binary-of-many", {"units": units}
    if name in _SET.categorical and activation == "sigmoid":
        return "keras-sigmoid", {"name": name}
    if name in _SET.squared and classes:
        return "keras-squared", {"name": name}
    if units == 1 and labels == "one-hot vectors":
        return "keras-one-unit", {"labels": labels}
    if labels and _MAP.wrong_labels.get(name) == labels:
        sparse = "" if name.startswith("sparse") else "sparse_"
        return "keras-labels", {"name": name, "labels": labels, "sparse": sparse}
    return None


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
        if snake in (*_SET.categorical, "binary_crossentropy", "mean_squared_error", "mean_absolute_error"):
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
    """The layers of `Sequential([...])` that is compiled, the last of `Model(inputs, outputs)`, else None."""
    model = receiver(compiled)
    sources = facts.values.sources(model) if isinstance(model, ast.Name) else []
    added = {receiver_name(call) for call in facts.script.called("add")}
    whole = isinstance(model, ast.Name) and len(sources) == 1 and model.id not in added
    made = sources[0] if whole else None
    output = facts.argument(made, "outputs", 1) if is_call(made, "Model") else None
    output = next(iter(facts.values.last(output)), None) if isinstance(output, ast.Name) else output
    if isinstance(output, ast.Call) and isinstance(output.func, ast.Call):
        return [output.func]
    given = made.args[:1] if is_call(made, "Sequential") else []
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
        metrics = metric if isinstance(metric, list) else [metric] * isinstance(metric, str)
        wrong = _wrong_objective(facts, objective, [*map(str, metrics)]) if objective else None
        if wrong is not None:
            yield finding("wrong-loss", named or call, wrong[0], **wrong[1])


def _wrong_objective(facts: Facts, objective: str, metrics: list[str]) -> Why | None:
    """Why an objective (or a class that implies one) does not go with the metric or the task."""
    of_values = bool(_RE.of_values.match(objective))
    if of_values and any(_RE.class_metrics.match(m) for m in metrics):
        return "trees-metric-of-classes", {"objective": objective, "metric": metrics[0]}
    if not of_values and not _RE.of_classes.match(objective):
        return None
    many = next((m for m in metrics if _RE.of_many_classes.match(m)), None)
    if many is not None and _RE.of_two_classes.match(objective):
        return "trees-of-two", {"objective": objective, "many": many}
    wrong = against_metric(facts, "mse" if of_values else "ce")
    wanted = "the task" if wrong is None else wrong[1].get("metric", "the task")
    case = "trees-of-values" if of_values else "trees-of-classes"
    return (case, {"objective": objective, "wanted": wanted}) if wrong is not None else None


def activation_of(facts: Facts, node: ast.AST, deep: int = 0) -> str | None:
    """What an output went through last; "none" for a plain layer, None where it is unknown."""
    if deep > DEEPEST_ACTIVATION:
        return None
    if isinstance(node, ast.Name):
        given = facts.values.last(node) or facts.values.sources(node)[:8]
        found = {activation_of(facts, one, deep + 2 - (len(given) == 1)) for one in given}
        return found.pop() if len(found) == 1 else None
    if not isinstance(node, ast.Call):
        return None
    name = last_name(node.func)
    if name in _MAP.activations and not is_of_self(node.func):
        return _MAP.activations[name]
    if name in _SET.shapes and isinstance(node.func, ast.Attribute):
        return activation_of(facts, node.func.value, deep + 1)
    return "none" if name in ("Linear", "Conv2d", "Conv1d") else _of_module(facts, node, deep)


def _of_module(facts: Facts, call: ast.Call, deep: int) -> str | None:
    script, name = facts.script, last_name(call.func)
    head = _new_head(facts, call)
    if head is not None:
        return activation_of(facts, head, deep + 1) or _of_constructor(facts, head, deep + 1)
    if (isinstance(call.func, ast.Name) and name == "self") or (name == "forward" and is_of_self(call.func)):
        return _returned(facts, script.class_of(call), deep)
    named = isinstance(call.func, ast.Name) or is_of_self(call.func)
    sources = facts.values.sources(call.func) if named else []
    for maker in (m for source in sources for m in facts.values.makers(source)):
        made = script.classes.get(last_name(maker.func))
        found = _of_constructor(facts, maker, deep) if made is None else _returned(facts, made, deep)
        if made is not None or found is not None:
            return found
    return None


def _new_head(facts: Facts, call: ast.Call) -> ast.AST | None:
    """What was put where the network that is called had its head; nothing where more is wrapped around it."""
    home, heads, order = facts.script.function, new_heads(facts.script), facts.script.order
    heads = ((n, head) for n, head in heads if ast.dump(head.value) == ast.dump(call.func))
    near = (n for n, head in heads if home(n) is home(call) or isinstance(head.value, ast.Attribute))
    last = next(iter(facts.values.last(call.func)), None) if isinstance(call.func, ast.Name) else None
    wraps = last is not None and any(
        is_call(c, "Sequential") for c in calls_in(last)
    )  # `nn.Sequential(net, …)`
    found = [node.value for node in near if last is None or not wraps or order[last] < order[node]]
    return found[0] if len(found) == 1 else None


def new_heads(script: Script) -> Iterator[tuple[ast.Assign, ast.Attribute]]:
    """`net.fc = nn.Linear(...)`, `net.classifier[1] = ...`."""
    for node in script.all(ast.Assign):
        for target in node.targets:
            head = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(head, ast.Attribute) and head.attr in _SET.heads and not is_of_self(head):
                yield node, head


def _of_constructor(facts: Facts, call: ast.AST | None, deep: int) -> str | None:
    if not isinstance(call, ast.Call) or deep > DEEPEST_ACTIVATION:
        return None
    name, qualified = last_name(call.func), facts.script.qualified(call.func)
    if name in _MAP.activations:
        return _MAP.activations[name]
    if name in ("Linear", "Conv2d", "LazyLinear", "create_model"):
        return "none"
    if name == "Sequential":
        layers = [a for a in call.args if not is_call(a, "Flatten", "Squeeze", "Unflatten")]
        return _of_constructor(facts, layers[-1] if layers else None, deep + 1)
    if qualified.startswith(_SMP) and "." not in qualified.removeprefix(_SMP):
        given, activation = facts.argument(call, "activation"), facts.value(call, "activation")
        unset = given is None or (activation is None and isinstance(given, ast.Constant))
        return "none" if unset else _MAP.activations.get(str(activation))
    return None


def _returned(facts: Facts, owner: ast.ClassDef | None, deep: int) -> str | None:
    """What the `forward` of a class returns went through last."""
    body = owner.body if owner is not None else []
    forward = (n for n in body if isinstance(n, ast.FunctionDef) and n.name == "forward")
    outputs = (value for method in islice(forward, 1) for value in facts.script.returned(method))
    certain = (value for value in outputs if not any(facts.script.around(value, ast.If)))
    found = {activation_of(facts, value, deep + 1) for value in certain}
    return found.pop() if len(found) == 1 else None
