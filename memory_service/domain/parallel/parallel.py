"""Sets of models trained side by side on one card (R33), against one after another.

A set is offered when all of it fits: memory at p90 (each process brings its own peak and its own context),
the cores (a main process and at least one loader worker each), the minutes by the promises of any plan. Its
members are what a first split of the same budget would pick alone in their share of it, so that the same set
can also be trained one after another, and the two are set against each other (`domain.parallel.gpu_sharing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.cost.data_loader import MOST_WORKERS
from memory_service.domain.parallel.gpu_sharing import (
    MOST_PROCESSES,
    Demand,
    Shared,
    one_after_another,
    side_by_side,
)
from memory_service.domain.planning.batch_choice import head_gib
from memory_service.domain.planning.boosting_plan import cost_of, run_of_trees
from memory_service.domain.planning.candidates import Candidate, CandidateSet, CandidateSets
from memory_service.domain.planning.checks_and_fallbacks import model_class_of
from memory_service.domain.planning.expected_figures import expected_quality
from memory_service.domain.planning.hyperparameters import learning_rate
from memory_service.domain.planning.option import Array, Flags, Integers
from memory_service.domain.planning.plan import Plan, Refusal
from memory_service.domain.planning.plan_search import GridIndex, loader_rate, utility
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.run_seconds import (
    NOTHING,
    RunSeconds,
    Seconds,
    run_seconds,
    setup_seconds,
)

KINDS: tuple[str, ...] = ("explore", "two_large", "network_and_trees")

SHARES = (0.9, 0.55, 0.3)
"""Of its part of the minutes that a member may need alone. Taking turns costs a little; where the cores that
the loaders share make a set so slow that it breaks its promises, shorter trainings are tried."""

TREES_SHARE = 0.5
"""Of the minutes, alone on all cores: beside a network boosted trees get about half of them."""

TOGETHER_FROM_PERCENT = 5.0
"""A smaller gain is within the error of any prediction, and one after another has its first result sooner."""

SLOWED = 1.1
"""Sum of the times alone, as they are in the set against as they are by themselves: from here on that is
why."""

LEAST_BATCH = 16
"""Beside others no network goes below it (batch normalisation) unless it does alone."""

LEAST_SHARE_OF_BATCH = 4
"""Nor below this part of the batch it would have alone: four accumulation steps are R07's usual start."""

LEAST_CORES = 4


@dataclass(frozen=True, slots=True)
class Process:
    """One model of a set.

    column      of the table's rungs, its batch in the set; None of boosted trees
    alone       as it is by itself; beside: with the batch and the cores that it has in the set
    memory      GiB: of the card with its context, of boosted trees of the host
    """

    candidate: Candidate
    column: int | None
    alone: Demand
    beside: Demand
    inference: Seconds
    memory: Estimate


@dataclass(frozen=True, slots=True)
class Group:
    """Networks that share the card, boosted trees on the processor behind them where `tree_cores` says so.

    workers     loader workers of each network
    after       seconds one after another
    """

    kind: str
    processes: tuple[Process, ...]
    workers: int
    tree_cores: int
    shared: Shared
    after: Seconds

    @property
    def better(self) -> str:
        gain = _percent(self.shared.total.value, self.after.value)
        return "together" if gain >= TOGETHER_FROM_PERCENT else "one_after_another"

    @property
    def networks(self) -> tuple[Process, ...]:
        return tuple(each for each in self.processes if each.column is not None)


def with_parallel_sets(plan: Plan | Refusal, candidate_sets: CandidateSets) -> Plan | Refusal:
    """The plan with the sets of models that could share its card, or why there are none."""
    if isinstance(plan, Refusal):
        return plan
    sets, why = parallel_sets(candidate_sets)
    return replace(plan, parallel=sets, rationale=(*plan.rationale, *why))


