"""Plans of boosted trees in the same grid as networks: rounds are epochs, all rows are the batch.

One boosting round reads every row once, so it is the epoch of a tree model. What is chosen is the learning
rate; a plan's `epochs` are a cap that early stopping ends, priced to the expected best round and its 90th
percentile (`domain.quality.boosting_rounds`), or lower where that does not fit or is not worth it. Trees
grow on the processor, or on one card where that takes a smaller budget at p90 and the data fit its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.boosted_trees import (
    CARD_BYTES,
    CpuFit,
    card_peak,
    cost_kind,
    fit_on_card,
    is_boosting,
)
from memory_service.domain.cost.in_context import (
    context_laws,
    context_memory,
    context_seconds,
    passed_limit,
    rows_read,
)
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.planning.batch_choice import BOUNDS, Batches
from memory_service.domain.planning.cost_table import CostTable, with_memory
from memory_service.domain.planning.fits import Fits, split_of
from memory_service.domain.planning.option import Flags, Option
from memory_service.domain.planning.plan_search import GridIndex, Places, PlanGrid, fold_choices, quality_of
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.run_seconds import (
    NOTHING,
    TREE_FOLD_OVERHEAD,
    RunSeconds,
    Seconds,
    minutes_needed,
    setup_seconds,
    write_seconds,
)
from memory_service.domain.prediction.device_host import LEAVES, device_fit
from memory_service.domain.quality.boosting_rounds import (
    LEARNING_RATES,
    MOST_ROUNDS,
    RATE_POINTS,
    SLOWEST,
    best_round,
    cap_of,
    cut_points,
    patience_rounds,
)

APART = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400)
"""Caps of runs that stand beside others."""

CAPS = tuple(sorted({round(float(f"{25 * 1.05**step:.3g}")) for step in range(138)} | set(APART)))
"""Caps that are weighed where minutes or their price forbid the whole, a twentieth apart: what lies between
is worth 0.16 index points at most, and a plan takes 3 ms more than with doublings (13 with a hundredth)."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Seconds of a fit of the first fold (the spread of the best round included), of another fold and, where
    there is one, of all rows, which nothing stops early; of a round, and to predict a row."""

    fit: Seconds
    other: Seconds
    whole: Seconds
    round: Seconds
    predict: Seconds

    def each(self, change: Callable[[Seconds], Seconds]) -> Fit:
        """The same done to all."""
        return Fit(*(change(getattr(self, stage.name)) for stage in fields(self)))


FOREST_TREES = 500

CARD_START = Seconds(2.0, 4.0, 8.0)
"""Context, copies, first kernels of a fit on a card; judged."""


def kind_of(option: Option) -> str:
    """The cost law of an option of the processor."""
    model = option.model
    return cost_kind(model.name, model.library, model.family) or "lightgbm"


def fitted_at_once(option: Option) -> bool:
    """Whether the option is an estimator of the processor that is not boosted: no rounds, no rate."""
    return option.is_trees and not is_boosting(kind_of(option))


def rounds_of_estimator(kind: str) -> int:
    """What stands for rounds where nothing is boosted: the trees of a forest, else one fit."""
    return FOREST_TREES if kind in ("random-forest", "extra-trees") else 1


def outputs_of(problem: PlanningProblem) -> int:
    """Trees a round: one for a regression or two classes, else one per class."""
    return 1 if problem.task.endswith("-regression") else problem.n_classes


def cost_of(problem: PlanningProblem, option: Option, rows: int, rounds: Any) -> CpuFit:
    """Cost of one fit of `rounds` on `rows` rows with the problem's columns, classes and cores, on the host
    where it is slowest."""
    if option.model.family == ENGINES:
        return _engine_cost(problem)
    rows, columns = _sizes(problem, option, rows)
    asked, cores = (kind_of(option), option.model.name, rows, columns, outputs_of(problem)), problem.cpu_count
    costs = (device_fit(*asked, rounds=rounds, cpu_count=cores, device=card) for card in problem.cards)
    return max(costs, key=lambda cost: float(np.max(cost.fit_seconds.value)))


ENGINES, ENGINE_SHARE = "automl", 0.55
"""The family of what trains a portfolio of its own, and the share of the minutes that it is told to take: its
limit is kept to some tens of percent."""


def _engine_cost(problem: PlanningProblem) -> CpuFit:
    """Of a portfolio that another library trains in the minutes it is given."""
    seconds = ENGINE_SHARE * 60.0 * problem.question.minutes / float(problem.fits(1, trees=True).models)
    gib = 1.0 + 10.0 * problem.n_train * problem.n_features * 8.0 / 2**30
    fit = Estimate(seconds, 0.8 * seconds, 1.2 * seconds, basis="the minutes that it is given")
    row = Estimate(1e-3, 3e-4, 3e-3, basis="dozens of models, judged")
    return CpuFit(fit, row, Estimate(gib, gib / 2, gib * 2, basis="ten copies of the table"))


def _sizes(problem: PlanningProblem, option: Option, rows: int) -> tuple[int, int]:
    """(rows, columns) that a fit to so many rows of the problem takes; of forecasts series and steps."""
    if option.model.input_kind == "n_features":
        return rows, problem.n_features
    series, usual = problem.question.n_series, option.model.default_input_size
    if series is not None:
        return series, max(1, problem.n_train // series)
    known = kind_of(option) in context_laws()
    return (rows_read(kind_of(option), problem.n_train) if known else rows), usual


def limit_of(problem: PlanningProblem, option: Option) -> str:
    """Which limit of the model the data pass, in words; "" where none."""
    classes = None if problem.task.endswith("-regression") else problem.n_classes
    table = option.model.input_kind == "n_features"
    size = {"rows": problem.n_train, "columns": problem.n_features, "classes": classes} if table else {}
    cores = None if problem.on_gpu else problem.n_train
    return passed_limit(option.model.name, **size, cores=cores, horizon=problem.question.horizon)


def context_on_card(problem: PlanningProblem, option: Option) -> Estimate | None:
    """GiB of a card that a model in context needs; None of others."""
    if kind_of(option) not in context_laws():
        return None
    rows, columns = _sizes(problem, option, problem.n_train)
    regression = problem.task.endswith("-regression")
    return context_memory(kind_of(option), rows, problem.n_test, columns, regression=regression)


def _speed(card: Gpu) -> float:
    return max(card.tflops.get(name, 0.0) for name in ("fp16", "bf16", "fp32"))


def memory_on_card(problem: PlanningProblem, option: Option) -> Estimate | None:
    """GiB of the smallest card as its driver shows them; None where these trees cannot grow on every card:
    another maker's, a library whose wheel has no CUDA, too little memory."""
    kind, vram = kind_of(option), problem.question.vram_gib
    usable = min((card if vram is None else with_memory(card, vram)).usable_gib for card in problem.cards)
    needed = context_on_card(problem, option)
    if needed is not None:
        cuda = all(card.kind == "cuda" for card in problem.cards)
        return needed if cuda and needed.high <= usable else None
    if kind not in CARD_BYTES or any(card.compute_capability is None for card in problem.cards):
        return None
    rows, valid = split_of(problem.n_train, 1)
    return card_peak(kind, int(rows), int(valid), problem.n_features, outputs_of(problem), usable)


