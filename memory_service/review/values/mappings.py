"""Settings in mappings, and objects of classes of the file with their fields, followed to what is written.

`{**elsewhere, "num_workers": 0}` has no workers, and may hold more keys (`open`)."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from memory_service.review.source.script import (
    Function,
    all_parameters,
    arguments_of,
    grouped,
    is_none,
    last_name,
    receiver,
)
from memory_service.review.tables import words_of

Values = Any  # `values.values.Values`, which imports this module

_RE, _SET, *_ = words_of("mappings")


@dataclass(frozen=True)
class Entries:
    """Keys of a mapping with their expressions; `open` where there may be further ones."""

    known: dict[str, ast.AST] = field(default_factory=dict)
    open: bool = False


DEEPEST = 8
MOST_CALLERS = 24
MOST_GROWTH = 24
MOST_LOOKS = 20_000  # looks at mappings over the whole script; a training script needs some hundreds
MOST_SPREAD = 2_000  # keywords written out for `**more` over the whole script
_UNKNOWN = Entries(open=True)
MOST_OBJECTS = 8
Instance = tuple[str, ast.Call | None]  # a class of the file and the call that makes it


def instances(values: Values, node: ast.AST, deep: int = 0) -> list[Instance]:
    """Classes of this file whose object an expression is, with the calls that make it."""
    classes = values.script.classes
    if deep > DEEPEST:
        return []
    if isinstance(node, ast.Name) and node.id in classes:
        return [(node.id, None)]
    given = [d for d in values.definitions(node, deep) if d is not None and d is not node]
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name in classes:
            return [(name, node)]
        if name == "replace":
            given = [*node.args[:1]]
        elif name in _SET.settings_makers:
            given = [g for g in arguments_of(node) if last_name(g) in classes]
    found = [made for one in given[:MOST_OBJECTS] for made in instances(values, one, deep + 1)]
    if isinstance(node, ast.Name) and not found:  # also a parameter: `def main(cfg: Config)`
        function = values.script.function(node)
        own = [p for p in all_parameters(function) if p.arg == node.id] if function is not None else []
        annotated = next((last_name(p.annotation) for p in own if p.annotation is not None), "")
        return _parsed(values, node) or ([(annotated, None)] if annotated in classes else [])
    return found[:MOST_OBJECTS]


def _parsed(values: Values, node: ast.Name) -> list[Instance]:
    """`a, b = HfArgumentParser((A, B)).parse_args_into_dataclasses()` gives an A and a B."""
    script, found = values.script, list[Instance]()
    for call in script.called("parse_args_into_dataclasses", "parse_dict", "parse_json_file"):
        target = getattr(script.statement(call), "targets", [None])[0]
        parser = receiver(call) or call
        makers = [parser, *values.sources(parser)]
        given = next((m.args[0] for m in makers if isinstance(m, ast.Call) and m.args), None)
        if isinstance(target, ast.Tuple) and isinstance(given, ast.Tuple | ast.List):
            pairs = zip(target.elts, given.elts, strict=False)
            found += [(last_name(kind), None) for item, kind in pairs if last_name(item) == node.id]
    return [one for one in found if one[0] in script.classes][:1]


def fields(values: Values, name: str, call: ast.Call | None) -> dict[str, list[ast.AST]]:
    """The fields of an object of a class of this file: as it was made, else as the class sets them."""
    out = dict(values.attributes.get(name, {}))
    body = values.script.classes[name].body if name in values.script.classes else []
    if call is None or any(isinstance(n, ast.FunctionDef) and n.name == "__init__" for n in body):
        return out
    declared = [last_name(n.target) for n in body if isinstance(n, ast.AnnAssign)]
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    given: dict[str, ast.AST] = {} if starred else dict(zip(declared, call.args, strict=False))
    for keyword in call.keywords:
        given |= {keyword.arg: keyword.value} if keyword.arg else values.entries(keyword.value).known
    return out | {field: [node] for field, node in given.items()}


class Mappings:
    """The mappings of one script."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._script = values.script
        self._cache: dict[ast.AST, Entries] = {}
        self._looks = 0

    def entries(self, node: ast.AST, deep: int = 0) -> Entries:
        if node in self._cache:
            return self._cache[node]
        self._looks += 1
        if deep > DEEPEST or self._looks > MOST_LOOKS:
            return _UNKNOWN
        found = self._look(node, deep + 1)
        if deep <= 3:  # what a name is set to is asked for at each of its uses
            self._cache[node] = found
        return found

    def _look(self, node: ast.AST, deep: int) -> Entries:
        match node:
            case ast.Dict():
                return self._literal(node, deep)
            case ast.Call():
                return self._made(node, deep)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return _over(self.entries(left, deep), self.entries(right, deep))
            case ast.Name():
                return self._named(node, deep)
        return self._defined(node, deep)

    def _defined(self, node: ast.AST, deep: int) -> Entries:
        found = self._values.definitions(node, deep)
        known = _merged([self.entries(one, deep) for one in found if one is not None])
        return Entries(known.known, open=known.open or not found or None in found)

    def _literal(self, node: ast.Dict, deep: int) -> Entries:
        out = Entries()
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                out = _over(out, self.entries(value, deep))
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                out.known[key.value] = value
            else:
                out = Entries(out.known, open=True)
        return out

    def _made(self, node: ast.Call, deep: int) -> Entries:
        name = last_name(node.func)
        if name in _SET.namespaces and (isinstance(node.func, ast.Name) or name != "dict"):
            return self._given(node, deep)
        if name in ("asdict", "vars") and node.args:
            return self._fields(node.args[0], deep)
        if name in _SET.holders and node.args:
            return self.entries(node.args[0], deep)
        if name in _SET.text_loaders and node.args:
            text = self._values.text(node.args[0])
            stated = settings_of(text, node) if text is not None else None
            return self._literal(stated, deep) if stated is not None else _UNKNOWN
        return self._defined(node, deep)

    def _given(self, call: ast.Call, deep: int, *, positional: bool = True) -> Entries:
        """What the arguments of a call hold together: `dict(base, lr=1e-3, **more)`."""
        out = Entries()
        for given in call.args if positional else ():
            out = _over(out, self.entries(given, deep))
        for keyword in call.keywords:
            more = Entries({keyword.arg: keyword.value}) if keyword.arg else self.entries(keyword.value, deep)
            out = _over(out, more)
        return out

    def _named(self, node: ast.Name, deep: int) -> Entries:
        bound = self._values.binding(node.id, node)
        if bound is None:
            return _UNKNOWN
        scope, sources = bound
        first = _UNKNOWN
        given = [s for s in sources if s is not None]
        change = self._growth.get(node.id, [])
        unknown = len(sources) - len(given) - sum(isinstance(g, ast.AugAssign) for g in change)
        around = {node, *self._script.above(node)}
        before = [s for s in given if s not in around]
        if len(before) < len(given):  # `kw = {**kw, ...}` reads what it was before
            before = [s for s in before if self._script.order.get(s, 0) < self._script.order.get(node, 0)]
        before = self._latest(before, node)
        if before:
            known = _merged([self.entries(one, deep) for one in before])
            first = Entries(known.known, known.open or unknown > 0)
        elif isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            first = self._handed(scope, node.id, deep)
        return self._with_growth(node, scope, first, deep)

    def _latest(self, sources: list[ast.AST], node: ast.AST) -> list[ast.AST]:
        """Of several settings of a name those that can still stand at a place of the same function."""
        script = self._script
        if len(sources) < 2:
            return sources
        home, here = script.function(node), script.order.get(node, 0)
        if any(script.function(s) is not home for s in sources):
            return sources
        passed = [s for s in sources if script.order.get(s, here) < here]
        for position in range(len(passed) - 1, 0, -1):
            block = script.parents.get(script.statement(passed[position]))
            if block is home or block is script.tree:
                return passed[position:]
        return passed or sources

    def _handed(self, function: Function, name: str, deep: int) -> Entries:
        """What callers of this file hand over for a parameter, `**more` included."""
        calls = [c for c in self._values.callers(function)[0] if self._script.function(c) is not function]
        arguments = function.args
        if len(calls) <= MOST_CALLERS and arguments.kwarg is not None and arguments.kwarg.arg == name:
            named = {a.arg for a in (*arguments.args, *arguments.kwonlyargs)}
            given_by = [self._given(call, deep, positional=False) for call in calls]
            extras = [Entries({k: v for k, v in g.known.items() if k not in named}, g.open) for g in given_by]
            return _merged(extras) if extras else _UNKNOWN
        given = self._values.passed(function, name) if len(calls) <= MOST_CALLERS else []
        if not given or None in given:
            return _UNKNOWN
        return _merged([self.entries(g, deep) for g in given if g is not None and not _is_nothing(g)])

    def _fields(self, node: ast.AST, deep: int) -> Entries:
        """The fields of an object: a dataclass, a class of settings, the parsed command line."""
        made = [fields(self._values, *one) for one in instances(self._values, node, deep)]
        known = [{k: nodes[0] for k, nodes in one.items() if len(nodes) == 1} for one in made]
        return _merged([Entries(one) for one in known]) if made else _UNKNOWN

    def _with_growth(self, node: ast.Name, scope: ast.AST, out: Entries, deep: int) -> Entries:
        """A dict with what `update`, `|=` and `d["key"] = ...` add; under a condition only new keys."""
        script, here = self._script, self._script.order.get(node, 0)
        for change in self._growth.get(node.id, ())[:MOST_GROWTH]:
            later = script.order[change] > here and script.function(change) is script.function(node)
            bound = self._values.binding(node.id, change)
            other = bound is None or bound[0] is not scope or any(script.around(change, ast.ExceptHandler))
            behind = later and not {*script.loops(node)} & {*script.loops(change)}
            if other or behind or change in (node, *script.above(node)):
                continue
            more = self._given(change, deep) if isinstance(change, ast.Call) else _UNKNOWN
            if isinstance(change, ast.AugAssign):
                more = self.entries(change.value, deep)
            elif isinstance(change, ast.Assign) and isinstance(change.targets[0], ast.Subscript):
                key = self._values.text(change.targets[0].slice)
                more = Entries({key: change.value}) if key else _UNKNOWN
            sometimes = any(script.around(change, ast.If))
            out = _over(more, out) if sometimes else _over(out, more)
        return out

    @cached_property
    def _growth(self) -> dict[str, list[ast.AST]]:
        """Name of a dict -> statements that put more into it, in the order of the text."""
        script = self._script
        stated = [(target, node) for node in script.all(ast.Assign) for target in node.targets]
        grown: list[tuple[ast.AST | None, ast.AST]] = [
            *((receiver(call), call) for call in script.called("update")),
            *((target.value, node) for target, node in stated if isinstance(target, ast.Subscript)),
            *((node.target, node) for node in script.all(ast.AugAssign) if isinstance(node.op, ast.BitOr)),
        ]
        grown.sort(key=lambda change: script.order[change[1]])
        return grouped((holder.id, change) for holder, change in grown if isinstance(holder, ast.Name))


