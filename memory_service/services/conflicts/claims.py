"""Quantitative claims about a model on a card, each beside what is computed for the same thing.

Each quantitative claim about a known model on a known card is computed from the model's profile and the
card's rates, runs left out: what runs showed stands beside it (`services.conflicts.statements`). A claim
is in conflict with its estimate when its range and the estimate's 80 % interval do not meet.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import StepConfig, StepMode, layout_of, precision_class
from memory_service.domain.hardware.gpu_spec import normal_gpu_name
from memory_service.domain.planning.model_catalogue import normal_model_name
from memory_service.domain.planning.option import Option
from memory_service.domain.planning.run_seconds import Seconds, run_seconds, setup_seconds
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import largest_batch, peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.services.conflicts.statements import claim_statement, divergence, estimate_statement
from memory_service.services.knowledge.decoder_options import Asked
from memory_service.services.knowledge.snapshot import Knowledge

CLAIMED_IMAGE_SIZE = 224
"""The size the sources speak of when they name none."""

CLAIMED_N_TRAIN = 9_000
"""The data set behind the sources' epoch and total times (003: 9 000 images, 120 classes)."""

REFERENCE_MODEL = "efficientnet_b4"
"""The sources' example: ratios between cards and precisions are checked on it."""

REFERENCE_CARD = "a100"

