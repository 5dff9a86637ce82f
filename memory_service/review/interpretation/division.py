"""Calls that set validation rows apart or take columns out: splits, folds, samples, drops."""

from __future__ import annotations

from memory_service.review.interpretation.evaluation import constant, library, method
from memory_service.review.interpretation.learning import PICKS, classes_within
from memory_service.review.interpretation.rows import divide, part_of, short
from memory_service.review.interpretation.selection import (
    choose_by,
    drop_column,
    listed_columns,
    supervise,
    without_columns,
)
from memory_service.review.interpretation.state import Use, Walk
from memory_service.review.interpretation.value import Value, derived, flat
from memory_service.review.interpretation.vocabulary import SCORING, SPLITTER_NAMES, SPLITTERS
from memory_service.review.source.nodes import receiver_name

_PARTS = ("train", "valid", "part")


@library("train_test_split", "temporal_train_test_split")
def split_arrays(walk: Walk, use: Use) -> Value:
    """`train_test_split(X, y)`: two parts of each."""
    arrays = [*use.args, *(v for k, v in use.named.items() if k in ("X", "y", "arrays"))]
    items: list[Value] = []
    walk.answers += [use.named["stratify"]] if "stratify" in use.named else []
    if len(arrays) > 1:
        supervise(walk, use.node, arrays[0], arrays[1], final=False)
    for operand in arrays:
        divide(walk, operand, use.node, use.name, use.node)
        for part in ("train", "valid"):
            item = part_of(walk, operand, use.node, part)
            item.index = (use.node, part)
            items.append(item)
    return Value(items=items)


@method("train_test_split", "random_split")
def split_data_set(walk: Walk, use: Use) -> Value | None:
    """A method of a data set: `ds.train_test_split(test_size=0.1)`."""
    if not flat(use.base).rows:
        return None
    divide(walk, use.base, use.node, use.name, use.node)
    train, valid = (part_of(walk, use.base, use.node, part) for part in ("train", "valid"))
    return Value(keys={"train": train, "test": valid}, made="parts")


@library("random_split")
def random_split(walk: Walk, use: Use) -> Value | None:
    if use.first is None:
        return None
    divide(walk, use.first, use.node, use.name, use.node)
    lengths = use.args[1].items if len(use.args) > 1 else use.named.get("lengths", Value()).items
    stated = [_PARTS[min(at, 2)] for at in range(len(lengths) if lengths is not None else 2)]
    return Value(items=[part_of(walk, use.first, use.node, part) for part in stated])


@library(*SCORING)
def cross_validate(walk: Walk, use: Use) -> Value | None:
    """`cross_val_score(model, X, y)`."""
    rest = use.args[1:3] + [v for k, v in use.named.items() if k in ("X", "y")]
    if len(rest) > 1 and not PICKS.intersection(classes_within(use.args[0] if use.args else Value())):
        supervise(walk, use.node, rest[0], rest[1])
    for item in rest:
        divide(walk, item, use.node, use.name, use.node)
    return derived(*rest) if rest else None


@method("split")
def split_folds(walk: Walk, use: Use) -> Value | None:
    """`splitter.split(X, y)`: positions of both parts, fold by fold."""
    base, node = use.base, use.node
    if not SPLITTERS.search(base.made):
        named = SPLITTER_NAMES.search(receiver_name(node))
        if base.made or base.rows or base.dotted or not use.given or not named:
            return None
    walk.answers += use.given[1:2]
    for at, item in enumerate(use.given):
        if at < 2 or not flat(item).rows:
            divide(walk, item, node, base.made, base.call)
    return Value(element=Value(items=[Value(index=(node, part)) for part in ("train", "valid")]))


@method("sample")
def sample(walk: Walk, use: Use) -> Value | None:
    """`df.sample(frac=0.8)`: some rows; with `frac=1` all in another order."""
    if not use.base.rows:
        return None
    share = constant(walk, walk.values.argument(use.node, "frac", 1), use.scope)
    if isinstance(share, int | float) and 0 < share < 1:
        return part_of(walk, use.base, use.node, "train")
    return use.base


@method("drop")
def drop(walk: Walk, use: Use) -> Value | None:
    """`df.drop(train.index)`: the other rows."""
    if not use.base.rows and use.base.made != "columns":
        return None
    index = use.first.index if use.first is not None else None
    if index is None:
        return drop_columns(walk, use)
    divide(walk, use.base, index[0], "sample")
    return part_of(walk, use.base, index[0], "valid")


def drop_columns(walk: Walk, use: Use) -> Value | None:
    """`df.drop(columns=["id"])`, also in place; `df.columns.drop("id")`."""
    values = walk.values
    axis = constant(walk, values.argument(use.node, "axis", 1), use.scope)
    given = values.argument(use.node, "columns") or values.argument(use.node, "labels", 0)
    names = listed_columns(walk, given, use.scope)
    rest = [a.const for a in use.args[1:]]
    if names is not None:  # polars: drop("id", "price")
        names |= {one for one in rest if isinstance(one, str)}
    if use.base.made == "columns":
        return drop_names(walk, use)
    if axis in (0, "index") or values.argument(use.node, "index") is not None:
        return None
    out = without_columns(use.base, names or frozenset())
    out.whole, out.place = out.whole and names is not None, use.node
    if constant(walk, values.argument(use.node, "inplace"), use.scope) is True and names is not None:
        for name in names:
            drop_column(use.base, name)
    return out


@method("difference")
@method("remove")
@method("discard")
def drop_names(walk: Walk, use: Use) -> Value | None:
    """`df.columns.drop("id")`, `.difference([...])`; `.remove("id")` in place."""
    if use.base.made != "columns":
        return None
    stated = listed_columns(walk, use.node.args[0] if use.node.args else None, use.scope)
    known = use.base.names
    names = known.without(stated) if known is not None and stated is not None else None
    if use.name in ("remove", "discard"):
        use.base.names = names
        return Value(const=None)
    return Value(use.base.rows, made="columns", names=names)


@method("take", "skip")
def take(walk: Walk, use: Use) -> Value | None:
    """`ds.take(n)`, `ds.skip(n)`, `X.take(rows)`."""
    if not use.base.rows or use.first is None:
        return None
    if use.first.index is not None:
        divide(walk, use.base, use.first.index[0], "positions")
        return part_of(walk, use.base, *use.first.index)
    rows = short(use.node.args[0]) if use.node.args else ""
    return choose_by(walk, use.base, ("take", rows, use.name), use.node)


@library("Subset")
def subset(walk: Walk, use: Use) -> Value | None:
    """`Subset(ds, rows)`."""
    if len(use.args) < 2:
        return None
    index = use.args[1].index
    if index is None:
        return derived(use.args[0])
    divide(walk, use.args[0], index[0], "positions")
    return part_of(walk, use.args[0], *index)


@library("SubsetRandomSampler")
def sampler(_walk: Walk, use: Use) -> Value | None:
    return Value(made=use.name, index=use.first.index) if use.first is not None else None


@library("DataLoader")
def load_batches(walk: Walk, use: Use) -> Value | None:
    """`DataLoader(ds, sampler=...)`: a sampler of some rows divides."""
    data = use.first or use.named.get("dataset")
    if data is None:
        return None
    walk.loaders.setdefault(use.node, []).append(data)
    sampler = use.named.get("sampler")
    if sampler is not None and sampler.index is not None:
        divide(walk, data, sampler.index[0], "positions")
    return Value(made=use.name, element=data.element, attrs={"dataset": data, "batches": derived(data)})
