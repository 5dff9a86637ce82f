"""How to validate: what the hidden test differs in decides, else what similar solutions did."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memory_service.domain.common.estimate import Grade
from memory_service.domain.common.units import percent

if TYPE_CHECKING:  # NumPy stays out of a client that shows plans
    from memory_service.domain.recipe.neighbourhood import Neighbourhood

USUAL_FOLDS = 5
MOST_FOLDS = 10
SPLITS_ADVISED = ("stratified", "group", "stratified-group", "time", "random")
_GROUPED = ("group", "stratified-group")

FEW_AGREE = 0.1
"""Share of similar solutions that is few. Judged."""


@dataclass(frozen=True, slots=True)
class SplitFact:
    """What is known of the way the hidden test differs.

    split    group | time | random; by: what the groups are; folds: where somebody says a number
    because  a sentence that quotes where it is from; source: ids to name, a pattern's or a record's
    firm     False for a record of groups that it does not name: nobody could split by them
    groups   how many groups the rows come from, where somebody says
    """

    split: str
    because: str
    by: str | None = None
    folds: int | None = None
    source: tuple[str, ...] = ()
    firm: bool = True
    groups: int | None = None


@dataclass(frozen=True, slots=True)
class Validation:
    """The split to validate by; `by` says what the groups are or how time is cut; `most_folds` as many as
    there are groups, None where nobody says how many, or one, which cannot be split."""

    split: str
    by: str | None
    folds: int
    why: str
    sources: tuple[str, ...]
    grade: Grade
    most_folds: int | None = None

    def as_dict(self) -> dict[str, Any]:
        split = {"split": self.split, "by": self.by, "folds": self.folds}
        return split | {"why": self.why, "from": list(self.sources), "grade": self.grade}


_UNIT = re.compile(r"[^\W\d][\w-]{0,40}(?: [^\W\d][\w-]{0,40}){0,2}")
_NO_UNIT = re.compile(
    r"\b(?:the|all|an?|is|are|not|after|next|following|later|future|unseen|overlapping|hidden)\b",
    re.IGNORECASE,
)


def unit_named(by: str | None) -> str | None:
    """The column, or noun of what rows are of, that a few words name ("hospital / patient" -> "hospital");
    None for a sentence about the test ("the next 28 days of the same series") and for a column that is not
    in the data ("card holder (not given)")."""
    if by is None or any(sign in by for sign in ("(not", "(hidden", " versus ")):  # train has one side alone
        return None
    first = re.split(r"[;,/(]| and | within | of the ", by, maxsplit=1)[0].strip()
    return first if _UNIT.fullmatch(first) and not _NO_UNIT.search(first) else None


def usual_split(task: str) -> str:
    """What rows of a task are split by where nothing else is known: forecasts are of later rows."""
    if task == "time-series-regression":
        return "time"
    return "stratified" if task.endswith("-classification") else "random"


def decide_validation(near: Neighbourhood, task: str, fact: SplitFact | None) -> Validation:
    """A fact of the case, else the vote of similar solutions, else the usual split of the task. A vote never
    makes groups: nobody could say which rows belong together."""
    shares, sources = _split_votes(near)
    classes = task.endswith("-classification")
    grouped = sum(shares.get(name, 0.0) for name in _GROUPED)
    if fact is not None and fact.groups == 1 and fact.split in _GROUPED:
        fact = None  # training data of one group alone cannot be split by it
    unnamed = "" if fact is None or fact.firm else f" {fact.because} But it names no groups."
    if fact is not None and not unnamed and fact.split in SPLITS_ADVISED:
        split = "stratified" if fact.split == "random" and classes else fact.split
        if split == "group" and classes and shares.get("stratified-group", 0.0) > shares.get("group", 0.0):
            split = "stratified-group"
        agreeing = grouped if split in _GROUPED else shares.get(split, 0.0)
        only = "Only " if agreeing < FEW_AGREE else ""
        also = (
            f" {only}{percent(agreeing)} of similar solutions by weight did so." if agreeing >= 0.005 else ""
        )
        named = tuple(dict.fromkeys((*fact.source, *sources.get(split, ()))))[:3]
        folds, most = fact.folds or _folds(near, split), None
        if split in _GROUPED and fact.groups is not None and fact.groups > 1:
            most = fact.groups
            folds = min(folds, most)
        because = fact.because if fact.because.endswith((".", "!", "?")) else fact.because + "."
        also = " Stratified, each class keeps its share." + also if split != fact.split == "random" else also
        return Validation(split, fact.by, folds, because + also, named, "claimed", most)
    usual = usual_split(task)
    if not shares:
        why = "Nothing similar is known and the text names no groups and no time." + unnamed
        return Validation(usual, None, USUAL_FOLDS, why, (), "estimated")
    split = max(shares, key=lambda name: (shares[name], name))
    did = f"{percent(shares[split])} of similar solutions by weight"
    if split in _GROUPED:
        why = f"{did} kept groups apart, but nobody names any here; if rows belong together, say group_by."
        why += unnamed
        return Validation(usual, None, _folds(near, usual), why, sources[split], "estimated")
    folds, named = _folds(near, split), sources[split]
    why = f"{did} did so; nobody says how the test differs."
    if split == "random" and classes:
        split, why = usual, f"{did} split at random; stratified, each class keeps its share."
    elif usual == "time" != split:
        split, why = usual, f"{did} split otherwise; but a forecast is of later rows than it learns from."
    return Validation(split, None, folds, why + unnamed, named, "estimated")


def _split_votes(near: Neighbourhood) -> tuple[dict[str, float], dict[str, tuple[str, ...]]]:
    shares: dict[str, float] = defaultdict(float)
    users: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for solution, weight in sorted(near.weighed, key=lambda one: -one[1]):
        if solution.split in SPLITS_ADVISED:
            shares[solution.split] += weight
            users[solution.split] = (*users[solution.split], solution.id)[:3]
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}, users


def _folds(near: Neighbourhood, split: str) -> int:
    """The weighted median of the folds of solutions that split so; five where none says."""
    said = sorted(
        (solution.folds, weight)
        for solution, weight in near.weighed
        if solution.folds and 2 <= solution.folds <= MOST_FOLDS and solution.split == split
    )
    half, total = sum(weight for _, weight in said) / 2.0, 0.0
    for folds, weight in said:
        total += weight
        if total >= half:
            return folds
    return USUAL_FOLDS
