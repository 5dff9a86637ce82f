"""What functions of the file give; what is learned from rows, and what divides rows or drops columns."""

from __future__ import annotations

import ast
from dataclasses import replace

from memory_service.review.interpretation.state import DEFERRED, Columns, Scope, Value, derived, either, flat
from memory_service.review.interpretation.walk import (
    Coding,
    Use,
    Walk,
    columns_of_kind,
    library,
    method,
    slides_along,
)
from memory_service.review.source.script import is_call, receiver_name
from memory_service.review.tables import words_of

_RE, _SET, *_ = words_of("interpretation")


def of_collection(walk: Walk, use: Use) -> Value | None:
    """Lists, tuples and dicts of the script's own."""
    base, name, args = use.base, use.name, use.args
    if name in ("append", "add", "extend", "insert", "appendleft") and args:
        base.element = either(base.element, walk.element_of(args[-1]) if name == "extend" else args[-1])
        loop = walk.loops[-1] if walk.loops else None
        if isinstance(loop, ast.For) and slides_along(loop, use.node):
            base.series |= {use.node}
        base.items = base.items or None
        return Value(const=None)
    if name == "update" or (name in ("remove", "discard", "pop", "clear") and base.items):
        base.items, base.element = None, Value()  # what is left, or there now, is unknown
        base.keys = None if base.keys is None else {}
    return Value() if name in ("keys", "clear", "sort", "reverse", "remove", "discard", "update") else None


@library("enumerate", "zip", "range")
def paired(walk: Walk, use: Use) -> Value:
    if use.name == "range":
        return Value(order=True, made=use.name)
    over = use.args if use.name == "zip" else [use.first]
    counted = [Value()] if use.name == "enumerate" else []
    return Value(element=Value(items=[*counted, *(walk.element_of(item) for item in over)]))


@library("tqdm", "trange", "reversed", "iter", "list", "tuple", "sorted", "set", "track", "progress_bar")
def copied(_walk: Walk, use: Use) -> Value:
    """What goes through a thing, or copies it."""
    listed = use.name in ("list", "set", "sorted", "tuple")
    if not use.given:
        return Value(items=[])
    if listed and use.first.whole:
        return use.first.table_names()
    copies = listed and (use.first.items or use.first.names)  # a copy may lose names by itself
    return replace(use.first) if copies else use.first


@library("clone", "deepcopy", "copy")
def cloned(_walk: Walk, use: Use) -> Value:
    return replace(use.first, attrs=dict(use.first.attrs))


PICKS = _SET.picks
MOST_WITHIN = 4


def learner_in(item: Value) -> str:
    """The class that learns; of a pipeline without a model the one within that does."""
    if item.made in _SET.joins:
        inside = item.classes()
        if any(_RE.predicts.search(name) for name in inside):
            return ""
        return next((n for n in inside if _RE.learns.match(n) or _RE.by_target.match(n)), "")
    known = _RE.learns.match(item.made) or _RE.by_target.match(item.made)
    return item.made if known or _RE.resamples.search(item.made) else ""


@method(*_SET.fits)
def fit(walk: Walk, use: Use) -> Value:
    """`scaler.fit(X)`, `fit_transform`, `fit_resample`; of a model what divides rows by itself."""
    first, base, name = use.first, use.base, use.name
    what = learner_in(base)
    if base.made in _SET.codes or any(n in _SET.codes for n in base.classes()):
        code(walk, use.node, base.made, first, base)
    if not what:
        supervised = columns_taken(walk, first, base) if PICKS.intersection(base.classes()) else first
        walk.supervise(use.node, supervised, use.args[1] if len(use.args) > 1 else use.named.get("y"))
        if "validation_split" in use.named or _RE.searches.search(base.made):
            walk.divide(first, use.node, "fit", base.call)
        return derived(first) if name in ("fit_transform", "fit_resample") else base
    kind = "target" if _RE.by_target.match(what) else "fit"
    learned = walk.learned_from(use.node, what, kind, flat(first).rows)
    if base.made not in _SET.codes and kind == "fit":
        walk.fitted.append(Coding(use.node, what, flat(first).rows, not walk.unsure, base, None))
    base.state = frozenset((learned,))
    walk.apply_learned(base.state, first)
    if name in ("fit", "partial_fit", "adapt"):
        return base
    out = columns_out(walk, first, base)
    out.learned |= {learned}
    if not _RE.resamples.search(what):
        return out
    answer = use.args[1].keeping(use.args[1].like(), "reads") if len(use.args) > 1 else derived(first)
    answer.learned |= {learned}
    return Value(items=[out, answer])


