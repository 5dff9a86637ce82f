"""Statistics of rows, by group or of all: means, deviations, sums, aggregates."""

from __future__ import annotations

import ast

from memory_service.review.interpretation.functions import call_value
from memory_service.review.interpretation.learning import keep_rows
from memory_service.review.interpretation.rows import grouped_rows, learned_from
from memory_service.review.interpretation.selection import columns_of
from memory_service.review.interpretation.state import Use, Walk, constant, library, method
from memory_service.review.interpretation.value import DEFERRED, Rows, Scope, Value, derived, flat
from memory_service.review.interpretation.vocabulary import HIGH, LOW, OF_THE_PAST, RUNNING
from memory_service.review.source.nodes import is_call

_LOOKS_BACK = OF_THE_PAST | RUNNING
_COUNTS = frozenset(("count", "size", "nunique", "cumcount", "rank", "first", "cumsum"))


@method(*LOW, *HIGH)
@library(*LOW, *HIGH)
def reduce(walk: Walk, use: Use) -> Value:
    """A mean, a deviation …: of all rows, of one row, or of groups."""
    base = use.base if use.base.rows or not use.args else use.args[0]
    found = flat(base)
    if base.made == "groupby" and not base.series:
        return reduce_groups(walk, use.node, base)
    if is_across(walk, use) or base.single or base.made in ("rolling", "groupby") or not found.rows:
        out = derived(base)
        out.single = base.single
        if base.made == "rolling":
            out.reads = base.reads  # of a window that ends with the row itself
        return out
    by_hand = _selected(found.rows) if walk.loops and base.columns and base.columns & walk.targets else None
    if by_hand:
        stat = learned_from(walk, use.node, "mean", "target", by_hand)
        return Value(learned=found.learned, stats=frozenset((stat,)))
    what = use.name
    if "max" in what:
        what = "max" if _of_each_column(use) else "one max"
    stat = learned_from(walk, use.node, what, "spread" if use.name in HIGH else "mean", found.rows)
    return Value(learned=found.learned, stats=frozenset({stat} | found.stats), columns=base.columns)


def is_across(walk: Walk, use: Use) -> bool:
    """Whether each row is reduced by itself: `axis=1`."""
    behind = int(use.name.endswith(("percentile", "quantile"))) + (not use.base.rows)
    given = walk.values.argument
    axis = constant(walk, given(use.node, "dim") or given(use.node, "axis", behind), use.scope)
    if isinstance(axis, int) and not isinstance(axis, bool):
        return axis != 0
    return isinstance(axis, list | tuple) and 0 not in axis


@method("groupby", "group_by", "groupby_dynamic")
def group(walk: Walk, use: Use) -> Value:
    """`df.groupby("city")`."""
    base = use.base
    walk.grouped[use.node] = flat(base).rows
    by = use.first
    key = constant(walk, walk.values.argument(use.node, "by", 0), use.scope)
    own = base.columns if base.columns is not None and len(base.columns) == 1 else None
    out = Value(base.rows, base.learned, base.stats, base.series, made="groupby", columns=own)
    out.reads = base.reads if own else out.reads
    out.attrs = {k: v for k, v in base.attrs.items() if k[:1] == "["}
    out.attrs["by"] = Value(const=key, columns=by.columns if by is not None else None)
    if not base.rows:
        out.rows = flat(base).rows
    return out


def reduce_groups(walk: Walk, node: ast.AST, base: Value, *, rowwise: bool = False) -> Value:
    """Groups reduced: of the target it is what each row of validation answers."""
    found = flat(base)
    columns = base.columns
    by = base.attrs.get("by")
    key = by.const if by is not None else None
    keys = set(key if isinstance(key, list) else [key])
    of_target = columns is not None and len(columns) == 1 and columns & walk.targets and not keys & columns
    out = derived(base)
    out.columns = columns
    if not rowwise:
        out.rows = frozenset(grouped_rows(walk, rows, node) for rows in found.rows)
        out.series = frozenset()
    if of_target and not base.series:
        stat = learned_from(walk, node, "mean", "target", found.rows)
        if rowwise:
            out.learned |= {stat}
        else:
            out.stats |= {stat}
    return out


def sum_into(walk: Walk, node: ast.AST, key: Value, more: Value) -> Value:
    """What a loop over rows adds to an entry that another column names: the target summed by group."""
    rows = flat(more).rows
    if not (more.single and more.reads & walk.targets and rows and flat(key).rows and walk.loops):
        return more
    place = walk.calling[-1] if walk.active and walk.calling else node
    stat = learned_from(walk, place, "mean", "target", frozenset(rows))
    return Value(learned=more.learned, stats=more.stats | {stat})


