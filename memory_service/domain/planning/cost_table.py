"""Costs of models x input sizes on one card, as arrays over the batch ladder.

A table is built once per (task's options, card, precision) and answers every question about them without
touching a profile again: the largest batch is a comparison, step time and memory are look-ups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.profile_stack import LAYOUTS, ProfileStack, stack_of
from memory_service.domain.cost.step_config import StepConfig, StepMode, precision_class
from memory_service.domain.cost.throughput_knee import BATCH_LADDER, throughput_knees
from memory_service.domain.learning.observation import prediction_keys
from memory_service.domain.planning.option import Array, Columns, Flags, Integers, Option, columns_of
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import allocated_limit_gib, bounds_of
from memory_service.domain.prediction.device_step_time import prepare_many
from memory_service.domain.prediction.peak_memory_curve import peak_curves
from memory_service.domain.quality.quality_model import Kind, QualityModel

LARGEST_RUNG = {"image_size": 1024, "seq_len": 1024, "n_features": 16_384}
"""No plan wants more: beyond it the updates run out long before the throughput rises."""

CHECKPOINT_BELOW = 8
"""Gradient checkpointing (a third more time) is taken when memory holds fewer samples than this, and then
only to reach it: so a larger card never gets a smaller batch."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Figures of options (rows) over ladder rungs (columns); NaN where the rung does not fit or was not
    priced.

    peak_gib, peak_high_gib   driver-seen memory of a training step, median and p90
    accumulated_gib           more of it where gradients accumulate over several batches
    step_s_*                  one training step; eval_s_*: one forward pass per sample
    busy_s                    of step_s, how long kernels run
    """

    peak_gib: Array
    peak_high_gib: Array
    accumulated_gib: Array
    step_s_low: Array
    step_s: Array
    step_s_high: Array
    eval_s_low: Array
    eval_s: Array
    eval_s_high: Array
    busy_s: Array

    @classmethod
    def empty(cls, rows: int, rungs: int) -> Grid:
        return cls(*(np.full((rows, rungs), np.nan) for _ in fields(cls)))

    def of_options(self, place: Integers, rungs: int) -> Grid:
        """The first rungs of the row at each place, NaN at -1: options of one architecture at one size differ
        in their weights only. Where nothing is priced, it takes no memory."""
        if np.isnan(self.peak_gib).all():
            nothing = np.broadcast_to(np.nan, (len(place), rungs))
            return Grid(*(nothing for _ in fields(Grid)))
        priced = (place >= 0)[:, None]
        return Grid(*(np.where(priced, getattr(self, f.name)[place, :rungs], np.nan) for f in fields(Grid)))

    @property
    def nbytes(self) -> int:
        return 0 if self.peak_gib.strides[0] == 0 else len(fields(Grid)) * self.peak_gib.nbytes


@dataclass(frozen=True)
class CostTable:
    """What the options cost on a card (or on the worst of several) at one precision.

    usable_gib   what a process may use; rungs: the batch sizes priced, the ladder's first ones or one pinned
    knee         index of the rung after which the next one gains under 10 % throughput
                 (`domain.cost.throughput_knee`)
    bases        (option, batch, checkpointing) -> what its memory and step stand on, once it was asked
    points       kind of data -> the quality model that was asked last, and what it expects of each option
    """

    usable_gib: float
    precision: str
    options: tuple[Option, ...]
    columns: Columns
    rungs: Array
    plain: Grid
    checkpointed: Grid
    knee: Integers
    gpus: tuple[TargetDevice, ...]
    bases: dict[tuple[int, int, bool], tuple[Estimate, Estimate]] = field(default_factory=dict)
    points: dict[Kind, tuple[QualityModel, Array]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return self.plain.nbytes + self.checkpointed.nbytes

    def largest(self, grid: Grid, extra_gib: Array | float, accumulates: Flags | bool) -> Integers:
        """Index of the largest rung whose p90 memory, and `extra_gib` more, fits; -1 where none does.
        grid: plain or checkpointed; accumulates: of each option at each rung, whether its gradients do."""
        if not grid.nbytes:
            return np.full(len(grid.peak_gib), -1)
        with np.errstate(invalid="ignore"):
            needed = grid.peak_high_gib + extra_gib
            if np.any(accumulates):
                needed += np.where(accumulates, grid.accumulated_gib, 0.0)
            fits = needed <= self.usable_gib
        return np.where(fits.any(axis=1), fits.shape[1] - 1 - np.argmax(fits[:, ::-1], axis=1), -1)


@dataclass(frozen=True, slots=True, eq=False)
class PricedProfiles:
    """What of options is priced at one class of precision, whatever the card: each profile with its optimizer
    once, for weights of one architecture cost the same.

    plain, checkpointed   None where there are none
    of_option   place in `plain` of each option, -1 without a profile (boosted trees)
    saving      place in `checkpointed` of each profile of `plain`, -1 for none
    """

    plain: ProfileStack | None
    checkpointed: ProfileStack | None
    of_option: Integers
    saving: Integers

    @property
    def nbytes(self) -> int:
        return sum(stack.nbytes for stack in (self.plain, self.checkpointed) if stack is not None)


def priced_profiles(options: Sequence[Option], precision: str) -> PricedProfiles:
    """The profiles of these options at a precision."""
    kind = precision_class(precision)
    places: dict[tuple[int, str], int] = {}
    of_option: list[int] = []
    first: list[Option] = []
    for option in options:
        profile = option.profile.get(kind)
        if profile is None:
            of_option.append(-1)
            continue
        place = places.setdefault((id(profile), option.defaults.optimizer), len(places))
        first += [option] if place == len(first) else []
        of_option.append(place)
    saving = [option for option in first if kind in option.checkpointed]
    order = {id(option): place for place, option in enumerate(saving)}

    def stack(profiles: list[Profile], chosen: list[Option]) -> ProfileStack | None:
        return stack_of(profiles, [option.defaults.optimizer for option in chosen]) if chosen else None

    return PricedProfiles(
        stack([option.profile[kind] for option in first], first),
        stack([option.checkpointed[kind] for option in saving], saving),
        np.array(of_option, dtype=np.int64),
        np.array([order.get(id(option), -1) for option in first], dtype=np.int64),
    )


def build_table(
    options: Sequence[Option],
    gpu: TargetDevice,
    precision: str,
    rungs: Sequence[int] = BATCH_LADDER,
    profiles: PricedProfiles | None = None,
    columns: Columns | None = None,
) -> CostTable:
    """Price every option on a card: memory and step time at each rung until memory runs out.

    profiles, columns   of these options at this precision, kept from an earlier table
    Boosted trees have no rungs: their rows stay NaN and are priced by `domain.cost.boosted_trees`.
    """
    profiles = profiles or priced_profiles(options, precision)
    plain = saving = Grid.empty(0, len(rungs))
    knee, in_saving = np.zeros(len(options), dtype=np.int64), np.full(len(options), -1)
    if profiles.plain is not None:
        plain, largest, of_knee = _price(profiles.plain, gpu, precision, rungs)
        knee = np.where(profiles.of_option >= 0, of_knee[profiles.of_option], 0)
        reached = np.array(rungs)[largest] >= min(CHECKPOINT_BELOW, rungs[-1])
        needed = np.flatnonzero(~((largest >= 0) & reached) & (profiles.saving >= 0))
        if profiles.checkpointed is not None and needed.size:
            stack = profiles.checkpointed.taken(profiles.saving[needed])
            saving, _, _ = _price(stack, gpu, precision, rungs)
            place = np.full(len(profiles.plain), -1)
            place[needed] = np.arange(needed.size)
            in_saving = np.where(profiles.of_option >= 0, place[profiles.of_option], -1)
    used = ~(np.isnan(plain.peak_gib).all(axis=0) & np.isnan(saving.peak_gib).all(axis=0))
    width = max(1, int(used.sum()))
    ladder = np.array(rungs[:width], dtype=np.float64)
    return CostTable(
        usable_gib=gpu.usable_gib,
        precision=precision,
        options=tuple(options),
        columns=columns or columns_of(options),
        rungs=ladder,
        plain=plain.of_options(profiles.of_option, width),
        checkpointed=saving.of_options(in_saving, width),
        knee=knee,
        gpus=(gpu,),
    )


def worst_of(tables: Sequence[CostTable]) -> CostTable:
    """One table that every card keeps: the memory of the fullest, the time of the slowest, the earliest
    knee."""
    if len(tables) == 1:
        return tables[0]

    width = min(len(t.rungs) for t in tables)

    def worst(grids: Sequence[Grid]) -> Grid:
        alike = ([getattr(g, f.name)[:, :width] for g in grids] for f in fields(Grid))
        return Grid(*map(np.maximum.reduce, alike))

    first = tables[0]
    return CostTable(
        min(t.usable_gib for t in tables),
        first.precision,
        first.options,
        first.columns,
        first.rungs[:width],
        worst([t.plain for t in tables]),
        worst([t.checkpointed for t in tables]),
        np.minimum.reduce([t.knee for t in tables]),
        tuple(gpu for t in tables for gpu in t.gpus),
    )


def _price(
    stack: ProfileStack, gpu: TargetDevice, precision: str, rungs: Sequence[int]
) -> tuple[Grid, Integers, Integers]:
    """(figures of each profile over the rungs, index of the largest fitting rung or -1, index of the
    knee)."""
    layout = stack.tensor_core_layout if gpu.has_tensor_cores else np.full(len(stack), LAYOUTS.index("nchw"))
    configs = [StepConfig(precision, mode=mode) for mode in _MODES]
    train, infer = (prediction_keys(stack, gpu, config, layout) for config in configs)
    many = len(rungs) > 1
    most = np.array([LARGEST_RUNG[p.input_kind] if many else rungs[0] for p in stack.profiles])
    refused, proven = np.full(len(stack), np.inf), np.zeros(len(stack))
    known = gpu.learned.bounded_models if gpu.learned is not None else ()
    for place, subject in enumerate(train):
        if subject.model in known:
            bounds = bounds_of(gpu, subject)
            refused[place], proven[place] = bounds.refused or np.inf, bounds.proven
    tried = [rung for rung in rungs if rung <= most.max()]
    batch = np.array(tried, dtype=np.float64)
    peaks = peak_curves(stack, tried, gpu, precision, train, proven)
    fits = (peaks.driver_high <= gpu.usable_gib) & (peaks.allocated <= allocated_limit_gib(gpu))
    fits &= (batch <= most[:, None]) & (batch < refused[:, None])
    fits = np.logical_and.accumulate(fits, axis=1)
    largest = fits.sum(axis=1) - 1
    grid = Grid.empty(len(stack), len(rungs))

    def write(name: str, values: Array) -> None:
        getattr(grid, name)[:, : len(tried)] = np.where(fits, values, np.nan)

    write("peak_gib", peaks.driver)
    write("peak_high_gib", peaks.driver_high)
    write("accumulated_gib", peaks.accumulated)
    knee = np.zeros(len(stack), dtype=np.int64)
    for config, subjects in zip(configs, (train, infer), strict=True):
        models = prepare_many(stack, gpu, config, layout, subjects)
        seconds, busy = models.seconds_and_busy(batch)
        if config.mode == "train":
            write("busy_s", busy)
            if many:
                knee = np.where(largest >= 0, throughput_knees(batch, seconds, most), 0)
        name, seconds = ("step_s", seconds) if config.mode == "train" else ("eval_s", seconds / batch)
        write(name, seconds)
        write(f"{name}_low", seconds * np.exp(-models.log_low)[:, None])
        write(f"{name}_high", seconds * np.exp(models.log_high)[:, None])
    return grid, largest, knee


_MODES: tuple[StepMode, StepMode] = ("train", "infer")


def with_memory(card: TargetDevice, memory_gib: float) -> TargetDevice:
    """The card with another amount of memory, of which the driver keeps as much as it does now."""
    reserve = card.memory_gib - card.usable_gib
    return replace(card, memory_gib=memory_gib, usable_gib=max(0.0, memory_gib - reserve))
