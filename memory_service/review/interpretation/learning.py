"""What is learned from rows: fitted scalers, means by group, codes of categories."""

from __future__ import annotations

import ast
from typing import Any

from memory_service.review.interpretation.evaluation import constant, evaluate
from memory_service.review.interpretation.functions import call_value
from memory_service.review.interpretation.registry import library, method
from memory_service.review.interpretation.rows import (
    Names,
    apply_learned,
    divide,
    grouped_rows,
    learned_from,
    names_together,
    part_of,
)
from memory_service.review.interpretation.selection import (
    all_of,
    choose_by,
    columns_of,
    columns_of_kind,
    feed,
    names_in,
    pick_columns,
    set_column,
)
from memory_service.review.interpretation.state import Coding, Use, Walk
from memory_service.review.interpretation.value import (
    DEFERRED,
    Rows,
    Scope,
    Value,
    bare,
    derived,
    flat,
    like,
)
from memory_service.review.interpretation.vocabulary import (
    BY_TARGET,
    CODES,
    FITS,
    HIGH,
    JOINS,
    LEARNS,
    LOW,
    OF_THE_PAST,
    PREDICTS,
    RESAMPLES,
    RUNNING,
    SAME_COLUMNS,
    SCALING,
    SEARCHES,
)

PICKS = frozenset(("ColumnTransformer", "make_column_transformer", "DataFrameMapper"))
"""They take their own columns out of a whole table."""

MOST_WITHIN = 4
_LOOKS_BACK = OF_THE_PAST | RUNNING
_COUNTS = frozenset(("count", "size", "nunique", "cumcount", "rank", "first", "cumsum"))


def learner_in(held: Value) -> str:
    """The class that learns; of a pipeline without a model the one within that does."""
    if held.made in JOINS:
        inside = classes_within(held)
        if any(PREDICTS.search(name) for name in inside):
            return ""
        return next((n for n in inside if LEARNS.match(n) or BY_TARGET.match(n)), "")
    known = LEARNS.match(held.made) or RESAMPLES.search(held.made) or BY_TARGET.match(held.made)
    return held.made if known else ""


@method(*FITS)
def fit(walk: Walk, use: Use) -> Value | None:
    """`scaler.fit(X)`, `fit_transform`, `fit_resample`; of a model what divides rows by itself."""
    first, base, name = use.first, use.base, use.name
    if first is None:
        return None
    what = learner_in(base)
    if base.made in CODES or any(n in CODES for n in classes_within(base)):
        code(walk, use.node, base.made, first, base)
    if not what:
        fed = columns_taken(walk, first, base) if PICKS.intersection(classes_within(base)) else first
        feed(walk, use.node, fed, use.args[1] if len(use.args) > 1 else use.named.get("y"))
        if "validation_split" in use.named or SEARCHES.search(base.made):
            divide(walk, first, use.node, "fit", base.call)
        return derived(first) if name in ("fit_transform", "fit_resample") else base
    kind = "target" if BY_TARGET.match(what) else "fit"
    learned = learned_from(walk, use.node, what, kind, frozenset(flat(first).rows))
    base.state = frozenset((learned,))
    if name == "adapt":
        walk.adapted.append(learned)
        return base
    apply_learned(walk, base.state, first)
    if name in ("fit", "partial_fit"):
        return base
    out = columns_out(walk, first, base)
    out.learned |= {learned}
    if not RESAMPLES.search(what):
        return out
    answer = like(use.args[1]) if len(use.args) > 1 else derived(first)
    answer.reads = use.args[1].reads if len(use.args) > 1 else frozenset()
    answer.learned |= {learned}
    return Value(items=[out, answer])


def columns_out(walk: Walk, given: Value, by: Value) -> Value:
    """What a transformer makes of rows, with the columns that are known to be in it still."""
    if by.made in SAME_COLUMNS or RESAMPLES.search(by.made):
        return like(given)
    taken = columns_taken(walk, given, by)
    return like(taken) if taken is not None else derived(given)


def columns_taken(walk: Walk, given: Value, by: Value, deep: int = 0) -> Value | None:
    """The columns that a ColumnTransformer, or a pipeline with one, takes; None where it is not said."""
    steps = by.attrs.get("0") or by.attrs.get("steps") or by.attrs.get("transformers")
    if by.made in ("Pipeline", "make_pipeline") and deep < MOST_WITHIN:
        first = steps.items[0] if by.made == "Pipeline" and steps is not None and steps.items else steps
        inner = first.items[-1] if first is not None and first.items else first
        return columns_taken(walk, given, inner, deep + 1) if inner is not None else None
    if by.made not in ("ColumnTransformer", "make_column_transformer") or "remainder" in by.attrs:
        return None
    parts = steps.items if by.made == "ColumnTransformer" and steps is not None else list(by.attrs.values())
    names: Names | None = None
    for part in parts or ():
        last = part.items[-1] if part.items and len(part.items) > 1 else None
        said = names_in(last) if last is not None else None
        if last is not None and isinstance(last.const, str):
            said = frozenset((last.const,)), frozenset()
        if said is None:
            return None
        names = said if names is None else names_together(names, said)
    return pick_columns(walk, given, names, given.place or by.call or walk.script.tree) if names else None


