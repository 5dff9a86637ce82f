"""All winning solutions of one knowledge revision, ready to be counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from memory_service.domain.recipe.recipe import FIELDS
from memory_service.domain.recipe.solution import Solution
from memory_service.domain.recipe.votes import base_rates
from memory_service.services.tables.usable_rows import usable

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SolutionMemory:
    """All solutions of one knowledge revision.

    by_competition   slug -> solutions, best rank first; competitions: slug -> row
    """

    by_competition: Mapping[str, tuple[Solution, ...]]
    competitions: Mapping[str, Row]
    _base: dict[tuple[str, int | None, int | None], dict[str, dict[str, float]]] = field(default_factory=dict)
    _read: Mapping[str, tuple[int | None, list[Row]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, solutions: Sequence[Row], competitions: Mapping[str, Row], before: SolutionMemory | None = None
    ) -> SolutionMemory:
        """What did not change since `before` is kept."""
        read: dict[str, tuple[int | None, list[Row]]] = {}
        for row in solutions:
            slug = row["competition"]
            read.setdefault(slug, (competitions.get(slug, {}).get("year"), []))[1].append(row)
        before = before or cls({}, {})
        if read == before._read and competitions is before.competitions:
            return before
        ordered = {
            slug: before.by_competition[slug] if before._read.get(slug) == of else _ranked(*of)
            for slug, of in read.items()
        }
        return cls(ordered, competitions, _read=read)

    def without(self, slug: str) -> SolutionMemory:
        """The same with one competition's solutions left out."""
        rest = {name: some for name, some in self.by_competition.items() if name != slug}
        return SolutionMemory(rest, self.competitions)

    def known(self, as_of: int | None) -> int:
        """Number of solutions, those of competitions after a year left out."""
        return sum(len(self.by_competition[slug]) for slug in self._slugs(as_of))

    def base(self, modality: str, as_of: int | None, since: int | None = None) -> dict[str, dict[str, float]]:
        """Field -> name -> share among the solutions of a modality. since: the first year that counts."""
        key = (modality, as_of, since)
        if key not in self._base:
            slugs = [s for s in self._slugs(as_of) if self.competitions[s].get("modality") == modality]
            slugs = [s for s in slugs if since is None or (self.competitions[s].get("year") or 0) >= since]
            some = [solution for slug in slugs for solution in self.by_competition[slug]]
            self._base[key] = {name: base_rates(some, name) for name in FIELDS}
        return self._base[key]

    def families_of_task(self, task: str, as_of: int | None) -> set[str]:
        """Every family that solutions of competitions of the task used."""
        slugs = [slug for slug in self._slugs(as_of) if self.competitions[slug].get("task") == task]
        return {family for slug in slugs for one in self.by_competition[slug] for family in one.families}

    def _slugs(self, as_of: int | None) -> list[str]:
        return [
            slug
            for slug in self.by_competition
            if slug in self.competitions
            and (as_of is None or (self.competitions[slug].get("year") or as_of + 1) <= as_of)
        ]


def _ranked(year: int | None, rows: Sequence[Row]) -> tuple[Solution, ...]:
    every = usable("solutions", ({**row, "year": year} for row in rows))[0]
    return tuple(sorted(every, key=attrgetter("rank")))