Row = Mapping[str, Any]
Gpus = Mapping[str, TargetDevice]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a claim is about, with what it left out filled in; `assumed` says what that was."""

    option: Option
    gpu: TargetDevice
    precision: str
    batch_size: int | None
    assumed: tuple[str, ...]

    @property
    def profile(self) -> Profile:
        return self.option.profile[precision_class(self.precision)]

    def config(self, gpu: TargetDevice, mode: StepMode = "train") -> StepConfig:
        return StepConfig(self.precision, layout_of(self.profile, gpu), mode=mode)

    def step(self, batch_size: int, mode: StepMode = "train") -> Estimate:
        return prepare(self.profile, self.gpu, self.config(self.gpu, mode)).step_seconds(batch_size)


@dataclass(frozen=True, slots=True)
class Checked:
    """A claim beside its estimate, which no run had a part in.

    apart   how far the ranges are apart, as a ratio; 1 where they meet
    """

    claim: Row
    subject: Subject
    estimate: Estimate
    apart: float

    @property
    def disagrees(self) -> bool:
        return self.apart > 1.0


def check_claims(knowledge: Knowledge) -> list[Checked]:
    """Every claim that can be computed, agreeing or not, in the order of the claims."""
    out = []
    for row, card, model in knowledge.located_claims:
        check = _CHECKS.get(str(row["quantity"]))
        if check is None or row.get("value_min") is None:
            continue
        subject = claim_subject(knowledge, row, card, model)
        estimate = check(row, subject, knowledge.cards.sheets) if subject is not None else None
        if subject is None or estimate is None:
            continue
        apart = divergence([claim_statement(row), estimate_statement(estimate, row.get("unit"))])
        out.append(Checked(row, subject, estimate, apart))
    return out


def estimate_of(knowledge: Knowledge, checked: Checked) -> Estimate | None:
    """The same with what runs taught: what a plan uses now."""
    card = knowledge.cards.sheets[checked.subject.gpu.slug]
    check = _CHECKS[str(checked.claim["quantity"])]
    return check(checked.claim, replace(checked.subject, gpu=card), knowledge.cards.sheets)


def computed_now(knowledge: Knowledge, stated: Row) -> Estimate | None:
    """What is computed now, with what runs taught, for a statement in the form of a claim (quantity, gpu,
    model, image_size, batch_min, value_min): of a batch the largest that surely fits to the largest that
    may. None where it cannot be computed."""
    card = knowledge.cards.models.get(normal_gpu_name(str(stated.get("gpu") or "")))
    model = knowledge.model_names.get(normal_model_name(str(stated.get("model") or "")))
    subject = claim_subject(knowledge, stated, card, model)
    if subject is None:
        return None
    subject = replace(subject, gpu=knowledge.cards.sheets[subject.gpu.slug])
    if stated["quantity"] != "feasible_batch":
        return _CHECKS[str(stated["quantity"])](stated, subject, knowledge.cards.sheets)
    sure, even = _batches(subject)
    basis = f"largest batch of {subject.option.model.name} that fits: trace"
    return Estimate(even, min(sure, even), even, "estimated", 0, "; ".join((basis, *subject.assumed)))


def claim_subject(knowledge: Knowledge, row: Row, card: str | None, model: str | None) -> Subject | None:
    """What a claim is about; None where the card, the model or its profile is not known."""
    assumed = []
    if row["quantity"] in _RATIOS:
        card, model = card or REFERENCE_CARD, knowledge.model_names.get(REFERENCE_MODEL)
        assumed.append(f"on {card}, {REFERENCE_MODEL}")
    if card not in knowledge.cards.sheets or model is None:
        return None
    if card is None or knowledge.models[model].input_kind != "image_size":
        return None
    size = row.get("image_size") or CLAIMED_IMAGE_SIZE
    if not row.get("image_size"):
        assumed.append(f"{size} px")
    if row["quantity"] in ("epoch_minutes", "total_minutes"):
        assumed.append(f"{CLAIMED_N_TRAIN:,} images")
    options = knowledge.priced.options(str(knowledge.models[model].tasks[0]), Asked(int(size)), model)
    gpu = replace(knowledge.cards.sheets[card], learned=None)
    precision = gpu.preferred_precision() if row.get("precision") in ("amp", None) else str(row["precision"])
    if not options or precision_class(precision) not in options[0].profile:
        return None
    batch = row.get("batch_min")
    return Subject(options[0], gpu, precision, int(batch) if batch else None, tuple(assumed))


def _memory_gib(_row: Row, subject: Subject, _gpus: Gpus) -> Estimate | None:
    if subject.batch_size is None:
        return None
    config = subject.config(subject.gpu)
    return peak_memory(subject.profile, subject.batch_size, subject.gpu, config).driver_gib


def _memory_percent(row: Row, subject: Subject, gpus: Gpus) -> Estimate | None:
    peak = _memory_gib(row, subject, gpus)
    return peak.scaled(100.0 / subject.gpu.memory_gib) if peak else None


def _rate(_row: Row, subject: Subject, _gpus: Gpus) -> Estimate | None:
    if subject.batch_size is None:
        return None
    return subject.step(subject.batch_size).reciprocal(subject.batch_size)


def _largest(row: Row, subject: Subject, _gpus: Gpus) -> Estimate | None:
    """The largest batch that fits: [p90, one more rung than p50]. A default below it is no conflict."""
    sure, even = _batches(subject)
    low = 0.0 if row["quantity"] == "default_batch" or float(row["value_min"]) <= even else sure
    return Estimate(even, min(low, even), even, "estimated", 0, "largest batch that fits: trace")


def _batches(subject: Subject) -> tuple[float, float]:
    """The largest batch that surely fits, and the largest that may."""
    case = subject.profile, subject.gpu, subject.config(subject.gpu)
    return float(largest_batch(*case)), float(largest_batch(*case, confidence="p50"))


def _epoch(_row: Row, subject: Subject, _gpus: Gpus) -> Estimate | None:
    batch = subject.batch_size or 64
    steps = -(-CLAIMED_N_TRAIN // batch)
    return subject.step(batch).scaled(steps / 60.0)


def _total(row: Row, subject: Subject, _gpus: Gpus) -> Estimate | None:
    folds, epochs, batch = row.get("folds"), _first_integer(row.get("epochs")), subject.batch_size or 128
    if not folds or not epochs:
        return None
    model = subject.option.model
    step, forward = subject.step(batch), subject.step(batch, "infer").scaled(1.0 / batch)
    rows, of_step, of_forward = CLAIMED_N_TRAIN, Seconds.of(step), Seconds.of(forward)
    setup = setup_seconds(model.params_m, rows, gpu=True, pretrained=model.pretrained, files=True)
    run = run_seconds(
        setup, of_step, batch, of_forward, n_train=rows, n_test=rows, folds=int(folds), epochs=epochs
    ).total_end
    return run.estimate(60.0, f"{step.basis}; setup, validation, inference; no loader bound")


def _precision_ratio(_row: Row, subject: Subject, _gpus: Gpus) -> Estimate | None:
    if "fp32" not in subject.option.profile:
        return None
    slow = prepare(subject.option.profile["fp32"], subject.gpu, StepConfig("fp32", "nchw"))
    fast = prepare(subject.profile, subject.gpu, subject.config(subject.gpu))
    return _ratio(slow.seconds(64) / fast.seconds(64), "fp32 step / mixed-precision step at batch 64")


def _card_ratio(_row: Row, subject: Subject, gpus: Gpus) -> Estimate | None:
    other = gpus.get("a10")
    if other is None:
        return None
    if subject.gpu.learned is None:  # no run has a part in it
        other = replace(other, learned=None)
    here = prepare(subject.profile, subject.gpu, subject.config(subject.gpu))
    there = prepare(subject.profile, other, subject.config(other))
    return _ratio(there.seconds(64) / here.seconds(64), "step on the A10 / step on this card at batch 64")


def _ratio(value: float, basis: str) -> Estimate:
    return Estimate(value, value / 1.25, value * 1.25, "estimated", 0, f"profile x data sheet rates: {basis}")


def _first_integer(text: Any) -> int | None:
    digits = str(text).split("-")[0] if text else ""
    return int(digits) if digits.isdecimal() and len(digits) < 10 else None


_CHECKS: dict[str, Callable[[Row, Subject, Gpus], Estimate | None]] = {
    "gpu_memory_gib": _memory_gib, "gpu_memory_percent": _memory_percent, "samples_per_second": _rate,
    "feasible_batch": _largest, "default_batch": _largest, "epoch_minutes": _epoch, "total_minutes": _total,
    "amp_speedup_factor": _precision_ratio, "speed_ratio_to_a10": _card_ratio,
}  # fmt: skip

_RATIOS = ("amp_speedup_factor", "speed_ratio_to_a10")


def fits(subject: Subject) -> bool | None:
    """Whether the claimed batch fits the card at all (p50); None when the claim names no batch."""
    if subject.batch_size is None:
        return None
    case, batch = (subject.profile, subject.gpu, subject.config(subject.gpu)), subject.batch_size
    return largest_batch(*case, confidence="p50", ladder=(batch,)) >= batch
