"""Choice of the batch: one integer for each option, by memory, updates an epoch and the throughput's knee."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from memory_service.domain.cost.throughput_knee import BATCH_LADDER
from memory_service.domain.planning.cost_table import CHECKPOINT_BELOW, CostTable
from memory_service.domain.planning.hyperparameters import (
    accumulation_steps,
    default_batch,
    is_dense,
    most_by_updates,
)
from memory_service.domain.planning.option import Array, Flags, Integers
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.run_seconds import Seconds


@dataclass(frozen=True, slots=True)
class Batches:
    """The batch of each option: one integer, why, and what a step costs with it.

    batch_size     0 where not even the smallest rung fits
    bound          index into `BOUNDS`: what kept the batch from being larger
    step, forward  seconds per training step / per sample in evaluation, loader not included
    """

    batch_size: Integers
    accumulation: Integers
    checkpointing: Flags
    bound: Integers
    peak_gib: Array
    peak_high_gib: Array
    step: Seconds
    forward: Seconds


LEAST_IMAGE_BATCH = 48
ROOMY_GIB = 20.0
"""R28, R32: on a card of 20 GiB or more a picture model of which fewer than 48 samples fit is too large for
the card: it is left out unless it was asked for. Batch 32 on a 40 GB card is how the observed run was
lost."""

CONTRASTIVE_BATCH = 256
"""Texts, half of them passages: as many pairs a batch as bi-encoders are usually trained with (64 to 256)."""

BOUNDS = ("memory", "updates", "knee", "pinned")


HEAD_WIDTH = 2048
HEAD_BYTES_PER_WEIGHT = 16
LOGIT_BYTES = 12
"""A head for very many classes: weights, gradients and two Adam moments in fp32; logits, softmax, their
gradient."""


def head_gib(problem: PlanningProblem, table: CostTable) -> Array:
    """Extra memory [option, rung] of a head for more classes than the profiles were traced with."""
    more = np.maximum(0.0, problem.n_classes - table.columns.n_outputs)[:, None]
    per_class = HEAD_WIDTH * HEAD_BYTES_PER_WEIGHT + LOGIT_BYTES * table.rungs[None, :]
    return np.asarray(more * per_class / 2**30, dtype=np.float64)


def choose_batches(problem: PlanningProblem, table: CostTable) -> Batches:
    """One batch per option: the largest that memory holds at p90, up to the knee (or the rule's default where
    the knee comes earlier), never past ~50 updates an epoch; a pinned batch as it is.

    Depends on card, data and model, not on minutes; never falls when memory grows.
    """
    rungs, rows = table.rungs, len(table.options)
    extra: Array | float = head_gib(problem, table) if problem.n_classes > 1000 else 0.0
    n = problem.together.n
    if n > 1:  # buckets of gradients beside the gradients
        buckets = table.columns.bucket_params[:, None] * (4.0 / 2**30)
        extra = extra + np.broadcast_to(buckets, (rows, len(rungs)))
    columns = table.columns
    texts = columns.texts_per_row  # the ladder counts rows of them
    wanted_batch = np.maximum(1, np.ceil(columns.wanted_batch / texts)).astype(np.int64)
    policy = problem.policy
    n_train, updates = problem.n_train, policy.updates_per_epoch
    most = _each(columns.least_batch, lambda least: max(1, most_by_updates(n_train, least, updates) // n))
    most = np.maximum(1, (most / texts).astype(np.int64))
    steps = accumulation_steps(rungs[None, :] * n, wanted_batch[:, None], most[:, None] * n)
    if problem.question.batch_size is not None:
        only = np.zeros(rows, dtype=np.int64)
        steps, plain_column, saving_column = _held(table, extra, steps)
        plain = plain_column >= 0
        saving = ~plain & (saving_column >= 0)
        return _gather(table, only, plain, saving, np.full(rows, 3), steps[:, 0], extra)

    def by_rule(size: int) -> int:
        return default_batch(problem.task, size, table.usable_gib, gpu=problem.on_gpu, policy=policy)[0]

    negatives = CONTRASTIVE_BATCH if problem.contrastive else 0
    default = np.maximum(_each(columns.input_size, by_rule), np.maximum(wanted_batch, negatives))
    by_knee = np.maximum(table.knee, np.searchsorted(BATCH_LADDER, default, side="right") - 1)
    by_updates = np.searchsorted(BATCH_LADDER, most, side="right") - 1
    wanted = np.minimum(by_knee, by_updates)
    steps = np.where(np.arange(len(rungs)) < wanted[:, None], steps, 1)
    steps, plain_column, saving_column = _held(table, extra, steps)
    plain_column, saving_column = (np.minimum(most, wanted) for most in (plain_column, saving_column))
    saving_column = np.minimum(saving_column, np.searchsorted(BATCH_LADDER, CHECKPOINT_BELOW))
    saving = saving_column > plain_column
    column = np.where(saving, saving_column, plain_column)
    bound = np.where(column < wanted, 0, np.where(by_updates < by_knee, 1, 2))
    fits, column = (column >= 0) & ~saving, np.maximum(column, 0)
    return _gather(table, column, fits, saving, bound, steps[np.arange(rows), column], extra)


def _held(table: CostTable, extra: Array | float, steps: Integers) -> tuple[Integers, Integers, Integers]:
    """Accumulation [option, rung], none at the smallest rung where no rung's memory holds the gradients; and
    the largest rung of each option then, without checkpointing and with it."""
    plain, saving = (table.largest(grid, extra, steps > 1) for grid in (table.plain, table.checkpointed))
    some = np.maximum(plain, saving) >= 0
    if some.all():
        return steps, plain, saving
    steps = np.where(some[:, None] | (np.arange(steps.shape[1]) > 0), steps, 1)
    plain, saving = (table.largest(grid, extra, steps > 1) for grid in (table.plain, table.checkpointed))
    return steps, plain, saving


def _each(values: Integers, law: Callable[[int], int]) -> Integers:
    """A law of few different values applied to many."""
    unique, inverse = np.unique(values, return_inverse=True)
    return np.array([law(int(value)) for value in unique], dtype=np.int64)[inverse]


def _gather(
    table: CostTable,
    column: Integers,
    fits: Flags,
    saving: Flags,
    bound: Integers,
    accumulation: Integers,
    extra: Array | float,
) -> Batches:
    rows = np.arange(len(table.options))

    def take(name: str) -> Array:
        plain, other = getattr(table.plain, name), getattr(table.checkpointed, name)
        return np.asarray(np.where(saving, other[rows, column], plain[rows, column]), dtype=np.float64)

    more = extra[rows, column] if isinstance(extra, np.ndarray) else extra
    held = take("peak_high_gib") + more + take("accumulated_gib") <= table.usable_gib
    accumulation = np.where(held, accumulation, 1)  # a smaller rung than the largest may have to accumulate
    more = more + np.where(accumulation > 1, take("accumulated_gib"), 0.0)
    return Batches(
        batch_size=np.where(fits | saving, table.rungs[column].astype(np.int64), 0),
        accumulation=accumulation,
        checkpointing=saving,
        bound=bound,
        peak_gib=take("peak_gib") + more,
        peak_high_gib=take("peak_high_gib") + more,
        step=Seconds(take("step_s_low"), take("step_s"), take("step_s_high")),
        forward=Seconds(take("eval_s_low"), take("eval_s"), take("eval_s_high")),
    )


def cramped(problem: PlanningProblem, table: CostTable, batches: Batches) -> Flags:
    """Picture models that memory, not the data, keeps under 48 samples."""
    short_of_memory = batches.bound == BOUNDS.index("memory")
    pictures = table.columns.pictures & (not is_dense(problem.task))
    return np.asarray(pictures & short_of_memory & (batches.batch_size < LEAST_IMAGE_BATCH), dtype=np.bool_)
