"""Do rows of validation stay out of training? Fits before the split, target statistics."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.findings import Finding, finding
from memory_service.domain.review.frames import Frames, Split, column_of
from memory_service.domain.review.script import last_name, roots

__all__ = ["results_of", "split_rules"]

_LEARNS = re.compile(
    r"^(Standard|MinMax|MaxAbs|Robust)Scaler$|^(Power|Quantile)Transformer$|^(Incremental|Sparse|"
    r"Kernel)?PCA$|^TruncatedSVD$|"
    r"^(Simple|KNN|Iterative)Imputer$|^(Tfidf|Count)Vectorizer$|^Select(KBest|Percentile|FromModel|Fpr|"
    r"Fdr|Fwe)$|^RFE(CV)?$|"
    r"^KBinsDiscretizer$|^FastICA$|^NMF$|^LatentDirichletAllocation$|^LinearDiscriminantAnalysis$|^UMAP$|"
    r"^KMeans$|^VarianceThreshold$|"
    r"^BorutaPy$|^FeatureAgglomeration$|^Nystroem$|^SplineTransformer$|^PLSRegression$"
)
_RESAMPLES = re.compile(r"SMOTE|ADASYN|OverSampler|UnderSampler|TomekLinks|EditedNearest")
_BY_TARGET = re.compile(r"^(Target|LeaveOneOut|JamesStein|CatBoost|MEstimate|WOE|GLMM|Helmert)Encoder$")
_OF_THE_PAST = frozenset(("shift", "rolling", "ewm", "expanding"))
_STATISTICS = frozenset(
    ("mean", "median", "sum", "std", "transform", "agg", "aggregate", "var", "count", "quantile")
)


def split_rules(facts: Facts) -> Iterator[Finding]:
    """fit-before-split and target-statistics-before-split."""
    frames = Frames(facts)
    if not frames.splits and not facts.script.called("fit_transform", "fit", "fit_resample"):
        return
    yield from _fits(facts, frames)
    yield from _standardised(facts, frames)
    yield from _statistics(facts, frames)


def _fits(facts: Facts, frames: Frames) -> Iterator[Finding]:
    script = facts.script
    for call in script.called("fit", "fit_transform", "fit_resample", "fit_sample"):
        if not isinstance(call.func, ast.Attribute) or not call.args:
            continue
        made = _transformer(facts, call.func.value)
        by_target = bool(_BY_TARGET.match(made))
        if not (_LEARNS.match(made) or _RESAMPLES.search(made) or by_target):
            continue
        data = frames.names(call.args[0])
        split = _behind(facts, frames, call, data)
        if split is not None:
            line = getattr(split.call, "lineno", 0)
            if by_target:
                yield finding(
                    "target-statistics-before-split",
                    call,
                    f"{made} sees the target of rows that are validation at line {line}: the score will "
                    "not hold.",
                    "fit it on the training rows of each fold, transform the rest",
                )
            else:
                yield finding(
                    "fit-before-split",
                    call,
                    f"{made} is fitted on all rows; the split comes at line {line}, so validation has "
                    "been seen.",
                    f"split first; {last_name(call.func.value) or 'scaler'}.fit(X_train) and transform "
                    "both parts, or a Pipeline",
                )


def _transformer(facts: Facts, node: ast.AST) -> str:
    """The class that learns; of a pipeline or a ColumnTransformer the one within it that does."""
    made = facts.training.made_by(node)
    if made in ("Pipeline", "make_pipeline", "ColumnTransformer", "make_column_transformer", "FeatureUnion"):
        source: ast.AST | None = node if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Name):
            source = next(iter(facts.values.assigned(node.id, node)), None)
        for inner in ast.walk(source) if source is not None else ():
            if isinstance(inner, ast.Call):
                name = last_name(inner.func)
                if re.search(r"(Classifier|Regressor|Regression|SVC|SVR|Ridge|Lasso|NB)$", name):
                    return ""
        for inner in ast.walk(source) if source is not None else ():
            if isinstance(inner, ast.Call) and (
                _LEARNS.match(last_name(inner.func)) or _BY_TARGET.match(last_name(inner.func))
            ):
                return last_name(inner.func)
    return made


def _behind(facts: Facts, frames: Frames, node: ast.AST, data: set[str]) -> Split | None:
    """The split that divides what a node has already learned from: here, where its function is called, or
    in another method of its class."""
    for place, names, results in _places(facts, frames, node, data, results_of(facts, node)):
        split = frames.split_behind(names, place, results)
        if split is not None and not _in_fold(frames, place):
            return split
    return _split_of_attributes(facts, frames, node, data)


def _places(
    facts: Facts, frames: Frames, node: ast.AST, data: set[str], results: set[str], deep: int = 0
) -> Iterator[tuple[ast.AST, set[str], set[str]]]:
    """Where rows are learned from, with their names and those of the result: here, and where the function
    around it is called with these rows or hands the result back."""
    script = facts.script
    yield node, data, results
    function = script.function(node)
    if function is None or deep > 3 or _in_fold(frames, node) or frames.parted(data, node):
        return
    parameters = [p.arg for p in function.args.args if p.arg not in ("self", "cls")]
    reach = frames.backward(data, node) | data
    grown = frames.forward(data | results, node)
    whole = script.statement(node)
    returns = any(
        isinstance(r, ast.Return) and r.value is not None and (frames.names(r.value) & grown or r is whole)
        for r in ast.walk(function)
    )
    divides = any(script.function(s.call) is function and s.data & (reach | grown) for s in frames.splits)
    for outer in script.calls_by_name.get(function.name, ()):
        handed = {
            n for p, a in zip(parameters, outer.args, strict=False) if p in reach for n in frames.names(a)
        }
        handed |= {n for k in outer.keywords if k.arg in reach for n in frames.names(k.value)}
        fresh = any(
            p in reach for p, _ in zip(parameters, outer.args, strict=False)
        )  # `clean(read_csv(...))`
        if handed or (returns and not divides and (fresh or not set(parameters) & reach)):
            yield from _places(facts, frames, outer, handed, results_of(facts, outer), deep + 1)


def _attributes_of(node: ast.AST) -> set[str]:
    """`self.X` -> {"X"}."""
    return {
        n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self"
    }


def _split_of_attributes(facts: Facts, frames: Frames, node: ast.AST, data: set[str]) -> Split | None:
    """One method learns from all rows and keeps them in `self`, another one splits what was kept."""
    script = facts.script
    function, owner = script.function(node), script.class_of(node)
    if function is None or owner is None or frames.parted(data - {"self"}, node) or _in_fold(frames, node):
        return None
    grown = frames.forward(data | results_of(facts, node), node) - {"self"}
    kept: set[str] = set()
    for assigned in script.all(ast.Assign):
        if script.function(assigned) is function and (
            frames.names(assigned.value) & grown or assigned is script.statement(node)
        ):
            kept |= {a for t in assigned.targets for a in _attributes_of(t)}
    for split in frames.splits:
        other = script.function(split.call)
        if other is None or other is function or script.class_of(other) is not owner:
            continue
        given = [*getattr(split.call, "args", ()), *(k.value for k in getattr(split.call, "keywords", ()))]
        read = {a for g in given for a in _attributes_of(g)}
        for name in split.data - {"self"}:
            read |= {a for s in facts.values.assigned(name, split.call) for a in _attributes_of(s)}
        if read & kept:
            return split
    return None


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


def _in_fold(frames: Frames, place: ast.AST) -> bool:
    around = set(frames.script.above(place))
    return any(s.loop is not None and s.loop in around for s in frames.splits) or any(
        isinstance(up, ast.For) and frames.facts.training.is_fold(up) for up in around
    )


def _standardised(facts: Facts, frames: Frames) -> Iterator[Finding]:
    """`X = (X - X.mean()) / X.std()` of all rows."""
    for node in facts.script.all(ast.BinOp):
        if (
            not isinstance(node.op, ast.Div)
            or not isinstance(node.left, ast.BinOp)
            or not isinstance(node.left.op, ast.Sub)
        ):
            continue
        data = frames.names(node.left.left)
        learned = [
            n
            for side in (node.left.right, node.right)
            for n in _resolved(facts, side)
            if isinstance(n, ast.Call)
            and last_name(n.func).removeprefix("nan") in _LEARNED
            and roots(n) & data
        ]
        if len(learned) < 2 or any(k.arg == "dim" for call in learned for k in call.keywords):
            continue
        if any(
            facts.values.one(facts.values.argument(c, "axis", _axis_at(c, bool(roots(c.func) & data))))
            in (1, -1)
            for c in learned
        ):
            continue
        statement = facts.script.statement(node)
        if not isinstance(statement, ast.Assign) or _in_fold(frames, node):
            continue
        split = _behind(facts, frames, node, set(data))
        if split is not None:
            yield finding(
                "fit-before-split",
                node,
                "Mean and deviation are of all rows; the split comes at line "
                f"{getattr(split.call, 'lineno', 0)}.",
                "mean, std = X_train.mean(0), X_train.std(0)  # of the training rows, for both parts",
            )


_LEARNED = frozenset(("mean", "std", "min", "max", "median", "percentile", "quantile"))


def _axis_at(call: ast.Call, method: bool) -> int:
    """Where `axis` stands: behind the data of a function, and behind the share of a quantile."""
    return (not method) + last_name(call.func).endswith(("percentile", "quantile"))


def _resolved(facts: Facts, node: ast.AST) -> Iterator[ast.AST]:
    for n in ast.walk(node):
        yield n
        if isinstance(n, ast.Name):
            for source in facts.values.assigned(n.id, n)[:2]:
                if isinstance(source, ast.Call):
                    yield source


def _statistics(facts: Facts, frames: Frames) -> Iterator[Finding]:
    """`df.groupby("city")["price"].mean()` of all rows as a feature."""
    for place in _means_of_target(facts, frames):
        if _in_fold(frames, place) or _ordered_in_time(facts, place):
            continue
        base = place.func.value if isinstance(place.func, ast.Attribute) else place
        data = frames.names(base) or frames.names(facts.script.statement(place))
        if not _becomes_feature(facts, place, data):
            continue
        split = _behind(facts, frames, place, data)
        if split is not None:
            yield finding(
                "target-statistics-before-split",
                place,
                "A mean of the target over all rows becomes a feature; the split comes at line "
                f"{getattr(split.call, 'lineno', 0)}, so each row of validation carries its own "
                "answer.",
                "means = train_part.groupby(key)[target].mean()  # within each fold, then .map(means)",
            )


def _means_of_target(facts: Facts, frames: Frames) -> Iterator[ast.Call]:
    """Calls that reduce the target by groups: groupby, polars' over, pivot_table, a mean of chosen rows."""
    script = facts.script
    for call in script.called("groupby", "group_by"):
        if isinstance(call.func, ast.Attribute) and _of_target(facts, frames, call):
            yield call
    for call in script.called("over"):
        if isinstance(call.func, ast.Attribute) and _reduces(facts, frames, call.func.value):
            yield call
    for call in script.called("pivot_table"):
        given = facts.values.argument(
            call, "values", 1 if script.qualified(call.func).startswith("pandas") else 0
        )
        if facts.values.text(given) in frames.origins:
            yield call
    for call in script.called("mean", "median"):
        inner = call.func.value if isinstance(call.func, ast.Attribute) else None
        chosen = isinstance(inner, ast.Subscript | ast.Attribute) and any(
            isinstance(n, ast.Subscript) and any(isinstance(c, ast.Compare) for c in ast.walk(n.slice))
            for n in ast.walk(inner)
        )
        by_group = any(isinstance(up, ast.DictComp) for up in script.above(call)) or any(
            isinstance(loop, ast.For) and re.search(r"'(unique|groups|cat)'", ast.dump(loop.iter)[:2000])
            for loop in script.loops(call)
        )
        if chosen and by_group and inner is not None and _column(facts, inner) in frames.origins:
            yield call


