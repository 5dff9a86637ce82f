"""Whose rows are these, and which of them? Files, parts, selections, columns and arithmetic of a run."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memory_service.review.facts import Facts
from memory_service.review.flow_values import (
    Flat,
    Learned,
    Rows,
    Scope,
    Value,
    derived,
    flat,
)
from memory_service.review.flow_words import FOLD_COLUMN, ORDERS, RANDOM
from memory_service.review.frames import Frames

__all__ = [
    "MOST_STEPS",
    "Coding",
    "Division",
    "FlowRows",
    "Names",
    "Use",
    "bare",
    "like",
    "names_together",
    "short",
]


MOST_STEPS = 30_000
"""Statements and expressions of one walk; a training script takes some thousand."""

MOST_LEARNED = 100
MOST_DIVISIONS = 200
MOST_PARTS = 2_000
"""Fits and statistics, divisions, and parts of rows that are told from one another."""


@dataclass(eq=False, slots=True)
class Division:
    """Rows divided into some to train on and some to judge by. `maker`: the splitter's own call."""

    place: ast.AST
    kind: str
    maker: ast.Call | None
    value: Value
    held: Flat


@dataclass(eq=False, slots=True)
class Coding:
    """Categories numbered anew. `sure`: under no condition that cannot be told, but for whether a column is
    there (`present`), which rows of one file answer alike."""

    place: ast.AST
    what: str
    rows: frozenset[Rows]
    sure: bool
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


class FlowRows:
    """Rows of one run: where they come from, how they are chosen, divided and combined."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.script = facts.script
        self.values = facts.values
        self.module = Scope({})
        self.steps = self.deep = self.unsure = self.present = 0
        self.active: list[ast.AST] = []
        self.times: Counter[ast.AST] = Counter()
        self.returned: list[list[Value]] = []
        self.yielded: list[list[Value]] = []
        self.made: list[Value] = []
        self.loops: list[ast.AST] = []
        self.calling: list[ast.Call] = []
        self.leaks: dict[Learned, ast.AST] = {}
        self.divisions: list[Division] = []
        self.codings: list[Coding] = []
        self.adapted: list[Learned] = []
        self.fed: list[Any] = []
        self.shared: dict[int, set[str]] = {}
        self.lagging: dict[ast.AST, bool] = {}
        self._files: dict[tuple[object, str], Rows] = {}
        self._parts: dict[tuple[int, int, str], Rows] = {}
        self._cuts: dict[tuple[str, ...], dict[str, Value]] = {}
        self._roles: dict[int, dict[str, ast.AST]] = {}
        self._chosen: dict[int, Value] = {}
        self._too_much = Learned(self.script.tree, "", "", frozenset())
        self._known: dict[tuple[int, frozenset[Rows]], Learned] = {}

    @cached_property
    def targets(self) -> set[str]:
        return Frames(self.facts).origins

    def const(self, node: ast.AST | None, scope: Scope) -> Any:
        raise NotImplementedError

    def value(self, node: ast.AST | None, scope: Scope) -> Value:
        raise NotImplementedError

    def entered(self, callee: Value, args: list[Value], named: dict[str, Value]) -> Value:
        raise NotImplementedError

    def each(self, over: Value) -> Value:
        raise NotImplementedError

    def body(self, body: Sequence[ast.stmt], scope: Scope) -> bool:
        raise NotImplementedError

    def put(self, target: ast.AST, value: Value, scope: Scope) -> None:
        raise NotImplementedError

    def fresh(self, place: ast.AST, name: str = "", *, file: bool = False) -> Value:
        """Rows that come from outside: a file, or a parameter that nothing here gives."""
        key = ("file", name) if file and name else (place, name)
        rows = self._files.setdefault(key, Rows(place, name=name))
        return Value(frozenset((rows,)))

    def child(self, rows: Rows, place: ast.AST, part: str, how: str = "") -> Rows:
        key = (id(place), id(rows), part + how)
        if len(self._parts) >= MOST_PARTS and key not in self._parts:
            return rows
        return self._parts.setdefault(key, Rows(place, rows, part, rows.name))

    def gathered_into(self, rows: Rows, place: ast.AST) -> Rows:
        """Many rows become one each."""
        made = self.child(rows, place, "", "group")
        made.grouped = True
        return made

    def part(self, value: Value, place: ast.AST, part: str, how: str = "") -> Value:
        """One part of a value's rows."""
        if value.items is not None:
            return Value(items=[self.part(item, place, part, how) for item in value.items])
        found = flat(value if value.kind is not None else bare(value))
        return Value(
            frozenset(self.child(rows, place, part, how) for rows in found.rows),
            frozenset(found.learned),
            frozenset(found.stats),
            frozenset(found.series),
            attrs={k: v for k, v in value.attrs.items() if k[:1] == "["},
            made=value.made,
            columns=value.columns,
            kind=value.kind,
            scope=value.scope,
            single=value.single,
            index=(place, part) if part else None,
            reads=value.reads,
            whole=value.whole,
            gone=value.gone,
            place=value.place,
        )

    def divide(self, value: Value, place: ast.AST, kind: str, maker: ast.Call | None = None) -> None:
        """Rows go apart here: what was learned from all of them has seen those of validation."""
        found = flat(value)
        if len(self.divisions) >= MOST_DIVISIONS:
            return
        self.divisions.append(Division(place, kind, maker, value, found))
        for learned in found.learned | {s for s in found.stats if s.kind == "target"}:
            if any(rows.within(learned.rows) and not rows.divided for rows in found.rows):
                self.leaks.setdefault(learned, place)

    def learn(self, place: ast.AST, what: str, kind: str, rows: frozenset[Rows]) -> Learned:
        if len(self._known) >= MOST_LEARNED:
            return self._known.get((id(place), rows), self._too_much)
        return self._known.setdefault((id(place), rows), Learned(place, what, kind, rows))

    def use(self, learned: frozenset[Learned] | set[Learned], value: Value) -> None:
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

    def combined(self, node: ast.AST, op: ast.AST, left: Value, right: Value) -> Value:
        """An operation of two values; standardising by what all rows say is learning."""
        if isinstance(op, ast.Add) and left.items is not None and right.items is not None:
            return Value(items=[*left.items, *right.items])
        if isinstance(op, ast.BitOr) and left.keys is not None and right.keys is not None:
            return Value(keys={**left.keys, **right.keys})
        if left.made == "columns":
            return _names_of_both(op, left, right)
        out = derived(left, right)
        out.columns = left.columns if left.rows else right.columns
        out.reads = left.reads | right.reads
        if left.made == "cumsum" and isinstance(op, ast.Sub) and not right.series:
            out.reads -= right.reads  # the sum of the rows before
        out.cut = ()
        about = {s for s in right.stats if s.kind in ("mean", "spread") and _reaches(left.rows, s.rows)}
        if isinstance(op, ast.Sub) and about:
            out.centred = True
        if isinstance(op, ast.Div) and about and (left.centred or all(s.what == "max" for s in about)):
            rows = frozenset().union(*(s.rows for s in about))
            first = min(about, key=lambda s: self.script.order.get(s.place, 0))
            here = self.script.function(node) is self.script.function(first.place)
            learned = self.learn(node if here else first.place, "", "fit", rows)
            out.learned |= {learned}
            out.stats = frozenset(s for s in out.stats if s not in about)
            self.use({learned}, left)
        elif isinstance(op, ast.Mult | ast.Add | ast.Div | ast.Mod):
            out.centred = left.centred or right.centred
        return out

    def turned(self, node: ast.UnaryOp, held: Value) -> Value:
        """`-x`, `~mask`."""
        if isinstance(node.op, ast.Not):
            return Value()
        if held.made == "columns" and isinstance(node.op, ast.Invert):  # `~df.columns.isin(["id"])`
            named = held.names[0] if held.names is not None and not held.names[1] else None
            return Value(held.rows, made="columns", names=(None, named) if named is not None else None)
        out = derived(held)
        out.columns, out.centred, out.reads = held.columns, held.centred, held.reads
        if isinstance(node.op, ast.Invert):
            if held.index is not None:
                out.index = (held.index[0], "rest")
            if held.cut:
                out.cut = (*held.cut[:-1], "not " + held.cut[-1])
        return out

    def compared(self, node: ast.Compare, held: list[Value]) -> Value:
        """A mask: by chance, by the column of folds, or by what it says."""
        out = derived(*held)
        out.reads = frozenset().union(*(value.reads for value in held))
        left = held[0]
        if left.made == "columns" and left.names is not None and isinstance(node.ops[0], ast.NotEq):
            named, gone = left.names  # `df.columns != "price"`
            said = {value.const for value in held[1:] if isinstance(value.const, str)}
            rest = named - said if named is not None else None
            return Value(left.rows, made="columns", names=(rest, gone | said) if said else None)
        if left.columns and any(FOLD_COLUMN.match(c) for c in left.columns):
            out.index = (node, type(node.ops[0]).__name__)
        elif left.made in RANDOM or (left.made in ORDERS and left.order):
            out.index = (node, "train")
        else:
            out.index = next((value.index for value in held if value.index), None)
            out.cut = (
                "mask",
                ast.dump(node.left)[:300],
                ast.dump(node.comparators[0])[:300],
                type(node.ops[0]).__name__,
            )
        return out


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
    out.whole, out.gone, out.columns, out.place = base.whole, base.gone, base.columns, base.place
    return out


