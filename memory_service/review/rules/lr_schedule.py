"""Is the scheduler of the learning rate stepped as often, and with what, as it was made for?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.script import last_name, words_in

__all__ = ["step_rules"]

_BY_BATCH = re.compile(r"^(OneCycleLR|CyclicLR|get_\w+_schedule(_with_\w+)?|get_scheduler)$")
_LOADER = re.compile(r"loader|(^|_)dl(_|$)|^dl|_dl$|batches|dataloader|iterator", re.IGNORECASE)


def step_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter: a schedule of batches that steps by epochs, or a plateau without its metric."""
    for call in facts.script.called("step"):
        if not isinstance(call.func, ast.Attribute):
            continue
        maker = _maker(facts, call.func.value)
        if maker is None:
            continue
        name = last_name(maker.func)
        if name == "ReduceLROnPlateau" and not call.args and not call.keywords:
            yield finding(
                "wrong-parameter",
                call,
                "ReduceLROnPlateau steps by a metric; without it step() fails.",
                "scheduler.step(valid_loss)",
            )
        elif _BY_BATCH.match(name) and _counts_batches(facts, maker) and _once_an_epoch(facts, call):
            yield finding(
                "wrong-parameter",
                call,
                f"{name} was made for one step a batch, but steps once an epoch: the rate hardly moves.",
                "scheduler.step()  # in the loop over batches, behind optimizer.step()",
            )
        elif name == "CosineAnnealingLR" and _every_batch(facts, call) and _counts_epochs(facts, maker):
            yield finding(
                "wrong-parameter",
                call,
                "CosineAnnealingLR was made for one step an epoch, but steps every batch: the rate swings.",
                "T_max=EPOCHS * len(loader), or scheduler.step() behind the loop over batches",
            )


def _maker(facts: Facts, node: ast.AST) -> ast.Call | None:
    if isinstance(node, ast.Name):
        sources = facts.values.assigned(node.id, node)
        function = facts.script.function(node)
        if not sources and function is not None:
            names = [a.arg for a in function.args.args]
            for outer in facts.script.calls_by_name.get(function.name, ()) if node.id in names else ():
                given = facts.values.argument(outer, node.id, names.index(node.id))
                if isinstance(given, ast.Name):
                    sources = sources + facts.values.assigned(given.id, given)
    elif isinstance(node, ast.Attribute):
        sources = facts.values.sources(node)
    else:
        sources = []
    made = [s for s in sources if isinstance(s, ast.Call)]
    return made[0] if len(made) == 1 and len(sources) == 1 else None


def _counts_batches(facts: Facts, maker: ast.Call) -> bool:
    """Whether the number of steps was computed from the length of a loader."""
    if any(k.arg == "steps_per_epoch" and facts.values.one(k.value) != 1 for k in maker.keywords):
        return True
    loops = [loop.batch for loop in facts.training.loops if isinstance(loop.batch, ast.For)]
    fed = {w for loop in loops for w in words_in(loop.iter)} - {"self", "enumerate", "tqdm", "range", "zip"}
    pending: list[ast.AST] = [*maker.args[1:], *(k.value for k in maker.keywords)]
    for _ in range(3):
        for node in (n for given in pending for n in ast.walk(given)):
            if (
                isinstance(node, ast.Call)
                and last_name(node.func) == "len"
                and any(_LOADER.search(w) or w in fed for given in node.args for w in words_in(given))
            ):
                return True
        pending = [
            s
            for given in pending
            for n in ast.walk(given)
            if isinstance(n, ast.Name)
            for s in facts.values.assigned(n.id, n)
        ]
    return False


def _counts_epochs(facts: Facts, maker: ast.Call) -> bool:
    given = facts.values.argument(maker, "T_max", 1)
    if given is None or _counts_batches(facts, maker):
        return False
    return isinstance(given, ast.Name | ast.Attribute) and bool(
        re.search(r"epochs?$", last_name(given), re.IGNORECASE)
    )


def _over_batches(facts: Facts, loop: ast.AST) -> bool:
    return (
        isinstance(loop, ast.For)
        and any(
            isinstance(n, ast.Call) and last_name(n.func) == "backward"
            for n in facts.script.within(loop.body)
        )
        and loop not in facts.training.epoch_loops
        and not _has_inner(facts, loop)
    )


def _has_inner(facts: Facts, loop: ast.For) -> bool:
    """Another loop within it holds the backward pass: this one goes over epochs."""
    return any(
        isinstance(n, ast.For)
        and any(isinstance(c, ast.Call) and last_name(c.func) == "backward" for c in ast.walk(n))
        for statement in loop.body
        for n in facts.script.within([statement])
    )


def _once_an_epoch(facts: Facts, call: ast.Call) -> bool:
    loops = [up for up in facts.script.loops(call) if isinstance(up, ast.For)]
    if not loops or _over_batches(facts, loops[0]):
        return False
    batches = {loop.batch for loop in facts.training.loops if loop.batch is not None}
    return _has_inner(facts, loops[0]) or (
        loops[0] not in batches and loops[0] in {loop.epoch for loop in facts.training.loops}
    )


def _every_batch(facts: Facts, call: ast.Call) -> bool:
    loops = [up for up in facts.script.loops(call) if isinstance(up, ast.For)]
    return bool(loops) and _over_batches(facts, loops[0])
