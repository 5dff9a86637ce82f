"""Statements in the order of a run; functions are entered where they are called."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from memory_service.review.interpretation.expressions import assign, enter_doubt, leave_doubt, truth_of
from memory_service.review.interpretation.learning import enter_function, make_instance, methods_in, sum_into
from memory_service.review.interpretation.rows import combine, drop_column, element_of, note_names
from memory_service.review.interpretation.state import (
    Scope,
    Value,
    Walk,
    constant,
    either,
    evaluate,
    run_body,
    runs,
)
from memory_service.review.source.script import Function
from memory_service.review.values.values import Values


@runs(
    ast.Expr, ast.AnnAssign, ast.While, ast.Raise, ast.Continue, ast.Break, ast.Global, ast.FunctionDef,
    ast.AsyncFunctionDef,
)  # fmt: skip
def run_plain(walk: Walk, node: ast.stmt, scope: Scope) -> bool:
    match node:
        case ast.Expr(value=value):
            evaluate(walk, value, scope)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            assign(walk, target, evaluate(walk, value, scope), scope)
        case ast.While():
            evaluate(walk, node.test, scope)
            run_body(walk, node.body, scope)
        case ast.Global(names=names):
            walk.shared.setdefault(id(scope), set()).update(names)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            scope.names[node.name] = Value(function=node, scope=scope)
    return isinstance(node, ast.Raise | ast.Continue | ast.Break)


@runs(ast.Assign)
def run_assign(walk: Walk, node: ast.Assign, scope: Scope) -> None:
    value = evaluate(walk, node.value, scope)
    for target in node.targets:
        assign(walk, target, value, scope)
        note_names(walk, target, node.value, value)


@runs(ast.AugAssign)
def run_augassign(walk: Walk, node: ast.AugAssign, scope: Scope) -> None:
    before, more = evaluate(walk, node.target, scope), evaluate(walk, node.value, scope)
    if isinstance(node.target, ast.Subscript) and isinstance(node.op, ast.Add):
        more = sum_into(walk, node, evaluate(walk, node.target.slice, scope), more)
    after = combine(walk, node, node.op, before, more)
    if before.items is not None or before.element is not None:
        after.element = either(before.element, after.element) if after.element else before.element
    assign(walk, node.target, after, scope)


@runs(ast.Return)
def run_return(walk: Walk, node: ast.Return, scope: Scope) -> bool:
    if walk.returned:
        walk.returned[-1].append(evaluate(walk, node.value, scope) if node.value else Value(const=None))
    return True


@runs(ast.If)
def run_if(walk: Walk, node: ast.If, scope: Scope) -> bool:
    evaluate(walk, node.test, scope)
    known = truth_of(walk, node.test, scope)
    if known is not None:
        return run_body(walk, node.body if known else node.orelse, scope)
    return run_branches(walk, [node.body, node.orelse], scope, node.test)


def run_branches(
    walk: Walk, bodies: Sequence[Sequence[ast.stmt]], scope: Scope, test: ast.AST | None = None
) -> bool:
    """One of these runs; what follows is true for any of them."""
    before = dict(scope.names)
    left: list[dict[str, Value]] = []
    known = enter_doubt(walk, test, scope)
    for body in bodies:
        scope.names = dict(before)
        walk.steps += len(before) // 10
        if not run_body(walk, body, scope):
            left.append(scope.names)
    leave_doubt(walk, known)
    if not left:
        scope.names = before
        return True
    merged = left[0]
    for names in left[1:]:
        merged = {name: either(merged.get(name), names.get(name)) for name in {**merged, **names}}
    scope.names = merged
    return False


@runs(ast.For, ast.AsyncFor)
def run_for(walk: Walk, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
    over = evaluate(walk, node.iter, scope)
    passes = [element_of(walk, over)]
    if over.items is not None and 1 < len(over.items) <= 4:
        passes = list(over.items)
    walk.loops.append(node)
    for item in passes:
        assign(walk, node.target, item, scope)
        run_body(walk, node.body, scope)
    walk.loops.pop()
    run_body(walk, node.orelse, scope)


@runs(ast.With, ast.AsyncWith)
def run_with(walk: Walk, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
    for item in node.items:
        operand = evaluate(walk, item.context_expr, scope)
        if item.optional_vars is not None:
            assign(walk, item.optional_vars, operand, scope)
    return run_body(walk, node.body, scope)


@runs(ast.Try)
def run_try(walk: Walk, node: ast.Try, scope: Scope) -> bool:
    return run_body(walk, [*node.body, *node.orelse, *node.finalbody], scope)


@runs(ast.ClassDef)
def run_classdef(walk: Walk, node: ast.ClassDef, scope: Scope) -> None:
    item = Value(kind=node, scope=scope)
    inner = Scope({}, scope)
    run_body(walk, [s for s in node.body if not isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)], inner)
    item.attrs = inner.names
    scope.names[node.name] = item


@runs(ast.Delete)
def run_delete(walk: Walk, node: ast.Delete, scope: Scope) -> None:
    for target in node.targets:
        if isinstance(target, ast.Subscript):
            key, base = constant(walk, target.slice, scope), evaluate(walk, target.value, scope)
            if isinstance(key, str):
                drop_column(base, key)


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
