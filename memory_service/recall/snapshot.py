"""What recall keeps in memory of the stored competitions.

One immutable `RecallSnapshot` per state of the knowledge, shared between threads: facts as codes, the
vectors where the database does not search them itself, and how rare words are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.description.phrases import words_of
from memory_service.recall.structure import StructureTable, kind_of
from memory_service.recall.words import DocumentFrequencies, plain, words_worth

Row = Mapping[str, Any]
Vectors = NDArray[np.float32]


class VectorIndex:
    """Unit vectors of passages (P, d), grouped by competition 0..C-1."""

    def __init__(
        self, owners: Sequence[int] | NDArray[np.int64], vectors: Vectors, n_competitions: int
    ) -> None:
        owner = np.asarray(owners, dtype=np.int64)
        order = np.argsort(owner, kind="stable")
        self._vectors = np.ascontiguousarray(vectors[order], dtype=np.float32)
        self.n_competitions = n_competitions
        present, starts = np.unique(owner[order], return_index=True)
        self._present = present
        self._starts = starts

    def __len__(self) -> int:
        return len(self._vectors)

    def scores(self, queries: Vectors) -> Vectors:
        """Cosine per competition (C,): mean over the question's passages of the best; -1 without passages."""
        out = np.full(self.n_competitions, -1.0, dtype=np.float32)
        if not len(self._vectors) or not len(queries):
            return out
        products = self._vectors @ np.asarray(queries, dtype=np.float32).T
        out[self._present] = np.maximum.reduceat(products, self._starts, axis=0).mean(axis=1)
        return out


NEAR_DUPLICATE_COSINE = 0.88
"""Two competitions of one task whose passages are on average closer than this tell the same story. Editions
of the seeded ones reach 0.80-0.88 and are found by name; different competitions of one field stay under
0.83."""

_SAME_NAME = 0.6
_SHARED_NAME = 0.5
_RARITY_SAMPLE = 4_000
_CACHED_TEXTS = 2_000
_EDITION = re.compile(
    r"^(?:\d{1,4}|fgvc\d*|redux|edition|kernels?|only|challenge|competition|the|series|playground|season|part|v\d+|"
    r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|at|ii|iii|iv|icml|mlsp|first|second|third)$"
)