def card_seconds(problem: PlanningProblem, option: Option, rows: int, rounds: Any) -> Estimate:
    """Seconds of one fit on the card of the problem where it is slowest."""
    if kind_of(option) in context_laws():
        return _context_on_card(problem, option, rows)[0]
    data = kind_of(option), rows, problem.n_features, outputs_of(problem), rounds
    fits = (fit_on_card(*data, card.bandwidth_gb_s, LEAVES) for card in problem.cards)
    return max((fit for fit in fits if fit is not None), key=lambda fit: float(np.max(fit.value)))


def _context_on_card(problem: PlanningProblem, option: Option, rows: int) -> tuple[Estimate, Estimate]:
    """(seconds of a fit, of predicting a row) on the card of the problem where they are most."""
    slowest = min(problem.cards, key=_speed)
    return context_seconds(kind_of(option), *_sizes(problem, option, rows), _speed(slowest))


def best_round_of(problem: PlanningProblem, option: Option, learning_rate: float, folds: int) -> Estimate:
    """The round at which a fold's validation is expected to be best."""
    rows, _ = split_of(problem.n_train, folds)
    return best_round(learning_rate, float(rows), problem.n_features, option.model.library)


def _best_rounds(
    problem: PlanningProblem, option: Option, caps: Mapping[float, tuple[int, ...]], folds: int
) -> Estimate:
    """The same of every cap."""
    each = [best_round_of(problem, option, rate, folds) for rate in caps]
    counts = [len(most) for most in caps.values()]
    intervals = zip(*((e.low, e.value, e.high) for e in each), strict=True)
    low, value, high = (np.repeat(parts, counts) for parts in intervals)
    return Estimate(value, low, high)  # type: ignore[arg-type]


