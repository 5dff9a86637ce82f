"""Costs of models x input sizes on one card, as arrays over the batch ladder.

A table is built once per (task's options, card, precision) and answers every question about them without
touching a profile again: the largest batch is a comparison, step time and memory are look-ups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import exp

import numpy as np
import numpy.typing as npt

from memory_service.domain.cost.batch_ladder import BATCH_LADDER
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import StepConfig, precision_class
from memory_service.domain.cost.throughput_knee import throughput_knee
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.planning.hyperparameters import TrainingDefaults, training_defaults
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import allocated_limit_gib, observed_bounds
from memory_service.domain.prediction.device_step_time import BaselineSteps
from memory_service.domain.prediction.peak_memory_curve import peak_curve
from memory_service.domain.quality.quality_index import Learning, learning_of
from memory_service.domain.recipe.families import families_of

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LARGEST_RUNG = {"image_size": 1024, "seq_len": 1024, "n_features": 16_384}
"""No plan wants more: beyond it the updates run out long before the throughput rises."""

CHECKPOINT_BELOW = 8
"""Gradient checkpointing (a third more time) is taken when memory holds fewer samples than this, and then
only to reach it: so a larger card never gets a smaller batch."""


@dataclass(frozen=True, slots=True)
class Option:
    """One model at one input size, as the planner may choose it for a task.

    profile        cost of a sample in mixed precision or fp32, by precision class; empty for boosted trees
    checkpointed   the same with gradient checkpointing
    method, lora_rank   of a decoder
    """

    task: str
    model: CatalogueModel
    input_size: int
    profile: dict[str, Profile]
    checkpointed: dict[str, Profile]
    defaults: TrainingDefaults
    learning: Learning
    method: str | None = None
    lora_rank: int | None = None

    @property
    def is_trees(self) -> bool:
        return not self.profile

    @property
    def size_ratio(self) -> float:
        if self.model.input_kind == "n_features" or not self.model.default_input_size:
            return 1.0
        return self.input_size / self.model.default_input_size


def make_option(
    task: str,
    model: CatalogueModel,
    input_size: int,
    profile: dict[str, Profile],
    checkpointed: dict[str, Profile] | None = None,
) -> Option:
    """The option with the training defaults and learning curve its task and family imply."""
    trees = not profile
    how = next((p.extra for p in profile.values() if "method" in p.extra), {})
    method = how.get("method")
    return Option(
        task,
        model,
        input_size,
        profile,
        checkpointed or {},
        training_defaults(task, model.family, pretrained=model.pretrained, trees=trees, method=method),
        learning_of(task, model.pretrained, trees, model.family),
        method,
        how.get("lora_rank"),
    )


def layout_of(profile: Profile, gpu: Gpu) -> str:
    """nhwc (channels_last) for convolutional networks on tensor cores; nchw where convolutions are grouped or
    rare.

    Public 3090 measurements: channels_last gains 12 % at the median but loses up to 60 % on grouped
    convolutions.
    """
    if not gpu.has_tensor_cores or profile.precision != "amp":
        return "nchw"
    flops = {name: work.flops_per_sample for name, work in profile.forward.items()}
    total = sum(flops.values()) or 1.0
    convolutional = sum(flops.get(name, 0.0) for name in ("dense_conv", "pointwise_conv", "depthwise_conv"))
    grouped = flops.get("grouped_conv", 0.0)
    return "nhwc" if convolutional / total > 0.5 and grouped / total < 0.2 else "nchw"


@dataclass(frozen=True, slots=True)
class Columns:
    """What the search reads of every option, as arrays [option], those of `learning` too; `family` is a place
    in `families`, names of `domain.recipe.vocabulary`."""

    names: npt.NDArray[np.str_]
    score: Array
    params_m: Array
    size_ratio: Array
    input_size: Integers
    pretrained: Array
    pictures: npt.NDArray[np.bool_]
    n_outputs: Integers
    least_batch: Integers
    wanted_batch: Integers
    learning: Learning
    input_kind: npt.NDArray[np.str_]
    trained_params: Array
    family: Integers
    families: tuple[tuple[str, ...], ...]


def columns_of(options: Sequence[Option]) -> Columns:
    """The options' constants, made once per task."""

    of_option = [families_of(o.model.name, o.model.family) for o in options]
    families = tuple(dict.fromkeys(of_option))

    def numbers(values: Iterable[float]) -> Array:
        return np.array(list(values), dtype=np.float64)

    def integers(values: Iterable[int]) -> Integers:
        return np.array(list(values), dtype=np.int64)

    return Columns(
        names=np.array([o.model.name for o in options], dtype=np.str_),
        score=numbers(o.model.quality_score for o in options),
        params_m=numbers(o.model.params_m for o in options),
        size_ratio=numbers(o.size_ratio for o in options),
        input_size=integers(o.input_size for o in options),
        pretrained=numbers(float(o.model.pretrained) for o in options),
        pictures=np.array([o.model.input_kind == "image_size" for o in options], dtype=np.bool_),
        n_outputs=integers(max((p.n_outputs for p in o.profile.values()), default=1000) for o in options),
        least_batch=integers(o.defaults.least_batch for o in options),
        wanted_batch=integers(o.defaults.wanted_batch for o in options),
        learning=Learning(*(numbers(getattr(o.learning, f.name) for o in options) for f in fields(Learning))),
        input_kind=np.array([o.model.input_kind for o in options], dtype=np.str_),
        trained_params=numbers(max((p.params for p in o.profile.values()), default=0) for o in options),
        family=integers(families.index(names) for names in of_option),
        families=families,
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """Figures of options (rows) over ladder rungs (columns); NaN where the rung does not fit or was not
    priced.

    peak_gib, peak_high_gib   driver-seen memory of a training step, median and p90
    step_s_*                  one training step; eval_s_*: one forward pass per sample
    busy_s                    of step_s, how long kernels run
    """

    peak_gib: Array
    peak_high_gib: Array
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

    def copy_row(self, source: int, target: int) -> None:
        """Options of one architecture at one size differ in their weights only."""
        for item in fields(Grid):
            getattr(self, item.name)[target] = getattr(self, item.name)[source]

    def first(self, rungs: int) -> Grid:
        """The first columns alone; nothing priced takes no memory."""
        if np.isnan(self.peak_gib).all():
            nothing = np.broadcast_to(np.nan, (len(self.peak_gib), rungs))
            return Grid(*(nothing for _ in fields(Grid)))
        return Grid(*(getattr(self, f.name)[:, :rungs].copy() for f in fields(Grid)))

    @property
    def nbytes(self) -> int:
        return 0 if self.peak_gib.strides[0] == 0 else len(fields(Grid)) * self.peak_gib.nbytes


@dataclass(frozen=True)
class CostTable:
    """What the options cost on a card (or on the worst of several) at one precision.

    usable_gib   what a process may use; rungs: the batch sizes priced, the ladder's first ones or one pinned
    knee         index of the rung after which the next one gains under 10 % throughput
    (`domain.cost.step_time`)
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

    @property
    def nbytes(self) -> int:
        return self.plain.nbytes + self.checkpointed.nbytes

    def largest(self, extra_gib: Array | float = 0.0) -> Integers:
        """Index of the largest rung whose p90 memory, and `extra_gib` more, fits; -1 where none does."""
        return _largest(self.plain, self.usable_gib, extra_gib)

    def largest_checkpointed(self, extra_gib: Array | float = 0.0) -> Integers:
        return _largest(self.checkpointed, self.usable_gib, extra_gib)


def _largest(grid: Grid, usable_gib: float, extra_gib: Array | float) -> Integers:
    with np.errstate(invalid="ignore"):
        fits = grid.peak_high_gib + extra_gib <= usable_gib
    return np.where(fits.any(axis=1), fits.shape[1] - 1 - np.argmax(fits[:, ::-1], axis=1), -1)


def build_table(
    options: Sequence[Option],
    gpu: TargetDevice,
    precision: str,
    rungs: Sequence[int] = BATCH_LADDER,
    steps: BaselineSteps | None = None,
) -> CostTable:
    """Price every option on a card: memory and step time at each rung until memory runs out.

    steps   of this card and precision, kept from an earlier table
    Boosted trees have no rungs: their rows stay NaN and are priced by `domain.cost.boosted_trees`.
    """
    steps = steps or BaselineSteps(gpu)
    plain, saving = (Grid.empty(len(options), len(rungs)) for _ in range(2))
    kind = precision_class(precision)
    knee = np.zeros(len(options), dtype=np.int64)
    priced: dict[tuple[int, str], int] = {}
    for row, option in enumerate(options):
        profile = option.profile.get(kind)
        if profile is None:
            continue
        twin = priced.setdefault((id(profile), option.defaults.optimizer), row)
        if twin != row:
            plain.copy_row(twin, row)
            saving.copy_row(twin, row)
            knee[row] = knee[twin]
            continue
        fitted, knee[row] = _price(plain, row, profile, option, gpu, precision, rungs, steps)
        enough = fitted >= 0 and rungs[fitted] >= min(CHECKPOINT_BELOW, rungs[-1])
        if not enough and kind in option.checkpointed:
            _price(saving, row, option.checkpointed[kind], option, gpu, precision, rungs, steps)
    used = ~(np.isnan(plain.peak_gib).all(axis=0) & np.isnan(saving.peak_gib).all(axis=0))
    width = max(1, int(used.sum()))
    ladder = np.array(rungs[:width], dtype=np.float64)
    return CostTable(
        usable_gib=gpu.usable_gib,
        precision=precision,
        options=tuple(options),
        columns=columns_of(options),
        rungs=ladder,
        plain=plain.first(width),
        checkpointed=saving.first(width),
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
        return Grid(
            *(np.maximum.reduce([getattr(g, f.name)[:, :width] for g in grids]) for f in fields(Grid))
        )

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
    grid: Grid,
    row: int,
    profile: Profile,
    option: Option,
    gpu: TargetDevice,
    precision: str,
    rungs: Sequence[int],
    steps: BaselineSteps,
) -> tuple[int, int]:
    """Fill one row; (index of the largest fitting rung or -1, index of the knee)."""
    config = StepConfig(precision, layout_of(profile, gpu), option.defaults.optimizer)
    most = LARGEST_RUNG[profile.input_kind] if len(rungs) > 1 else rungs[0]
    room = allocated_limit_gib(gpu)
    refused = observed_bounds(profile, gpu, config).refused or most + 1
    tried = [batch_size for batch_size in rungs if batch_size <= most and batch_size < refused]
    peaks = peak_curve(profile, tried, gpu, config)
    fits = (peaks.driver_high <= gpu.usable_gib) & (peaks.allocated <= room)
    n = len(tried) if fits.all() else int(np.argmin(fits))
    if n == 0:
        return -1, 0
    grid.peak_gib[row, :n], grid.peak_high_gib[row, :n] = peaks.driver[:n], peaks.driver_high[:n]
    batch = np.array(rungs[:n], dtype=np.float64)
    train = steps.prepare(gpu.learned, profile, config)
    infer = steps.prepare(gpu.learned, profile, replace(config, optimizer="adamw", mode="infer"))
    for name, model, share in (("step_s", train, 1.0), ("eval_s", infer, 1.0 / batch)):
        spent, busy = model.seconds_and_busy(batch)
        seconds = spent * share
        if model is train:
            grid.busy_s[row, :n] = busy
        getattr(grid, name)[row, :n] = seconds
        getattr(grid, f"{name}_low")[row, :n] = seconds * exp(-model.log_low)
        getattr(grid, f"{name}_high")[row, :n] = seconds * exp(model.log_high)
    return n - 1, int(np.searchsorted(rungs, throughput_knee(train.seconds_many, most)))


def with_memory(card: TargetDevice, memory_gib: float) -> TargetDevice:
    """The card with another amount of memory, of which the driver keeps as much as it does now."""
    reserve = card.memory_gib - card.usable_gib
    return replace(card, memory_gib=memory_gib, usable_gib=max(0.0, memory_gib - reserve))
