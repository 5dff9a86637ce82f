"""Loops over batches that validate or predict, whatever their names, and whether the model is in evaluation
mode there: by the last switch before it, here or in the callers."""

from __future__ import annotations

import ast
import re
from itertools import takewhile

from memory_service.review.facts import Facts
from memory_service.review.source.nodes import (
    Function,
    arguments_of,
    bases_of,
    calls_in,
    is_of_self,
    keyword_names,
    last_name,
    name_of,
    names_in,
    receiver,
    receiver_name,
    words_in,
)

_OTHER_PASSES = re.compile(
    r"train|(^|_)bn(_|$)|warm|calib|find_lr|lr_find|mc_?drop|dropout|mixup|fit|recon|attack|perturb|generate",
    re.IGNORECASE,
)


def words_passed(call: ast.Call) -> set[str]:
    return {word for argument in arguments_of(call) for word in words_in(argument)}


def goes_beside_training(facts: Facts, call: ast.Call, near: ast.For) -> bool:
    """A loop of its own over batches: the model gets what the loop gives, nothing is learned in it or
    behind it, and it stands beside the loop that trains, not within."""
    script = facts.script
    function = script.function(call)
    if function is not None and _OTHER_PASSES.search(function.name):
        return False
    trained = facts.training.batches
    if _within(facts, near):
        return False
    reached = names_in(near.target)
    for node in script.within(near.body, follow=False):
        if isinstance(node, ast.Assign) and words_in(node.value) & reached:
            reached |= names_in(*node.targets)
    supervised = {ast.dump(loop.iter) for loop in trained if isinstance(loop, ast.For)}
    if not words_passed(call) & reached or ast.dump(near.iter) in supervised:
        return False
    home = script.loops(near)[:1]
    bounds: list[ast.AST] = [*home[0].body] if home else [function if function is not None else script.tree]
    inside = {node for bound in bounds for node in ast.walk(bound)}
    for step in facts.training.backwards:
        if script.loops(step)[:1] == home and script.order[step] > script.order[near] and step in inside:
            return False
    if function is None or home:
        return True
    callers = script.callers(call)
    return bool(callers) and not any(_within(facts, caller) for caller in callers)


def _within(facts: Facts, node: ast.AST) -> bool:
    """Within the loop that trains, and not only at some steps: `if step % 500 == 0:`."""
    trained = facts.training.batches
    for up in facts.script.above(node):
        sometimes = isinstance(up, ast.If) and any(isinstance(n, ast.Mod) for n in ast.walk(up.test))
        if up in trained or sometimes or isinstance(up, Function):
            return up in trained
    return False


def only_predicts(facts: Facts, call: ast.Call, rows: list[ast.For]) -> ast.For | None:
    """In a file that learns nothing and loads weights: the loop whose batches the model gets."""
    script, called = facts.script, facts.script.called
    loads = called("load_state_dict") or any(script.qualified(c.func) == "torch.load" for c in called("load"))
    if facts.training.backwards or facts.training.offers or not loads:
        return None
    passed = words_passed(call)
    return next((loop for loop in rows if names_in(loop.target) & passed and over_rows(loop)), None)


def over_rows(loop: ast.For) -> bool:
    """A loop that does not go over epochs or folds."""
    return not re.search(r"epoch|fold", " ".join(names_in(loop.target)), re.IGNORECASE)


def held_out(facts: Facts) -> set[str]:
    """Names of the second parts of a split: `X_a, X_b, y_a, y_b = train_test_split(X, y)` -> X_b, y_b."""
    stated = (facts.script.parents[call] for call in facts.script.called("train_test_split"))
    parts = (getattr(s.targets[0], "elts", []) for s in stated if isinstance(s, ast.Assign))
    return {part.id for split in parts for part in split[1::2] if isinstance(part, ast.Name)}


_SWITCHED = frozenset(("eval", "compile", "from_pretrained"))
_READY_MADE = ("torchvision.models.", "timm.create_model", "segmentation_models_pytorch.")
MOST_CALLERS = 4  # functions above one another that are followed