def parallel_sets(
    candidate_sets: CandidateSets,
) -> tuple[tuple[Mapping[str, Any], ...], tuple[Sentence, ...]]:
    """Sets of models that could share the problem's card, each `{"kind", "models", "expected", "cores",
    "better", "why"}`, and where there are none why; the same problem gives the same sets."""
    problem, networks = candidate_sets.problem, candidate_sets.sets[0]
    on_cards = all(card.kind == "cuda" for card in problem.cards)
    if not on_cards or problem.model is not None or problem.cpu_count < LEAST_CORES:
        return (), (_why_none(problem),)
    peaks = networks.table.plain.peak_gib, networks.table.plain.peak_high_gib
    if problem.n_classes > 1000:
        head = head_gib(problem, networks.table)
        peaks = peaks[0] + head, peaks[1] + head
    trees = None
    if len(candidate_sets.sets) > 1:  # beside a network that has the card
        trees = replace(candidate_sets.sets[1], grid=candidate_sets.sets[1].grid.on_processor())
    shop = _Shop(networks, trees, peaks)
    best: dict[str, Group] = {}
    missing, tried = KINDS, False
    for share in SHARES:
        groups = [group for kind in missing for group in shop.groups(kind, share)]
        tried = tried or bool(groups)
        for group in sorted(groups, key=lambda each: each.better != "together"):
            if group.kind not in best and _keeps_promises(problem, group):
                best[group.kind] = group
        missing = tuple(dict.fromkeys(group.kind for group in groups if group.kind not in best))
    rows = [{each.candidate.pick.row for each in best[kind].processes} for kind in KINDS[:2] if kind in best]
    if len(rows) == 2 and rows[0] == rows[1]:
        del best["two_large"]
    sets = tuple(_as_dict(problem, best[kind]) for kind in KINDS if kind in best)
    return sets, () if sets else (_why_none(problem, tried),)


def _why_none(problem: PlanningProblem, tried: bool = False) -> Sentence:
    """Why nothing is offered; tried: sets were found but broke a promise."""
    if any(card.kind == "cpu" for card in problem.cards):
        why = "processor"
    elif any(card.kind != "cuda" for card in problem.cards):
        why = "not-cuda"
    elif problem.model is not None:
        why = "noted" if problem.noted else "asked"
    elif problem.cpu_count < LEAST_CORES:
        why = "few-cores"
    else:
        why = "minutes" if tried else "none-fit"
    return sentence("no-models-side-by-side", why=why, model=problem.model, cores=problem.cpu_count)


