"""Rows of a value, columns picked of them and their kind, and which become features beside which target."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Literal

from memory_service.review.interpretation.state import (
    MOST_DIVISIONS,
    MOST_FITS,
    MOST_PARTS,
    MOST_SUPERVISED,
    UNKNOWN,
    ColumnNames,
    Division,
    Learned,
    Rows,
    Scope,
    Supervised,
    Use,
    Value,
    Walk,
    all_of,
    bare,
    constant,
    derived,
    either,
    evaluate,
    flat,
    like,
    method,
    one_of,
)
from memory_service.review.source.script import is_call, last_name, receiver, roots, words
from memory_service.review.tables import name_sets, patterns
from memory_service.review.values.values import Values

_RE = patterns("interpretation")
_SET = name_sets("interpretation")
_ROLES = (("train", _RE.of_training), ("valid", _RE.of_validation))


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
    left = item[0]
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


Kind = Literal["number", "text", ""]
MOST_OPERATIONS = 12
_CASTS = words("astype cast")
_TEXT_TYPES = words("object string str category String Utf8 categorical O")


def kind_of(node: ast.AST, values: Values, deep: int = 0) -> Kind:
    """The kind of what arithmetic, a cast or a function makes of columns, "" where the text does not say."""
    if isinstance(node, ast.BinOp):
        return "" if isinstance(node.op, ast.Add | ast.Mod | ast.BitAnd | ast.BitOr) else "number"
    name = last_name(node.func) if isinstance(node, ast.Call) and deep < MOST_OPERATIONS else ""
    if not isinstance(node, ast.Call) or name in _SET.numbers:
        return "number" if name else ""
    given = node.args[0] if node.args else None
    if name in _CASTS:
        return _type_named(given, values) if given is not None else ""
    if name == "map" and isinstance(given, ast.Dict):
        known = {type(values.one(value)) for value in given.values}
        return "number" if known <= {int, float} else "text" if known == {str} else ""
    base = receiver(node)
    return kind_of(base, values, deep + 1) if name in _SET.keeps and base is not None else ""


def _type_named(node: ast.AST, values: Values) -> Kind:
    stated = values.one(node)
    name = stated if isinstance(stated, str) else last_name(node.func if isinstance(node, ast.Call) else node)
    return "number" if name in _SET.number_types else "text" if name in _TEXT_TYPES else ""


def kind_selected(node: ast.Call, values: Values) -> Kind:
    """What `df.select_dtypes("number")` or polars' `df.select(cs.numeric())` takes."""
    leaves_out = values.argument(node, "exclude", 1) if last_name(node.func) == "select_dtypes" else None
    given = values.argument(node, "include", 0)
    stated = given if given is not None else leaves_out
    if stated is None or (given is not None and leaves_out is not None):
        return ""
    types = stated.elts if isinstance(stated, ast.List | ast.Tuple) else [stated]
    found = {_type_named(one, values) for one in types[:20]}
    kind: Any = found.pop() if len(found) == 1 else ""
    others: Any = {"number": "text", "text": "number"}
    return kind if given is not None else others.get(kind, "")  # type: ignore[no-any-return]


OTHER_ROWS = "of other rows"  # a table with values of other rows: `df.shift(1)`

MOST_COLUMNS = 120  # of one table, followed by name; others are kept together


def _is_all(node: ast.AST) -> bool:
    """`:`, and what leaves the rows as they are beside an axis more: `...`, `None`, `np.newaxis`."""
    if isinstance(node, ast.Slice):
        return node.lower is None and node.upper is None
    return (isinstance(node, ast.Constant) and node.value in (None, ...)) or last_name(node) == "newaxis"


def column_value(base: Value, name: str) -> Value:
    """`df["a"]`, `df.a`."""
    out = columns_of(base, (name,))
    out.single, out.centred = base.single, base.centred
    out.made = base.made if base.made in ("groupby", "rolling", "col") else ""
    out.index = None
    return out


def columns_of(base: Value, names: Sequence[str]) -> Value:
    """Columns of a table, with what went into these and not what went into others."""
    unnamed = base.attrs.get("[?]")  # what went into columns that the text does not name
    more = Value(learned=unnamed.learned, stats=unnamed.stats) if unnamed is not None else None
    out = derived(bare(base), more, *(base.attrs.get(f"[{name}]") for name in names))
    out.columns = frozenset(names)
    if len(names) == 1 and OTHER_ROWS not in base.attrs:
        item = base.attrs.get(f"[{names[0]}]")
        out.reads = out.columns | (item.reads if item is not None else frozenset())
    out.attrs = {f"[{n}]": base.attrs[f"[{n}]"] for n in names if f"[{n}]" in base.attrs}
    return out


