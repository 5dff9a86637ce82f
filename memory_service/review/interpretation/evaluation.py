"""The one evaluator: what an expression gives, what a body of statements does. Handlers by type of node."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from memory_service.review.interpretation.registry import EXPRESSIONS, STATEMENTS
from memory_service.review.interpretation.state import MOST_STEPS, Walk
from memory_service.review.interpretation.value import UNKNOWN, Scope, Value, derived
from memory_service.review.source.nodes import last_name

MOST_DEEP = 120


def evaluate(walk: Walk, node: ast.AST | None, scope: Scope) -> Value:
    """What an expression gives."""
    walk.steps += 1
    if node is None or walk.steps > MOST_STEPS or walk.deep > MOST_DEEP:
        return Value()
    walk.deep += 1
    try:
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            held = [evaluate(walk, c, scope) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
            return derived(*held)
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
