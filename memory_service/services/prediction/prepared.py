"""Everything of a prediction that does not depend on the batch asked for. After a run it is made anew only
where what runs say of this very model on this very card is something else now."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from memory_service.domain.common.estimate import Estimate, Grade
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.cost.decoders.packing import texts_per_row
from memory_service.domain.cost.multi_gpu import Cards, profile_on, step_on
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.rates import Rates
from memory_service.domain.cost.roofline import Floats
from memory_service.domain.cost.step_config import StepConfig, layout_of
from memory_service.domain.cost.step_time import StepModel, card_log_sd, step_model
from memory_service.domain.cost.throughput_knee import BATCH_LADDER, throughput_knee
from memory_service.domain.learning.batch_bounds import Bounds
from memory_service.domain.learning.corrections import LearnedPeaks
from memory_service.domain.learning.memory_residuals import READINGS
from memory_service.domain.learning.observation import prediction_key
from memory_service.domain.prediction import device_memory
from memory_service.domain.prediction.device import TargetDevice, provenance_warnings
from memory_service.domain.prediction.device_step_time import USUAL_BATCH, learned_step, rates_of
from memory_service.domain.prediction.peak_memory_curve import driver_peaks
from memory_service.schemas.predict import PredictRequest
from memory_service.services.prediction.fit_answer import where

LARGEST_SHOWN = 4096
"""The curve stops here for models that would fit more: no plan uses such a batch."""


@dataclass(frozen=True)
class Basis:
    """What no run changes.

    of      the card without what it learned, the profile of the model on one card, and that of what one of
            the cards holds, the same object without sharding
    timed   the profile whose step it is; profile: whose memory
    texts   packed ones in a row, 1.0 where each has its own
    """

    of: tuple[TargetDevice, Profile, Profile]
    timed: Profile
    profile: Profile
    config: StepConfig
    rates: Rates
    step: StepModel
    cards: Cards
    texts: float

    @cached_property
    def shares(self) -> Floats:
        return self.step.of_one.shares(USUAL_BATCH)

    @property
    def together(self) -> float:
        """Samples of a step for each of a card's batch."""
        return self.cards.n * self.texts

    def learned(self, gpu: TargetDevice) -> tuple[Any, ...]:
        """All that runs say of it."""
        if gpu.learned is None:
            return None, LearnedPeaks(dict.fromkeys(READINGS), Bounds()), Bounds()
        key = prediction_key(self.timed, gpu, self.config)
        time = gpu.learned.time_of(key, self.shares, card_log_sd(self.rates))
        if time is not None:
            shifts = (*time.log_shift.tolist(), *time.parts[0].tolist(), *time.log_sd.tolist())
        subject = prediction_key(self.profile, gpu, self.config)
        return (
            time and (shifts, time.n, time.basis, time.exact),
            gpu.learned.peaks_of(subject, gpu.usable_gib),
            device_memory.bounds_of(gpu, subject),
        )


@dataclass(frozen=True)
class Prepared:
    """learned: all that runs say of it; begin: the batch of who asks for none, with its step and its peak
    (`first`); drawn: the curve, once somebody saw it."""

    basis: Basis
    learned: tuple[Any, ...]
    gpu: TargetDevice
    step: StepModel
    most: int
    safe: int
    knee: int
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
        peaks = driver_peaks(self.basis.profile, shown, self.gpu, self.basis.config)
        return [
            {
                "batch_size": batch,
                "peak_memory_gib": in_room(peak, batch, self.safe, self.most, self.gpu).as_dict(),
                "samples_per_second": self.step.step_seconds(batch)
                .reciprocal(batch * self.basis.together)
                .as_dict(),
                "fits": batch <= self.most,
            }
            for batch, peak in zip(shown, peaks, strict=True)
        ]


class Kept:
    """The latest of one question, from revision to revision; without the card's corrections, which hold all
    observations of their time."""

    latest: Prepared | None = None

    def prepared(
        self,
        gpu: TargetDevice,
        whole: Profile,
        spread: Profile,
        question: PredictRequest,
        precision: str,
        cards: Cards,
    ) -> Prepared:
        """whole, spread: as in `Basis.of`."""
        bare = _untaught(gpu)
        known, of = self.latest, (bare, whole, spread)
        basis = known.basis if known and known.basis.of == of else basis_of(of, question, precision, cards)
        learned = basis.learned(gpu)
        if known and known.basis is basis and known.learned == learned:
            return replace(known, gpu=gpu, fixed=known.fixed | {"calibration": where(gpu)["calibration"]})
        new = prepare(basis, gpu, learned)
        self.latest = replace(new, gpu=bare)
        return new


def _untaught(gpu: TargetDevice) -> TargetDevice:
    """The card without what runs change: what it learned, and how many of them there were."""
    provenance = gpu.provenance and replace(gpu.provenance, observations=0)
    return replace(gpu, learned=None, provenance=provenance)


def basis_of(
    of: tuple[TargetDevice, Profile, Profile], question: PredictRequest, precision: str, cards: Cards
) -> Basis:
    gpu, whole, profile = of
    sharded, mode = profile is not whole, question.mode or "train"
    layout = question.layout or layout_of(profile, gpu)
    if mode == "train" and not sharded:
        profile = profile_on(profile, cards)
    optimizer = "none" if mode == "infer" else question.optimizer or "adamw"
    config = StepConfig(precision, layout, optimizer, mode)
    timed, rates = whole if sharded else profile, rates_of(gpu, config)
    texts = texts_per_row(profile.input_size, question.text_tokens, question.packing)
    return Basis(of, timed, profile, config, rates, step_model(timed, rates, config), cards, texts)


def prepare(basis: Basis, gpu: TargetDevice, learned: tuple[Any, ...]) -> Prepared:
    profile, config, cards = basis.profile, basis.config, basis.cards

    def most(confidence: device_memory.Confidence) -> int:
        return device_memory.largest_batch(profile, gpu, config, confidence=confidence)

    step = learned_step(basis.step, gpu.learned, basis.rates, prediction_key(basis.timed, gpu, config))
    if config.mode == "train":
        step = step_on(step, profile, cards)
    value, safe, best = most("p50"), most("p90"), most("p10")
    knee = throughput_knee(step.seconds_many, value) if value else 0
    bounds = device_memory.observed_bounds(profile, gpu, config)
    fixed = {
        "model": profile.model,
        profile.input_kind: profile.input_size,
        **where(gpu),
        "warnings": [*provenance_warnings([gpu]), *_not_in_hardware(gpu, config.precision)],
        **{name: getattr(config, name) for name in ("precision", "layout", "optimizer", "mode")},
        **_settings(profile, cards),
        **({"sharding": "fsdp"} if basis.of[1] is not basis.of[2] else {}),
        **({"texts_per_row": round(basis.texts, 2)} if basis.texts > 1.0 else {}),
        "max_batch_size": _largest(value, safe, best, bounds),
        "safe_batch_size": safe,
        "knee_batch_size": knee or None,
    }
    begin = max(1, min(knee, safe))
    return Prepared(
        basis, learned, gpu, step, value, safe, knee, fixed,
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
    if bounds.refused is not None:
        return (
            f"batch {bounds.refused} ran out of memory on {gpu.key}: a larger card, a smaller input or model"
        )
    return f"not even one sample fits {gpu.usable_gib:g} GiB: a larger card, a smaller input or model"
