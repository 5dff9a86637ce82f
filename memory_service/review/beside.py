"""Which loops over batches judge or predict, whatever their names? Those that stand beside the training."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.script import words_in

__all__ = ["goes_beside_training", "held_out", "only_predicts", "outside_training", "over_rows"]

_OTHER_PASSES = re.compile(
    r"train|(^|_)bn(_|$)|warm|calib|find_lr|lr_find|mc_?drop|dropout|mixup|fit|recon|attack|perturb|generate",
    re.IGNORECASE,
)


def goes_beside_training(facts: Facts, call: ast.Call, near: ast.For) -> bool:
    """A loop of its own over batches, whatever its names: the model gets what the loop gives, nothing is
    learned in it or behind it, and it stands beside the loop that trains, not within."""
    script = facts.script
    function = script.function(call)
    if function is not None and _OTHER_PASSES.search(function.name):
        return False
    trained = {loop.batch for loop in facts.training.loops if loop.batch is not None}
    if any(up in trained for up in script.loops(near)) and not _now_and_then(facts, near, trained):
        return False
    given = {n.id for n in ast.walk(near.target) if isinstance(n, ast.Name)}
    reached = set(given)
    for node in script.within(near.body, follow=False):
        if isinstance(node, ast.Assign) and words_in(node.value) & reached:
            reached |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    said = {w for a in (*call.args, *(k.value for k in call.keywords)) for w in words_in(a)}
    if not said & reached:
        return False
    fed = {ast.dump(loop.iter) for loop in trained if isinstance(loop, ast.For)}
    if ast.dump(near.iter) in fed:
        return False
    home = script.loops(near)[:1]
    bounds: list[ast.AST] = (
        list(home[0].body) if home else [function if function is not None else script.tree]
    )
    behind = script.order[near]
    for step in facts.training.backwards:
        if script.loops(step)[:1] == home and script.order[step] > behind and step in set(_under(bounds)):
            return False
    if function is not None and not home:
        callers = [
            c for c in script.calls_by_name.get(function.name, ()) if script.function(c) is not function
        ]
        for caller in callers:
            if any(up in trained for up in script.loops(caller)) and not _now_and_then(
                facts, caller, trained
            ):
                return False
        if not callers:
            return False
    return True


def _under(bounds: list[ast.AST]) -> Iterator[ast.AST]:
    for node in bounds:
        yield from ast.walk(node)


def _now_and_then(facts: Facts, node: ast.AST, trained: set[ast.For | ast.While]) -> bool:
    """Within the loop that trains, but only at some steps: `if step % 500 == 0:`."""
    for up in facts.script.above(node):
        if up in trained:
            return False
        if isinstance(up, ast.If) and any(isinstance(n, ast.Mod) for n in ast.walk(up.test)):
            return True
    return False


def only_predicts(facts: Facts, call: ast.Call, rows: list[ast.For]) -> ast.For | None:
    """In a file that learns nothing and loads weights: the loop whose batches the model gets."""
    script = facts.script
    if facts.training.backwards or facts.training.offers:
        return None
    if not script.called("load_state_dict") and not any(
        script.qualified(c.func) == "torch.load" for c in script.called("load")
    ):
        return None
    said = {w for a in (*call.args, *(k.value for k in call.keywords)) for w in words_in(a)}
    for loop in rows:
        given = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        if given & said and over_rows(loop):
            return loop
    return None


def over_rows(loop: ast.For) -> bool:
    return not re.search(
        r"epoch|fold", " ".join(n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)), re.IGNORECASE
    )


def outside_training(facts: Facts, node: ast.AST) -> bool:
    """Not within a loop over batches that learns, nor in a function that does."""
    trained = {loop.batch for loop in facts.training.loops if loop.batch is not None}
    return not any(up in trained for up in facts.script.above(node))


def held_out(facts: Facts) -> set[str]:
    """Names of the second parts of a split: `X_a, X_b, y_a, y_b = train_test_split(X, y)` -> X_b, y_b."""
    found: set[str] = set()
    for call in facts.script.called("train_test_split"):
        statement = facts.script.parents.get(call)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
            found |= {n.id for n in statement.targets[0].elts[1::2] if isinstance(n, ast.Name)}
    return found
