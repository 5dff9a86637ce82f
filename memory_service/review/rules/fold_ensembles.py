"""Can prediction do with the folds that there are?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.script import last_name, roots, words_in

__all__ = ["missing_fold_rules"]

_LOADS = frozenset(
    (
        "load",
        "load_model",
        "load_checkpoint",
        "from_pretrained",
        "load_from_checkpoint",
        "Booster",
        "load_weights",
    )
)
_CHECKS = frozenset(
    ("exists", "isfile", "is_file", "glob", "rglob", "iglob", "listdir", "iterdir", "scandir")
)
_FOLDS = re.compile(
    r"n_?(folds|splits)|num_?(folds|splits)|^n?folds$|^k$|n_splits|kfold|^k_folds?$", re.IGNORECASE
)
_KEPT = re.compile(r"fold|ckpt|checkpoint|model|weights|\.pth?\b|\.cbm|\.ubj|\.joblib|\.pkl", re.IGNORECASE)
_NUMBERED = re.compile(r"(fold|model|cv|split|f|m)_?-?\d\D*$", re.IGNORECASE)
_WEIGHTS = re.compile(r"fold|model|ckpt|checkpoint|weight|best|state|\.pth|cv", re.IGNORECASE)


def missing_fold_rules(facts: Facts) -> Iterator[Finding]:
    """prediction-needs-all-folds: every checkpoint loaded unseen, or a share of the folds planned."""
    yield from _loaded_unseen(facts)
    yield from _fixed_share(facts)
    yield from _shared_by_all(facts)
    yield from _refused(facts)


def _loaded_unseen(facts: Facts) -> Iterator[Finding]:
    """`for fold in range(N_FOLDS): load(f"fold_{fold}.pt")` where nothing asks whether the file is there."""
    script = facts.script
    trained = set(facts.training.fold_loops)
    loading = any(_loads(name) for name in script.calls_by_name)
    inside = {node for loop in trained for node in script.within(loop.body)}
    for loop in script.all(ast.For) if loading else ():
        if loop in trained or not _range_of_folds(facts, loop.iter):
            continue
        loads = [c for c in script.within_calls(loop.body) if _loads_fold(facts, c, loop)]
        if loads and not _checked(facts, loop):
            here = facts.script.function(loads[0]) is facts.script.function(loop)
            yield finding(
                "prediction-needs-all-folds",
                loads[0] if here else loop,
                "Every fold's checkpoint is loaded without a look whether it is there: one missing fold, "
                "no submission.",
                'paths = sorted(Path(OUT).glob("fold_*.pt"))  # mean over those that exist',
                since=loop,
            )
    comps: list[ast.ListComp | ast.GeneratorExp] = [*script.all(ast.ListComp), *script.all(ast.GeneratorExp)]
    for comp in comps if loading else ():
        if comp in inside:
            continue
        over = comp.generators[0]
        if over.ifs or not _range_of_folds(facts, over.iter):
            continue
        if any(_loads_fold(facts, c, comp) for c in script.within_calls(comp.elt)) and not _checked(
            facts, comp
        ):
            yield finding(
                "prediction-needs-all-folds",
                comp,
                "Every fold's checkpoint is loaded without a look whether it is there.",
                'paths = sorted(Path(OUT).glob("fold_*.pt"))  # average those that exist',
            )


def _fixed_share(facts: Facts) -> Iterator[Finding]:
    """`test_pred += model.predict(test) / N_FOLDS`: wrong as soon as one fold is missing."""
    trained = set(facts.training.fold_loops)
    for grown in facts.script.all(ast.AugAssign):
        if not isinstance(grown.op, ast.Add):
            continue
        value = grown.value
        if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div | ast.Mult)):
            continue
        share = value.right
        if isinstance(value.op, ast.Mult):
            divided = [
                n.right for n in ast.walk(value) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)
            ]
            if not divided:
                continue
            share = divided[0]
        around = [up for up in facts.script.loops(grown) if isinstance(up, ast.For)]
        around = [up for up in around if up in trained or facts.training.is_fold(up)]
        if not around:
            continue
        over = next((up for up in around if up in trained or _fits(facts, up)), None)
        number = facts.values.number(share)
        named = _says_folds(share)
        if not named and not (
            over is not None and number is not None and number == facts.training.fold_count(over)
        ):
            continue
        if isinstance(share, ast.Call) and last_name(share.func) == "len" and not _all_planned(share):
            continue
        if over is not None and not _may_leave_out(facts, over):
            continue
        yield finding(
            "prediction-needs-all-folds",
            grown,
            "The sum is divided by the folds planned, but the loop can end before the last one.",
            "preds.append(model.predict(test))  # np.mean(preds, axis=0) over the folds that exist",
        )


def _fits(facts: Facts, loop: ast.For) -> bool:
    """Whether each turn trains its own model, of whatever library."""
    fits = {fit.call for fit in facts.training.fits}
    return any(call in fits for call in facts.script.within_calls(loop.body))


def _shared_by_all(facts: Facts) -> Iterator[Finding]:
    """`sum(probs) / FOLDS` of what was loaded from the files that are there."""
    looks = (ast.dump(call)[:600] for call in facts.script.called(*sorted(_CHECKS)))
    if not any(_KEPT.search(look) for look in looks) and not any(
        _may_leave_out(facts, loop) for loop in facts.training.fold_loops
    ):
        return
    counts = {facts.training.fold_count(loop) for loop in facts.training.fold_loops} - {None}
    for node in facts.script.all(ast.BinOp):
        summed = isinstance(node.left, ast.Call) and last_name(node.left.func) == "sum"
        if not isinstance(node.op, ast.Div) or not summed:
            continue
        planned = _says_folds(node.right) or (
            isinstance(node.right, ast.Constant) and node.right.value in counts
        )
        if planned and not isinstance(node.right, ast.Call):
            yield finding(
                "prediction-needs-all-folds",
                node,
                "The sum is divided by the folds planned, however many there are.",
                "np.mean(probs, axis=0)  # over the folds that exist",
            )


def _refused(facts: Facts) -> Iterator[Finding]:
    """`assert len(models) == N_FOLDS` and its like."""
    script = facts.script
    refused: list[tuple[ast.AST, ast.AST]] = [(check, check.test) for check in script.all(ast.Assert)]
    refused += [
        (node, node.test)
        for node in script.all(ast.If)
        if any(isinstance(n, ast.Raise) or _exits(n) for n in node.body)
    ]
    for check, test in refused:
        if isinstance(test, ast.Compare) and _counts_folds(test, isinstance(check, ast.Assert)):
            yield finding(
                "prediction-needs-all-folds",
                check,
                "Prediction refuses to run with fewer folds than planned.",
                "average the folds that exist, and say how many",
            )


def _may_leave_out(facts: Facts, loop: ast.For) -> bool:
    """Whether the loop over folds can pass one over or end before the last: then the share is wrong.

    Where it cannot, the sum over folds in one process is the usual and right thing.
    """
    return any(
        isinstance(node, ast.Return | ast.Try)
        or (isinstance(node, ast.Break | ast.Continue) and facts.script.loops(node)[0] is loop)
        for node in facts.script.within(loop.body, follow=False)
    )


def _all_planned(share: ast.Call) -> bool:
    return any(re.search(r"fold|split", w, re.IGNORECASE) for w in roots(share))


def _says_folds(node: ast.AST) -> bool:
    """`N_FOLDS`, `cfg.folds`, `CONFIG["n_folds"]`."""
    keys = [n.slice for n in ast.walk(node) if isinstance(n, ast.Subscript)]
    said = words_in(node) | {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    return any(_FOLDS.search(word) for word in said)


def _named_as_fold(loop: ast.For) -> bool:
    """A loop whose variable is called as folds are."""
    return any(
        re.search(r"fold|^k$|^i$|^f$", n.id, re.IGNORECASE)
        for n in ast.walk(loop.target)
        if isinstance(n, ast.Name)
    )


def _range_of_folds(facts: Facts, node: ast.AST) -> bool:
    """`range(N_FOLDS)`, `range(5)`, `[0, 1, 2]`, `CFG.folds`."""
    if (
        isinstance(node, ast.Call)
        and last_name(node.func) in ("range", "tqdm", "trange", "enumerate")
        and node.args
    ):
        inner = node.args[0]
        if last_name(node.func) in ("tqdm", "enumerate"):
            return _range_of_folds(facts, inner)
        return bool(facts.values.number(inner)) or _says_folds(inner)
    if isinstance(node, ast.List | ast.Tuple):
        found = facts.values.one(node)
        if isinstance(found, list) and len(found) > 1 and all(isinstance(v, str) for v in found):
            return all(_NUMBERED.search(v) for v in found)
        return isinstance(found, list) and all(isinstance(v, int) for v in found)
    if isinstance(node, ast.ListComp | ast.GeneratorExp):  # the paths of all folds, written down beforehand
        over = node.generators[0]
        named = re.search(r"fold|cv", ast.dump(node.elt) + ast.dump(over.iter), re.IGNORECASE)
        return bool(named) and not over.ifs and _range_of_folds(facts, over.iter)
    sources = facts.values.assigned(node.id, node) if isinstance(node, ast.Name) else []
    if len(sources) == 1 and isinstance(sources[0], ast.ListComp):
        return _range_of_folds(facts, sources[0])
    return (
        isinstance(node, ast.Name | ast.Attribute)
        and bool(re.search(r"folds$", last_name(node), re.IGNORECASE))
        and (facts.values.one(node) is not None)
    )


def _loads(name: str) -> bool:
    return name in _LOADS or bool(re.search(r"^load_\w*(model|fold|ckpt|checkpoint|weights)", name))


def _loads_fold(facts: Facts, call: ast.Call, around: ast.AST) -> bool:
    """A load whose path has the loop's variable in it."""
    name = last_name(call.func)
    if not _loads(name):
        return False
    if name == "load" and facts.script.qualified(call.func).startswith(("json.", "yaml.", "numpy.")):
        return False
    target = around.target if isinstance(around, ast.For) else around.generators[0].target  # type: ignore[attr-defined]
    names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    given = [*call.args, *(k.value for k in call.keywords)]
    if isinstance(around, ast.For) and not _named_as_fold(around):  # numbered weights, not parts of the data
        listed = isinstance(around.iter, ast.Name | ast.ListComp | ast.List | ast.Tuple)
        return any(words_in(g) & names and (listed or _WEIGHTS.search(ast.dump(g))) for g in given)
    if any(words_in(g) & names for g in given):
        return True
    for node in (n for g in given for n in ast.walk(g) if isinstance(n, ast.Name)):
        if any(words_in(s) & names for s in facts.values.assigned(node.id, node)):
            return True
    function = facts.script.function(call)
    return (
        function is not None
        and function is not facts.script.function(around)
        and any(re.search(r"fold|path|ckpt|weight", p.arg, re.IGNORECASE) for p in function.args.args)
    )