def subscript(walk: Walk, base: Value, node: ast.Subscript, scope: Scope) -> Value:
    """`base[...]`: an item, columns, a part of the rows, a selection, one row."""
    inner = node.slice
    key = None if isinstance(inner, ast.Slice | ast.Tuple) else constant(walk, inner, scope)
    item = item_of(walk, base, inner, key)
    if item is not None:
        return item
    if isinstance(key, str):
        return column_value(base, key)
    if isinstance(key, list) and key and all(isinstance(k, str) for k in key):
        return pick_columns(walk, base, ColumnNames(frozenset(key)), node)
    if isinstance(inner, ast.Tuple) and inner.elts:
        out, column = choose_rows(walk, base, inner.elts[0], node, scope), inner.elts[-1]
        named = constant(walk, column, scope) if len(inner.elts) == 2 else None
        if isinstance(named, str):
            return column_value(out, named)
        if len(inner.elts) == 2 and not isinstance(column, ast.Slice | ast.Constant):
            return columns_by(walk, out, evaluate(walk, column, scope), node) or derived(out)
        return out if _is_all(column) else derived(out)
    picked: Value | None = None
    if not isinstance(inner, ast.Slice):
        picked = columns_by(walk, base, evaluate(walk, inner, scope), node) if base.rows else None
    elif base.made == "columns" and not _is_all(inner):
        picked = Value(base.rows, made="columns")
    return picked or choose_rows(walk, base, inner, node, scope)


def columns_by(walk: Walk, base: Value, chooser: Value, node: ast.AST) -> Value | None:
    """Columns that a list of names chooses, or a mask or a pattern over names; None for what is neither."""
    names = names_in(chooser)
    if names is not None and (names.named is not None or chooser.rows & all_of(base.rows)):
        return pick_columns(walk, base, names, node, chooser.place)
    if chooser.made != "columns":
        return None
    return Value(base.rows, made="columns") if base.made == "columns" else derived(base)


def item_of(walk: Walk, base: Value, inner: ast.AST, key: Any) -> Value | None:
    """An item of a list, a tuple or a dict; None for what is none of them."""
    if base.items is not None and isinstance(key, int) and -len(base.items) <= key < len(base.items):
        return base.items[key]
    if base.keys is not None and isinstance(key, str | int) and str(key) in base.keys:
        return base.keys[str(key)]
    if base.element is not None and base.kind is None:
        every = one_of([base.element, *(base.keys or {}).values()])
        return base if isinstance(inner, ast.Slice) else every
    if base.keys or base.items:
        return element_of(walk, Value(items=list((base.keys or {}).values()) or base.items))
    return None


def choose_rows(walk: Walk, base: Value, inner: ast.AST, node: ast.Subscript, scope: Scope) -> Value:
    if _is_all(inner):
        return base
    if isinstance(inner, ast.Slice):
        if base.order:
            return Value(index=(node, "train" if inner.lower is None else "valid"))
        low, high = (ast.dump(b)[:200] if b is not None else "" for b in (inner.lower, inner.upper))
        return choose_by(walk, base, ("slice", low or high, "above" if low else "below"), node)
    chooser = evaluate(walk, inner, scope)
    if chooser.index is not None:
        place, part = chooser.index
        divide(walk, base, place, "positions")
        return part_of(walk, base, place, part)
    if chooser.cut:
        return choose_by(walk, base, chooser.cut, node)
    out = like(base)
    out.columns, out.made = base.columns, base.made if base.made in ("groupby", "rolling") else ""
    if chooser.made == "columns" or not chooser.rows:
        out.whole, out.columns = False, None
    several = chooser.rows or chooser.order or chooser.made or chooser.items or chooser.element
    if chooser.const is not UNKNOWN or not (several or isinstance(constant(walk, inner, scope), list)):
        out.single = True
    return out


def choose_by(walk: Walk, base: Value, how: tuple[str, ...], node: ast.AST) -> Value:
    """Rows chosen by a condition; the rest chosen elsewhere makes it a division."""
    found = flat(base)
    if len(walk.divisions) >= MOST_DIVISIONS:
        return like(base)
    before = walk.cuts.setdefault((*how[:-1], str(sorted(id(r) for r in found.rows))), {})
    if before.get("") is None:
        before[how[-1]] = base
    if len(before) > 1 and found.rows:
        divide(walk, base, node, "cut")
    out = part_of(walk, base, walk.script.statement(node), "", ":".join(how))
    walk.chosen[id(out)] = base
    return out


