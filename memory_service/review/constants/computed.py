"""What an expression comes to, given the values of its parts, by `of`.

Arithmetic is bounded: `10**10**10` is
refused, not computed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from memory_service.review.source.nodes import last_name

MOST_VALUES = 8
_LONGEST_TEXT = 2_000
LARGEST = 10**18
LONGEST_LIST = 5_000


class Unknown(Exception):
    """A part is not known, or may be several things."""


Known = list[Any] | None  # values that are possible, or None for "unknown"
Of = Callable[[ast.AST], Known]
Operation = Callable[[Any, Any], Any]


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


ARITHMETIC: Mapping[type[ast.AST], Operation] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: _times, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: lambda a, b: a % b if not isinstance(a, str) else None,
    ast.Pow: _power,
}  # fmt: skip
_COMPARED: Mapping[type[ast.AST], Operation] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
BUILTINS: Mapping[str, Callable[..., Any]] = {
    "int": int, "float": float, "bool": bool, "max": max, "min": min, "round": round, "len": len, "abs": abs,
    "list": list, "tuple": list, "sum": sum,
    "str": lambda value: str(value) if isinstance(value, str | int | float) else None,
    "range": lambda *a: list(range(*a)) if len(range(*a)) <= LONGEST_LIST else None,
}  # fmt: skip


def _pairs(operation: Operation, left: Known, right: Known) -> Known:
    """An operation of every value of one side with every value of the other."""
    if left is None or right is None or len(left) * len(right) > MOST_VALUES:
        return None
    return [bounded(operation(a, b)) for a in left for b in right]


def _single(found: Known) -> Any:
    """The one value. Unknown where there is none, or several."""
    if found is None or len(found) != 1:
        raise Unknown
    return found[0]


def computed(of: Of, node: ast.AST) -> Known:
    """The values of an expression, given those of its parts; None where that is unknown."""
    match node:
        case ast.Constant(value=value):
            return [bounded(value) if type(value) is int else value]
        case ast.Subscript(value=base, slice=inner):
            key = _single(of(inner))
            listed = of(base) or () if isinstance(key, int) else ()
            return [value[key] for value in listed if isinstance(value, list | tuple | str)] or None
        case ast.List() | ast.Tuple() | ast.Set():
            return _sequence(of, node)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return _pairs(ARITHMETIC[type(op)], of(left), of(right))
        case ast.UnaryOp(op=op, operand=operand):
            change = {ast.Not: operator.not_, ast.USub: operator.neg}.get(type(op), operator.pos)
            found = of(operand)
            return [change(value) for value in found] if found is not None else None
        case ast.BoolOp(op=op, values=[left, *others]):
            first = _single(of(left))
            ends = bool(first) is isinstance(op, ast.Or)
            return [first] if ends else of(others[0]) if len(others) == 1 else None
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _pairs(_COMPARED[type(op)], of(left), of(right))
        case ast.JoinedStr():
            return _joined(of, node)
        case ast.Call():
            return _call(of, node)
    return None


def _sequence(of: Of, node: ast.List | ast.Tuple | ast.Set) -> Known:
    if len(node.elts) > LONGEST_LIST or (isinstance(node, ast.List) and not node.elts):
        return None  # an empty list is one to be filled
    out: list[Any] = []
    for item in node.elts:
        value = _single(of(item.value if isinstance(item, ast.Starred) else item))
        if isinstance(item, ast.Starred) and not isinstance(value, list):
            return None
        out += value if isinstance(item, ast.Starred) else [value]
    return [out]


def _joined(of: Of, node: ast.JoinedStr) -> Known:
    inner = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
    parts = [_single(of(part)) for part in inner]
    text = "".join(map(str, parts))
    known = all(isinstance(part, str | int | float) for part in parts) and len(text) <= _LONGEST_TEXT
    return [text] if known else None


def _call(of: Of, node: ast.Call) -> Known:
    name = last_name(node.func)
    if name in ("startswith", "endswith") and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        return _pairs(lambda a, b: getattr(str(a), name)(b), of(node.func.value), of(node.args[0]))
    function = BUILTINS.get(name) if isinstance(node.func, ast.Name) else None
    if function is None or node.keywords:
        return None
    return [bounded(function(*(_single(of(argument)) for argument in node.args)))]
