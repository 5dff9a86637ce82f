"""Metrics of probabilities that get hard classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from memory_service.review.analysis.activations import last_assigned
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.source.nodes import (
    calls_in,
    is_call,
    last_name,
    names_in,
    receiver,
    receiver_name,
    unpacked,
    words,
)

_METRICS = {
    "roc_auc_score": "AUC",
    "log_loss": "Log loss",
    "average_precision_score": "Average precision",
    "brier_score_loss": "The Brier score",
    "roc_curve": "The ROC curve",
}
_CLASSIFIER = re.compile(
    r"(Classifier|ClassifierCV|SVC|NB|^LogisticRegression(CV)?|^LinearDiscriminantAnalysis|^Perceptron)$"
)
_CONVERTING = words("array asarray concatenate hstack cat list int clip")
_KEEPING = words("numpy cpu tolist detach to_numpy astype ravel flatten reshape squeeze long float")
_EMPTY = ("zeros", "empty", "full", "zeros_like", "list")
DEEPEST = 6


def score_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-loss: AUC, log loss … of hard classes."""
    for call in facts.script.called(*_METRICS):
        given = facts.argument(call, "y_score", 1) or facts.argument(call, "y_pred")
        why = _hard(facts, given, 0) if given is not None else ""
        if why:
            yield finding("wrong-loss", call, "probabilities", metric=_METRICS[last_name(call.func)], why=why)


def _hard(facts: Facts, node: ast.AST, deep: int) -> str:
    """What makes these predictions hard classes; "" where nothing does for sure."""
    if deep > DEEPEST:
        return ""
    if isinstance(node, ast.Name):
        source = last_assigned(facts, node)
        found = _hard(facts, source, deep + 1) if source is not None else ""
        empty = source is None or is_call(source, *_EMPTY) or getattr(source, "elts", None) == []
        return found or (_filled(facts, node, deep) if empty else "")
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return _hard(facts, node.value, deep + 1)
    if isinstance(node, ast.Compare):
        return "what a threshold made" if isinstance(node.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE) else ""
    if not isinstance(node, ast.Call):
        return ""
    name, base = last_name(node.func), receiver(node)
    if name == "argmax":
        return "what argmax picked"
    if name in ("round", "rint") and len(node.args) == 1:
        return "rounded predictions"
    if name == "where" and len(node.args) == 3 and {facts.values.one(n) for n in node.args[1:]} <= {0, 1, -1}:
        return "what a threshold made"
    if name == "predict" and base is not None:
        made = _estimator(facts, base)
        return f"the classes of {made}.predict" if _CLASSIFIER.search(made) else ""
    if name == "cross_val_predict" and facts.argument(node, "method") is None and node.args:
        made = _estimator(facts, node.args[0])
        return f"classes: cross_val_predict of {made} without a method" if _CLASSIFIER.search(made) else ""
    inner = node.args[0] if name in _CONVERTING and node.args else base
    return _hard(facts, inner, deep + 1) if inner is not None and name in _CONVERTING | _KEEPING else ""


def _estimator(facts: Facts, node: ast.AST) -> str:
    """The class that predicts: of a pipeline or a search the one within it."""
    if isinstance(node, ast.Name):
        looped = [_estimator(facts, one) for one in _looped(facts, node)[:20]]
        if looped:
            return looped[0] if all(_CLASSIFIER.search(one) for one in looped) else ""
    source = next(iter(facts.values.sources(node)), node)
    if is_call(source, "fit") and (fitted := receiver(source)) is not None:
        return _estimator(facts, fitted)
    if isinstance(source, ast.Call) and re.search(r"ipeline$|SearchCV$", last_name(source.func)):
        inner = [last_name(call.func) for call in calls_in(source)]
        inner += [_estimator(facts, a) for a in source.args] if "Search" in last_name(source.func) else []
        return next((name for name in inner if _CLASSIFIER.search(name)), "")
    return facts.training.objects.made_by(node)


def _looped(facts: Facts, node: ast.Name) -> Sequence[ast.AST]:
    """The models that a loop goes through: `for name, model in {"a": LogisticRegression()}.items()`."""
    for loop in facts.script.loops(node):
        if not isinstance(loop, ast.For) or node.id not in names_in(loop.target):
            continue
        over: ast.AST | None = receiver(loop.iter) if is_call(loop.iter, "items", "values") else loop.iter
        over = next(iter(facts.values.sources(over)), over) if over is not None else over
        if isinstance(over, ast.Dict):
            return over.values
        pairs = (pair for row in getattr(over, "elts", ()) for pair in unpacked(loop.target, row))
        return [model for item, model in pairs if last_name(item) == node.id and model is not None]
    return []


def _filled(facts: Facts, node: ast.Name, deep: int) -> str:
    """What an array or list is filled with: `oof[valid] = ...`, `preds.append(...)`, all of it hard."""
    script = facts.script
    filled: list[tuple[ast.AST, ast.AST]] = [
        (a, a.value) for a in script.all(ast.Assign) for t in a.targets
        if isinstance(t, ast.Subscript) and last_name(t.value) == node.id
    ]  # fmt: skip
    calls = script.called("append", "extend")
    filled += [(c, c.args[0]) for c in calls if receiver_name(c) == node.id and c.args]
    filled += [(a, a.value) for a in script.all(ast.AugAssign) if last_name(a.target) == node.id]
    function = script.function(node)
    found = [_hard(facts, value, deep + 1) for place, value in filled if script.function(place) is function]
    return found[0] if found and all(found) else ""
