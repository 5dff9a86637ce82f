"""Past competitions most like a question."""

from pydantic import Field

from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.schemas.answers.common import Answer


class Signals(Answer):
    """What each opinion thought of it; null where it had none."""

    embedding: float | None = Field(description="Cosine.")
    words: float | None = Field(description="Share of the best full-text score.")
    structure: float | None = Field(description="Share of the known facts that agree.")


class Hit(Answer):
    slug: str
    title: str
    task: str | None
    score: float = Field(description="Chance that it was won in the same ways; 1: the competition itself.")
    signals: Signals
    why: str
    lessons: list[str] = Field(description="Up to three sentences on what its best solutions taught.")


class Similar(Answer):
    """Past competitions, best first."""

    items: list[Hit]
    inferred_task: str | None
    inferred: InferredFacts | None = Field(description="Facts that were read from the text.")
    degraded: bool = Field(description="Without the encoder: by words and structure only.")
    described: str | None = Field(description="The stored competition that the text itself describes.")
    mode: Mode
    reason: str | None = Field(description="Why it is degraded, or there are none.")
