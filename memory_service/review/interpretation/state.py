"""The abstract value, and what one walk through a script has found so far, with its one evaluator."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, TypeVar

from memory_service.review.source.script import Function, last_name
from memory_service.review.tables import patterns
from memory_service.review.values.values import Values

_RE = patterns("interpretation")


def bare(base: Value) -> Value:
    """A table without what went into single columns of it."""
    return Value(
        base.rows, base.learned | base.state, base.stats, base.series, items=base.items, keys=base.keys,
        element=base.element, attrs={k: v for k, v in base.attrs.items() if k[:1] != "["}, single=base.single,
    )  # fmt: skip


def like(base: Value, *others: Value) -> Value:
    """The same table, with what others bring."""
    out = derived(bare(base), *others)
    out.attrs = {k: v for k, v in base.attrs.items() if k[:1] == "["}
    out.whole, out.dropped, out.columns, out.place = base.whole, base.dropped, base.columns, base.place
    return out


def keeping(base: Value, out: Value, *names: str) -> Value:
    for name in names:
        setattr(out, name, getattr(base, name))
    return out


UNKNOWN: Any = object()

MOST_LEVELS = 5
MOST_WITHIN = 60


@dataclass(eq=False, slots=True)
class Rows:
    """Rows that exist as one: as a file holds them, or a part."""

    place: ast.AST
    parent: Rows | None = None
    part: str = ""  # what a division made: "train", "valid", "part"; "" for a selection, or as they came
    name: str = ""  # the text that they were read by
    grouped: bool = False  # each is what many rows became: one a patient

    def line(self) -> Iterator[Rows]:
        """These rows, then those that they were taken from."""
        rows: Rows | None = self
        while rows is not None:
            yield rows
            rows = rows.parent

    @property
    def divided(self) -> bool:
        return any(rows.part for rows in self.line())

    def within(self, value: frozenset[Rows]) -> bool:
        """Whether they are among these, or a plain selection of some of these."""
        for rows in self.line():
            if rows in value:
                return True
            if rows.part or rows.grouped:
                return False
        return False


def all_of(rows: frozenset[Rows]) -> frozenset[Rows]:
    """These rows and all that they were taken from."""
    return frozenset(step for one in rows for step in one.line())


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Columns by name: `named`, or (where that is None) all of a table but those `gone`."""

    named: frozenset[str] | None
    dropped: frozenset[str] = frozenset()

    def without(self, names: frozenset[str]) -> ColumnNames:
        return ColumnNames(None if self.named is None else self.named - names, self.dropped | names)

    def together_with(self, other: ColumnNames) -> ColumnNames:
        """What either of two lists names."""
        if self.named is not None and other.named is not None:
            return ColumnNames(self.named | other.named)
        if self.named is not None:
            return other.together_with(self)
        both = self.dropped & other.dropped if other.named is None else self.dropped - other.named
        return ColumnNames(None, both)


DEFERRED = Rows(ast.Module([], []))  # rows of whatever table an expression is handed to: polars' `col("x")`


@dataclass(eq=False, slots=True)
class Learned:
    """Something learned from rows. kind: "fit", "target" (the target's means by group), "mean", "spread"."""

    place: ast.AST
    what: str
    kind: str
    rows: frozenset[Rows]


@dataclass(eq=False, slots=True)
class Value:
    """One value; what is not known is empty."""

    rows: frozenset[Rows] = frozenset()  # that it has, one by one
    learned: frozenset[Learned] = frozenset()  # was learned from rows and went into it
    stats: frozenset[Learned] = frozenset()  # means and the like that it is, or holds
    series: frozenset[ast.AST] = frozenset()  # made there from earlier or later rows: lags, windows
    made: str = ""  # the class or function that made it
    state: frozenset[Learned] = frozenset()  # what a fitted estimator has learned
    items: list[Value] | None = None
    keys: dict[str, Value] | None = None
    element: Value | None = None  # what a loop over it gives
    attrs: dict[str, Value] = field(default_factory=dict)  # of an object by name, of a table by "[column]"
    const: Any = UNKNOWN
    dotted: str = ""
    function: Function | ast.Lambda | None = None
    owner: Value | None = None
    kind: ast.ClassDef | None = None
    scope: Scope | None = None
    index: tuple[ast.AST, str] | None = None  # (division, part): positions of the rows of one part
    cut: tuple[str, ...] = ()  # how a mask chooses; two that differ in the last alone divide
    columns: frozenset[str] | None = None  # its columns, as far as they were chosen by name
    single: bool = False
    centred: bool = False
    order: bool = False  # positions in some order: `permutation(n)`
    call: ast.Call | None = None
    reads: frozenset[str] = frozenset()  # columns that it was computed from, row by row
    whole: bool = False  # it has all columns of what was read, but the dropped
    dropped: frozenset[str] = frozenset()
    names: ColumnNames | None = None  # what a list of columns names
    place: ast.AST | None = None
    content: str = ""  # "number" or "text": what a new column holds
    on_card: bool = False  # tensors of it were put on the GPU


