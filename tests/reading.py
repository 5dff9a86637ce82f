"""What tests read of a description by its words, without the encoder's vectors."""

from memory_service.domain.description.task_inference import InferredFacts, facts_and_tasks
from memory_service.recall.task_classifier import task_classifier


def read_alone(text: str) -> InferredFacts:
    """Task, metric and figures of a description."""
    return facts_and_tasks(text, task_classifier().given(None))[0]
