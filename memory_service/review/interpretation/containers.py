"""Lists, tuples, dicts and the builtins that iterate over them."""

from __future__ import annotations

import ast
from dataclasses import replace

from memory_service.review.interpretation.evaluation import library
from memory_service.review.interpretation.functions import call_value
from memory_service.review.interpretation.rows import element_of, slides_along
from memory_service.review.interpretation.state import Use, Walk
from memory_service.review.interpretation.value import Value, either, one_of

MOST_NAMES = 200  # texts that a list is followed to by name; a longer one only grows


def collection_method(walk: Walk, use: Use) -> Value | None:
    """Lists, tuples and dicts of the script's own."""
    base, name, args = use.base, use.name, use.args
    names = _as_text(args[0]) if len(args) == 1 and base.items is not None else None
    if names is not None and name in ("append", "add", "extend", "update"):
        change = [*(base.items or ()), *names]
        if len(change) <= MOST_NAMES:
            base.items = change
            return Value(const=None)
    if names is not None and name in ("remove", "discard"):
        dropped = {one.const for one in names}
        base.items = [item for item in base.items or () if item.const not in dropped]
        return Value(const=None)
    if name in ("append", "add", "extend", "insert", "appendleft") and args:
        base.element = either(base.element, element_of(walk, args[-1]) if name == "extend" else args[-1])
        loop = walk.loops[-1] if walk.loops else None
        if isinstance(loop, ast.For) and slides_along(loop, use.node):
            base.series |= {use.node}
        base.items = base.items or None
        return Value(const=None)
    if name in ("keys", "clear", "sort", "reverse"):
        return Value()
    if name == "copy":
        keys = dict(base.keys) if base.keys is not None else None
        return Value(items=base.items, keys=keys, element=base.element)
    return dict_method(use) if base.keys is not None else None


def dict_method(use: Use) -> Value | None:
    keys = use.base.keys or {}
    every = [use.base.element, *keys.values()]
    if use.name == "items":
        return Value(element=Value(items=[Value(), one_of(every)]))
    if use.name == "values":
        return Value(items=list(keys.values()) or None, element=use.base.element)
    if use.name in ("get", "pop", "setdefault"):
        return keys.get(str(use.args[0].const) if use.args else "") or one_of(every)
    if use.name == "update":
        for given in use.args:
            keys.update(given.keys or {})
        keys.update(use.named)
        use.base.keys = keys
        return Value(const=None)
    return None


@library("enumerate")
def enumerated(walk: Walk, use: Use) -> Value:
    first = element_of(walk, use.first) if use.first is not None else Value()
    return Value(element=Value(items=[Value(), first]))


@library("zip")
def zipped(walk: Walk, use: Use) -> Value:
    return Value(element=Value(items=[element_of(walk, item) for item in use.args]))


@library("tqdm", "trange", "reversed", "iter", "list", "tuple", "sorted", "set", "track", "progress_bar")
def copied(_walk: Walk, use: Use) -> Value | None:
    """What goes through a thing, or copies it."""
    if use.first is None:
        return Value(items=[]) if use.name == "list" else None
    if use.name in ("list", "set", "sorted", "tuple") and (use.first.items or use.first.names):
        return replace(use.first)  # a copy, which may lose names by itself
    return use.first


@library("range")
def make_range(_walk: Walk, use: Use) -> Value:
    return Value(order=True, made=use.name)


@library("clone", "deepcopy", "copy")
def cloned(_walk: Walk, use: Use) -> Value | None:
    first = use.first
    if first is None or not first.made:
        return first
    return Value(made=first.made, items=first.items, attrs=dict(first.attrs), call=first.call)


@library("map")
def mapped(walk: Walk, use: Use) -> Value | None:
    if len(use.args) < 2 or use.args[0].function is None:
        return None
    return Value(element=call_value(walk, use.args[0], [element_of(walk, item) for item in use.args[1:]], {}))


def _as_text(given: Value) -> list[Value] | None:
    """The texts that a value is, one or several; None for anything else."""
    item = given.items if given.items is not None else [given]
    return item if item and all(isinstance(one.const, str) for one in item) else None
