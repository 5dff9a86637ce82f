"""The answer of /similar: text read, neighbours with their reasons and what their best solutions taught.

The task of a text is inferred on its own, not by its neighbours' votes. Without an encoder the words and the
structure go on and the answer says `degraded`. Asking writes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any

from sqlalchemy import select

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.description.phrases import READ_CHARACTERS
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.recall.encoder import LoadedEncoder, load_encoder
from memory_service.schemas.similar import DEFAULT_LIMIT, SimilarRequest
from memory_service.services.competitions.neighbours import Found, Hit, recall
from memory_service.services.competitions.signals import read_text
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.store.queries import outcomes
from memory_service.store.tables.knowledge import Competition, Pattern, Solution


@dataclass(frozen=True, slots=True)
class SimilarAnswer:
    """Neighbours, best first, with what was understood of the question.

    `described` is the stored competition that the text itself describes; `reason` says why there are no
    items or why the answer is `degraded`.
    """

    items: tuple[Hit, ...]
    inferred: InferredFacts | None
    described: str | None
    degraded: bool
    mode: Mode
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The wire form of `/similar`."""
        task, inferred = (self.inferred.task, self.inferred.as_dict()) if self.inferred else (None, None)
        found = {"items": [hit.as_dict() for hit in self.items], "inferred_task": task, "inferred": inferred}
        return found | {name: getattr(self, name) for name in ("described", "degraded", "mode", "reason")}


def similar(
    database: Database, question: SimilarRequest, encoder: LoadedEncoder | None = None
) -> SimilarAnswer:
    """The answer of `/similar`; `encoder` is the process's own unless given. NotFound for an unknown
    competition."""
    loaded, mode = encoder or load_encoder(), question.mode or "open"
    read = read_text(question.text, loaded.encoder) if question.text is not None else None
    with database.read() as transaction:
        limit, task = question.limit or DEFAULT_LIMIT, question.task
        found = recall(
            transaction, read=read, competition=question.competition, task=task, limit=limit, mode=mode
        )
        nothing = question.task is None and _nothing_alike(found)
        hits = () if nothing else with_lessons(transaction, found.hits)
    degraded = loaded.encoder is None
    reason = f"Of the text the first {READ_CHARACTERS} characters were read." if _too_long(question) else None
    reason = loaded.reason if degraded else reason
    if mode == "blind":
        reason = "mode=blind: no competition memory is used"
    facts = found.facts
    if nothing and facts is not None:
        facts = replace(facts, task=None, confidence=0.0, runner_up=None, modality=None)
        reason = NOTHING_ALIKE if mode != "blind" else reason
    return SimilarAnswer(hits, facts, found.described, degraded, mode, reason)


LEAST_SCORE = 0.15
"""Texts that tell no task ("hello") share at most 0.06 with anything."""

SOME_TASK = 0.15
"""Texts of no task at all are given any at 0.13 at most, "photos of dogs" at 0.22."""

NOTHING_ALIKE = (
    "nothing alike is stored, and the text does not tell a task: say what goes in and what comes out"
)


def _too_long(question: SimilarRequest) -> bool:
    return len(question.text or "") > READ_CHARACTERS


def _nothing_alike(found: Found) -> bool:
    """Whether the text tells no task and nothing stored is much like it."""
    best = max((hit.score for hit in found.hits), default=0.0)
    return found.facts is not None and found.facts.confidence < SOME_TASK and best < LEAST_SCORE


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
