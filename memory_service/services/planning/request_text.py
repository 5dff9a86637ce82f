"""The description of a question read, and the competitions like it, before any fact is assumed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memory_service.domain.common.vocabulary import TASK_ALIASES, modality_of
from memory_service.domain.description.metric_resolution import ANSWERS, measure_of
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.domain.planning.model_catalogue import CatalogueModel, can_answer
from memory_service.domain.planning.request import Question
from memory_service.domain.quality.quality_model import quality_kind
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.recall.encoder import load_encoder
from memory_service.services.competitions.signals import read_text
from memory_service.services.competitions.similar import Found, recall, with_lessons
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.outcomes import outcomes_and_results
from memory_service.store.queries import outcomes

SHOWN = 5


@dataclass(frozen=True, slots=True)
class RequestText:
    """What the description says and which competitions are like it.

    facts      read from the text; completed from `described`, the stored competition that the text describes
    said       read from the text alone
    found      neighbours; None where the facts of the case decide them
    database   where those neighbours are looked up
    tasks      probability of each task by the text alone; language: of the text, ISO 639-1 or "other"
    """

    facts: InferredFacts | None = None
    said: InferredFacts | None = None
    described: str | None = None
    found: Found | None = None
    database: Database | None = None
    tasks: Mapping[str, float] = field(default_factory=dict)
    language: str = "en"

    def neighbours(self, question: Question, task: str, n_train: int) -> Found:
        """Those of the text or the named competition, else those of the bare facts."""
        if self.found is not None or self.database is None:
            return self.found or Found(())
        facts = {"task": task, "n_train": n_train, "n_classes": question.n_classes}
        with self.database.read() as transaction:
            mode, as_of = question.mode, question.as_of
            found = recall(transaction, task=question.task, facts=facts, limit=SHOWN, mode=mode, as_of=as_of)
            return replace(found, hits=with_lessons(transaction, found.hits))

    def outcomes(self, question: Question, task: str) -> tuple[Mapping[str, Any] | None, Mapping[str, float]]:
        """What came of runs of the very competition, and what models reached there; nothing but in mode open,
        and not as of a year."""
        slug = question.competition or self.described
        if slug is None or self.database is None or question.mode != "open" or question.as_of is not None:
            return None, {}
        with self.database.read() as transaction:
            return outcomes_and_results(transaction, slug, quality_kind(task).table)

    def tallies(self, slug: str | None, without: Iterable[str]) -> Mapping[str, Tally]:
        """Memory -> what runs say of it: those of a competition, else all but those of some."""
        if self.database is None:
            return {}
        with self.database.read() as transaction:
            if slug:
                return outcomes.compared_in(transaction.session, f"competition:{slug}")
            return outcomes.tallies(transaction.session, [f"competition:{name}" for name in without])


NOTHING_READ = RequestText()


def read_request_text(database: Database, question: Question) -> RequestText:
    """The description read and the neighbours of text or competition found, before any fact is assumed."""
    text = question.description
    if text is None and question.competition is None:
        return RequestText(database=database)
    if text is None and question.task is None and question.mode == "open":
        text = _untold(database, str(question.competition))
    read = read_text(text, load_encoder().encoder) if text is not None else None
    given = {"n_train": question.n_train, "n_classes": question.n_classes, "metric": question.metric}
    with database.read() as transaction:
        task = task_asked(question, read.facts if read else None)
        facts = {name: value for name, value in given.items() if value is not None}
        found = recall(
            transaction, read=read, competition=question.competition, task=task, facts=facts, limit=SHOWN,
            mode=question.mode, as_of=question.as_of,
        )  # fmt: skip
        found = replace(found, hits=with_lessons(transaction, found.hits))
    if read is None:
        return RequestText(found.facts, None, found.described, found, database)
    return RequestText(
        found.facts, read.facts, found.described, found, database, read.task_probability, read.language
    )


def _untold(database: Database, slug: str) -> str | None:
    """The description of a stored competition without a task, which says what it asks for."""
    with database.read() as transaction:
        snapshot = recall_snapshot(transaction)
    place = snapshot.position.get(slug)
    row = None if place is None else snapshot.competitions[place]
    return str(row["description"]) if row and not row.get("task") and row.get("description") else None


def task_asked(
    question: Question, said: InferredFacts | None, model: CatalogueModel | None = None
) -> str | None:
    """The task as asked; where only a modality was, the one of it that the text asks for, else the usual: a
    regression where the metric judges values alone; the model's own where it serves no such task."""
    task = question.task and TASK_ALIASES.get(question.task, question.task)
    if task is None or task == question.task:
        return task
    if said is not None and said.task is not None and modality_of(said.task) == question.task:
        return said.task
    metric = question.metric or (said.metric if said else None)
    other = task.replace("classification", "regression")
    values = metric and measure_of(metric, "values") and not measure_of(metric, "labels")
    usual = other if values and other in ANSWERS else task
    if model is None or can_answer(model, usual):
        return usual
    return next((each for each in model.tasks if modality_of(each) == question.task), usual)
