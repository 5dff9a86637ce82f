"""Rules on validation rows that were used before they were set apart, found by the walk."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding


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
        line = getattr(place, "lineno", 0)
        if learned.kind == "target":
            yield finding(
                "target-statistics-before-split",
                learned.place,
                "A mean of the target over all rows becomes a feature; the split comes at line "
                f"{line}, so each row of validation carries its own answer.",
                "means = train_part.groupby(key)[target].mean()  # within each fold, then .map(means)",
            )
        elif learned.what:
            yield finding(
                "fit-before-split",
                learned.place,
                f"{learned.what} is fitted on all rows; the split comes at line {line}, so validation has "
                "been seen.",
                "split first; fit on the training rows and transform both parts, or a Pipeline",
            )
        else:
            yield finding(
                "fit-before-split",
                learned.place,
                f"Mean and deviation are of all rows; the split comes at line {line}.",
                "mean, std = X_train.mean(0), X_train.std(0)  # of the training rows, for both parts",
            )