def expand(values: Values) -> None:
    """Writes out `**more` of each call as keywords, so that every rule sees them; what is open stays."""
    script, left = values.script, MOST_SPREAD
    for call in (one for one in script.calls if any(k.arg is None for k in one.keywords)):
        stated = {k.arg for k in call.keywords if k.arg}
        out: list[ast.keyword] = []
        for keyword in call.keywords:
            item = values.entries(keyword.value) if keyword.arg is None and left > 0 else _UNKNOWN
            left -= len(item.known)
            for name, value in item.known.items() if left > 0 else ():
                if name not in stated and isinstance(value, ast.expr):
                    out.append(script.added_keyword(call, name, value))
            out += [keyword] if item.open or left <= 0 else []
        values.spread[call] = call.keywords
        call.keywords = out


def _is_nothing(node: ast.AST) -> bool:
    """`None` and `{}`, which hold nothing that could be missed."""
    return is_none(node) or (isinstance(node, ast.Dict) and not node.keys)


def _over(first: Entries, more: Entries) -> Entries:
    """A mapping with another put over it; where that one is open, what was known before may be replaced."""
    return Entries({**first.known, **more.known}, first.open or more.open)


def _merged(alternatives: Iterable[Entries]) -> Entries:
    """What one of several mappings holds. A key that some have not is given with a value that is unknown."""
    all_of = list(alternatives)
    known: dict[str, ast.AST] = {}
    for key in dict.fromkeys(k for one in all_of for k in one.known):
        distinct: dict[Any, ast.AST] = {}
        for node in (one.known[key] for one in all_of if key in one.known):
            distinct.setdefault(ast.dump(node) if isinstance(node, ast.Constant) else node, node)
        nodes = [*distinct.values()]
        if any(key not in one.known for one in all_of):
            nodes.append(ast.copy_location(ast.Name("", ast.Load()), nodes[0]))
        known[key] = nodes.pop()
        for node in reversed(nodes):
            choice = ast.IfExp(ast.Name("", ast.Load()), node, known[key])  # type: ignore[arg-type]
            known[key] = ast.copy_location(choice, node)
    return Entries(known, any(one.open for one in all_of))