@dataclass(eq=False, slots=True)
class Scope:
    """Names of a function, or of the module."""

    names: dict[str, Value]
    outer: Scope | None = None

    def find(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None


def flat(*values: Value | None) -> Value:
    """What values hold, parts of parts included."""
    seen: dict[int, Value] = {}
    pending = [(value, 0) for value in values if value is not None]
    while pending and len(seen) < MOST_WITHIN:
        value, deep = pending.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            pending += [(part, deep + 1) for part in parts(value)] if deep < MOST_LEVELS else []
    held = seen.values()
    return Value(
        frozenset[Rows]().union(*(one.rows for one in held)),
        frozenset[Learned]().union(*(one.learned | one.state for one in held)),
        frozenset[Learned]().union(*(one.stats for one in held)),
        frozenset[ast.AST]().union(*(one.series for one in held)),
        on_card=any(one.on_card for one in held),
    )


def parts(value: Value) -> Iterable[Value]:
    yield from value.items or ()
    yield from (value.keys or {}).values()
    yield from value.attrs.values()
    if value.element is not None:
        yield value.element


def derived(*values: Value | None) -> Value:
    """What comes out of something unknown that these went into."""
    given = [value for value in values if value is not None]
    found = flat(*given)
    with_rows = [value for value in given if value.rows or value.items or value.keys or value.element]
    single = bool(with_rows) and all(value.single for value in with_rows)
    index = next((value.index for value in given if value.index), None)
    return replace(found, single=single, index=index)


def either(one: Value | None, other: Value | None) -> Value:
    """One of the two, whichever a run comes by."""
    if one is None or other is None or one is other:
        return one or other or Value()
    if one.const is None and one.made == "":
        return other
    if other.const is None and other.made == "":
        return one
    pairs = None
    if one.items is not None and other.items is not None and len(one.items) == len(other.items):
        pairs = [either(a, b) for a, b in zip(one.items, other.items, strict=True)]
    known = [value for value in (one, other) if value.items is not None]
    if pairs is None and len(known) == 1:
        pairs = known[0].items
    keys = None
    if one.keys is not None or other.keys is not None:
        a, b = one.keys or {}, other.keys or {}
        keys = {name: either(a.get(name), b.get(name)) for name in {**a, **b}}
    out = replace(
        one, items=pairs, keys=keys,
        element=either(one.element, other.element) if one.element or other.element else None,
        attrs={**other.attrs, **one.attrs},
        const=one.const if type(one.const) is type(other.const) and one.const == other.const else UNKNOWN,
        single=one.single and other.single, whole=one.whole and other.whole,
        dropped=one.dropped & other.dropped, content="",
    )  # fmt: skip
    for name in _OF_BOTH:
        setattr(out, name, getattr(one, name) | getattr(other, name))
    for name in _OF_THE_FIRST:
        setattr(out, name, getattr(one, name) or getattr(other, name))
    for name in _IF_THE_SAME:
        if getattr(one, name) != getattr(other, name):
            setattr(out, name, None if name != "cut" else ())
    return out


def one_of(values: Iterable[Value | None]) -> Value:
    """One of several, whichever a run comes by."""
    return reduce(either, values, None) or Value()


_OF_BOTH = ("rows", "learned", "stats", "series", "state", "reads", "centred", "order", "on_card")
_OF_THE_FIRST = ("made", "dotted", "function", "owner", "kind", "scope", "index", "call", "place")
_IF_THE_SAME = ("cut", "columns", "names")
MOST_STEPS = 30_000  # statements and expressions of one walk; a training script takes some thousand
MOST_FITS = 100
MOST_DIVISIONS = 200
MOST_PARTS = 2_000  # fits and statistics, divisions, and parts of rows that are distinguished


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
    def first(self) -> Value | None:
        return self.args[0] if self.args else self.named.get("X") or self.named.get("x")

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


MOST_SUPERVISED = 200


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
        self.objects: dict[ast.ClassDef, Value] = {}
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
        self.roles: dict[int, set[str]] = {}
        self.chosen: dict[int, Value] = {}
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


def evaluate(walk: Walk, node: ast.AST | None, scope: Scope) -> Value:
    walk.steps += 1
    if node is None or walk.steps > MOST_STEPS or walk.deep > MOST_DEEP:
        return Value()
    walk.deep += 1
    try:
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            parts = [evaluate(walk, c, scope) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
            return derived(*parts)
        found = handler(walk, node, scope)
        return found if isinstance(found, Value) else Value()
    finally:
        walk.deep -= 1


def constant(walk: Walk, node: ast.AST | None, scope: Scope) -> Any:
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
    return walk.values.one(node)


LEVELS_OF_A_BODY = 4  # of MOST_DEEP: a call takes so many more frames


def run_body(walk: Walk, body: Sequence[ast.stmt], scope: Scope) -> bool:
    """Whether it ends what is around it: `return`, `raise`, `continue`, `break`."""
    if walk.deep > MOST_DEEP:
        return False
    walk.deep += LEVELS_OF_A_BODY
    ended = False
    for statement in body:
        walk.steps += 1
        handler = STATEMENTS.get(type(statement))
        if walk.steps > MOST_STEPS or (handler is not None and handler(walk, statement, scope)):
            ended = True
            break
    walk.deep -= LEVELS_OF_A_BODY
    return ended
