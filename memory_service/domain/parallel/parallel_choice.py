"""Members of a set: the best models of different families, each in its share of minutes and memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memory_service.domain.cost.data_loader import MOST_WORKERS
from memory_service.domain.parallel.gpu_sharing import MOST_PROCESSES
from memory_service.domain.planning.batch_choice import Flags, Integers, head_gib
from memory_service.domain.planning.candidates import CandidateSet
from memory_service.domain.planning.checks_and_fallbacks import model_class_of
from memory_service.domain.planning.plan_search import GridIndex, utility

Array = npt.NDArray[np.float64]

Peaks = tuple[Array, Array]
"""Memory (median, p90) in GiB of each option at each rung of the ladder."""

Rungs = tuple[Integers, Integers, Flags]
"""Of each option the rung of its own batch, the largest up to it whose p90 memory fits its share of the card,
and whether that is large enough."""

LEAST_BATCH = 16
"""Beside others no network goes below it (batch normalisation) unless it does alone."""

LEAST_SHARE_OF_BATCH = 4
"""Nor below this part of the batch it would have alone: four accumulation steps are R07's usual start."""

TREES_SHARE = 0.5
"""Of the minutes, alone on all cores: beside a network boosted trees get about half of them."""


@dataclass(frozen=True, slots=True)
class Member:
    """A pick and the batch it has in the set: the column of the table's rungs, alone and beside others."""

    pick: GridIndex
    alone: int
    beside: int


@dataclass(frozen=True, slots=True)
class Group:
    """Networks that share the card, optionally with boosted trees on the processor; loader workers of
    each."""

    kind: str
    members: tuple[Member, ...]
    workers: int
    trees: GridIndex | None = None
    tree_cores: int = 0


def peaks_of(networks: CandidateSet) -> Peaks:
    """Memory (median, p90) in GiB of each option at each rung, the head for very many classes included."""
    grid, problem = networks.table.plain, networks.problem
    if problem.n_classes <= 1000:
        return grid.peak_gib, grid.peak_high_gib
    head = head_gib(problem, networks.table)
    return grid.peak_gib + head, grid.peak_high_gib + head


def groups_of(
    networks: CandidateSet, trees: CandidateSet | None, peaks: Peaks, kind: str, share: float
) -> tuple[Group, ...]:
    """Groups of a kind, each member alone within `share` of its part of the minutes: to explore, as many
    models as R33 says and a pair; two large ones; a network and boosted trees."""
    problem = networks.problem
    objective = problem.question.objective
    if kind == "network_and_trees":
        beside = _with_trees(networks, trees, peaks, share) if trees is not None else None
        return () if beside is None else (beside,)
    if kind == "two_large":
        pairs = [_members(networks, peaks, 2, share, "quality", large=True)]
    else:
        most = min(MOST_PROCESSES, problem.cpu_count // 2)
        many = (_members(networks, peaks, count, share, objective) for count in range(most, 2, -1))
        most_models = next((group for group in many if group), ())
        pairs = [most_models, _members(networks, peaks, 2, share, objective)]
    return tuple(Group(kind, group, _workers(problem.cpu_count, len(group))) for group in pairs if group)


def _workers(cores: int, processes: int) -> int:
    """Loader workers of each process, beside one core for its main process (R08)."""
    return max(1, min(MOST_WORKERS, (cores - processes) // processes))


def _with_trees(networks: CandidateSet, trees: CandidateSet, peaks: Peaks, share: float) -> Group | None:
    """The best network and, on the cores it leaves, the best boosted trees."""
    problem = networks.problem
    alone, beside, fits = rungs_beside(networks, peaks, 1)
    network = next(_ranked(networks, 1, problem.question.objective, share), None)
    chosen = next(_ranked(trees, 1, problem.question.objective, share * TREES_SHARE), None)
    workers = _workers(problem.cpu_count // 2, 1)
    cores = problem.cpu_count - 1 - workers
    if network is None or chosen is None or cores < 1 or not fits[network.row]:
        return None
    member = Member(network, int(alone[network.row]), int(beside[network.row]))
    return Group("network_and_trees", (member,), workers, chosen, cores)


def _members(
    networks: CandidateSet, peaks: Peaks, count: int, share: float, objective: str, large: bool = False
) -> tuple[Member, ...]:
    """The best `count` models of different families, each in its share of minutes and memory; none when
    there are fewer."""
    chosen: dict[str, Member] = {}
    alone, beside, fits = rungs_beside(networks, peaks, count)
    for pick in _ranked(networks, count, objective, share, fits):
        model = networks.table.options[pick.row].model
        if model.family in chosen or (large and model_class_of(model.name, model.params_m) != "large"):
            continue
        chosen[model.family] = Member(pick, int(alone[pick.row]), int(beside[pick.row]))
        if len(chosen) == count:
            return tuple(chosen.values())
    return ()


def _ranked(
    candidates: CandidateSet, count: int, objective: str, share: float, keep: Flags | None = None
) -> Iterator[GridIndex]:
    """Each option's best plan in its share of the minutes, best first: one split (R17), or as many as were
    asked for. keep: restricts the options."""
    grid = candidates.grid
    rows = np.arange(len(grid.minutes)) if keep is None else np.flatnonzero(keep)
    fits = grid.minutes[rows, :, 0] <= share * candidates.problem.question.minutes / count
    some = fits.any(axis=1)
    rows, fits = rows[some], fits[some]
    worth = utility(objective, grid.quality[rows, :, 0], grid.doublings[rows, :, 0])
    worth = np.where(fits, worth, -np.inf)
    epochs = worth.argmax(axis=1)
    for place in np.argsort(-worth[np.arange(len(rows)), epochs], kind="stable"):
        yield GridIndex(int(rows[place]), int(epochs[place]), 0)


def rungs_beside(networks: CandidateSet, peaks: Peaks, count: int) -> Rungs:
    """Where `count` share the card."""
    table, batches = networks.table, networks.grid.batches
    alone = np.minimum(np.searchsorted(table.rungs, batches.batch_size), len(table.rungs) - 1)
    at = np.arange(len(table.rungs))
    fitting = (at <= alone[:, None]) & ~(peaks[1] > table.usable_gib / count)
    beside = np.where(fitting, at, -1).max(axis=1)
    batch = table.rungs[alone]
    least = np.maximum(np.minimum(batch, LEAST_BATCH), batch / LEAST_SHARE_OF_BATCH)
    fits = ~batches.checkpointing & (beside >= 0) & (table.rungs[beside] >= least)
    return alone, beside, fits