def columns_out(walk: Walk, given: Value, by: Value) -> Value:
    """What a transformer makes of rows, with the columns that are known to be in it still."""
    if by.made in _SET.same_columns or _RE.resamples.search(by.made):
        return given.like()
    taken = columns_taken(walk, given, by)
    return taken.like() if taken is not None else derived(given)


def columns_taken(walk: Walk, given: Value, by: Value, deep: int = 0) -> Value | None:
    """The columns that a ColumnTransformer, or a pipeline with one, takes; None where that is unknown."""
    steps = by.attrs.get("0") or by.attrs.get("steps") or by.attrs.get("transformers")
    if by.made in ("Pipeline", "make_pipeline") and deep < MOST_WITHIN:
        first = steps.items[0] if by.made == "Pipeline" and steps is not None and steps.items else steps
        inner = first.items[-1] if first is not None and first.items else first
        return columns_taken(walk, given, inner, deep + 1) if inner is not None else None
    if by.made not in ("ColumnTransformer", "make_column_transformer") or "remainder" in by.attrs:
        return None
    parts = steps.items if by.made == "ColumnTransformer" and steps is not None else list(by.attrs.values())
    names: Columns | None = None
    for part in parts or ():
        last = part.items[-1] if part.items and len(part.items) > 1 else None
        stated = last.listed_names() if last is not None else None
        names = stated if names is None or stated is None else names.together_with(stated)
    return walk.pick_columns(given, names, given.place or by.call or walk.script.tree) if names else None


@method("inverse_transform")
def transform(walk: Walk, use: Use) -> Value | None:
    """`scaler.transform(X)` of one that was fitted before."""
    if not use.base.state:
        return None
    out = columns_out(walk, use.first, use.base)
    out.learned |= use.base.state
    walk.apply_learned(use.base.state, use.first)
    return out


@method("with_columns", "select", "with_column", "filter")
def with_columns(walk: Walk, use: Use) -> Value | None:
    """Expressions about columns become columns of this table."""
    base = use.base
    if use.name == "select" and len(use.args) == 1 and (chosen := columns_of_kind(walk, use)) is not None:
        return chosen
    if use.name == "filter" and use.named.keys() & {"like", "regex", "items"}:
        return derived(base)  # pandas: some of the columns
    chooser = use.args[0] if len(use.args) == 1 else Value(items=use.args)
    if (picked := walk.columns_by(base, chooser, use.node)) is not None:
        return picked
    if not flat(*use.given).rows:
        return derived(base) if use.name == "select" else None
    if use.name == "filter" and (how := next((a.cut for a in use.args if a.cut), ())):
        return walk.choose_by(base, how, use.node)
    made = [item for arg in use.args for item in ([arg] if arg.items is None else arg.items)]
    out = base.with_more(made)
    out.whole = out.whole and use.name != "select"
    own = flat(base).rows
    for operand in [h for h in (out, *out.attrs.values()) if h.learned or h.stats]:
        late = {one for one in operand.learned if DEFERRED in one.rows}
        here = {walk.learned_from(one.place, one.what, one.kind, own) for one in late}
        operand.learned = (operand.learned - late) | here
        operand.stats = frozenset(s for s in operand.stats if DEFERRED not in s.rows)
    return out


def code(walk: Walk, node: ast.AST, what: str, item: Value, coder: Value | None = None) -> None:
    """Categories are numbered here, by these rows."""
    rows = flat(item).rows
    columns = (item.element if item.element is not None else item).columns
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if columns is None and isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Name):
        columns = frozenset((f"[{given.slice.id}]",))  # of a loop over columns
    walk.codings.append(Coding(node, what, rows, not walk.unsure, coder, columns, walk.present > 0))


def parts_of(walk: Walk, use: Use, value: Value, several: int = 2) -> list[Value]:
    """The rows of a value divided by a call: those to train on, those to judge by, further ones."""
    walk.divide(value, use.node, use.name, use.node)
    return [walk.part_of(value, use.node, ("train", "valid", "part")[min(at, 2)]) for at in range(several)]


