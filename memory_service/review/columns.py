"""Which columns of a table does an expression keep? Lists by name, all but some, selections by type."""

from __future__ import annotations

import ast
import re

from memory_service.review.facts import Facts
from memory_service.review.frames import Frames, column_of
from memory_service.review.script import last_name, words_in

__all__ = ["LATER", "columns_kept", "core_of", "names_listed"]

LATER = re.compile(
    r"(^|_)(test|valid|val|va|vl|infer|inference|submission|sub|pred|new|holdout|dev|unseen|future|score|"
    r"fresh|today|week)(_|\d|$)|^(x|X)(te|va|_te|_va)$|^te(_|\d|$)|^va$",
    re.IGNORECASE,
)


def core_of(node: ast.AST) -> ast.AST:
    """Without conversions behind it: `.values`, `.to_numpy()`, `.astype(...)`, `.fillna(0)`."""
    while True:
        if isinstance(node, ast.Attribute) and node.attr == "values":
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in (
            "to_numpy", "astype", "copy", "fillna", "reset_index", "float", "to", "cuda", "toarray", "tocsr"
        ):  # fmt: skip
            node = node.func.value
        elif isinstance(node, ast.Subscript) and _picks_rows(node):
            node = node.value.value  # type: ignore[attr-defined]
        else:
            return node


def _picks_rows(node: ast.Subscript) -> bool:
    """`df.iloc[rows]`, `df.loc[mask]`: every column stays."""
    return (
        isinstance(node.value, ast.Attribute)
        and node.value.attr in ("iloc", "loc")
        and not isinstance(node.slice, ast.Tuple)
    )


def columns_kept(
    facts: Facts, node: ast.AST, place: ast.AST, deep: int = 0
) -> tuple[set[str] | None, set[str]] | None:
    """(columns named, columns left out of all); None where it cannot be told."""
    values = facts.values
    if deep > 4:
        return None
    if isinstance(node, ast.Name):
        return (None, set()) if deep == 0 and _is_table(facts, node) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "drop":
        if values.one(values.argument(node, "axis", 1)) in (0, "index"):
            return None
        given = values.argument(node, "columns") or values.argument(node, "labels", 0)
        dropped = names_listed(facts, given)
        if dropped is not None and len(node.args) > 1:  # polars: drop("id", "price")
            dropped |= {text for other in node.args[1:] if (text := values.text(other))}
        inner = core_of(node.func.value)
        if dropped is None:
            return None
        if isinstance(inner, ast.Name):
            return None, dropped
        before = columns_kept(facts, inner, place, deep + 1)
        return (
            None
            if before is None
            else (before[0] - dropped if before[0] is not None else None, before[1] | dropped)
        )
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr == "select_dtypes" or _selects_numbers(node))
    ):
        if re.search(r"exclude", " ".join(k.arg or "" for k in node.keywords)):
            return None
        if not _is_number(facts):
            return None  # the target may be text, which a selection of numbers leaves out
        inner = core_of(node.func.value)
        return (None, set()) if isinstance(inner, ast.Name) else columns_kept(facts, inner, place, deep + 1)
    if isinstance(node, ast.Subscript):
        inner = node.slice
        if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            inner = inner.elts[1]
        listed = names_listed(facts, inner)
        if listed is not None and not isinstance(inner, ast.Constant):
            return listed, set()
        return _all_but(facts, inner, 0)
    return None


def _selects_numbers(node: ast.Call) -> bool:
    """polars' `select(cs.numeric())`."""
    return (
        last_name(node.func) == "select"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Call)
        and last_name(node.args[0].func) in ("numeric", "float")
    )


_NUMBERS = re.compile(
    r"regressor|regression|mean_squared|mean_absolute|r2_score|rmse|mse_?loss|l1_?loss|smooth_l1|huber|"
    r"binary_cross_?entropy|bceloss|bcewithlogits"
)


