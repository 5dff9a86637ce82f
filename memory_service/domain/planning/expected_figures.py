"""What a candidate plan is expected to show: memory, minutes, quality, and the timetable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.boosted_trees import no_device_memory
from memory_service.domain.cost.step_config import StepConfig, layout_of, precision_class
from memory_service.domain.planning.boosting_plan import card_seconds, cost_of, kind_of, memory_on_card
from memory_service.domain.planning.budget import Seconds
from memory_service.domain.planning.candidates import CandidateSet
from memory_service.domain.planning.plan import Expected, Stage
from memory_service.domain.planning.plan_search import GridIndex
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.planning.sample_time import loader_rate
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.domain.quality.quality_index import quality_estimate
from memory_service.domain.quality.quality_model import NOTHING_LEARNED


def summary(candidates: CandidateSet, pick: GridIndex) -> dict[str, Any]:
    """A plan in one line, for alternatives and for the changes that would fit."""
    settings = settings_of(candidates, pick)
    expected = expected_of(candidates, pick)
    return {
        "model": settings["model"]["name"],
        candidates.table.options[pick.row].model.input_kind: candidates.table.options[pick.row].input_size,
        **{name: settings[name] for name in ("batch_size", "precision", "folds", "epochs")},
        "expected": {
            name: getattr(expected, name).as_dict()
            for name in ("peak_memory_gib", "total_minutes", "quality_index")
        },
    }


def expected_of(candidates: CandidateSet, pick: GridIndex, seeds: int = 1) -> Expected:
    """The figures of a pick with their intervals, in the units of the contract; with all of its `seeds`."""
    problem, grid, row = candidates.problem, candidates.grid, pick.row
    batches, run = grid.batches, grid.run_of(pick).repeated(grid.folds[pick.fold], seeds)
    batch = float(batches.batch_size[row])
    memory, time = _bases(candidates, pick)
    value, high = float(batches.peak_gib[row]), float(batches.peak_high_gib[row])
    if candidates.table.options[row].is_trees and not grid.on_card(pick):
        value = high = 0.0
    basis = memory.basis + " + gradients that accumulate" * bool(batches.accumulation[row] > 1)
    peak = replace(memory, value=value, low=max(0.0, 2 * value - high), high=high, basis=basis)
    tightest = min(problem.cards, key=lambda card: card.usable_gib)
    total = problem.question.vram_gib or tightest.memory_gib
    step = run.epoch if grid.on_card(pick) else grid.step.each(lambda part: part[row])
    composed = replace(time, grade="estimated")
    return Expected(
        peak_memory_gib=peak,
        memory_percent=peak.scaled(100.0 / total),
        samples_per_second=_estimate(step, 1.0, time).reciprocal(batch),
        epoch_seconds=_estimate(run.epoch, 1.0, composed),
        total_minutes=_estimate(run.total_end, 1 / 60, composed, ", hidden minutes included"),
        inference_minutes=_estimate(run.inference, 1 / 60, composed),
        host_memory_gib=_host_memory(candidates, pick),
        best_epoch=None if grid.best_epoch_of is None else grid.best_epoch_of(pick),
        quality_index=expected_quality(candidates, pick),
        bound=_bound(candidates, pick),
    )


def expected_quality(candidates: CandidateSet, pick: GridIndex) -> Estimate:
    """The quality index of a pick with its interval."""
    problem, model = candidates.problem, candidates.table.options[pick.row].model
    sd, measured = problem.quality.interval_sd(
        problem.data_kind, (model.name, model.family), model.quality_score
    )
    learned = problem.quality.learned.get((problem.data_kind.table, model.name), NOTHING_LEARNED)
    index = float(candidates.grid.quality[pick.row, pick.epoch, pick.fold])
    return quality_estimate(index, sd, measured, learned)


def _host_memory(candidates: CandidateSet, pick: GridIndex) -> Estimate | None:
    option = candidates.table.options[pick.row]
    if not option.is_trees:
        return None
    return cost_of(
        candidates.problem, option, candidates.problem.n_train, candidates.grid.epochs[pick.epoch]
    ).memory_gib


def _bases(candidates: CandidateSet, pick: GridIndex) -> tuple[Estimate, Estimate]:
    """What memory and time of a pick stand on, as estimates of one step: grade, n and basis are theirs.

    Memory is the fullest card's, time the slowest one's; where the input pipeline is slower still, its.
    """
    problem, option = candidates.problem, candidates.table.options[pick.row]
    kind, saving = (
        precision_class(candidates.precision),
        bool(candidates.grid.batches.checkpointing[pick.row]),
    )
    profile = (option.checkpointed if saving else option.profile).get(kind)
    on_card = memory_on_card(problem, option) if candidates.grid.on_card(pick) else None
    if on_card is not None:
        rounds = candidates.grid.epochs[pick.epoch]
        return on_card, card_seconds(problem, option, problem.n_train, rounds)
    if profile is None:
        cost = cost_of(problem, option, problem.n_train, candidates.grid.epochs[pick.epoch])
        basis = no_device_memory(option.model.name, kind_of(option))
        return Estimate(0.0, 0.0, 0.0, basis=basis), cost.fit_seconds
    batch = int(candidates.grid.batches.batch_size[pick.row])
    known = candidates.table.bases.get((pick.row, batch, saving))
    if known is None:

        def config(card: TargetDevice) -> StepConfig:
            return StepConfig(candidates.precision, layout_of(profile, card), option.defaults.optimizer)

        fullest = min(problem.cards, key=lambda card: card.usable_gib)
        memory = peak_memory(profile, batch, fullest, config(fullest)).driver_gib
        steps = [prepare(profile, card, config(card)).step_seconds(batch) for card in problem.cards]
        known = memory, max(steps, key=lambda step: step.value)
        candidates.table.bases[pick.row, batch, saving] = known
    memory, time = known
    if candidates.grid.loader_bound[pick.row]:
        workers = int(candidates.loader["num_workers"])
        loader = loader_rate(problem, option.input_size, workers)
        time = replace(
            time, grade=loader.grade, n=loader.n, basis=f"{time.basis}; input pipeline: {loader.basis}"
        )
    return memory, time


def _bound(candidates: CandidateSet, pick: GridIndex) -> str:
    if candidates.grid.loader_bound[pick.row]:
        return "loader"
    on_host = candidates.table.options[pick.row].is_trees and not candidates.grid.on_card(pick)
    return "host" if on_host or not candidates.problem.on_gpu else "gpu"


def _estimate(seconds: Seconds, factor: float, basis_of: Estimate, how: str = "") -> Estimate:
    return Estimate(
        seconds.value * factor,
        seconds.low * factor,
        seconds.high * factor,
        basis_of.grade,
        basis_of.n,
        basis_of.basis + how,
    )


def timetable_of(candidates: CandidateSet, pick: GridIndex, seeds: int = 1) -> tuple[Stage, ...]:
    """Setup, each fold with each seed, inference and writing: contiguous, each over by its p90 deadline."""
    once = int(candidates.grid.folds[pick.fold])
    run = candidates.grid.run_of(pick).repeated(once, seeds)
    folds = once * seeds
    setup, first, other, inference, write = run.setup, run.first_fold, run.fold, run.inference, run.write
    ends = [("setup", setup.high)]
    work = first
    for number in range(1, folds + 1):
        if number > 1:
            work = work + other
        ends.append((f"fold {number} of {folds}: train and validate", work.and_independent(setup).high))
    done = (work + inference).and_independent(setup)
    ends.append((f"inference on the test set, {folds} model{'s' if folds > 1 else ''}", done.high))
    ends.append(("write the submission", done.and_independent(write).high))
    stages, start = [], 0.0
    for name, end in ends:
        stages.append(Stage(name, float(start / 60), float(max(end, start) / 60)))
        start = max(end, start)
    return tuple(stages)