@library("train_test_split", "temporal_train_test_split")
def split_arrays(walk: Walk, use: Use) -> Value:
    """`train_test_split(X, y)`: two parts of each."""
    arrays = [*use.args, *(v for k, v in use.named.items() if k in ("X", "y", "arrays"))]
    walk.answers += [use.named["stratify"]] if "stratify" in use.named else []
    if len(arrays) > 1:
        walk.supervise(use.node, arrays[0], arrays[1], final=False)
    return Value(items=[part for one in arrays for part in parts_of(walk, use, one)])


@method("train_test_split", "random_split")
def split_data_set(walk: Walk, use: Use) -> Value:
    """A method of a data set: `ds.train_test_split(test_size=0.1)`."""
    return Value(keys=dict(zip(("train", "test"), parts_of(walk, use, use.base), strict=True)), made="parts")


@library("random_split")
def random_split(walk: Walk, use: Use) -> Value:
    lengths = use.args[1].items if len(use.args) > 1 else use.named.get("lengths", Value()).items
    return Value(items=parts_of(walk, use, use.first, 2 if lengths is None else len(lengths)))


@library(*_SET.scoring)
def cross_validate(walk: Walk, use: Use) -> Value | None:
    """`cross_val_score(model, X, y)`."""
    rest = use.args[1:3] + [v for k, v in use.named.items() if k in ("X", "y")]
    if len(rest) > 1 and not PICKS.intersection((use.args[0] if use.args else Value()).classes()):
        walk.supervise(use.node, rest[0], rest[1])
    for item in rest:
        walk.divide(item, use.node, use.name, use.node)
    return derived(*rest) if rest else None


@method("split")
def split_folds(walk: Walk, use: Use) -> Value | None:
    """`splitter.split(X, y)`: positions of both parts, fold by fold."""
    base, node = use.base, use.node
    if not _RE.splitters.search(base.made):
        named = _RE.splitter_names.search(receiver_name(node))
        if base.made or base.rows or base.dotted or not use.given or not named:
            return None
    walk.answers += use.given[1:2]
    for at, item in enumerate(use.given):
        if at < 2 or not flat(item).rows:
            walk.divide(item, node, base.made, base.call)
    return Value(element=Value(items=[Value(index=(node, part)) for part in ("train", "valid")]))


@method("sample")
def sample(walk: Walk, use: Use) -> Value:
    """`df.sample(frac=0.8)`: some rows; with `frac=1` all in another order."""
    share = walk.constant(walk.values.argument(use.node, "frac", 1), use.scope)
    if isinstance(share, int | float) and 0 < share < 1:
        return walk.part_of(use.base, use.node, "train")
    return use.base


@method("drop")
def drop(walk: Walk, use: Use) -> Value | None:
    """`df.drop(train.index)`: the other rows."""
    if not use.base.rows and use.base.made != "columns":
        return None
    index = use.first.index
    if index is None:
        return drop_columns(walk, use)
    walk.divide(use.base, index[0], "sample")
    return walk.part_of(use.base, index[0], "valid")


def drop_columns(walk: Walk, use: Use) -> Value | None:
    """`df.drop(columns=["id"])`, also in place; `df.columns.drop("id")`."""
    values = walk.values
    axis = walk.constant(values.argument(use.node, "axis", 1), use.scope)
    given = values.argument(use.node, "columns") or values.argument(use.node, "labels", 0)
    names = walk.listed_columns(given, use.scope)
    rest = [a.const for a in use.args[1:]]
    if names is not None:  # polars: drop("id", "price")
        names |= {one for one in rest if isinstance(one, str)}
    if use.base.made == "columns":
        return drop_names(walk, use)
    if axis in (0, "index") or values.argument(use.node, "index") is not None:
        return None
    out = use.base.without_columns(names or frozenset())
    out.whole, out.place = out.whole and names is not None, use.node
    if walk.constant(values.argument(use.node, "inplace"), use.scope) is True and names is not None:
        for name in names:
            use.base.drop_column(name)
    return out


