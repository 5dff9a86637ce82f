"""Constants on demand, followed through names, settings, defaults and parameters to where they are written.

Each question takes the same step (`definitions`): values (`all`), a mapping (`entries`), objects
(`instances`). All possible values are kept; an unknown part makes a value unknown."""

from __future__ import annotations

import ast
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import takewhile
from typing import Any

from memory_service.review.source.script import (
    Function,
    Script,
    all_parameters,
    grouped,
    is_of_self,
    last_name,
    receiver,
    targets_of,
    unpacked,
)
from memory_service.review.tables import words_of
from memory_service.review.values.mappings import Entries, Mappings, fields, instances

_RE, _SET, *_ = words_of("values")
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
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _pairs(_COMPARED[type(op)], of(left), of(right))
        case ast.JoinedStr():
            return _joined(of, node)
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in BUILTINS:
            return [bounded(BUILTINS[name](*(_single(of(argument)) for argument in given)))]
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


Assigned = dict[tuple[ast.AST, str], list[ast.AST | None]]


def assignments(script: Script) -> Assigned:
    """(scope, name) -> what it is set to; None for what comes from a loop, an unpacking or `with`."""
    settings = [*_set_by(script.all(ast.Assign)), *_set_by(s for s in script.all(ast.AnnAssign) if s.value)]
    settings += [(walrus.target, walrus.value) for walrus in script.all(ast.NamedExpr)]
    entered = [item.optional_vars for item in script.all(ast.withitem) if item.optional_vars]
    for target in (*(loop.target for loop in script.all(ast.For)), *entered):
        settings += unpacked(target, None)
    looped = (ast.ExceptHandler, ast.For, ast.While)
    changed = (change for change in script.all(ast.AugAssign) if not any(script.around(change, *looped)))
    settings += [(change.target, None) for change in changed]
    named = ((item, given) for item, given in settings if isinstance(item, ast.Name))
    out: Assigned = grouped(((script.scope(item), item.id), given) for item, given in named)
    for stated in script.all(ast.Global):
        for name in stated.names:
            inner = out.pop((script.scope(stated), name), [])
            out[script.tree, name] = [*out.get((script.tree, name), []), *inner]
    for key, nodes in out.items():  # what an `except`, or a trial run, sets is not what a run starts with
        first = [node for node in nodes if node is None or not any(script.around(node, ast.ExceptHandler))]
        out[key] = [node for node in first if node is None or not of_trial(script, node)] or first or nodes
    return out


def is_trial(script: Script, test: ast.AST) -> bool:
    """`DEBUG`, `args.debug`, `cfg["debug"]`: a condition of trial runs, which the file does not switch on."""
    name = last_name(test)
    if isinstance(test, ast.Subscript) and isinstance(test.slice, ast.Constant):
        name = str(test.slice.value)
    if not _RE.trial.search(name):
        return False
    true = (n for n in script.all(ast.Assign) if isinstance(n.value, ast.Constant) and n.value.value is True)
    return name not in {last_name(target) for node in true for target in node.targets}


def of_trial(script: Script, node: ast.AST) -> bool:
    """Whether a place runs in trials alone."""
    below = node
    for up in script.above(node):
        if isinstance(up, ast.If):
            negated = isinstance(up.test, ast.UnaryOp) and isinstance(up.test.op, ast.Not)
            test = up.test.operand if isinstance(up.test, ast.UnaryOp) and negated else up.test
            if below in (up.orelse if negated else up.body) and is_trial(script, test):
                return True
        below = up
    return False


def attributes(script: Script) -> dict[str, dict[str, list[ast.AST]]]:
    """Class or variable -> attribute -> what it is set to: class bodies, `self.x =`, `cfg.x =`."""
    out: dict[str, dict[str, list[ast.AST]]] = defaultdict(lambda: defaultdict(list))
    for owner in script.all(ast.ClassDef):
        for base in owner.bases:
            for name, values in out.get(last_name(base), {}).items():
                out[owner.name][name] = list(values)
        for item, value in _set_by(owner.body):
            if isinstance(item, ast.Name) and value is not None:
                out[owner.name][item.id] = [value]
    for item, value in _set_by(script.all(ast.Assign)):
        if isinstance(item, ast.Attribute) and value is not None and not of_trial(script, item):
            holder = last_name(item.value)
            around = script.class_of(item) if holder in ("self", "cls") else None
            out[around.name if around is not None else holder][item.attr].append(value)
    return out


