"""One walk through a script: functions entered, rows divided, columns picked, what is learned of which."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from memory_service.review.interpretation.state import (
    UNKNOWN,
    Columns,
    Learned,
    Rows,
    Scope,
    Value,
    all_of,
    derived,
    either,
    flat,
    one_of,
)
from memory_service.review.source.script import Function, bases_of, is_call, last_name, receiver, roots
from memory_service.review.tables import words_of
from memory_service.review.values.values import Values

_RE, _SET, *_ = words_of("interpretation")
Kind = Literal["number", "text", ""]
MOST_OPERATIONS = 12
MOST_COLUMNS = 120  # of one table, followed by name; others are kept together
MOST_STEPS = 30_000  # statements and expressions of one walk; a training script takes some thousand
MOST_FITS = 100
MOST_DIVISIONS = 200  # also of features that go on with an answer
MOST_PARTS = 2_000  # fits and statistics, divisions, and parts of rows that are distinguished


def methods_in(owner: ast.ClassDef | None) -> Iterator[Function]:
    return (part for part in (owner.body if owner is not None else ()) if isinstance(part, Function))


@dataclass(eq=False, slots=True)
class Division:
    """Rows divided into some to train on and some to judge by. `maker`: the splitter's own call."""

    place: ast.AST
    kind: str
    maker: ast.Call | None
    contents: Value


@dataclass(eq=False, slots=True)
class Coding:
    """Categories numbered. `present`: only where a column is; `unconditional`: under no other condition."""

    place: ast.AST
    what: str
    rows: frozenset[Rows]
    unconditional: bool
    coder: Value | None
    columns: frozenset[str] | None
    present: bool = False


@dataclass(slots=True)
class Use:
    """One call with its values. `base`: what a method is of; `dotted`: the full name of a function."""

    node: ast.Call
    name: str
    args: list[Value]
    named: dict[str, Value]
    scope: Scope
    base: Value = field(default_factory=Value)
    dotted: str = ""

    @property
    def first(self) -> Value:
        """What is given first, or for it by name; empty where nothing is."""
        return next(iter((*self.args[:1], *(self.named[k] for k in _FIRST if k in self.named))), Value())

    @property
    def given(self) -> list[Value]:
        return [*self.args, *self.named.values()]


@dataclass(frozen=True)
class Supervised:
    """Features handed on beside the answer. `final`: to a model, not to what divides them first."""

    place: ast.AST
    features: Value
    answer: Value
    final: bool


_FIRST = ("X", "x", "data", "dataset")
Named = dict[str, Value]
Body = Sequence[ast.stmt]
MOST_CALLED = 8  # functions entered within one another
MOST_BASES = 4  # classes above one another
MOST_TIMES = 12  # A function is entered that often; a run of the script may do it a thousand times


