"""Groups that rows of a description come in; `recall.split_classifier` reads what it says of the split."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from memory_service.domain.description.phrases import singular
from memory_service.domain.description.quantities import KIND_OF, Quantity

Stated = dict[str, tuple[Any, str]]
"""Name of a fact -> its value, and the words of the text it was read from."""

TELLS, ASKS = 0.8, 0.4
"""Probabilities of a fitted reading from which it is taken, and from which it is asked about."""


@dataclass(frozen=True, slots=True)
class Separation:
    """A clause that may say how test differs from training: group | time | random, how likely it says so,
    and the unit whose rows stay together."""

    split: str
    probability: float
    clause: str
    unit: str | None = None


DESCRIBED_BY = re.compile(r"\bdescribed by (?:about |some )?$", re.IGNORECASE)

_WHO = "|".join(f"{noun}s?" for noun, kind in KIND_OF.items() if kind == "group" and noun[-1] not in "yh") + (
    "|cities|countries|people|families|bodies|companies|factories|laboratories|batches|molecules?|recordings?|"
    "scenes?|games?|plays?|passages?|authors?|breaths?|fragments?|products?|queries|videos?|slides?|scaffolds?|"
    "compounds?|proteins?|streets?|sessions?"
)
_SEVERAL = re.compile(
    rf"\b(?:several|many|multiple|more than one|two or more|up to \w+|a few|dozens of"
    rf"|repeated)[^.;,]{{0,30}}\b(?:per|of the "
    rf"same|from the same|for (?:each|every)|(?:of|from) (?:each|every|one|an?)|by each) (?P<a>{_WHO})\b"
    rf"|\b(?P<b>{_WHO})[^.;,]{{0,25}}\b(?:appears? in|has|have|"
    rf"contribute\w*|gave|is shown in|occur in|with) (?:several|many|multiple|more than one|two or more|up "
    rf"to)\b|"
    rf"\b(?P<c>{_WHO}), (?:several|more than one)\b|\bsame (?P<d>{_WHO})\b[^.;]{{0,40}}\b(?:several|again"
    rf"|more than once|twice)",
    re.IGNORECASE,
)


def one_figure(
    name: str, found: Sequence[Quantity], chosen: Callable[[set[int]], int] | None = None
) -> Stated:
    """The one figure that all of these about agree on, the first of them, or the `chosen` one."""
    values = {round(q.value) for q in found}
    if not values or (chosen is None and max(values) > _ALIKE * min(values)):
        return {}
    value = chosen(values) if chosen else round(found[0].value)
    return {name: (value, next(q.words for q in found if round(q.value) == value))}


_ALIKE = 1.15
"""Figures no further apart are one, rounded or of two editions of the data."""


def groups_in(found: Sequence[Quantity], text: str, stated: Stated) -> Stated:
    """The groups that rows come in and how many: "several each", or fewer of them than of rows."""
    rows = stated.get("n_train", (0, ""))
    of_rows = [
        q
        for before, q in pairwise(found)
        if q.of_rows
        and q.role != "test"
        and q.value < (rows[0] or before.value)
        and q.value != stated.get("n_classes", (0, ""))[0]
        and not DESCRIBED_BY.search(q.before)
    ]
    if not of_rows and (match := _SEVERAL.search(text)):
        by = unit_in_singular(next(each for each in match.groupdict().values() if each))
        return {"group_by": (by, match[0]), **n_groups(found, by)}
    fewer = of_rows or [
        q
        for q in found
        if q.kind == "group" and q.value >= 2 and q.role != "test" and not q.each
        and q.words != rows[1] and q.value * _ROWS_PER_GROUP <= rows[0]
    ]  # fmt: skip
    if not fewer:
        return {}
    first = fewer[0]
    by = unit_in_singular(first.noun)
    return {"n_groups": (round(first.value), first.words), "group_by": (by, first.words)}


def n_groups(found: Sequence[Quantity], by: str) -> Stated:
    """How many there are of a unit to learn from."""
    told = [q for q in found if q.value >= 2 and not q.each and q.role != "test"]
    return one_figure("n_groups", [q for q in told if unit_in_singular(q.noun) == by], max)


_ROWS_PER_GROUP = 1.5


def unit_in_singular(word: str) -> str:
    word = word.lower().removesuffix("'s")
    return _IRREGULAR.get(word, singular(word))


_IRREGULAR = {
    "people": "person", "women": "woman", "men": "man", "children": "child",
    "series": "series", "species": "species",
}  # fmt: skip