def note_names(walk: Walk, target: ast.AST, node: ast.AST, value: Value) -> None:
    """`train = df[...]` and `valid = df[...]`: the names say that rows were divided."""
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and value.items is not None and len(value.items) == len(target.elts):
        pairs = list(zip(target.elts, value.items, strict=True))
    for one, item in pairs:
        base = walk.chosen.get(id(item))
        if base is None:
            continue
        role = next((role for role, pattern in _ROLES if pattern.search(last_name(one))), "")
        for rows in flat(base).rows if role else ():
            roles = walk.roles.setdefault(id(rows), set())
            roles.add(role)
            if len(roles) == 2:
                divide(walk, base, node, "names")


def set_column(
    walk: Walk, base: Value, name: str | None, value: Value, target: ast.AST, made_by: ast.AST | None = None
) -> None:
    """`df["a"] = ...`: what goes into one column stays with it; None: which one is unknown."""
    found = flat(value)
    item = Value(learned=found.learned, stats=found.stats, series=found.series, centred=value.centred)
    item.reads, item.place = value.reads, walk.script.statement(target)
    item.content = kind_of(made_by, walk.values) if made_by is not None else value.content
    if name is None or (len(base.attrs) >= MOST_COLUMNS and f"[{name}]" not in base.attrs):
        base.attrs["[?]"] = either(base.attrs.get("[?]"), item)
        return
    before = base.attrs.get(f"[{name}]") if walk.unsure or walk.present else None
    base.attrs[f"[{name}]"] = either(before, item) if before is not None else item
    base.dropped -= {name}
    base.columns = base.columns | {name} if base.columns is not None else None


def drop_column(base: Value, name: str) -> None:
    """A column goes out of a table in place: `pop`, `del`, `drop(..., inplace=True)`."""
    base.dropped |= {name}
    base.columns = base.columns - {name} if base.columns is not None else None
    base.attrs.pop(f"[{name}]", None)


def pick_columns(
    walk: Walk, base: Value, names: ColumnNames, node: ast.AST, stated: ast.AST | None = None
) -> Value:
    """Columns by a list of names, or all of the table but some. `stated`: where the list was made."""
    named = names.named
    out = columns_of(base, sorted(named)) if named is not None else without_columns(base, names.dropped)
    elsewhere = stated is not None and walk.script.function(stated) is not walk.script.function(node)
    out.place = stated if elsewhere else node
    return out


def without_columns(base: Value, dropped: frozenset[str]) -> Value:
    left = {k: v for k, v in base.attrs.items() if k[:1] == "[" and k[1:-1] not in dropped}
    out = derived(bare(base), *left.values())
    out.attrs, out.made = left, base.made if base.made == "groupby" else ""
    out.whole, out.dropped = base.whole, base.dropped | dropped
    out.columns = base.columns - dropped if base.columns is not None else None
    out.single = base.single
    return out


def names_in(over: Value) -> ColumnNames | None:
    """What a list of columns names; None for a list that grew by what is not known, or for no list."""
    if over.names is not None or (over.items is not None and over.element is not None):
        return over.names
    listed = over.const if over.const is not UNKNOWN else [item.const for item in over.items or ()]
    if isinstance(listed, list | tuple) and listed and all(isinstance(one, str) for one in listed):
        return ColumnNames(frozenset(listed))
    return None


@method("select_dtypes")
def columns_of_kind(walk: Walk, use: Use) -> Value | None:
    """`df.select_dtypes("number")`: columns made here that are of the kind, and no target that may not be."""
    kind = kind_selected(use.node, walk.values)
    if not kind or not use.base.rows:
        return None
    made = {name[1:-1] for name, item in use.base.attrs.items() if item.content == kind}
    others = {name[1:-1] for name in use.base.attrs if name[:1] == "["}
    if kind != "number" or not walk.predicts_numbers:
        others |= walk.targets  # the target may be a text
    out = without_columns(use.base, frozenset(others - made))
    out.place = use.node
    return out


def names_of_table(base: Value) -> Value:
    """`df.columns`."""
    known = base.columns is not None or base.whole
    names = ColumnNames(base.columns, base.dropped) if known else None
    return Value(base.rows, made="columns", names=names, owner=base)


def listed_columns(walk: Walk, node: ast.AST | None, scope: Scope) -> frozenset[str] | None:
    """Names of columns that an expression lists, one or several."""
    found = constant(walk, node, scope) if node is not None else None
    if isinstance(found, str):
        return frozenset((found,))
    if isinstance(found, list | tuple) and all(isinstance(one, str) for one in found):
        return frozenset(found)
    names = names_in(evaluate(walk, node, scope))
    return names.named if names is not None else None


def supervise(
    walk: Walk, place: ast.AST, features: Value | None, answer: Value | None, *, final: bool = True
) -> None:
    """Features and answers go on together: into a fit, a split, a data set."""
    if answer is not None:
        walk.answers.append(answer)
    if features is None or answer is None or not answer.reads:
        return
    if len(walk.supervised) < MOST_SUPERVISED:
        walk.supervised.append(Supervised(place, features, answer, final))
