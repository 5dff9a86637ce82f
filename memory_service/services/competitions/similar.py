"""The answer of /similar: text read, neighbours with their reasons.

The task of a text is inferred on its own, not by its neighbours' votes. Without an encoder the words and the
structure go on and the answer says `degraded`. Asking writes nothing.
"""

from dataclasses import dataclass, replace
from typing import Any

from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.description.phrases import READ_CHARACTERS
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.recall.encoder import LoadedEncoder, load_encoder
from memory_service.schemas.similar import DEFAULT_LIMIT, SimilarRequest
from memory_service.services.competitions.lessons import with_lessons
from memory_service.services.competitions.neighbours import Found, Hit, recall
from memory_service.services.competitions.signals import read_text
from memory_service.services.database.transactions import Database


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