def caps_of(problem: PlanningProblem) -> dict[float, tuple[int, ...]]:
    """Learning rate -> the caps that are weighed with it, ascending: up to three times the 90th percentile of
    the library that needs most, asked for or not; a pinned number of rounds is the cap of all."""
    pinned = problem.question.epochs
    if pinned:
        return dict.fromkeys(LEARNING_RATES, (pinned,))
    rows, _ = split_of(problem.n_train, 5)
    whole = {
        rate: cap_of(best_round(rate, float(rows), problem.n_features, SLOWEST)) for rate in LEARNING_RATES
    }
    return {rate: (*(cap for cap in CAPS if cap < most), most) for rate, most in whole.items()}


def price_trees(problem: PlanningProblem, table: CostTable) -> PlanGrid:
    """Minutes and quality [option, schedule, folds] of the tree models of a table without rungs; infinite
    minutes where memory forbids them."""
    question, options = problem.question, table.options
    caps, folds = caps_of(problem), fold_choices(problem)
    rates = tuple(rate for rate, of_rate in caps.items() for _ in of_rate)
    most = np.array(tuple(chain(*caps.values())))
    points = np.array([RATE_POINTS[rate] for rate in rates])
    patience = np.array([patience_rounds(rate) for rate in rates])
    shape = (len(options), len(rates), len(folds))
    both = Fit(*(Seconds(*(np.zeros((2, *shape)) for _ in range(3))) for _ in fields(Fit)))
    on_card = [memory_on_card(problem, option) for option in options]
    lost, out = np.zeros(shape), np.zeros((2, *shape), dtype=bool)

    def put(at: tuple[Any, ...], fold: Fit) -> None:
        for name in (stage.name for stage in fields(Fit)):
            into, part = getattr(both, name), getattr(fold, name)
            into.low[at], into.value[at], into.high[at] = part.low, part.value, part.high

    for row, option in enumerate(options):
        kind = kind_of(option)
        out[1, row] = on_card[row] is None
        for place, count in enumerate(folds):
            schedules: slice | int = slice(None)
            if is_boosting(kind):
                best = _best_rounds(problem, option, caps, count)
                lost[row, :, place] = points + cut_points(best, most)
                rounds = _rounds(best, patience, most)
            else:
                schedules = -1
                rounds = ((rounds_of_estimator(kind),) * 3,) * 2
                out[:, row, :-1, place] = True
                out[:, row, -1, place] |= bool(limit_of(problem, option))
                out[0, row, -1, place] |= bool(passed_limit(kind, cores=problem.n_train))
            fits = problem.fits(count, trees=True)
            both_sides = _fits(problem, option, fits, *rounds, on_card=on_card[row] is not None)
            for device, fold in enumerate(both_sides):
                put((device, row, schedules, place), fold)
    k = np.array(folds, dtype=np.float64)[None, None, :]
    run = _run(problem, both.each(lambda stage: stage.upper), problem.fits(k, trees=True))
    policy = problem.policy
    minutes_on = np.where(out, np.inf, minutes_needed(run, policy.reserve_share, policy.median_share))
    side = minutes_on[1] < minutes_on[0]
    fold = both.each(lambda stage: stage.each(lambda part: np.where(side, part[1], part[0])))
    n = len(options)
    step, forward = (of.each(lambda part: part[:, -1, 0]) for of in (fold.round, fold.predict))
    batches = Batches(
        batch_size=np.full(n, question.batch_size or problem.n_train, dtype=np.int64),
        accumulation=np.ones(n, dtype=np.int64),
        checkpointing=np.zeros(n, dtype=bool),
        bound=np.full(n, BOUNDS.index("pinned"), dtype=np.int64),
        peak_gib=np.array([0.0 if peak is None else peak.value for peak in on_card]),
        peak_high_gib=np.array([0.0 if peak is None else peak.high for peak in on_card]),
        step=step,
        forward=forward,
    )
    whole = quality_of(problem, table, np.full((1, 1, 1), float(MOST_ROUNDS)), k)
    quality = np.clip(whole - lost, 0.0, 100.0)

    def runs_of(rows: Places, at_schedules: Places, at_folds: Places) -> RunSeconds:
        at = (rows, at_schedules, at_folds)
        fits = problem.fits(np.array(folds, dtype=np.float64)[at_folds], trees=True)
        return _run(problem, fold.each(lambda stage: stage.taken(at)), fits)

    def best_epoch_of(pick: GridIndex) -> Estimate:
        kind = kind_of(options[pick.row])
        if not is_boosting(kind):
            n = float(rounds_of_estimator(kind))
            return Estimate(n, n, n, basis="one fit, without rounds")
        return best_round_of(problem, options[pick.row], rates[pick.epoch], folds[pick.fold])

    return PlanGrid(
        tuple(chain(*caps.values())),
        folds,
        batches,
        step,
        forward,
        np.zeros(n, dtype=bool),
        runs_of,
        minutes_on.min(axis=0),
        quality,
        learning_rates=rates,
        best_epoch_of=best_epoch_of,
        minutes_on=minutes_on,
        close=None if question.epochs else _close(caps),
    )


