"""Throughput of a training step by the roofline model: groups of kernels, launches, and the optimizer.

    step = max( sum over groups max(flops / rate, bytes / bandwidth) + kernels x launch,  kernels x host ) +
    optimizer

Time per step never falls with the batch, and throughput never does: every group is a maximum of two lines in
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.estimate import Estimate, Grade
from memory_service.domain.common.optimizers import OPTIMIZERS, optimizer_or_adam
from memory_service.domain.cost.efficiencies import LOG_SPREAD
from memory_service.domain.cost.profile import OP_CLASSES, Profile
from memory_service.domain.cost.rates import Rates
from memory_service.domain.cost.roofline import Roofline, roofline_of
from memory_service.domain.cost.step_config import StepConfig

GRAD_SCALER_BYTES_PER_PARAM = 8.0
"""fp16 only: the scaler reads and rewrites every gradient."""

COMPILED_ELEMENTWISE = 0.28
"""torch.compile fuses chains of elementwise kernels: this share of their bytes and launches remains. It puts
the median gain at 1.67 on the RTX 4090 inference rows, as published (p5 1.17, p95 2.51: hence the wider
interval), and at 1.4 in training."""

COMPILED_LOG_SPREAD = 0.2

CARD_LOG_SD = 0.03
SDS_OF_EXTRAPOLATION = 2.5
"""A card like those measured is off as a whole by about 3 %, one further away by 0.4 of what its interval is
widened for it. Tails are heavy, so more is followed once runs insist (`domain.learning.corrections`)."""

HIDDEN = 0.5
"""Share of a step under which the exchange of gradients hides: the backward pass but for its last bucket."""

LAST_BUCKET = 0.08
"""Of the exchange, what is left when the backward pass is over."""

PARTS = (*OP_CLASSES, "launch", "optimizer")
"""What the time of a step is made of."""


@dataclass(frozen=True, slots=True, eq=False)
class StepModel:
    """Step time of one profile on one device as a function of the batch alone.

    Per group: arithmetic = flops_fixed + B x flops_slope seconds, bytes likewise; constant_seconds are
    launches and the optimizer. log_low/log_high: distance of the 10th and 90th percentile from the median, as
    logarithms of time. kind: index into OP_CLASSES of each group; factor: of the whole step.
    exchange_seconds, slowed: with several cards (`cost.several_cards`), the time of summing gradients and
    what waiting for the slowest costs.
    """

    kind: NDArray[np.intp]
    flops_fixed: NDArray[np.float64]
    flops_slope: NDArray[np.float64]
    bytes_fixed: NDArray[np.float64]
    bytes_slope: NDArray[np.float64]
    launch_seconds: float
    host_seconds: float
    optimizer_seconds: float
    log_low: float
    log_high: float
    basis: str
    factor: float = 1.0
    grade: Grade = "estimated"
    n: int = 0
    exchange_seconds: float = 0.0
    slowed: float = 1.0

    def seconds(self, batch_size: float) -> float:
        """Median seconds per step."""
        return float(self.seconds_many((batch_size,))[0])

    def shares(self, batch_size: float) -> tuple[float, ...]:
        """Shares of the step's time, by PARTS; where the host is slower it is all launches."""
        work = self._work(batch_size)
        parts = np.bincount(self.kind, weights=work, minlength=len(OP_CLASSES)).tolist()
        if float(work.sum()) + self.launch_seconds < self.host_seconds:
            parts, launch = [0.0] * len(OP_CLASSES), self.host_seconds
        else:
            launch = self.launch_seconds
        seconds = [*parts, launch, self.optimizer_seconds]
        total = sum(seconds) or 1.0
        return tuple(part / total for part in seconds)

    def _work(self, batch_size: float) -> NDArray[np.float64]:
        return np.maximum(
            self.flops_fixed + batch_size * self.flops_slope, self.bytes_fixed + batch_size * self.bytes_slope
        )

    def seconds_many(self, batch_sizes: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Median seconds per step of each batch, shape (n,)."""
        return self.seconds_and_busy(batch_sizes)[0]

    def seconds_and_busy(
        self, batch_sizes: Sequence[float] | NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Median seconds per step of each batch, and how many of them kernels run; in the rest the device
        waits for the host to launch the next one. Shapes (n,)."""
        batch = np.asarray(batch_sizes, dtype=np.float64)[:, None]
        work = np.maximum(
            self.flops_fixed + batch * self.flops_slope, self.bytes_fixed + batch * self.bytes_slope
        )
        device = work.sum(axis=1) + self.launch_seconds
        seconds = np.maximum(device, self.host_seconds) + self.optimizer_seconds
        seconds = seconds * self.factor
        if self.exchange_seconds:
            shown = np.maximum(LAST_BUCKET * self.exchange_seconds, self.exchange_seconds - HIDDEN * seconds)
            seconds = seconds * self.slowed + shown
        return seconds, (device + self.optimizer_seconds) * self.factor

    def step_seconds(self, batch_size: float) -> Estimate:
        """Seconds per step with the central 80 %."""
        value = self.seconds(batch_size)
        return Estimate(
            value, value * exp(-self.log_low), value * exp(self.log_high), self.grade, self.n, self.basis
        )

    def samples_per_second(self, batch_size: float) -> Estimate:
        return self.step_seconds(batch_size).reciprocal(batch_size)


def card_log_sd(rates: Rates) -> float:
    """How unsure a device's rates are altogether, as a standard deviation of log time."""
    return sqrt(CARD_LOG_SD**2 + (rates.extrapolation / SDS_OF_EXTRAPOLATION) ** 2)


def step_model(profile: Profile, rates: Rates, config: StepConfig) -> StepModel:
    """The step model of a profile over these rates."""
    groups = roofline_of(profile, config.mode)
    training = config.mode == "train"
    flops = np.asarray(rates.flops_per_second)[groups.kind] * tile_efficiency(
        groups, rates.tile_power, rates.group_power
    )
    moved = np.asarray(rates.bytes_per_second)[groups.kind]
    kernels = groups.kernels
    if config.compiled:
        elementwise = groups.kind == OP_CLASSES.index("elementwise")
        moved = np.where(elementwise, moved / COMPILED_ELEMENTWISE, moved)
        kernels = np.where(elementwise, kernels * COMPILED_ELEMENTWISE, kernels)
    launches = float(kernels.sum())
    widen = rates.extrapolation + (COMPILED_LOG_SPREAD if config.compiled else 0.0)
    widen += LOG_SPREAD["grouped"] * _grouped_share(groups, flops, moved)
    return StepModel(
        kind=groups.kind,
        flops_fixed=groups.flops_fixed / flops,
        flops_slope=groups.flops_per_sample / flops,
        bytes_fixed=groups.bytes_fixed / moved,
        bytes_slope=groups.bytes_per_sample / moved,
        launch_seconds=launches * (rates.kernel_seconds if training else rates.inference_kernel_seconds),
        host_seconds=launches * rates.host_seconds,
        optimizer_seconds=_optimizer_seconds(profile, rates, config) if training else 0.0,
        log_low=(LOG_SPREAD["low"] if rates.log_spread is None else rates.log_spread) + widen,
        log_high=(LOG_SPREAD["high"] if rates.log_spread is None else rates.log_spread) + widen,
        basis=f"profile of {profile.model} at {profile.input_size} x {rates.basis}",
        n=rates.n,
    )


def tile_efficiency(
    groups: Roofline, tile_power: NDArray[np.float64] | float, group_power: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Share of its rate that each group reaches; powers as in `Rates`, of all groups or of each."""
    tiles = groups.tile_fit**tile_power
    narrow = np.minimum(1.0, np.maximum(groups.group_width, 1.0) / 128.0) ** group_power
    return np.asarray(np.where(groups.kind == OP_CLASSES.index("grouped_conv"), narrow, tiles))


def _grouped_share(groups: Roofline, flops: NDArray[np.float64], moved: NDArray[np.float64]) -> float:
    """Share of the time in grouped convolutions, whose kernels differ most between software versions."""
    spent = np.maximum(groups.flops_per_sample / flops, groups.bytes_per_sample / moved)
    total = float(spent.sum())
    return float(spent[groups.kind == OP_CLASSES.index("grouped_conv")].sum()) / total if total else 0.0


def optimizer_bytes_per_param(optimizer: str, precision: str) -> float:
    """Bytes read and written per parameter by one update, 0 for "none"; one unknown counts as Adam."""
    moved = optimizer_or_adam(optimizer).step_bytes
    return moved + GRAD_SCALER_BYTES_PER_PARAM if moved and precision == "fp16" else moved


def _optimizer_seconds(profile: Profile, rates: Rates, config: StepConfig) -> float:
    per_param = optimizer_bytes_per_param(config.optimizer, config.precision)
    if not per_param:
        return 0.0
    launches = float(profile.extra.get("parameter_tensors", 0))
    adam = rates.update_seconds_per_tensor
    share = min(1.0, per_param / OPTIMIZERS["adamw"].step_bytes)
    each = rates.host_seconds if adam is None else adam * share
    return profile.params * per_param / rates.memory_bytes_per_second + launches * each
