"""Which value does an expression have, as far as the text says? Constants are followed through names,
configs,
command line defaults, attributes and function parameters; anything else is unknown.

All values that an expression may have are kept (`64 if big else 16` has two); an unknown part makes it
unknown.
Arithmetic is bounded: `10**10**10` is unknown, not computed.
"""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from memory_service.domain.review.assigned import assignments, attributes, command_line
from memory_service.domain.review.script import Function, Script, last_name, words
from memory_service.domain.review.settings_text import settings_of

__all__ = ["Values"]

Known = list[Any] | None
"""Values that are possible, or None for "cannot be told"."""

DEEPEST = 40
MOST_VALUES = 8
MOST_SOURCES = 24
"""Assignments of one name that are looked at: a name set more often says nothing."""

MOST_STEPS = 4_000
MOST_STEPS_IN_ALL = 400_000
_NAMESPACES = words("dict SimpleNamespace Namespace EasyDict")
_HOLDERS = words("create copy deepcopy Munch AttrDict DotMap Box ConfigDict")
_TEXT_LOADERS = words("safe_load full_load loads")
_LARGEST = 10**18
_LONGEST_TEXT = 2_000
_LONGEST_LIST = 5_000


class Values:
    """Values of the expressions of one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._steps = self._steps_in_all = 0
        self._assigned = assignments(script)
        self._attributes = attributes(script)
        self._arguments = command_line(script)

    def one(self, node: ast.AST | None) -> Any:
        """The value where there is just one, else None."""
        found = self.all(node)
        return found[0] if found is not None and len(found) == 1 else None

    def all(self, node: ast.AST | None) -> Known:
        """Every value it may have; None where that cannot be told."""
        if node is None:
            return None
        self._steps = 0
        try:
            return self._of(node, 0, frozenset())
        except (TypeError, ValueError, ArithmeticError, KeyError, IndexError, AttributeError):
            return None

    def number(self, node: ast.AST | None) -> float | None:
        """The one number it is, else None."""
        value = self.one(node)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, node: ast.AST | None) -> str | None:
        value = self.one(node)
        return value if isinstance(value, str) else None

    def assigned(self, name: str, at: ast.AST) -> list[ast.AST]:
        """What a name is set to in its scope, else in the module."""
        for scope in self._scopes(at):
            found = self._assigned.get((scope, name))
            if found:
                return [node for node in found[:MOST_SOURCES] if node is not None]
        return []

    def argument(self, call: ast.Call, name: str, position: int | None = None) -> ast.AST | None:
        """The expression given for a parameter by keyword, through `**config`, or by position."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return keyword.value
        for keyword in call.keywords:
            if keyword.arg is None and (spread := self.mapping(keyword.value)) and name in spread:
                return spread[name]
        if position is not None and position < len(call.args):
            given = call.args[position]
            if not any(isinstance(a, ast.Starred) for a in call.args[: position + 1]):
                return given
        return None

    def open_ended(self, call: ast.Call) -> bool:
        """Whether arguments come from a place that is not in the file (`**kwargs`)."""
        return any(k.arg is None and self.mapping(k.value) is None for k in call.keywords) or any(
            isinstance(a, ast.Starred) for a in call.args
        )

    def mapping(self, node: ast.AST, deep: int = 0) -> dict[str, ast.AST] | None:
        """Keys and expressions of a literal dict, also by its name or through `dict(...)`."""
        if deep > 6:
            return None
        if isinstance(node, ast.Dict):
            return self._literal(node, deep)
        if isinstance(node, ast.Call) and last_name(node.func) in _NAMESPACES:
            out: dict[str, ast.AST] = {k.arg: k.value for k in node.keywords if k.arg}
            for given in (*node.args, *(k.value for k in node.keywords if k.arg is None)):
                more = self.mapping(given, deep + 1)
                if more is None:
                    return None
                out = {**more, **out}
            return out
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            left, right = self.mapping(node.left, deep + 1), self.mapping(node.right, deep + 1)
            return None if left is None or right is None else left | right
        if isinstance(node, ast.Name):
            given_here = self.assigned(node.id, node)
            if len(given_here) == 1:
                return self._grown(node.id, given_here[0], deep + 1)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            inner = (self.mapping(node.value, deep + 1) or {}).get(str(node.slice.value))
            return self.mapping(inner, deep + 1) if inner is not None else None
        if isinstance(node, ast.Attribute):
            found = self.sources(node, deep + 1)
            if len(found) == 1:
                return self.mapping(found[0], deep + 1)
        if isinstance(node, ast.Call) and last_name(node.func) in _HOLDERS and node.args:
            return self.mapping(node.args[0], deep + 1)
        if isinstance(node, ast.Call) and last_name(node.func) in _TEXT_LOADERS and node.args:
            text = self.text(node.args[0])
            said = settings_of(text, node) if text is not None else None
            return self._literal(said, deep + 1) if said is not None else None
        return None

    def _grown(self, name: str, first: ast.AST, deep: int) -> dict[str, ast.AST] | None:
        """A dict with what `d.update(...)` and `d["key"] = ...` add; under a condition only new keys."""
        held = self.mapping(first, deep)
        if held is None:
            return None
        out = dict(held)
        for grown in self._growth.get(name, ())[:MOST_SOURCES]:
            if self.assigned(name, grown)[:1] != [first]:
                continue
            more: dict[str, ast.AST] = {}
            if isinstance(grown, ast.Call):
                more = {k.arg: k.value for k in grown.keywords if k.arg}
                for given in grown.args:
                    inner = self.mapping(given, deep + 1)
                    if inner is None:
                        return None
                    more |= inner
            elif isinstance(grown, ast.Assign):
                for target in grown.targets:
                    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                        more[str(target.slice.value)] = grown.value
            above = list(self.script.above(grown))
            if any(isinstance(up, ast.ExceptHandler) for up in above):
                continue
            out = {**more, **out} if any(isinstance(up, ast.If) for up in above) else {**out, **more}
        return out

    @cached_property
    def _growth(self) -> dict[str, list[ast.AST]]:
        """Name of a dict -> statements that put more into it, in the order of the text."""
        out: dict[str, list[ast.AST]] = defaultdict(list)
        for call in self.script.called("update"):
            if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
                out[call.func.value.id].append(call)
        for node in self.script.all(ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    out[target.value.id].append(node)
        return {name: sorted(held, key=self.script.order.__getitem__) for name, held in out.items()}

    def _literal(self, node: ast.Dict, deep: int) -> dict[str, ast.AST] | None:
        out: dict[str, ast.AST] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                more = self.mapping(value, deep + 1)
                if more is None:
                    return None
                out |= more
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                out[key.value] = value
        return out

    def _scopes(self, at: ast.AST) -> list[ast.AST]:
        scopes: list[ast.AST] = [
            up
            for up in (at, *self.script.above(at))
            if isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module)
        ]
        nearest = self.script.scope(at)
        return [nearest, *scopes] if isinstance(nearest, ast.ClassDef) else scopes

    def _of(self, node: ast.AST, deep: int, seen: frozenset[ast.AST]) -> Known:
        self._steps += 1
        self._steps_in_all += 1
        if (
            deep > DEEPEST
            or self._steps > MOST_STEPS
            or self._steps_in_all > MOST_STEPS_IN_ALL
            or node in seen
        ):
            return None
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return None
        found = handler(self, node, deep + 1, seen | {node})
        if found is None:
            return None
        distinct: list[Any] = []
        for value in found:
            if not any(value is held or (type(value) is type(held) and value == held) for held in distinct):
                distinct.append(value)
        return distinct if len(distinct) <= MOST_VALUES else None

    def _constant(self, node: ast.Constant, _deep: int, _seen: frozenset[ast.AST]) -> Known:
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST:
            return None
        return [value]

    def _name(self, node: ast.Name, deep: int, seen: frozenset[ast.AST]) -> Known:
        for scope in self._scopes(node):
            if (scope, node.id) in self._assigned:
                return self._union(self._assigned[scope, node.id], deep, seen)
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and _has_parameter(scope, node.id):
                return self._parameter(scope, node.id, deep, seen)
        return None

    def _parameter(self, function: Function, name: str, deep: int, seen: frozenset[ast.AST]) -> Known:
        """What callers in this file give, and the default where one leaves it out."""
        position, default = _parameter_of(function, name)
        method = isinstance(self.script.parents.get(function), ast.ClassDef)
        owner = self.script.class_of(function) if method else None
        calls = self.script.calls_by_name.get(function.name, [])
        if owner is not None and function.name == "__init__":
            calls = self.script.calls_by_name.get(owner.name, [])
        given: list[ast.AST | None] = []
        for call in calls:
            offset = position - 1 if method and position is not None else position
            found = self.argument(call, name, offset)
            said = [found if found is not None else default]
            given += self._arguments.get(name, said) if said == [None] else said
        if not given:
            given = [default] if default is not None else list(self._arguments.get(name, [None]))
        return self._union(given, deep, seen)

    def _union(self, nodes: list[ast.AST | None], deep: int, seen: frozenset[ast.AST]) -> Known:
        out: list[Any] = []
        for node in nodes[: MOST_VALUES + 1]:
            found = None if node is None else self._of(node, deep, seen)
            if found is None:
                return None
            out += found
        return out or None

    def sources(self, node: ast.Attribute, deep: int = 1) -> list[ast.AST]:
        """Expressions that an attribute of a config, of `self` or of a class is set to."""
        base, name = node.value, node.attr
        owner = last_name(base)
        if owner in ("self", "cls"):
            around = self.script.class_of(node)
            if around is not None:
                return [n for n in self._attributes.get((around.name, name), ()) if n is not None]
            return []
        holders = [owner]
        for source in self.assigned(owner, node) if isinstance(base, ast.Name) else ():
            if isinstance(source, ast.Call):
                holders.append(last_name(source.func))
                direct = [k.value for k in source.keywords if k.arg == name]
                if direct:
                    return [*direct, *(n for n in self._attributes.get((owner, name), ()) if n is not None)]
            held = self.mapping(source, deep) if not isinstance(source, ast.Name) else None
            if held and name in held:
                return [held[name]]
        if isinstance(base, ast.Attribute):
            held = self.mapping(base, deep)
            if held and name in held:
                return [held[name]]
        holders += [last_name(given.func) for given in self._given(base) if isinstance(given, ast.Call)]
        annotated = self._annotation(base)
        if annotated:
            holders.append(annotated)
        for holder in holders:
            found = self._attributes.get((holder, name))
            if found:
                return [n for n in found if n is not None]
        return []

    def _given(self, base: ast.AST) -> list[ast.AST]:
        """What a parameter is by default: `def main(p=Params())`."""
        function = self.script.function(base)
        if not isinstance(base, ast.Name) or function is None or not _has_parameter(function, base.id):
            return []
        default = _parameter_of(function, base.id)[1]
        return [default] if default is not None else []

    def _annotation(self, base: ast.AST) -> str:
        """The class that a parameter is said to be of: `def main(cfg: Config)`."""
        function = self.script.function(base)
        if not isinstance(base, ast.Name) or function is None:
            return ""
        for argument in (*function.args.args, *function.args.kwonlyargs):
            if argument.arg == base.id and argument.annotation is not None:
                return last_name(argument.annotation)
        return ""

    def _attribute(self, node: ast.Attribute, deep: int, seen: frozenset[ast.AST]) -> Known:
        found = self.sources(node)
        if found:
            return self._union(list(found), deep, seen)
        if node.attr in self._arguments and self._reads_arguments(node.value):
            return self._union(list(self._arguments[node.attr]), deep, seen)
        if node.attr == "n_splits" and isinstance(node.value, ast.Name):
            for source in self.assigned(node.value.id, node):
                if isinstance(source, ast.Call):
                    return self._union([self.argument(source, "n_splits", 0)], deep, seen)
        return None

    def _reads_arguments(self, base: ast.AST) -> bool:
        name = last_name(base)
        return bool(name) and name not in self.script.imports and name not in ("self", "torch", "np")

    def _subscript(self, node: ast.Subscript, deep: int, seen: frozenset[ast.AST]) -> Known:
        key = self._of(node.slice, deep, seen)
        if key is None or len(key) != 1:
            return None
        if isinstance(key[0], str):
            held = self.mapping(node.value)
            if held is not None and key[0] in held:
                return self._of(held[key[0]], deep, seen)
            return None
        base = self._of(node.value, deep, seen)
        if base is None or not isinstance(key[0], int):
            return None
        return [value[key[0]] for value in base if isinstance(value, list | tuple | str)] or None

    def _sequence(self, node: Any, deep: int, seen: frozenset[ast.AST]) -> Known:
        if len(node.elts) > _LONGEST_LIST or (isinstance(node, ast.List) and not node.elts):
            return None  # an empty list is one to be filled
        out = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = self._of(item.value, deep, seen)
                if inner is None or len(inner) != 1 or not isinstance(inner[0], list | tuple):
                    return None
                out += list(inner[0])
                continue
            found = self._of(item, deep, seen)
            if found is None or len(found) != 1:
                return None
            out.append(found[0])
        return [out]

    def _binary(self, node: ast.BinOp, deep: int, seen: frozenset[ast.AST]) -> Known:
        operation = _ARITHMETIC.get(type(node.op))
        left, right = self._of(node.left, deep, seen), self._of(node.right, deep, seen)
        if operation is None or left is None or right is None or len(left) * len(right) > MOST_VALUES:
            return None
        return [_bounded(operation(a, b)) for a in left for b in right]

    def _unary(self, node: ast.UnaryOp, deep: int, seen: frozenset[ast.AST]) -> Known:
        found = self._of(node.operand, deep, seen)
        if found is None:
            return None
        if isinstance(node.op, ast.Not):
            return [not value for value in found]
        return [-value if isinstance(node.op, ast.USub) else value for value in found]

    def _either(self, node: ast.IfExp, deep: int, seen: frozenset[ast.AST]) -> Known:
        test = self._of(node.test, deep, seen)
        if test is not None and len(test) == 1:
            return self._of(node.body if test[0] else node.orelse, deep, seen)
        return self._union([node.body, node.orelse], deep, seen)

    def _choice(self, node: ast.BoolOp, deep: int, seen: frozenset[ast.AST]) -> Known:
        first = self._of(node.values[0], deep, seen)
        if isinstance(node.op, ast.And):
            return [first[0]] if first is not None and len(first) == 1 and not first[0] else None
        if first is not None and len(first) == 1 and first[0]:
            return first
        return self._of(node.values[-1], deep, seen) if first is not None else None

    def _joined(self, node: ast.JoinedStr, deep: int, seen: frozenset[ast.AST]) -> Known:
        text = ""
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            found = self._of(inner, deep, seen)
            if found is None or len(found) != 1 or not isinstance(found[0], str | int | float):
                return None
            text += str(found[0])
            if len(text) > _LONGEST_TEXT:
                return None
        return [text]

    def _call(self, node: ast.Call, deep: int, seen: frozenset[ast.AST]) -> Known:
        name = last_name(node.func)
        if name == "get" and isinstance(node.func, ast.Attribute) and node.args:
            key = self._of(node.args[0], deep, seen)
            held = self.mapping(node.func.value)
            if held is not None and key and key[0] in held:
                return self._of(held[key[0]], deep, seen)
            environment = "environ" in ast.dump(node.func.value)[:300]
            if held is not None or environment:
                return self._of(node.args[1], deep, seen) if len(node.args) > 1 else None
            return None
        if name == "getenv" and len(node.args) > 1:
            return self._of(node.args[1], deep, seen)
        if name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
            return self._of(node.args[2], deep, seen) if len(node.args) > 2 else None
        if name in ("Option", "Argument", "Field", "field") and (
            found := self.argument(node, "default", 0 if name != "field" else None)
        ):
            return self._of(found, deep, seen)
        function = _FUNCTIONS.get(name) if isinstance(node.func, ast.Name) else None
        if function is None or node.keywords:
            return None
        given = [self._of(argument, deep, seen) for argument in node.args]
        if any(found is None or len(found) != 1 for found in given):
            return None
        return [_bounded(function(*(found[0] for found in given if found is not None)))]


