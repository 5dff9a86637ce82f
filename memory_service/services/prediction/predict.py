"""Largest batch, peak memory, speed, knee and the curve of a model on a card.

    predict(database, {"model": "resnet50", "gpu": "a100", "batch_size": 128})          one answer as a dict
    predict_many(database, [question, ...])                                             up to 10 000 of them

A model that nobody profiled is traced once and cached; asking writes nothing to the database.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from memory_service.domain.common.estimate import Estimate, Grade
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import FRAMES_A_SECOND, SIZE_TYPICAL_N_TRAIN, modality_of
from memory_service.domain.cost import boosted_trees
from memory_service.domain.cost.data_loader import loader_settings
from memory_service.domain.cost.decoders.packing import check_packing, texts_per_row
from memory_service.domain.cost.in_context import (
    context_laws,
    context_memory,
    context_seconds,
    passed_limit,
    rows_read,
)
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
from memory_service.domain.cost.step_time import StepModel, step_model
from memory_service.domain.cost.throughput_knee import BATCH_LADDER, throughput_knee
from memory_service.domain.hardware.gpu_spec import counted
from memory_service.domain.learning.batch_bounds import Bounds
from memory_service.domain.learning.observation import prediction_key
from memory_service.domain.planning.fits import split_of
from memory_service.domain.planning.model_catalogue import CatalogueModel, check_options
from memory_service.domain.prediction import device_memory
from memory_service.domain.prediction.device import TargetDevice, provenance_warnings
from memory_service.domain.prediction.device_host import device_fit, device_loader
from memory_service.domain.prediction.device_memory import largest_batch, peak_memory
from memory_service.domain.prediction.device_step_time import learned_step, rates_of
from memory_service.domain.prediction.peak_memory_curve import driver_peaks
from memory_service.errors import FieldError, InvalidInput, TooLarge, wrong_value
from memory_service.schemas.predict import MOST_QUESTIONS, PredictRequest, sizing_question
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import still_wanted
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.prediction.requested_profile import (
    MOST_TRACES,
    TraceBudget,
    requested_model,
    requested_profile,
    requested_size,
)

LARGEST_SHOWN = 4096
"""The curve stops here for models that would fit more: no plan uses such a batch."""


@dataclass(frozen=True)
class Prepared:
    """profile: of what one of the cards holds; together: samples of a step for each of a card's batch;
    begin: the batch of who asks for none, with its step and its peak (`first`); drawn: the curve, once
    somebody saw it."""

    profile: Profile
    config: StepConfig
    together: float
    gpu: TargetDevice
    step: StepModel
    most: int
    safe: int
    fixed: dict[str, Any]
    smallest: str | None
    refused: int | None
    begin: int
    first: tuple[Estimate, Estimate]
    drawn: list[list[dict[str, Any]]] = field(default_factory=list)

    @property
    def curve(self) -> list[dict[str, Any]]:
        """The ladder up to the first batch that does not fit."""
        if not self.drawn:
            self.drawn.append(self._curve())
        return self.drawn[0]

    def _curve(self) -> list[dict[str, Any]]:
        shown = [b for b in BATCH_LADDER if b <= min(self.most, LARGEST_SHOWN)]
        shown += [b for b in BATCH_LADDER if b > self.most][:1]
        peaks = driver_peaks(self.profile, shown, self.gpu, self.config)
        return [
            {
                "batch_size": batch,
                "peak_memory_gib": in_room(peak, batch, self.safe, self.most, self.gpu).as_dict(),
                "samples_per_second": self.step.step_seconds(batch)
                .reciprocal(batch * self.together)
                .as_dict(),
                "fits": batch <= self.most,
            }
            for batch, peak in zip(shown, peaks, strict=True)
        ]


def prepare(
    gpu: TargetDevice, whole: Profile, spread: Profile, question: PredictRequest, precision: str, cards: Cards
) -> Prepared:
    """whole: the profile of the model on one card; spread: of what one of the cards holds, the same object
    without sharding."""
    profile, sharded, mode = spread, spread is not whole, question.mode or "train"
    layout = question.layout or layout_of(profile, gpu)
    if mode == "train" and not sharded:
        profile = profile_on(profile, cards)
    optimizer = "none" if mode == "infer" else question.optimizer or "adamw"
    config = StepConfig(precision, layout, optimizer, mode)
    timed, rates = whole if sharded else profile, rates_of(gpu, config)
    texts = texts_per_row(profile.input_size, question.text_tokens, question.packing)

    def most(confidence: device_memory.Confidence) -> int:
        return device_memory.largest_batch(profile, gpu, config, confidence=confidence)

    step = step_model(timed, rates, config)
    step = learned_step(step, gpu.learned, rates, prediction_key(timed, gpu, config))
    if mode == "train":
        step = step_on(step, profile, cards)
    value, safe, best = most("p50"), most("p90"), most("p10")
    knee = throughput_knee(step.seconds_many, value) if value else 0
    bounds = device_memory.observed_bounds(profile, gpu, config)
    logits = profile.extra.get("logits_bytes", 0.0) / 2**30
    fixed = {
        "model": profile.model,
        profile.input_kind: profile.input_size,
        **where(gpu),
        "warnings": [
            *provenance_warnings([gpu]),
            *_not_in_hardware(gpu, config.precision),
            *device_memory.extrapolation_warnings(profile),
            *([sentence("logits-kept", more=logits)] if question.trainer == "unsloth" and logits else ()),
        ],
        **{name: getattr(config, name) for name in ("precision", "layout", "optimizer", "mode")},
        **_settings(profile, cards),
        **({"sharding": "fsdp"} if sharded else {}),
        **({"trainer": question.trainer} if question.trainer else {}),
        **({"texts_per_row": round(texts, 2)} if texts > 1.0 else {}),
        "max_batch_size": _largest(value, safe, best, bounds),
        "safe_batch_size": safe,
        "knee_batch_size": knee or None,
    }
    begin = max(1, min(knee, safe))
    return Prepared(
        profile, config, cards.n * texts, gpu, step, value, safe, fixed,
        _what_would_fit(value, gpu, bounds), bounds.refused,
        begin, (step.step_seconds(begin), device_memory.peak_memory(profile, begin, gpu, config).driver_gib),
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


def _not_in_hardware(gpu: TargetDevice, precision: str) -> list[Sentence]:
    """By the data sheet, as /recommend refuses it."""
    if gpu.kind != "cuda" or not gpu.tflops or gpu.supports(precision):
        return []
    better = gpu.preferred_precision()
    return [sentence("not-in-hardware", gpu=gpu.name, precision=precision, better=better)]


def in_room(peak: Estimate, batch: int, safe: int, most: int, gpu: TargetDevice) -> Estimate:
    """The peak of a batch that is expected to fit (`most`) is at most what a process can use: the law of the
    peak is of cards with room to spare, and where memory is tight the allocator gives back what it keeps.
    Above `safe` the interval still reaches beyond."""
    room = gpu.usable_gib
    if batch > most or (peak.value if batch > safe else peak.high) <= room:
        return peak
    value = min(peak.value, room)
    high = room if batch <= safe else peak.high
    basis = f"{peak.basis}; fits {room:.3g} GiB"
    return replace(peak, value=value, low=min(peak.low, value), high=high, basis=basis)


def _what_would_fit(most: int, gpu: TargetDevice, bounds: Bounds) -> str | None:
    if most:
        return None
    why = f"not even one sample fits {gpu.usable_gib:g} GiB"
    if bounds.refused is not None:
        why = f"batch {bounds.refused} ran out of memory on {gpu.key}"
    return f"{why}: a larger card, a smaller input or model"


USUAL_ROUNDS = 500


def where(gpu: TargetDevice) -> dict[str, Any]:
    """The card, the device if it is one, and the calibration behind the figures."""
    calibration = gpu.provenance.as_dict() if gpu.provenance else None
    named = {"gpu": gpu.slug, "device": gpu.device or None, "calibration": calibration}
    return named | {"warnings": provenance_warnings([gpu])}


def fit_answer(row: CatalogueModel, question: PredictRequest, gpu: TargetDevice) -> dict[str, Any]:
    """The answer for a model that is fitted as a whole; InvalidInput where no law of its cost is known."""
    kind = boosted_trees.cost_kind(row.name, row.library, row.family)
    if kind is None:
        detail = f"{row.name} is in the catalogue for what it is good for; nobody gave its cost"
        raise wrong_value("model", "has no profile and no cost law", row.name, detail=detail)
    law = context_laws().get(kind)
    most = law.limits.get("rows") if law else None
    rows = question.n_train or min(most or 10**9, SIZE_TYPICAL_N_TRAIN["medium"])
    steps = question.seq_len if row.input_kind == "seq_len" else None
    columns = steps or question.n_features or row.default_input_size
    given = {"rows": rows, "columns": columns, "classes": question.n_classes}
    if row.input_kind == "n_features" and (passed := passed_limit(row.name, **given)):
        raise wrong_value("model", passed, row.name, detail=f"{row.name} {passed}")
    cores = question.cpu_count or int(gpu.extra.get("cores", 8))  # type: ignore[call-overload]
    rounds = question.rounds or USUAL_ROUNDS
    read = rows_read(kind, rows)
    asked = kind, row.name, read, columns, question.n_classes or 1
    cost = device_fit(*asked, rounds=rounds, cpu_count=cores, device=gpu)
    if law is not None and gpu.kind == "cuda":
        fit, each = context_seconds(kind, read, columns, max(gpu.tflops.values()))
        cost = replace(cost, fit_seconds=fit, predict_seconds_per_row=each)
    used = {"n_train": rows, "n_features": columns, "rounds": rounds}
    used |= {} if "cores" in gpu.extra else {"cpu_count": cores}
    passes = rounds if boosted_trees.grows_trees(kind) else 1
    on_card, peak = None, Estimate(0.0, 0.0, 0.0, basis=boosted_trees.no_device_memory(row.name))
    held: Estimate | None = peak
    if gpu.kind == "cuda" and law is not None:
        regression = not question.n_classes
        peak = held = context_memory(kind, read, read // 2, columns, regression=regression)
    elif gpu.kind == "cuda" and kind in boosted_trees.CARD_BYTES:  # one split, as a plan begins
        trained = int(split_of(rows, 1)[0])
        data = trained, rows - trained, columns, question.n_classes or 1
        held = boosted_trees.card_peak(kind, *data, gpu.usable_gib)
    if gpu.kind == "cpu":
        peak = cost.memory_gib
    if gpu.kind == "cuda" and held is not None and law is None:
        peak = held
        on_card = boosted_trees.fit_on_card(
            kind, rows, columns, question.n_classes or 1, rounds, gpu.bandwidth_gb_s
        )
    return {
        "model": row.name, **where(gpu), "n_features": columns, "n_train": rows,
        "assumed": [f"{name} {value}" for name, value in used.items() if getattr(question, name) is None],
        "cpu_count": cores, "rounds": rounds, "fits": peak.high <= gpu.usable_gib or gpu.kind != "cuda",
        "max_batch_size": None, "knee_batch_size": None, "curve": [], "peak_memory_gib": peak.as_dict(),
        "host_memory_gib": cost.memory_gib.as_dict(), "fit_seconds": cost.fit_seconds.as_dict(),
        **({"card_fit_seconds": on_card.as_dict()} if on_card else {}),
        "samples_per_second": cost.fit_seconds.reciprocal(float(rows * passes)).as_dict(),
        "step_seconds": None, "predict_seconds_per_row": cost.predict_seconds_per_row.as_dict(),
        "basis": cost.fit_seconds.basis,
    }  # fmt: skip


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
    if curve and question.mode != "infer" and "batch_size" not in answer.get("would_fit", {"batch_size": 1}):
        answer["would_fit"] = {"why": answer["would_fit"]["why"] + _saving(knowledge, question)}
    words = (
        sentence("name-read", words=each) for each in knowledge.words_on_names([question.gpu], question.model)
    )
    warnings = [*words, *answer["warnings"]]
    return {**answer, "warnings": warnings, "reasons": [each.as_dict() for each in warnings]}


_SAVE_MEMORY: tuple[dict[str, Any], ...] = (
    {"gradient_checkpointing": True}, {"trainer": "liger"}, {"trainer": "unsloth"},
    {"method": "lora", "trainer": "unsloth"}, {"method": "qlora", "trainer": "unsloth"},
)  # fmt: skip
"""Settings by which the same model and input may fit, those that change least first."""


def _saving(knowledge: Knowledge, question: PredictRequest) -> str:
    """The first settings with which a batch of one fits that else does not, as the end of a sentence; ""
    where there are none. Nothing is traced for it."""
    for settings in _SAVE_MEMORY:
        changed = {name: value for name, value in settings.items() if getattr(question, name) != value}
        said = ", ".join(f"{name}={str(value).lower()}" for name, value in changed.items())
        try:
            asked = question.model_copy(update=changed | {"batch_size": None})
            answer = _priced(knowledge, asked, TraceBudget(0), curve=False)
        except InvalidInput as error:
            if "not profiled" in error.detail and changed:
                return f", or {said} (not traced here)"
            continue
        if answer["fits"]:
            return f", or {said}, with which batch {answer['max_batch_size']['value']:g} fits"
    return ""


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
    if question.audio_hours is not None:  # in clips of what the model reads at once
        frames = requested_size(question, row) or 1
        if row is None or modality_of(row.tasks[0]) != "audio":
            raise wrong_value("audio_hours", "this model reads no sounds", question.audio_hours)
        clips = ceil(question.audio_hours * 3600 * FRAMES_A_SECOND / frames)
        question = question.model_copy(update={"n_train": clips})
    writes = question.mode != "infer" and not question.n_classes
    check_packing(question.packing, question.text_tokens, writes=writes)
    check_sharding(1 if question.mode == "infer" else n_gpus, question.sharding)
    if row is not None and not row.can_be_profiled:
        return fit_answer(row, question, gpu)
    precision = question.precision or gpu.preferred_precision()
    key = (
        name, requested_size(question, row), f"{gpu.key}:{gpu.extra.get('cores')}", precision,
        question.layout, question.optimizer or "adamw", question.mode or "train",
        question.method, question.lora_rank, question.gradient_checkpointing, question.n_classes, cards,
        question.sharding, question.trainer, question.packing, question.text_tokens, question.bands,
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
        **prepared.fixed, **({"curve": prepared.curve} if curve else {}), "basis": prepared.step.basis,
        "batch_size": batch, "fits": fits, "peak_memory_gib": peak.as_dict(),
        "samples_per_second": step.reciprocal(together).as_dict(), "step_seconds": step.as_dict(),
    }  # fmt: skip
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