class Walk:
    """The state of one walk."""

    def __init__(self, values: Values, targets: frozenset[str] = frozenset()) -> None:
        self.script = values.script
        self.values = values
        self.module = Scope({})
        self._targets, self.needs_targets = targets, False
        self.answers: list[Value] = []  # targets by their names or by where they are handed
        self.target_names: set[str] = set()  # columns that constants name as targets
        self.steps = self.deep = self.unsure = self.present = 0
        self.active: list[ast.AST] = []
        self.times: Counter[ast.AST] = Counter()
        self.returned: list[list[Value]] = []
        self.yielded: list[list[Value]] = []
        self.made: list[Value] = []
        self.loops: list[ast.AST] = []
        self.calling: list[ast.Call] = []
        self.leaks: dict[Learned, ast.AST] = {}  # learned from rows -> the division that sets them apart
        self.divisions: list[Division] = []  # in the order of the run
        self.codings: list[Coding] = []  # categories numbered
        self.fitted: list[Coding] = []
        self.supervised: list[Supervised] = []  # features and targets that go together
        self.grouped: dict[ast.AST, frozenset[Rows] | set[Rows]] = {}
        self.loaders: dict[ast.AST, list[Value]] = {}  # call of a DataLoader -> its data sets
        self.shared: dict[int, set[str]] = {}
        self.files: dict[tuple[object, str], Rows] = {}
        self.parts: dict[tuple[int, int, str], Rows] = {}
        self.cuts: dict[tuple[str, ...], dict[str, Value]] = {}
        self.too_much = Learned(self.script.tree, "", "", frozenset())
        self.known: dict[tuple[int, frozenset[Rows]], Learned] = {}

    @cached_property
    def unbound(self) -> set[str]:
        """Names that nothing in a snippet makes or imports."""
        names = self.script.all(ast.Name)
        bound = {name.id for name in names if not isinstance(name.ctx, ast.Load)} | {*self.script.imports}
        bound |= {arg.arg for arg in self.script.all(ast.arg)} | {*self.script.functions}
        starred = any(one.name == "*" for one in self.script.all(ast.alias))
        return {name.id for name in names if not starred} - bound

    @cached_property
    def predicts_numbers(self) -> bool:
        """Whether a loss, a metric or a model says that the target is a number."""
        return any(_RE.of_numbers.search(last_name(call.func)) for call in self.script.calls)

    @property
    def targets(self) -> frozenset[str]:
        """Columns that are to be predicted, as a walk before has found them."""
        self.needs_targets = True
        return self._targets

    def outside_rows(self, place: ast.AST, name: str = "", *, file: bool = False) -> Value:
        """Rows that come from outside: a file, or a parameter that nothing here gives."""
        key = ("file", name) if file and name else (place, name)
        rows = self.files.setdefault(key, Rows(place, name=name))
        return Value(frozenset((rows,)))

    def rows_below(self, rows: Rows, place: ast.AST, part: str, how: str = "") -> Rows:
        key = (id(place), id(rows), part + how)
        if len(self.parts) >= MOST_PARTS and key not in self.parts:
            return rows
        return self.parts.setdefault(key, Rows(place, rows, part, rows.name))

    def grouped_rows(self, rows: Rows, place: ast.AST) -> Rows:
        """Many rows become one each."""
        made = self.rows_below(rows, place, "", "group")
        made.grouped = True
        return made

    def part_of(self, value: Value, place: ast.AST, part: str, how: str = "") -> Value:
        found = flat(value if value.kind is not None else value.bare())
        found.rows = frozenset(self.rows_below(rows, place, part, how) for rows in found.rows)
        found.attrs, found.index = value.single_columns(), (place, part) if part else None
        same = ("made", "kind", "scope", "single", "reads", "columns", "whole", "dropped", "place")
        return value.keeping(found, *same)

    def divide(self, value: Value, place: ast.AST, kind: str, maker: ast.Call | None = None) -> None:
        """Rows go apart here: what was learned from all of them has seen those of validation."""
        found = flat(value)
        if len(self.divisions) >= MOST_DIVISIONS:
            return
        self.divisions.append(Division(place, kind, maker, found))
        everything = found.learned | {s for s in found.stats if s.kind == "target"}
        for learned in sorted(everything, key=lambda one: self.script.order.get(one.place, 0)):
            if any(rows.within(learned.rows) and not rows.divided for rows in found.rows):
                self.leaks.setdefault(learned, place)

    def learned_from(self, place: ast.AST, what: str, kind: str, rows: frozenset[Rows]) -> Learned:
        if len(self.known) >= MOST_FITS:
            return self.known.get((id(place), rows), self.too_much)
        return self.known.setdefault((id(place), rows), Learned(place, what, kind, rows))

    def apply_learned(self, learned: frozenset[Learned] | set[Learned], value: Value) -> None:
        """What was learned from undivided rows is put to a part of them."""
        found = flat(value)
        for one in learned:
            for rows in found.rows:
                apart = {r for r in one.rows if r.parent is rows.parent and r is not rows and r.part}
                if rows.part and rows in one.rows and apart and not apart & found.rows:
                    self.leaks.setdefault(one, rows.place)
                line = list(rows.line())
                for at, step in enumerate(line):
                    if step.part and any(above in one.rows for above in line[at + 1 :]):
                        self.leaks.setdefault(one, step.place)

    def combine(self, node: ast.AST, op: ast.AST, left: Value, right: Value) -> Value:
        """An operation of two values; standardising by what all rows say is learning."""
        if isinstance(op, ast.Add) and left.items is not None and right.items is not None:
            return Value(items=[*left.items, *right.items])
        if isinstance(op, ast.BitOr) and left.keys is not None and right.keys is not None:
            return Value(keys={**left.keys, **right.keys})
        if left.made == "columns" or (right.made == "columns" and left.items is not None):
            return _names_of_both(op, left, right)
        columns = left.columns if left.rows else right.columns
        out = replace(derived(left, right), columns=columns, reads=left.reads | right.reads)
        if left.whole and not right.rows:
            out.whole, out.dropped, out.place = True, left.dropped, left.place
        if left.made == "cumsum" and isinstance(op, ast.Sub) and not right.series:
            out.reads -= right.reads  # the sum of the rows before
        about = {s for s in right.stats if s.kind in ("mean", "spread") and all_of(left.rows) & s.rows}
        if isinstance(op, ast.Sub) and about:
            out.centred = True
        if isinstance(op, ast.Div) and about and (left.centred or all(s.what == "max" for s in about)):
            rows = frozenset().union(*(s.rows for s in about))
            first = min(about, key=lambda s: self.script.order.get(s.place, 0))
            here = self.script.function(node) is self.script.function(first.place)
            learned = self.learned_from(node if here else first.place, "", "fit", rows)
            out.learned |= {learned}
            out.stats = frozenset(s for s in out.stats if s not in about)
            self.apply_learned({learned}, left)
        elif isinstance(op, ast.Mult | ast.Add | ast.Div | ast.Mod):
            out.centred = left.centred or right.centred
        return out

    def element_of(self, over: Value) -> Value:
        """What a loop over a value gets."""
        if over.element is not None:
            return over.element
        if over.items:
            return one_of(over.items[:8])
        if over.made == "groupby":
            return Value(items=[Value(), replace(self.part_of(over, self.script.tree, "", "group"), made="")])
        return replace(derived(over), single=True, reads=over.reads, index=over.index)

    def subscript(self, base: Value, node: ast.Subscript, scope: Scope) -> Value:
        """`base[...]`: an item, columns, a part of the rows, a selection, one row."""
        inner = node.slice
        key = None if isinstance(inner, ast.Slice | ast.Tuple) else self.constant(inner, scope)
        if (item := self.item_of(base, inner, key)) is not None:
            return item
        if isinstance(key, str):
            return base.column(key)
        if isinstance(key, list) and key and all(isinstance(k, str) for k in key):
            return self.pick_columns(base, Columns(frozenset(key)), node)
        if isinstance(inner, ast.Tuple) and inner.elts:
            out, column = self.choose_rows(base, inner.elts[0], node, scope), inner.elts[-1]
            named = self.constant(column, scope) if len(inner.elts) == 2 else None
            if isinstance(named, str):
                return out.column(named)
            if len(inner.elts) == 2 and not isinstance(column, ast.Slice | ast.Constant):
                return self.columns_by(out, self.evaluate(column, scope), node) or derived(out)
            return out if _is_all(column) else derived(out)
        chooses = base.rows and not isinstance(inner, ast.Slice)
        picked = self.columns_by(base, self.evaluate(inner, scope), node) if chooses else None
        return picked or self.choose_rows(base, inner, node, scope)

    def columns_by(self, base: Value, chooser: Value, node: ast.AST) -> Value | None:
        """Columns that a list of names chooses, or a mask or pattern over names; None for what is neither."""
        names = chooser.listed_names()
        if names is not None and (names.named is not None or chooser.rows & all_of(base.rows)):
            return self.pick_columns(base, names, node, chooser.place)
        if chooser.made != "columns":
            return None
        return Value(base.rows, made="columns") if base.made == "columns" else derived(base)

    def item_of(self, base: Value, inner: ast.AST, key: Any) -> Value | None:
        """An item of a list, a tuple or a dict; None for what is none of them."""
        if base.items is not None and isinstance(key, int) and -len(base.items) <= key < len(base.items):
            return base.items[key]
        if base.keys is not None and isinstance(key, str | int) and str(key) in base.keys:
            return base.keys[str(key)]
        if base.element is not None and base.kind is None:
            every = one_of([base.element, *(base.keys or {}).values()])
            return base if isinstance(inner, ast.Slice) else every
        if base.keys or base.items:
            return self.element_of(Value(items=list((base.keys or {}).values()) or base.items))
        return None

    def choose_rows(self, base: Value, inner: ast.AST, node: ast.Subscript, scope: Scope) -> Value:
        if _is_all(inner):
            return base
        if isinstance(inner, ast.Slice) and base.order:
            return Value(index=(node, "train" if inner.lower is None else "valid"))
        if isinstance(inner, ast.Slice):
            low, high = (ast.dump(b)[:200] if b is not None else "" for b in (inner.lower, inner.upper))
            return self.choose_by(base, ("slice", low or high, "above" if low else "below"), node)
        chooser = self.evaluate(inner, scope)
        if chooser.index is not None:
            place, part = chooser.index
            self.divide(base, place, "positions")
            return self.part_of(base, place, part)
        if chooser.cut:
            return self.choose_by(base, chooser.cut, node)
        out = replace(base.like(), made=base.made if base.made in ("groupby", "rolling") else "")
        if chooser.made == "columns" or not chooser.rows:
            out.whole, out.columns = False, None
        several = chooser.rows or chooser.order or chooser.made or chooser.items or chooser.element
        row = chooser.const is not UNKNOWN or not (several or isinstance(self.constant(inner, scope), list))
        out.single = out.single or row
        return out

    def choose_by(self, base: Value, how: tuple[str, ...], node: ast.AST) -> Value:
        """Rows chosen by a condition; the rest chosen elsewhere makes it a division."""
        found = flat(base)
        if len(self.divisions) >= MOST_DIVISIONS:
            return base.like()
        before = self.cuts.setdefault((*how[:-1], str(sorted(id(r) for r in found.rows))), {})
        if before.get("") is None:
            before[how[-1]] = base
        if len(before) > 1 and found.rows:
            self.divide(base, node, "cut")
        return self.part_of(base, self.script.statement(node), "", ":".join(how))

    def set_column(
        self, base: Value, name: str | None, value: Value, target: ast.AST, made_by: ast.AST | None = None
    ) -> None:
        """`df["a"] = ...`: what goes into one column stays with it; None: which one is unknown."""
        item = replace(flat(value), rows=frozenset(), on_card=False, centred=value.centred, reads=value.reads)
        item.place = self.script.statement(target)
        item.content = kind_of(made_by, self.values) if made_by is not None else value.content
        if name is None or (len(base.attrs) >= MOST_COLUMNS and f"[{name}]" not in base.attrs):
            base.attrs["[?]"] = either(base.attrs.get("[?]"), item)
            return
        before = base.attrs.get(f"[{name}]") if self.unsure or self.present else None
        base.attrs[f"[{name}]"] = either(before, item) if before is not None else item
        base.dropped -= {name}
        base.columns = base.columns | {name} if base.columns is not None else None

    def pick_columns(self, base: Value, names: Columns, node: ast.AST, at: ast.AST | None = None) -> Value:
        """Columns by a list of names, or all of the table but some. `at`: where the list was made."""
        named = names.named
        out = base.columns_named(sorted(named)) if named is not None else base.without_columns(names.dropped)
        elsewhere = at is not None and self.script.function(at) is not self.script.function(node)
        out.place = at if elsewhere else node
        return out

    def listed_columns(self, node: ast.AST | None, scope: Scope) -> frozenset[str] | None:
        """Names of columns that an expression lists, one or several."""
        found = self.constant(node, scope) if node is not None else None
        if isinstance(found, str):
            return frozenset((found,))
        if isinstance(found, list | tuple) and all(isinstance(one, str) for one in found):
            return frozenset(found)
        names = self.evaluate(node, scope).listed_names()
        return names.named if names is not None else None

    def supervise(
        self, place: ast.AST, features: Value | None, answer: Value | None, *, final: bool = True
    ) -> None:
        """Features and answers go on together: into a fit, a split, a data set."""
        self.answers += [answer] if answer is not None else []
        room = len(self.supervised) < MOST_DIVISIONS
        if room and features is not None and answer is not None and answer.reads:
            self.supervised.append(Supervised(place, features, answer, final))

    def evaluate(self, node: ast.AST | None, scope: Scope) -> Value:
        self.steps += 1
        if node is None or self.steps > MOST_STEPS or self.deep > MOST_DEEP:
            return Value()
        self.deep += 1
        try:
            handler = EXPRESSIONS.get(type(node))
            if handler is None:
                inner = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
                return derived(*(self.evaluate(part, scope) for part in inner))
            found = handler(self, node, scope)
            return found if isinstance(found, Value) else Value()
        finally:
            self.deep -= 1

    def constant(self, node: ast.AST | None, scope: Scope) -> Any:
        """The constant that an expression is in this run, else None."""
        if node is None:
            return None
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            found = scope.find(node.id)
            if found is not None and found.const is not UNKNOWN:
                return found.const
        if isinstance(node, ast.Slice | ast.Compare) or last_name(node) == "columns":
            return None
        return self.values.one(node)

    def run_body(self, body: Body, scope: Scope) -> bool:
        """Whether it ends what is around it: `return`, `raise`, `continue`, `break`."""
        if self.deep > MOST_DEEP:
            return False
        self.deep += LEVELS_OF_A_BODY
        ended = False
        for statement in body:
            self.steps += 1
            handler = STATEMENTS.get(type(statement))
            if self.steps > MOST_STEPS or (handler is not None and handler(self, statement, scope)):
                ended = True
                break
        self.deep -= LEVELS_OF_A_BODY
        return ended

    def is_own(self, base: Value, name: str) -> bool:
        found = base.kind and (self.method_of(base.kind, name) or self.class_attribute(base.kind, name))
        return name in base.attrs or found is not None

    def call_value(self, callee: Value, args: list[Value], named: Named) -> Value:
        """What a function of the file gives for these."""
        if callee.function is None:
            return derived(*args, *named.values())
        if isinstance(callee.function, ast.Lambda):
            names = self.bind(callee.function.args, args, named, callee.scope, fresh=False)
            return self.evaluate(callee.function.body, Scope(names, callee.scope))
        return self.enter_function(callee.function, args, named, callee.owner, callee.scope or self.module)

    def by_row(self, use: Use) -> Value:
        """A table with what a function makes of each row of it: `df.apply(f)`, `ds.map(f)`."""
        if use.first.function is None:
            return use.base.with_more(use.given)
        row = replace(derived(use.base), single=True)
        return use.base.with_more([self.call_value(use.first, [row, *use.args[1:]], use.named)])

    def enter_function(
        self, function: Function, args: list[Value], named: Named, owner: Value | None, scope: Scope
    ) -> Value:
        again = function in self.active or self.times[function] >= MOST_TIMES
        self.times[function] += 1
        if again or len(self.active) > MOST_CALLED or self.steps > MOST_STEPS:
            return derived(*args, *named.values(), owner)
        free = self.times[function] == 1 and not args and not named
        static = any(last_name(d) == "staticmethod" for d in function.decorator_list)
        given = args if owner is None or static else [owner, *args]
        inner = Scope(self.bind(function.args, given, named, scope, fresh=free), scope)
        self.active.append(function)
        self.returned.append([])
        self.yielded.append([])
        loops, self.loops = self.loops, []
        self.run_body(function.body, inner)
        self.loops = loops
        returned, yielded = self.returned.pop(), self.yielded.pop()
        self.active.pop()
        if yielded:
            return Value(element=one_of(yielded))
        return one_of(returned) if returned else Value(const=None)

    def bind(
        self, parameters: ast.arguments, given: list[Value], named: Named, scope: Scope | None, *, fresh: bool
    ) -> Named:
        """Parameters with what is given for them; with `fresh` those left out are rows of their own."""
        out: Named = {}
        positional = [*parameters.posonlyargs, *parameters.args]
        behind = len(positional) - len(parameters.defaults)
        at_home = scope or self.module
        defaults = [*parameters.defaults, *parameters.kw_defaults]
        for at, parameter in enumerate([*positional, *parameters.kwonlyargs]):
            if at < min(len(given), len(positional)):
                out[parameter.arg] = given[at]
            elif parameter.arg in named:
                out[parameter.arg] = named[parameter.arg]
            elif at >= behind:
                out[parameter.arg] = self.evaluate(defaults[at - behind], at_home)
            else:
                out[parameter.arg] = self.outside_rows(parameter, parameter.arg) if fresh else Value()
        self.answers += [value for name, value in out.items() if _RE.target.match(name)]
        if parameters.vararg is not None:
            out[parameters.vararg.arg] = Value(items=list(given[len(positional) :]))
        if parameters.kwarg is not None:
            out[parameters.kwarg.arg] = Value(keys={k: v for k, v in named.items() if k not in out})
        return out

    def make_instance(self, item: Value, args: list[Value], named: Named, node: ast.Call | None) -> Value:
        """An object of a class of the file, its `__init__` run, and what indexing it gives."""
        owner = item.kind
        if owner is None:
            return Value()
        made = Value(made=owner.name, kind=owner, scope=item.scope, call=node)
        method = self.method_of(owner, "__init__")
        if method is not None:
            self.enter_function(method, args, named, made, item.scope or self.module)
        else:
            fields = [last_name(s.target) for s in owner.body if isinstance(s, ast.AnnAssign)]
            made.attrs |= dict(zip(fields, args, strict=False)) | named
        for hook in ("__post_init__", "__getitem__"):
            method = self.method_of(owner, hook)
            if method is not None:
                given = self.enter_function(method, [Value()], {}, made, item.scope or self.module)
                if hook == "__getitem__":
                    made.element = given
                    if any(slides(method, position) for position in method.args.args[1:2]):
                        made.series |= {method}  # `return self.v[i : i + self.n]`: neighbours share rows
        if not bases_of(owner) & {"Dataset", "Module", "Sequence"}:
            self.made.append(made)
        return made

    def method_of(self, owner: ast.ClassDef, name: str) -> Function | None:
        methods = (method for one in self._lineage(owner) for method in methods_in(one))
        return next((method for method in methods if method.name == name), None)

    def class_attribute(self, owner: ast.ClassDef, name: str) -> Value | None:
        known = (self.module.find(one.name) for one in self._lineage(owner))
        return next((item.attrs[name] for item in known if item is not None and name in item.attrs), None)

    def _lineage(self, owner: ast.ClassDef, deep: int = 0) -> Iterator[ast.ClassDef]:
        """A class of the file and those that it is made from."""
        yield owner
        for base in map(last_name, owner.bases) if deep < MOST_BASES else ():
            if base in self.script.classes and self.script.classes[base] is not owner:
                yield from self._lineage(self.script.classes[base], deep + 1)