def _close(caps: Mapping[float, tuple[int, ...]]) -> Flags:
    """What is neither the whole of its rate nor one of `APART`."""
    return np.concatenate([[*(cap not in APART for cap in most[:-1]), False] for most in caps.values()])


def run_of_trees(
    problem: PlanningProblem, option: Option, learning_rate: float, cap: int, folds: int
) -> RunSeconds:
    """The stages of one plan, trees grown on the cores of the problem."""
    best = best_round_of(problem, option, learning_rate, folds)
    fits, rounds = problem.fits(folds, trees=True), _rounds(best, patience_rounds(learning_rate), cap)
    (fold,) = _fits(problem, option, fits, *rounds, on_card=False)
    return _run(problem, fold, fits)


Rounds = tuple[Any, Any, Any]
"""As (low, value, high), numbers or arrays of them."""


def _rounds(best: Estimate, patience: Any, cap: Any) -> tuple[Rounds, Rounds]:
    """Rounds to the best one and the patience after it, and without that, by their cap."""
    low, value, high = (
        (np.minimum(cap, n + patience), np.minimum(cap, n)) for n in (best.low, best.value, best.high)
    )
    return (low[0], value[0], high[0]), (low[1], value[1], high[1])


def _fits(
    problem: PlanningProblem, option: Option, fits: Fits, stopped: Rounds, told: Rounds, *, on_card: bool
) -> Iterator[Fit]:
    """Cost of a fold on the processor and then on the card; errors of the seconds a round and of the number
    of rounds are independent.

    stopped, told   rounds of a fold, which its validation ends, and of a fit to all rows
    """

    def on_cpu(rows: Any, rounds: Rounds) -> tuple[Estimate, Estimate]:
        once = cost_of(problem, option, int(rows), np.maximum(1.0, np.round(rounds[1])))
        return once.fit_seconds, once.predict_seconds_per_row

    def on_gpu(rows: Any, rounds: Rounds) -> tuple[Estimate, Estimate]:
        if kind_of(option) in context_laws():
            return _context_on_card(problem, option, int(rows))
        return card_seconds(problem, option, int(rows), np.maximum(1.0, np.round(rounds[1]))), of_row

    first, of_row = on_cpu(fits.rows, stopped)
    devices = [(first, of_row, NOTHING, on_cpu)]
    if on_card:
        devices.append((*on_gpu(fits.rows, stopped), CARD_START, on_gpu))
    for once, predict, start, cost in devices:
        fit = over_rounds(once, stopped) + start
        other, whole = fit, NOTHING
        if fits.by_time:
            other = over_rounds(cost(fits.other_rows, stopped)[0], stopped) + start
            whole = over_rounds(cost(fits.whole_rows, told)[0], told) + start
        each = fit if fitted_at_once(option) else Seconds.of(once).times(1.0 / stopped[1])
        yield Fit(fit, other, whole, each, over_rounds(predict, stopped))


def over_rounds(cost: Estimate, rounds: Rounds) -> Seconds:
    """Seconds of a fit of `rounds` (low, value, high) that costs so much at the middle one; numbers or arrays
    of them."""
    few, usual, many = rounds
    faster = np.hypot(np.log(usual / few), np.log(cost.value / cost.low))
    slower = np.hypot(np.log(many / usual), np.log(cost.high / cost.value))
    return Seconds(cost.value * np.exp(-faster), cost.value, cost.value * np.exp(slower))


def _run(problem: PlanningProblem, fold: Fit, fits: Fits) -> RunSeconds:
    judged = fold.predict.times(fits.valid) + TREE_FOLD_OVERHEAD
    first, other = fold.fit + judged, fold.other + judged
    whole = fold.whole + TREE_FOLD_OVERHEAD
    setup = setup_seconds(0.0, problem.n_train, gpu=False, pretrained=0.0, files=False)
    answer = fold.predict.times(float(problem.n_test))
    write = write_seconds(problem.n_test)
    return RunSeconds.of(setup, fold.round, first, other, whole, answer, write, fits)