def _is_number(facts: Facts) -> bool:
    """Whether the target is a number for sure: by the loss or metric, or by how its column is made."""
    if _NUMBERS.search(facts.script.text.replace("logisticregression", "")):
        return True
    targets = Frames(facts).targets
    return any(
        column_of(facts, target) in targets
        and re.search(r"'astype'|'int'|'float'|Compare|BinOp|'log1p'|'log'", ast.dump(node.value)[:3000])
        for node in facts.script.all(ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
    )


def _all_but(facts: Facts, node: ast.AST, deep: int) -> tuple[set[str] | None, set[str]] | None:
    """A list of columns made of all columns but some: `[c for c in df.columns if c not in DROP]`."""
    if deep > 4:
        return None
    if isinstance(node, ast.Name):
        sources = facts.values.assigned(node.id, node)
        removed = _removed(facts, node.id)
        if len(sources) != 1 or removed is None:
            return None
        kept = _all_but(facts, sources[0], deep + 1)
        return None if kept is None else (kept[0], kept[1] | removed)
    if isinstance(node, ast.ListComp) and len(node.generators) == 1 and isinstance(node.elt, ast.Name):
        return _filtered(facts, node.generators[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):  # set(df.columns) - {"id"}
        kept, gone = _all_but(facts, node.left, deep + 1), _set_of(facts, node.right)
        return None if kept is None or gone is None else (kept[0], kept[1] | gone)
    if isinstance(node, ast.Attribute) and node.attr == "columns":
        kept_in_self = facts.values.sources(node) if last_name(node.value) == "self" else []
        if kept_in_self:  # a list that the object keeps, no table's columns
            return _all_but(facts, kept_in_self[0], deep + 1) if len(kept_in_self) == 1 else None
        inner = core_of(node.value)
        if isinstance(inner, ast.Name):
            return None if LATER.search(inner.id) else (None, set())
        return columns_kept(facts, inner, node, 1)
    if isinstance(node, ast.Call) and last_name(node.func) in ("list", "set", "tolist", "sorted", "to_list"):
        inner_node = (
            node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
        )
        return _all_but(facts, inner_node, deep + 1) if inner_node is not None else None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("drop", "difference")
        and _is_columns(node.func.value)
    ):
        listed = names_listed(facts, node.args[0]) if node.args else None
        return None if listed is None else (None, listed)
    return None


def _set_of(facts: Facts, node: ast.AST) -> set[str] | None:
    """`{"id"}`, `set(DROP)`."""
    inner = (
        node.args[0] if isinstance(node, ast.Call) and last_name(node.func) == "set" and node.args else node
    )
    return names_listed(facts, inner)


def _filtered(facts: Facts, over: ast.comprehension) -> tuple[None, set[str]] | None:
    """`for c in df.columns if c not in DROP and c != "id"`: the columns left out."""
    if not _is_columns(over.iter) or any(LATER.search(w) for w in words_in(over.iter)):
        return None
    gone: set[str] = set()
    tests = [
        part
        for test in over.ifs
        for part in (test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test])
    ]
    for test in tests:
        if not isinstance(test, ast.Compare):
            return None
        if isinstance(test.left, ast.Name) and isinstance(test.ops[0], ast.NotIn | ast.NotEq):
            listed = names_listed(facts, test.comparators[0])
            if listed is None:
                return None
            gone |= listed
        elif "dtype" not in words_in(test):
            return None
    return None, gone


def _is_columns(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return (isinstance(node, ast.Attribute) and node.attr == "columns") or (
        isinstance(node, ast.Name) and node.id in ("df", "train", "data", "train_df")
    )


def _removed(facts: Facts, name: str) -> set[str] | None:
    """Columns taken out of a list by `.remove("id")`; None where it is not known which."""
    out: set[str] = set()
    if any(isinstance(n.target, ast.Name) and n.target.id == name for n in facts.script.all(ast.AugAssign)):
        return None
    for call in facts.script.called("remove", "pop", "discard"):
        if isinstance(call.func, ast.Attribute) and last_name(call.func.value) == name:
            listed = names_listed(facts, call.args[0]) if call.args and call.func.attr == "remove" else None
            if listed is None:
                return None
            out |= listed
    return out


def names_listed(facts: Facts, node: ast.AST | None) -> set[str] | None:
    found = facts.values.one(node)
    if isinstance(found, str):
        return {found}
    if isinstance(found, list) and all(isinstance(c, str) for c in found):
        return set(found)
    return None


def _is_table(facts: Facts, node: ast.Name) -> bool:
    """A name that holds a whole table as it was read."""
    sources = facts.values.assigned(node.id, node)
    return bool(sources) and all(
        isinstance(s, ast.Call) and last_name(s.func).startswith("read_") for s in sources
    )
