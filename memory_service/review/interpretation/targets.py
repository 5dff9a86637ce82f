"""Which columns are to be predicted: by the names that their values go under, and by where they go."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from memory_service.review.constants.values import Values
from memory_service.review.interpretation.value import Value
from memory_service.review.source.nodes import is_call, last_name, receiver

TARGET = re.compile(r"^(y|ys|y_\w+|targets?|labels?|y\d?|Y|train_y|y_train|train_labels?|train_targets?)$")
"""Names of values that are to be predicted."""

TARGET_COLUMN = re.compile(r"^(target|label|y|dependent)(_?(col|column|name|var))?s?$", re.IGNORECASE)
"""Names of constants that name a column to be predicted."""


def target_columns(values: Iterable[Value]) -> frozenset[str]:
    """The columns that targets are, and those of which one is the logarithm or root."""
    out: set[str] = set()
    for value in values:
        own = value.columns if value.columns is not None and len(value.columns) == 1 else frozenset[str]()
        if len(value.reads | own) <= 1 or (own and len(value.reads - own) == 1):
            out |= value.reads | own
    return frozenset(out)


def column_of(values: Values, node: ast.AST) -> str | None:
    """`df["a"]`, `df.loc[:, "a"]`, `df.pop("a")` -> "a"."""
    if isinstance(node, ast.Subscript):
        inner = node.slice
        if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            inner = inner.elts[1]
        return values.text(inner)
    if is_call(node, "pop") and node.args and receiver(node) is not None:
        return values.text(node.args[0])
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    named = named and bool(TARGET_COLUMN.match(last_name(node)))
    return last_name(node) if named and not isinstance(values.one(node), str) else None
