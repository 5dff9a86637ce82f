"""Is the model in evaluation mode at a place? The last switch before it says, here or in the callers."""

from __future__ import annotations

import ast

from memory_service.review.facts import Facts
from memory_service.review.script import Function, last_name, name_of

__all__ = ["is_ready_made", "mode_at", "switch_of"]

_SWITCHED = frozenset(("eval", "compile", "from_pretrained"))
_READY_MADE = ("torchvision.models.", "timm.create_model", "segmentation_models_pytorch.")


def mode_at(facts: Facts, call: ast.Call, deep: int = 0, seen: frozenset[ast.AST] = frozenset()) -> str:
    """ "eval", "train" or "" (cannot be told): the last switch before a place, here or where its function
    is called."""
    script = facts.script
    function = script.function(call)
    bounds: ast.AST = function if function is not None else script.tree
    last, since = "", -1
    position = script.order[call]
    for other in _calls_before(facts, bounds, call):
        switch = switch_of(facts, other)
        if switch and script.order[other] < position:
            last, since = switch, script.order[other]
    if any(
        "eval" in name_of(item.context_expr)
        for up in script.above(call) if isinstance(up, ast.With) for item in up.items
    ):  # fmt: skip
        return "eval"
    if last == "eval" and _made_anew(facts, call, since):
        return "train"
    if last:
        return last
    if function is None:
        return "" if _comes_in_eval(facts) else "train"
    if _made_here(facts, function):
        return "train"
    if deep > 4 or function in seen:
        return ""
    callers = [c for c in script.calls_by_name.get(function.name, ()) if script.function(c) is not function]
    found = {mode_at(facts, c, deep + 1, seen | {function}) for c in callers}
    if not found:
        return "" if not _is_method_of_use(facts, function) else "train"
    return "train" if "train" in found and not _comes_in_eval(facts) else "eval" if found == {"eval"} else ""


def _made_here(facts: Facts, function: Function) -> bool:
    """The function makes the model that it loads weights into: nobody can have switched it before."""
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return any(
        isinstance(call.func, ast.Attribute) and last_name(call.func.value) in stored
        for call in facts.script.called("load_state_dict")
        if facts.script.function(call) is function
    )


def _made_anew(facts: Facts, call: ast.Call, since: int) -> bool:
    """The network that is called, or handed on, was built after the last switch: that was of another one."""
    script = facts.script
    used = {ast.unparse(n) for n in (call.func, *call.args) if isinstance(n, ast.Name) or _is_of_self(n)}
    function, position = script.function(call), script.order[call]
    built: list[tuple[int, ast.AST]] = []
    for node in script.all(ast.Assign):
        named = any(ast.unparse(t) in used for t in node.targets if isinstance(t, ast.Name | ast.Attribute))
        if named and script.function(node) is function and script.order[node] < position:
            built.append((script.order[node], node.value))
    last, value = max(built, key=lambda one: one[0], default=(-1, None))
    return last > since and value is not None and _is_new_network(facts, value)


def _is_of_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and last_name(node.value) == "self"


def _is_new_network(facts: Facts, value: ast.AST) -> bool:
    """`timm.create_model(...).cuda()`, `Net()`, `build()`: networks come out in training mode."""
    script = facts.script
    calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)]
    called = {name_of(c) for c in calls}
    inside = (n for name in called for f in script.functions.get(name, ()) for n in ast.walk(f))
    if called & _SWITCHED or any(isinstance(n, ast.Call) and name_of(n) in _SWITCHED for n in inside):
        return False
    made = facts.training.made_by(value)
    owner = script.classes.get(made)
    if owner is not None:
        return any(last_name(b) in ("Module", "LightningModule") for b in owner.bases)
    return made in ("create_model", "Sequential") or is_ready_made(facts, value)


def is_ready_made(facts: Facts, node: ast.AST) -> bool:
    """A network of torchvision, timm or segmentation_models_pytorch, also by a helper of the file."""
    return any(
        facts.script.qualified(made.func).startswith(_READY_MADE) for made in facts.training.makers(node)
    )


def _is_method_of_use(facts: Facts, function: Function) -> bool:
    return (
        facts.script.class_of(function) is not None
        and facts.script.runs(function)
        and bool(facts.training.backwards)
    )


def _calls_before(facts: Facts, bounds: ast.AST, call: ast.Call) -> list[ast.Call]:
    """Calls of the same function, in order, without those of functions nested in it."""
    script = facts.script
    home = script.function(call)
    found = [c for c in script.calls if script.function(c) is home and script.order[c] < script.order[call]]
    loops = script.loops(call)
    if loops:  # what a loop around does behind the place holds when it comes round again
        del bounds
    return found


def switch_of(facts: Facts, call: ast.Call) -> str:
    """What a call does to the mode of the model: itself, or as a function of this file does last."""
    name = last_name(call.func)
    if isinstance(call.func, ast.Attribute) and name == "eval" and not call.args:
        return "eval"
    if (
        (
            isinstance(call.func, ast.Attribute)
            and name == "train"
            and not isinstance(call.func.value, ast.Constant)
        )
        and len(call.args) <= 1
        and not [k for k in call.keywords if k.arg != "mode"]
    ):
        given = facts.values.argument(call, "mode", 0)
        value = facts.values.one(given)
        if given is None:
            return (
                "train" if not facts.script.functions.get("train") or not _in_file_method(facts, call) else ""
            )
        return "eval" if value is False else "train" if value is True else ""
    own = isinstance(call.func, ast.Name) or _is_of_self(call.func)
    if own and name in facts.script.functions:
        last = ""
        for inner in ast.walk(facts.script.functions[name][0]):
            if (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Attribute)
                and inner.func.attr in ("eval", "train")
            ):
                last = switch_of(facts, inner) or last
        return last
    return ""


def _in_file_method(facts: Facts, call: ast.Call) -> bool:
    owner = facts.training.made_by(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return owner in facts.script.classes and any(
        facts.script.class_of(f) is facts.script.classes[owner]
        for f in facts.script.functions.get("train", ())
    )


def _comes_in_eval(facts: Facts) -> bool:
    """from_pretrained hands models out in evaluation mode; nothing here trains them."""
    if facts.script.called("backward"):
        return False
    return bool(facts.script.called("from_pretrained", "load", "load_model")) and not facts.script.called(
        "load_state_dict"
    )
