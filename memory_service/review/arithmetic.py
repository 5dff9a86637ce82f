"""What does plain arithmetic of known values give, within bounds? `10**10**10` is refused, not computed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ARITHMETIC", "BUILTINS", "LARGEST", "LONGEST_LIST", "bounded"]

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


def _shift(a: int, b: int) -> int:
    if not 0 <= b <= 60 or abs(a) > 2**30:
        raise ArithmeticError
    return a << b


def _plus(a: Any, b: Any) -> Any:
    return a + b


ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: _plus,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: _times,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b if not isinstance(a, str) else None,
    ast.Pow: _power,
    ast.LShift: _shift,
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