def mode_at(facts: Facts, call: ast.Call, seen: frozenset[ast.AST] = frozenset()) -> str:
    """ "eval", "train" or "" where it is unknown."""
    script, function = facts.script, facts.script.function(call)
    if any("eval" in name_of(context) for context in script.contexts(call)):
        return "eval"
    last, since = "", -1
    for other in script.calls:
        if script.order[other] >= script.order[call]:
            break
        if script.function(other) is function and (switch := switch_of(facts, other)):
            last, since = switch, script.order[other]
    if last:
        return "train" if last == "eval" and _made_anew(facts, call, since) else last
    if function is None:
        return "" if _comes_in_eval(facts) else "train"
    if _loads_own_model(facts, function):
        return "train"
    if len(seen) > MOST_CALLERS or function in seen:
        return ""
    found = {mode_at(facts, caller, seen | {function}) for caller in script.callers(call)}
    if "train" in found and not _comes_in_eval(facts):
        return "train"
    return "eval" if found == {"eval"} else ""


def _loads_own_model(facts: Facts, function: Function) -> bool:
    """The function makes the model that it loads weights into: nobody can have switched it before."""
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    loads = (c for c in facts.script.called("load_state_dict") if facts.script.function(c) is function)
    return any(receiver_name(call) in stored for call in loads)


def _made_anew(facts: Facts, call: ast.Call, since: int) -> bool:
    """The network that is called, or handed on, was built after the last switch: that was of another one."""
    script, order = facts.script, facts.script.order
    used = {ast.unparse(n) for n in (call.func, *call.args) if isinstance(n, ast.Name) or is_of_self(n)}
    before = takewhile(lambda node: order[node] < order[call], script.all(ast.Assign))
    beside = (node for node in before if script.function(node) is script.function(call))
    built = [node for node in beside if any(ast.unparse(target) in used for target in node.targets)]
    return bool(built) and order[built[-1]] > since and _is_new_network(facts, built[-1].value)


def _is_new_network(facts: Facts, value: ast.AST) -> bool:
    """`timm.create_model(...).cuda()`, `Net()`, `build()`: networks come out in training mode."""
    called = {name_of(call) for call in calls_in(value)}
    helpers = (f for name in called for f in facts.script.functions.get(name, ()))
    if _SWITCHED & (called | {name_of(call) for helper in helpers for call in calls_in(helper)}):
        return False
    made = facts.training.objects.made_by(value)
    own = bases_of(facts.script.classes.get(made)) & {"Module", "LightningModule"}
    return bool(own) or made in ("create_model", "Sequential") or is_ready_made(facts, value)


def is_ready_made(facts: Facts, node: ast.AST) -> bool:
    """A network of torchvision, timm or segmentation_models_pytorch, also by a helper of the file."""
    makers = facts.training.objects.makers(node)
    return any(facts.script.qualified(maker.func).startswith(_READY_MADE) for maker in makers)


def switch_of(facts: Facts, call: ast.Call) -> str:
    """What a call does to the mode of the model: itself, or as a function of this file does last."""
    name, model = last_name(call.func), receiver(call)
    if model is not None and name == "eval" and not call.args:
        return "eval"
    if model is not None and name == "train" and len(call.args) <= 1 and keyword_names(call) <= {"mode"}:
        if call.args or call.keywords:
            value = facts.value(call, "mode", 0)
            return "eval" if value is False else "train" if value is True else ""
        owner = facts.script.classes.get(facts.training.objects.made_by(model))
        own = (facts.script.class_of(f) is owner for f in facts.script.functions.get("train", ()))
        return "" if owner is not None and any(own) else "train"
    helpers = facts.script.functions.get(name, ()) if model is None or is_of_self(call.func) else ()
    inside = [call for helper in helpers[:1] for call in calls_in(helper) if receiver(call) is not None]
    switches = [switch_of(facts, call) for call in inside if last_name(call.func) in ("eval", "train")]
    return next((switch for switch in reversed(switches) if switch), "")


def _comes_in_eval(facts: Facts) -> bool:
    """from_pretrained hands models out in evaluation mode; nothing here trains them."""
    called = facts.script.called
    loaded = called("from_pretrained", "load", "load_model") and not called("load_state_dict")
    return bool(loaded) and not called("backward")
