"""Rows used before they were set apart, features that hold the target, and rows divided against time or
across groups."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.interpretation.state import Division, Supervised
from memory_service.review.interpretation.value import all_of
from memory_service.review.rules.data.group_columns import group_column
from memory_service.review.rules.loss import VALUE_FAMILIES, metric_of
from memory_service.review.source.nodes import last_name, words


def split_rules(facts: Facts) -> Iterator[Finding]:
    """fit-before-split and target-statistics-before-split."""
    walk = facts.walk
    for adapted in walk.adapted:
        for division in walk.divisions:
            if any(rows.within(adapted.rows) and not rows.divided for rows in division.contents.rows):
                walk.leaks.setdefault(adapted, division.place)
    shown: set[ast.AST] = set()
    for learned, place in walk.leaks.items():
        stated = facts.script.statement(learned.place)
        if stated in shown:
            continue
        shown.add(stated)
        rule = "target-statistics-before-split" if learned.kind == "target" else "fit-before-split"
        case = "it" if learned.kind == "target" or learned.what else "standardised"
        yield finding(rule, learned.place, case, what=learned.what, at=getattr(place, "lineno", 0))


MOST_INPUTS = 20


def target_rules(facts: Facts) -> Iterator[Finding]:
    """target-in-features: the first column of each script that is the answer, or computed from it."""
    for supervised in (part for whole in facts.walk.supervised for part in _parts(whole)):
        for column, place in _telling(supervised):
            yield finding("target-in-features", place, column=column)
            return


def _parts(supervised: Supervised) -> list[Supervised]:
    """Inputs side by side: `model.fit({"numeric": X, "shop": shop}, y)`, `model.fit([X, shop], y)`."""
    value = supervised.features
    inputs = [*(value.keys or {}).values(), *(value.items or ())][:MOST_INPUTS]
    return [replace(supervised, features=one) for one in inputs] or [supervised]


def _telling(supervised: Supervised) -> Iterator[tuple[str, ast.AST]]:
    """(column, where) that tells the answer."""
    features, answer = supervised.features, supervised.answer
    target = _target(supervised)
    known = features.whole or (features.columns is not None and len(features.columns) > 1)
    if target is None or not known or not all_of(features.rows) & all_of(answer.rows):
        return
    source = answer.reads - {target} if not answer.series else set()  # tomorrow's value is not today's
    certain = {target} | (source if len(source) == 1 else set())

    def inside(column: str) -> bool:
        if features.columns is not None:
            return column in features.columns
        return features.whole and column not in features.dropped

    if features.columns is None and not features.dropped and not supervised.final:
        return  # a whole table is divided, its columns are chosen later
    for name, value in sorted(features.attrs.items(), key=lambda one: getattr(one[1].place, "lineno", 0)):
        column = name[1:-1]
        if column not in certain and column != "?" and inside(column) and value.reads & certain:
            yield column, value.place or supervised.place
    for column in sorted(certain):
        if inside(column):
            yield column, features.place or supervised.place


def _target(supervised: Supervised) -> str | None:
    answer = supervised.answer
    for names in (answer.columns, None if answer.series else answer.reads):
        if names is not None and len(names) == 1:
            return next(iter(names))
    return None


_IGNORES_GROUPS = words(
    "KFold StratifiedKFold ShuffleSplit StratifiedShuffleSplit RepeatedKFold RepeatedStratifiedKFold "
    "train_test_split random_split"
)
_BY_PARAMETER = words("cross_val_score cross_validate cross_val_predict learning_curve fit cv")
_FORECAST, _IS_FORECAST = "time-series-regression", "the task is a forecast"
_OF_TIME = re.compile(r"^(shift|rolling|ewm|expanding|append)$|sequence|window|lag", re.IGNORECASE)


def row_rules(facts: Facts) -> Iterator[Finding]:
    """shuffled-time-series and groups-across-folds."""
    found = sorted(facts.walk.divisions, key=lambda one: facts.script.order.get(one.place, 0))
    yield from _series(facts, found)
    yield from _groups(facts, found)


def _series(facts: Facts, divisions: list[Division]) -> Iterator[Finding]:
    own = facts.script.own.get("SPLIT")
    if own is not None and (own.value == "time" or facts.context.task == _FORECAST):
        if own.value != "time":  # of the branches of its `split` this one runs
            yield finding("shuffled-time-series", own, "own", why=_IS_FORECAST)
        return
    for division in divisions:
        shuffled, why = _shuffled(facts, division), _of_time(facts, division)
        if shuffled is not None and why:
            yield finding("shuffled-time-series", shuffled, why=why)
            return


def _shuffled(facts: Facts, division: Division) -> ast.AST | None:
    kind, maker = _divider(facts, division)
    if maker is None:
        return None
    shuffle = facts.values.argument(maker, "shuffle", 1 if kind.endswith("KFold") else None)
    shuffles = facts.values.one(shuffle) is True
    if kind == "train_test_split":
        return division.place if shuffle is None or shuffles else None
    if kind in ("KFold", "StratifiedKFold"):
        return maker if shuffles else None
    return division.place if kind in ("ShuffleSplit", "StratifiedShuffleSplit", "random_split") else None


def _of_time(facts: Facts, division: Division) -> str:
    """Why rows must not be mixed: a forecast, or rows made of their neighbours in time."""
    metric = metric_of(facts)
    values = metric is not None and metric.family in VALUE_FAMILIES
    if facts.context.task == _FORECAST or (facts.context.task == "time-series" and values):
        return _IS_FORECAST
    series = sorted(division.contents.series, key=lambda node: facts.script.order.get(node, 0))
    made = (n for n in series if not isinstance(n, ast.Call) or _OF_TIME.search(last_name(n.func)))
    line = next((getattr(node, "lineno", 0) for node in made), None)
    return f"line {line} makes them of their neighbours in time" if line is not None else ""


def _divider(facts: Facts, division: Division) -> tuple[str, ast.Call | None]:
    """The class that divides the rows and the call that made it; of a search and of scoring their `cv`."""
    if division.kind not in _BY_PARAMETER:
        return division.kind, division.maker
    call: ast.AST | None = division.place
    if division.kind == "fit" and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        made = facts.training.objects.makers(call.func.value)
        call = next((one for one in made if "Search" in last_name(one.func)), None)
    if not isinstance(call, ast.Call):
        return "", None
    given = facts.values.argument(call, "folds" if division.kind == "cv" else "cv")
    if given is None or facts.values.number(given) is not None:
        return "KFold", call
    made = facts.training.objects.makers(given)
    return (last_name(made[0].func), made[0]) if made else ("", None)


def _groups(facts: Facts, divisions: list[Division]) -> Iterator[Finding]:
    kinds = [(one, *_divider(facts, one)) for one in divisions]
    for division, kind, _ in kinds:
        at = 2 if isinstance(division.place, ast.Call) and last_name(division.place.func) == "split" else None
        if kind not in _IGNORES_GROUPS or not isinstance(division.place, ast.Call):
            continue
        given = facts.values.argument(division.place, "groups", at)
        nothing = isinstance(given, ast.Constant) and given.value is None
        if given is not None and facts.values.one(given) is None and not nothing:
            fix = _fix(division.kind)
            yield finding("groups-across-folds", division.place, "ignored", kind=kind, fix=fix)
            return
    if any("Group" in kind for _, kind, _ in kinds):
        return
    column = group_column(facts)
    for division, kind, _ in kinds if column else ():
        if kind not in _IGNORES_GROUPS or _of_time(facts, division) or _of_groups(division):
            continue
        direct = division.kind in ("train_test_split", "random_split", *_BY_PARAMETER)
        place = division.place if direct or division.maker is None else division.maker
        yield finding("groups-across-folds", place, "rows", column=column, kind=kind, fix=_fix(division.kind))
        return


def _of_groups(division: Division) -> bool:
    """What is split has one row a group already."""
    value = division.contents.rows
    return bool(value) and all(any(step.grouped for step in rows.line()) for rows in value)


def _fix(kind: str) -> str:
    if "Fold" not in kind:
        return "GroupShuffleSplit(n_splits=1, test_size=0.2).split(X, y, groups)"
    return f"{'Stratified' if 'Stratified' in kind else ''}GroupKFold(n_splits=5).split(X, y, groups)"
