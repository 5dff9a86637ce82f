"""A schedule of the learning rate is stepped as often, and with what, as it was made for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, wrong
from memory_service.review.source.nodes import calls_in, is_call, last_name, receiver, words, words_in

_BY_BATCH = re.compile(r"^(OneCycleLR|CyclicLR|get_\w+_schedule(_with_\w+)?|get_scheduler)$")
_LOADER = re.compile(r"loader|(^|_)dl(_|$)|^dl|_dl$|batches|dataloader|iterator", re.IGNORECASE)


def step_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter: a schedule of batches that steps by epochs, or a plateau without its metric."""
    for call in facts.script.called("step"):
        makers = facts.training.objects.makers(receiver(call))
        if len(makers) != 1:
            continue
        maker, name = makers[0], last_name(makers[0].func)
        if name == "ReduceLROnPlateau" and not call.args and not call.keywords:
            yield wrong(call, "plateau-metric")
        elif _BY_BATCH.match(name) and _counts_batches(facts, maker) and _once_an_epoch(facts, call):
            yield wrong(call, "stepped-by-epoch", name=name)
        elif name == "CosineAnnealingLR" and _every_batch(facts, call) and _counts_epochs(facts, maker):
            yield wrong(call, "stepped-by-batch", name=name)


def _counts_batches(facts: Facts, maker: ast.Call) -> bool:
    """Whether the number of steps was computed from the length of a loader."""
    if any(k.arg == "steps_per_epoch" and facts.values.one(k.value) != 1 for k in maker.keywords):
        return True
    over = (loop.iter for loop in facts.training.batches if isinstance(loop, ast.For))
    supervised = {word for node in over for word in words_in(node)} - words("self enumerate tqdm range zip")
    given: list[ast.AST] = [*maker.args[1:], *(k.value for k in maker.keywords)]
    for _ in range(3):
        lengths = (c for node in given for c in calls_in(node) if is_call(c, "len"))
        if any(w in supervised or _LOADER.search(w) for c in lengths for a in c.args for w in words_in(a)):
            return True
        names = [n for node in given for n in ast.walk(node) if isinstance(n, ast.Name)]
        given = [source for name in names for source in facts.values.assigned(name.id, name)]
    return False


def _counts_epochs(facts: Facts, maker: ast.Call) -> bool:
    given = facts.argument(maker, "T_max", 1)
    named = given is not None and bool(re.search(r"epochs?$", last_name(given), re.IGNORECASE))
    number, epochs = facts.values.number(given), map(facts.training.epochs, facts.training.epoch_loops)
    return (named or (number is not None and number in set(epochs))) and not _counts_batches(facts, maker)


def _has_inner(facts: Facts, loop: ast.For) -> bool:
    """Another loop within it holds the backward pass: this one goes over epochs."""
    inner = (node for node in facts.script.within(loop.body) if isinstance(node, ast.For))
    return any(is_call(call, "backward") for node in inner for call in calls_in(node))


def _nearest(facts: Facts, call: ast.Call) -> ast.For | None:
    return next((up for up in facts.script.loops(call) if isinstance(up, ast.For)), None)


def _every_batch(facts: Facts, call: ast.Call) -> bool:
    loop = _nearest(facts, call)
    if loop is None or loop in facts.training.epoch_loops or _has_inner(facts, loop):
        return False
    return any(is_call(node, "backward") for node in facts.script.within(loop.body))


def _once_an_epoch(facts: Facts, call: ast.Call) -> bool:
    loop = _nearest(facts, call)
    if loop is None or _every_batch(facts, call):
        return False
    over_epochs = loop in {x.epoch for x in facts.training.loops} - facts.training.batches
    return over_epochs or _has_inner(facts, loop)
