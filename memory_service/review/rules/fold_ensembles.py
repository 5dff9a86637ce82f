"""Prediction that fails or is wrong while a fold is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.source.nodes import (
    arguments_of,
    is_call,
    last_name,
    names_in,
    parameters_of,
    roots,
    words,
    words_in,
)

needs_all = partial(finding, "prediction-needs-all-folds")

_LOADS = re.compile(
    r"^(load|load_model|load_checkpoint|from_pretrained|load_from_checkpoint|Booster|load_weights|"
    r"load_\w*(model|fold|ckpt|checkpoint|weights).*)$"
)
_CHECKS = words("exists isfile is_file glob rglob iglob listdir iterdir scandir")
_FOLDS = re.compile(r"(?i)n_?(folds|splits)|num_?(folds|splits)|^n?folds$|^k$|n_splits|kfold|^k_folds?$")
_KEPT = re.compile(r"fold|ckpt|checkpoint|model|weights|\.pth?\b|\.cbm|\.ubj|\.joblib|\.pkl", re.IGNORECASE)
_NUMBERED = re.compile(r"(fold|model|cv|split|f|m)_?-?\d\D*$", re.IGNORECASE)
_WEIGHTS = re.compile(r"fold|model|ckpt|checkpoint|weight|best|state|\.pth|cv", re.IGNORECASE)
_COUNTED = re.compile(r"model|path|ckpt|checkpoint|fold_|pred|weight", re.IGNORECASE)

Comprehension = ast.ListComp | ast.GeneratorExp


def missing_fold_rules(facts: Facts) -> Iterator[Finding]:
    """prediction-needs-all-folds: every checkpoint loaded unseen, or a share of the folds planned."""
    if any(_LOADS.match(name) for name in facts.script.calls_by_name):
        yield from _loaded_unseen(facts)
    yield from _fixed_share(facts)
    yield from _shared_by_all(facts)
    yield from _refused(facts)


def _loaded_unseen(facts: Facts) -> Iterator[Finding]:
    """`for fold in range(N_FOLDS): load(f"fold_{fold}.pt")` where nothing asks whether the file is there."""
    script, trained = facts.script, set(facts.training.fold_loops)
    for loop in script.all(ast.For):
        if loop in trained or not _is_range_of_folds(facts, loop.iter):
            continue
        loads = [c for c in script.within_calls(loop.body) if _loads_fold(facts, c, loop, loop.target)]
        if loads and not _is_checked(facts, loop):
            place = loads[0] if script.function(loads[0]) is script.function(loop) else loop
            yield needs_all(place, "loop", loop)
    training = {node for loop in trained for node in script.within(loop.body)}
    comprehensions: list[Comprehension] = [*script.all(ast.ListComp), *script.all(ast.GeneratorExp)]
    for comp in comprehensions:
        over = comp.generators[0]
        if comp in training or over.ifs or not _is_range_of_folds(facts, over.iter):
            continue
        loads_fold = any(_loads_fold(facts, c, comp, over.target) for c in script.within_calls(comp.elt))
        if loads_fold and not _is_checked(facts, comp):
            yield needs_all(comp, "expression")


def _fixed_share(facts: Facts) -> Iterator[Finding]:
    """`test_pred += model.predict(test) / N_FOLDS`: wrong as soon as one fold is missing."""
    training = facts.training
    trained, fits = set(training.fold_loops), {fit.call for fit in training.fits}
    for change in facts.script.all(ast.AugAssign):
        whole = change.value
        divisions = [n for n in ast.walk(whole) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
        scaled = isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Div | ast.Mult)
        loops = [up for up in facts.script.loops(change) if up in trained or training.folds.is_fold(up)]
        if not isinstance(change.op, ast.Add) or not scaled or not divisions or not loops:
            continue
        share = divisions[0].right
        learning = (up for up in loops if up in trained or fits & {*facts.script.within_calls(up.body)})
        over, number = next(learning, None), facts.values.number(share)
        fixed = isinstance(over, ast.For) and number is not None and number == training.folds.count(over)
        counted = is_call(share, "len") and not re.search(r"fold|split", " ".join(roots(share)).lower())
        if (fixed or _says_folds(share)) and not counted and (over is None or _may_leave_out(facts, over)):
            yield needs_all(change, "planned-share")


def _shared_by_all(facts: Facts) -> Iterator[Finding]:
    """`sum(probs) / FOLDS` of what was loaded from the files that are there."""
    loops = facts.training.fold_loops
    listed = any(_KEPT.search(ast.dump(call)[:600]) for call in facts.script.called(*_CHECKS))
    if not listed and not any(_may_leave_out(facts, loop) for loop in loops):
        return
    counts = {facts.training.folds.count(loop) for loop in loops} - {None}
    for node in facts.script.all(ast.BinOp):
        count = node.right.value if isinstance(node.right, ast.Constant) else None
        planned = count in counts or _says_folds(node.right)
        summed = isinstance(node.op, ast.Div) and is_call(node.left, "sum")
        if summed and planned and not isinstance(node.right, ast.Call):
            yield needs_all(node, "shared-by-all")


def _refused(facts: Facts) -> Iterator[Finding]:
    """`assert len(models) == N_FOLDS`, `if len(models) < N_FOLDS: raise ...`."""
    checks: list[ast.Assert | ast.If] = [*facts.script.all(ast.Assert)]
    checks += [node for node in facts.script.all(ast.If) if any(map(_ends_here, node.body))]
    for check in checks:
        refuses = (ast.Eq, ast.GtE) if isinstance(check, ast.Assert) else (ast.NotEq, ast.Lt)
        if isinstance(check.test, ast.Compare) and isinstance(check.test.ops[0], refuses):
            sides = [check.test.left, *check.test.comparators]
            counted = any(is_call(s, "len") and _COUNTED.search(ast.dump(s)[:600]) for s in sides)
            if counted and any(_says_folds(s) for s in sides if not isinstance(s, ast.Call)):
                yield needs_all(check, "refused")


def _ends_here(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Raise) or is_call(getattr(statement, "value", None), "exit", "_exit")


def _may_leave_out(facts: Facts, loop: ast.For | ast.While) -> bool:
    """Whether the loop over folds can pass one over or end before the last: then the share is wrong.

    Where it cannot, the sum over folds in one process is the usual and right thing.
    """
    return any(
        isinstance(node, ast.Return | ast.Try)
        or (isinstance(node, ast.Break | ast.Continue) and facts.script.loops(node)[0] is loop)
        for node in facts.script.within(loop.body, follow=False)
    )


def _says_folds(node: ast.AST) -> bool:
    """`N_FOLDS`, `cfg.folds`, `CONFIG["n_folds"]`."""
    keys = [n.slice for n in ast.walk(node) if isinstance(n, ast.Subscript)]
    found = words_in(node) | {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    return any(_FOLDS.search(word) for word in found)


def _is_range_of_folds(facts: Facts, node: ast.AST) -> bool:
    """`range(N_FOLDS)`, `range(5)`, `[0, 1, 2]`, `CFG.folds`, or the paths of all folds written down."""
    if isinstance(node, ast.Call) and node.args:
        if is_call(node, "tqdm", "enumerate"):
            return _is_range_of_folds(facts, node.args[0])
        counted = bool(facts.values.number(node.args[0])) or _says_folds(node.args[0])
        return is_call(node, "range", "trange") and counted
    if isinstance(node, ast.List | ast.Tuple):
        found = facts.values.one(node)
        if not isinstance(found, list):
            return False
        numbered = len(found) > 1 and all(isinstance(v, str) and _NUMBERED.search(v) for v in found)
        return numbered or all(isinstance(v, int) for v in found)
    if isinstance(node, Comprehension):
        over = node.generators[0]
        named = re.search(r"fold|cv", ast.dump(node.elt) + ast.dump(over.iter), re.IGNORECASE)
        return bool(named) and not over.ifs and _is_range_of_folds(facts, over.iter)
    sources = facts.values.assigned(node.id, node) if isinstance(node, ast.Name) else []
    if len(sources) == 1 and isinstance(sources[0], ast.ListComp):
        return _is_range_of_folds(facts, sources[0])
    named = re.search(r"folds$", last_name(node), re.IGNORECASE)
    return bool(named) and facts.values.one(node) is not None


def _loads_fold(facts: Facts, call: ast.Call, around: ast.AST, target: ast.AST) -> bool:
    """A load whose path has the loop's variable in it."""
    if not _LOADS.match(last_name(call.func)):
        return False
    if facts.script.qualified(call.func).startswith(("json.", "yaml.", "numpy.")):
        return False
    names, given = names_in(target), arguments_of(call)
    named = any(re.search(r"fold|^k$|^i$|^f$", name, re.IGNORECASE) for name in names)
    if isinstance(around, ast.For) and not named:  # numbered weights, not parts of the data
        listed = isinstance(around.iter, ast.Name | ast.ListComp | ast.List | ast.Tuple)
        return any(words_in(g) & names and (listed or _WEIGHTS.search(ast.dump(g))) for g in given)
    paths: list[ast.AST] = [*given]
    for name in (n for g in given for n in ast.walk(g) if isinstance(n, ast.Name)):
        paths += facts.values.assigned(name.id, name)
    if any(words_in(path) & names for path in paths):
        return True
    function = facts.script.function(call)
    if function is None or function is facts.script.function(around):
        return False
    return any(re.search(r"fold|path|ckpt|weight", p, re.IGNORECASE) for p in parameters_of(function))


def _is_checked(facts: Facts, around: ast.AST) -> bool:
    """Existence is looked at, or a missing file is caught."""
    nodes = [*facts.script.within(around), *facts.script.above(around)]
    called = {last_name(n.func) for n in nodes if isinstance(n, ast.Call)}
    looked = any(name in _CHECKS or re.search(r"exist|available|find_", name) for name in called)
    return looked or any(isinstance(n, ast.Try) for n in nodes)
