"""Which calls set rows of validation apart, and which take columns out? Splits, folds, samples, drops."""

from __future__ import annotations

import ast

from memory_service.review.flow_learning import PICKS, FlowLearning, classes_within
from memory_service.review.flow_rows import Use, short
from memory_service.review.flow_values import Value, derived, flat
from memory_service.review.flow_words import FOLD_COLUMN, SPLITTER_NAMES, SPLITTERS
from memory_service.review.script import last_name

__all__ = ["FlowDividing"]

_PARTS = ("train", "valid", "part")


class FlowDividing(FlowLearning):
    """Divisions of one run."""

    def split_arrays(self, use: Use) -> Value:
        """`train_test_split(X, y)`: two parts of each."""
        arrays = [*use.args, *(v for k, v in use.named.items() if k in ("X", "y", "arrays"))]
        items: list[Value] = []
        if len(arrays) > 1:
            self.feed(use.node, arrays[0], arrays[1], final=False)
        for held in arrays:
            self.divide(held, use.node, use.name, use.node)
            for part in ("train", "valid"):
                item = self.part(held, use.node, part)
                item.index = (use.node, part)
                items.append(item)
        return Value(items=items)

    def split_data_set(self, use: Use) -> Value | None:
        """A method of a data set: `ds.train_test_split(test_size=0.1)`."""
        if not flat(use.base).rows:
            return None
        self.divide(use.base, use.node, use.name, use.node)
        parts = {
            name: self.part(use.base, use.node, part)
            for name, part in (("train", "train"), ("test", "valid"))
        }
        return Value(keys=parts, made="parts")

    def random_split(self, use: Use) -> Value | None:
        if use.first is None:
            return None
        self.divide(use.first, use.node, use.name, use.node)
        lengths = use.args[1].items if len(use.args) > 1 else use.named.get("lengths", Value()).items
        said = [_PARTS[min(at, 2)] for at in range(len(lengths) if lengths is not None else 2)]
        return Value(items=[self.part(use.first, use.node, part) for part in said])

    def scored(self, use: Use) -> Value | None:
        """`cross_val_score(model, X, y)`."""
        rest = use.args[1:3] + [v for k, v in use.named.items() if k in ("X", "y")]
        if len(rest) > 1 and not PICKS.intersection(classes_within(use.args[0] if use.args else Value())):
            self.feed(use.node, rest[0], rest[1])
        for held in rest:
            self.divide(held, use.node, use.name, use.node)
        return derived(*rest) if rest else None

    def folds(self, use: Use) -> Value | None:
        """`splitter.split(X, y)`: positions of both parts, fold by fold."""
        base, node = use.base, use.node
        if not SPLITTERS.search(base.made):
            named = last_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            if base.made or base.rows or base.dotted or not use.given or not SPLITTER_NAMES.search(named):
                return None
        for at, held in enumerate(use.given):
            if at < 2 or not flat(held).rows:
                self.divide(held, node, base.made, base.call)
        return Value(element=Value(items=[Value(index=(node, part)) for part in ("train", "valid")]))

    def sampled(self, use: Use) -> Value | None:
        """`df.sample(frac=0.8)`: some rows; with `frac=1` all in another order."""
        if not use.base.rows:
            return None
        share = self.const(self.values.argument(use.node, "frac", 1), use.scope)
        if isinstance(share, int | float) and 0 < share < 1:
            return self.part(use.base, use.node, "train")
        return use.base

    def dropped(self, use: Use) -> Value | None:
        """`df.drop(train.index)`: the other rows."""
        if not use.base.rows and use.base.made != "columns":
            return None
        index = use.first.index if use.first is not None else None
        if index is None:
            return self.without_columns(use)
        self.divide(use.base, index[0], "sample")
        return self.part(use.base, index[0], "valid")

    def without_columns(self, use: Use) -> Value | None:
        """`df.drop(columns=["id"])`, also in place; `df.columns.drop("id")`."""
        values = self.values
        axis = self.const(values.argument(use.node, "axis", 1), use.scope)
        given = values.argument(use.node, "columns") or values.argument(use.node, "labels", 0)
        names = self.listed(given, use.scope)
        rest = [a.const for a in use.args[1:]]
        if names is not None:  # polars: drop("id", "price")
            names |= {one for one in rest if isinstance(one, str)}
        if use.base.made == "columns":
            return self.fewer_names(use)
        if axis in (0, "index") or values.argument(use.node, "index") is not None:
            return None
        out = self.without(use.base, names or frozenset())
        out.whole, out.place = out.whole and names is not None, use.node
        if self.const(values.argument(use.node, "inplace"), use.scope) is True and names is not None:
            for name in names:
                self.lose(use.base, name)
        return out

    def fewer_names(self, use: Use) -> Value | None:
        """`df.columns.drop("id")`, `.difference([...])`; `.remove("id")` in place."""
        if use.base.made != "columns":
            return None
        said = self.listed(use.node.args[0] if use.node.args else None, use.scope)
        known = use.base.names
        names = None
        if known is not None and said is not None:
            names = (known[0] - said if known[0] is not None else None, known[1] | said)
        if use.name in ("remove", "discard"):
            use.base.names = names
            return Value(const=None)
        return Value(use.base.rows, made="columns", names=names)

    def taken(self, use: Use) -> Value | None:
        """`ds.take(n)`, `ds.skip(n)`, `X.take(rows)`."""
        if not use.base.rows or use.first is None:
            return None
        if use.first.index is not None:
            self.divide(use.base, use.first.index[0], "positions")
            return self.part(use.base, *use.first.index)
        return self.cut(
            use.base, ("take", short(use.node.args[0]) if use.node.args else "", use.name), use.node
        )

    def subset(self, use: Use) -> Value | None:
        """`Subset(ds, rows)`."""
        if len(use.args) < 2:
            return None
        index = use.args[1].index
        if index is None:
            return derived(use.args[0])
        self.divide(use.args[0], index[0], "positions")
        return self.part(use.args[0], *index)

    def sampler(self, use: Use) -> Value | None:
        return Value(made=use.name, index=use.first.index) if use.first is not None else None

    def loader(self, use: Use) -> Value | None:
        """`DataLoader(ds, sampler=...)`: a sampler of some rows divides."""
        if use.first is None:
            return None
        sampler = use.named.get("sampler")
        if sampler is not None and sampler.index is not None:
            self.divide(use.first, sampler.index[0], "positions")
        attrs = {"dataset": use.first, "batches": derived(use.first)}
        return Value(made=use.name, element=use.first.element, attrs=attrs)

    def queried(self, use: Use) -> Value | None:
        """`df.query("fold != 0")`."""
        said = self.const(use.node.args[0], use.scope) if use.node.args else None
        if not isinstance(said, str) or not use.base.rows or len(said) > 300:
            return None
        try:
            test: ast.AST = ast.parse(said.replace("@", ""), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if not isinstance(test, ast.Compare):
            return None
        op = type(test.ops[0]).__name__
        if FOLD_COLUMN.match(last_name(test.left)):
            self.divide(use.base, use.node, "positions")
            return self.part(use.base, use.node, op)
        return self.cut(use.base, ("mask", short(test.left), short(test.comparators[0]), op), use.node)
