"""Step time of a profile on a device: its rates, corrected by what observed runs say."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memory_service.domain.common.estimate import SD_OF_P90
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.profile_stack import LAYOUTS, Integers, ProfileStack
from memory_service.domain.cost.rates import Rates, sheet_rates
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.cost.step_time import (
    PARTS,
    StepModel,
    StepModels,
    card_log_sd,
    step_model,
    step_models,
)
from memory_service.domain.learning.corrections import LearnedCorrections, TimeCorrection
from memory_service.domain.learning.observation import (
    BaselinePrediction,
    Observation,
    PredictionKey,
    prediction_key,
)
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import peak_memory

USUAL_BATCH = 32.0
"""Where the shares of a step are read that weigh what remains unsure."""


def rates_of(device: TargetDevice, config: StepConfig) -> Rates:
    """Rates at the configuration's precision and layout: the data sheet's, corrected by calibrations."""
    rates = sheet_rates(device, config.precision, config.layout, config.stack)
    if device.calibrated is None:
        return rates
    return device.calibrated.applied(rates, config.precision, config.layout)


def prepare(profile: Profile, device: TargetDevice, config: StepConfig) -> StepModel:
    """The step model of a profile on a device, from its data sheet, its calibrations and observed runs; keep
    it to ask about many batches."""
    rates = rates_of(device, config)
    baseline = step_model(profile, rates, config)
    return learned_step(baseline, device.learned, rates, prediction_key(profile, device, config))


def prepare_many(
    stack: ProfileStack,
    device: TargetDevice,
    config: StepConfig,
    layout: Integers,
    subjects: Sequence[PredictionKey],
) -> StepModels:
    """As `prepare` for each profile of the stack. config: without layout and optimizer; layout: place in
    LAYOUTS of each profile; subjects: the profiles on this device."""
    rates = [rates_of(device, replace(config, layout=name)) for name in LAYOUTS]
    models = step_models(stack, rates, layout, config)
    if device.learned is None:
        return models
    unsure = [card_log_sd(each) for each in rates]
    learned = device.learned.times_of(
        subjects, models.shares(USUAL_BATCH), [unsure[place] for place in layout.tolist()]
    )
    if learned is None:
        return models
    return _corrected(models, learned)


def learned_step(
    baseline: StepModel, learned: LearnedCorrections | None, rates: Rates, subject: PredictionKey
) -> StepModel:
    """The step model with what observed runs say of this profile on this device."""
    if learned is None:
        return baseline
    found = learned.time_of(subject, baseline.of_one.shares(USUAL_BATCH), card_log_sd(rates))
    if found is None:
        return baseline
    return replace(
        baseline,
        of_one=_corrected(baseline.of_one, found),
        basis=f"{baseline.basis} x {found.basis}",
        grade="measured" if found.exact else "estimated",
        n=found.n,
    )


def _corrected(models: StepModels, learned: TimeCorrection) -> StepModels:
    """Parts of the work scaled, then the whole; an interval never wider than it was, but for what one key
    alone told.

    A scaled roofline is a roofline: throughput still never falls with the batch.
    """
    parts = np.exp(learned.parts)
    owner = models.of_group.repeated(np.arange(len(parts)))
    of_group, half = parts[owner, models.kind], SD_OF_P90 * learned.log_sd
    launch, optimizer = parts[:, PARTS.index("launch")], parts[:, PARTS.index("optimizer")]
    return replace(
        models, flops_fixed=models.flops_fixed * of_group, flops_slope=models.flops_slope * of_group,
        bytes_fixed=models.bytes_fixed * of_group, bytes_slope=models.bytes_slope * of_group,
        launch_seconds=models.launch_seconds * launch, host_seconds=models.host_seconds * launch,
        optimizer_seconds=models.optimizer_seconds * optimizer,
        factor=models.factor * np.exp(learned.log_shift),
        log_low=np.minimum(models.log_low, half) + learned.wider,
        log_high=np.minimum(models.log_high, half) + learned.wider,
    )  # fmt: skip


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