def _checked(facts: Facts, around: ast.AST) -> bool:
    """Existence is looked at, or a missing file is caught."""
    nodes = list(facts.script.within(around))
    if any(isinstance(n, ast.Call) and last_name(n.func) in _CHECKS for n in nodes):
        return True
    if any(isinstance(n, ast.Try) for n in nodes):
        return True
    return any(isinstance(up, ast.Try) for up in facts.script.above(around)) or any(
        isinstance(n, ast.Call) and re.search(r"exist|available|find_", last_name(n.func)) for n in nodes
    )


def _exits(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and last_name(node.value.func) in ("exit", "_exit")
    )


def _counts_folds(test: ast.Compare, asserted: bool) -> bool:
    sides = [test.left, *test.comparators]
    counted = any(isinstance(s, ast.Call) and last_name(s.func) == "len" for s in sides)
    planned = any(_says_folds(s) for s in sides if not isinstance(s, ast.Call))
    models = any(
        re.search(r"model|path|ckpt|checkpoint|fold_|pred|weight", ast.dump(s)[:600], re.IGNORECASE)
        for s in sides
        if isinstance(s, ast.Call)
    )
    refused = (ast.Eq, ast.GtE) if asserted else (ast.NotEq, ast.Lt)
    return counted and planned and models and isinstance(test.ops[0], refused)
