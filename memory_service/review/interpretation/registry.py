"""Which function of the interpretation handles which node of the tree, method and library function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeVar

Handler = Callable[..., Any]
"""(walk, node, scope) of a node of the tree, (walk, use) of a call."""

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
