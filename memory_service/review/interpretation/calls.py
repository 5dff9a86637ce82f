"""Calls of pandas, numpy, scikit-learn, torch and similar libraries, and what they do with rows."""

from __future__ import annotations

import ast
from dataclasses import replace

from memory_service.review.interpretation.functions import call_value, collection_method
from memory_service.review.interpretation.learning import aggregate, code, keep_rows, transform
from memory_service.review.interpretation.rows import (
    OTHER_ROWS,
    column_value,
    divide,
    drop_column,
    grouped_rows,
    learned_from,
    outside_rows,
    set_column,
    short,
    supervise,
)
from memory_service.review.interpretation.state import (
    DEFERRED,
    LIBRARY,
    METHODS,
    Use,
    Value,
    Walk,
    all_of,
    bare,
    constant,
    derived,
    either,
    flat,
    keeping,
    library,
    like,
    method,
)
from memory_service.review.source.nodes import arguments_of, last_name
from memory_service.review.tables import name_sets, patterns

_RE = patterns("interpretation")
_SET = name_sets("interpretation")


def call_method(walk: Walk, use: Use) -> Value:
    """A method of what is no object of the file's own classes."""
    base = use.base
    if base.items is not None or base.keys is not None or base.element is not None:
        found = collection_method(walk, use)
        if found is not None:
            return found
    handler = METHODS.get(use.name)
    found = handler(walk, use) if handler is not None else None
    return _placed(walk, use, found if found is not None else other_method(walk, use))


def call_library(walk: Walk, use: Use) -> Value:
    """A function or class from outside the file."""
    handler = LIBRARY.get(use.name)
    found = handler(walk, use) if handler is not None else None
    return _placed(walk, use, found if found is not None else other_function(walk, use))


def _placed(walk: Walk, use: Use, given: Value) -> Value:
    """`x.cuda()`, `x.to(device)`, `torch.tensor(x, device=device)`: tensors that lie on the card."""
    device = walk.values.argument(use.node, "device", 0 if use.name == "to" else None)
    if device is None and use.name != "cuda":
        return given
    there = device is None or (walk.values.one(device) != "cpu" and not _RE.no_card.match(last_name(device)))
    return replace(given, on_card=True) if there else given


def other_method(walk: Walk, use: Use) -> Value:
    base, name = use.base, use.name
    if base.made == "columns":
        same = name in ("tolist", "to_list", "copy", "unique")
        return Value(base.rows, made="columns", names=base.names if same else None, owner=base.owner)
    if base.made and name in ("to", "cuda", "cpu", "compile", "eval", "train", "set_output"):
        return base
    found = flat(base, *use.given)
    if not (base.made or found.rows or found.stats or found.learned):
        reads = _RE.reads.match(name)
        return outside_rows(walk, use.node, file_name_in(walk, use)) if reads else Value(made=name)
    out = like(base, *use.given)
    if name in _SET.row_by_row:
        out.reads = base.reads.union(*(item.reads for item in use.given))
    if base.rows and base.made in ("groupby", "rolling", "col"):
        out.made = base.made
    return keeping(base, out, "columns", "cut", "centred", "single")


def other_function(walk: Walk, use: Use) -> Value:
    name, given = use.name, use.given
    if name == "open" and use.args:
        return Value(made=name, attrs={"0": use.args[0]})
    if name == "DictReader":
        return outside_rows(walk, use.node, file_name_in(walk, use))
    if name in _SET.empty:
        return Value(made=name)
    if name in ("intersect1d", "setdiff1d") and use.first is not None and use.first.made == "columns":
        return Value(use.first.rows, made="columns")
    if name[:1].isupper() or name in _SET.joins:
        attrs = {str(at): item for at, item in enumerate(use.args)} | use.named
        if name in ("Dataset", "DMatrix", "QuantileDMatrix", "Pool", "TensorDataset"):
            answer = use.args[1] if len(use.args) > 1 else use.named.get("label")
            supervise(walk, use.node, use.first or use.named.get("data"), answer)
        if name == "DataFrame" and use.named.keys() == {"index"} and flat(use.named["index"]).rows:
            return Value(flat(use.named["index"]).rows, columns=frozenset())
        return Value(made=name, attrs=attrs, call=use.node)
    if name in _SET.converts and use.first is not None and use.first.rows:
        return keeping(use.first, like(use.first, *given[1:]), "reads", "single", "centred", "index")
    found = flat(*given)
    if not found.rows and not found.learned:
        reads = bool(_RE.reads.match(name))
        if reads or isinstance(walk.script.parents.get(use.node), ast.Assign):
            item = outside_rows(walk, use.node, file_name_in(walk, use), file=reads)
            item.whole = bool(_RE.tables.match(name))
            known = use.first is not None and isinstance(use.first.const, str)
            item.single = not known and bool(_RE.one_sample.search(use.dotted))
            return item
        return Value(made=name)
    out = derived(*given)
    if name == "sliding_window_view" or _RE.windows.search(name):
        out.series |= {use.node}
    if name in _SET.row_by_row and given:
        out.reads = frozenset().union(*(item.reads for item in given))
        return keeping(use.first or given[0], out, "columns", "whole", "dropped", "place")
    return out


