"""Plans of boosted trees in the same grid as networks: rounds are epochs, all rows are the batch.

One boosting round reads every row once, so it is the epoch of a tree model, and a plan's `epochs` are its
rounds at learning rate 0.05. They run on the processor beside the card: no device memory, the cost law of
`domain.cost.boosted_trees`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.boosted_trees import CpuFit, fit_cost
from memory_service.domain.planning.budget import (
    FOLD_OVERHEAD_S,
    RunSeconds,
    Seconds,
    minutes_needed,
    setup_seconds,
    split_of,
    spread,
    write_seconds,
)
from memory_service.domain.planning.cost_table import CostTable, Option
from memory_service.domain.planning.plan_search import (
    BOUNDS,
    Batches,
    GridIndex,
    PlanGrid,
    fold_choices,
    quality_of,
)
from memory_service.domain.planning.problem import PlanningProblem

ROUND_CHOICES = (100, 200, 300, 500, 800, 1200, 2000)
LEAVES = 31


def outputs_of(problem: PlanningProblem) -> int:
    """Trees a round: one for a regression or two classes, else one per class."""
    return 1 if problem.task.endswith("-regression") else problem.n_classes


def cost_of(problem: PlanningProblem, option: Option, rows: int, rounds: int) -> CpuFit:
    """Cost of one fit of `rounds` on `rows` rows with the problem's columns, classes and cores, on the host
    where it is slowest."""
    costs = [
        fit_cost(
            option.model.library,
            rows,
            problem.n_features,
            outputs_of(problem),
            rounds=rounds,
            leaves=LEAVES,
            cpu_count=problem.cpu_count,
            speed=card.calibrated.trees if card.calibrated else None,
        )
        for card in problem.cards
    ]
    return max(costs, key=lambda cost: cost.fit_seconds.value)


def price_trees(problem: PlanningProblem, table: CostTable) -> PlanGrid:
    """Minutes and quality [option, rounds, folds] of the tree models of a table without rungs."""
    question = problem.question
    rounds = (question.epochs,) if question.epochs else ROUND_CHOICES
    folds = fold_choices(problem)
    options = table.options
    shape = (len(options), len(rounds), len(folds))
    fit, predict = (Seconds(*(np.zeros(shape) for _ in range(3))) for _ in range(2))
    for index in np.ndindex(shape):
        rows, _ = split_of(problem.n_train, folds[index[2]])
        cost = cost_of(problem, options[index[0]], int(rows), rounds[index[1]])
        _put(fit, index, cost.fit_seconds)
        _put(predict, index, cost.predict_seconds_per_row)
    e = np.array(rounds, dtype=np.float64)[None, :, None]
    k = np.array(folds, dtype=np.float64)[None, None, :]
    run = _run(problem, fit, predict, e, k)
    first = Seconds(*(getattr(fit, part)[:, 0, 0] / rounds[0] for part in ("low", "value", "high")))
    forward = Seconds(*(getattr(predict, part)[:, 0, 0] for part in ("low", "value", "high")))
    n = len(options)
    batches = Batches(
        batch_size=np.full(n, question.batch_size or problem.n_train, dtype=np.int64),
        accumulation=np.ones(n, dtype=np.int64),
        checkpointing=np.zeros(n, dtype=bool),
        bound=np.full(n, BOUNDS.index("pinned"), dtype=np.int64),
        peak_gib=np.zeros(n),
        peak_high_gib=np.zeros(n),
        step=first,
        forward=forward,
    )
    quality = quality_of(problem, table, e, k)
    needed = np.asarray(
        minutes_needed(run, problem.policy.reserve_share, problem.policy.median_share), dtype=np.float64
    )

    def run_of(pick: GridIndex) -> RunSeconds:
        at = (pick.row, pick.epoch, pick.fold)
        whole = Seconds(*(getattr(fit, part)[at] for part in ("low", "value", "high")))
        row = Seconds(*(getattr(predict, part)[at] for part in ("low", "value", "high")))
        return _run(problem, whole, row, float(rounds[pick.epoch]), folds[pick.fold])

    return PlanGrid(rounds, folds, batches, first, forward, np.zeros(n, dtype=bool), run_of, needed, quality)


def run_of_trees(problem: PlanningProblem, option: Option, rounds: int, folds: int) -> RunSeconds:
    """The stages of one plan, on the cores of the problem."""
    rows, _ = split_of(problem.n_train, folds)
    cost = cost_of(problem, option, int(rows), rounds)
    fit, predict = (
        Seconds(each.low, each.value, each.high) for each in (cost.fit_seconds, cost.predict_seconds_per_row)
    )
    return _run(problem, fit, predict, float(rounds), folds)


def _run(problem: PlanningProblem, fit: Seconds, predict: Seconds, rounds: Any, folds: Any) -> RunSeconds:
    _, valid = split_of(problem.n_train, folds)
    fold = fit + predict.times(valid) + spread(FOLD_OVERHEAD_S).times(0.25)
    setup = setup_seconds(0.0, problem.n_train, gpu=False, pretrained=0.0, files=False)
    inference = predict.times(float(problem.n_test)).times(folds)
    write = write_seconds(problem.n_test)
    training = fold.times(folds)
    return RunSeconds(
        setup=setup,
        epoch=fit.times(1.0 / rounds),
        first_fold=fold,
        fold=fold,
        inference=inference,
        write=write,
        training_end=training.and_independent(setup),
        total_end=(training + inference).and_independent(setup).and_independent(write),
    )


def _put(into: Seconds, index: tuple[int, ...], estimate: Estimate) -> None:
    into.low[index], into.value[index], into.high[index] = estimate.low, estimate.value, estimate.high
