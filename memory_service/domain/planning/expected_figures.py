"""What a candidate plan is expected to show: memory, minutes, quality, and the timetable."""

from dataclasses import replace
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.units import plural
from memory_service.domain.cost.boosted_trees import no_device_memory
from memory_service.domain.planning.boosting_plan import card_seconds, cost_of, memory_on_card
from memory_service.domain.planning.candidates import Candidate, host_memory
from memory_service.domain.planning.plan import Expected, Stage
from memory_service.domain.planning.plan_search import loader_rate
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.planning.run_seconds import NOTHING, RunSeconds
from memory_service.domain.prediction.device_memory import peak_memory
from memory_service.domain.quality.quality_index import quality_estimate
from memory_service.domain.quality.quality_model import NOTHING_LEARNED


def summary(candidate: Candidate) -> dict[str, Any]:
    """A plan in one line, for alternatives and for the changes that would fit."""
    settings, (memory, time) = settings_of(candidate), _bases(candidate)
    return {
        "model": settings["model"]["name"],
        candidate.option.model.input_kind: candidate.option.input_size,
        **{name: settings[name] for name in ("batch_size", "precision", "folds", "epochs")},
        "expected": {
            "peak_memory_gib": _peak(candidate, memory).as_dict(),
            "total_minutes": _total(candidate.run(), time).as_dict(),
            "quality_index": expected_quality(candidate).as_dict(),
        },
    }


def _peak(candidate: Candidate, memory: Estimate) -> Estimate:
    batches, row = candidate.grid.batches, candidate.pick.row
    value, high = float(batches.peak_gib[row]), float(batches.peak_high_gib[row])
    if candidate.option.is_trees and not candidate.on_card:
        value = high = 0.0
    basis = memory.basis + " + gradients that accumulate" * bool(batches.accumulation[row] > 1)
    return replace(memory, value=value, low=max(0.0, 2 * value - high), high=high, basis=basis)


def _total(run: RunSeconds, time: Estimate) -> Estimate:
    return run.total_end.estimate(60.0, f"{time.basis}, hidden minutes included", n=time.n)


def expected_of(candidate: Candidate, seeds: int = 1) -> Expected:
    """The figures of a pick with their intervals, in the units of the contract; with all of its `seeds`."""
    problem, grid, row = candidate.problem, candidate.grid, candidate.pick.row
    option, run, (memory, time) = candidate.option, candidate.run(seeds), _bases(candidate)
    peak = _peak(candidate, memory)
    tightest = min(problem.cards, key=lambda card: card.usable_gib)
    total = problem.question.vram_gib or tightest.memory_gib
    step = run.epoch if candidate.on_card else grid.step.each(lambda part: part[row])
    return Expected(
        peak_memory_gib=peak,
        memory_percent=peak.scaled(100.0 / total),
        samples_per_second=step.estimate(1.0, time.basis, time.grade, time.n).reciprocal(
            candidate.batch_size * option.texts_per_row
        ),
        epoch_seconds=run.epoch.estimate(1.0, time.basis, n=time.n),
        total_minutes=_total(run, time),
        inference_minutes=run.inference.estimate(60.0, time.basis, n=time.n),
        host_memory_gib=host_memory(problem, option, candidate.epochs) if option.is_trees else None,
        best_epoch=None if grid.best_epoch_of is None else grid.best_epoch_of(candidate.pick),
        quality_index=expected_quality(candidate),
        bound=_bound(candidate),
    )


def expected_quality(candidate: Candidate) -> Estimate:
    """The quality index of a pick with its interval."""
    problem, model = candidate.problem, candidate.option.model
    named = model.name, model.family
    sd, measured = problem.quality.interval_sd(problem.data_kind, named, model.quality_score)
    learned = problem.quality.learned.get((problem.data_kind.table, model.name), NOTHING_LEARNED)
    return quality_estimate(candidate.quality, sd, measured, learned)


def _bases(candidate: Candidate) -> tuple[Estimate, Estimate]:
    """What memory and time of a pick stand on, as estimates of one step: grade, n and basis are theirs.

    Memory is the fullest card's, time the slowest one's; where the input pipeline is slower still, its.
    """
    problem, option = candidate.problem, candidate.option
    profile, batch = candidate.profile, candidate.batch_size
    on_card = memory_on_card(problem, option) if candidate.on_card else None
    if on_card is not None:
        return on_card, card_seconds(problem, option, problem.n_train, candidate.epochs)
    if profile is None:
        cost = cost_of(problem, option, problem.n_train, candidate.epochs)
        basis = no_device_memory(option.model.name)
        return Estimate(0.0, 0.0, 0.0, basis=basis), cost.fit_seconds
    bases, place = candidate.candidates.table.bases, (candidate.pick.row, batch, candidate.checkpointing)
    known = bases.get(place)
    if known is None:
        fullest = min(problem.cards, key=lambda card: card.usable_gib)
        memory = peak_memory(profile, batch, fullest, candidate.config_on(fullest, profile)).driver_gib
        steps = [candidate.step_on(card, profile).step_seconds(batch) for card in problem.cards]
        known = bases[place] = memory, max(steps, key=lambda step: step.value)
    memory, time = known
    if candidate.loader_bound:
        workers = int(candidate.candidates.loader["num_workers"])
        loader = loader_rate(problem, option.input_size, workers)
        basis = f"{time.basis}; input pipeline: {loader.basis}"
        time = replace(time, grade=loader.grade, n=loader.n, basis=basis)
    return memory, time


def _bound(candidate: Candidate) -> str:
    if candidate.loader_bound:
        return "loader"
    on_host = candidate.option.is_trees and not candidate.on_card
    return "host" if on_host or not candidate.problem.on_gpu else "gpu"


def timetable_of(candidate: Candidate, seeds: int = 1) -> tuple[Stage, ...]:
    """Setup, each fit, inference and writing: contiguous, each over by its p90 deadline."""
    run, fits = candidate.run(seeds), candidate.fits(seeds)
    setup, inference, write = run.setup, run.inference, run.write
    ends = [("setup", setup.high)]
    folds = [run.first_fold] * fits.first + [run.fold] * fits.other
    called = "fit" if seeds > 1 and not fits.whole else "fold"  # each fold with each seed
    fitted = [(f"{called} {n} of {len(folds)}: train and validate", fold) for n, fold in enumerate(folds, 1)]
    fitted += [(f"all rows, seed {n} of {seeds}: train", run.whole) for n in range(1, fits.whole + 1)]
    work = NOTHING
    for name, each in fitted:
        work = work + each
        ends.append((name, work.and_independent(setup).high))
    done = (work + inference).and_independent(setup)
    ends.append((f"inference on the test set, {plural(fits.models, 'model')}", done.high))
    ends.append(("write the submission", done.and_independent(write).high))
    stages, start = [], 0.0
    for name, end in ends:
        stages.append(Stage(name, float(start / 60), float(max(end, start) / 60)))
        start = max(end, start)
    return tuple(stages)