def _column(facts: Facts, node: ast.AST) -> str | None:
    return column_of(facts, node) or (node.attr if isinstance(node, ast.Attribute) else None)


def _reduces(facts: Facts, frames: Frames, node: ast.AST) -> bool:
    """`pl.col(target).mean()`."""
    called = {last_name(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    return bool(called & (_STATISTICS - {"count"})) and any(
        isinstance(n, ast.Call)
        and last_name(n.func) == "col"
        and n.args
        and facts.values.text(n.args[0]) in frames.origins
        for n in ast.walk(node)
    )


def _of_target(facts: Facts, frames: Frames, call: ast.Call) -> bool:
    """The group's column is the target: `[target]` behind groupby, or `agg(x=("target", "mean"))`."""
    node: ast.AST = call
    column: str | None = None
    while (up := facts.script.parents.get(node)) is not None and isinstance(
        up, ast.Attribute | ast.Subscript | ast.Call
    ):
        if isinstance(up, ast.Subscript) and up.value is node and column is None:
            column = column_of(facts, up)
            listed = facts.values.one(up.slice)
            if column is None and isinstance(listed, list) and len(listed) == 1:
                column = str(listed[0])
        if isinstance(up, ast.Attribute) and up.attr in _STATISTICS and column is not None:
            return column in frames.origins
        if isinstance(up, ast.Attribute) and column is None and up.attr in frames.origins:
            column = up.attr
        if isinstance(up, ast.Call) and node is up.func and last_name(up.func) in ("agg", "aggregate"):
            texts = {facts.values.text(n) for n in ast.walk(up) if isinstance(n, ast.Constant | ast.Name)}
            return bool(texts & frames.origins)
        if isinstance(up, ast.Call) and up.func is not node:
            break
        node = up
    return False


def _becomes_feature(facts: Facts, call: ast.Call, data: set[str]) -> bool:
    """Its result is written into a column, mapped, merged or joined."""
    statement = facts.script.statement(call)
    if not isinstance(statement, ast.Assign):
        return False
    for target in statement.targets:
        if isinstance(target, ast.Subscript):
            return True
        if isinstance(target, ast.Name):
            if target.id in data:
                return True
            for other in facts.script.called("map", "merge", "join", "replace", "apply"):
                if target.id in {
                    n.id
                    for a in (*other.args, *(k.value for k in other.keywords), other.func)
                    for n in ast.walk(a)
                    if isinstance(n, ast.Name)
                }:
                    return True
    return False


def _ordered_in_time(facts: Facts, call: ast.Call) -> bool:
    """Statistics of what came before a row (`shift`, `expanding`) are not of its own answer."""
    return any(
        (isinstance(n, ast.Attribute) and n.attr in _OF_THE_PAST)
        or (isinstance(n, ast.Constant) and n.value in _OF_THE_PAST)
        for n in ast.walk(facts.script.statement(call))
    )