Handler = Callable[..., Any]  # (walk, node, scope) of a node of the tree, (walk, use) of a call
EXPRESSIONS: dict[type[ast.AST], Handler] = {}
STATEMENTS: dict[type[ast.AST], Handler] = {}
METHODS: dict[str, Handler] = {}
LIBRARY: dict[str, Handler] = {}
Registered = TypeVar("Registered", bound=Handler)


def _in(table: dict[Any, Handler]) -> Callable[..., Callable[[Registered], Registered]]:
    def of(*keys: Any) -> Callable[[Registered], Registered]:
        return lambda handler: (table.update(dict.fromkeys(keys, handler)), handler)[1]

    return of


evaluates, runs, method, library = _in(EXPRESSIONS), _in(STATEMENTS), _in(METHODS), _in(LIBRARY)
MOST_DEEP = 120
LEVELS_OF_A_BODY = 4  # of MOST_DEEP: a call takes so many more frames


def invert(node: ast.UnaryOp, item: Value) -> Value:
    """`-x`, `~mask`."""
    if isinstance(node.op, ast.Not):
        return Value()
    out = item.keeping(derived(item), "columns", "centred", "reads")
    if isinstance(node.op, ast.Invert) and item.cut:
        out.cut = (*item.cut[:-1], "not " + item.cut[-1])
    return out