@dataclass(frozen=True)
class RecallSnapshot:
    """All competitions of one knowledge revision; arrays follow the order of the rows.

    state            equal for revisions with the same competitions and passages
    solutions        slug -> its row, those of its winners' solutions, and the words that they add to it
    word_frequencies over all that is known, these included
    """

    revision: int
    state: object
    competitions: tuple[Mapping[str, Any], ...]
    structure: StructureTable
    vectors: VectorIndex | None
    document_frequencies: DocumentFrequencies
    solutions: Mapping[str, tuple[Row, Sequence[Row], frozenset[str]]]
    word_frequencies: DocumentFrequencies

    @classmethod
    def build(
        cls,
        revision: int,
        competitions: Sequence[Mapping[str, Any]],
        *,
        state: object = None,
        owners: Sequence[str] = (),
        vectors: NDArray[np.float32] | None = None,
    ) -> RecallSnapshot:
        """From rows of `competitions` and passage vectors (P, 384) with their owners' slugs."""
        position = {row["slug"]: i for i, row in enumerate(competitions)}
        index = None
        if vectors is not None:
            indexed = [i for i, slug in enumerate(owners) if slug in position]
            index = VectorIndex([position[owners[i]] for i in indexed], vectors[indexed], len(competitions))
        step = max(1, len(competitions) // _RARITY_SAMPLE)
        frequencies = DocumentFrequencies.of(searched_text(row) for row in competitions[::step])
        return cls(
            revision=revision,
            state=state,
            competitions=tuple(competitions),
            structure=StructureTable([kind_of(row) for row in competitions]),
            vectors=index,
            document_frequencies=frequencies,
            solutions={},
            word_frequencies=frequencies,
        )

    @cached_property
    def position(self) -> dict[str, int]:
        """slug -> place in `competitions`."""
        return {row["slug"]: i for i, row in enumerate(self.competitions)}

    @cached_property
    def slugs(self) -> tuple[str, ...]:
        return tuple(str(row["slug"]) for row in self.competitions)

    @cached_property
    def years(self) -> NDArray[np.float64]:
        """Year of each competition (C,), NaN where not known."""
        return np.array([row.get("year") or np.nan for row in self.competitions], dtype=np.float64)

    def plain_text(self, index: int) -> str:
        """The prose of one competition as words are counted in it; cached."""
        cached = self._plain.get(index)
        if cached is None:
            if len(self._plain) >= _CACHED_TEXTS:
                self._plain.clear()
            cached = self._plain[index] = plain(searched_text(self.competitions[index]))
        return cached

    def with_solutions(self, rows: Iterable[Row], before: RecallSnapshot | None) -> RecallSnapshot:
        """The same, with what the winners' solutions say; words of what did not change since `before` are
        kept."""
        of: dict[str, tuple[Row, list[Row]]] = {}
        for row in rows:
            if (place := self.position.get(row["competition"])) is not None:
                of.setdefault(row["competition"], (self.competitions[place], []))[1].append(row)
        known = before.solutions if before is not None else {}
        solutions = {
            slug: known[slug] if slug in known and known[slug][:2] == some else (*some, _added(*some))
            for slug, some in of.items()
        }
        counts = Counter(self.document_frequencies.document_frequency)
        for *_, words in solutions.values():
            counts.update(words)
        frequencies = replace(self.document_frequencies, document_frequency=counts)
        return replace(self, solutions=solutions, word_frequencies=frequencies)

    def known_words(self, index: int) -> frozenset[str]:
        """The words, in the singular, of all that is stored of a competition, its pitfalls and winners
        included; cached."""
        found = self._known.get(index)
        if found is None:
            if len(self._known) >= _CACHED_TEXTS:
                self._known.clear()
            row = self.competitions[index]
            prose = frozenset(words_worth(f"{searched_text(row)} {row.get('pitfalls') or ''}"))
            found = self._known[index] = prose.union(*self.solutions.get(str(row["slug"]), ())[2:])
        return found

    @cached_property
    def _known(self) -> dict[int, frozenset[str]]:
        return {}

    @cached_property
    def _plain(self) -> dict[int, str]:
        return {}

    def family_of(self, index: int, closeness: NDArray[np.float32] | None = None) -> NDArray[np.bool_]:
        """True for the competition and its near-duplicates (C,).

        These are editions by name, and competitions of the same task with `closeness` (cosine to this one's
        passages) of at least `NEAR_DUPLICATE_COSINE`.
        """
        name_words = self.names[index]
        task = self.competitions[index].get("task")
        same_task = np.array([row.get("task") == task for row in self.competitions], dtype=np.bool_)
        alike = np.array([_overlap(name_words, name) >= _SAME_NAME for name in self.names], dtype=np.bool_)
        if closeness is not None:
            alike |= closeness >= NEAR_DUPLICATE_COSINE
        family = alike & same_task
        family[index] = True
        return family

    def share_name(self, one: int, other: int) -> bool:
        """Whether two competitions, or one and itself, may be editions of one, by their names."""
        return one == other or _overlap(self.names[one], self.names[other]) >= _SHARED_NAME

    @cached_property
    def names(self) -> tuple[frozenset[str], ...]:
        """The words of each competition's name without years and editions."""
        return tuple(edition_words(f"{row['slug']} {row.get('title') or ''}") for row in self.competitions)


def edition_words(name: str) -> frozenset[str]:
    """The words of a competition's name without years, months and editions."""
    return frozenset(word for word in words_of(name) if len(word) > 1 and not _EDITION.match(word))


def searched_text(row: Mapping[str, Any]) -> str:
    """The prose of a competition's row, as far as its passages hold it."""
    fields = ("title", "summary", "description", "domain", "metric", "label_structure")
    return " ".join(str(row[name]) for name in fields if row.get(name))


def _added(competition: Row, solutions: Sequence[Row]) -> frozenset[str]:
    """The words of its winners' solutions that its own prose has not."""
    text = " ".join(f"{[row[name] for name in _WORDED]}" for row in solutions)
    return frozenset(words_worth(text).keys() - words_worth(searched_text(competition)).keys())


_WORDED = ("input", "families", "models", "techniques", "features", "what_mattered", "what_failed")


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))