@library("cv")
def cross_validate_trees(walk: Walk, use: Use) -> Value | None:
    """`lgb.cv(params, data)`."""
    if use.dotted not in ("lightgbm.cv", "xgboost.cv"):
        return None
    for item in use.given[1:2] or use.given:
        divide(walk, item, use.node, "cv", use.node)
    return Value()


@library("hstack", "column_stack", "concatenate", "concat")
def side_by_side(walk: Walk, use: Use) -> Value | None:
    """`np.hstack([X, df[more].to_numpy()])`: the columns that are known by name are still among them."""
    operand = use.first.items if use.first is not None else None
    axis = constant(walk, walk.values.argument(use.node, "axis", 1), use.scope)
    if use.name.startswith("concat") and axis not in (1, -1, "columns"):
        return _below_one_another(operand or [])
    named = [item for item in operand or () if item.columns]
    if not named or any(item.whole for item in operand or ()):
        return None
    out = derived(use.first)
    out.columns = frozenset().union(*(item.columns or () for item in named))
    out.attrs = {k: v for item in named for k, v in item.attrs.items() if k[:1] == "["}
    out.place = named[-1].place
    return out


def _below_one_another(tables: list[Value]) -> Value | None:
    """`pd.concat([train, test])`: what is still in every table is in the whole."""
    if not tables or not all(one.whole for one in tables):
        return None
    out = derived(*(bare(one) for one in tables))
    out.whole, out.dropped = True, frozenset().union(*(one.dropped for one in tables))
    for one in tables:
        out.attrs.update({k: either(out.attrs.get(k), v) for k, v in one.attrs.items() if k[:1] == "["})
    return out


@method("isin", "is_in")
@library("isin", "in1d")
def is_in(_walk: Walk, use: Use) -> Value:
    out = derived(use.base, *use.args)
    out.cut = ("isin", short(use.node), "in")
    return out


@method(*_SET.random)
@library(*_SET.random)
def by_chance(_walk: Walk, use: Use) -> Value | None:
    return Value(made=use.name) if not flat(use.base, *use.given).rows else None


@method(*_SET.orders)
@library(*_SET.orders)
def ordered(_walk: Walk, use: Use) -> Value | None:
    """`permutation(n)`, `arange(n)`; `shuffle(rows)` in place."""
    if use.name == "shuffle" and flat(use.base).rows:
        return use.base  # `ds.shuffle(1000)`
    if use.name == "shuffle" and use.first is not None:
        use.first.order = True
        return Value(const=None)
    return Value(order=True, made=use.name) if not flat(use.base, *use.given).rows else None


@method(*_SET.of_the_past, *_SET.running)
def of_the_past(walk: Walk, use: Use) -> Value | None:
    """Of earlier or later rows; what is running, as `cumsum`, holds each row's own value too."""
    base = use.base
    if not flat(base).rows:
        return None
    out = derived(base)
    out.series |= {use.node}
    out.made = "rolling" if use.name in ("rolling", "ewm", "expanding") else base.made
    if use.name in _SET.running and base.made != "col":
        out.made = "cumsum"
    closed = constant(walk, walk.values.argument(use.node, "closed"), use.scope)
    by = constant(walk, walk.values.argument(use.node, "periods", 0), use.scope)
    ahead = use.name == "shift" and isinstance(by, int | float) and by < 0
    out.columns = None if ahead else base.columns
    if (use.name in ("shift", "lag") and not ahead) or closed == "left":
        out.attrs[OTHER_ROWS] = Value()
    else:
        out.reads = base.reads
    return out


