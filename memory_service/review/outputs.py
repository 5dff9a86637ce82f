"""What does a model's output go through last? Logits, probabilities, or what cannot be told."""

from __future__ import annotations

import ast
import re

from memory_service.review.facts import Facts
from memory_service.review.script import last_name

__all__ = ["SHAPES", "activation_of", "last_assigned", "units_of"]

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


SHAPES = frozenset(
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


def activation_of(facts: Facts, node: ast.AST, deep: int = 0) -> str | None:
    """What an output went through last; "none" for a plain layer, None where it cannot be told."""
    if deep > 8:
        return None
    if isinstance(node, ast.Subscript):
        return activation_of(facts, node.value, deep + 1)
    if isinstance(node, ast.Attribute):
        if node.attr == "logits":
            return "none"
        return None
    if isinstance(node, ast.Name):
        source = last_assigned(facts, node)
        if source is not None:
            return activation_of(facts, source, deep + 1)
        found = {activation_of(facts, given, deep + 2) for given in _given_for(facts, node)}
        return found.pop() if len(found) == 1 else None
    if not isinstance(node, ast.Call):
        return None
    name = last_name(node.func)
    if name in _ACTIVATIONS and not (
        isinstance(node.func, ast.Attribute) and last_name(node.func.value) == "self"
    ):
        return _ACTIVATIONS[name]
    if name in SHAPES and isinstance(node.func, ast.Attribute):
        return activation_of(facts, node.func.value, deep + 1)
    if name in ("Linear", "Conv2d", "Conv1d"):
        return "none"
    return _of_module(facts, node, deep)


def _given_for(facts: Facts, node: ast.Name) -> list[ast.AST]:
    """What callers hand over for a parameter of a plain function."""
    function = facts.script.function(node)
    names = [a.arg for a in function.args.args] if function is not None else []
    if function is None or node.id not in names or names[:1] == ["self"]:
        return []
    calls = facts.script.calls_by_name.get(function.name, ())
    given = [facts.values.argument(call, node.id, names.index(node.id)) for call in calls]
    return [one for one in given if one is not None and facts.script.function(one) is not function][:8]


def units_of(facts: Facts, call: ast.Call) -> float | None:
    """How many outputs the network behind a call has, by its last linear layer; None: not told."""
    sources = facts.values.assigned(call.func.id, call) if isinstance(call.func, ast.Name) else (
        facts.values.sources(call.func) if isinstance(call.func, ast.Attribute) else []
    )  # fmt: skip
    found = {_units(facts, source, 0) for source in sources}
    return found.pop() if len(found) == 1 else None


def _units(facts: Facts, node: ast.AST, deep: int) -> float | None:
    if not isinstance(node, ast.Call) or deep > 6:
        return None
    name = last_name(node.func)
    if name in ("to", "cuda", "compile") and (inner := _within(node)) is not None:
        return _units(facts, inner, deep + 1)
    if name == "Linear":
        return facts.values.number(facts.values.argument(node, "out_features", 1))
    if name == "Sequential" and node.args and not isinstance(node.args[-1], ast.Starred):
        return _units(facts, node.args[-1], deep + 1)
    owner = facts.script.classes.get(name)
    forward = (
        next((n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
        if owner
        else None
    )
    returned = (
        [n.value for n in ast.walk(forward) if isinstance(n, ast.Return)] if forward is not None else []
    )
    if len(returned) != 1:
        return None
    last = returned[0]
    while isinstance(last, ast.Call) and isinstance(last.func, ast.Attribute) and last.func.attr in SHAPES:
        last = last.func.value
    if (
        isinstance(last, ast.Call)
        and isinstance(last.func, ast.Attribute)
        and last_name(last.func.value) == "self"
    ):
        made = {_units(facts, source, deep + 1) for source in facts.values.sources(last.func)}
        return made.pop() if len(made) == 1 else None
    return None


def _within(node: ast.Call) -> ast.AST | None:
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
        return node.func.value
    return node.args[0] if node.args else None


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
    new_head = _new_head(facts, call)
    if new_head is not None:
        return activation_of(facts, new_head, deep + 1) or (
            _of_constructor(facts, new_head, deep + 1) if isinstance(new_head, ast.Call) else None
        )
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


_HEADS = ("fc", "classifier", "head", "heads", "last_linear")


def _new_head(facts: Facts, call: ast.Call) -> ast.AST | None:
    """What was put where a network had its head: `net.fc = nn.Sequential(...)`, `net.classifier[1] = ...`."""
    network = ast.dump(call.func)
    function = facts.script.function(call)
    found: list[ast.AST] = []
    for assigned in facts.script.all(ast.Assign):
        for target in assigned.targets:
            head = target.value if isinstance(target, ast.Subscript) else target
            if not isinstance(head, ast.Attribute) or head.attr not in _HEADS:
                continue
            holder = head.value
            own = isinstance(holder, ast.Name) and holder.id == "self"
            near = facts.script.function(assigned) is function or isinstance(holder, ast.Attribute)
            if _wrapped_since(facts, call, assigned):
                continue
            if not own and near and ast.dump(holder).replace("Store()", "Load()") == network:
                found.append(assigned.value)
    return found[0] if len(found) == 1 else None


def _wrapped_since(facts: Facts, call: ast.Call, head: ast.Assign) -> bool:
    """`net = nn.Sequential(net, nn.LogSoftmax(1))` behind the new head: what wraps it is the output now."""
    if not isinstance(call.func, ast.Name):
        return False
    last = last_assigned(facts, call.func)
    if last is None or facts.script.order[last] < facts.script.order[head]:
        return False
    return any(isinstance(n, ast.Call) and last_name(n.func) == "Sequential" for n in ast.walk(last))


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
            found.add(activation_of(facts, node.value, deep + 1))
    return found.pop() if len(found) == 1 else None


def last_assigned(facts: Facts, node: ast.Name) -> ast.AST | None:
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
