"""Walks the statements of a script in the order of a run and enters functions where they are called.

What comes of it: `divisions` of rows, `leaks` (learned from rows that a division sets apart), `codings`."""

from __future__ import annotations

from collections.abc import Iterable

from memory_service.review.constants.values import Values
from memory_service.review.interpretation import division, statements  # noqa: F401 - they register handlers
from memory_service.review.interpretation.evaluation import run_body
from memory_service.review.interpretation.functions import enter_function, make_instance, methods_in
from memory_service.review.interpretation.state import Walk
from memory_service.review.interpretation.value import Value
from memory_service.review.source.nodes import Function


def walk_script(values: Values) -> Walk:
    """What a run would do. Where the walk asks for the targets, it is made again with those found."""
    first = Walk(values)
    _walk(first)
    targets = _target_columns(first.answers) | first.target_names
    if not first.needs_targets or not targets:
        return first
    second = Walk(values, targets)
    _walk(second)
    return second


def _target_columns(values: Iterable[Value]) -> frozenset[str]:
    """The columns that targets are, and those of which one is the logarithm or root."""
    out: set[str] = set()
    for value in values:
        own = value.columns if value.columns is not None and len(value.columns) == 1 else frozenset[str]()
        if len(value.reads | own) <= 1 or (own and len(value.reads - own) == 1):
            out |= value.reads | own
    return frozenset(out)


def _walk(walk: Walk) -> None:
    """The module, then what nothing in it calls: methods that a framework calls, offered functions."""
    walk.returned.append([])
    walk.yielded.append([])
    run_body(walk, walk.script.tree.body, walk.module)
    for made in list(walk.made):
        for method in methods_in(made.kind):
            if method not in walk.times and not method.name.startswith("__"):
                enter_function(walk, method, [], {}, made, walk.module)
    for function in [function for functions in walk.script.functions.values() for function in functions]:
        if function not in walk.times and not isinstance(walk.script.scope(function), Function):
            enter_alone(walk, function)


def enter_alone(walk: Walk, function: Function) -> None:
    """A function that nothing here calls, with rows of its own for each parameter."""
    owner: Value | None = None
    around = walk.script.class_of(function)
    if around is not None:  # methods of one class are of one object
        if around not in walk.objects:
            item = walk.module.find(around.name) or Value(kind=around)
            walk.objects[around] = make_instance(walk, item, [], {}, None)
        owner = walk.objects[around]
    if function not in walk.times:
        enter_function(walk, function, [], {}, owner, walk.module)
