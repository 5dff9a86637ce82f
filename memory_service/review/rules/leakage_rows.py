"""Are rows divided as time and groups demand?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice

from memory_service.domain.description.metrics import metric_named
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.frames import Frames, Split, column_of, results_of
from memory_service.review.groups_told import group_column
from memory_service.review.interpretation.walk import flow_of
from memory_service.review.rules.loss import VALUE_FAMILIES
from memory_service.review.script import last_name, name_of, roots, words

__all__ = ["row_rules"]

_SERIES = frozenset(("shift", "rolling", "ewm", "expanding"))


_IGNORES_GROUPS = words(
    "KFold StratifiedKFold ShuffleSplit StratifiedShuffleSplit RepeatedKFold RepeatedStratifiedKFold "
    "train_test_split random_split"
)


def row_rules(facts: Facts) -> Iterator[Finding]:
    """shuffled-time-series and groups-across-folds."""
    frames = Frames(facts)
    yield from _series(facts, frames)
    yield from _groups(facts, frames)


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
    yield from _walked_series(facts)


def _walked_series(facts: Facts) -> Iterator[Finding]:
    """Lags and windows that reach a random split through functions, methods and data sets."""
    for division in flow_of(facts).divisions:
        split = Split(division.place, division.kind, division.maker, frozenset(), frozenset(), None)
        shuffled = _shuffled(facts, split)
        of_time = [n for n in division.held.series if isinstance(n, ast.FunctionDef) or name_of(n) in _SERIES]
        if shuffled is not None and of_time:
            first = min(of_time, key=facts.script.order.__getitem__)
            yield finding(
                "shuffled-time-series",
                shuffled,
                f"Rows are split at random although line {getattr(first, 'lineno', 0)} makes them of "
                "their neighbours in time: training sees the future of what it is judged on.",
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
    if _is_forecast(facts):
        return "the task is a forecast"
    script = facts.script
    reach = frames.backward(set(split.data), split.call) | set(split.data)
    for call in script.called(*sorted(_SERIES)):
        if not isinstance(call.func, ast.Attribute):
            continue
        touched = roots(call.func) | results_of(facts, call)
        if touched & reach or _reaches(facts, call, reach) or facts.script.function(call) is not None:
            return f"line {call.lineno} takes {last_name(call.func)}() of them"
    for name, functions in script.functions.items():
        cuts = re.search(
            r"(make|create|build|to)_?\w*(sequence|window|lag)|sliding|lagged", name, re.IGNORECASE
        )
        if not cuts or not script.calls_by_name.get(name):
            continue
        if not re.search(r"group|subject|patient", ast.dump(functions[0])[:6000], re.IGNORECASE):
            return f"{name}() cuts overlapping windows out of them"
    if script.called("sliding_window_view"):
        return "overlapping windows are cut out of them"
    for call in script.called("append"):
        if _cuts_window(facts, call) and (
            roots(call.func) & reach
            or any(results_of(facts, place) & reach for place in _leading(facts, call))
        ):
            return f"line {call.lineno} cuts overlapping windows out of them"
    if _windows_listed(facts, reach) is not None:
        return "overlapping windows are cut out of them"
    for call in script.called("sort_values"):
        by = _sorted_by(facts, call)
        if (
            by
            and re.search(r"date|time|timestamp|week|month|year|day", by, re.IGNORECASE)
            and roots(call.func) & reach
        ) and re.search(r"forecast|horizon|next_(day|week|month|hour|step)|demand|sales", script.text):
            return f"they are sorted by {by!r} for a forecast"
    return ""


def _windows_listed(facts: Facts, reach: set[str]) -> ast.AST | None:
    """`[values[k:k + WINDOW] for k in range(...)]` of what is split."""
    for comp in facts.script.all(ast.ListComp):
        over = comp.generators[0]
        cut = _steps_by_one(facts, over.iter) and _slides(comp.elt, over.target)
        if not cut or len(comp.generators) > 1:
            continue
        if any(results_of(facts, place) & reach for place in (comp, *_leading(facts, comp))):
            return comp
    return None


def _leading(facts: Facts, node: ast.AST) -> list[ast.Call]:
    """Calls of the function that a node is in."""
    function = facts.script.function(node)
    return list(facts.script.calls_by_name.get(function.name, ())) if function is not None else []


def _is_forecast(facts: Facts) -> bool:
    """Whether values of a series are asked for; a metric of values says so where the task does not."""
    metric = metric_named(facts.asked.metric) if facts.asked.metric else None
    values = metric is not None and metric.family in VALUE_FAMILIES
    return facts.asked.task == "time-series-regression" or (facts.asked.task == "time-series" and values)


def _steps_by_one(facts: Facts, over: ast.AST) -> bool:
    if not isinstance(over, ast.Call) or last_name(over.func) not in ("range", "trange"):
        return False
    return len(over.args) < 3 or facts.values.number(over.args[2]) == 1


def _slides(node: ast.AST, target: ast.AST) -> bool:
    """A slice whose both ends move with the position."""
    position = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    for cut in ast.walk(node):
        if isinstance(cut, ast.Slice) and cut.lower is not None and cut.upper is not None:
            ends = [{n.id for n in ast.walk(e) if isinstance(n, ast.Name)} for e in (cut.lower, cut.upper)]
            if all(names & position for names in ends):
                return True
    return False


def _cuts_window(facts: Facts, call: ast.Call) -> bool:
    """`X.append(values[i - WINDOW : i])` in a loop over positions of one table."""
    loops = [up for up in facts.script.loops(call) if isinstance(up, ast.For)]
    if not loops or not call.args or len(loops) > 1:
        return False
    return _steps_by_one(facts, loops[0].iter) and _slides(call.args[0], loops[0].target)


def _sorted_by(facts: Facts, call: ast.Call) -> str:
    """The last column that a table is sorted by."""
    found = facts.values.one(facts.values.argument(call, "by", 0))
    if isinstance(found, list) and found:
        found = found[-1]
    return found if isinstance(found, str) else ""


def _reaches(facts: Facts, call: ast.Call, reach: set[str]) -> bool:
    statement = facts.script.statement(call)
    return bool(roots(statement) & reach) if isinstance(statement, ast.Assign | ast.AugAssign) else False


def _divides_by(facts: Facts, split: Split) -> str:
    """The class that divides the rows: of cross_val_score and of a search what `cv` is; "" where unknown."""
    if split.kind not in (
        "cross_val_score",
        "cross_validate",
        "cross_val_predict",
        "learning_curve",
        "fit",
        "cv",
    ):
        return split.kind
    call: ast.AST | None = split.call
    if split.kind == "fit" and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        search = call.func.value
        sources = facts.values.assigned(search.id, search) if isinstance(search, ast.Name) else [search]
        call = next((s for s in sources if isinstance(s, ast.Call) and "Search" in last_name(s.func)), None)
    if not isinstance(call, ast.Call):
        return ""
    given = facts.values.argument(call, "folds" if split.kind == "cv" else "cv")
    if given is None or facts.values.number(given) is not None:
        return "KFold"
    maker = Frames(facts).maker(given)
    return last_name(maker.func) if maker is not None else ""


def _groups(facts: Facts, frames: Frames) -> Iterator[Finding]:
    _script, values = facts.script, facts.values
    grouped = [s for s in frames.splits if "Group" in s.kind or "Group" in _divides_by(facts, s)]
    for split in frames.splits:
        kind = _divides_by(facts, split)
        if kind not in _IGNORES_GROUPS:
            continue
        if isinstance(split.call, ast.Call):
            at = 2 if last_name(split.call.func) == "split" else None
            given = values.argument(split.call, "groups", at)
            if given is not None and values.one(given) is None and not _is_none(given):
                yield finding(
                    "groups-across-folds",
                    split.call,
                    f"{kind} ignores `groups`: rows of one group lie on both sides.",
                    _group_fix(split),
                )
                return
    if grouped or not frames.splits:
        return
    column = group_column(facts)
    if not column:
        return
    for split in frames.splits:
        if _is_series(facts, split, frames):
            continue  # the same shops or sensors are forecast: time is what must not be mixed
        kind = _divides_by(facts, split)
        if _of_groups(facts, split):
            continue
        if kind in _IGNORES_GROUPS and not _splits_groups(facts, frames, split, column):
            place = (
                split.maker
                if split.kind not in ("train_test_split", "random_split") and split.maker is not None
                else split.call
            )
            yield finding(
                "groups-across-folds",
                place,
                f"{column!r} has several rows each, and {kind} splits rows: the same {column} is "
                "trained on and judged.",
                _group_fix(split) + f", groups=df[{column!r}]",
            )
            return


def _of_groups(facts: Facts, split: Split) -> bool:
    """What is split has one row a group already."""
    held = [d.held.rows for d in flow_of(facts).divisions if d.place is split.call and d.held.rows]
    return bool(held) and all(any(step.grouped for step in rows.line()) for one in held for rows in one)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _group_fix(split: Split) -> str:
    name = "StratifiedGroupKFold" if "Stratified" in split.kind else "GroupKFold"
    return (
        f"{name}(n_splits=5).split(X, y, groups)"
        if "Fold" in split.kind
        else "GroupShuffleSplit(n_splits=1, test_size=0.2).split(X, y, groups)"
    )


def _splits_groups(facts: Facts, frames: Frames, split: Split, column: str) -> bool:
    """The groups themselves are split: `train_test_split(df["patient_id"].unique())`."""
    classes = frames.targets - {column}
    sources = [
        source
        for name in frames.backward(set(split.data), split.call) | set(split.data)
        for source in facts.values.assigned(name, split.call)
    ]
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("unique", "drop_duplicates")
        and _column_of_values(facts, node) not in classes
        for source in (*sources, split.call)
        for node in islice(ast.walk(source), 500)
    )


def _column_of_values(facts: Facts, method: ast.Attribute) -> str:
    """The column whose values are taken once each, "" where it is not said: classes are no groups."""
    call = facts.script.parents.get(method)
    given = call.args[0] if isinstance(call, ast.Call) and call.args else None
    of_array = facts.script.qualified(method).startswith(("numpy.", "pandas.", "torch."))
    base = given if of_array and given is not None else method.value
    said = facts.values.one(given) if method.attr == "drop_duplicates" else None
    if isinstance(said, str):
        return said
    if isinstance(base, ast.Attribute) and base.attr not in ("values", "columns", "index"):
        return base.attr
    return column_of(facts, base) or ""
