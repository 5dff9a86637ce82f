"""The rows a value holds: file, part, selection, columns."""

from __future__ import annotations

import ast

from memory_service.review.interpretation.state import MOST_DIVISIONS, MOST_FITS, MOST_PARTS, Division, Walk
from memory_service.review.interpretation.value import (
    ColumnNames,
    Learned,
    Rows,
    Value,
    all_of,
    bare,
    derived,
    flat,
    one_of,
)
from memory_service.review.interpretation.vocabulary import FOLD_COLUMN, ORDERS, RANDOM
from memory_service.review.source.nodes import is_call, roots


def outside_rows(walk: Walk, place: ast.AST, name: str = "", *, file: bool = False) -> Value:
    """Rows that come from outside: a file, or a parameter that nothing here gives."""
    key = ("file", name) if file and name else (place, name)
    rows = walk.files.setdefault(key, Rows(place, name=name))
    return Value(frozenset((rows,)))


def rows_below(walk: Walk, rows: Rows, place: ast.AST, part: str, how: str = "") -> Rows:
    key = (id(place), id(rows), part + how)
    if len(walk.parts) >= MOST_PARTS and key not in walk.parts:
        return rows
    return walk.parts.setdefault(key, Rows(place, rows, part, rows.name))


def grouped_rows(walk: Walk, rows: Rows, place: ast.AST) -> Rows:
    """Many rows become one each."""
    made = rows_below(walk, rows, place, "", "group")
    made.grouped = True
    return made


def part_of(walk: Walk, value: Value, place: ast.AST, part: str, how: str = "") -> Value:
    if value.items is not None:
        return Value(items=[part_of(walk, item, place, part, how) for item in value.items])
    found = flat(value if value.kind is not None else bare(value))
    return Value(
        frozenset(rows_below(walk, rows, place, part, how) for rows in found.rows),
        found.learned, found.stats, found.series,
        attrs={k: v for k, v in value.attrs.items() if k[:1] == "["}, made=value.made,
        columns=value.columns, kind=value.kind, scope=value.scope, single=value.single,
        index=(place, part) if part else None, reads=value.reads, whole=value.whole, dropped=value.dropped,
        place=value.place, on_card=found.on_card,
    )  # fmt: skip


def divide(walk: Walk, value: Value, place: ast.AST, kind: str, maker: ast.Call | None = None) -> None:
    """Rows go apart here: what was learned from all of them has seen those of validation."""
    found = flat(value)
    if len(walk.divisions) >= MOST_DIVISIONS:
        return
    walk.divisions.append(Division(place, kind, maker, found))
    everything = found.learned | {s for s in found.stats if s.kind == "target"}
    for learned in sorted(everything, key=lambda one: walk.script.order.get(one.place, 0)):
        if any(rows.within(learned.rows) and not rows.divided for rows in found.rows):
            walk.leaks.setdefault(learned, place)


def learned_from(walk: Walk, place: ast.AST, what: str, kind: str, rows: frozenset[Rows]) -> Learned:
    if len(walk.known) >= MOST_FITS:
        return walk.known.get((id(place), rows), walk.too_much)
    return walk.known.setdefault((id(place), rows), Learned(place, what, kind, rows))


def apply_learned(walk: Walk, learned: frozenset[Learned] | set[Learned], value: Value) -> None:
    """What was learned from undivided rows is put to a part of them."""
    found = flat(value)
    for one in learned:
        for rows in found.rows:
            apart = {r for r in one.rows if r.parent is rows.parent and r is not rows and r.part}
            if rows.part and rows in one.rows and apart and not apart & found.rows:
                walk.leaks.setdefault(one, rows.place)
            line = list(rows.line())
            for at, step in enumerate(line):
                if step.part and any(above in one.rows for above in line[at + 1 :]):
                    walk.leaks.setdefault(one, step.place)


