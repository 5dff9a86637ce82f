"""Which function of the interpretation handles which node of the tree, method and library function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

Handler = Callable[..., Any]
"""(walk, node, scope) of a node of the tree, (walk, use) of a call."""

EXPRESSIONS: dict[type[ast.AST], Handler] = {}
STATEMENTS: dict[type[ast.AST], Handler] = {}
METHODS: dict[str, Handler] = {}
LIBRARY: dict[str, Handler] = {}


def _in(table: dict[Any, Handler]) -> Callable[..., Callable[[Handler], Handler]]:
    def of(*keys: Any) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            table.update(dict.fromkeys(keys, handler))
            return handler

        return register

    return of


evaluates, runs, method, library = _in(EXPRESSIONS), _in(STATEMENTS), _in(METHODS), _in(LIBRARY)