@dataclass(frozen=True)
class _Shop:
    """What sets are made of. peaks: memory (median, p90) in GiB of each network at each rung, the head for
    very many classes included."""

    networks: CandidateSet
    trees: CandidateSet | None
    peaks: tuple[Array, Array]

    @property
    def problem(self) -> PlanningProblem:
        return self.networks.problem

    def groups(self, kind: str, share: float) -> Iterator[Group]:
        """Groups of a kind, each member alone within `share` of its part of the minutes: to explore, as many
        models as R33 says and a pair; two large ones; a network and boosted trees on the cores it leaves."""
        cores, objective = self.problem.cpu_count, self.problem.question.objective
        if kind == "network_and_trees":
            picks = self._members(1, share, objective)
            trees = next(_ranked(self.trees, 1, share * TREES_SHARE, objective), None) if self.trees else None
            workers = _workers(cores // 2, 1)
            if picks and trees is not None and cores - 1 - workers >= 1:
                yield self._group(kind, picks, workers, trees, cores - 1 - workers)
            return
        counts = (2,) if kind == "two_large" else range(min(MOST_PROCESSES, cores // 2), 2, -1)
        large, wanted = kind == "two_large", "quality" if kind == "two_large" else objective
        most = next(filter(None, (self._members(n, share, wanted, large=large) for n in counts)), None)
        pair = None if large else self._members(2, share, objective)
        yield from (self._group(kind, of, _workers(cores, len(of))) for of in (most, pair) if of)

    def _members(
        self, count: int, share: float, objective: str, *, large: bool = False
    ) -> list[tuple[GridIndex, int, int]]:
        """The best `count` networks of different families, each in its share of minutes and memory, with the
        rungs of their batches alone and beside others; none when there are fewer."""
        alone, beside, fits = self._rungs(count)
        chosen: dict[str, tuple[GridIndex, int, int]] = {}
        for pick in _ranked(self.networks, count, share, objective, fits if count > 1 else None):
            model = self.networks.table.options[pick.row].model
            if not fits[pick.row]:  # of one alone: the best network, or none
                return []
            if model.family not in chosen and not (
                large and model_class_of(model.name, model.params_m) != "large"
            ):
                chosen[model.family] = pick, int(alone[pick.row]), int(beside[pick.row])
            if len(chosen) == count:
                return list(chosen.values())
        return []

    def _rungs(self, count: int) -> tuple[Integers, Integers, Flags]:
        """Of each option the rung of its own batch, the largest up to it whose p90 memory fits its share of a
        card that `count` share, and whether that is large enough."""
        table, batches = self.networks.table, self.networks.grid.batches
        alone = np.minimum(np.searchsorted(table.rungs, batches.batch_size), len(table.rungs) - 1)
        at = np.arange(len(table.rungs))
        fitting = (at <= alone[:, None]) & ~(self.peaks[1] > table.usable_gib / count)
        beside = np.where(fitting, at, -1).max(axis=1)
        batch = table.rungs[alone]
        least = np.maximum(np.minimum(batch, LEAST_BATCH), batch / LEAST_SHARE_OF_BATCH)
        return (
            alone,
            beside,
            ~batches.checkpointing & (beside >= 0) & (table.rungs[beside] >= least),
        )

    def _group(
        self,
        kind: str,
        picks: Sequence[tuple[GridIndex, int, int]],
        workers: int,
        trees: GridIndex | None = None,
        tree_cores: int = 0,
    ) -> Group:
        """A set with each member as it is alone and as it is beside the others: with its own batch where all
        of them fit the card so, else with what fits its share."""
        own = sum(float(self.peaks[1][pick.row, alone]) for pick, alone, _ in picks)
        fits, n, processes = own <= self.networks.table.usable_gib, len(picks), list[Process]()
        for pick, alone, beside in picks:
            column = alone if fits else beside
            value, high = (float(part[pick.row, column]) for part in self.peaks)
            basis = "as the plan's, CUDA context included"
            memory = Estimate(value, max(0.0, 2 * value - high), high, basis=basis)
            demand, inference = self._demand(pick, column, workers, n)
            by_itself = self._demand(pick, alone, 0, n)[0]
            processes.append(
                Process(Candidate(self.networks, pick), column, by_itself, demand, inference, memory)
            )
        if self.trees is not None and trees is not None:
            on_all, on_some = (
                _trees_demand(self.trees, trees, c) for c in (self.problem.cpu_count, tree_cores)
            )
            chosen = Candidate(self.trees, trees)
            host = cost_of(self.problem, chosen.option, self.problem.n_train, chosen.epochs).memory_gib
            processes.append(Process(chosen, None, on_all, on_some, NOTHING, host))
        shared = side_by_side([each.beside for each in processes])
        after = one_after_another([each.alone for each in processes])
        return Group(kind, tuple(processes), workers, tree_cores, shared, after)

    def _demand(self, pick: GridIndex, column: int, workers: int, processes: int) -> tuple[Demand, Seconds]:
        """What a process wants with the batch of a rung, and how much of it is inference. workers: of each
        process, which share the cores; 0: of the plan, alone."""
        problem, table, grid, row = self.problem, self.networks.table, self.networks.grid, pick.row
        costs, columns, batch = table.plain, table.columns, float(table.rungs[column])
        raw, validated = (
            Seconds(*(float(getattr(costs, name)[row, column]) for name in (f"{of}_low", of, f"{of}_high")))
            for of in ("step_s", "eval_s")
        )
        every = workers * processes or int(self.networks.loader["num_workers"])
        rate = loader_rate(problem, int(columns.input_size[row]), every)
        shared = processes if workers else 1
        loader = Seconds(shared / rate.high, shared / rate.value, shared / rate.low)
        epochs, folds = grid.epochs[pick.epoch], grid.folds[pick.fold]
        pretrained, files = columns.pretrained[row] * problem.fetches_weights, problem.reads_files
        run = run_seconds(
            setup_seconds(
                columns.params_m[row], problem.n_train, gpu=True, pretrained=pretrained, files=files
            ),
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
        judged = validated.times(fits.valid * epochs * folds + problem.n_test * folds)
        gaps = raw.times(max(1.0 - kernels, 0.0) * steps)
        return _of_run(run, raw.times(kernels * steps) + judged, gaps), run.inference.each(float)


def _workers(cores: int, processes: int) -> int:
    """Loader workers of each process, beside one core for its main process (R08)."""
    return max(1, min(MOST_WORKERS, (cores - processes) // processes))


def _ranked(
    candidates: CandidateSet, count: int, share: float, objective: str, keep: Flags | None = None
) -> Iterator[GridIndex]:
    """Each option's best plan in its share of the minutes, best first: one split (R17), or as many as were
    asked for. keep: restricts the options."""
    grid = candidates.grid
    fits = grid.minutes[:, :, 0] <= share * candidates.problem.question.minutes / count
    worth = utility(objective, grid.quality[:, :, 0], grid.doublings[:, :, 0])
    worth = np.where(fits if keep is None else fits & keep[:, None], worth, -np.inf)
    epochs, best = worth.argmax(axis=1), worth.max(axis=1, initial=-np.inf)
    for row in np.argsort(-best, kind="stable")[: int(np.isfinite(best).sum())]:
        yield GridIndex(int(row), int(epochs[row]), 0)


def _trees_demand(trees: CandidateSet, pick: GridIndex, cores: int) -> Demand:
    """Boosted trees on so many cores; the device has nothing to do with them."""
    problem, grid = replace(trees.problem, cpu_count=cores), trees.grid
    rate, cap = grid.learning_rates[pick.epoch], grid.epochs[pick.epoch]
    run = run_of_trees(problem, trees.table.options[pick.row], rate, cap, grid.folds[pick.fold])
    return _of_run(run, NOTHING, NOTHING)


def _of_run(run: RunSeconds, busy: Seconds, gaps: Seconds) -> Demand:
    parts = run.setup, run.training + run.inference, run.write, busy, gaps
    return Demand(*(part.each(float) for part in parts))


def _percent(together: float, after: float) -> float:
    """Of the minutes one after another that running together saves; negative where it costs."""
    return 100.0 * (1.0 - together / after)


def _keeps_promises(problem: PlanningProblem, group: Group) -> bool:
    """What every plan promises of the minutes (docs/planning.md), of all of the set at once."""
    budget, policy, total = 60.0 * problem.question.minutes, problem.policy, group.shared.total
    tail = min(each.inference.value + each.beside.write.value for each in group.processes)
    ends = total.high <= budget and total.high - tail <= (1.0 - policy.reserve_share) * budget
    return bool(ends and total.value <= policy.median_share * budget)


def _why_better(group: Group, cores: int) -> Sentence:
    """One or two sentences with the figures that decide."""
    alone, better = [each.alone for each in group.processes], group.better
    busy = sorted(100.0 * d.busy.value / d.alone.value for d in alone if d.busy.value)
    slowed = sum(each.beside.alone.value for each in group.processes) > SLOWED * sum(
        d.alone.value for d in alone
    )
    if len(busy) < len(alone):
        why = "trees" if better == "together" else "cores-of-trees"
    else:
        why = "idle" if better == "together" else "loaders" if slowed else "turns"
    ends, first = min(end.value for end in group.shared.ends), alone[0].alone.value
    seconds = {"together": group.shared.total.value, "after": group.after.value, "first": first}
    minutes = {name: value / 60 for name, value in {**seconds, "first_together": ends}.items()}
    low, high = round(busy[0]), round(busy[-1])
    shares = f"{low} %" if low == high else f"{low}-{high} %"
    return sentence("side-by-side", why=why, better=better, shares=shares, cores=cores, **minutes)


def _as_dict(problem: PlanningProblem, group: Group) -> dict[str, Any]:
    together, after = (seconds.estimate(60.0, _BASIS) for seconds in (group.shared.total, group.after))
    value, *ends = (_percent(getattr(together, part), getattr(after, part)) for part in _PARTS)
    gain = Estimate(value, min(*ends, value), max(*ends, value), basis="together against one after another")
    networks = group.networks
    # errors of the same method have the same sign: percentiles add
    peak, low, high = (sum(getattr(each.memory, part) for each in networks) for part in _PARTS)
    basis = f"sum of {len(networks)} processes, each with its own CUDA context"
    memory = Estimate(peak, low, high, basis=basis)
    total = problem.question.vram_gib or min(problem.cards, key=lambda card: card.usable_gib).memory_gib
    return {
        "kind": group.kind,
        "models": [_model(group, *each) for each in zip(group.processes, group.shared.ends, strict=True)],
        "expected": {
            "peak_memory_gib": memory.as_dict(),
            "memory_percent": memory.scaled(100.0 / total).as_dict(),
            "together_minutes": together.as_dict(),
            "one_after_another_minutes": after.as_dict(),
            "gain_percent": gain.as_dict(),
        },
        "cores": {
            "loader_workers": group.workers * len(networks),
            "main_processes": len(networks),
            "trees": group.tree_cores,
            "of": problem.cpu_count,
        },
        "better": group.better,
        "why": _why_better(group, problem.cpu_count),
    }


_PARTS = ("value", "low", "high")
_BASIS = "profile x rates, turns on the card by mean value analysis"


def _model(group: Group, process: Process, end: Seconds) -> dict[str, Any]:
    """The settings of one model in the set, with what it is expected to show there."""
    candidate, column = process.candidate, process.column
    expected = {
        "host_memory_gib" if column is None else "peak_memory_gib": process.memory.as_dict(),
        "alone_minutes": process.alone.alone.estimate(60.0, _BASIS).as_dict(),
        "ends_minute": end.estimate(60.0, _BASIS).as_dict(),
        "quality_index": expected_quality(candidate).as_dict(),
    }
    settings = settings_of(candidate)
    if column is None:
        return {"runs_on": "cpu", **settings, "cpu_threads": group.tree_cores, "expected": expected}
    batch = int(candidate.candidates.table.rungs[column])
    if batch < candidate.batch_size:
        steps = max(1, round(settings["effective_batch_size"] / batch))
        settings |= {"batch_size": batch, "grad_accumulation": steps, "effective_batch_size": batch * steps}
        settings["learning_rate"] = learning_rate(candidate.option.defaults, batch * steps)
    settings["data_loader"] = settings["data_loader"] | {"num_workers": group.workers}
    return {"runs_on": "gpu", **settings, "expected": expected}
