"""Interface of the values of a script, as the parts that follow mappings, objects and arithmetic use it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Protocol

from memory_service.review.source.nodes import Function
from memory_service.review.source.script import Script

Known = list[Any] | None  # values that are possible, or None for "unknown"


@dataclass(frozen=True)
class Entries:
    """Keys of a mapping with their expressions; `open` where there may be further ones."""

    known: dict[str, ast.AST] = field(default_factory=dict)
    open: bool = False


class ValueLookup(Protocol):
    """What `values.Values` answers; described there."""

    script: Script
    attributes: dict[str, dict[str, list[ast.AST]]]
    arguments: dict[str, list[ast.AST]]
    spread: dict[ast.Call, list[ast.keyword]]

    def text(self, node: ast.AST | None) -> str | None: ...
    def entries(self, node: ast.AST | None, deep: int = 0) -> Entries: ...
    def definitions(self, node: ast.AST, deep: int = 0) -> list[ast.AST | None]: ...
    def sources(self, node: ast.AST) -> list[ast.AST]: ...
    def binding(self, name: str, at: ast.AST) -> tuple[ast.AST, list[ast.AST | None]] | None: ...
    def callers(self, function: Function) -> tuple[list[ast.Call], int]: ...
    def passed(self, function: Function, name: str) -> list[ast.AST | None]: ...
