"""What the best solutions of a competition taught, in at most three sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from sqlalchemy import select

from memory_service.domain.common.quoted_text import one_line
from memory_service.services.competitions.neighbours import Hit
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import ReadTransaction
from memory_service.store.queries import outcomes
from memory_service.store.tables.knowledge import Competition, Pattern, Solution

MOST_LESSONS = 3


def with_lessons(transaction: ReadTransaction, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits, each with its lessons."""
    lessons = lessons_of(transaction, [hit.slug for hit in hits])
    return tuple(replace(hit, lessons=lessons.get(hit.slug, ())) for hit in hits)


def lessons_of(transaction: ReadTransaction, slugs: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Slug -> sentences: one of each kind first, in the order of `_KINDS`; of a kind the best rank first.

    What failed begins with "Failed:" and what trips people with "Pitfall:", for neither is advice. A pattern
    that runs followed and fared worse with, or one of a competition of which that holds, is left out. At one
    revision those of a competition are read once.
    """
    known = _known(transaction)
    missing = [slug for slug in slugs if slug not in known]
    if missing:
        known.update(_read(transaction, missing))
    return {slug: known[slug] for slug in slugs}


def _known(transaction: ReadTransaction) -> dict[str, tuple[str, ...]]:
    """Lessons by competition, of the latest revision that was asked for."""
    return transaction.caches.latest(_known, recall_snapshot(transaction).revision, dict)


def _read(transaction: ReadTransaction, slugs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, list[str]]] = {slug: {kind: [] for kind in _KINDS} for slug in slugs}
    best = select(Solution.competition, Solution.what_mattered, Solution.what_failed)
    best = best.where(Solution.competition.in_(slugs)).order_by(Solution.rank, Solution.id)
    for slug, mattered, failed in transaction.session.execute(best):
        found[slug]["mattered"] += map(one_line, mattered)
        found[slug]["failed"] += [f"Failed: {one_line(text)}" for text in failed]
    pitfalls = select(Competition.slug, Competition.pitfalls).where(Competition.slug.in_(slugs))
    for slug, pitfall in transaction.session.execute(pitfalls):
        found[slug]["pitfalls"] += [f"Pitfall: {one_line(pitfall)}"] if pitfall else []
    columns = (Pattern.id, Pattern.competition, Pattern.statement, Pattern.origin, Pattern.corrected)
    patterns = select(*columns).where(Pattern.competition.in_(slugs)).order_by(Pattern.id)
    rows = transaction.session.execute(patterns).all()
    worse = _ranked_down(transaction, [f"pattern:{row.id}" for row in rows], slugs)
    for name, slug, statement, origin, corrected in rows:
        if slug is not None and not {f"pattern:{name}", f"competition:{slug}"} & worse:
            found[slug]["written here" if origin == "user" or corrected else "shipped"].append(
                one_line(statement)
            )
    return {slug: _first(list(kinds.values())) for slug, kinds in found.items()}


_KINDS = ("written here", "mattered", "failed", "pitfalls", "shipped")


def _ranked_down(transaction: ReadTransaction, patterns: Sequence[str], slugs: Sequence[str]) -> set[str]:
    """Of these memories those that plans rank down, too (`domain.runs.pattern_effect`)."""
    subjects = [*patterns, *(f"competition:{slug}" for slug in slugs)]
    tallies = outcomes.tallies_of(transaction.session, subjects)
    return {subject for subject, tally in tallies.items() if tally.demoted}


def _first(kinds: Sequence[Sequence[str]]) -> tuple[str, ...]:
    turns = chain.from_iterable(zip_longest(*kinds))
    return tuple(dict.fromkeys(sentence for sentence in turns if sentence))[:MOST_LESSONS]
