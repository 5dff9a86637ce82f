"""The abstract value: rows it holds, what was learned from them, what made it.

Nothing is computed: a table is the set of rows it came from, a fitted scaler is where it was fitted and on
which rows, a number is itself where the text says it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from memory_service.review.source.nodes import Function


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

MOST_DEEP = 5
MOST_PARTS = 60


@dataclass(eq=False, slots=True)
class Rows:
    """Rows that exist as one: as a file holds them, or a part.

    part    "" for rows as they came and for a selection of them; else what a division made them: "train",
            "valid", "part"
    name    the text that they were read by
    grouped   whether each is what many rows became: one a patient, one a shop
    """

    place: ast.AST
    parent: Rows | None = None
    part: str = ""
    name: str = ""
    grouped: bool = False

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
    """One value; what is not known is empty.

    rows       rows that it has, one by one
    learned    what was learned from rows and went into it
    stats      means and the like that it is, or holds
    series     where it was made from earlier or later rows: lags, windows
    made       the class or function that made it
    state      what a fitted estimator has learned
    items, keys, element, attrs   its parts: of a tuple, of a dict, of anything gone through, of an object
    index      (division, part): positions of the rows of one part
    cut        how a mask chooses: two masks that differ in the last alone divide
    columns    names of its columns, as far as they were chosen by name
    reads      columns that it was computed from, row by row
    whole, gone   whether it has all columns of what was read, but for those that were taken out
    content    "number" or "text": what a new column holds, "" where that is not known
    names      what a list of columns names
    on_card    whether tensors of it were put on the card
    """

    rows: frozenset[Rows] = frozenset()
    learned: frozenset[Learned] = frozenset()
    stats: frozenset[Learned] = frozenset()
    series: frozenset[ast.AST] = frozenset()
    made: str = ""
    state: frozenset[Learned] = frozenset()
    items: list[Value] | None = None
    keys: dict[str, Value] | None = None
    element: Value | None = None
    attrs: dict[str, Value] = field(default_factory=dict)
    const: Any = UNKNOWN
    dotted: str = ""
    function: Function | ast.Lambda | None = None
    owner: Value | None = None
    kind: ast.ClassDef | None = None
    scope: Scope | None = None
    index: tuple[ast.AST, str] | None = None
    cut: tuple[str, ...] = ()
    columns: frozenset[str] | None = None
    single: bool = False
    centred: bool = False
    order: bool = False
    call: ast.Call | None = None
    reads: frozenset[str] = frozenset()
    whole: bool = False
    dropped: frozenset[str] = frozenset()
    names: ColumnNames | None = None
    place: ast.AST | None = None
    content: str = ""
    on_card: bool = False


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


@dataclass(frozen=True, slots=True)
class Flat:
    """Everything that is anywhere within values."""

    rows: frozenset[Rows]
    learned: frozenset[Learned]
    stats: frozenset[Learned]
    series: frozenset[ast.AST]
    on_card: bool


def flat(*values: Value | None) -> Flat:
    """What values hold, parts of parts included."""
    seen: dict[int, Value] = {}
    pending = [(value, 0) for value in values if value is not None]
    while pending and len(seen) < MOST_PARTS:
        value, deep = pending.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            pending += [(part, deep + 1) for part in parts(value)] if deep < MOST_DEEP else []
    held = seen.values()
    return Flat(
        frozenset[Rows]().union(*(one.rows for one in held)),
        frozenset[Learned]().union(*(one.learned | one.state for one in held)),
        frozenset[Learned]().union(*(one.stats for one in held)),
        frozenset[ast.AST]().union(*(one.series for one in held)),
        any(one.on_card for one in held),
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
    made_of = found.rows, found.learned, found.stats, found.series
    return Value(*made_of, single=single, index=index, on_card=found.on_card)


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
