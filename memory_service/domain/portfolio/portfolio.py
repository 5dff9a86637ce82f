"""A portfolio: the runs of the chosen set in the order they are trained, each with its place and its gain."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memory_service.domain.planning.candidates import Candidate
from memory_service.domain.planning.plan_search import GridIndex, utility
from memory_service.domain.planning.problem import DoneRun
from memory_service.domain.portfolio.run_sets import FIRST_SHARE, RunSets, blend_quality


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a portfolio.

    minutes   its own budget: what it needs with its part of the reserve; start, deadline: p90 minutes
    quality   expected index of it alone; gain: points it adds to the runs before it, of the first its index
    first     minute by which a submission of its first fold is there (p90)
    role      first | main | other
    """

    number: int
    candidate: Candidate
    seeds: int
    minutes: float
    start: float
    deadline: float
    training_end: float
    first: float
    quality: float
    gain: float
    role: str
    family: str

    @property
    def model(self) -> str:
        return self.candidate.option.model.name


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Runs in the order of training.

    quality   expected index of the blend; needed: the smallest budget (minutes) that holds the set
    unused    points that the best use of all the minutes would be better; doubling: of twice the minutes
    next_needed   the smallest larger budget (minutes) that holds a better set; infinite where none does
    """

    runs: tuple[Run, ...]
    objective: str
    minutes: float
    quality: float
    needed: float
    unused: float
    doubling: float
    next_needed: float
    done: tuple[DoneRun, ...]

    @property
    def main(self) -> Run:
        return next(run for run in self.runs if run.role == "main")

    @property
    def used_percent(self) -> float:
        return round(100.0 * self.runs[-1].deadline / self.minutes, 1)

    @property
    def blend(self) -> dict[str, Any]:
        """How the runs become one submission; a first submission alone is not blended."""
        runs = [*(run.run for run in self.done), *(run.number for run in self.runs if run.role != "first")]
        return {"method": "mean" if len(runs) > 1 else "none", "runs": runs}


def choose_portfolio(sets: RunSets, objective: str, minutes: float) -> Portfolio | None:
    """The portfolio of highest utility that `minutes` hold; None where nothing fits."""
    chosen = sets.best(objective, minutes)
    if chosen is None:
        return None
    pool, reserve = sets.pool, sets.all_sets.problem.policy.reserve_share
    places = [int(i) for i in sets.members[chosen] if i >= 0]
    places.sort(key=lambda i: (-pool.quality[i], pool.alone[i]))
    main, quality = places[0], float(sets.quality[chosen])
    serving = next((i for i in places if pool.first[i] <= FIRST_SHARE * minutes), None)
    early = None
    if serving is not None:
        places.sort(key=lambda i: i != serving)
    elif not sets.done:
        left = (1.0 - reserve) * (minutes - float(pool.share[places].sum()))
        early = _one_split(sets, objective, min(FIRST_SHARE * minutes, left))
        if early is not None and objective == "fast" and 2.0 * early.minutes > pool.alone[main]:
            early = None  # what is planned is nearly there by then
    alone = len(places) == 1 and early is None
    drafts = [] if early is None else [_run(early, 1, "first", early.minutes / (1.0 - reserve))]
    for i in places:
        role = "main" if i == main else "other"
        share = float((pool.alone if alone else pool.share)[i])
        run = _run(_candidate(sets, i), int(pool.seeds[i]), role, share)
        drafts.append(replace(run, quality=float(pool.quality[i])))
    return Portfolio(
        _in_order(sets, drafts, quality),
        objective,
        minutes,
        quality,
        float(sets.needed(objective)[chosen]),
        sets.gain_of(objective, minutes, chosen),
        sets.gain_of(objective, 2.0 * minutes, chosen),
        sets.next_needed(objective, minutes, quality),
        sets.done,
    )


def main_of(sets: RunSets, objective: str, minutes: float) -> Candidate:
    """The main run that an objective would choose; `minutes` hold a set."""
    chosen = sets.best(objective, minutes)
    places = [int(i) for i in sets.members[chosen] if i >= 0]
    main = min(places, key=lambda i: (-sets.pool.quality[i], sets.pool.alone[i]))
    return _candidate(sets, main)


def _candidate(sets: RunSets, place: int) -> Candidate:
    """The run at a place of the pool."""
    return sets.all_sets.sets[int(sets.pool.candidate_set[place])].at(int(sets.pool.flat[place]))


def _one_split(sets: RunSets, objective: str, minutes: float) -> Candidate | None:
    """The plan of one split of highest utility that `minutes` hold."""
    best: tuple[float, int, GridIndex] | None = None
    for candidate_set, candidates in enumerate(sets.all_sets.sets):
        grid = candidates.grid
        if 1 not in grid.folds or not candidates.table.options:
            continue
        split = np.s_[:, :, grid.folds.index(1)]
        fits = grid.minutes[split] <= minutes
        worth = np.where(fits, utility(objective, grid.quality[split], grid.doublings[split]), -np.inf)
        flat = int(worth.argmax())
        if worth.flat[flat] > (best[0] if best else -np.inf):
            row, epoch = divmod(flat, worth.shape[1])
            best = float(worth.flat[flat]), candidate_set, GridIndex(row, epoch, split[2])
    return None if best is None else Candidate(sets.all_sets.sets[best[1]], best[2])


def _run(candidate: Candidate, seeds: int, role: str, share: float) -> Run:
    """A run that begins at minute 0."""
    columns = candidate.candidates.table.columns
    once = candidate.run()
    run = candidate.run(seeds)
    first = (once.first_fold + once.answer).and_independent(once.setup)
    return Run(
        number=0,
        candidate=candidate,
        seeds=seeds,
        minutes=share,
        start=0.0,
        deadline=float(run.total_end.high) / 60.0,
        training_end=float(run.training_end.high) / 60.0,
        first=float(first.and_independent(once.write).high) / 60.0,
        quality=candidate.quality,
        gain=0.0,
        role=role,
        family=columns.families[columns.family[candidate.pick.row]][0],
    )


def _in_order(sets: RunSets, drafts: list[Run], quality: float) -> tuple[Run, ...]:
    """The runs one after another, each with what it adds to those before it: together they add up to the
    portfolio's quality."""
    blended: list[tuple[str, float]] = [(run.model, run.quality) for run in sets.done]
    reached, start, runs = blend_quality(blended, sets.difference), 0.0, []
    number = max((run.run for run in sets.done), default=0)
    for place, run in enumerate(drafts, 1):
        now = run.quality
        if run.role != "first":
            blended.append((run.model, run.quality))
            now = quality if place == len(drafts) else blend_quality(blended, sets.difference)
        now = min(max(now, reached), quality)
        moved = {name: start + getattr(run, name) for name in ("deadline", "training_end", "first")}
        runs.append(replace(run, number=number + place, start=start, gain=now - reached, **moved))
        reached, start = now, runs[-1].deadline
    return tuple(runs)
