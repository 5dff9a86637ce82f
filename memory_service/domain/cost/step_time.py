"""Throughput of a training step by the roofline model: groups of kernels, launches, and the optimizer.

    step = max( sum over groups max(flops / rate, bytes / bandwidth) + kernels x launch,  kernels x host ) +
    optimizer

Time per step never falls with the batch, and throughput never does: every group is a maximum of two lines in
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from memory_service.domain.common.estimate import Estimate, Grade
from memory_service.domain.common.optimizers import OPTIMIZERS, optimizer_or_adam
from memory_service.domain.cost.profile import OP_CLASSES, Profile
from memory_service.domain.cost.profile_stack import Integers, ProfileStack, Runs, stack_of
from memory_service.domain.cost.rates import LOG_SPREAD, Rates
from memory_service.domain.cost.roofline import Floats, Roofline
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
class StepModels:
    """Step times of n profiles on one device as functions of the batch alone.

    Per group of kernels, one profile after the other (`of_group`): kind is an index into OP_CLASSES,
    arithmetic = flops_fixed + B x flops_slope seconds, bytes likewise. Of each profile, shape (n,): seconds
    of launches, of the host that launches, and of the optimizer; log_low/log_high: distance of the 10th and
    90th percentile from the median, as logarithms of time; factor: of the whole step.
    """

    of_group: Runs
    kind: Integers
    flops_fixed: Floats
    flops_slope: Floats
    bytes_fixed: Floats
    bytes_slope: Floats
    launch_seconds: Floats
    host_seconds: Floats
    optimizer_seconds: Floats
    log_low: Floats
    log_high: Floats
    factor: Floats

    def seconds_and_busy(self, batch_sizes: Sequence[float] | Floats) -> tuple[Floats, Floats]:
        """Median seconds per step of each batch, and how many of them kernels run; in the rest the device
        waits for the host to launch the next one. Shapes (n, batches)."""
        batch = np.asarray(batch_sizes, dtype=np.float64)
        device = np.empty((len(self.factor), len(batch)))
        for column, size in enumerate(batch.tolist()):  # one batch at a time stays in the processor's cache
            work, moved = self.flops_slope * size, self.bytes_slope * size
            work += self.flops_fixed
            moved += self.bytes_fixed
            device[:, column] = np.add.reduceat(np.maximum(work, moved, out=work), self.of_group.starts)
        device += self.launch_seconds[:, None]
        optimizer, factor = self.optimizer_seconds[:, None], self.factor[:, None]
        seconds = np.maximum(device, self.host_seconds[:, None]) + optimizer
        return seconds * factor, (device + optimizer) * factor

    def shares(self, batch_size: float) -> Floats:
        """Shares of each step's time, by PARTS; where the host is slower it is all launches. (n, parts)."""
        n, classes = len(self.factor), len(OP_CLASSES)
        work = np.maximum(
            self.flops_fixed + batch_size * self.flops_slope, self.bytes_fixed + batch_size * self.bytes_slope
        )
        owner = self.of_group.repeated(np.arange(n))
        seconds = np.zeros((n, len(PARTS)))
        parts = np.bincount(owner * classes + self.kind, weights=work, minlength=n * classes)
        seconds[:, :classes] = parts.reshape(n, classes)
        waits = seconds.sum(axis=1) + self.launch_seconds < self.host_seconds
        seconds[waits] = 0.0
        seconds[:, PARTS.index("launch")] = np.where(waits, self.host_seconds, self.launch_seconds)
        seconds[:, PARTS.index("optimizer")] = self.optimizer_seconds
        total = seconds.sum(axis=1, keepdims=True)
        return np.asarray(seconds / np.where(total > 0.0, total, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class StepModel:
    """Step time of one profile on one device as a function of the batch alone.

    of_one   its roofline
    exchange_seconds, slowed   with several cards (`cost.multi_gpu`), the time of summing gradients and
                               what waiting for the slowest costs
    """

    of_one: StepModels
    basis: str
    grade: Grade = "estimated"
    n: int = 0
    exchange_seconds: float = 0.0
    slowed: float = 1.0

    @property
    def optimizer_seconds(self) -> float:
        """Of each step."""
        return float(self.of_one.optimizer_seconds.item() * self.of_one.factor.item())

    def seconds(self, batch_size: float) -> float:
        """Median seconds per step."""
        return float(self.seconds_many((batch_size,))[0])

    def shares(self, batch_size: float) -> tuple[float, ...]:
        """Shares of the step's time, by PARTS."""
        return tuple(self.of_one.shares(batch_size)[0].tolist())

    def seconds_many(self, batch_sizes: Sequence[float] | Floats) -> Floats:
        """Median seconds per step of each batch, shape (n,)."""
        return self.seconds_and_busy(batch_sizes)[0]

    def seconds_and_busy(self, batch_sizes: Sequence[float] | Floats) -> tuple[Floats, Floats]:
        """As `StepModels.seconds_and_busy`; shapes (n,)."""
        seconds, busy = (each[0] for each in self.of_one.seconds_and_busy(batch_sizes))
        if self.exchange_seconds:
            shown = np.maximum(LAST_BUCKET * self.exchange_seconds, self.exchange_seconds - HIDDEN * seconds)
            seconds = seconds * self.slowed + shown
        return seconds, busy

    def step_seconds(self, batch_size: float) -> Estimate:
        """Seconds per step with the central 80 %."""
        value = self.seconds(batch_size)
        low, high = exp(-self.of_one.log_low.item()), exp(self.of_one.log_high.item())
        return Estimate(value, value * low, value * high, self.grade, self.n, self.basis)

    def samples_per_second(self, batch_size: float) -> Estimate:
        return self.step_seconds(batch_size).reciprocal(batch_size)


def card_log_sd(rates: Rates) -> float:
    """How unsure a device's rates are altogether, as a standard deviation of log time."""
    return sqrt(CARD_LOG_SD**2 + (rates.extrapolation / SDS_OF_EXTRAPOLATION) ** 2)


def step_model(profile: Profile, rates: Rates, config: StepConfig) -> StepModel:
    """The step model of a profile over these rates."""
    alone = stack_of([profile], [config.optimizer], (config.mode,))
    return StepModel(
        step_models(alone, [rates], np.zeros(1, dtype=np.intp), config),
        f"profile of {profile.model} at {profile.input_size} x {rates.basis}",
        n=rates.n,
    )


def step_models(
    stack: ProfileStack, rates: Sequence[Rates], layout: Integers, config: StepConfig
) -> StepModels:
    """The step models of all profiles. rates: at each layout; layout: place in `rates` of each profile;
    config: layout and optimizer are not read."""
    groups, of_group = stack.groups[config.mode], stack.of_group[config.mode]
    at, training = of_group.repeated(layout), config.mode == "train"
    figures = np.array([_figures(each, training) for each in rates])[layout].T
    tile_power, group_power, widen, low, high, kernel, host, host_update, update, bandwidth, paging = figures
    flops = np.array([each.flops_per_second for each in rates])[at, groups.kind] * tile_efficiency(
        groups, of_group.repeated(tile_power), of_group.repeated(group_power)
    )
    if stack.volumes.any():
        shares = np.array([each.volume_share for each in rates])[layout]
        flops *= of_group.repeated(np.where(stack.volumes, shares, 1.0))
    moved = np.array([each.bytes_per_second for each in rates])[at, groups.kind]
    kernels = groups.kernels
    if config.compiled:
        elementwise = groups.kind == OP_CLASSES.index("elementwise")
        moved = np.where(elementwise, moved / COMPILED_ELEMENTWISE, moved)
        kernels = np.where(elementwise, kernels * COMPILED_ELEMENTWISE, kernels)
        widen = widen + COMPILED_LOG_SPREAD
    launches = np.add.reduceat(kernels, of_group.starts)
    spent = np.maximum(groups.flops_per_sample / flops, groups.bytes_per_sample / moved)
    total = np.add.reduceat(spent, of_group.starts)
    grouped = np.where(groups.kind == OP_CLASSES.index("grouped_conv"), spent, 0.0)
    share = np.add.reduceat(grouped, of_group.starts) / np.where(total > 0.0, total, 1.0)
    widen = widen + LOG_SPREAD["grouped"] * share
    optimizer = np.zeros(len(stack))
    if training:
        optimizer = _optimizer_seconds(stack, config.precision, host_update, update, bandwidth, paging)
    return StepModels(
        of_group, groups.kind, groups.flops_fixed / flops, groups.flops_per_sample / flops,
        groups.bytes_fixed / moved, groups.bytes_per_sample / moved, launches * kernel, launches * host,
        optimizer, low + widen, high + widen, np.ones(len(stack)),
    )  # fmt: skip


def _figures(rates: Rates, training: bool) -> tuple[float, ...]:
    """What does not depend on the class of work; an update's launches cost what the host takes where that was
    not measured. A forward pass alone launches ahead of the card; with few samples the card waits, as long a
    launch as training rows show (YOLOv5, one picture, in no fit: 20 % slow; 68 % fast without it)."""
    spread, update = rates.log_spread, rates.update_seconds_per_tensor
    return (
        rates.tile_power,
        rates.group_power,
        rates.extrapolation,
        LOG_SPREAD["low"] if spread is None else spread,
        LOG_SPREAD["high"] if spread is None else spread,
        rates.kernel_seconds if training else rates.inference_kernel_seconds,
        rates.host_seconds if training else max(rates.host_seconds, rates.kernel_seconds),
        rates.host_seconds if update is None else 0.0,
        update or 0.0,
        rates.memory_bytes_per_second,
        rates.paging_bytes_per_second,
    )


def tile_efficiency(groups: Roofline, tile_power: Floats | float, group_power: Floats | float) -> Floats:
    """Share of its rate that each group reaches; powers as in `Rates`, of all groups or of each."""
    tiles = groups.tile_fit**tile_power
    narrow = np.minimum(1.0, np.maximum(groups.group_width, 1.0) / 128.0) ** group_power
    return np.asarray(np.where(groups.kind == OP_CLASSES.index("grouped_conv"), narrow, tiles))


def optimizer_bytes_per_param(optimizer: str, precision: str) -> float:
    """Bytes read and written per parameter by one update, 0 for "none"; one unknown counts as Adam."""
    moved = optimizer_or_adam(optimizer).step_bytes
    return moved + GRAD_SCALER_BYTES_PER_PARAM if moved and precision == "fp16" else moved


def _optimizer_seconds(
    stack: ProfileStack, precision: str, host: Floats, update: Floats, bandwidth: Floats, paging: Floats
) -> Floats:
    """host, update: seconds per tensor of an update of any optimizer, and of AdamW's; shape (n,). A paged
    state is counted to come and to go in each step: with room on the card it stays there."""
    moved = {name: optimizer_bytes_per_param(name, precision) for name in set(stack.optimizers)}
    per_param = np.array([moved[name] for name in stack.optimizers])
    launch = host + np.minimum(1.0, per_param / OPTIMIZERS["adamw"].step_bytes) * update
    pages = np.array([2.0 * optimizer_or_adam(name).paged_bytes for name in stack.optimizers])
    seconds = stack.params * (per_param / bandwidth + pages / paging) + stack.parameter_tensors * launch
    return np.asarray(np.where(per_param > 0.0, seconds, 0.0))
