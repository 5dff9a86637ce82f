"""Does a metric that judges probabilities get probabilities?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.outputs import last_assigned
from memory_service.review.script import last_name

__all__ = ["score_rules"]

_OF_PROBABILITIES = {
    "roc_auc_score": "AUC",
    "log_loss": "Log loss",
    "average_precision_score": "Average precision",
    "brier_score_loss": "The Brier score",
    "roc_curve": "The ROC curve",
}
_CLASSIFIER = re.compile(
    r"(Classifier|ClassifierCV|SVC|NB|^LogisticRegression(CV)?|^LinearDiscriminantAnalysis|^Perceptron)$"
)
_PASSES_ON = frozenset(
    ("numpy", "cpu", "tolist", "detach", "to_numpy", "astype", "ravel", "flatten", "reshape", "squeeze",
     "int", "long", "array", "asarray", "concatenate", "hstack", "cat", "float", "list", "clip")
)  # fmt: skip
_WITHIN = frozenset(("array", "asarray", "concatenate", "hstack", "cat", "list", "int", "clip"))


def score_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-loss: AUC, log loss … of hard classes."""
    for call in facts.script.called(*_OF_PROBABILITIES):
        given = facts.values.argument(call, "y_score", 1) or facts.values.argument(call, "y_pred")
        why = _hard(facts, given, 0) if given is not None else ""
        if why:
            yield finding(
                "wrong-loss",
                call,
                f"{_OF_PROBABILITIES[last_name(call.func)]} judges probabilities; here it gets {why}.",
                "model.predict_proba(X_valid)[:, 1]",
            )


def _hard(facts: Facts, node: ast.AST, deep: int) -> str:
    """What makes these predictions hard classes; "" where nothing does for sure."""
    if deep > 6:
        return ""
    if isinstance(node, ast.Name):
        source = last_assigned(facts, node)
        found = _hard(facts, source, deep + 1) if source is not None else ""
        return found or (_filled(facts, node, deep) if source is None or _is_empty(source) else "")
    if isinstance(node, ast.Subscript):
        return _hard(facts, node.value, deep + 1) if isinstance(node.value, ast.Name) else ""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return "what a threshold made" if isinstance(node.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE) else ""
    if not isinstance(node, ast.Call):
        return ""
    name = last_name(node.func)
    if name == "argmax":
        return "what argmax picked"
    if name in ("round", "rint") and len(node.args) == 1:
        return "rounded predictions"
    if name == "where" and len(node.args) == 3 and _constants(facts, node.args[1:]) <= {0, 1, -1}:
        return "what a threshold made"
    if name == "predict" and isinstance(node.func, ast.Attribute):
        made = _estimator(facts, node.func.value)
        return f"the classes of {made}.predict" if _CLASSIFIER.search(made) else ""
    if name == "cross_val_predict" and facts.values.argument(node, "method") is None and node.args:
        made = _estimator(facts, node.args[0])
        return f"classes: cross_val_predict of {made} without a method" if _CLASSIFIER.search(made) else ""
    if name in _PASSES_ON:
        inner = node.args[0] if name in _WITHIN and node.args else (
            node.func.value if isinstance(node.func, ast.Attribute) else None
        )  # fmt: skip
        return _hard(facts, inner, deep + 1) if inner is not None else ""
    return ""


def _constants(facts: Facts, nodes: list[ast.expr]) -> set[object]:
    return {facts.values.one(n) for n in nodes}


def _estimator(facts: Facts, node: ast.AST) -> str:
    """The class that predicts: of a pipeline or a search the one within it."""
    made = facts.training.made_by(node)
    if made == "fit" and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _estimator(facts, node.func.value)
    source: ast.AST | None = node
    if isinstance(node, ast.Name):
        each = _walked(facts, node)
        if each:
            made_of = [_estimator(facts, one) for one in each[:20]]
            return made_of[0] if all(_CLASSIFIER.search(one) for one in made_of) else ""
        source = next(iter(facts.values.assigned(node.id, node)), None)
    elif isinstance(node, ast.Attribute):
        source = next(iter(facts.values.sources(node)), None)
    if (
        isinstance(source, ast.Call)
        and last_name(source.func) == "fit"
        and isinstance(source.func, ast.Attribute)
    ):
        return _estimator(facts, source.func.value)
    if isinstance(source, ast.Call) and re.search(r"ipeline$|SearchCV$", last_name(source.func)):
        for inner in ast.walk(source):
            if isinstance(inner, ast.Call) and _CLASSIFIER.search(last_name(inner.func)):
                return last_name(inner.func)
        return (
            next((m for n in source.args if (m := _estimator(facts, n)) and _CLASSIFIER.search(m)), "")
            if "Search" in last_name(source.func)
            else ""
        )
    return made


def _walked(facts: Facts, node: ast.Name) -> list[ast.expr]:
    """The models that a loop goes through: `for name, model in {"a": LogisticRegression()}.items()`."""
    for loop in facts.script.loops(node):
        if not isinstance(loop, ast.For) or node.id not in {
            n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)
        }:
            continue
        over: ast.AST = loop.iter
        if (
            isinstance(over, ast.Call)
            and isinstance(over.func, ast.Attribute)
            and over.func.attr in ("items", "values")
        ):
            over = over.func.value
        if isinstance(over, ast.Name):
            over = next(iter(facts.values.assigned(over.id, over)), over)
        if isinstance(over, ast.Dict):
            return over.values
        if isinstance(over, ast.List | ast.Tuple):
            at = (
                [last_name(t) for t in loop.target.elts].index(node.id)
                if isinstance(loop.target, ast.Tuple)
                else None
            )
            if at is None:
                return over.elts
            return [
                one.elts[at]
                for one in over.elts
                if isinstance(one, ast.Tuple | ast.List) and len(one.elts) > at
            ]
    return []


def _is_empty(node: ast.AST) -> bool:
    return (isinstance(node, ast.List) and not node.elts) or (
        isinstance(node, ast.Call)
        and last_name(node.func) in ("zeros", "empty", "full", "zeros_like", "list")
    )


def _filled(facts: Facts, node: ast.Name, deep: int) -> str:
    """What an array or list is filled with: `oof[valid] = ...`, `preds.append(...)`, all of it hard."""
    function = facts.script.function(node)
    given: list[ast.AST] = [
        a.value
        for a in facts.script.all(ast.Assign)
        for t in a.targets
        if isinstance(t, ast.Subscript)
        and last_name(t.value) == node.id
        and facts.script.function(a) is function
    ]
    given += [
        c.args[0]
        for c in facts.script.called("append", "extend")
        if isinstance(c.func, ast.Attribute) and last_name(c.func.value) == node.id and c.args
        and facts.script.function(c) is function
    ]  # fmt: skip
    given += [
        g.value
        for g in facts.script.all(ast.AugAssign)
        if last_name(g.target) == node.id and facts.script.function(g) is function
    ]
    found = [_hard(facts, one, deep + 1) for one in given]
    return found[0] if found and all(found) else ""
