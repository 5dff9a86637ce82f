"""What is learned from rows: fitted scalers, means by group, codes of categories."""

from __future__ import annotations

import ast

from memory_service.review.interpretation import vocabulary
from memory_service.review.interpretation.evaluation import library, method
from memory_service.review.interpretation.rows import apply_learned, divide, learned_from, part_of
from memory_service.review.interpretation.selection import (
    choose_by,
    columns_by,
    columns_of_kind,
    names_in,
    pick_columns,
    set_column,
    supervise,
)
from memory_service.review.interpretation.state import Coding, Use, Walk
from memory_service.review.interpretation.value import DEFERRED, ColumnNames, Value, bare, derived, flat, like

PICKS = frozenset(("ColumnTransformer", "make_column_transformer", "DataFrameMapper"))
"""They take their own columns out of a whole table."""
MOST_WITHIN = 4


def learner_in(item: Value) -> str:
    """The class that learns; of a pipeline without a model the one within that does."""
    if item.made in vocabulary.JOINS:
        inside = classes_within(item)
        if any(vocabulary.PREDICTS.search(name) for name in inside):
            return ""
        return next((n for n in inside if vocabulary.LEARNS.match(n) or vocabulary.BY_TARGET.match(n)), "")
    known = vocabulary.LEARNS.match(item.made) or vocabulary.BY_TARGET.match(item.made)
    return item.made if known or vocabulary.RESAMPLES.search(item.made) else ""


@method(*vocabulary.FITS)
def fit(walk: Walk, use: Use) -> Value | None:
    """`scaler.fit(X)`, `fit_transform`, `fit_resample`; of a model what divides rows by itself."""
    first, base, name = use.first, use.base, use.name
    if first is None:
        return None
    what = learner_in(base)
    if base.made in vocabulary.CODES or any(n in vocabulary.CODES for n in classes_within(base)):
        code(walk, use.node, base.made, first, base)
    if not what:
        supervised = columns_taken(walk, first, base) if PICKS.intersection(classes_within(base)) else first
        supervise(walk, use.node, supervised, use.args[1] if len(use.args) > 1 else use.named.get("y"))
        if "validation_split" in use.named or vocabulary.SEARCHES.search(base.made):
            divide(walk, first, use.node, "fit", base.call)
        return derived(first) if name in ("fit_transform", "fit_resample") else base
    kind = "target" if vocabulary.BY_TARGET.match(what) else "fit"
    learned = learned_from(walk, use.node, what, kind, flat(first).rows)
    if base.made not in vocabulary.CODES and kind == "fit":
        walk.fitted.append(Coding(use.node, what, flat(first).rows, not walk.unsure, base, None))
    base.state = frozenset((learned,))
    if name == "adapt":
        walk.adapted.append(learned)
        return base
    apply_learned(walk, base.state, first)
    if name in ("fit", "partial_fit"):
        return base
    out = columns_out(walk, first, base)
    out.learned |= {learned}
    if not vocabulary.RESAMPLES.search(what):
        return out
    answer = like(use.args[1]) if len(use.args) > 1 else derived(first)
    answer.reads = use.args[1].reads if len(use.args) > 1 else frozenset()
    answer.learned |= {learned}
    return Value(items=[out, answer])


def columns_out(walk: Walk, given: Value, by: Value) -> Value:
    """What a transformer makes of rows, with the columns that are known to be in it still."""
    if by.made in vocabulary.SAME_COLUMNS or vocabulary.RESAMPLES.search(by.made):
        return like(given)
    taken = columns_taken(walk, given, by)
    return like(taken) if taken is not None else derived(given)


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
    names: ColumnNames | None = None
    for part in parts or ():
        last = part.items[-1] if part.items and len(part.items) > 1 else None
        stated = names_in(last) if last is not None else None
        if last is not None and isinstance(last.const, str):
            stated = ColumnNames(frozenset((last.const,)))
        if stated is None:
            return None
        names = stated if names is None else names.together_with(stated)
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


@library(*vocabulary.SCALING)
def scale(walk: Walk, use: Use) -> Value | None:
    """`zscore(X)`, `scale(X)`."""
    rows = flat(use.first).rows
    if use.first is None or not rows or use.first.single:
        return None
    out = derived(use.first)
    out.learned |= {learned_from(walk, use.node, use.name, "fit", frozenset(rows))}
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
        chooser = use.args[0] if len(use.args) == 1 else Value(items=use.args)
        if (picked := columns_by(walk, base, chooser, use.node)) is not None:
            return picked
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
    out = keep_rows(base, [operand for operand in made if not _alias_of(operand)])
    for operand in made:
        if name := _alias_of(operand):
            set_column(walk, out, name, operand, use.node)
    for name, operand in use.named.items():
        set_column(walk, out, name, operand, use.node, walk.values.argument(use.node, name))
    out.whole = out.whole and use.name != "select"
    own = flat(base).rows
    for operand in [h for h in (out, *out.attrs.values()) if h.learned or h.stats]:
        operand.learned = frozenset(
            learned_from(walk, one.place, one.what, one.kind, own) if DEFERRED in one.rows else one
            for one in operand.learned
        )
        operand.stats = frozenset(s for s in operand.stats if DEFERRED not in s.rows)
    return out


def keep_rows(base: Value, others: list[Value]) -> Value:
    """Rows stay those of the base, whatever is joined to them."""
    out = like(base, *others)
    own = flat(bare(base)).rows
    if own:
        out.rows = frozenset(own)
    out.columns, out.centred, out.single = base.columns, base.centred, base.single
    return out


def code(walk: Walk, node: ast.AST, what: str, item: Value, coder: Value | None = None) -> None:
    """Categories are numbered here, by these rows."""
    rows = flat(item).rows
    columns = (item.element if item.element is not None else item).columns
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if columns is None and isinstance(given, ast.Subscript) and isinstance(given.slice, ast.Name):
        columns = frozenset((f"[{given.slice.id}]",))  # of a loop over columns
    walk.codings.append(Coding(node, what, rows, not walk.unsure, coder, columns, walk.present > 0))


def _alias_of(item: Value) -> str:
    """polars: the column of its own that an expression goes into; "" for none."""
    names = item.names.named if item.made == "col" and item.names is not None else None
    return next(iter(names or ()), "")


def classes_within(item: Value, deep: int = 0) -> list[str]:
    out = [item.made] if item.made else []
    if deep < 6:
        for part in (*(item.items or ()), *item.attrs.values()):
            out += classes_within(part, deep + 1)
    return out
