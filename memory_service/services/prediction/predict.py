"""Largest batch, peak memory, speed, knee and the curve of a model on a card.

    predict(database, {"model": "resnet50", "gpu": "a100", "batch_size": 128})          one answer as a dict
    predict_many(database, [question, ...])                                             up to 10 000 of them

A model that nobody profiled is traced once and cached; asking writes nothing to the database.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.cost.data_loader import loader_settings
from memory_service.domain.cost.decoders.packing import check_packing
from memory_service.domain.cost.multi_gpu import cards_of, check_link, check_sharding
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.domain.planning.model_catalogue import check_options
from memory_service.domain.prediction.device_host import device_loader
from memory_service.domain.prediction.device_memory import largest_batch, peak_memory
from memory_service.errors import FieldError, InvalidInput, TooLarge, wrong_value
from memory_service.schemas.predict import MOST_QUESTIONS, PredictRequest, sizing_question
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import still_wanted
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.prediction.prepared import Prepared, fit_answer, in_room, prepare
from memory_service.services.prediction.requested_profile import (
    MOST_TRACES,
    TraceBudget,
    requested_model,
    requested_profile,
    requested_size,
)

MOST_CACHED = 20_000

SLOWLY_READ = 50.0
"""Pictures a second of one core: about 700 px a side. Above it most people's loaders keep up."""

Asked = PredictRequest | Mapping[str, Any]


def predict(database: Database, asked: Asked) -> dict[str, Any]:
    """The answer to one question; InvalidInput for an unknown model, card or value."""
    return _answer(knowledge_of(database), sizing_question(asked), TraceBudget(MOST_TRACES))


def predict_known(knowledge: Knowledge, asked: Asked, traces: int = 0) -> dict[str, Any]:
    """The same of a snapshot and without the curve, in well under a millisecond: a model that would have to
    be traced first is InvalidInput, past as many as `traces`."""
    return _answer(knowledge, sizing_question(asked), TraceBudget(traces), curve=False)


def predict_many(database: Database, questions: Sequence[Asked]) -> Iterator[dict[str, Any]]:
    """The answers in order, one at a time: together they may be 100 MB. A bad question ends them with a
    refusal that says which; over 10 000 are TooLarge."""
    if len(questions) > MOST_QUESTIONS:
        raise TooLarge(f"At most {MOST_QUESTIONS} questions in one request, got {len(questions)}")
    knowledge, budget = knowledge_of(database), TraceBudget(MOST_TRACES)
    for index, asked in enumerate(questions):
        still_wanted()
        try:
            answer = _answer(knowledge, sizing_question(asked), budget)
        except InvalidInput as error:
            where = [
                FieldError(f"{index}.{e.field}" if e.field else f"{index}", e.message, e.given, e.nearest)
                for e in error.errors
            ]
            raise InvalidInput(f"Question {index}: {error.detail}", where) from error
        yield answer


def _answer(
    knowledge: Knowledge, question: PredictRequest, budget: TraceBudget, *, curve: bool = True
) -> dict[str, Any]:
    answer = _priced(knowledge, question, budget, curve)
    words = (
        sentence("name-read", words=each) for each in knowledge.words_on_names([question.gpu], question.model)
    )
    warnings = [*words, *answer["warnings"]]
    return {**answer, "warnings": warnings, "reasons": [each.as_dict() for each in warnings]}


