"""Rows of cards and models are proven by use: a network is priced before anything rests on the row. A figure
that breaks a price shows here, when the row is accepted and when it is read, and costs this row alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite

from memory_service.domain.cost.boosted_trees import cost_kind, fit_cost
from memory_service.domain.cost.decoders.decoder import Tuning, decoder_of
from memory_service.domain.cost.decoders.tower import tuned_profile
from memory_service.domain.cost.interpolation import interpolate_profile
from memory_service.domain.cost.profile import OP_CLASSES, PeakPoint, Profile, Work
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.cost.step_config import StepConfig, precision_class
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.prediction.device import target_device
from memory_service.domain.prediction.device_memory import peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.errors import FieldError, InvalidInput, wrong_value

_WORK = {name: Work(4e8, 4e7, kernels=20) for name in OP_CLASSES}
NETWORK = Profile(
    "reference", "timm", "image_size", 224, "fp32", params=25_000_000, buffers_bytes=10**5,
    peak=(PeakPoint(4e8, 9e7),), forward=_WORK, backward=_WORK, inference_peak=(PeakPoint(1e8, 1e7),),
)  # fmt: skip
"""With some of every class of work."""
CARD = Gpu("reference", "Reference", "cuda", "ampere", 40.0, 39.0, 1555.0,
           {"fp32": 19.5, "tf32": 156.0, "fp16": 312.0, "bf16": 312.0}, 8.0)  # fmt: skip

LONGEST_SECONDS = 1e6


def prove_gpu(gpu: Gpu) -> None:
    """InvalidInput where no price of a network on this card comes out."""
    cards = (gpu,) if gpu.cores is None else (gpu, with_cores(gpu, 1))
    kinds = ("fp32", gpu.preferred_precision())
    fields = ("tflops", "bandwidth_gb_s", "memory_gib", "tdp_w", "extra")
    _prove(lambda: all(_has_price(NETWORK, card, 32, kind) for card in cards for kind in kinds), fields)


def prove_model(model: CatalogueModel, shipped: Sequence[Profile] = ()) -> None:
    """InvalidInput, with the fields, where a question of the model's default size has no price.

    shipped   its profiles in one precision. A network that has none and follows no formula is not priced.
    """
    if shipped and (takes := shipped[0].input_kind) != model.input_kind:
        raise wrong_value("input_kind", "is not what its profile takes", model.input_kind, nearest=(takes,))
    _prove(lambda: _is_priced(model, shipped), ("config", "default_input_size"))


def _prove(sound: Callable[[], bool], fields: Sequence[str]) -> None:
    try:
        good = sound()
    except (ArithmeticError, LookupError, TypeError, ValueError):
        good = False
    if not good:
        message = "give no price of a network: a figure of the row is out of reach"
        raise InvalidInput(f"{', '.join(fields)} {message}", [FieldError(name, message) for name in fields])


def _is_priced(model: CatalogueModel, shipped: Sequence[Profile]) -> bool:
    size, kind = model.default_input_size, cost_kind(model.name, model.library, model.family)
    if not model.can_be_profiled:
        return kind is None or isfinite(fit_cost(kind, 10_000, size).fit_seconds.high)
    if decoder_of(model.config) is not None:
        profile = tuned_profile(model.name, model.config, size, Tuning(), family=model.family)
    elif shipped:
        near = min(shipped, key=lambda one: abs(one.input_size - size))
        profile = near if near.input_size == size else interpolate_profile(near, near, size)
    else:
        return True
    return _has_price(profile, CARD, 1, "bf16")


def _has_price(profile: Profile, gpu: Gpu, batch: int, precision: str) -> bool:
    card, config = target_device(gpu), StepConfig(precision)
    profile = replace(profile, precision=precision_class(precision))
    step = prepare(profile, card, config).step_seconds(batch)
    found = (step.low, step.value, step.high, peak_memory(profile, batch, card, config).driver_gib.high)
    return all(isfinite(each) and 0.0 < each < LONGEST_SECONDS for each in found)
