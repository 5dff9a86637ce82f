"""Constant propagation: possible values of an expression, followed through names, configs, command line
defaults, attributes and function parameters; anything else is unknown.

All values that an expression may have are kept (`64 if big else 16` has two); an unknown part makes it
unknown. What is computed from them: `computed.py`, within bounds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from memory_service.review.constants.assignments import assignments, attributes, command_line
from memory_service.review.constants.computed import COMPUTED, MOST_VALUES
from memory_service.review.constants.instances import Objects
from memory_service.review.constants.lookup import Held, Known
from memory_service.review.constants.mappings import Mappings
from memory_service.review.source.nodes import parameters_of
from memory_service.review.source.script import Function, Script, last_name

Node = TypeVar("Node", bound=ast.AST)

DEEPEST = 40
MOST_SOURCES = 24
"""Assignments of one name that are looked at: a name set more often says nothing."""

MOST_ASKED = 6
"""Questions that one question leads to within one another: the key of a key of a dict."""

MOST_STEPS = 4_000
MOST_STEPS_IN_ALL = 400_000


class Values:
    """Values of the expressions of one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._steps = self._steps_in_all = self._asked = 0
        self._assigned = assignments(script)
        self._attributes = attributes(script)
        self._arguments = command_line(script)
        self._mappings = Mappings(self)
        self._objects = Objects(self, self._attributes, self._arguments)
        self._caller: dict[ast.AST, ast.Call] = {}
        self.spread: dict[ast.Call, list[ast.keyword]] = {}

    def one(self, node: ast.AST | None) -> Any:
        """The value where there is just one, else None."""
        found = self.all(node)
        return found[0] if found is not None and len(found) == 1 else None

    def all(self, node: ast.AST | None) -> Known:
        """Every value it may have; None where that cannot be told."""
        if node is None or self._asked >= MOST_ASKED:
            return None
        self._steps = 0
        self._asked += 1
        try:
            return self.of(node, 0, frozenset())
        except (TypeError, ValueError, ArithmeticError, KeyError, IndexError, AttributeError):
            return None
        finally:
            self._asked -= 1

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
        keywords = self._keywords(call)
        for keyword in keywords:
            if keyword.arg == name:
                return keyword.value
        for keyword in keywords:
            if keyword.arg is None and name in (spread := self.held(keyword.value).known):
                return spread[name]
        if position is not None and position < len(call.args):
            given = call.args[position]
            if not any(isinstance(a, ast.Starred) for a in call.args[: position + 1]):
                return given
        return None

    def open_ended(self, call: ast.Call) -> bool:
        """Whether arguments come from a place that is not in the file (`**kwargs`)."""
        return any(k.arg is None and self.held(k.value).open for k in self._keywords(call)) or any(
            isinstance(a, ast.Starred) for a in call.args
        )

    def _keywords(self, call: ast.Call) -> list[ast.keyword]:
        """Its keywords; where one caller is looked at, as they were before those of all were written out."""
        return self.spread.get(call, call.keywords) if self._caller else call.keywords

    def held(self, node: ast.AST) -> Held:
        """Keys and expressions of a mapping, as far as they are said."""
        try:
            return self._mappings.held(node)
        except RecursionError:
            return Held(open=True)

    def mapping(self, node: ast.AST) -> dict[str, ast.AST] | None:
        """Keys and expressions of a mapping that is known in full, else None."""
        held = self.held(node)
        return None if held.open else held.known

    def assigned_in(self, scope: ast.AST, name: str) -> bool:
        """Whether a function sets a name itself."""
        return bool(self._assigned.get((scope, name)))

    def binding(self, name: str, at: ast.AST) -> tuple[ast.AST, list[ast.AST | None]] | None:
        """The scope whose name it is and what it is set to there; nothing for a parameter left as it came."""
        for scope in self._scopes(at):
            found = self._assigned.get((scope, name))
            if found:
                return scope, found[:MOST_SOURCES]
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and _takes(scope, name):
                return scope, []
        return None

    def _scopes(self, at: ast.AST) -> list[ast.AST]:
        scopes: list[ast.AST] = [
            up
            for up in (at, *self.script.above(at))
            if isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module)
        ]
        nearest = self.script.scope(at)
        return [nearest, *scopes] if isinstance(nearest, ast.ClassDef) else scopes

    def of(self, node: ast.AST, deep: int, seen: frozenset[ast.AST]) -> Known:
        """Every value within a question: `deep` nodes down, by way of `seen`."""
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

    def _name(self, node: ast.Name, deep: int, seen: frozenset[ast.AST]) -> Known:
        for scope in self._scopes(node):
            if (scope, node.id) in self._assigned:
                found = self.union(self._assigned[scope, node.id], deep, seen)
                changed = found and isinstance(found[0], list) and (scope, node.id) in self._changed
                return None if changed else found
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and _has_parameter(scope, node.id):
                return self.union(self.handed(scope, node.id), deep, seen)
        return None

    @cached_property
    def _changed(self) -> set[tuple[ast.AST, str]]:
        """(scope, name) of lists that are not left as they were written: `gone.append("price")`."""
        out: set[tuple[ast.AST, str]] = set()
        for call in self.script.called("append", "extend", "insert", "remove", "discard", "add", "update"):
            held = call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(held, ast.Name):
                owners = (s for s in self._scopes(call) if (s, held.id) in self._assigned)
                out |= {(scope, held.id) for scope in [*owners][:1]}
        return out

    @contextmanager
    def called_by(self, function: Function, call: ast.Call) -> Iterator[None]:
        """Within: the parameters of a function are what this one call of it hands over."""
        kept = self._mappings
        self._mappings, self._caller = Mappings(self), {**self._caller, function: call}
        try:
            yield
        finally:
            self._mappings = kept
            self._caller = {f: c for f, c in self._caller.items() if f is not function}

    def within_one_call(self, function: ast.AST) -> bool:
        """Whether one call of a function is looked at by itself."""
        return function in self._caller

    def callers(self, function: Function) -> tuple[list[ast.Call], int]:
        """Calls of a function in this file, and how many parameters stand before what they hand over."""
        script = self.script
        owner = script.parents.get(function)
        calls = script.calls_by_name.get(function.name, [])
        if not isinstance(owner, ast.ClassDef):
            return [self._caller[function]] if function in self._caller else calls, 0
        if function.name == "__init__":
            calls = list(script.calls_by_name.get(owner.name, []))
            for heir in script.heirs.get(owner.name, ()):
                own = [n for n in heir.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
                above = script.calls_by_name.get("__init__", []) if own else []
                calls += [c for c in above if script.class_of(c) is heir]
                calls += [] if own else script.calls_by_name.get(heir.name, [])
        calls = [self._caller[function]] if function in self._caller else calls
        static = any(last_name(d) == "staticmethod" for d in function.decorator_list)
        return calls, 0 if static else 1

    def handed(self, function: Function, name: str) -> list[ast.AST | None]:
        """What callers in this file give for a parameter, and the default where one leaves it out."""
        position, default = _parameter_of(function, name)
        calls, skipped = self.callers(function)
        given: list[ast.AST | None] = []
        for call in calls:
            offset = position - skipped if position is not None and position >= skipped else None
            found = self.argument(call, name, offset)
            said = [found if found is not None else default]
            given += self._arguments.get(name, said) if said == [None] else said
        if not given:
            given = [default] if default is not None else list(self._arguments.get(name, [None]))
        return given

    def union(self, nodes: list[ast.AST | None], deep: int, seen: frozenset[ast.AST]) -> Known:
        """The values of all of them; None where one cannot be told."""
        out: list[Any] = []
        for node in nodes[: MOST_VALUES + 1]:
            found = None if node is None else self.of(node, deep, seen)
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
            found = self._attributes.get((around.name, name), []) if around is not None else []
            return [n for n in found if n is not None]
        holders = [owner]
        for source in self.assigned(owner, node) if isinstance(base, ast.Name) else ():
            if isinstance(source, ast.Call):
                holders.append(last_name(source.func))
                direct = [k.value for k in source.keywords if k.arg == name]
                if direct:
                    return [*direct, *(n for n in self._attributes.get((owner, name), ()) if n is not None)]
            held = self._mappings.held(source, deep).known if not isinstance(source, ast.Name) else None
            if held and name in held:
                return [held[name]]
        if isinstance(base, ast.Attribute | ast.Subscript | ast.Name):
            held = self._mappings.held(base, deep).known
            if name in held:
                return [held[name]]
        holders += [last_name(given.func) for given in self._given(base) if isinstance(given, ast.Call)]
        annotated = self.annotation(base)
        if annotated:
            holders.append(annotated)
        for holder in holders:
            known = self._attributes.get((holder, name))
            if known:
                return [n for n in known if n is not None]
        if owner == "hparams":
            return self._hyperparameter(node)
        made = self.instances(base, deep + 1)
        fields = [self.fields(holder, call).get(name) for holder, call in made]
        return [f for f in fields if f is not None] if all(f is not None for f in fields) else []

    def _hyperparameter(self, node: ast.Attribute) -> list[ast.AST]:
        """`self.hparams.lr` is what the constructor was given as `lr`."""
        around = self.script.class_of(node)
        for function in around.body if around is not None else ():
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                if not _has_parameter(function, node.attr):
                    return []
                return [n for n in self.handed(function, node.attr) if n is not None]
        return []

    def instances(self, node: ast.AST, deep: int = 0) -> list[tuple[str, ast.Call | None]]:
        """Classes of this file whose object an expression is, with the calls that make it."""
        return self._objects.instances(node, deep)

    def fields(self, name: str, call: ast.Call | None) -> dict[str, ast.AST]:
        """The fields of an object of a class of this file: as it was made, else as the class says."""
        return self._objects.fields(name, call)

    def origin(self, node: ast.AST) -> ast.AST:
        """Where the value of an expression is written down: what to edit for another one."""
        return self._objects.origin(node)

    def command_line(self) -> Held:
        """What the parsed arguments hold: their defaults; a run may be given others."""
        return Held({name: nodes[0] for name, nodes in self._arguments.items() if len(nodes) == 1})

    def _given(self, base: ast.AST) -> list[ast.AST]:
        """What a parameter is by default: `def main(p=Params())`."""
        function = self.script.function(base)
        if not isinstance(base, ast.Name) or function is None or not _has_parameter(function, base.id):
            return []
        default = _parameter_of(function, base.id)[1]
        return [default] if default is not None else []

    def annotation(self, base: ast.AST) -> str:
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
            return self.union(list(found), deep, seen)
        if node.attr in self._arguments and self.reads_arguments(node.value):
            return self.union(list(self._arguments[node.attr]), deep, seen)
        if node.attr == "n_splits" and isinstance(node.value, ast.Name):
            for source in self.assigned(node.value.id, node):
                if isinstance(source, ast.Call):
                    return self.union([self.argument(source, "n_splits", 0)], deep, seen)
        return None

    def reads_arguments(self, base: ast.AST) -> bool:
        name = last_name(base)
        return bool(name) and name not in self.script.imports and name not in ("self", "torch", "np")


_HANDLERS: Mapping[type[ast.AST], Callable[..., Known]] = {
    **COMPUTED,
    ast.Name: Values._name,
    ast.Attribute: Values._attribute,
}


def _takes(function: Function, name: str) -> bool:
    """Whether it is a parameter, `*args` and `**kwargs` included."""
    rest = [p.arg for p in (function.args.vararg, function.args.kwarg) if p is not None]
    return name in rest or _has_parameter(function, name)


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


def sources_of(values: Values, node: ast.AST) -> list[ast.AST]:
    """What a name or an attribute is set to; of any other expression nothing."""
    if isinstance(node, ast.Name):
        return values.assigned(node.id, node)
    return values.sources(node) if isinstance(node, ast.Attribute) else []


def passed_for(script: Script, values: Values, name: ast.Name) -> list[ast.AST]:
    """What other functions pass for a name that is a parameter of the function around."""
    function = script.function(name)
    names = parameters_of(function) if function is not None else []
    if function is None or name.id not in names:
        return []
    passed = (
        values.argument(call, name.id, names.index(name.id))
        for call in script.calls_by_name.get(function.name, ())
        if script.function(call) is not function
    )
    return [one for one in passed if one is not None]
