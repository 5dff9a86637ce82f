"""fit-before-split, target-statistics-before-split and target-in-features: rows used before they were set
apart, and features that hold the target."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.interpretation.state import Supervised
from memory_service.review.interpretation.value import all_of


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