@method("inverse_transform")
def transform(walk: Walk, use: Use) -> Value | None:
    """`scaler.transform(X)` of one that was fitted before."""
    if use.first is None or not use.base.state:
        return None
    out = columns_out(walk, use.first, use.base)
    out.learned |= use.base.state
    apply_learned(walk, use.base.state, use.first)
    return out


@library(*SCALING)
def scale(walk: Walk, use: Use) -> Value | None:
    """`zscore(X)`, `scale(X)`."""
    rows = flat(use.first).rows
    if use.first is None or not rows or use.first.single:
        return None
    out = derived(use.first)
    out.learned |= {learned_from(walk, use.node, use.name, "fit", frozenset(rows))}
    return out


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
    if (
        walk.loops and base.columns and base.columns & walk.targets
        and (by_hand := _selected(found.rows))
    ):  # fmt: skip
        stat = learned_from(walk, use.node, "mean", "target", by_hand)
        return Value(learned=frozenset(found.learned), stats=frozenset((stat,)))
    what = "max" if "max" in use.name else use.name
    stat = learned_from(walk, use.node, what, "spread" if use.name in HIGH else "mean", frozenset(found.rows))
    return Value(
        learned=frozenset(found.learned), stats=frozenset({stat} | found.stats), columns=base.columns
    )


def is_across(walk: Walk, use: Use) -> bool:
    """Whether each row is reduced by itself: `axis=1`."""
    behind = int(use.name.endswith(("percentile", "quantile"))) + (not use.base.rows)
    given = (
        walk.values.argument(use.node, "axis")
        or walk.values.argument(use.node, "dim")
        or walk.values.argument(use.node, "axis", behind)
    )
    axis = constant(walk, given, use.scope)
    if isinstance(axis, int) and not isinstance(axis, bool):
        return axis != 0
    return isinstance(axis, list | tuple) and 0 not in axis


@method("groupby", "group_by", "groupby_dynamic")
def group(walk: Walk, use: Use) -> Value:
    """`df.groupby("city")`."""
    base = use.base
    by = use.first
    key = constant(walk, walk.values.argument(use.node, "by", 0), use.scope)
    own = base.columns if base.columns is not None and len(base.columns) == 1 else None
    out = Value(base.rows, base.learned, base.stats, base.series, made="groupby", columns=own)
    out.reads = base.reads if own else out.reads
    out.attrs = {k: v for k, v in base.attrs.items() if k[:1] == "["}
    out.attrs["by"] = Value(const=key, columns=by.columns if by is not None else None)
    if not base.rows:
        out.rows = frozenset(flat(base).rows)
    return out


def reduce_groups(walk: Walk, node: ast.AST, base: Value, *, rowwise: bool = False) -> Value:
    """Groups reduced: of the target it is what each row of validation answers."""
    found = flat(base)
    columns = base.columns
    by = base.attrs.get("by")
    key = by.const if by is not None else None
    keys = set(key if isinstance(key, list) else [key])
    of_target = (
        columns is not None and len(columns) == 1 and bool(columns & walk.targets) and not keys & columns
    )
    out = derived(base)
    out.columns = columns
    if not rowwise:
        out.rows = frozenset(grouped_rows(walk, rows, node) for rows in found.rows)
        out.series = frozenset()
    if of_target and not base.series:
        stat = learned_from(walk, node, "mean", "target", frozenset(found.rows))
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


def append_to_group(walk: Walk, use: Use) -> None:
    """`prices[city].append(price)` in a loop over rows: the column, grouped by another."""
    called: Any = use.node.func
    held = evaluate(walk, called.value.value, use.scope)
    given, key = use.args[0], evaluate(walk, called.value.slice, use.scope)
    if held.keys is not None and given.single and flat(given).rows and flat(key).rows and walk.loops:
        held.element = Value(given.rows, given.learned, given.stats, made="groupby", columns=given.reads)


@method("pivot_table")
@library("pivot_table")
def pivot(walk: Walk, use: Use) -> Value:
    """A table of means by group."""
    function = not use.base.rows
    base = use.args[0] if function and use.args else use.base
    column = constant(walk, walk.values.argument(use.node, "values", int(function)), use.scope)
    held = columns_of(base, (column,)) if isinstance(column, str) else derived(base)
    return reduce_groups(walk, use.node, held)


@method("agg", "aggregate", "describe", "sum", "apply")
def aggregate(walk: Walk, use: Use) -> Value:
    """agg, transform, apply, describe, sum."""
    base, name = use.base, use.name
    if base.made == "groupby":
        return aggregate_groups(walk, use)
    if base.made == "rolling":
        return reduce(walk, use)
    if name == "describe" or (name in ("agg", "aggregate") and not base.single and base.made != "col"):
        stat = learned_from(walk, use.node, name, "mean", frozenset(flat(base).rows))
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
    said = {constant(walk, a, use.scope) for a in node.args if not isinstance(a, ast.Dict | ast.List)}
    function = use.first.function if use.first is not None else None
    past = _of_the_past(node) or looks_back(walk, function)
    if name == "sum" or (name != "apply" and not past and not said & _COUNTS):
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
    elif said & RUNNING:
        out.reads, out.made = base.reads, "cumsum"
    return out


