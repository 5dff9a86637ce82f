"""Loops over batches that validate or predict, whatever their names: those beside the training."""

from __future__ import annotations

import ast
import re

from memory_service.review.facts import Facts
from memory_service.review.source.nodes import arguments_of, names_in, words_in

_OTHER_PASSES = re.compile(
    r"train|(^|_)bn(_|$)|warm|calib|find_lr|lr_find|mc_?drop|dropout|mixup|fit|recon|attack|perturb|generate",
    re.IGNORECASE,
)


def words_passed(call: ast.Call) -> set[str]:
    """Every identifier among the arguments of a call."""
    return {word for argument in arguments_of(call) for word in words_in(argument)}


def goes_beside_training(facts: Facts, call: ast.Call, near: ast.For) -> bool:
    """A loop of its own over batches: the model gets what the loop gives, nothing is learned in it or
    behind it, and it stands beside the loop that trains, not within."""
    script = facts.script
    function = script.function(call)
    if function is not None and _OTHER_PASSES.search(function.name):
        return False
    trained = {loop.batch for loop in facts.training.loops if loop.batch is not None}
    if _within(facts, near, trained):
        return False
    reached = names_in(near.target)
    for node in script.within(near.body, follow=False):
        if isinstance(node, ast.Assign) and words_in(node.value) & reached:
            reached |= names_in(*node.targets)
    fed = {ast.dump(loop.iter) for loop in trained if isinstance(loop, ast.For)}
    if not words_passed(call) & reached or ast.dump(near.iter) in fed:
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
    return bool(callers) and not any(_within(facts, caller, trained) for caller in callers)


def _within(facts: Facts, node: ast.AST, trained: set[ast.For | ast.While]) -> bool:
    """Within the loop that trains, and not only at some steps: `if step % 500 == 0:`."""
    for up in facts.script.above(node):
        if up in trained:
            return True
        if isinstance(up, ast.If) and any(isinstance(n, ast.Mod) for n in ast.walk(up.test)):
            return False
        if isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
    return False


def only_predicts(facts: Facts, call: ast.Call, rows: list[ast.For]) -> ast.For | None:
    """In a file that learns nothing and loads weights: the loop whose batches the model gets."""
    script = facts.script
    if facts.training.backwards or facts.training.offers:
        return None
    loads = script.called("load")
    if not script.called("load_state_dict") and not any(
        script.qualified(c.func) == "torch.load" for c in loads
    ):
        return None
    passed = words_passed(call)
    return next((loop for loop in rows if names_in(loop.target) & passed and over_rows(loop)), None)


def over_rows(loop: ast.For) -> bool:
    """A loop that does not go over epochs or folds."""
    return not re.search(r"epoch|fold", " ".join(names_in(loop.target)), re.IGNORECASE)


def held_out(facts: Facts) -> set[str]:
    """Names of the second parts of a split: `X_a, X_b, y_a, y_b = train_test_split(X, y)` -> X_b, y_b."""
    found: set[str] = set()
    for call in facts.script.called("train_test_split"):
        statement = facts.script.parents.get(call)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
            found |= {n.id for n in statement.targets[0].elts[1::2] if isinstance(n, ast.Name)}
    return found
