"""The last activation of a model's output: logits, probabilities, or unknown."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.source.nodes import (
    calls_in,
    is_call,
    is_of_self,
    last_name,
)
from memory_service.review.source.script import Script
from memory_service.review.tables import name_maps, name_sets

_MAP = name_maps("activations")
_SET = name_sets("activations")

SHAPES = _SET.shapes

_HEADS = ("fc", "classifier", "head", "heads", "last_linear")
_SMP = "segmentation_models_pytorch."
DEEPEST = 8


def activation_of(facts: Facts, node: ast.AST, deep: int = 0) -> str | None:
    """What an output went through last; "none" for a plain layer, None where it is unknown."""
    if deep > DEEPEST:
        return None
    if isinstance(node, ast.Subscript):
        return activation_of(facts, node.value, deep + 1)
    if isinstance(node, ast.Attribute):
        return "none" if node.attr == "logits" else None
    if isinstance(node, ast.Name):
        given = facts.values.last(node) or facts.values.sources(node)[:8]
        found = {activation_of(facts, one, deep + 2 - (len(given) == 1)) for one in given}
        return found.pop() if len(found) == 1 else None
    if not isinstance(node, ast.Call):
        return None
    name = last_name(node.func)
    if name in _MAP.activations and not is_of_self(node.func):
        return _MAP.activations[name]
    if name in SHAPES and isinstance(node.func, ast.Attribute):
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
    """What was put where the network that is called had its head."""
    network, function = ast.dump(call.func), facts.script.function(call)
    found: list[ast.AST] = []
    for node, head in new_heads(facts.script):
        near = facts.script.function(node) is function or isinstance(head.value, ast.Attribute)
        if near and ast.dump(head.value) == network and not _wrapped_since(facts, call, node):
            found.append(node.value)
    return found[0] if len(found) == 1 else None


def new_heads(script: Script) -> Iterator[tuple[ast.Assign, ast.Attribute]]:
    """`net.fc = nn.Linear(...)`, `net.classifier[1] = ...`."""
    for node in script.all(ast.Assign):
        for target in node.targets:
            head = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(head, ast.Attribute) and head.attr in _HEADS and not is_of_self(head):
                yield node, head


def _wrapped_since(facts: Facts, call: ast.Call, head: ast.Assign) -> bool:
    """`net = nn.Sequential(net, nn.LogSoftmax(1))` behind the new head: what wraps it is the output now."""
    last = next(iter(facts.values.last(call.func)), None) if isinstance(call.func, ast.Name) else None
    if last is None or facts.script.order[last] < facts.script.order[head]:
        return False
    return any(is_call(c, "Sequential") for c in calls_in(last))


def _of_constructor(facts: Facts, call: ast.AST | None, deep: int) -> str | None:
    if not isinstance(call, ast.Call) or deep > DEEPEST:
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


def _outputs(facts: Facts, owner: ast.ClassDef | None) -> list[ast.expr]:
    """What the `forward` of a class returns."""
    body = owner.body if owner is not None else []
    forward = next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
    return facts.script.returned(forward) if forward is not None else []


def _returned(facts: Facts, owner: ast.ClassDef | None, deep: int) -> str | None:
    certain = (value for value in _outputs(facts, owner) if not any(facts.script.around(value, ast.If)))
    found = {activation_of(facts, value, deep + 1) for value in certain}
    return found.pop() if len(found) == 1 else None
