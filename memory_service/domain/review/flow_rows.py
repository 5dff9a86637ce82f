"""Whose rows are these, and which of them? Files, parts, selections, columns and arithmetic of a run."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.flow_values import (
    UNKNOWN,
    Flat,
    Learned,
    Rows,
    Scope,
    Value,
    derived,
    either,
    flat,
)
from memory_service.domain.review.flow_words import FOLD_COLUMN, ORDERS, RANDOM, ROLES
from memory_service.domain.review.frames import Frames
from memory_service.domain.review.script import last_name

__all__ = [
    "MOST_STEPS",
    "Coding",
    "Division",
    "FlowRows",
    "Use",
    "bare",
    "like",
    "short",
]


MOST_STEPS = 40_000
"""Statements and expressions of one walk; a training script takes some thousand."""


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
    """Categories numbered anew. `sure`: under no condition that cannot be told."""

    place: ast.AST
    what: str
    rows: frozenset[Rows]
    sure: bool
    coder: Value | None
    columns: frozenset[str] | None


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
        self.steps = self.deep = self.unsure = 0
        self.active: list[ast.AST] = []
        self.times: Counter[ast.AST] = Counter()
        self.returned: list[list[Value]] = []
        self.yielded: list[list[Value]] = []
        self.made: list[Value] = []
        self.loops: list[ast.AST] = []
        self.leaks: dict[Learned, ast.AST] = {}
        self.divisions: list[Division] = []
        self.codings: list[Coding] = []
        self.adapted: list[Learned] = []
        self.shared: dict[int, set[str]] = {}
        self._files: dict[tuple[object, str], Rows] = {}
        self._parts: dict[tuple[int, int, str], Rows] = {}
        self._cuts: dict[tuple[str, ...], dict[str, Value]] = {}
        self._roles: dict[int, dict[str, ast.AST]] = {}
        self._chosen: dict[int, Value] = {}
        self._known: dict[tuple[int, frozenset[Rows]], Learned] = {}

    @cached_property
    def targets(self) -> set[str]:
        return Frames(self.facts).origins

    # hooks of the walk -----------------------------------------------------------------------------------

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

    # rows ------------------------------------------------------------------------------------------------

    def fresh(self, place: ast.AST, name: str = "", *, file: bool = False) -> Value:
        """Rows that come from outside: a file, or a parameter that nothing here gives."""
        key = ("file", name) if file and name else (place, name)
        rows = self._files.setdefault(key, Rows(place, name=name))
        return Value(frozenset((rows,)))

    def child(self, rows: Rows, place: ast.AST, part: str, how: str = "") -> Rows:
        key = (id(place), id(rows), part + how)
        return self._parts.setdefault(key, Rows(place, rows, part, rows.name))

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
        )

    def divide(self, value: Value, place: ast.AST, kind: str, maker: ast.Call | None = None) -> None:
        """Rows go apart here: what was learned from all of them has seen those of validation."""
        found = flat(value)
        self.divisions.append(Division(place, kind, maker, value, found))
        for learned in found.learned | {s for s in found.stats if s.kind == "target"}:
            if any(rows.within(learned.rows) and not rows.divided for rows in found.rows):
                self.leaks.setdefault(learned, place)

    def learn(self, place: ast.AST, what: str, kind: str, rows: frozenset[Rows]) -> Learned:
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

    # choosing --------------------------------------------------------------------------------------------

    def column(self, base: Value, name: str) -> Value:
        """`df["a"]`, `df.a`."""
        out = self.columns_of(base, (name,))
        out.single, out.centred = base.single, base.centred
        out.made = base.made if base.made in ("groupby", "rolling", "col") else ""
        out.index = None
        return out

    def columns_of(self, base: Value, names: Sequence[str]) -> Value:
        """Columns of a table, with what went into these and not what went into others."""
        unnamed = base.attrs.get("[?]")  # what went into columns that the text does not name
        more = Value(learned=unnamed.learned, stats=unnamed.stats) if unnamed is not None else None
        out = derived(bare(base), more, *(base.attrs.get(f"[{name}]") for name in names))
        out.columns = frozenset(names)
        out.attrs = {f"[{n}]": base.attrs[f"[{n}]"] for n in names if f"[{n}]" in base.attrs}
        return out

    def chosen(self, base: Value, node: ast.Subscript, scope: Scope) -> Value:
        """`base[...]`: an item, columns, a part of the rows, a selection, one row."""
        inner = node.slice
        key = None if isinstance(inner, ast.Slice | ast.Tuple) else self.const(inner, scope)
        if base.items is not None and isinstance(inner, ast.Slice):
            low, high = self.const(inner.lower, scope), self.const(inner.upper, scope)
            if all(isinstance(v, int | None) for v in (low, high)):
                return Value(items=base.items[low:high])
        if base.items is not None and isinstance(key, int) and -len(base.items) <= key < len(base.items):
            return base.items[key]
        if base.keys is not None and isinstance(key, str | int) and str(key) in base.keys:
            return base.keys[str(key)]
        if base.element is not None and base.kind is None:
            out = base.element
            for held in (base.keys or {}).values():
                out = either(out, held)
            return base if isinstance(inner, ast.Slice) else out
        if base.keys or base.items:
            return self.each(Value(items=list((base.keys or {}).values()) or base.items))
        if isinstance(key, str):
            return self.column(base, key)
        if isinstance(key, list) and key and all(isinstance(k, str) for k in key):
            return self.columns_of(base, key)
        if isinstance(inner, ast.Tuple) and inner.elts:
            out = self._rows_chosen(base, inner.elts[0], node, scope)
            named = self.const(inner.elts[1], scope) if len(inner.elts) == 2 else None
            if isinstance(named, str):
                out = self.column(out, named)
            return out
        return self._rows_chosen(base, inner, node, scope)

    def _rows_chosen(self, base: Value, inner: ast.AST, node: ast.Subscript, scope: Scope) -> Value:
        if isinstance(inner, ast.Slice):
            for bound in (inner.lower, inner.upper):
                if bound is not None:
                    self.value(bound, scope)
            if inner.lower is None and inner.upper is None:
                return base
            if base.order:
                return Value(index=(node, "train" if inner.lower is None else "valid"))
            low, high = (ast.dump(b)[:200] if b is not None else "" for b in (inner.lower, inner.upper))
            return self.cut(base, ("slice", low or high, "above" if low else "below"), node)
        chooser = self.value(inner, scope)
        if chooser.index is not None:
            place, part = chooser.index
            self.divide(base, place, "positions")
            return self.part(base, place, part)
        if chooser.cut:
            return self.cut(base, chooser.cut, node)
        out = like(base)
        out.columns, out.made = base.columns, base.made if base.made in ("groupby", "rolling") else ""
        several = chooser.rows or chooser.order or chooser.made or chooser.items or chooser.element
        if chooser.const is not UNKNOWN or not (several or isinstance(self.const(inner, scope), list)):
            out.single = True
        return out

    def cut(self, base: Value, how: tuple[str, ...], node: ast.AST) -> Value:
        """Rows chosen by a condition; the rest chosen elsewhere makes it a division."""
        found = flat(base)
        before = self._cuts.setdefault((*how[:-1], str(sorted(id(r) for r in found.rows))), {})
        if before.get("") is None:
            before[how[-1]] = base
        if len(before) > 1 and found.rows:
            self.divide(base, node, "cut")
        out = self.part(base, self.script.statement(node), "", ":".join(how))
        self._chosen[id(out)] = base
        return out

    def named(self, target: ast.AST, node: ast.AST, value: Value) -> None:
        """`train = df[...]` and `valid = df[...]`: the names say that rows were divided."""
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and value.items is not None and len(value.items) == len(target.elts):
            pairs = list(zip(target.elts, value.items, strict=True))
        for one, held in pairs:
            base = self._chosen.get(id(held))
            if base is None:
                continue
            for role, pattern in ROLES:
                if pattern.search(last_name(one)):
                    for rows in flat(base).rows:
                        roles = self._roles.setdefault(id(rows), {})
                        roles[role] = node
                        if len(roles) == 2:
                            self.divide(base, node, "names")
                    break

    # arithmetic ------------------------------------------------------------------------------------------

    def combined(self, node: ast.AST, op: ast.AST, left: Value, right: Value) -> Value:
        """An operation of two values; standardising by what all rows say is learning."""
        if isinstance(op, ast.Add) and left.items is not None and right.items is not None:
            return Value(items=[*left.items, *right.items])
        if isinstance(op, ast.BitOr) and left.keys is not None and right.keys is not None:
            return Value(keys={**left.keys, **right.keys})
        out = derived(left, right)
        out.columns = left.columns if left.rows else right.columns
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
        out = derived(held)
        out.columns, out.centred = held.columns, held.centred
        if isinstance(node.op, ast.Invert):
            if held.index is not None:
                out.index = (held.index[0], "rest")
            if held.cut:
                out.cut = (*held.cut[:-1], "not " + held.cut[-1])
        return out

    def compared(self, node: ast.Compare, held: list[Value]) -> Value:
        """A mask: by chance, by the column of folds, or by what it says."""
        out = derived(*held)
        left = held[0]
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
    return out


def _reaches(rows: frozenset[Rows], held: frozenset[Rows]) -> bool:
    """Whether rows are among these, or a part of them."""
    return any(step in held for one in rows for step in one.line())


def short(node: ast.AST | None) -> str:
    """An expression as text to compare by."""
    return ast.dump(node)[:300] if node is not None else ""