def looks_back(walk: Walk, function: ast.AST | None) -> bool:
    """Whether a function takes lags or windows; read once."""
    if function is None:
        return False
    if function not in walk.lagging:
        walk.lagging[function] = _of_the_past(function)
    return walk.lagging[function]


def aggregated_columns(walk: Walk, node: ast.Call, scope: Scope) -> set[str]:
    """Columns that `agg({"price": "mean"})` or `agg(m=("price", "mean"))` is about, but for counts."""
    out: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Dict):
            out |= {str(constant(walk, k, scope)) for k in inner.keys if k is not None}
        elif isinstance(inner, ast.Call) and inner is not node and _is_col(inner):
            out.add(str(constant(walk, inner.args[0], scope)))
        elif (
            isinstance(inner, ast.Tuple) and len(inner.elts) == 2
            and constant(walk, inner.elts[1], scope) not in _COUNTS
        ):  # fmt: skip
            out.add(str(constant(walk, inner.elts[0], scope)))
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


@method("with_columns", "select", "with_column", "filter")
def with_columns(walk: Walk, use: Use) -> Value | None:
    """Expressions about columns become columns of this table."""
    base = use.base
    if use.name == "select" and len(use.args) == 1 and (chosen := columns_of_kind(walk, use)) is not None:
        return chosen
    if use.name == "filter" and use.named.keys() & {"like", "regex", "items"}:
        return derived(base)  # pandas: some of the columns
    if use.name == "select":
        names = names_in(use.args[0] if len(use.args) == 1 else Value(items=use.args))
        if names is not None and (names[0] is not None or use.args[0].rows & all_of(base.rows)):
            return pick_columns(
                walk, base, names, use.node, use.args[0].place if len(use.args) == 1 else None
            )
    if not flat(*use.given).rows:
        return derived(base) if use.name == "select" else None
    if use.name == "filter":
        index = next((a.index for a in use.args if a.index), None)
        how = next((a.cut for a in use.args if a.cut), ())
        if index is not None:
            divide(walk, base, index[0], "positions")
            return part_of(walk, base, *index)
        if how:
            return choose_by(walk, base, how, use.node)
    made = [item for arg in use.args for item in ([arg] if arg.items is None else arg.items)]
    out = keep_rows(base, [held for held in made if not _is_named(held)])
    for held in made:
        if held.names is not None and held.names[0] is not None and _is_named(held):
            set_column(walk, out, next(iter(held.names[0])), held, use.node)
    for name, held in use.named.items():
        set_column(walk, out, name, held, use.node, walk.values.argument(use.node, name))
    out.whole = out.whole and use.name != "select"
    own = frozenset(flat(base).rows)
    for held in [h for h in (out, *out.attrs.values()) if h.learned or h.stats]:
        held.learned = frozenset(
            learned_from(walk, one.place, one.what, one.kind, own) if DEFERRED in one.rows else one
            for one in held.learned
        )
        held.stats = frozenset(s for s in held.stats if DEFERRED not in s.rows)
    return out


def keep_rows(base: Value, others: list[Value]) -> Value:
    """Rows stay those of the base, whatever is joined to them."""
    out = like(base, *others)
    own = flat(bare(base)).rows
    if own:
        out.rows = frozenset(own)
    out.columns, out.centred, out.single = base.columns, base.centred, base.single
    return out


def code(walk: Walk, node: ast.AST, what: str, held: Value, coder: Value | None = None) -> None:
    """Categories are numbered here, by these rows."""
    rows = frozenset(flat(held).rows)
    columns = (held.element if held.element is not None else held).columns
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if columns is None and isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Name):
        columns = frozenset((f"[{given.slice.id}]",))  # of a loop over columns
    found = Coding(node, what, rows, not walk.unsure, coder, columns, walk.present > 0)
    walk.codings.append(found)


def _of_the_past(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in _LOOKS_BACK for n in ast.walk(node))


def _is_named(held: Value) -> bool:
    """polars: an expression with an alias, which goes into a column of its own."""
    return held.made == "col" and held.names is not None and bool(held.names[0])


def _is_col(node: ast.Call) -> bool:
    called: Any = node.func
    return isinstance(called, ast.Attribute) and called.attr == "col" and bool(node.args)


def classes_within(held: Value, deep: int = 0) -> list[str]:
    """Names of what a pipeline is made of."""
    out = [held.made] if held.made else []
    if deep < 6:
        for part in (*(held.items or ()), *held.attrs.values()):
            out += classes_within(part, deep + 1)
    return out


def _selected(rows: set[Rows]) -> frozenset[Rows]:
    """What these rows were selected from by a mask; nothing where they are no selection."""
    if not rows or not all(r.parent is not None and not r.part for r in rows):
        return frozenset()
    return frozenset(r.parent for r in rows if r.parent is not None)
