"""Columns that are what is to be predicted, by their names and by where they are handed."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from memory_service.review.constants.values import Values
from memory_service.review.source.nodes import is_call, last_name, pairs, without_methods

_LABELLED = frozenset(("train_test_split", "Dataset", "Pool", "DMatrix", "QuantileDMatrix"))
_SCORING = frozenset(("cross_val_score", "cross_validate", "cross_val_predict", "learning_curve"))
_TARGET_NAME = re.compile(
    r"^(y|ys|y_\w+|targets?|labels?|y\d?|Y|train_y|y_train|train_labels?|train_targets?)$"
)
_NO_COLUMNS = frozenset(("values", "T", "iloc", "loc", "data", "index", "array", "at", "flat"))
_TARGET_CONST = re.compile(r"^(target|label|y|dependent)(_?(col|column|name|var))?s?$", re.IGNORECASE)


class Targets:
    """Targets of one script."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.script = values.script

    @cached_property
    def targets(self) -> set[str]:
        """Columns that are what is to be predicted."""
        values, found = self.values, self._told_by_settings()
        for node in self.script.all(ast.Assign):
            for target, value in ((last_name(t), v) for t, v in pairs(node.targets, node.value)):
                if _TARGET_NAME.match(target):
                    found |= self._columns(value) or self._attribute_column(value)
                if _TARGET_CONST.match(target):
                    text = values.one(value)
                    found |= {text} if isinstance(text, str) else set()
        for call in self.script.calls:
            name = last_name(call.func)
            if (
                name in ("fit", "split", "train_test_split", "Dataset", "DMatrix", "Pool")
                and len(call.args) >= 2
            ):
                found |= self._columns(call.args[1]) or _attribute(call.args[1])
            if name in _SCORING and len(call.args) >= 3:
                found |= self._columns(call.args[2]) or _attribute(call.args[2])
            # `batches(table, table["price"])` of a `y`
            for function in self.script.functions.get(name, ())[:1]:
                names = [p.arg for p in function.args.args if p.arg not in ("self", "cls")]
                given = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
                for parameter, value in given:
                    if parameter is not None and _TARGET_NAME.match(parameter):
                        found |= self._columns(value)
            for keyword in call.keywords:
                if keyword.arg in ("stratify", "label") and name in _LABELLED:
                    found |= self._columns(keyword.value)
        return {name for name in found if name}

    def _told_by_settings(self) -> set[str]:
        """`target: str = "price"` of a dataclass."""
        told = [s for s in self.script.all(ast.AnnAssign) if _TARGET_CONST.match(last_name(s.target))]
        return {text for s in told if s.value is not None and (text := self.values.text(s.value))}

    def _attribute_column(self, node: ast.AST) -> set[str]:
        """`df.price` of a table whose columns are also read or written by name."""
        inner = node.value if isinstance(node, ast.Attribute) and node.attr == "values" else node
        inner = without_methods(inner, ("copy", "reset_index", "drop", "astype")) or inner
        found = _attribute(inner)
        base = inner.value if isinstance(inner, ast.Attribute) else None
        named = isinstance(base, ast.Name) and any(
            isinstance(n, ast.Call) and last_name(n.func).startswith("read_")
            for s in self.values.assigned(base.id, base)
            for n in ast.walk(s)
        )
        return found if named else set()

    @cached_property
    def origins(self) -> set[str]:
        """The targets, and columns of which a target is the logarithm or root."""
        found = set(self.targets)
        for node in self.script.all(ast.Assign):
            called = {last_name(n.func) for n in ast.walk(node.value) if isinstance(n, ast.Call)}
            if called & {"log1p", "log", "log10", "sqrt"} and any(
                column_of(self.values, target) in self.targets for target in node.targets
            ):
                found |= self._columns(node.value)
        return found

    def _columns(self, node: ast.AST) -> set[str]:
        """The one column that an expression is about."""
        out: set[str] = set()
        for n in ast.walk(node):
            column = column_of(self.values, n)
            if isinstance(n, ast.Call) and self.script.qualified(n.func) == "polars.col" and len(n.args) == 1:
                column = self.values.text(n.args[0])
            if column is not None:
                out.add(column)
        return out if len(out) == 1 else set()


def _attribute(node: ast.AST) -> set[str]:
    """`df.price`, `df.price[rows]` where a target is given -> {"price"}."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    if not isinstance(inner, ast.Attribute) or not isinstance(inner.value, ast.Name):
        return set()
    return set() if inner.attr in _NO_COLUMNS or inner.value.id in ("self", "cls") else {inner.attr}


def column_of(values: Values, node: ast.AST) -> str | None:
    """`df["a"]`, `df.loc[:, "a"]`, `df.pop("a")` -> "a"."""
    if isinstance(node, ast.Subscript):
        inner = node.slice
        if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            inner = inner.elts[1]
        found = values.one(inner)
        if isinstance(node.value, ast.Name) and found in (values.mapping(node.value) or ()):
            return None  # a key of settings
        return found if isinstance(found, str) else None
    if is_call(node, "pop") and node.args and isinstance(node.func, ast.Attribute):  # type: ignore[attr-defined]
        return values.text(node.args[0])  # type: ignore[attr-defined]
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and _TARGET_CONST.match(node.attr)
        and not isinstance(values.one(node), str)
    ):
        return node.attr
    return None