def compare_values(node: ast.Compare, item: list[Value]) -> Value:
    """A mask: by chance, by the column of folds, or by what it says."""
    left, out = item[0], derived(*item)
    out.reads = frozenset().union(*(value.reads for value in item))
    if left.columns and any(_RE.fold_column.match(c) for c in left.columns):
        out.index = (node, type(node.ops[0]).__name__)
    elif left.made in _SET.random or (left.made in _SET.orders and left.order):
        out.index = (node, "train")
    else:
        out.index = next((value.index for value in item if value.index), None)
        out.cut = ("mask", short(node.left), short(node.comparators[0]), type(node.ops[0]).__name__)
    return out


def _names_of_both(op: ast.AST, left: Value, right: Value) -> Value:
    """`set(df.columns) - {"id"}`, `columns + ["extra"]`."""
    if left.made != "columns":
        left, right = right, left
    names, more = left.names, right.listed_names()
    if names is None or more is None:
        names = None
    elif isinstance(op, ast.Add | ast.BitOr):
        names = names.together_with(more)
    else:
        names = names.without(more.named) if isinstance(op, ast.Sub) and more.named else None
    return Value(left.rows, made="columns", names=names)


def short(node: ast.AST | None) -> str:
    """An expression as text to compare by."""
    return ast.dump(node)[:300] if node is not None else ""