_LONGEST = 20_000
_WORDS = {"true": True, "false": False, "yes": True, "no": False, "null": None, "none": None, "~": None}


def settings_of(text: str, place: ast.AST) -> ast.Dict | None:
    """The settings of JSON, or scalars and mappings of YAML, as a literal dict; None for any other text."""
    if len(text) > _LONGEST:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = _yaml(text)
    literal = ast.parse(repr(found), mode="eval").body if isinstance(found, dict) and found else None
    for node in ast.walk(literal) if literal is not None else ():
        ast.copy_location(node, place)
    return cast("ast.Dict | None", literal)


def _yaml(text: str) -> dict[str, Any] | None:
    out: dict[str, Any] = {}
    open_at: list[tuple[int, dict[str, Any]]] = [(-1, out)]
    for line in text.splitlines():
        stated = re.sub(r"(^|\s)#.*$", "", line).rstrip()
        if not stated or stated.lstrip().startswith("-"):
            continue
        entry = _RE.entry.match(stated)
        if entry is None:
            return None
        depth, key, value = len(entry[1]), entry[2], entry[3]
        while open_at[-1][0] >= depth:
            open_at.pop()
        open_at[-1][1][key] = inner = _scalar(value) if value else {}
        open_at += [(depth, inner)] if not value else []
    return out


def _scalar(text: str) -> Any:
    """A number, a list, a quoted text or a word of YAML; else the text as it stands."""
    try:
        return _WORDS[text.lower()] if text.lower() in _WORDS else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError):
        return text
