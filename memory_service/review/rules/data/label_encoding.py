"""Categories numbered anew for rows of prediction: labels-reencoded."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding
from memory_service.review.interpretation.state import Coding
from memory_service.review.interpretation.value import Rows
from memory_service.review.rules.data.class_order import listed_twice, listed_unordered, recoded

_LATER = re.compile(
    r"(^|[_\W])(test|tst|valid|val|validation|submission|submit|sub|pred|predict|unseen|holdout|hold_out|new|"
    r"fresh|future|infer|inference|score|dev|eval|public|private|unlabell?ed|te|va|today|week)([_\W\d]|$)",
    re.IGNORECASE,
)
_SHARED_CODES = ("CategoricalDtype", "set_categories", "union_categoricals")


def code_rules(facts: Facts) -> Iterator[Finding]:
    """labels-reencoded: classes listed in two orders, or codes made of other rows alone."""
    yield from [*listed_twice(facts), *listed_unordered(facts)] or _recoded(facts)


def _recoded(facts: Facts) -> Iterator[Finding]:
    """The first place that numbers rows of prediction after those of training."""
    if facts.script.called(*_SHARED_CODES):
        return
    aligned = bool(facts.script.called("reindex", "align"))
    kinds: dict[str, list[Coding]] = defaultdict(list)
    for coding in facts.walk.codings:
        if coding.unconditional and coding.rows and not (coding.what == "get_dummies" and aligned):
            kinds[coding.what].append(coding)
    for what, codings in kinds.items():
        for at, later in enumerate(codings):
            columns = {later.columns} - {None}
            before = (one for one in codings[:at] if one.place is later.place or one.columns in columns)
            if any(_is_anew(facts, one, later) for one in before):
                message = f"{what} numbers these rows by themselves, after those of training: the same code "
                fix = "fit it on the training rows once; transform both"
                yield recoded(later.place, message + "stands for another category there.", fix)
                return


def _is_anew(facts: Facts, one: Coding, later: Coding) -> bool:
    """The later coding is of rows of prediction, or another encoder for the same column beside the first."""
    if _is_later(one.rows, later.rows, alike=later.present):
        return True
    if later.present or _roots(one.rows) & _roots(later.rows):
        return False
    home, coders = facts.script.function, (one.coder, later.coder)
    fitted = coders[0] is not coders[1] and None not in coders and home(one.place) is home(later.place)
    return fitted or one.place is later.place


def _is_later(first: frozenset[Rows], later: frozenset[Rows], *, alike: bool) -> bool:
    """Rows of validation beside those of training, or a file of prediction beside that of training; with
    `alike` of one file only."""
    roots = _roots(first), _roots(later)
    if roots[0] & roots[1]:
        parts = {rows.part for rows in first}, {rows.part for rows in later}
        parents = {rows.parent for rows in first}, {rows.parent for rows in later}
        return parts == ({"train"}, {"valid"}) and parents[0] == parents[1]
    if alike:
        return False
    named = [any(_LATER.search(root.name) for root in side) for side in roots]
    return named == [False, True]


def _roots(rows: frozenset[Rows]) -> set[Rows]:
    return {list(one.line())[-1] for one in rows}
