"""Sets of models trained side by side on one card (R33), against one after another.

A set is offered when all of it fits: memory at p90 (each process brings its own peak and its own context),
the cores (a main process and at least one loader worker each), the minutes by the promises of any plan. Its
members are what a first split of the same budget would pick alone in their share of it, so that the same set
can also be trained one after another, and the two are set against each other (`domain.parallel.gpu_sharing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.parallel.gpu_sharing import (
    Demand,
    Shared,
    median_together,
    one_after_another,
    side_by_side,
)
from memory_service.domain.parallel.parallel_choice import (
    Group,
    Member,
    Peaks,
    groups_of,
    peaks_of,
)
from memory_service.domain.planning.boosting_plan import cost_of, run_of_trees
from memory_service.domain.planning.candidates import Candidate, CandidateSet, CandidateSets
from memory_service.domain.planning.expected_figures import expected_quality
from memory_service.domain.planning.hyperparameters import learning_rate
from memory_service.domain.planning.plan import Plan, Refusal
from memory_service.domain.planning.plan_search import GridIndex, loader_rate
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.run_seconds import (
    NOTHING,
    RunSeconds,
    Seconds,
    run_seconds,
    setup_seconds,
)

SLOWED = 1.1
"""Sum of the times alone, as they are in the set against as they are by themselves: from here on that is
why."""


def why_better(
    better: str, alone: Sequence[Demand], beside: Sequence[Demand], shared: Shared, after: Seconds, cores: int
) -> Sentence:
    """One or two sentences with the figures that decide.

    alone    each as it is by itself; beside: with the batch and the cores that it has in the set
    """
    busy = sorted(100.0 * d.busy.value / d.alone.value for d in alone if d.busy.value)
    slowed = sum(d.alone.value for d in beside) > SLOWED * sum(d.alone.value for d in alone)
    if len(busy) < len(alone):
        why = "trees" if better == "together" else "cores-of-trees"
    else:
        why = "idle" if better == "together" else "loaders" if slowed else "turns"
    seconds = {"together": shared.total.value, "after": after.value, "first": alone[0].alone.value}
    seconds["first_together"] = min(end.value for end in shared.ends)
    minutes = {name: value / 60 for name, value in seconds.items()}
    return sentence("side-by-side", why=why, better=better, shares=_range(busy), cores=cores, **minutes)


def why_none(problem: PlanningProblem, tried: bool = False) -> tuple[Sentence, ...]:
    """Why nothing is offered; tried: sets were found but broke a promise."""
    if any(card.kind == "cpu" for card in problem.cards):
        why = "processor"
    elif any(card.kind != "cuda" for card in problem.cards):
        why = "not-cuda"
    elif problem.model is not None:
        why = "noted" if problem.noted else "asked"
    elif problem.cpu_count < 4:
        why = "few-cores"
    else:
        why = "minutes" if tried else "none-fit"
    named = {"model": problem.model, "cores": problem.cpu_count}
    return (sentence("no-models-side-by-side", why=why, **named),)


def _range(percent: Sequence[float]) -> str:
    if not percent:
        return "0 %"
    low, high = round(percent[0]), round(percent[-1])
    return f"{low} %" if low == high else f"{low}-{high} %"


KINDS: tuple[str, ...] = ("explore", "two_large", "network_and_trees")

SHARES = (0.9, 0.55, 0.3)
"""Of its part of the minutes that a member may need alone. Taking turns costs a little; where the cores that
the loaders share make a set so slow that it breaks its promises, shorter trainings are tried."""

TOGETHER_FROM_PERCENT = 5.0
"""A smaller gain is within the error of any prediction, and one after another has its first result sooner."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The sets, as the answer has them; why there are none, as sentences (empty where there are)."""

    sets: tuple[Mapping[str, Any], ...]
    why_none: tuple[Sentence, ...] = ()


