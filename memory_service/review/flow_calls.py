"""What do calls of pandas, numpy, scikit-learn, torch and their like do with rows?"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from memory_service.review.flow_choosing import OTHER_ROWS
from memory_service.review.flow_collections import FlowCollections
from memory_service.review.flow_kinds import kind_of
from memory_service.review.flow_rows import Use, like, short
from memory_service.review.flow_values import DEFERRED, Value, derived, flat
from memory_service.review.flow_words import (
    CONVERTS,
    EMPTY,
    FITS,
    FOLD_COLUMN,
    HIGH,
    JOINS,
    KEEPS_ROWS,
    LOW,
    OF_THE_PAST,
    ONE_SAMPLE,
    ORDERS,
    RANDOM,
    READS,
    ROW_BY_ROW,
    RUNNING,
    SCALING,
    SCORING,
    TABLES,
)

__all__ = ["FlowCalls"]


class FlowCalls(FlowCollections):
    """Methods and functions that are not the file's own."""

    def method(self, use: Use) -> Value:
        """A method of what is no object of the file's own classes."""
        base = use.base
        called: Any = use.node.func
        if use.name == "append" and use.args and isinstance(called.value, ast.Subscript):
            self.listed_by_key(use)
        if base.items is not None or base.keys is not None or base.element is not None:
            found = self.of_collection(use)
            if found is not None:
                return found
        handler = _METHODS.get(use.name)
        found = handler(self, use) if handler is not None else None
        return found if found is not None else self._other_method(use)

    def library(self, use: Use) -> Value:
        """A function or class from outside the file."""
        handler = _LIBRARY.get(use.name)
        found = handler(self, use) if handler is not None else None
        return found if found is not None else self._other_function(use)

    def _other_method(self, use: Use) -> Value:
        base, name = use.base, use.name
        if base.made == "columns" and name in ("tolist", "to_list", "copy", "unique"):
            return Value(base.rows, made="columns", names=base.names)
        if base.made == "columns":
            return Value(base.rows, made="columns")
        if base.made and name in ("to", "cuda", "cpu", "compile", "eval", "train", "set_output"):
            return base
        found = flat(base, *use.given)
        if not (base.made or found.rows or found.stats or found.learned):
            return self.fresh(use.node, self._text_of(use)) if READS.match(name) else Value(made=name)
        out = like(base, *use.given)
        out.columns, out.cut, out.centred = base.columns, base.cut, base.centred
        if name in ROW_BY_ROW:
            out.reads = base.reads.union(*(held.reads for held in use.given))
        if base.rows and base.made in ("groupby", "rolling", "col"):
            out.made = base.made
        out.single = base.single
        return out

    def _other_function(self, use: Use) -> Value:
        name, given = use.name, use.given
        if use.dotted in ("lightgbm.cv", "xgboost.cv"):
            for held in given[1:2] or given:
                self.divide(held, use.node, "cv", use.node)
            return Value()
        if name in EMPTY:
            return Value(made=name)
        if name[:1].isupper() or name in JOINS:
            attrs = {str(at): held for at, held in enumerate(use.args)} | use.named
            self._fed_to(use)
            return Value(made=name, attrs=attrs, call=use.node)
        if name in CONVERTS and use.first is not None and use.first.rows:
            return self._converted(use.first, given[1:])
        found = flat(*given)
        if not found.rows and not found.learned:
            if READS.match(name) or isinstance(self.script.parents.get(use.node), ast.Assign):
                held = self.fresh(use.node, self._text_of(use), file=bool(READS.match(name)))
                held.whole = bool(TABLES.match(name))
                told = use.first is not None and isinstance(use.first.const, str)
                held.single = not told and bool(ONE_SAMPLE.search(use.dotted))
                return held
            return Value(made=name)
        out = derived(*given)
        if name in ROW_BY_ROW:
            out.reads = frozenset().union(*(held.reads for held in given))
            out.columns = use.first.columns if use.first is not None else None
        return out

    def _converted(self, held: Value, others: list[Value]) -> Value:
        """The same numbers as an array or a tensor."""
        out = like(held, *others)
        out.reads, out.single, out.centred, out.index = held.reads, held.single, held.centred, held.index
        return out

    def _side_by_side(self, use: Use) -> Value | None:
        """`np.hstack([X, df[more].to_numpy()])`: the columns that are known by name are still among them."""
        held = use.first.items if use.first is not None else None
        axis = self.const(self.values.argument(use.node, "axis", 1), use.scope)
        named = [item for item in held or () if item.columns]
        in_rows = use.name.startswith("concat") and axis not in (1, -1, "columns")
        if not named or in_rows or any(item.whole for item in held or ()):
            return None
        out = derived(use.first)
        out.columns = frozenset().union(*(item.columns or () for item in named))
        out.attrs = {k: v for item in named for k, v in item.attrs.items() if k[:1] == "["}
        out.place = named[-1].place
        return out

    def _fed_to(self, use: Use) -> None:
        """`lgb.Dataset(X, y)`, `TensorDataset(x, y)`: features beside answers."""
        if use.name in ("Dataset", "DMatrix", "QuantileDMatrix", "Pool", "TensorDataset"):
            answer = use.args[1] if len(use.args) > 1 else use.named.get("label")
            self.feed(use.node, use.first or use.named.get("data"), answer)

    def _is_in(self, use: Use) -> Value:
        if use.base.made == "columns":  # `df.columns.isin(["id"])`
            said = self.listed(use.node.args[0] if use.node.args else None, use.scope)
            names = (said, frozenset[str]()) if said else None
            return Value(use.base.rows, made="columns", names=names)
        out = derived(use.base, *use.args)
        out.cut = ("isin", short(use.node), "in")
        return out

    def _compares(self, use: Use) -> Value | None:
        """`df.fold.ne(0)`."""
        if use.first is None or not isinstance(use.node.func, ast.Attribute):
            return None
        out = derived(use.base, use.first)
        columns = use.base.columns or ()
        if any(FOLD_COLUMN.match(column) for column in columns):
            out.index = (use.node, use.name)
        else:
            out.cut = ("mask", short(use.node.func.value), short(use.node.args[0]), use.name)
        return out

    def _by_chance(self, use: Use) -> Value | None:
        return Value(made=use.name) if not flat(use.base, *use.given).rows else None

    def _ordered(self, use: Use) -> Value | None:
        """`permutation(n)`, `arange(n)`; `shuffle(rows)` in place."""
        if use.name == "shuffle" and flat(use.base).rows:
            return use.base  # `ds.shuffle(1000)`
        if use.name == "shuffle" and use.first is not None:
            use.first.order = True
            return Value(const=None)
        return Value(order=True, made=use.name) if not flat(use.base, *use.given).rows else None

    def _of_the_past(self, use: Use) -> Value | None:
        base = use.base
        if not flat(base).rows:
            return None
        out = derived(base)
        out.series |= {use.node}
        out.made = "rolling" if use.name in ("rolling", "ewm", "expanding") else base.made
        out.columns = base.columns
        closed = self.const(self.values.argument(use.node, "closed"), use.scope)
        if use.name in ("shift", "lag") or closed == "left":
            out.attrs[OTHER_ROWS] = Value()
        else:
            out.reads = base.reads
        return out

    def _running(self, use: Use) -> Value | None:
        """`df.groupby("shop")["sales"].cumsum()`: each row's own value is in it."""
        base = use.base
        if not flat(base).rows:
            return None
        out = derived(base)
        out.series |= {use.node}
        out.columns, out.reads = base.columns, base.reads
        out.made = base.made if base.made == "col" else "cumsum"
        return out

    def _kept(self, use: Use) -> Value:
        out = self.kept(use.base, use.given)
        if use.name in ("fillna", "fill_null", "clip") and use.base.series:
            out.reads = use.base.reads
        return out

    def _mapped(self, use: Use) -> Value | None:
        """`table.pipe(f)`, `ds.map(f)`, `column.map(table)`, `pool.map(f, files)`."""
        first = use.first
        if first is None or first.function is None:
            return self._looked_up(use) if use.name == "map" else None
        if len(use.args) > 1 and not flat(use.base).rows and flat(*use.args[1:]).rows:
            return self.each_mapped(use)
        if use.name == "pipe":
            return self.entered(first, [use.base, *use.args[1:]], use.named)
        row = derived(use.base)
        row.single = True
        return self.kept(use.base, [self.entered(first, [row, *use.args[1:]], {})])

    def _looked_up(self, use: Use) -> Value:
        """`column.map({0: "stayed", 1: "left"})`: each row's own value under another name."""
        out = self.kept(use.base, use.given)
        if isinstance(use.node.args[0] if use.node.args else None, ast.Dict):
            out.reads = use.base.reads
        return out

    def _assigned(self, use: Use) -> Value:
        """`df.assign(rate=...)`, polars' `with_columns(rate=...)`: new columns by name."""
        out = self.kept(use.base, use.args)
        for name, given in use.named.items():
            held = self.entered(given, [use.base], {}) if given.function is not None else given
            self.into_column(out, name, held, use.node, self.values.argument(use.node, name))
        return out

    def _alias(self, use: Use) -> Value | None:
        """polars: `expression.alias("rate")`."""
        text = use.args[0].const if use.args else None
        if DEFERRED not in use.base.rows or not isinstance(text, str):
            return None
        out = like(use.base)
        out.reads, out.made, out.names = use.base.reads, "col", (frozenset((text,)), frozenset())
        called: Any = use.node.func
        out.content = kind_of(called.value, self.values)
        return out

    def _distinct(self, use: Use) -> Value | None:
        """`df["patient"].unique()`: one each."""
        held = use.base if use.base.rows else use.first
        if held is None or not held.rows:
            return None
        out = derived(held)
        out.rows = frozenset(self.gathered_into(rows, use.node) for rows in held.rows)
        return out

    def _popped(self, use: Use) -> Value | None:
        key = self.const(use.node.args[0], use.scope) if use.node.args else None
        if not isinstance(key, str) or not use.base.rows:
            return None
        out = self.column(use.base, key)
        self.lose(use.base, key)
        return out

    def _head(self, use: Use) -> Value:
        return like(use.base)

    def _numbers(self, use: Use) -> Value | None:
        """Categories numbered by the rows given: `pd.factorize(df[c])`, `pd.get_dummies(df)`."""
        held = use.first if use.first is not None and not use.base.rows else use.base
        if not flat(held).rows:
            return None
        self.coded(use.node, use.name, held)
        out = derived(held)
        return Value(items=[out, derived(held)]) if use.name == "factorize" else out

    def _got_columns(self, use: Use) -> Value | None:
        """`df.get(["a", "b"])`, `df.reindex(columns=["a", "b"])`."""
        given = self.values.argument(use.node, "columns", 0 if use.name == "get" else None)
        names = self.listed(given, use.scope)
        return self.picked(use.base, (names, frozenset()), use.node) if use.base.rows and names else None

    def _polars_column(self, use: Use) -> Value | None:
        if not use.dotted.startswith("polars"):
            return None
        text = use.args[0].const if use.args else None
        columns = frozenset((text,)) if isinstance(text, str) else None
        return Value(frozenset((DEFERRED,)), made="col", columns=columns, reads=columns or frozenset())

    def _text_of(self, use: Use) -> str:
        """The name of the file that is read, as far as the text says."""
        if use.args and isinstance(use.args[0].const, str):
            return str(use.args[0].const)
        given = next(iter([*use.node.args, *(k.value for k in use.node.keywords)]), None)
        if given is None:
            return ""
        found = self.values.text(given)
        texts = [n.value for n in ast.walk(given) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        return found if found is not None else str(texts[-1]) if texts else ""


Handler = Callable[[Any, Use], Value | None]

_METHODS: dict[str, Handler] = {
    **dict.fromkeys(FITS, FlowCalls.fitted),
    **dict.fromkeys(("inverse_transform",), FlowCalls.transformed),
    **dict.fromkeys((*LOW, *HIGH), FlowCalls.reduced),
    **dict.fromkeys(OF_THE_PAST, FlowCalls._of_the_past),
    **dict.fromkeys(RUNNING, FlowCalls._running),
    **dict.fromkeys(KEEPS_ROWS, FlowCalls._kept),
    **dict.fromkeys(("groupby", "group_by", "groupby_dynamic"), FlowCalls.grouped),
    **dict.fromkeys(("agg", "aggregate", "describe", "sum", "apply"), FlowCalls.gathered),
    **dict.fromkeys(("with_columns", "select", "with_column", "filter"), FlowCalls.with_columns),
    **dict.fromkeys(("train_test_split", "random_split"), FlowCalls.split_data_set),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), FlowCalls._compares),
    **dict.fromkeys(("isin", "is_in"), FlowCalls._is_in),
    **dict.fromkeys(("take", "skip"), FlowCalls.taken),
    **dict.fromkeys(("head", "tail"), FlowCalls._head),
    **dict.fromkeys(("pipe", "map", "map_rows", "imap", "imap_unordered"), FlowCalls._mapped),
    **dict.fromkeys(RANDOM, FlowCalls._by_chance),
    **dict.fromkeys(ORDERS, FlowCalls._ordered),
    "transform": lambda self, use: self.transformed(use) or self.gathered(use),
    "split": FlowCalls.folds,
    "pivot_table": FlowCalls.pivoted,
    "over": FlowCalls.over,
    "unique": FlowCalls._distinct,
    "assign": FlowCalls._assigned,
    "alias": FlowCalls._alias,
    "sample": FlowCalls.sampled,
    "query": FlowCalls.queried,
    "pop": FlowCalls._popped,
    "drop": FlowCalls.dropped,
    "difference": FlowCalls.fewer_names,
    "remove": FlowCalls.fewer_names,
    "discard": FlowCalls.fewer_names,
    "get": FlowCalls._got_columns,
    "reindex": FlowCalls._got_columns,
    "select_dtypes": FlowCalls.of_kind,
    "factorize": FlowCalls._numbers,
}
_LIBRARY: dict[str, Handler] = {
    **dict.fromkeys(("train_test_split", "temporal_train_test_split"), FlowCalls.split_arrays),
    **dict.fromkeys(SCORING, FlowCalls.scored),
    **dict.fromkeys(SCALING, FlowCalls.scaled),
    **dict.fromkeys((*LOW, *HIGH), FlowCalls.reduced),
    **dict.fromkeys(("isin", "in1d"), FlowCalls._is_in),
    **dict.fromkeys(("where", "nonzero", "flatnonzero", "argwhere"), FlowCalls.positions_of),
    **dict.fromkeys(("factorize", "get_dummies"), FlowCalls._numbers),
    **dict.fromkeys(RANDOM, FlowCalls._by_chance),
    **dict.fromkeys(ORDERS, FlowCalls._ordered),
    **dict.fromkeys(("dict", "defaultdict", "SimpleNamespace", "OrderedDict"), FlowCalls.mapped_by_name),
    **dict.fromkeys(("clone", "deepcopy", "copy"), FlowCalls.cloned),
    **dict.fromkeys(
        ("tqdm", "trange", "reversed", "iter", "list", "tuple", "sorted", "set", "track", "progress_bar"),
        FlowCalls.copied,
    ),
    **dict.fromkeys(("hstack", "column_stack", "concatenate", "concat"), FlowCalls._side_by_side),
    "random_split": FlowCalls.random_split,
    "unique": FlowCalls._distinct,
    "Subset": FlowCalls.subset,
    "SubsetRandomSampler": FlowCalls.sampler,
    "DataLoader": FlowCalls.loader,
    "pivot_table": FlowCalls.pivoted,
    "partial": FlowCalls.bound,
    "col": FlowCalls._polars_column,
    "enumerate": FlowCalls.counted,
    "zip": FlowCalls.zipped,
    "next": FlowCalls.drawn,
    "range": FlowCalls.counted_up,
    "filter": FlowCalls.names_left,
    "getattr": FlowCalls.got,
    "map": FlowCalls.each_mapped,
}