def _set_by(statements: Iterable[ast.stmt]) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """(target, value) of each thing that assignments set."""
    stated = ((target, getattr(node, "value", None)) for node in statements for target in targets_of(node))
    return (pair for target, value in stated for pair in unpacked(target, value))


def command_line(script: Script) -> dict[str, list[ast.AST]]:
    """Attribute of the parsed arguments -> defaults of `add_argument`, `click.option`."""
    out: dict[str, list[ast.AST]] = defaultdict(list)
    for call in script.called("add_argument", "option"):
        flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        named = {k.arg: k.value for k in call.keywords if k.arg}
        flag = next((f for f in flags if f.startswith("--")), flags[0] if flags else "")
        stated = named.get("dest")
        name = stated.value if isinstance(stated, ast.Constant) else flag.lstrip("-").replace("-", "_")
        action = named.get("action")
        if "default" in named:
            out[str(name)].append(named["default"])
        elif isinstance(action, ast.Constant) and action.value in ("store_true", "store_false"):
            out[str(name)].append(ast.Constant(action.value == "store_false"))
    return dict(out)


DEEPEST = 40
DEEPEST_DEFINITION = 8  # names, attributes and calls followed to where something is written
MOST_SOURCES = 24  # assignments of one name that are looked at: a name set more often says nothing
DEEPEST_MAKER = 5
MOST_BRANCHES = 6  # in which a name is set, before a place
MOST_QUESTIONS = 6  # questions that one question leads to within one another: the key of a key of a dict
MOST_STEPS = 4_000
MOST_STEPS_IN_ALL = 400_000
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Values:
    """Values of the expressions of one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._steps = self._steps_in_all = self._questions = 0
        self._assigned = assignments(script)
        self.attributes = attributes(script)
        self.arguments = command_line(script)
        self._mappings = Mappings(self)
        self._caller: dict[ast.AST, ast.Call] = {}
        self.spread: dict[ast.Call, list[ast.keyword]] = {}

    # --- what is asked

    def one(self, node: ast.AST | None) -> Any:
        """The value where there is just one, else None."""
        found = self.all(node)
        return found[0] if found is not None and len(found) == 1 else None

    def all(self, node: ast.AST | None) -> Known:
        """Every value it may have; None where that is unknown."""
        if node is None or self._questions >= MOST_QUESTIONS:
            return None
        self._steps = 0
        self._questions += 1
        try:
            return self.of(node, 0, frozenset())
        except (TypeError, ValueError, ArithmeticError, KeyError, IndexError, AttributeError):
            return None
        finally:
            self._questions -= 1

    def number(self, node: ast.AST | None) -> float | None:
        """The one number it is, else None."""
        value = self.one(node)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, node: ast.AST | None) -> str | None:
        """The one text it is, else None."""
        value = self.one(node)
        return value if isinstance(value, str) else None

    def entries(self, node: ast.AST | None, deep: int = 0) -> Entries:
        """Keys and expressions of a mapping, as far as they are known."""
        try:
            return self._mappings.entries(node, deep) if node is not None else Entries(open=True)
        except RecursionError:
            return Entries(open=True)

    def argument(self, call: ast.Call, name: str, position: int | None = None) -> ast.AST | None:
        """The expression given for a parameter by keyword, through `**config`, or by position."""
        keywords = self._keywords(call)
        if (given := next((k.value for k in keywords if k.arg == name), None)) is not None:
            return given
        for more in (self.entries(k.value).known for k in keywords if k.arg is None):
            if name in more:
                return more[name]
        before = call.args[: position + 1] if position is not None else []
        whole = len(before) == (position or 0) + 1 and not any(isinstance(a, ast.Starred) for a in before)
        return before[-1] if whole else None

    def open_ended(self, call: ast.Call) -> bool:
        """Whether arguments come from a place that is not in the file (`**kwargs`)."""
        starred = any(isinstance(a, ast.Starred) for a in call.args)
        return starred or any(k.arg is None and self.entries(k.value).open for k in self._keywords(call))

    def _keywords(self, call: ast.Call) -> list[ast.keyword]:
        """Its keywords; where one caller is looked at, as they were before those of all were written out."""
        return self.spread.get(call, call.keywords) if self._caller else call.keywords

    def assigned(self, name: str, at: ast.AST) -> list[ast.AST]:
        """What a name is set to in its scope, else in the module."""
        found = next((f for scope in self._scopes(at) if (f := self._assigned.get((scope, name)))), [])
        return [node for node in found[:MOST_SOURCES] if node is not None]

    def sources(self, node: ast.AST) -> list[ast.AST]:
        """What a name or an attribute is set to, or passed as; of any other expression nothing."""
        found = self.definitions(node) if isinstance(node, ast.Name | ast.Attribute) else []
        return [source for source in found if source is not None]

    def origin(self, node: ast.AST, deep: int = 0) -> ast.AST:
        """Where the value of an expression is written: what to edit for another one."""
        found = self.definitions(node)
        if deep > DEEPEST_DEFINITION or len(found) != 1 or not hasattr(found[0], "lineno"):
            return node
        return self.origin(found[0], deep + 1)  # type: ignore[arg-type]

    def made_by(self, node: ast.AST | None) -> str:
        """The class or function whose call a name holds: `m = LGBMClassifier(...)` -> "LGBMClassifier"."""
        return next((last_name(maker.func) for maker in self.makers(node)), "")

    def makers(self, node: ast.AST | None, deep: int = 0) -> list[ast.Call]:
        """Calls that an object may come from, through names, attributes and helpers of the file."""
        if node is None or deep > DEEPEST_MAKER:
            return []
        if not isinstance(node, ast.Call):
            return [m for s in self.sources(node) for m in self.makers(s, deep + 1)]
        name = last_name(node.func)
        if name in _SET.moved and isinstance(node.func, ast.Attribute):
            return self.makers(node.func.value, deep + 1)
        if name in _SET.wrappers and node.args:
            return self.makers(node.args[0], deep + 1)
        given = self.returned_by(node.func)[::-1] if name not in self.script.classes and name != "fit" else []
        return [m for g in given[-4:] for m in self.makers(g, deep + 1)] or [node]

    def returned_by(self, name: ast.AST) -> list[ast.expr]:
        """What a function or method of the file returns, or a lambda."""
        functions = self.script.functions.get(last_name(name), [])
        if functions and (isinstance(name, ast.Name) or is_of_self(name)):
            return self.script.returned(functions[0])
        return [s.body for s in self.sources(name) if isinstance(s, ast.Lambda)][:1]

    def last(self, node: ast.Name) -> list[ast.AST]:
        """What a name may be at a place of its function: set last, and before it where a branch set that."""
        script, order, out = self.script, self.script.order, list[ast.AST]()
        around = set(script.above(node))
        for stated in reversed(script.set_in.get((script.function(node), node.id), [])):
            direct = any(isinstance(t, ast.Name) and t.id == node.id for t in stated.targets)
            if direct and order[stated] < order[node] and stated not in around:
                out.append(stated.value)
                if set(script.around(stated, ast.If)) <= around or len(out) == MOST_BRANCHES:
                    break
        return out

    # --- one step towards where an expression is written

    def definitions(self, node: ast.AST, deep: int = 0) -> list[ast.AST | None]:
        """Expressions that one stands for, None for an unknown one; [] where it is written out or unknown."""
        if deep > DEEPEST_DEFINITION:
            return []
        if isinstance(node, ast.Name):
            scope, found = self.binding(node.id, node) or (None, [])
            return found or (self.passed(scope, node.id) if isinstance(scope, _FUNCTIONS) else [])
        if isinstance(node, ast.Attribute):
            return [*self._of_attribute(node, deep + 1)]
        if isinstance(node, ast.Subscript):
            key = self.text(node.slice)
            inner = self.entries(node.value, deep).known.get(key) if key is not None else None
            return [inner] if inner is not None else []
        if isinstance(node, ast.IfExp):
            test = False if is_trial(self.script, node.test) else self.one(node.test)
            return [node.body, node.orelse] if test is None else [node.body if test else node.orelse]
        return [*self._of_call(node, deep + 1)] if isinstance(node, ast.Call) else []

    def binding(self, name: str, at: ast.AST) -> tuple[ast.AST, list[ast.AST | None]] | None:
        """The scope whose name it is and what it is set to there; nothing for a parameter left as it came."""
        for scope in self._scopes(at):
            found = self._assigned.get((scope, name), [])[:MOST_SOURCES]
            own = isinstance(scope, _FUNCTIONS) and any(p.arg == name for p in all_parameters(scope))
            if found or own:
                return scope, found
        return None

    def _scopes(self, at: ast.AST) -> list[ast.AST]:
        scopes = [up for up in (at, *self.script.above(at)) if isinstance(up, (*_FUNCTIONS, ast.Module))]
        nearest = self.script.scope(at)
        return [nearest, *scopes] if isinstance(nearest, ast.ClassDef) else [*scopes]

    @contextmanager
    def called_by(self, function: Function, call: ast.Call) -> Iterator[None]:
        """Within: the parameters of a function are what this one call of it passes."""
        saved = self._mappings
        self._mappings, self._caller = Mappings(self), {**self._caller, function: call}
        try:
            yield
        finally:
            self._mappings = saved
            self._caller = {f: c for f, c in self._caller.items() if f is not function}

    def callers(self, function: Function) -> tuple[list[ast.Call], int]:
        """Calls of a function in this file, and how many parameters stand before what they pass."""
        script = self.script
        owner = script.parents.get(function)
        calls = script.calls_by_name.get(function.name, [])
        if isinstance(owner, ast.ClassDef) and function.name == "__init__":
            calls = script.calls_by_name.get(owner.name, [])
        calls = [self._caller[function]] if function in self._caller else calls
        static = any(last_name(d) == "staticmethod" for d in function.decorator_list)
        return calls, int(isinstance(owner, ast.ClassDef) and not static)

    def passed(self, function: Function, name: str) -> list[ast.AST | None]:
        """What callers in this file give for a parameter, and the default where one leaves it out."""
        of = function.args
        positional = [*of.posonlyargs, *of.args]
        defaults = [*[None] * (len(positional) - len(of.defaults)), *of.defaults, *of.kw_defaults]
        named = [one.arg for one in (*positional, *of.kwonlyargs)]
        default = defaults[named.index(name)] if name in named else None
        position = named.index(name) if name in named[: len(positional)] else None
        calls, skipped = self.callers(function)
        given: list[ast.AST | None] = []
        for call in calls:
            offset = position - skipped if position is not None and position >= skipped else None
            found = self.argument(call, name, offset) or default
            given += [found] if found is not None else self.arguments.get(name, [None])
        return given or ([default] if default is not None else list(self.arguments.get(name, [None])))

    def _of_attribute(self, node: ast.Attribute, deep: int) -> list[ast.AST]:
        """What an attribute of settings, of `self` or of a class is set to, or what a property returns."""
        base, name = node.value, node.attr
        owner = last_name(base)
        around = self.script.class_of(node) if owner in ("self", "cls") else None
        found = self.attributes.get(around.name, {}).get(name, []) if around is not None else []
        if owner not in ("self", "cls"):
            found = self._of_settings(base, name, deep)
        if not found and owner not in self.script.imports and owner not in ("", "self", "torch", "np"):
            found = self.arguments.get(name, [])
        return found or self._returned(name, method=True, deep=deep, properties=True)

    def _of_settings(self, base: ast.AST, name: str, deep: int) -> list[ast.AST]:
        """`cfg.name`: an entry of a mapping, or a field of an object: as made, set since, or of its class."""
        known = self.entries(base, deep).known
        if name in known:
            return [known[name]]
        owner = last_name(base)
        set_there = self.attributes.get(owner, {}).get(name, [])
        if owner in self.script.imports:  # what one function sets another may find as it was
            there = (self.script.function(base), None)
            set_there = [n for n in set_there if self.script.function(n) in there]
        made_by = [call for call in self.definitions(base, deep) if isinstance(call, ast.Call)]
        given = [k.value for call in made_by for k in call.keywords if k.arg == name]
        if given or set_there:
            return [*given, *set_there]
        if owner == "hparams":  # `self.hparams.lr` is what the constructor was given as `lr`
            around = self.script.class_of(base)
            makers = [
                f for f in self.script.functions.get("__init__", ()) if self.script.class_of(f) is around
            ]
            makers = [f for f in makers if any(p.arg == name for p in all_parameters(f))]
            return [node for f in makers[:1] for node in self.passed(f, name) if node is not None]
        objects = instances(self, base, deep + 1)
        found = [fields(self, holder, call).get(name, []) for holder, call in objects]
        return [n for nodes in found for n in nodes] if all(found) else []

    def _of_call(self, node: ast.Call, deep: int) -> Sequence[ast.AST]:
        """A setting with its default, or what a helper of the file returns."""
        name, method = last_name(node.func), isinstance(node.func, ast.Attribute)
        if name == "get" and isinstance(node.func, ast.Attribute) and node.args:
            found, key = self.entries(node.func.value, deep), self.text(node.args[0])
            if key in found.known:
                return [found.known[key]]
            environment = "environ" in ast.dump(node.func.value)[:300]
            return node.args[1:2] if environment or not found.open else []
        if name == "getenv":
            return node.args[1:2]
        if name in _SET.defaults:
            given = self.argument(node, "default_factory")
            given = given or self.argument(node, "default", None if name == "field" else 0)
            given = given.body if isinstance(given, ast.Lambda) else given
            return [given] if given is not None else []
        return self._returned(name, method=method, deep=deep)

    def _returned(self, name: str, *, method: bool, deep: int, properties: bool = False) -> list[ast.AST]:
        """What the one function or method of that name in the file returns."""
        found = [*self.script.functions.get(name, ())]
        found = [f for f in found if isinstance(self.script.parents.get(f), ast.ClassDef) is method]
        if properties:
            found = [f for f in found if any("property" in last_name(d) for d in f.decorator_list)]
        known = len(found) == 1 and deep <= DEEPEST_DEFINITION
        returned = self.script.returned(found[0]) if known else []
        return [*returned] if len(returned) <= MOST_SOURCES else []

    # --- values

    def of(self, node: ast.AST, deep: int, seen: frozenset[ast.AST]) -> Known:
        """Every value within a question: `deep` nodes down, by way of `seen`."""
        self._steps += 1
        self._steps_in_all += 1
        spent = self._steps > MOST_STEPS or self._steps_in_all > MOST_STEPS_IN_ALL
        if deep > DEEPEST or spent or node in seen:
            return None
        found: Known = None
        with suppress(Unknown):
            found = computed(partial(self.of, deep=deep + 1, seen=seen | {node}), node)
        if found is None:
            nodes = self.definitions(node)[: MOST_VALUES + 1]
            known = (one and self.of(one, deep + 1, seen | {node}) for one in nodes)
            whole = [*takewhile(lambda one: one is not None, known)]
            found = [value for one in whole for value in one or ()] if len(whole) == len(nodes) else None
        if not found:
            return None
        if isinstance(found[0], list) and isinstance(node, ast.Name):
            scope, _ = self.binding(node.id, node) or (None, [])
            if (scope, node.id) in self._changed:  # `gone.append("price")`
                return None
        distinct: list[Any] = []
        for value in found:
            if not any(value is item or (type(value) is type(item) and value == item) for item in distinct):
                distinct.append(value)
        return distinct if len(distinct) <= MOST_VALUES else None

    @cached_property
    def _changed(self) -> set[tuple[ast.AST, str]]:
        """(scope, name) of lists that grow or shrink."""
        changes = self.script.called(*_SET.changes)
        changed = [(holder.id, call) for call in changes if isinstance(holder := receiver(call), ast.Name)]
        return {(bound[0], name) for name, call in changed if (bound := self.binding(name, call))}
