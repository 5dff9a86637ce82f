"""What tests read of a description by its words, without the encoder's vectors."""

from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.task_inference import InferredFacts, facts_and_tasks
from memory_service.recall.count_classifier import count_classifier
from memory_service.recall.task_classifier import task_classifier


def read_alone(text: str) -> InferredFacts:
    """Task, metric and figures of a description."""
    return facts_and_tasks(text, task_classifier().given(None))[0]


def counts_alone(text: str) -> InferredFacts:
    """The same, with the numbers of samples and of classes, of a text in any language that is read."""
    text = in_english(text, language_of(text))
    return count_classifier().judged(read_alone(text), text)
