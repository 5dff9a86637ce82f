"""Prices a network on a card before anything rests on the card's row: a figure that breaks a price shows
here, when the row is accepted and when it is read, and costs this row alone."""

from dataclasses import replace
from math import isfinite

from memory_service.domain.cost.profile import OP_CLASSES, PeakPoint, Profile, Work
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.cost.step_config import StepConfig, precision_class
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.prediction.device import target_device
from memory_service.domain.prediction.device_memory import peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.errors import wrong_value

_WORK = {name: Work(4e8, 4e7, kernels=20) for name in OP_CLASSES}
REFERENCE = Profile(
    "reference", "timm", "image_size", 224, "fp32", params=25_000_000, buffers_bytes=10**5,
    peak=(PeakPoint(4e8, 9e7),), forward=_WORK, backward=_WORK, inference_peak=(PeakPoint(1e8, 1e7),),
)  # fmt: skip
"""A network with some of every class of work."""

BATCH, LONGEST_SECONDS = 32, 1e6
_sound: set[str] = set()


def priced(gpu: Gpu) -> Gpu:
    """The same card; InvalidInput, with the case, where no price of a network on it comes out."""
    key = repr(replace(gpu, source="", aliases=()))
    if key not in _sound:
        for precision in dict.fromkeys(("fp32", gpu.preferred_precision())):
            _price(gpu, precision)
        if gpu.cores is not None:
            _price(with_cores(gpu, 1), "fp32")
        if len(_sound) >= 4_096:
            _sound.clear()
        _sound.add(key)
    return gpu


def _price(gpu: Gpu, precision: str) -> None:
    card, profile = target_device(gpu), replace(REFERENCE, precision=precision_class(precision))
    config = StepConfig(precision)
    try:
        step = prepare(profile, card, config).step_seconds(BATCH)
        peak = peak_memory(profile, BATCH, card, config).driver_gib
        found = (step.low, step.value, step.high, peak.high)
        wrong = not all(isfinite(each) and 0.0 < each < LONGEST_SECONDS for each in found)
    except ArithmeticError:
        wrong = True
    if wrong:
        message = f"give no price of a network in {precision}: a figure of the row is out of reach"
        raise wrong_value("tflops, bandwidth_gb_s, memory_gib, tdp_w, extra", message)