@method("difference", "remove", "discard")
def drop_names(walk: Walk, use: Use) -> Value | None:
    """`df.columns.drop("id")`, `.difference([...])`; `.remove("id")` in place."""
    if use.base.made != "columns":
        return None
    stated = walk.listed_columns(use.node.args[0] if use.node.args else None, use.scope)
    names = use.base.names.without(stated) if use.base.names is not None and stated is not None else None
    if use.name in ("remove", "discard"):
        use.base.names = names
        return Value(const=None)
    return Value(use.base.rows, made="columns", names=names)


@library("Subset")
def subset(walk: Walk, use: Use) -> Value:
    """`Subset(ds, rows)`."""
    index = next((one.index for one in use.given[1:]), None)
    if index is None:
        return derived(use.first)
    walk.divide(use.first, index[0], "positions")
    return walk.part_of(use.first, *index)


@library("DataLoader")
def load_batches(walk: Walk, use: Use) -> Value:
    """`DataLoader(ds)`: its batches are of these rows."""
    data = use.first
    walk.loaders.setdefault(use.node, []).append(data)
    return Value(made=use.name, element=data.element, attrs={"dataset": data, "batches": derived(data)})


_LOOKS_BACK = _SET.of_the_past | _SET.running


@method(*_SET.low, *_SET.high)
@library(*_SET.low, *_SET.high)
def reduce(walk: Walk, use: Use) -> Value:
    """A mean, a deviation …: of all rows, of one row, or of groups."""
    base = use.base if use.base.rows or not use.args else use.args[0]
    found = flat(base)
    if base.made == "groupby" and not base.series:
        return reduce_groups(walk, use.node, base)
    if is_across(walk, use) or base.single or base.made in ("rolling", "groupby") or not found.rows:
        reads = base.reads if base.made == "rolling" else frozenset[str]()  # it ends with the row itself
        return replace(derived(base), single=base.single, reads=reads)
    selected = [r.parent for r in found.rows if r.parent is not None and not r.part]  # by a mask
    of_target = walk.loops and base.columns and base.columns & walk.targets
    if of_target and selected and len(selected) == len(found.rows):
        stat = walk.learned_from(use.node, "mean", "target", frozenset(selected))
        return Value(learned=found.learned, stats=frozenset((stat,)))
    what = use.name
    if "max" in what:
        what = "max" if _of_each_column(use) else "one max"
    stat = walk.learned_from(use.node, what, "spread" if use.name in _SET.high else "mean", found.rows)
    return Value(learned=found.learned, stats=frozenset({stat} | found.stats), columns=base.columns)


def is_across(walk: Walk, use: Use) -> bool:
    """Whether each row is reduced by itself: `axis=1`."""
    behind = int(use.name.endswith(("percentile", "quantile"))) + (not use.base.rows)
    given = walk.values.argument
    axis = walk.constant(given(use.node, "dim") or given(use.node, "axis", behind), use.scope)
    if isinstance(axis, int) and not isinstance(axis, bool):
        return axis != 0
    return isinstance(axis, list | tuple) and 0 not in axis


@method("groupby", "group_by", "groupby_dynamic")
def group(walk: Walk, use: Use) -> Value:
    """`df.groupby("city")`."""
    base = use.base
    walk.grouped[use.node] = flat(base).rows
    key = walk.constant(walk.values.argument(use.node, "by", 0), use.scope)
    own = base.columns if base.columns is not None and len(base.columns) == 1 else None
    out = Value(base.rows, base.learned, base.stats, base.series, made="groupby", columns=own)
    out.reads = base.reads if own else out.reads
    out.attrs = base.single_columns()
    out.attrs["by"] = Value(const=key, columns=use.first.columns)
    return out


def reduce_groups(walk: Walk, node: ast.AST, base: Value, *, rowwise: bool = False) -> Value:
    """Groups reduced: of the target it is what each row of validation answers."""
    found = flat(base)
    columns = base.columns
    by = base.attrs.get("by")
    key = by.const if by is not None else None
    keys = set(key if isinstance(key, list) else [key])
    of_target = columns is not None and len(columns) == 1 and columns & walk.targets and not keys & columns
    out = replace(derived(base), columns=columns)
    leaks = of_target and not base.series
    stats = {walk.learned_from(node, "mean", "target", found.rows)} if leaks else set()
    if rowwise:
        return replace(out, learned=out.learned | stats)
    rows = frozenset(walk.grouped_rows(rows, node) for rows in found.rows)
    return replace(out, rows=rows, series=frozenset(), stats=out.stats | stats)


