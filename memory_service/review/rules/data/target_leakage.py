"""Features that hold the answer: target-in-features."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.interpretation.selection import all_of
from memory_service.review.interpretation.state import Fed

MOST_INPUTS = 20


def target_rules(facts: Facts) -> Iterator[Finding]:
    """target-in-features: the first column of each script that is the answer, or computed from it."""
    for fed in (part for whole in facts.walk.fed for part in _parts(whole)):
        for column, place in _telling(fed):
            yield finding(
                "target-in-features",
                place,
                f"The features hold {column!r}, which is the target or made from it: "
                "the score is perfect and worth nothing.",
                f"X = df.drop(columns=[{column!r}])",
            )
            return


def _parts(fed: Fed) -> list[Fed]:
    """Inputs side by side: `model.fit({"numeric": X, "shop": shop}, y)`, `model.fit([X, shop], y)`."""
    held = fed.features
    inputs = [*(held.keys or {}).values(), *(held.items or ())][:MOST_INPUTS]
    return [replace(fed, features=one) for one in inputs] or [fed]


def _telling(fed: Fed) -> Iterator[tuple[str, ast.AST]]:
    """(column, where) that tells the answer."""
    features, answer = fed.features, fed.answer
    target = _target(fed)
    known = features.whole or (features.columns is not None and len(features.columns) > 1)
    if target is None or not known or not all_of(features.rows) & all_of(answer.rows):
        return
    source = answer.reads - {target} if not answer.series else set()  # tomorrow's value is not today's
    told = {target} | (source if len(source) == 1 else set())

    def inside(column: str) -> bool:
        if features.columns is not None:
            return column in features.columns
        return features.whole and column not in features.gone

    if features.columns is None and not features.gone and not fed.final:
        return  # a whole table is divided, its columns are chosen later
    for name, held in sorted(features.attrs.items(), key=lambda one: getattr(one[1].place, "lineno", 0)):
        column = name[1:-1]
        if column not in told and column != "?" and inside(column) and held.reads & told:
            yield column, held.place or fed.place
    for column in sorted(told):
        if inside(column):
            yield column, features.place or fed.place


def _target(fed: Fed) -> str | None:
    """The column that is the answer."""
    for names in (fed.answer.columns, fed.answer.reads):
        if names is not None and len(names) == 1:
            return next(iter(names))
    return None