@library("merge", "merge_asof")
def merge_tables(_walk: Walk, use: Use) -> Value | None:
    """`pd.merge(left, right)` has the rows of the first."""
    given = [*use.args, *(use.named[side] for side in ("left", "right") if side in use.named)]
    return keep_rows(given[0], given[1:]) if given and not flat(use.base).rows else None


@method(*_SET.keeps_rows)
def keep_method(walk: Walk, use: Use) -> Value:
    out = keep_rows(use.base, use.given)
    same = (one for one in use.args if one.columns == use.base.columns)
    means = {s for s in flat(*same).stats if s.kind == "mean" and all_of(use.base.rows) & s.rows}
    if use.name in ("fillna", "fill_null") and means:
        rows = frozenset().union(*(s.rows for s in means))
        out.learned |= {learned_from(walk, use.node, "a mean to fill gaps with", "fit", rows)}
    if use.name in ("fillna", "fill_null", "clip") and use.base.series:
        out.reads = use.base.reads
    return out


@method("pipe", "map", "map_rows", "imap", "imap_unordered")
def map_rows(walk: Walk, use: Use) -> Value | None:
    """`table.pipe(f)`, `ds.map(f)`, `column.map(table)`, `pool.map(f, files)`."""
    first = use.first
    if first is None or first.function is None:
        if use.name != "map":
            return None
        out = keep_rows(use.base, use.given)
        if isinstance(use.node.args[0] if use.node.args else None, ast.Dict):
            out.reads = use.base.reads  # each row's own value under another name
        return out
    row = derived(use.base)
    row.single = True
    return keep_rows(use.base, [call_value(walk, first, [row, *use.args[1:]], {})])


@method("assign")
def assign_columns(walk: Walk, use: Use) -> Value:
    """`df.assign(rate=...)`, polars' `with_columns(rate=...)`: new columns by name."""
    out = keep_rows(use.base, use.args)
    for name, given in use.named.items():
        item = call_value(walk, given, [use.base], {}) if given.function is not None else given
        set_column(walk, out, name, item, use.node, walk.values.argument(use.node, name))
    return out


@method("unique")
@library("unique")
def distinct(walk: Walk, use: Use) -> Value | None:
    """`df["patient"].unique()`: one each."""
    item = use.base if use.base.rows else use.first
    if item is None or not item.rows:
        return None
    out = derived(item)
    out.rows = frozenset(grouped_rows(walk, rows, use.node) for rows in item.rows)
    return out


@method("pop")
def pop_column(walk: Walk, use: Use) -> Value | None:
    key = constant(walk, use.node.args[0], use.scope) if use.node.args else None
    if not isinstance(key, str) or not use.base.rows:
        return None
    out = column_value(use.base, key)
    drop_column(use.base, key)
    return out


@method("factorize")
@library("factorize", "get_dummies")
def number_categories(walk: Walk, use: Use) -> Value | None:
    """Categories numbered by the rows given: `pd.factorize(df[c])`, `pd.get_dummies(df)`."""
    item = use.first if use.first is not None and not use.base.rows else use.base
    if not flat(item).rows:
        return None
    code(walk, use.node, use.name, item)
    return like(item) if walk.values.argument(use.node, "columns") is not None else derived(item)


@library("col")
def polars_column(_walk: Walk, use: Use) -> Value | None:
    if not use.dotted.startswith("polars"):
        return None
    text = use.args[0].const if use.args else None
    columns = frozenset((text,)) if isinstance(text, str) else None
    return Value(frozenset((DEFERRED,)), made="col", columns=columns, reads=columns or frozenset())


def file_name_in(walk: Walk, use: Use) -> str:
    first = use.args[0] if use.args else None
    first = first.attrs.get("0") if first is not None and first.made == "open" else first
    if first is not None and isinstance(first.const, str):
        return str(first.const)
    given = next(iter(arguments_of(use.node)), None)
    if given is None:
        return ""
    found = walk.values.text(given)
    texts = [n for n in ast.walk(given) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    last = max(texts, key=lambda n: (n.lineno, n.col_offset), default=None)  # `Path("in") / "train.csv"`
    return found if found is not None else str(last.value) if last is not None else ""


@method("transform")
def transform_or_aggregate(walk: Walk, use: Use) -> Value:
    """`scaler.transform(X)`, `grouped.transform("mean")`."""
    return transform(walk, use) or aggregate(walk, use)