def sum_into(walk: Walk, node: ast.AST, key: Value, more: Value) -> Value:
    """What a loop over rows adds to an entry that another column names: the target summed by group."""
    rows = flat(more).rows
    if not (more.single and more.reads & walk.targets and rows and flat(key).rows and walk.loops):
        return more
    place = walk.calling[-1] if walk.active and walk.calling else node
    stat = walk.learned_from(place, "mean", "target", frozenset(rows))
    return Value(learned=more.learned, stats=more.stats | {stat})


@method("pivot_table")
@library("pivot_table")
def pivot(walk: Walk, use: Use) -> Value:
    function = not use.base.rows
    base = use.args[0] if function and use.args else use.base
    column = walk.constant(walk.values.argument(use.node, "values", int(function)), use.scope)
    item = base.columns_named((column,)) if isinstance(column, str) else derived(base)
    return reduce_groups(walk, use.node, item)


@method("agg", "aggregate", "describe", "sum", "apply")
def aggregate(walk: Walk, use: Use) -> Value:
    """agg, transform, apply, describe, sum."""
    base, name = use.base, use.name
    if base.made == "groupby":
        return aggregate_groups(walk, use)
    if name == "describe" or (name in ("agg", "aggregate") and not base.single and base.made != "col"):
        stat = walk.learned_from(use.node, name, "mean", flat(base).rows)
        return Value(stats=frozenset((stat,)) | base.stats, learned=base.learned)
    if name == "sum":
        return derived(base) if base.single else Value(learned=base.learned, stats=base.stats)
    return walk.by_row(use)


def aggregate_groups(walk: Walk, use: Use) -> Value:
    base, name, node = use.base, use.name, use.node
    stated = {walk.constant(a, use.scope) for a in node.args if not isinstance(a, ast.Dict | ast.List)}
    function = use.first.function
    looked = [part for one in (node, function) if one is not None for part in ast.walk(one)]
    past = any(isinstance(part, ast.Attribute) and part.attr in _LOOKS_BACK for part in looked)
    if name == "sum" or (name != "apply" and not past and not stated & _SET.counts):
        inner = aggregated_columns(walk, node, use.scope)
        if inner and base.columns is None:
            of_target = frozenset(c for c in inner if c in walk.targets)
            base = Value(base.rows, base.learned, base.stats, made="groupby", attrs=base.attrs)
            base.columns = of_target if len(of_target) == 1 else None
        return reduce_groups(walk, node, base, rowwise=name == "transform")
    group = derived(base)
    out = derived(base, *use.args)
    if past:
        out.series |= {node}
    if past and function is not None:
        group.reads, group.columns = base.reads, base.columns
        out.reads = walk.call_value(use.first, [group], use.named).reads
    return out


def aggregated_columns(walk: Walk, node: ast.Call, scope: Scope) -> set[str]:
    """Columns that `agg({"price": "mean"})` or `agg(m=("price", "mean"))` is about, but for counts."""
    out: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Dict):
            out |= {str(walk.constant(k, scope)) for k in inner.keys if k is not None}
        elif is_call(inner, "col") and inner is not node and inner.args:
            out.add(str(walk.constant(inner.args[0], scope)))
        elif isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            column, how = (walk.constant(part, scope) for part in inner.elts)
            out |= {str(column)} if how not in _SET.counts else set()
    return out


@method("over")
def over_group(walk: Walk, use: Use) -> Value:
    """polars: `pl.col("price").mean().over("city")`."""
    base = use.base
    out = replace(derived(base), rows=frozenset((DEFERRED,)), stats=frozenset())
    if base.columns and base.columns & walk.targets:
        out.learned |= {walk.learned_from(use.node, "mean", "target", frozenset((DEFERRED,)))}
    return out


def _of_each_column(use: Use) -> bool:
    """Whether it is a value for each column: of an array without an axis it is one number, as 255 is."""
    method = bool(use.base.rows)
    base = use.base if method else use.args[0]
    table = base.whole or (base.columns is not None and len(base.columns) > 1)
    axis = any(named.arg in ("axis", "dim") for named in use.node.keywords)
    builtin = isinstance(use.node.func, ast.Name) and use.node.func.id == "max"
    return not builtin and (table or axis or len(use.args) > 1 - method)
