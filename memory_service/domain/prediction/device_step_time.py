"""Step time of a profile on a device: its rates, corrected by what observed runs say."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np

from memory_service.domain.common.estimate import SD_OF_P90
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.rates import Rates
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.cost.step_time import PARTS, StepModel, card_log_sd, step_model
from memory_service.domain.learning.baseline_prediction import PredictionKey, prediction_key
from memory_service.domain.learning.corrections import LearnedCorrections, TimeCorrection
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_rates import rates_of

USUAL_BATCH = 32.0
"""Where the shares of a step are read that weigh what remains unsure."""


def prepare(profile: Profile, device: TargetDevice, config: StepConfig) -> StepModel:
    """The step model of a profile on a device, from its data sheet, its calibrations and observed runs; keep
    it to ask about many batches."""
    rates = rates_of(device, config)
    baseline = step_model(profile, rates, config)
    return learned_step(baseline, device.learned, rates, prediction_key(profile, device, config))


_Known = tuple[Profile, StepModel, PredictionKey, tuple[float, ...]]
"""With the shares of the step's parts at a usual batch."""


class BaselineSteps:
    """Step models of one device before anything is learned, cached for as long as nothing but what runs
    taught changes. Profiles count by identity."""

    def __init__(self, device: TargetDevice) -> None:
        self._device = device
        self._rates: dict[tuple[str, str], Rates] = {}
        self._known: dict[tuple[int, StepConfig], _Known] = {}

    def prepare(self, learned: LearnedCorrections | None, profile: Profile, config: StepConfig) -> StepModel:
        """As `prepare` of the device with what was learned."""
        setting = (config.precision, config.layout)
        if setting not in self._rates:
            self._rates[setting] = rates_of(self._device, config)
        rates = self._rates[setting]
        key = (id(profile), config)
        if key not in self._known:
            baseline = step_model(profile, rates, config)
            subject = prediction_key(profile, self._device, config)
            self._known[key] = profile, baseline, subject, baseline.shares(USUAL_BATCH)
        _, baseline, subject, shares = self._known[key]
        if learned is None:
            return baseline
        return _corrected(baseline, learned.time_of(subject, shares, card_log_sd(rates)))


def learned_step(
    baseline: StepModel, learned: LearnedCorrections | None, rates: Rates, subject: PredictionKey
) -> StepModel:
    """The step model with what observed runs say of this profile on this device."""
    if learned is None:
        return baseline
    return _corrected(baseline, learned.time_of(subject, baseline.shares(USUAL_BATCH), card_log_sd(rates)))


def _corrected(model: StepModel, learned: TimeCorrection | None) -> StepModel:
    """Parts of the work scaled, then the whole; an interval never wider than it was.

    A scaled roofline is a roofline: throughput still never falls with the batch.
    """
    if learned is None:
        return model
    parts = np.exp(np.asarray(learned.parts))
    of_group = parts[model.kind]
    half = SD_OF_P90 * learned.log_sd
    return replace(
        model, flops_fixed=model.flops_fixed * of_group, flops_slope=model.flops_slope * of_group,
        bytes_fixed=model.bytes_fixed * of_group, bytes_slope=model.bytes_slope * of_group,
        launch_seconds=model.launch_seconds * float(parts[PARTS.index("launch")]),
        host_seconds=model.host_seconds * float(parts[PARTS.index("launch")]),
        optimizer_seconds=model.optimizer_seconds * float(parts[PARTS.index("optimizer")]),
        factor=model.factor * exp(learned.log_shift), log_low=min(model.log_low, half),
        log_high=min(model.log_high, half), basis=f"{model.basis} x {learned.basis}",
        grade="measured" if learned.exact else "estimated", n=learned.n,
    )  # fmt: skip
