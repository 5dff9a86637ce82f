"""The abstract value: rows, columns, and what was learned of which rows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from memory_service.review.source.script import Function

UNKNOWN: Any = object()
OTHER_ROWS = "of other rows"  # a table with values of other rows: `df.shift(1)`
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
class Columns:
    """Columns by name: `named`, or (where that is None) all of a table but those `gone`."""

    named: frozenset[str] | None
    dropped: frozenset[str] = frozenset()

    def without(self, names: frozenset[str]) -> Columns:
        return Columns(None if self.named is None else self.named - names, self.dropped | names)

    def together_with(self, other: Columns) -> Columns:
        """What either of two lists names."""
        if self.named is not None and other.named is not None:
            return Columns(self.named | other.named)
        if self.named is not None:
            return other.together_with(self)
        both = self.dropped & other.dropped if other.named is None else self.dropped - other.named
        return Columns(None, both)


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
    names: Columns | None = None  # what a list of columns names
    place: ast.AST | None = None
    content: str = ""  # "number" or "text": what a new column holds
    on_card: bool = False  # tensors of it were put on the GPU

    def bare(self) -> Value:
        """A table without what went into single columns of it."""
        return Value(
            self.rows, self.learned | self.state, self.stats, self.series, items=self.items, keys=self.keys,
            element=self.element, attrs={k: v for k, v in self.attrs.items() if k[:1] != "["},
            single=self.single,
        )  # fmt: skip

    def like(self, *others: Value) -> Value:
        """The same table, with what others bring."""
        out = derived(self.bare(), *others)
        out.attrs = self.single_columns()
        return self.keeping(out, "whole", "dropped", "columns", "place")

    def single_columns(self) -> dict[str, Value]:
        """What went into single columns, by "[column]"."""
        return {name: value for name, value in self.attrs.items() if name[:1] == "["}

    def column(self, name: str) -> Value:
        """`df["a"]`, `df.a`."""
        out = self.columns_named((name,))
        out.single, out.centred = self.single, self.centred
        out.made = self.made if self.made in ("groupby", "rolling", "col") else ""
        out.index = None
        return out

    def columns_named(self, names: Sequence[str]) -> Value:
        """Columns of a table, with what went into these and not what went into others."""
        unnamed = self.attrs.get("[?]")  # what went into columns that the text does not name
        more = Value(learned=unnamed.learned, stats=unnamed.stats) if unnamed is not None else None
        out = derived(self.bare(), more, *(self.attrs.get(f"[{name}]") for name in names))
        out.columns = frozenset(names)
        if len(names) == 1 and OTHER_ROWS not in self.attrs:
            item = self.attrs.get(f"[{names[0]}]")
            out.reads = out.columns | (item.reads if item is not None else frozenset())
        out.attrs = {f"[{n}]": self.attrs[f"[{n}]"] for n in names if f"[{n}]" in self.attrs}
        return out

    def drop_column(self, name: str) -> None:
        """A column goes out of a table in place: `pop`, `del`, `drop(..., inplace=True)`."""
        self.dropped |= {name}
        self.columns = self.columns - {name} if self.columns is not None else None
        self.attrs.pop(f"[{name}]", None)

    def without_columns(self, dropped: frozenset[str]) -> Value:
        left = {k: v for k, v in self.single_columns().items() if k[1:-1] not in dropped}
        out = derived(self.bare(), *left.values())
        out.attrs, out.made = left, self.made if self.made == "groupby" else ""
        out.whole, out.dropped = self.whole, self.dropped | dropped
        out.columns = self.columns - dropped if self.columns is not None else None
        out.single = self.single
        return out

    def listed_names(self) -> Columns | None:
        """What a list of columns names; None for a list that grew by what is not known, or for no list."""
        if self.names is not None or (self.items is not None and self.element is not None):
            return self.names
        listed = self.const if self.const is not UNKNOWN else [item.const for item in self.items or ()]
        if isinstance(listed, list | tuple) and listed and all(isinstance(one, str) for one in listed):
            return Columns(frozenset(listed))
        return None

    def table_names(self) -> Value:
        """`df.columns`."""
        known = self.columns is not None or self.whole
        names = Columns(self.columns, self.dropped) if known else None
        return Value(self.rows, made="columns", names=names, owner=self)

    def parts(self) -> Iterable[Value]:
        yield from self.items or ()
        yield from (self.keys or {}).values()
        yield from self.attrs.values()
        if self.element is not None:
            yield self.element

    def classes(self, deep: int = 0) -> list[str]:
        out = [self.made] if self.made else []
        if deep < 6:
            for part in (*(self.items or ()), *self.attrs.values()):
                out += part.classes(deep + 1)
        return out

    def with_more(self, others: Iterable[Value]) -> Value:
        """Rows stay those of the self, whatever is joined to them."""
        out = self.like(*others)
        own = flat(self.bare()).rows
        if own:
            out.rows = frozenset(own)
        return self.keeping(out, "columns", "centred", "single")

    def keeping(self, out: Value, *names: str) -> Value:
        for name in names:
            setattr(out, name, getattr(self, name))
        return out


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
            pending += [(part, deep + 1) for part in value.parts()] if deep < MOST_LEVELS else []
    held = seen.values()
    return Value(
        frozenset[Rows]().union(*(one.rows for one in held)),
        frozenset[Learned]().union(*(one.learned | one.state for one in held)),
        frozenset[Learned]().union(*(one.stats for one in held)),
        frozenset[ast.AST]().union(*(one.series for one in held)),
        on_card=any(one.on_card for one in held),
    )


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
    known = [value.items for value in (one, other) if value.items is not None]
    pairs = known[0] if len(known) == 1 else None
    if len(known) == 2 and len(known[0]) == len(known[1]):
        pairs = [either(a, b) for a, b in zip(*known, strict=True)]
    named = [value.keys or {} for value in (one, other)]
    keys = {name: either(*(each.get(name) for each in named)) for name in {**named[0], **named[1]}}
    out = replace(
        one, items=pairs, keys=keys if one.keys is not None or other.keys is not None else None,
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
