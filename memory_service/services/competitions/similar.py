"""What does `/similar` answer? A question checked, its text read, the neighbours with their reasons.

The task of a text is inferred on its own, not by its neighbours' votes. Without an encoder the words and the
structure go on and the answer says `degraded`. Asking writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.vocabulary import MODES, Mode, parse_task
from memory_service.domain.description.inference import InferredFacts
from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.recall.encoder import LoadedEncoder, load_encoder
from memory_service.services.competitions.neighbours import Hit, read_text, recall
from memory_service.services.database.transactions import Database

__all__ = [
    "MAX_LIMIT",
    "SimilarAnswer",
    "SimilarQuestion",
    "parse_similar_question",
    "similar",
]

MAX_LIMIT = 100


@dataclass(frozen=True, slots=True)
class SimilarQuestion:
    """Either a `text` or the slug of a known `competition`; `task` overrules what the text suggests."""

    text: str | None = None
    competition: str | None = None
    task: str | None = None
    limit: int = 5
    mode: Mode = "open"


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
        return {
            "items": [hit.as_dict() for hit in self.items],
            "inferred_task": self.inferred.task if self.inferred else None,
            "inferred": self.inferred.as_dict() if self.inferred else None,
            "described": self.described,
            "degraded": self.degraded,
            "mode": self.mode,
            "reason": self.reason,
        }


def parse_similar_question(given: Mapping[str, Any]) -> SimilarQuestion:
    """The question from untyped fields; InvalidInput for anything unknown, out of range, missing or blank."""
    known = ("text", "competition", "task", "limit", "mode")
    for name in given:
        if name not in known:
            raise unknown_name("field", str(name), known)
    text, competition = given.get("text"), given.get("competition")
    for field, value in (("text", text), ("competition", competition)):
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise InvalidInput(f"{field} is empty", [FieldError(field, "must hold text", value)])
    if (text is None) == (competition is None):
        message = "give either text or competition" + (", not both" if text is not None else "")
        raise InvalidInput(message, [FieldError("text", message)])
    mode = str(given.get("mode") or "open")
    if mode not in MODES:
        raise unknown_name("mode", mode, MODES)
    task = given.get("task")
    return SimilarQuestion(
        text=text,
        competition=competition.strip() if competition is not None else None,
        task=parse_task(str(task)) if task is not None else None,
        limit=_limit(given.get("limit", 5)),
        mode=mode,  # type: ignore[arg-type]
    )


def similar(
    database: Database, question: SimilarQuestion, encoder: LoadedEncoder | None = None
) -> SimilarAnswer:
    """The answer of `/similar`; `encoder` is the process's own unless given. NotFound for an unknown
    competition."""
    loaded = encoder or load_encoder()
    read = read_text(question.text, loaded.encoder) if question.text is not None else None
    with database.read() as transaction:
        found = recall(
            transaction,
            read=read,
            competition=question.competition,
            task=question.task,
            limit=question.limit,
            mode=question.mode,
        )
    degraded = loaded.encoder is None
    reason = loaded.reason if degraded else None
    if question.mode == "blind":
        reason = "mode=blind: no competition memory is used"
    return SimilarAnswer(found.hits, found.facts, found.described, degraded, question.mode, reason)


def _limit(given: Any) -> int:
    try:
        value = int(given) if not isinstance(given, bool) and float(given) == int(float(given)) else None
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None or not 1 <= value <= MAX_LIMIT:
        message = f"limit must be a whole number from 1 to {MAX_LIMIT}"
        raise InvalidInput(message, [FieldError("limit", "out of range", given)])
    return value