def combine(walk: Walk, node: ast.AST, op: ast.AST, left: Value, right: Value) -> Value:
    """An operation of two values; standardising by what all rows say is learning."""
    if isinstance(op, ast.Add) and left.items is not None and right.items is not None:
        return Value(items=[*left.items, *right.items])
    if isinstance(op, ast.BitOr) and left.keys is not None and right.keys is not None:
        return Value(keys={**left.keys, **right.keys})
    if left.made == "columns" or (right.made == "columns" and left.items is not None):
        return _names_of_both(op, left, right)
    out = derived(left, right)
    out.columns = left.columns if left.rows else right.columns
    out.reads = left.reads | right.reads
    if left.whole and not right.rows:
        out.whole, out.dropped, out.place = True, left.dropped, left.place
    if left.made == "cumsum" and isinstance(op, ast.Sub) and not right.series:
        out.reads -= right.reads  # the sum of the rows before
    out.cut = ()
    about = {s for s in right.stats if s.kind in ("mean", "spread") and all_of(left.rows) & s.rows}
    if isinstance(op, ast.Sub) and about:
        out.centred = True
    if isinstance(op, ast.Div) and about and (left.centred or all(s.what == "max" for s in about)):
        rows = frozenset().union(*(s.rows for s in about))
        first = min(about, key=lambda s: walk.script.order.get(s.place, 0))
        here = walk.script.function(node) is walk.script.function(first.place)
        learned = learned_from(walk, node if here else first.place, "", "fit", rows)
        out.learned |= {learned}
        out.stats = frozenset(s for s in out.stats if s not in about)
        apply_learned(walk, {learned}, left)
    elif isinstance(op, ast.Mult | ast.Add | ast.Div | ast.Mod):
        out.centred = left.centred or right.centred
    return out


def invert(node: ast.UnaryOp, item: Value) -> Value:
    """`-x`, `~mask`."""
    if isinstance(node.op, ast.Not):
        return Value()
    if item.made == "columns" and isinstance(node.op, ast.Invert):  # `~df.columns.isin(["id"])`
        named = item.names.named if item.names is not None else None
        return Value(item.rows, made="columns", names=None if named is None else ColumnNames(None, named))
    out = derived(item)
    out.columns, out.centred, out.reads = item.columns, item.centred, item.reads
    if isinstance(node.op, ast.Invert):
        if item.index is not None:
            out.index = (item.index[0], "rest")
        if item.cut:
            out.cut = (*item.cut[:-1], "not " + item.cut[-1])
    return out


def compare_values(node: ast.Compare, item: list[Value]) -> Value:
    """A mask: by chance, by the column of folds, or by what it says."""
    out = derived(*item)
    out.reads = frozenset().union(*(value.reads for value in item))
    left, unequal = item[0], isinstance(node.ops[0], ast.NotEq)
    if left.made == "columns" and left.names is not None and unequal:  # `df.columns != "price"`
        other = frozenset(value.const for value in item[1:] if isinstance(value.const, str))
        return Value(left.rows, made="columns", names=left.names.without(other) if other else None)
    if left.columns and any(FOLD_COLUMN.match(c) for c in left.columns):
        out.index = (node, type(node.ops[0]).__name__)
    elif left.made in RANDOM or (left.made in ORDERS and left.order):
        out.index = (node, "train")
    else:
        out.index = next((value.index for value in item if value.index), None)
        out.cut = ("mask", short(node.left), short(node.comparators[0]), type(node.ops[0]).__name__)
    return out


def _names_of_both(op: ast.AST, left: Value, right: Value) -> Value:
    """`set(df.columns) - {"id"}`, `columns + ["extra"]`."""
    if left.made != "columns":
        left, right = right, left
    names, more = left.names, right.names
    listed = [item.const for item in right.items or ()]
    if listed and all(isinstance(one, str) for one in listed):
        more = ColumnNames(frozenset(listed))
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


def element_of(walk: Walk, over: Value) -> Value:
    """What a loop over a value gets."""
    if over.element is not None:
        return over.element
    if over.items:
        return one_of(over.items[:8])
    if over.keys:
        return Value()
    if over.made == "groupby":
        group = part_of(walk, over, walk.script.tree, "", "group")
        group.made = ""
        return Value(items=[Value(), group])
    found = derived(over)
    found.single, found.reads = True, over.reads
    found.index = over.index
    return found


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
