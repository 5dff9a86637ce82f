"""Calls of what the file defines; lists, tuples, dicts and the builtins that iterate."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from memory_service.review.interpretation.rows import (
    element_of,
    names_of_table,
    outside_rows,
    slides,
    slides_along,
)
from memory_service.review.interpretation.state import (
    MOST_STEPS,
    Scope,
    Use,
    Value,
    Walk,
    derived,
    either,
    evaluate,
    library,
    one_of,
    run_body,
)
from memory_service.review.source.nodes import Function, bases_of, last_name
from memory_service.review.tables import patterns

_RE = patterns("interpretation")
Named = dict[str, Value]
MOST_CALLED = 8  # functions entered within one another
MOST_BASES = 4  # classes above one another
MOST_TIMES = 12  # A function is entered that often; a run of the script may do it a thousand times


def is_own(walk: Walk, base: Value, name: str) -> bool:
    found = base.kind and (method_of(walk, base.kind, name) or class_attribute(walk, base.kind, name))
    return name in base.attrs or found is not None


def call_value(walk: Walk, callee: Value, args: list[Value], named: Named) -> Value:
    """What a function of the file gives for these."""
    if callee.function is None:
        return derived(*args, *named.values())
    if isinstance(callee.function, ast.Lambda):
        inner = Scope(bind(walk, callee.function.args, args, named, callee.scope), callee.scope)
        return evaluate(walk, callee.function.body, inner)
    return enter_function(walk, callee.function, args, named, callee.owner, callee.scope or walk.module)


def enter_function(
    walk: Walk, function: Function, args: list[Value], named: Named, owner: Value | None, scope: Scope
) -> Value:
    again = function in walk.active or walk.times[function] >= MOST_TIMES
    if again or len(walk.active) > MOST_CALLED or walk.steps > MOST_STEPS:
        walk.times[function] += 1
        return derived(*args, *named.values(), owner)
    walk.times[function] += 1
    free = walk.times[function] == 1 and not args and not named
    static = any(last_name(d) == "staticmethod" for d in function.decorator_list)
    given = args if owner is None or static else [owner, *args]
    inner = Scope(bind(walk, function.args, given, named, scope, fresh=free), scope)
    walk.active.append(function)
    walk.returned.append([])
    walk.yielded.append([])
    loops, walk.loops = walk.loops, []
    run_body(walk, function.body, inner)
    walk.loops = loops
    returned, yielded = walk.returned.pop(), walk.yielded.pop()
    walk.active.pop()
    if yielded:
        return Value(element=one_of(yielded))
    return one_of(returned) if returned else Value(const=None)


def bind(
    walk: Walk,
    parameters: ast.arguments,
    given: list[Value],
    named: Named,
    scope: Scope | None,
    fresh: bool = False,
) -> Named:
    """Parameters with what is given for them; with `fresh` those left out are rows of their own."""
    out: Named = {}
    positional = [*parameters.posonlyargs, *parameters.args]
    behind = len(positional) - len(parameters.defaults)
    at_home = scope or walk.module
    for at, parameter in enumerate(positional):
        if at < len(given):
            out[parameter.arg] = given[at]
        elif parameter.arg in named:
            out[parameter.arg] = named[parameter.arg]
        elif at >= behind:
            out[parameter.arg] = evaluate(walk, parameters.defaults[at - behind], at_home)
        else:
            out[parameter.arg] = outside_rows(walk, parameter, parameter.arg) if fresh else Value()
    for parameter, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
        item = named.get(parameter.arg)
        out[parameter.arg] = item if item is not None else evaluate(walk, default, at_home)
    walk.answers += [value for name, value in out.items() if _RE.target.match(name)]
    if parameters.vararg is not None:
        out[parameters.vararg.arg] = Value(items=list(given[len(positional) :]))
    if parameters.kwarg is not None:
        out[parameters.kwarg.arg] = Value(keys={k: v for k, v in named.items() if k not in out})
    return out


def make_instance(walk: Walk, item: Value, args: list[Value], named: Named, node: ast.Call | None) -> Value:
    """An object of a class of the file, its `__init__` run, and what indexing it gives."""
    owner = item.kind
    if owner is None:
        return Value()
    made = Value(made=owner.name, kind=owner, scope=item.scope, call=node)
    method = method_of(walk, owner, "__init__")
    if method is not None:
        enter_function(walk, method, args, named, made, item.scope or walk.module)
    else:
        fields = [last_name(s.target) for s in owner.body if isinstance(s, ast.AnnAssign)]
        made.attrs |= dict(zip(fields, args, strict=False)) | named
    for hook in ("__post_init__", "__getitem__"):
        method = method_of(walk, owner, hook)
        if method is not None:
            given = enter_function(walk, method, [Value()], {}, made, item.scope or walk.module)
            if hook == "__getitem__":
                made.element = given
                if any(slides(method, position) for position in method.args.args[1:2]):
                    made.series |= {method}  # `return self.v[i : i + self.n]`: neighbours share rows
    if not bases_of(owner) & {"Dataset", "Module", "Sequence"}:
        walk.made.append(made)
    return made


def methods_in(owner: ast.ClassDef | None) -> Iterator[Function]:
    return (part for part in (owner.body if owner is not None else ()) if isinstance(part, Function))


def _classes_above(walk: Walk, owner: ast.ClassDef) -> Iterator[ast.ClassDef]:
    above = (walk.script.classes.get(last_name(base)) for base in owner.bases)
    return (one for one in above if one is not None and one is not owner)


def method_of(walk: Walk, owner: ast.ClassDef, name: str, deep: int = 0) -> Function | None:
    own = (method for method in methods_in(owner) if method.name == name)
    above = _classes_above(walk, owner) if deep < MOST_BASES else ()
    inherited = (found for one in above if (found := method_of(walk, one, name, deep + 1)))
    return next(chain(own, inherited), None)


def class_attribute(walk: Walk, owner: ast.ClassDef, name: str, deep: int = 0) -> Value | None:
    item = walk.module.find(owner.name)
    if item is not None and name in item.attrs:
        return item.attrs[name]
    above = _classes_above(walk, owner) if deep < MOST_BASES else ()
    return next((found for one in above if (found := class_attribute(walk, one, name, deep + 1))), None)


def collection_method(walk: Walk, use: Use) -> Value | None:
    """Lists, tuples and dicts of the script's own."""
    base, name, args = use.base, use.name, use.args
    if name in ("append", "add", "extend", "insert", "appendleft") and args:
        base.element = either(base.element, element_of(walk, args[-1]) if name == "extend" else args[-1])
        loop = walk.loops[-1] if walk.loops else None
        if isinstance(loop, ast.For) and slides_along(loop, use.node):
            base.series |= {use.node}
        base.items = base.items or None
        return Value(const=None)
    if name in ("remove", "discard", "pop", "clear", "update") and (base.items or name == "update"):
        base.items, base.element = None, Value()  # what is left, or there now, is unknown
        base.keys = None if base.keys is None else {}
    return Value() if name in ("keys", "clear", "sort", "reverse", "remove", "discard", "update") else None


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
    if use.first.whole and use.name in ("list", "set", "sorted", "tuple"):
        return names_of_table(use.first)
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