def with_parallel_sets(plan: Plan | Refusal, candidate_sets: CandidateSets) -> Plan | Refusal:
    """The plan with the sets of models that could share its card, or why there are none."""
    if isinstance(plan, Refusal):
        return plan
    beside = parallel_sets(candidate_sets)
    return replace(plan, parallel=beside.sets, rationale=(*plan.rationale, *beside.why_none))


def parallel_sets(candidate_sets: CandidateSets) -> Beside:
    """Sets of models that could share the problem's card, each `{"kind", "models", "expected", "cores",
    "better", "why"}`; the same problem gives the same sets."""
    problem, networks = candidate_sets.problem, candidate_sets.sets[0]
    trees = candidate_sets.sets[1] if len(candidate_sets.sets) > 1 else None
    on_cards = all(card.kind == "cuda" for card in problem.cards)
    if not on_cards or problem.model is not None or problem.cpu_count < 4:
        return Beside((), why_none(problem))
    if trees is not None:  # beside a network that has the card
        trees = replace(trees, grid=trees.grid.on_processor())
    peaks = peaks_of(networks)
    best: dict[str, tuple[_Priced, Shared]] = {}
    missing = KINDS if trees is not None else KINDS[:-1]
    tried = False
    for share in SHARES:
        groups = [g for kind in missing for g in groups_of(networks, trees, peaks, kind, share)]
        tried = tried or bool(groups)
        best |= _best(problem, [_priced(networks, trees, peaks, of) for of in groups])
        missing = tuple(dict.fromkeys(g.kind for g in groups if g.kind not in best))
        if not missing:
            break
    if {"explore", "two_large"} <= best.keys() and _rows(best["explore"]) == _rows(best["two_large"]):
        del best["two_large"]
    sets = tuple(_as_dict(networks, trees, *best[kind]) for kind in KINDS if kind in best)
    return Beside(sets, () if sets else why_none(problem, tried))


def _best(problem: PlanningProblem, priced: Sequence[_Priced]) -> dict[str, tuple[_Priced, Shared]]:
    """Of each kind the first that keeps its promises, those that are better together before the others."""
    best: dict[str, tuple[_Priced, Shared]] = {}
    for each in sorted(priced, key=lambda each: each.better != "together"):
        if each.of.kind not in best:
            shared = side_by_side(each.beside)
            if _keeps_promises(problem, each, shared):
                best[each.of.kind] = each, shared
    return best


def _rows(chosen: tuple[_Priced, Shared]) -> set[int]:
    return {member.pick.row for member in chosen[0].of.members}


@dataclass(frozen=True, slots=True)
class _Priced:
    """A set with its memory and its time, together and one after another."""

    of: Group
    memory: tuple[Estimate, ...]
    columns: tuple[int, ...]
    alone: tuple[Demand, ...]
    beside: tuple[Demand, ...]
    inference: tuple[Seconds, ...]
    after: Seconds
    better: str


def _priced(networks: CandidateSet, trees: CandidateSet | None, peaks: Peaks, of: Group) -> _Priced:
    """A set with every member as it is alone and as it is beside the others."""
    columns, n = _columns(networks, peaks, of), len(of.members)
    alone = [_demand(networks, m.pick, m.alone, 0, n)[0] for m in of.members]
    each = zip(of.members, columns, strict=True)
    beside, tails = map(
        list, zip(*(_demand(networks, m.pick, c, of.workers, n) for m, c in each), strict=True)
    )
    if of.trees is not None and trees is not None:
        alone.append(_trees_demand(trees, of.trees, trees.problem.cpu_count))
        beside.append(_trees_demand(trees, of.trees, of.tree_cores))
        tails.append(NOTHING)
    after = one_after_another(alone)
    gain = _percent(median_together(beside), after.value)
    better = "together" if gain >= TOGETHER_FROM_PERCENT else "one_after_another"
    memory = tuple(_memory(peaks, m.pick.row, c) for m, c in zip(of.members, columns, strict=True))
    return _Priced(of, memory, columns, tuple(alone), tuple(beside), tuple(tails), after, better)