def slides_along(loop: ast.For | ast.comprehension, node: ast.AST) -> bool:
    """Whether neighbours share rows where each position is gone through: `for i in range(n)`."""
    by_one = is_call(loop.iter, "range", "trange") and len(loop.iter.args) < 3
    return by_one and slides(node, loop.target)


def slides(node: ast.AST, position: ast.AST) -> bool:
    """`values[i : i + n]` at position i: neighbours share rows."""
    names = {getattr(n, "id", getattr(n, "arg", "")) for n in ast.walk(position)}
    for cut in ast.walk(node):
        if isinstance(cut, ast.Slice) and cut.lower is not None and cut.upper is not None:
            ends = (cut.lower, cut.upper)
            scaled = any(isinstance(n, ast.Mult) for end in ends for n in ast.walk(end))
            if not scaled and all(names & roots(end) for end in ends):
                return True
    return False


def kind_of(node: ast.AST, values: Values, deep: int = 0) -> Kind:
    """The kind of what arithmetic, a cast or a function makes of columns, "" where the text does not say."""
    if isinstance(node, ast.BinOp):
        return "" if isinstance(node.op, ast.Add | ast.Mod | ast.BitAnd | ast.BitOr) else "number"
    name = last_name(node.func) if isinstance(node, ast.Call) and deep < MOST_OPERATIONS else ""
    if not isinstance(node, ast.Call) or name in _SET.numbers:
        return "number" if name else ""
    given = node.args[0] if node.args else None
    if name in _SET.casts:
        return _type_named(given, values) if given is not None else ""
    if name == "map" and isinstance(given, ast.Dict):
        known = {type(values.one(value)) for value in given.values}
        return "number" if known <= {int, float} else "text" if known == {str} else ""
    base = receiver(node)
    return kind_of(base, values, deep + 1) if name in _SET.keeps and base is not None else ""


