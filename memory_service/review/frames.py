"""How do tables flow through the script: what is split where, what was derived from what, which column is the
target?

Names only: `X = df[cols]` makes X derived from df. A split's own outputs start anew, since rows of validation
are gone from them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from memory_service.review.facts import Facts
from memory_service.review.script import last_name, roots

__all__ = ["Frames", "Split", "column_of", "results_of"]

_SPLIT_CALLS = frozenset(("train_test_split", "random_split", "temporal_train_test_split"))
_LABELLED = frozenset(("train_test_split", "Dataset", "Pool", "DMatrix", "QuantileDMatrix"))
_SCORING = frozenset(("cross_val_score", "cross_validate", "cross_val_predict", "learning_curve"))
_SEARCHES = re.compile(r"SearchCV$|^RFECV$|^(LassoCV|RidgeCV|ElasticNetCV|LogisticRegressionCV)$")
_SPLITTERS = re.compile(r"(Fold|Split|LeaveOneGroupOut|GroupOut)$")
_TARGET_NAME = re.compile(
    r"^(y|ys|y_\w+|targets?|labels?|y\d?|Y|train_y|y_train|train_labels?|train_targets?)$"
)
_NO_COLUMNS = frozenset(("values", "T", "iloc", "loc", "data", "index", "array", "at", "flat"))
_TARGET_CONST = re.compile(r"^(target|label|y|dependent)(_?(col|column|name|var))?s?$", re.IGNORECASE)


MOST_SPLITS = 60
"""Divisions that are looked at; a training script has a few."""


@dataclass(frozen=True)
class Split:
    """One division into rows of training and of validation.

    kind       the function or splitter's class; "" where it is not known
    maker      the call that made the splitter, or the call itself
    data       names whose rows are divided
    outputs    names that hold the parts
    loop       the loop over folds, if it is one
    """

    call: ast.Call | ast.AST
    kind: str
    maker: ast.Call | None
    data: frozenset[str]
    outputs: frozenset[str]
    loop: ast.For | None


class Frames:
    """Tables of one script."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.script = facts.script

    @cached_property
    def splits(self) -> list[Split]:
        """Every division, in the order of the text."""
        out = [split for call in self.script.calls for split in self._of_call(call)]
        return sorted(out, key=lambda s: self.script.order[s.call])[:MOST_SPLITS]

    def _of_call(self, call: ast.Call) -> Iterator[Split]:
        name = last_name(call.func)
        data = frozenset(n for a in call.args for n in self.names(a))
        if name in _SPLIT_CALLS:
            if isinstance(call.func, ast.Attribute):  # a data set of its own: `ds.train_test_split(0.1)`
                data |= self.names(call.func.value)
            yield Split(call, name, call, data, self._outputs(call), None)
        elif name in _SCORING:
            given = frozenset(n for a in call.args[1:] for n in self.names(a)) | frozenset(
                n for k in call.keywords if k.arg in ("X", "y") for n in self.names(k.value)
            )
            yield Split(call, name, self._cv_maker(call), given, frozenset(), None)
        elif self.script.qualified(call.func) in ("lightgbm.cv", "xgboost.cv"):
            given = frozenset(n for a in call.args[1:2] for n in self.names(a)) | frozenset(
                n for k in call.keywords if k.arg in ("train_set", "dtrain") for n in self.names(k.value)
            )
            folds = self.facts.values.argument(call, "folds")
            yield Split(
                call, name, self.maker(folds) if folds is not None else None, given, frozenset(), None
            )
        elif name == "split" and isinstance(call.func, ast.Attribute) and (call.args or call.keywords):
            base = call.func.value
            if isinstance(base, ast.Constant | ast.JoinedStr | ast.Subscript) or self.script.qualified(
                call.func
            ).startswith(("os.", "re.", "numpy.", "torch.")):
                return
            maker = self.maker(base)
            kind = last_name(maker.func) if maker is not None else ""
            if not _SPLITTERS.search(kind) and not re.search(
                r"^(s|g|sg|ts|rs)?kf|fold|^cv$|split|^ss+$", last_name(base), re.IGNORECASE
            ):
                return
            if kind and not _SPLITTERS.search(kind):
                return
            loop = next(
                (
                    up
                    for up in self.script.above(call)
                    if isinstance(up, ast.For) and call in set(ast.walk(up.iter))
                ),
                None,
            )
            given = data | frozenset(
                n for k in call.keywords if k.arg in ("X", "y") for n in self.names(k.value)
            )
            yield Split(call, kind, maker, given, self._outputs(call, loop), loop)
        elif (
            name == "fit"
            and isinstance(call.func, ast.Attribute)
            and (
                any(k.arg == "validation_split" for k in call.keywords)
                or _SEARCHES.search(self.facts.training.made_by(call.func.value))
            )
        ):
            yield Split(call, "fit", None, data, frozenset(), None)

    def names(self, node: ast.AST) -> set[str]:
        """Every name that an expression reads, without modules: `np.array(X)` -> {"X"}."""
        return roots(node) - set(self.script.imports)

    def _cv_maker(self, call: ast.Call) -> ast.Call | None:
        given = self.facts.values.argument(call, "cv")
        return self.maker(given) if given is not None else None

    def maker(self, node: ast.AST) -> ast.Call | None:
        """The call that made a splitter."""
        if isinstance(node, ast.Call):
            return node
        sources: list[ast.AST] = []
        if isinstance(node, ast.Name):
            sources = self.facts.values.assigned(node.id, node)
        elif isinstance(node, ast.Attribute):
            sources = self.facts.values.sources(node)
        return next((s for s in sources if isinstance(s, ast.Call)), None)

    def _outputs(self, call: ast.Call, loop: ast.For | None = None) -> frozenset[str]:
        if loop is not None:
            return frozenset(n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name))
        statement = self.script.statement(call)
        if isinstance(statement, ast.Assign):
            return frozenset(
                n.id
                for t in statement.targets
                for n in ast.walk(t)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            )
        return frozenset()

    @cached_property
    def _steps(self) -> dict[ast.AST, list[tuple[int, frozenset[str], frozenset[str], bool]]]:
        """Scope -> (order, names written, names read, whether what was there is replaced)."""
        out: dict[ast.AST, list[tuple[int, frozenset[str], frozenset[str], bool]]] = {}
        nodes: list[ast.Assign | ast.AugAssign | ast.AnnAssign] = [
            *self.script.all(ast.Assign),
            *self.script.all(ast.AugAssign),
            *self.script.all(ast.AnnAssign),
        ]
        for node in nodes:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            written = frozenset(
                n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and _is_written(t, n)
            )
            value = node.value
            if value is None:
                continue
            whole = isinstance(node, ast.Assign) and all(
                isinstance(t, ast.Name | ast.Tuple | ast.List) for t in targets
            )
            step = (self.script.order[node], written, frozenset(self.names(value)), whole)
            out.setdefault(self.script.scope(node), []).append(step)
        for call in self.script.called("append", "extend"):  # rows gathered one by one
            if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.args:
                grown = frozenset((call.func.value.id,))
                step = (self.script.order[call], grown, frozenset(self.names(call.args[0])), False)
                out.setdefault(self.script.scope(call), []).append(step)
        for steps in out.values():
            steps.sort(key=lambda s: s[0])
        return out

    def backward(self, names: set[str], place: ast.AST) -> set[str]:
        """Names that these came from before a place, not past a split."""
        held = set(names)
        start = self.script.order[place]
        cut = {name for s in self.splits for name in s.outputs if self.script.order[s.call] < start}
        for order, written, read, _ in reversed(self._steps.get(self.script.scope(place), ())):
            if order < start and (written & held) - cut:
                held |= read - cut
        return held

    @cached_property
    def targets(self) -> set[str]:
        """Columns that are what is to be predicted."""
        values, found = self.facts.values, self._told_by_settings()
        for node in self.script.all(ast.Assign):
            for target, value in _pairs(node):
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
            for function in self.script.functions.get(name, ())[
                :1
            ]:  # `batches(table, table["price"])` of a `y`
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
        return {text for s in told if s.value is not None and (text := self.facts.values.text(s.value))}

    def _attribute_column(self, node: ast.AST) -> set[str]:
        """`df.price` of a table whose columns are also read or written by name."""
        inner = _uncopied(node.value if isinstance(node, ast.Attribute) and node.attr == "values" else node)
        found = _attribute(inner)
        base = inner.value if isinstance(inner, ast.Attribute) else None
        named = isinstance(base, ast.Name) and any(
            isinstance(n, ast.Call) and last_name(n.func).startswith("read_")
            for s in self.facts.values.assigned(base.id, base)
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
                column_of(self.facts, target) in self.targets for target in node.targets
            ):
                found |= self._columns(node.value)
        for call in self.script.calls:
            for name, made in self._columns_made(call):
                called = {last_name(n.func) for n in ast.walk(made) if isinstance(n, ast.Call)}
                if name in self.targets and called & {"log1p", "log", "log10", "sqrt"}:
                    found |= self._columns(made)
        return found

    def _columns_made(self, call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
        """`df.assign(rate=...)`, polars' `with_columns(rate=...)` and `expression.alias("rate")`."""
        if last_name(call.func) in ("assign", "with_columns"):
            yield from ((k.arg, k.value) for k in call.keywords if k.arg)
        if last_name(call.func) == "alias" and isinstance(call.func, ast.Attribute) and call.args:
            text = self.facts.values.text(call.args[0])
            if text:
                yield text, call.func.value

    def _columns(self, node: ast.AST) -> set[str]:
        """The one column that an expression is about."""
        out: set[str] = set()
        for n in ast.walk(node):
            column = column_of(self.facts, n)
            if isinstance(n, ast.Call) and self.script.qualified(n.func) == "polars.col" and len(n.args) == 1:
                column = self.facts.values.text(n.args[0])
            if column is not None:
                out.add(column)
        return out if len(out) == 1 else set()


def _attribute(node: ast.AST) -> set[str]:
    """`df.price`, `df.price[rows]` where a target is given -> {"price"}."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    if not isinstance(inner, ast.Attribute) or not isinstance(inner.value, ast.Name):
        return set()
    return set() if inner.attr in _NO_COLUMNS or inner.value.id in ("self", "cls") else {inner.attr}


def column_of(facts: Facts, node: ast.AST) -> str | None:
    """`df["a"]`, `df.loc[:, "a"]`, `df.pop("a")` -> "a"."""
    if isinstance(node, ast.Subscript):
        inner = node.slice
        if isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            inner = inner.elts[1]
        found = facts.values.one(inner)
        if isinstance(node.value, ast.Name) and found in (facts.values.mapping(node.value) or ()):
            return None  # a key of settings
        return found if isinstance(found, str) else None
    if (
        isinstance(node, ast.Call)
        and last_name(node.func) == "pop"
        and node.args
        and isinstance(node.func, ast.Attribute)
    ):
        found = facts.values.one(node.args[0])
        return found if isinstance(found, str) else None
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and _TARGET_CONST.match(node.attr)
        and not isinstance(facts.values.one(node), str)
    ):
        return node.attr
    return None


def _pairs(node: ast.Assign) -> list[tuple[str, ast.AST]]:
    out: list[tuple[str, ast.AST]] = []
    for target in node.targets:
        if isinstance(target, ast.Name):
            out.append((target.id, node.value))
        elif isinstance(target, ast.Attribute):
            out.append((target.attr, node.value))
        elif (
            isinstance(target, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(target.elts) == len(node.value.elts)
        ):
            out += [(last_name(t), v) for t, v in zip(target.elts, node.value.elts, strict=True)]
    return out


def _uncopied(node: ast.AST) -> ast.AST:
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and last_name(node.func) in ("copy", "reset_index", "drop", "astype")
    ):
        node = node.func.value
    return node


def _is_written(target: ast.AST, name: ast.Name) -> bool:
    """`df["a"] = ...` writes df, not what stands in the brackets."""
    if isinstance(target, ast.Subscript):
        return name in set(ast.walk(target.value))
    if isinstance(target, ast.Attribute):
        return False
    return isinstance(name.ctx, ast.Store) or isinstance(target, ast.Tuple | ast.List)


def results_of(facts: Facts, call: ast.AST) -> set[str]:
    """Names that the statement of a call writes."""
    statement = facts.script.statement(call)
    if not isinstance(statement, ast.Assign):
        return set()
    return {
        n.id
        for t in statement.targets
        for n in ast.walk(t)
        if isinstance(n, ast.Name)
        and (isinstance(n.ctx, ast.Store) or (isinstance(t, ast.Subscript) and n in set(ast.walk(t.value))))
    }
