"""The one evaluator: what an expression gives, what a body of statements does. Handlers register for the
nodes, methods or library functions that they interpret."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from memory_service.review.interpretation.state import MOST_STEPS, Walk
from memory_service.review.interpretation.value import UNKNOWN, Scope, Value, derived
from memory_service.review.source.nodes import last_name

Handler = Callable[..., Any]  # (walk, node, scope) of a node of the tree, (walk, use) of a call
EXPRESSIONS: dict[type[ast.AST], Handler] = {}
STATEMENTS: dict[type[ast.AST], Handler] = {}
METHODS: dict[str, Handler] = {}
LIBRARY: dict[str, Handler] = {}
Registered = TypeVar("Registered", bound=Handler)


def _in(table: dict[Any, Handler]) -> Callable[..., Callable[[Registered], Registered]]:
    def of(*keys: Any) -> Callable[[Registered], Registered]:
        def register(handler: Registered) -> Registered:
            table.update(dict.fromkeys(keys, handler))
            return handler

        return register

    return of


evaluates, runs, method, library = _in(EXPRESSIONS), _in(STATEMENTS), _in(METHODS), _in(LIBRARY)

MOST_DEEP = 120


def evaluate(walk: Walk, node: ast.AST | None, scope: Scope) -> Value:
    walk.steps += 1
    if node is None or walk.steps > MOST_STEPS or walk.deep > MOST_DEEP:
        return Value()
    walk.deep += 1
    try:
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            parts = [evaluate(walk, c, scope) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
            return derived(*parts)
        found = handler(walk, node, scope)
        return found if isinstance(found, Value) else Value()
    finally:
        walk.deep -= 1


def constant(walk: Walk, node: ast.AST | None, scope: Scope) -> Any:
    """The constant that an expression is in this run, else None."""
    if node is None:
        return None
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        found = scope.find(node.id)
        if found is not None and found.const is not UNKNOWN:
            return found.const
    if isinstance(node, ast.Slice | ast.Compare) or last_name(node) == "columns":
        return None
    return walk.values.one(node)


LEVELS_OF_A_BODY = 4
"""What a body counts for among expressions within one another: a call takes so many more frames."""


def run_body(walk: Walk, body: Sequence[ast.stmt], scope: Scope) -> bool:
    """Whether it ends what is around it: `return`, `raise`, `continue`, `break`."""
    if walk.deep > MOST_DEEP:
        return False
    walk.deep += LEVELS_OF_A_BODY
    ended = False
    for statement in body:
        walk.steps += 1
        handler = STATEMENTS.get(type(statement))
        if walk.steps > MOST_STEPS or (handler is not None and handler(walk, statement, scope)):
            ended = True
            break
    walk.deep -= LEVELS_OF_A_BODY
    return ended
