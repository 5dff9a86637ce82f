"""Largest batch, peak memory, speed, knee and the curve of a model on a card.

    predict(database, {"model": "resnet50", "gpu": "a100", "batch_size": 128})          one answer as a dict
    predict_many(database, [question, ...])                                             up to 10 000 of them

A model that nobody profiled is traced once and cached; asking writes nothing to the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

from memory_service.domain.common.estimate import Estimate, Grade
from memory_service.domain.cost.batch_ladder import BATCH_LADDER
from memory_service.domain.cost.decoders.packing import check_packing, texts_per_row
from memory_service.domain.cost.multi_gpu import (
    Cards,
    cards_of,
    check_link,
    check_sharding,
    profile_on,
    step_on,
)
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.cost.step_config import StepConfig, layout_of, precision_class
from memory_service.domain.cost.step_time import StepModel
from memory_service.domain.cost.throughput_knee import throughput_knee
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.domain.learning.batch_bounds import Bounds
from memory_service.domain.planning.model_catalogue import check_options
from memory_service.domain.prediction.device import TargetDevice, provenance_warnings
from memory_service.domain.prediction.device_memory import (
    Confidence,
    largest_batch,
    observed_bounds,
    peak_memory,
)
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.domain.prediction.peak_memory_curve import driver_peaks
from memory_service.errors import FieldError, InvalidInput, TooLarge, wrong_value
from memory_service.schemas.predict import MOST_QUESTIONS, PredictRequest, sizing_question
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.prediction.fit_answer import fit_answer, where
from memory_service.services.prediction.requested_profile import (
    MOST_TRACES,
    TraceBudget,
    requested_model,
    requested_profile,
    requested_size,
)

MOST_CACHED = 20_000
LARGEST_SHOWN = 4096
"""The curve stops here for models that would fit more: no plan uses such a batch."""

Asked = PredictRequest | Mapping[str, Any]


def predict(database: Database, asked: Asked) -> dict[str, Any]:
    """The answer to one question; InvalidInput for an unknown model, card or value."""
    return _answer(knowledge_of(database), sizing_question(asked), TraceBudget(MOST_TRACES))


def predict_known(knowledge: Knowledge, asked: Asked, traces: int = 0) -> dict[str, Any]:
    """The same of a snapshot and without the curve, in well under a millisecond: a model that would have to
    be traced first is InvalidInput, past as many as `traces`."""
    return _answer(knowledge, sizing_question(asked), TraceBudget(traces), curve=False)


def predict_many(database: Database, questions: Sequence[Asked]) -> list[dict[str, Any]]:
    """The answers in order. A bad question refuses the list and says which; over 10 000 are TooLarge."""
    if len(questions) > MOST_QUESTIONS:
        raise TooLarge(f"At most {MOST_QUESTIONS} questions in one request, got {len(questions)}")
    knowledge, budget = knowledge_of(database), TraceBudget(MOST_TRACES)
    answers = []
    for index, asked in enumerate(questions):
        try:
            answers.append(_answer(knowledge, sizing_question(asked), budget))
        except InvalidInput as error:
            where = [
                FieldError(f"{index}.{e.field}" if e.field else f"{index}", e.message, e.given, e.nearest)
                for e in error.errors
            ]
            raise InvalidInput(f"Question {index}: {error.detail}", where) from error
    return answers


@dataclass(frozen=True)
class _Prepared:
    """Everything of an answer that does not depend on the batch asked for; begin: the batch of who asks for
    none, with its step and its peak; texts: of packed ones in a row, 1.0 where each has its own."""

    profile: Profile
    gpu: TargetDevice
    config: StepConfig
    step: StepModel
    most: int
    safe: int
    knee: int
    cards: Cards
    fixed: Mapping[str, Any]
    smallest: str | None
    refused: int | None
    begin: int
    texts: float
    first: tuple[Estimate, Estimate]

    @cached_property
    def curve(self) -> list[dict[str, Any]]:
        """The ladder up to the first batch that does not fit."""
        shown = [b for b in BATCH_LADDER if b <= min(self.most, LARGEST_SHOWN)]
        shown += [b for b in BATCH_LADDER if b > self.most][:1]
        peaks = driver_peaks(self.profile, shown, self.gpu, self.config)
        return [
            {
                "batch_size": batch,
                "peak_memory_gib": _in_room(peak, batch, self.safe, self.most, self.gpu).as_dict(),
                "samples_per_second": self.step.step_seconds(batch)
                .reciprocal(batch * self.cards.n * self.texts)
                .as_dict(),
                "fits": batch <= self.most,
            }
            for batch, peak in zip(shown, peaks, strict=True)
        ]


def _answer(
    knowledge: Knowledge, question: PredictRequest, budget: TraceBudget, *, curve: bool = True
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
    check_packing(
        question.packing, question.text_tokens, writes=question.mode != "infer" and not question.n_classes
    )
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
        question.sharding, question.packing, question.text_tokens,
    )  # fmt: skip

    def make() -> _Prepared:
        kind = precision_class(precision)
        whole = spread = requested_profile(knowledge, question, row, name, kind, budget)
        if question.sharding == "fsdp" and cards.n > 1:
            spread = requested_profile(knowledge, question, row, name, kind, budget, cards.n)
        return _prepare(whole, spread, gpu, precision, question, cards)

    prepared = knowledge.cards.caches.stored(_prepare, key, make, MOST_CACHED)
    return _at_batch(prepared, question, curve=curve)


def _prepare(
    whole: Profile,
    spread: Profile,
    gpu: TargetDevice,
    precision: str,
    question: PredictRequest,
    cards: Cards,
) -> _Prepared:
    """whole: of the model on one card; spread: of what one of the cards holds, the same without sharding."""
    profile, sharded = spread, spread is not whole
    layout, mode = question.layout or layout_of(profile, gpu), question.mode or "train"
    training = mode == "train"
    if training and not sharded:
        profile = profile_on(profile, cards)
    texts = texts_per_row(profile.input_size, question.text_tokens, question.packing)
    optimizer = "none" if mode == "infer" else question.optimizer or "adamw"
    config = StepConfig(precision, layout, optimizer, mode)

    def most(confidence: Confidence) -> int:
        return largest_batch(profile, gpu, config, confidence=confidence)

    step = prepare(whole if sharded else profile, gpu, config)
    if training:
        step = step_on(step, profile, cards)
    value, safe, best = most("p50"), most("p90"), most("p10")
    knee = throughput_knee(step.seconds_many, value) if value else 0
    bounds = observed_bounds(profile, gpu, config)
    fixed = {
        "model": profile.model,
        profile.input_kind: profile.input_size,
        **where(gpu),
        "warnings": [*provenance_warnings([gpu]), *_not_in_hardware(gpu, precision)],
        "precision": precision,
        "layout": layout,
        "optimizer": optimizer,
        "mode": mode,
        **_settings(profile, cards),
        **({"sharding": "fsdp"} if sharded else {}),
        **({"texts_per_row": round(texts, 2)} if texts > 1.0 else {}),
        "max_batch_size": _largest(value, safe, best, bounds),
        "safe_batch_size": safe,
        "knee_batch_size": knee or None,
    }
    begin = max(1, min(knee, safe))
    return _Prepared(
        profile, gpu, config, step, value, safe, knee, cards, fixed,
        _what_would_fit(value, gpu, bounds), bounds.refused,
        begin, texts, (step.step_seconds(begin), peak_memory(profile, begin, gpu, config).driver_gib),
    )  # fmt: skip


def _settings(profile: Profile, cards: Cards) -> dict[str, Any]:
    """How a decoder is tuned, and how many cards work together."""
    said: dict[str, Any] = {"gradient_checkpointing": profile.checkpointing}
    if "method" in profile.extra:
        said |= {"method": profile.extra["method"], "lora_rank": profile.extra["lora_rank"]}
    if cards.n > 1:
        said |= {"n_gpus": cards.n, "interconnect": cards.link}
    return said


def _largest(value: int, safe: int, best: int, bounds: Bounds) -> dict[str, Any]:
    """The largest batch: computed, or observed to run."""
    basis, n = "trace against usable memory", bounds.out_of_memories
    if bounds.proven:
        basis, n = f"{basis}; batch {bounds.proven} ran", n + 1
    if bounds.refused is not None:
        basis = f"{basis}; batch {bounds.refused} ran out of memory"
    grade: Grade = "measured" if 0 < value <= bounds.proven else "estimated"
    return Estimate(float(value), float(safe), float(best), grade, n, basis).as_dict()


def _not_in_hardware(gpu: TargetDevice, precision: str) -> list[str]:
    """By the data sheet, as /recommend refuses it."""
    if gpu.kind != "cuda" or not gpu.tflops or gpu.supports(precision):
        return []
    better = gpu.preferred_precision()
    return [f"{gpu.name} has no {precision} in hardware: /recommend refuses it there; use {better}."]


def _at_batch(prepared: _Prepared, question: PredictRequest, *, curve: bool) -> dict[str, Any]:
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
    peak = _in_room(peak, batch, prepared.safe, most, gpu)
    together = batch * prepared.cards.n * prepared.texts
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
        warning = f"Batch {prepared.refused} of this case ran out of memory on {gpu.key}."
        answer["warnings"] = [*prepared.fixed["warnings"], warning]
    return answer


def _in_room(peak: Estimate, batch: int, safe: int, most: int, gpu: TargetDevice) -> Estimate:
    """The peak of a batch that is expected to fit (`most`) is at most what a process can use: the law of the
    peak is of cards with room to spare, and where memory is tight the allocator gives back what it keeps.
    Above `safe` the interval still reaches beyond."""
    room = gpu.usable_gib
    if batch > most or (peak.value if batch > safe else peak.high) <= room:
        return peak
    value = min(peak.value, room)
    high = room if batch <= safe else peak.high
    return replace(
        peak, value=value, low=min(peak.low, value), high=high, basis=f"{peak.basis}; fits {room:.3g} GiB"
    )


def _closest(prepared: _Prepared, batch: int) -> dict[str, Any]:
    """What would fit instead of a batch that does not."""
    if not prepared.most:
        return {"why": prepared.smallest}
    steps = -(-batch // prepared.most)
    return {
        "batch_size": prepared.most,
        "grad_accumulation": steps,
        "why": f"{prepared.most} samples fit; {steps} such steps per update keep about {batch}",
    }


def _what_would_fit(most: int, gpu: TargetDevice, bounds: Bounds) -> str | None:
    if most:
        return None
    if bounds.refused is not None:
        return (
            f"batch {bounds.refused} ran out of memory on {gpu.key}: a larger card, a smaller input or model"
        )
    return f"not even one sample fits {gpu.usable_gib:g} GiB: a larger card, a smaller input or model"