def _percent(together: float, after: float) -> float:
    """Of the minutes one after another that running together saves; negative where it costs."""
    return 100.0 * (1.0 - together / after)


def _columns(networks: CandidateSet, peaks: Peaks, each: Group) -> tuple[int, ...]:
    """Every member's own batch where all of them fit the card so; else what fits its share."""
    own = sum(float(peaks[1][member.pick.row, member.alone]) for member in each.members)
    fits = own <= networks.table.usable_gib
    return tuple(member.alone if fits else member.beside for member in each.members)


def _memory(peaks: Peaks, row: int, column: int) -> Estimate:
    """Peak of one process as the driver counts it, context included."""
    value, high = (float(part[row, column]) for part in peaks)
    return Estimate(value, max(0.0, 2 * value - high), high, basis="as the plan's, CUDA context included")


def _demand(
    networks: CandidateSet, pick: GridIndex, column: int, workers: int, processes: int
) -> tuple[Demand, Seconds]:
    """What a process wants with the batch of a rung, and how much of it is inference. workers: of each
    process, which share the cores; 0: of the plan, alone."""
    problem, table, grid, row = networks.problem, networks.table, networks.grid, pick.row
    costs, columns, batch = table.plain, table.columns, float(table.rungs[column])
    raw, validated = (
        Seconds(*(float(getattr(costs, name)[row, column]) for name in (f"{of}_low", of, f"{of}_high")))
        for of in ("step_s", "eval_s")
    )
    every = workers * processes or int(networks.loader["num_workers"])
    rate = loader_rate(problem, int(columns.input_size[row]), every)
    shared = processes if workers else 1
    loader = Seconds(shared / rate.high, shared / rate.value, shared / rate.low)
    epochs, folds = grid.epochs[pick.epoch], grid.folds[pick.fold]
    pretrained, files = columns.pretrained[row] * problem.fetches_weights, problem.reads_files
    params = columns.params_m[row]
    run = run_seconds(
        setup_seconds(params, problem.n_train, gpu=True, pretrained=pretrained, files=files),
        raw.at_least(loader.times(batch)),
        batch,
        validated.at_least(loader),
        n_train=problem.n_train,
        n_test=problem.n_test,
        folds=folds,
        epochs=epochs,
        by_time=problem.by_time,
    )
    fits = problem.fits(folds, trees=False)
    steps = ceil(fits.rows_read / fits.models / batch) * epochs * folds
    kernels = float(costs.busy_s[row, column]) / raw.value
    busy = raw.times(kernels * steps) + validated.times(fits.valid * epochs * folds + problem.n_test * folds)
    gaps = raw.times(max(1.0 - kernels, 0.0) * steps)
    return _of_run(run, busy, gaps), run.inference.each(float)


def _trees_demand(trees: CandidateSet, pick: GridIndex, cores: int) -> Demand:
    """Boosted trees on so many cores; the device has nothing to do with them."""
    problem, grid = replace(trees.problem, cpu_count=cores), trees.grid
    rate, cap = grid.learning_rates[pick.epoch], grid.epochs[pick.epoch]
    run = run_of_trees(problem, trees.table.options[pick.row], rate, cap, grid.folds[pick.fold])
    return _of_run(run, NOTHING, NOTHING)


def _of_run(run: RunSeconds, busy: Seconds, gaps: Seconds) -> Demand:
    parts = run.setup, run.training + run.inference, run.write, busy, gaps
    return Demand(*(part.each(float) for part in parts))


def _keeps_promises(problem: PlanningProblem, each: _Priced, shared: Shared) -> bool:
    """What every plan promises of the minutes (docs/planning.md), of all of the set at once."""
    budget, policy, total = 60.0 * problem.question.minutes, problem.policy, shared.total
    tail = min(last.value + of.write.value for last, of in zip(each.inference, each.beside, strict=True))
    ends = total.high <= budget and total.high - tail <= (1.0 - policy.reserve_share) * budget
    return bool(ends and total.value <= policy.median_share * budget)