def _priced(
    knowledge: Knowledge, question: PredictRequest, budget: TraceBudget, curve: bool
) -> dict[str, Any]:
    stated, name = counted(question.gpu)
    gpu = with_cores(knowledge.gpu(name), question.cpu_count)
    if question.n_gpus is not None and stated not in (1, question.n_gpus):
        raise wrong_value("n_gpus", f"is {stated} by the name of the card", question.n_gpus)
    n_gpus = question.n_gpus or stated
    check_link(gpu, n_gpus, question.interconnect)
    cards = cards_of(gpu, n_gpus, question.interconnect)
    row, name = requested_model(knowledge, question.model)
    check_options(question.model_dump(exclude_none=True), row, name)
    writes = question.mode != "infer" and not question.n_classes
    check_packing(question.packing, question.text_tokens, writes=writes)
    check_sharding(1 if question.mode == "infer" else n_gpus, question.sharding)
    if row is not None and not row.can_be_profiled:
        return fit_answer(row, question, gpu)
    precision = question.precision or gpu.preferred_precision()
    key = (
        name,
        requested_size(question, row),
        f"{gpu.key}:{gpu.extra.get('cores')}",
        precision,
        question.layout,
        question.optimizer or "adamw",
        question.mode or "train",
        question.method, question.lora_rank, question.gradient_checkpointing, question.n_classes, cards,
        question.sharding, question.trainer, question.packing, question.text_tokens,
    )  # fmt: skip

    def make() -> Prepared:
        kind = precision_class(precision)
        whole = spread = requested_profile(knowledge, question, row, name, kind, budget)
        if question.sharding == "fsdp" and cards.n > 1:
            spread = requested_profile(knowledge, question, row, name, kind, budget, cards.n)
        return prepare(gpu, whole, spread, question, precision, cards)

    prepared = knowledge.cards.caches.stored(Prepared, key, make, MOST_CACHED)
    answer = _at_batch(prepared, question, curve=curve)
    if gpu.kind == "cuda" and prepared.profile.input_kind == "image_size":
        task = row.tasks[0] if row else "image"
        answer |= _loader(prepared, answer, task, question.cpu_count)
    return answer


def _loader(prepared: Prepared, answer: dict[str, Any], task: str, cores: int | None) -> dict[str, Any]:
    """How many cores must read samples to keep the card at its pace; said where those told are too few, and
    of large pictures where none are told."""
    pace, size = answer["samples_per_second"]["value"], prepared.profile.input_size
    one = device_loader(task, size, 1, 1, prepared.gpu)
    needed = one.reciprocal(pace)
    workers = int(loader_settings(cores, task)["num_workers"]) if cores else 0
    read = device_loader(task, size, workers, cores or 1, prepared.gpu)
    said: list[Sentence] = []
    if read.value < pace and (cores or one.value < SLOWLY_READ):
        values = {"pace": pace, "workers": workers, "read": read.value, "low": read.low, "high": read.high}
        said.append(sentence("loader-slower", **values, needed=ceil(needed.value)))
    return {"loader_cores": needed.as_dict(), "warnings": [*answer["warnings"], *said]}


def _at_batch(prepared: Prepared, question: PredictRequest, *, curve: bool) -> dict[str, Any]:
    """The answer at the batch asked for; without one, at the knee within what fits safely."""
    batch = question.batch_size or prepared.begin
    profile, gpu, config = prepared.profile, prepared.gpu, prepared.config
    if batch == prepared.begin:
        step, peak = prepared.first
    else:
        step, peak = prepared.step.step_seconds(batch), peak_memory(profile, batch, gpu, config).driver_gib
    fits = batch <= prepared.most or (
        batch <= largest_batch(profile, gpu, config, ladder=None, confidence="p50")
    )
    most = max(batch, prepared.most) if fits else prepared.most
    peak = in_room(peak, batch, prepared.safe, most, gpu)
    together = batch * prepared.together
    answer = {
        **prepared.fixed,
        **({"curve": prepared.curve} if curve else {}),
        "basis": prepared.step.basis,
        "batch_size": batch,
        "fits": fits,
        "peak_memory_gib": peak.as_dict(),
        "samples_per_second": step.reciprocal(together).as_dict(),
        "step_seconds": step.as_dict(),
    }
    if question.n_train:
        answer["n_train"] = question.n_train
        answer["epoch_seconds"] = step.scaled(ceil(question.n_train / together)).as_dict()
    if not fits:
        answer["would_fit"] = _closest(prepared, batch)
    if prepared.refused is not None and batch >= prepared.refused:
        warning = sentence("batch-ran-out", batch=prepared.refused, gpu=gpu.key)
        answer["warnings"] = [*prepared.fixed["warnings"], warning]
    return answer


def _closest(prepared: Prepared, batch: int) -> dict[str, Any]:
    """What would fit instead of a batch that does not."""
    if not prepared.most:
        return {"why": prepared.smallest}
    steps = -(-batch // prepared.most)
    why = f"{prepared.most} samples fit; {steps} such steps per update keep about {batch}"
    return {"batch_size": prepared.most, "grad_accumulation": steps, "why": why}
