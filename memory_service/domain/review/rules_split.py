"""Do rows of validation stay out of training? Fits before the split, target statistics."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.findings import Finding, finding
from memory_service.domain.review.frames import Frames, column_of
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
        data = set(roots(call.args[0]))
        for place, names, results in _places(facts, call, data):
            split = frames.split_behind(names, place, results)
            if split is None or _in_fold(frames, place):
                continue
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
            break


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


def _places(facts: Facts, call: ast.Call, data: set[str]) -> Iterator[tuple[ast.AST, set[str], set[str]]]:
    """Where a fit takes place, with the names of its rows and of its result: here, and where its function
    is called."""
    script = facts.script
    yield call, data, results_of(facts, call)
    function = script.function(call)
    if function is None or script.class_of(function) is not None:
        return
    parameters = [p.arg for p in function.args.args]
    for outer in script.calls_by_name.get(function.name, ()):
        handed = {n for p, a in zip(parameters, outer.args, strict=False) if p in data for n in roots(a)}
        handed |= {n for k in outer.keywords if k.arg in data for n in roots(k.value)}
        if handed:
            yield outer, handed, results_of(facts, outer)


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
        data = roots(node.left.left)
        learned = [
            n
            for side in (node.left.right, node.right)
            for n in _resolved(facts, side)
            if isinstance(n, ast.Call)
            and last_name(n.func) in ("mean", "std", "min", "max")
            and roots(n) & data
        ]
        if len(learned) < 2 or any(k.arg == "dim" for call in learned for k in call.keywords):
            continue
        if any(
            facts.values.one(facts.values.argument(c, "axis", 0 if roots(c.func) & data else 1)) in (1, -1)
            for c in learned
        ):
            continue
        statement = facts.script.statement(node)
        if not isinstance(statement, ast.Assign) or _in_fold(frames, node):
            continue
        split = frames.split_behind(set(data), node, results_of(facts, node))
        if split is not None:
            yield finding(
                "fit-before-split",
                node,
                "Mean and deviation are of all rows; the split comes at line "
                f"{getattr(split.call, 'lineno', 0)}.",
                "mean, std = X_train.mean(0), X_train.std(0)  # of the training rows, for both parts",
            )


def _resolved(facts: Facts, node: ast.AST) -> Iterator[ast.AST]:
    for n in ast.walk(node):
        yield n
        if isinstance(n, ast.Name):
            for source in facts.values.assigned(n.id, n)[:2]:
                if isinstance(source, ast.Call):
                    yield source


def _statistics(facts: Facts, frames: Frames) -> Iterator[Finding]:
    """`df.groupby("city")["price"].mean()` of all rows as a feature."""
    for call in facts.script.called("groupby"):
        if not isinstance(call.func, ast.Attribute) or _in_fold(frames, call):
            continue
        if not _of_target(facts, frames, call):
            continue
        data = set(roots(call.func.value))
        if not _becomes_feature(facts, call, data) or _ordered_in_time(facts, call):
            continue
        for place, names, results in _places(facts, call, data):
            split = frames.split_behind(names, place, results)
            if split is not None and not _in_fold(frames, place):
                yield finding(
                    "target-statistics-before-split",
                    call,
                    "A mean of the target over all rows becomes a feature; the split comes at line "
                    f"{getattr(split.call, 'lineno', 0)}, so each row of validation carries its own "
                    "answer.",
                    "means = train_part.groupby(key)[target].mean()  # within each fold, then .map(means)",
                )
                break


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