def _type_named(node: ast.AST, values: Values) -> Kind:
    stated = values.one(node)
    name = stated if isinstance(stated, str) else last_name(node.func if isinstance(node, ast.Call) else node)
    return "number" if name in _SET.number_types else "text" if name in _SET.text_types else ""


def _is_all(node: ast.AST) -> bool:
    """`:`, and what leaves the rows as they are beside an axis more: `...`, `None`, `np.newaxis`."""
    if isinstance(node, ast.Slice):
        return node.lower is None and node.upper is None
    return (isinstance(node, ast.Constant) and node.value in (None, ...)) or last_name(node) == "newaxis"


@method("select_dtypes")
def columns_of_kind(walk: Walk, use: Use) -> Value | None:
    """`df.select_dtypes("number")`, polars' `cs.numeric()`: columns made here that are of the kind."""
    given, leaves_out = walk.values.argument(use.node, "include", 0), None
    if use.name == "select_dtypes":
        leaves_out = walk.values.argument(use.node, "exclude", 1)
    types = getattr(given or leaves_out, "elts", [given or leaves_out])[:20]
    found = {_type_named(one, walk.values) if one is not None else "" for one in types}
    kind = found.pop() if len(found) == 1 else ""
    if not kind or not use.base.rows or (given is not None and leaves_out is not None):
        return None
    kind = kind if given is not None else "text" if kind == "number" else "number"
    made = {name[1:-1] for name, item in use.base.attrs.items() if item.content == kind}
    others = {name[1:-1] for name in use.base.attrs if name[:1] == "["}
    if kind != "number" or not walk.predicts_numbers:
        others |= walk.targets  # the target may be a text
    out = use.base.without_columns(frozenset(others - made))
    out.place = use.node
    return out