def _as_dict(
    networks: CandidateSet, trees: CandidateSet | None, each: _Priced, shared: Shared
) -> dict[str, Any]:
    problem = networks.problem
    together, after = (_minutes(seconds) for seconds in (shared.total, each.after))
    gains = [_percent(*pair) for pair in ((together.low, after.low), (together.high, after.high))]
    value = _percent(together.value, after.value)
    gain = Estimate(value, min(*gains, value), max(*gains, value), basis="together against one after another")
    memory = _sum(each.memory)
    total = problem.question.vram_gib or min(problem.cards, key=lambda card: card.usable_gib).memory_gib
    placed = enumerate(zip(each.of.members, each.columns, strict=True))
    models = [_network(networks, member, column, each, shared, i) for i, (member, column) in placed]
    if each.of.trees is not None and trees is not None:
        models.append(_trees(trees, each.of.trees, each, shared))
    return {
        "kind": each.of.kind,
        "models": models,
        "expected": {
            "peak_memory_gib": memory.as_dict(),
            "memory_percent": memory.scaled(100.0 / total).as_dict(),
            "together_minutes": together.as_dict(),
            "one_after_another_minutes": after.as_dict(),
            "gain_percent": gain.as_dict(),
        },
        "cores": {
            "loader_workers": each.of.workers * len(each.of.members),
            "main_processes": len(each.of.members),
            "trees": each.of.tree_cores,
            "of": problem.cpu_count,
        },
        "better": each.better,
        "why": why_better(each.better, each.alone, each.beside, shared, each.after, problem.cpu_count),
    }


def _network(
    networks: CandidateSet, member: Member, column: int, each: _Priced, shared: Shared, index: int
) -> dict[str, Any]:
    candidate = Candidate(networks, member.pick)
    settings, option = settings_of(candidate), candidate.option
    batch = int(networks.table.rungs[column])
    if column != member.alone:
        steps = max(1, round(settings["effective_batch_size"] / batch))
        settings |= {"batch_size": batch, "grad_accumulation": steps, "effective_batch_size": batch * steps}
        settings["learning_rate"] = learning_rate(option.defaults, batch * steps)
    settings["data_loader"] = settings["data_loader"] | {"num_workers": each.of.workers}
    memory = {"peak_memory_gib": each.memory[index].as_dict()}
    expected = memory | _figures(candidate, each, shared, index)
    return {"runs_on": "gpu", **settings, "expected": expected}


def _trees(trees: CandidateSet, pick: GridIndex, each: _Priced, shared: Shared) -> dict[str, Any]:
    candidate, problem = Candidate(trees, pick), trees.problem
    memory = cost_of(problem, candidate.option, problem.n_train, candidate.epochs).memory_gib
    figures = _figures(candidate, each, shared, len(each.of.members))
    settings = {**settings_of(candidate), "cpu_threads": each.of.tree_cores}
    return {"runs_on": "cpu", **settings, "expected": {"host_memory_gib": memory.as_dict(), **figures}}


def _figures(candidate: Candidate, each: _Priced, shared: Shared, index: int) -> dict[str, Any]:
    return {
        "alone_minutes": _minutes(each.alone[index].alone).as_dict(),
        "ends_minute": _minutes(shared.ends[index]).as_dict(),
        "quality_index": expected_quality(candidate).as_dict(),
    }


def _minutes(seconds: Seconds) -> Estimate:
    low, value, high = seconds.low / 60, seconds.value / 60, seconds.high / 60
    return Estimate(value, low, high, basis="profile x rates, turns on the card by mean value analysis")


def _sum(parts: Sequence[Estimate]) -> Estimate:
    """Errors of the same method have the same sign: percentiles add."""
    value, low, high = (sum(of) for of in zip(*((p.value, p.low, p.high) for p in parts), strict=True))
    basis = f"sum of {len(parts)} processes, each with its own CUDA context"
    return Estimate(value, low, high, basis=basis)
