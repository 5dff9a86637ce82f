"""Do rows of validation stay out of training? Fits before the split, target statistics, time, groups."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.findings import Finding, finding
from memory_service.domain.review.frames import Frames, Split, column_of
from memory_service.domain.review.script import last_name, roots, words

__all__ = ["split_rules"]

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
_SERIES = frozenset(("shift", "rolling", "ewm", "expanding"))
_STATISTICS = frozenset(
    ("mean", "median", "sum", "std", "transform", "agg", "aggregate", "var", "count", "quantile")
)
_GROUP_COLUMN = re.compile(
    r"^(patient|subject|speaker|participant|student|user|customer|session|player|author|client|person|"
    r"driver|recording|animal|"
    r"study|group|site|household|device|well|scene|video|clip|essay_prompt|prompt|case|family|owner|"
    r"store|shop|individual)"
    r"(_?(id|no|nr|num|name|code|uid|key))?s?$",
    re.IGNORECASE,
)
_IGNORES_GROUPS = words(
    "KFold StratifiedKFold ShuffleSplit StratifiedShuffleSplit RepeatedKFold RepeatedStratifiedKFold "
    "train_test_split random_split"
)


def split_rules(facts: Facts) -> Iterator[Finding]:
    """fit-before-split, target-statistics-before-split, shuffled-time-series, groups-across-folds."""
    frames = Frames(facts)
    if not frames.splits and not facts.script.called("fit_transform", "fit", "fit_resample"):
        return
    yield from _fits(facts, frames)
    yield from _standardised(facts, frames)
    yield from _statistics(facts, frames)
    yield from _series(facts, frames)
    yield from _groups(facts, frames)


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
    yield call, data, _results(facts, call)
    function = script.function(call)
    if function is None or script.class_of(function) is not None:
        return
    parameters = [p.arg for p in function.args.args]
    for outer in script.calls_by_name.get(function.name, ()):
        handed = {n for p, a in zip(parameters, outer.args, strict=False) if p in data for n in roots(a)}
        handed |= {n for k in outer.keywords if k.arg in data for n in roots(k.value)}
        if handed:
            yield outer, handed, _results(facts, outer)


def _results(facts: Facts, call: ast.AST) -> set[str]:
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
        split = frames.split_behind(set(data), node, _results(facts, node))
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
            return column in frames.targets
        if isinstance(up, ast.Attribute) and column is None and up.attr in frames.targets:
            column = up.attr
        if isinstance(up, ast.Call) and node is up.func and last_name(up.func) in ("agg", "aggregate"):
            texts = {facts.values.text(n) for n in ast.walk(up) if isinstance(n, ast.Constant | ast.Name)}
            return bool(texts & frames.targets)
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
        (isinstance(n, ast.Attribute) and n.attr in _SERIES)
        or (isinstance(n, ast.Constant) and n.value in _SERIES)
        for n in ast.walk(facts.script.statement(call))
    )


def _series(facts: Facts, frames: Frames) -> Iterator[Finding]:
    for split in frames.splits:
        shuffled = _shuffled(facts, split)
        if shuffled is None:
            continue
        why = _is_series(facts, split, frames)
        if why:
            yield finding(
                "shuffled-time-series",
                shuffled,
                f"Rows are split at random although {why}: training sees the future of what it is judged on.",
                "TimeSeriesSplit(n_splits=5), or the last weeks as validation: df[df.date >= cut]",
            )
            return


def _shuffled(facts: Facts, split: Split) -> ast.AST | None:
    """Where rows are shuffled by a split, else None."""
    values = facts.values
    if split.maker is None:
        return None
    shuffle = values.argument(split.maker, "shuffle", 1 if split.kind.endswith("KFold") else None)
    if split.kind == "train_test_split":
        return None if shuffle is not None and values.one(shuffle) is not True else split.call
    if split.kind in ("KFold", "StratifiedKFold", "cross_val_score", "cross_validate", "cross_val_predict"):
        return split.maker if shuffle is not None and values.one(shuffle) is True else None
    return split.call if split.kind in ("ShuffleSplit", "StratifiedShuffleSplit", "random_split") else None


def _is_series(facts: Facts, split: Split, frames: Frames) -> str:
    if facts.asked.task == "time-series-regression":
        return "the task is a forecast"
    script = facts.script
    reach = frames.backward(set(split.data), split.call) | set(split.data)
    for call in script.called(*sorted(_SERIES)):
        if not isinstance(call.func, ast.Attribute):
            continue
        touched = roots(call.func) | _results(facts, call)
        if touched & reach or _reaches(facts, call, reach) or facts.script.function(call) is not None:
            return f"line {call.lineno} takes {last_name(call.func)}() of them"
    for name, functions in script.functions.items():
        if re.search(r"(make|create|build|to)_?\w*(sequence|window|lag)|sliding|lagged", name, re.IGNORECASE):
            if script.calls_by_name.get(name) and not re.search(
                r"group|subject|patient", ast.dump(functions[0])[:6000], re.IGNORECASE
            ):
                return f"{name}() cuts overlapping windows out of them"
    if script.called("sliding_window_view"):
        return "overlapping windows are cut out of them"
    for call in script.called("sort_values"):
        by = values_of_sort(facts, call)
        if (
            by
            and re.search(r"date|time|timestamp|week|month|year|day", by, re.IGNORECASE)
            and roots(call.func) & reach
        ) and re.search(r"forecast|horizon|next_(day|week|month|hour|step)|demand|sales", script.text):
            return f"they are sorted by {by!r} for a forecast"
    return ""


def values_of_sort(facts: Facts, call: ast.Call) -> str:
    """The last column that a table is sorted by."""
    found = facts.values.one(facts.values.argument(call, "by", 0))
    if isinstance(found, list) and found:
        found = found[-1]
    return found if isinstance(found, str) else ""


def _reaches(facts: Facts, call: ast.Call, reach: set[str]) -> bool:
    statement = facts.script.statement(call)
    return bool(roots(statement) & reach) if isinstance(statement, ast.Assign | ast.AugAssign) else False


def _groups(facts: Facts, frames: Frames) -> Iterator[Finding]:
    _script, values = facts.script, facts.values
    grouped = [s for s in frames.splits if "Group" in s.kind]
    for split in frames.splits:
        if split.kind not in _IGNORES_GROUPS or split.maker is None:
            continue
        if isinstance(split.call, ast.Call) and last_name(split.call.func) == "split":
            given = values.argument(split.call, "groups", 2)
            if given is not None:
                yield finding(
                    "groups-across-folds",
                    split.call,
                    f"{split.kind} ignores `groups`: rows of one group lie on both sides.",
                    _group_fix(split),
                )
                return
    if grouped or not frames.splits:
        return
    column = _group_column(facts)
    if not column:
        return
    for split in frames.splits:
        if _is_series(facts, split, frames):
            continue  # the same shops or sensors are forecast: time is what must not be mixed
        if split.kind in _IGNORES_GROUPS and not _splits_groups(facts, frames, split, column):
            place = (
                split.maker
                if split.kind not in ("train_test_split", "random_split") and split.maker is not None
                else split.call
            )
            yield finding(
                "groups-across-folds",
                place,
                f"{column!r} has several rows each, and {split.kind} splits rows: the same {column} is "
                "trained on and judged.",
                _group_fix(split) + f", groups=df[{column!r}]",
            )
            return


def _group_fix(split: Split) -> str:
    name = "StratifiedGroupKFold" if "Stratified" in split.kind else "GroupKFold"
    return (
        f"{name}(n_splits=5).split(X, y, groups)"
        if "Fold" in split.kind
        else "GroupShuffleSplit(n_splits=1, test_size=0.2).split(X, y, groups)"
    )


def _group_column(facts: Facts) -> str:
    """A column that names groups, with evidence that a group has several rows."""
    script, values = facts.script, facts.values
    for call in script.called("groupby"):
        by = values.one(values.argument(call, "by", 0))
        names = by if isinstance(by, list) else [by]
        for name in names:
            if isinstance(name, str) and _GROUP_COLUMN.match(name) and not _summed_up(facts, call):
                return name
    for call in script.called("nunique", "value_counts", "duplicated"):
        if isinstance(call.func, ast.Attribute):
            base = call.func.value
            column = base.attr if isinstance(base, ast.Attribute) else column_of(facts, base)
            if column and _GROUP_COLUMN.match(column):
                return column
    for node in script.all(ast.Assign):
        for target in node.targets:
            if last_name(target).lower() in (
                "groups",
                "group",
                "group_ids",
                "patients",
                "subjects",
                "speakers",
            ):
                column = next((c for n in ast.walk(node.value) if (c := column_of(facts, n))), None)
                if column:
                    return column
    for line, text in enumerate(script.lines, 1):
        del line
        said = re.search(
            r"(several|many|multiple|more than one|\d+|few)\s+[\w ]{0,24}\b(per|of (one|each|a)|"
            r"for each)\s+(\w+)",
            text.lower(),
        )
        if (said and "#" in text[: said.start() + 1] + text[:1]) or (said and '"""' in text):
            word = said.group(4)
            for column in script.strings:
                if _GROUP_COLUMN.match(column) and column.lower().startswith(word.rstrip("s")):
                    return column
    return ""


def _summed_up(facts: Facts, call: ast.Call) -> bool:
    """The table is made one row a group: `df = df.groupby("user_id").agg(...)`."""
    statement = facts.script.statement(call)
    if not isinstance(statement, ast.Assign):
        return False
    return any(isinstance(t, ast.Name) for t in statement.targets) and any(
        isinstance(n, ast.Attribute)
        and n.attr in ("agg", "first", "last", "aggregate", "mean", "sum", "size", "head")
        for n in ast.walk(statement.value)
    )


def _splits_groups(facts: Facts, frames: Frames, split: Split, column: str) -> bool:
    """The groups themselves are split: `train_test_split(df["patient_id"].unique())`."""
    for name in frames.backward(set(split.data), split.call) | set(split.data):
        for source in facts.values.assigned(name, split.call):
            text = ast.dump(source)[:5000]
            if re.search(r"'(unique|drop_duplicates)'", text) and (
                column in text or "group" in text.lower() or True
            ):
                return True
    text = ast.dump(split.call)[:5000]
    return bool(re.search(r"'(unique|drop_duplicates)'", text))
