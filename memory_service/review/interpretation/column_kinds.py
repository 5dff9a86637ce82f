"""Kind of a new column (numbers or text), and selections by type."""

from __future__ import annotations

import ast
from typing import Any, Literal

from memory_service.review.constants.values import Values
from memory_service.review.source.nodes import last_name, words

Kind = Literal["number", "text", ""]

MOST_DEEP = 12
_NUMBERS = words(
    "log log1p log2 log10 sqrt exp expm1 abs round mean median std var sum rank digitize to_physical "
    "len len_chars pow square factorize to_numeric"
)

_TEXTS = words("upper lower capitalize title zfill")
_KEEPS = words(
    "fillna fill_null clip to_numpy copy over alias where mask max min first last shift reset_index squeeze"
)

_CASTS = words("astype cast")
_NUMBER_TYPES = words(
    "number numeric float int float32 float64 int8 int16 int32 int64 uint8 Float32 Float64 Int8 Int16 Int32 "
    "Int64 f4 f8 i4 i8"
)

_TEXT_TYPES = words("object string str category String Utf8 categorical O")


def kind_of(node: ast.AST, values: Values, deep: int = 0) -> Kind:
    """The kind of what an expression makes of columns, "" where the text does not say, or of flags."""
    if deep > MOST_DEEP:
        return ""
    if isinstance(node, ast.Constant):
        number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        return "number" if number else "text" if isinstance(node.value, str) else ""
    if isinstance(node, ast.Attribute) and node.attr in ("values", "codes"):
        return "number" if node.attr == "codes" else kind_of(node.value, values, deep + 1)
    if isinstance(node, ast.IfExp):
        return _both([node.body, node.orelse], values, deep)
    if isinstance(node, ast.Lambda):
        return kind_of(node.body, values, deep + 1)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Sub | ast.Div | ast.Mult | ast.Pow | ast.FloorDiv):
            return "number"
        return kind_of(node.left, values, deep + 1) or kind_of(node.right, values, deep + 1)
    return _of_call(node, values, deep) if isinstance(node, ast.Call) else ""


def _of_call(node: ast.Call, values: Values, deep: int) -> Kind:
    name = last_name(node.func)
    if name in _NUMBERS or name in _TEXTS:
        return "number" if name in _NUMBERS else "text"
    if name in _CASTS:
        return _type_named(node.args[0], values) if node.args else ""
    if name in ("cut", "qcut"):
        return "number" if values.one(values.argument(node, "labels")) is False else ""
    if name in ("map", "replace", "apply", "replace_strict", "map_elements") and node.args:
        table: ast.AST = node.args[0]
        if isinstance(table, ast.Name):
            table = next(iter(values.assigned(table.id, table)), table)
        if not isinstance(table, ast.Dict):
            return kind_of(table, values, deep + 1)
        return _both(table.values, values, deep)
    if name in ("where", "iif") and len(node.args) == 3:
        return _both(node.args[1:], values, deep)
    if name in _KEEPS and isinstance(node.func, ast.Attribute):
        return kind_of(node.func.value, values, deep + 1)
    return ""


def _both(nodes: list[Any], values: Values, deep: int) -> Kind:
    """The kind that all of these are of."""
    found = {kind_of(node, values, deep + 1) for node in nodes[:50]}
    return found.pop() if len(found) == 1 else ""


def _type_named(node: ast.AST, values: Values) -> Kind:
    stated = values.one(node)
    name = stated if isinstance(stated, str) else last_name(node.func if isinstance(node, ast.Call) else node)
    return "number" if name in _NUMBER_TYPES else "text" if name in _TEXT_TYPES else ""


def kind_selected(node: ast.Call, values: Values) -> Kind:
    """What `df.select_dtypes("number")` or polars' `df.select(cs.numeric())` takes."""
    leaves_out = values.argument(node, "exclude", 1) if last_name(node.func) == "select_dtypes" else None
    given = values.argument(node, "include", 0)
    stated = given if given is not None else leaves_out
    if stated is None or (given is not None and leaves_out is not None):
        return ""
    types = stated.elts if isinstance(stated, ast.List | ast.Tuple) else [stated]
    found = {_type_named(one, values) for one in types[:20]}
    kind: Any = found.pop() if len(found) == 1 else ""
    others: Any = {"number": "text", "text": "number"}
    return kind if given is not None else others.get(kind, "")  # type: ignore[no-any-return]
