"""The prediction that an observation is compared with, made without what was learned."""

from __future__ import annotations

from dataclasses import replace

from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_time import card_log_sd
from memory_service.domain.learning.baseline_prediction import BaselinePrediction
from memory_service.domain.learning.observation import Observation
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import peak_memory
from memory_service.domain.prediction.device_step_time import prepare, rates_of


def baseline_prediction(
    observation: Observation, profile: Profile, device: TargetDevice
) -> BaselinePrediction:
    """The baseline prediction for an observation.

    profile   of the observed model at the observed input size and precision class
    device    with its calibrations; what it has learned is left out
    """
    device, config, batch = replace(device, learned=None), observation.config, observation.batch_size
    step, peak = prepare(profile, device, config), peak_memory(profile, batch, device, config)
    return BaselinePrediction(
        step.seconds(batch),
        step.shares(batch),
        card_log_sd(rates_of(device, config)),
        peak.allocated_gib.value,
        peak.reserved_gib.value,
        peak.driver_gib.value,
        device.usable_gib,
    )