@method("pivot_table")
@library("pivot_table")
def pivot(walk: Walk, use: Use) -> Value:
    function = not use.base.rows
    base = use.args[0] if function and use.args else use.base
    column = constant(walk, walk.values.argument(use.node, "values", int(function)), use.scope)
    item = columns_of(base, (column,)) if isinstance(column, str) else derived(base)
    return reduce_groups(walk, use.node, item)


@method("agg", "aggregate", "describe", "sum", "apply")
def aggregate(walk: Walk, use: Use) -> Value:
    """agg, transform, apply, describe, sum."""
    base, name = use.base, use.name
    if base.made == "groupby":
        return aggregate_groups(walk, use)
    if base.made == "rolling":
        return reduce(walk, use)
    if name == "describe" or (name in ("agg", "aggregate") and not base.single and base.made != "col"):
        stat = learned_from(walk, use.node, name, "mean", flat(base).rows)
        return Value(stats=frozenset((stat,)) | base.stats, learned=base.learned)
    if name == "sum":
        return derived(base) if base.single else Value(learned=base.learned, stats=base.stats)
    function = use.first.function if use.first is not None else None
    if use.first is not None and function is not None:
        row = derived(base)
        row.single = True
        return keep_rows(base, [call_value(walk, use.first, [row, *use.args[1:]], use.named)])
    return keep_rows(base, use.given)


def aggregate_groups(walk: Walk, use: Use) -> Value:
    base, name, node = use.base, use.name, use.node
    stated = {constant(walk, a, use.scope) for a in node.args if not isinstance(a, ast.Dict | ast.List)}
    function = use.first.function if use.first is not None else None
    looked = [part for one in (node, function) if one is not None for part in ast.walk(one)]
    past = any(isinstance(part, ast.Attribute) and part.attr in _LOOKS_BACK for part in looked)
    if name == "sum" or (name != "apply" and not past and not stated & _COUNTS):
        inner = aggregated_columns(walk, node, use.scope)
        if inner and base.columns is None:
            of_target = frozenset(c for c in inner if c in walk.targets)
            base = Value(base.rows, base.learned, base.stats, made="groupby", attrs=base.attrs)
            base.columns = of_target if len(of_target) == 1 else None
        return reduce_groups(walk, node, base, rowwise=name == "transform")
    group = derived(base)
    if use.first is not None and function is not None and not past:
        return derived(base, call_value(walk, use.first, [group], use.named))
    out = derived(base, *use.args)
    if past:
        out.series |= {node}
    if past and use.first is not None and function is not None:
        group.reads, group.columns = base.reads, base.columns
        out.reads = call_value(walk, use.first, [group], use.named).reads
    elif stated & RUNNING:
        out.reads, out.made = base.reads, "cumsum"
    return out


def aggregated_columns(walk: Walk, node: ast.Call, scope: Scope) -> set[str]:
    """Columns that `agg({"price": "mean"})` or `agg(m=("price", "mean"))` is about, but for counts."""
    out: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Dict):
            out |= {str(constant(walk, k, scope)) for k in inner.keys if k is not None}
        elif is_call(inner, "col") and inner is not node and inner.args:
            out.add(str(constant(walk, inner.args[0], scope)))
        elif isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            column, how = (constant(walk, part, scope) for part in inner.elts)
            out |= {str(column)} if how not in _COUNTS else set()
    return out


@method("over")
def over_group(walk: Walk, use: Use) -> Value | None:
    """polars: `pl.col("price").mean().over("city")`."""
    base = use.base
    if not base.stats:
        return None
    out = derived(base)
    out.rows, out.stats = frozenset((DEFERRED,)), frozenset()
    if base.columns and base.columns & walk.targets:
        out.learned |= {learned_from(walk, use.node, "mean", "target", frozenset((DEFERRED,)))}
    return out


def _of_each_column(use: Use) -> bool:
    """Whether it is a value for each column: of an array without an axis it is one number, as 255 is."""
    method = bool(use.base.rows)
    base = use.base if method else use.args[0]
    table = base.whole or (base.columns is not None and len(base.columns) > 1)
    axis = any(named.arg in ("axis", "dim") for named in use.node.keywords)
    builtin = isinstance(use.node.func, ast.Name) and use.node.func.id == "max"
    return not builtin and (table or axis or len(use.args) > 1 - method)


def _selected(rows: frozenset[Rows]) -> frozenset[Rows]:
    """What these rows were selected from by a mask; nothing where they are no selection."""
    if not rows or not all(r.parent is not None and not r.part for r in rows):
        return frozenset()
    return frozenset(r.parent for r in rows if r.parent is not None)
