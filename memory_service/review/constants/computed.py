"""What an expression comes to, given the values of its parts: one function for each kind of node.

Each takes the values of the script, the node, how deep it stands in the question, and the nodes on the way.
Arithmetic is bounded: `10**10**10` is refused, not computed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

from memory_service.review.constants.lookup import Known, ValueLookup
from memory_service.review.source.nodes import last_name

MOST_VALUES = 8
_LONGEST_TEXT = 2_000
LARGEST = 10**18
LONGEST_LIST = 5_000


def bounded(value: Any) -> Any:
    """The value. ArithmeticError where it is too large to go on with."""
    if isinstance(value, int | float) and (not math.isfinite(value) or abs(value) > LARGEST):
        raise ArithmeticError
    if isinstance(value, str | list | tuple) and len(value) > LONGEST_LIST:
        raise ArithmeticError
    return value


def _times(a: Any, b: Any) -> Any:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        length = len(a) * b if isinstance(b, int) else len(b) * a
        if length > LONGEST_LIST:
            raise ArithmeticError
    return a * b


def _power(a: Any, b: Any) -> Any:
    if abs(b) > 64 or abs(a) > 10**6 or (abs(a) > 1 and abs(b) * math.log2(abs(a)) > 64):
        raise ArithmeticError
    return a**b


ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: _times,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b if not isinstance(a, str) else None,
    ast.Pow: _power,
}
BUILTINS: Mapping[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": lambda value: str(value) if isinstance(value, str | int | float) else None,
    "max": max,
    "min": min,
    "round": round,
    "len": len,
    "abs": abs,
    "list": list,
    "tuple": list,
    "sum": sum,
    "range": lambda *a: list(range(*a)) if len(range(*a)) <= LONGEST_LIST else None,
}


def _constant(_values: ValueLookup, node: ast.Constant, _deep: int, _seen: frozenset[ast.AST]) -> Known:
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        return None
    return [value]


def _subscript(values: ValueLookup, node: ast.Subscript, deep: int, seen: frozenset[ast.AST]) -> Known:
    key, base = values.of(node.slice, deep, seen), values.of(node.value, deep, seen)
    if base is None or key is None or len(key) != 1 or not isinstance(key[0], int):
        return None
    return [value[key[0]] for value in base if isinstance(value, list | tuple | str)] or None


def _sequence(values: ValueLookup, node: Any, deep: int, seen: frozenset[ast.AST]) -> Known:
    if len(node.elts) > LONGEST_LIST or (isinstance(node, ast.List) and not node.elts):
        return None  # an empty list is one to be filled
    out = []
    for item in node.elts:
        if isinstance(item, ast.Starred):
            inner = values.of(item.value, deep, seen)
            if inner is None or len(inner) != 1 or not isinstance(inner[0], list | tuple):
                return None
            out += list(inner[0])
            continue
        found = values.of(item, deep, seen)
        if found is None or len(found) != 1:
            return None
        out.append(found[0])
    return [out]


def _binary(values: ValueLookup, node: ast.BinOp, deep: int, seen: frozenset[ast.AST]) -> Known:
    operation = ARITHMETIC.get(type(node.op))
    left, right = values.of(node.left, deep, seen), values.of(node.right, deep, seen)
    if operation is None or left is None or right is None or len(left) * len(right) > MOST_VALUES:
        return None
    return [bounded(operation(a, b)) for a in left for b in right]


def _unary(values: ValueLookup, node: ast.UnaryOp, deep: int, seen: frozenset[ast.AST]) -> Known:
    found = values.of(node.operand, deep, seen)
    if found is None:
        return None
    if isinstance(node.op, ast.Not):
        return [not value for value in found]
    return [-value if isinstance(node.op, ast.USub) else value for value in found]


def _choice(values: ValueLookup, node: ast.BoolOp, deep: int, seen: frozenset[ast.AST]) -> Known:
    first = values.of(node.values[0], deep, seen)
    if isinstance(node.op, ast.And):
        if first is None or len(first) != 1 or (first[0] and len(node.values) > 2):
            return None
        return values.of(node.values[-1], deep, seen) if first[0] else first
    if first is not None and len(first) == 1 and first[0]:
        return first
    return values.of(node.values[-1], deep, seen) if first is not None else None


_COMPARED: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def _compared(values: ValueLookup, node: ast.Compare, deep: int, seen: frozenset[ast.AST]) -> Known:
    if len(node.ops) != 1:
        return None
    left, right = values.of(node.left, deep, seen), values.of(node.comparators[0], deep, seen)
    if left is None or right is None or len(left) * len(right) > MOST_VALUES:
        return None
    return [bool(_COMPARED[type(node.ops[0])](a, b)) for a in left for b in right]


def _joined(values: ValueLookup, node: ast.JoinedStr, deep: int, seen: frozenset[ast.AST]) -> Known:
    text = ""
    for part in node.values:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        found = values.of(inner, deep, seen)
        if found is None or len(found) != 1 or not isinstance(found[0], str | int | float):
            return None
        text += str(found[0])
        if len(text) > _LONGEST_TEXT:
            return None
    return [text]


def _call(values: ValueLookup, node: ast.Call, deep: int, seen: frozenset[ast.AST]) -> Known:
    name = last_name(node.func)
    if name in ("startswith", "endswith") and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        text, end = values.of(node.func.value, deep, seen), values.of(node.args[0], deep, seen)
        if text is None or end is None or len(text) * len(end) > MOST_VALUES:
            return None
        return [bool(getattr(str(a), name)(b)) for a in text for b in end]
    function = BUILTINS.get(name) if isinstance(node.func, ast.Name) else None
    if function is None or node.keywords:
        return None
    given = [values.of(argument, deep, seen) for argument in node.args]
    if any(found is None or len(found) != 1 for found in given):
        return None
    return [bounded(function(*(found[0] for found in given if found is not None)))]


COMPUTED: Mapping[type[ast.AST], Callable[..., Known]] = {
    ast.Constant: _constant,
    ast.Subscript: _subscript,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _choice,
    ast.Compare: _compared,
    ast.JoinedStr: _joined,
    ast.Call: _call,
}
