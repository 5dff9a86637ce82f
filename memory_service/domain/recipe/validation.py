"""How to validate: what the hidden test differs in decides, else what similar solutions did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.estimate import Grade
from memory_service.domain.recipe.neighbourhood import Neighbourhood

USUAL_FOLDS = 5
MOST_FOLDS = 10
SPLITS_ADVISED = ("stratified", "group", "stratified-group", "time", "random")
_GROUPED = ("group", "stratified-group")


@dataclass(frozen=True, slots=True)
class SplitFact:
    """What is known of the way the hidden test differs.

    split    group | time | random; by: what the groups are; folds: where somebody says a number
    because  a sentence that quotes where it is from; source: ids to name, a pattern's or a record's
    """

    split: str
    because: str
    by: str | None = None
    folds: int | None = None
    source: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validation:
    """The split to validate by; `by` says what the groups are or how time is cut."""

    split: str
    by: str | None
    folds: int
    why: str
    sources: tuple[str, ...]
    grade: Grade

    def as_dict(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "by": self.by,
            "folds": self.folds,
            "why": self.why,
            "from": list(self.sources),
            "grade": self.grade,
        }


def decide_validation(near: Neighbourhood, task: str, fact: SplitFact | None) -> Validation:
    """A fact of the case, else the vote of similar solutions, else the usual split of the task."""
    shares, sources = _split_votes(near)
    classes = task.endswith("-classification")
    if fact is not None and fact.split in ("group", "time", *_GROUPED):
        split = fact.split
        if split == "group" and classes and shares.get("stratified-group", 0.0) > shares.get("group", 0.0):
            split = "stratified-group"
        agreeing = sum(shares.get(name, 0.0) for name in (_GROUPED if split in _GROUPED else (split,)))
        also = f" {agreeing:.0%} of similar solutions by weight did so." if agreeing >= 0.005 else ""
        named = tuple(dict.fromkeys((*fact.source, *sources.get(split, ()))))[:3]
        folds = fact.folds or _folds(near, split)
        because = fact.because if fact.because.endswith((".", "!", "?")) else fact.because + "."
        return Validation(split, fact.by, folds, because + also, named, "claimed")
    if shares:
        split = max(shares, key=lambda name: (shares[name], name))
        did = f"{shares[split]:.0%} of similar solutions by weight"
        folds, named = _folds(near, split), sources[split]
        why = f"{did} did so; nobody says how the test differs."
        if split in _GROUPED:
            why = f"{did} did so, where rows come in groups; nobody says how the test differs."
        elif split == "random" and classes:
            split, why = "stratified", f"{did} split at random; stratified, each class keeps its share."
        return Validation(split, None, folds, why, named, "estimated")
    split = "stratified" if classes else "random"
    why = "Nothing similar is known and the text names no groups and no time."
    return Validation(split, None, USUAL_FOLDS, why, (), "estimated")


def _split_votes(near: Neighbourhood) -> tuple[dict[str, float], dict[str, tuple[str, ...]]]:
    shares: dict[str, float] = {}
    users: dict[str, list[str]] = {}
    for solution, weight in sorted(zip(near.solutions, near.weights, strict=True), key=lambda x: -x[1]):
        if solution.split in SPLITS_ADVISED:
            shares[solution.split] = shares.get(solution.split, 0.0) + weight
            users.setdefault(solution.split, []).append(solution.id)
    total = sum(shares.values())
    return (
        {name: share / total for name, share in shares.items()},
        {name: tuple(ids[:3]) for name, ids in users.items()},
    )


def _folds(near: Neighbourhood, split: str) -> int:
    """The weighted median of the folds of solutions that split so; five where none says."""
    said = sorted(
        (solution.folds, weight)
        for solution, weight in zip(near.solutions, near.weights, strict=True)
        if solution.folds and 2 <= solution.folds <= MOST_FOLDS and solution.split == split
    )
    half, total = sum(weight for _, weight in said) / 2.0, 0.0
    for folds, weight in said:
        total += weight
        if total >= half:
            return folds
    return USUAL_FOLDS