def _bounded(value: Any) -> Any:
    if isinstance(value, int | float) and (not math.isfinite(value) or abs(value) > _LARGEST):
        raise ArithmeticError
    if isinstance(value, str | list | tuple) and len(value) > _LONGEST_LIST:
        raise ArithmeticError
    return value


def _times(a: Any, b: Any) -> Any:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        length = len(a) * b if isinstance(b, int) else len(b) * a
        if length > _LONGEST_LIST:
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


_ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: _plus,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: _times,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b if not isinstance(a, str) else None,
    ast.Pow: _power,
    ast.LShift: _shift,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
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
    "range": lambda *a: list(range(*a)) if len(range(*a)) <= _LONGEST_LIST else None,
}
_HANDLERS: Mapping[type[ast.AST], Callable[..., Known]] = {
    ast.Constant: Values._constant,
    ast.Name: Values._name,
    ast.Attribute: Values._attribute,
    ast.Subscript: Values._subscript,
    ast.List: Values._sequence,
    ast.Tuple: Values._sequence,
    ast.Set: Values._sequence,
    ast.BinOp: Values._binary,
    ast.UnaryOp: Values._unary,
    ast.IfExp: Values._either,
    ast.BoolOp: Values._choice,
    ast.JoinedStr: Values._joined,
    ast.Call: Values._call,
}


def _has_parameter(function: Function, name: str) -> bool:
    a = function.args
    return any(p.arg == name for p in (*a.posonlyargs, *a.args, *a.kwonlyargs))


def _parameter_of(function: Function, name: str) -> tuple[int | None, ast.AST | None]:
    """Its position among positional parameters, and its default."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    for position, parameter in enumerate(positional):
        if parameter.arg == name:
            behind = position - (len(positional) - len(a.defaults))
            return position, a.defaults[behind] if behind >= 0 else None
    for parameter, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        if parameter.arg == name:
            return None, default
    return None, None
