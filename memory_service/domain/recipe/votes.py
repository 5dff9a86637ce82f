"""What similar solutions used: shares, lift over the base rate, and the solutions behind each."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from math import exp, log

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.recipe.neighbourhood import Neighbourhood
from memory_service.domain.recipe.solution import Solution

PRIOR = 3.0
"""Competitions that the base rate counts for: one near neighbour alone says little. 3 to 8 find about the
same (docs/methods/memory.md)."""

SOURCES = 3
"""Solutions named beside each share."""

NEVER_ADVISED = frozenset({"other", "leak-exploit", "public-lb"})


@dataclass(frozen=True, slots=True)
class Vote:
    """What similar winning solutions used.

    share     expected share of winners that use it: that of the similar solutions by weight, drawn to the
              modality's base rate as by `PRIOR` competitions more; so are names that none of them used (n 0)
    lift      share / base rate, None where nobody of the modality used it
    n         how many of these solutions, each of another team, used it; sources: the weightiest of them
    runs      what runs of the very competition here say of it
    confirmed year of the latest of these competitions that was won with it; refuted_by: solutions among these
              that say that it failed
    """

    name: str
    share: float
    lift: float | None
    n: int
    sources: tuple[str, ...]
    runs: str | None = None
    confirmed: int | None = None
    refuted_by: tuple[str, ...] = ()


def votes(near: Neighbourhood, field: str, base: Mapping[str, float]) -> list[Vote]:
    """The names of one field of `Solution` (families, techniques, loss), most used first.

    Within a competition only the solutions count that say something of the field; together they weigh what
    their competition weighs.
    """
    said = [(solution, weight) for solution, weight in near.weighed if getattr(solution, field)]
    whole: dict[str, float] = defaultdict(float)
    by_competition: dict[str, float] = defaultdict(float)
    for solution, weight in near.weighed:
        whole[solution.competition] += weight
    for solution, weight in said:
        by_competition[solution.competition] += weight
    total = sum(whole[slug] for slug in by_competition)
    effective = total**2 / sum(whole[slug] ** 2 for slug in by_competition) if by_competition else 0.0
    prior = PRIOR if base else 0.0
    shares: dict[str, float] = defaultdict(float)
    users: dict[str, list[tuple[float, str]]] = defaultdict(list)
    years: dict[str, int] = {}
    for solution, weight in said:
        part = weight * whole[solution.competition] / by_competition[solution.competition]
        for name in getattr(solution, field):
            if name not in NEVER_ADVISED:
                shares[name] += part / total
                users[name].append((-part, solution.id))
                years[name] = max(years.get(name, 0), solution.year or 0)
    found = []
    for name in {**base, **shares}.keys() - NEVER_ADVISED if shares else ():
        drawn = (effective * shares[name] + prior * base.get(name, 0.0)) / (effective + prior)
        lift = drawn / base[name] if base.get(name) else None
        sources = tuple(source for _, source in sorted(users[name])[:SOURCES])
        found.append(Vote(name, drawn, lift, len(users[name]), sources, confirmed=years.get(name) or None))
    return sorted(found, key=lambda vote: (-vote.share, vote.name))


def refuted(near: Neighbourhood, found: Iterable[Vote]) -> tuple[Vote, ...]:
    """The votes, each with the nearest solutions that name it among what failed."""
    failed = [(one.id, " ".join(one.what_failed).lower()) for one in near.solutions if one.what_failed]
    out = []
    for vote in found:
        name = "[- ]?".join(map(re.escape, vote.name.split("-")))
        word = re.compile(rf"\b{name}\b")
        by = (solution for solution, text in failed if word.search(text))
        out.append(replace(vote, refuted_by=tuple(islice(by, SOURCES))))
    return tuple(out)


def base_rates(solutions: Iterable[Solution], field: str) -> dict[str, float]:
    """Name -> share of the solutions that say anything of the field and used it, competitions equal."""
    by_competition: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for solution in solutions:
        if getattr(solution, field):
            by_competition[solution.competition].append(getattr(solution, field))
    rates: dict[str, float] = defaultdict(float)
    for used in by_competition.values():
        for name in chain.from_iterable(used):
            rates[name] += 1.0 / len(used)
    return {name: rate / len(by_competition) for name, rate in rates.items()}


def typical(near: Neighbourhood, field: str) -> tuple[int, int] | None:
    """(weighted geometric mean of a size that similar solutions used, their number); None where none says
    it."""
    known = [(size, weight) for solution, weight in near.weighed if (size := getattr(solution, field))]
    if not known:
        return None
    total = sum(weight for _, weight in known)
    return round(exp(sum(weight * log(size) for size, weight in known) / total)), len(known)


def sentences(near: Neighbourhood, field: str, most: int) -> list[dict[str, str | list[str]]]:
    """What the nearest solutions said in words, one of each competition first: [{"text", "from": [id]}]."""
    seen: set[str] = set()
    rounds: dict[str, int] = {}
    ordered: list[tuple[int, int, str, str]] = []
    for place, solution in enumerate(near.solutions):
        for text in getattr(solution, field):
            key = text.strip().lower()
            if key not in seen:
                seen.add(key)
                turn = rounds[solution.competition] = rounds.get(solution.competition, -1) + 1
                ordered.append((turn // 2, place, text, solution.id))
    ordered.sort(key=lambda entry: entry[:2])
    return [{"text": one_line(text), "from": [source]} for _, _, text, source in ordered[:most]]
