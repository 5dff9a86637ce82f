"""Step times of many profiles at once: `step_time.StepModel` as arrays over profiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memory_service.domain.common.optimizers import OPTIMIZERS
from memory_service.domain.cost.efficiencies import LOG_SPREAD
from memory_service.domain.cost.profile import OP_CLASSES
from memory_service.domain.cost.profile_stack import Integers, ProfileStack, Runs
from memory_service.domain.cost.rates import Rates
from memory_service.domain.cost.roofline import Floats
from memory_service.domain.cost.step_config import StepMode
from memory_service.domain.cost.step_time import PARTS, optimizer_bytes_per_param, tile_efficiency


@dataclass(frozen=True, slots=True, eq=False)
class StepModels:
    """Of n profiles: fields as in `StepModel`, those of groups one profile after the other (`of_group`), the
    others of shape (n,)."""

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
        """Median seconds per step of each batch, and how many of them kernels run; shapes (n, batches)."""
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
        owner = np.asarray(self.of_group.repeated(np.arange(n)))
        seconds = np.zeros((n, len(PARTS)))
        parts = np.bincount(owner * classes + self.kind, weights=work, minlength=n * classes)
        seconds[:, :classes] = parts.reshape(n, classes)
        waits = seconds.sum(axis=1) + self.launch_seconds < self.host_seconds
        seconds[waits] = 0.0
        seconds[:, PARTS.index("launch")] = np.where(waits, self.host_seconds, self.launch_seconds)
        seconds[:, PARTS.index("optimizer")] = self.optimizer_seconds
        total = seconds.sum(axis=1, keepdims=True)
        return np.asarray(seconds / np.where(total > 0.0, total, 1.0))


def step_models(
    stack: ProfileStack, rates: Sequence[Rates], layout: Integers, precision: str, mode: StepMode
) -> StepModels:
    """The step models of all profiles. rates: at each layout; layout: place in `rates` of each profile."""
    groups, of_group = stack.groups[mode], stack.of_group[mode]
    at = np.asarray(of_group.repeated(layout))

    def each(values: Sequence[float]) -> Floats:
        return np.array(values, dtype=np.float64)[layout]

    flops = np.array([r.flops_per_second for r in rates])[at, groups.kind] * tile_efficiency(
        groups, np.array([r.tile_power for r in rates])[at], np.array([r.group_power for r in rates])[at]
    )
    moved = np.array([r.bytes_per_second for r in rates])[at, groups.kind]
    launches = np.add.reduceat(groups.kernels, of_group.starts)
    training = mode == "train"
    spent = np.maximum(groups.flops_per_sample / flops, groups.bytes_per_sample / moved)
    total = np.add.reduceat(spent, of_group.starts)
    grouped = np.where(groups.kind == OP_CLASSES.index("grouped_conv"), spent, 0.0)
    widen = each([r.extrapolation for r in rates]) + LOG_SPREAD["grouped"] * (
        np.add.reduceat(grouped, of_group.starts) / np.where(total > 0.0, total, 1.0)
    )
    low, high = (
        each([LOG_SPREAD[side] if r.log_spread is None else r.log_spread for r in rates]) + widen
        for side in ("low", "high")
    )
    kernel = each([r.kernel_seconds if training else r.inference_kernel_seconds for r in rates])
    host = each([r.host_seconds for r in rates])
    optimizer = _optimizer_seconds(stack, rates, layout, precision) if training else np.zeros(len(stack))
    return StepModels(
        of_group, groups.kind, groups.flops_fixed / flops, groups.flops_per_sample / flops,
        groups.bytes_fixed / moved, groups.bytes_per_sample / moved, launches * kernel, launches * host,
        optimizer, low, high, np.ones(len(stack)),
    )  # fmt: skip


def _optimizer_seconds(
    stack: ProfileStack, rates: Sequence[Rates], layout: Integers, precision: str
) -> Floats:
    moved = {name: optimizer_bytes_per_param(name, precision) for name in set(stack.optimizers)}
    per_param = np.array([moved[name] for name in stack.optimizers])
    share = np.minimum(1.0, per_param / OPTIMIZERS["adamw"].step_bytes)
    tensor = [r.update_seconds_per_tensor for r in rates]
    host = np.array([r.host_seconds if t is None else 0.0 for r, t in zip(rates, tensor, strict=True)])
    launch = host[layout] + share * np.array([t or 0.0 for t in tensor])[layout]
    bandwidth = np.array([r.memory_bytes_per_second for r in rates])[layout]
    seconds = stack.params * per_param / bandwidth + stack.parameter_tensors * launch
    return np.asarray(np.where(per_param > 0.0, seconds, 0.0))