Names = tuple[frozenset[str] | None, frozenset[str]]
"""What a list of columns names: (these, -) or (None, all but these)."""


def names_together(one: Names, other: Names) -> Names:
    """What either of two lists of columns names."""
    (these, lost), (those, missed) = one, other
    if these is not None and those is not None:
        return these | those, frozenset()
    if these is not None or those is not None:
        return None, (lost - those) if those is not None else missed - (these or frozenset())
    return None, lost & missed


def _names_of_both(op: ast.AST, left: Value, right: Value) -> Value:
    """`set(df.columns) - {"id"}`, `columns + ["extra"]`."""
    said = [item.const for item in right.items or ()]
    names: Names | None = None
    if left.names is not None and right.names is not None and isinstance(op, ast.Add | ast.BitOr):
        names = names_together(left.names, right.names)
    elif left.names is not None and said and all(isinstance(one, str) for one in said):
        named, gone = left.names
        more = frozenset(said)
        if isinstance(op, ast.Sub):
            names = (named - more if named is not None else None, gone | more)
        elif isinstance(op, ast.Add | ast.BitOr):
            names = (named | more if named is not None else None, gone - more)
    return Value(left.rows, made="columns", names=names)


def _reaches(rows: frozenset[Rows], held: frozenset[Rows]) -> bool:
    """Whether rows are among these, or a part of them."""
    return any(step in held for one in rows for step in one.line())


def short(node: ast.AST | None) -> str:
    """An expression as text to compare by."""
    return ast.dump(node)[:300] if node is not None else ""
