"""A portfolio: the runs of the chosen set in the order they are trained, each with its place and its gain."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memory_service.domain.planning.candidates import Candidate
from memory_service.domain.planning.problem import DoneRun
from memory_service.domain.portfolio.run_sets import FIRST_SHARE, RunSets, blend_quality


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a portfolio.

    role      first | main | other
    minutes   its own budget: what it needs with its part of the reserve
    quality   expected index of it alone; gain: points it adds to the runs before it, of the first its index
    ends      `_ends` of it; start: minute at which those before it are over (p90)
    """

    candidate: Candidate
    seeds: int
    role: str
    minutes: float
    quality: float
    ends: tuple[float, float, float]
    number: int = 0
    start: float = 0.0
    gain: float = 0.0

    @property
    def model(self) -> str:
        return self.candidate.option.model.name

    @property
    def family(self) -> str:
        columns = self.candidate.candidates.table.columns
        return str(columns.families[columns.family[self.candidate.pick.row]][0])

    @property
    def deadline(self) -> float:
        """Minute by which all of it is over (p90)."""
        return self.start + self.ends[2]

    @property
    def training_end(self) -> float:
        return self.start + self.ends[1]

    @property
    def first(self) -> float:
        """Minute by which a submission of its first fold is there (p90)."""
        return self.start + self.ends[0]


def _ends(candidate: Candidate, seeds: int) -> tuple[float, float, float]:
    """p90 minutes from a run's start to the submission of its first fold, the end of training and all."""
    once, run = candidate.run(), candidate.run(seeds)
    first = (once.first_fold + once.answer).and_independent(once.setup).and_independent(once.write)
    return float(first.high) / 60.0, float(run.training_end.high) / 60.0, float(run.total_end.high) / 60.0


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
    places, quality = sets.places(chosen), float(sets.quality[chosen])
    main = places[0]
    serving = next((i for i in places if pool.first[i] <= FIRST_SHARE * minutes), None)
    early = None
    if serving is not None:
        places.sort(key=lambda i: i != serving)
    elif not sets.done:
        left = min(FIRST_SHARE * minutes, (1.0 - reserve) * (minutes - float(pool.share[places].sum())))
        early = sets.all_sets.best(objective, left, lambda each: np.equal(each.grid.folds, 1))
        if early is not None and objective == "fast" and 2.0 * early.minutes > pool.alone[main]:
            early = None  # what is planned is nearly there by then
    share = pool.alone if len(places) == 1 and early is None else pool.share
    runs = []
    if early is not None:
        budget = early.minutes / (1.0 - reserve)
        runs.append(Run(early, 1, "first", budget, early.quality, _ends(early, 1)))
    for i in places:
        candidate, seeds, role = sets.candidate(i), int(pool.seeds[i]), "main" if i == main else "other"
        ends = _ends(candidate, seeds)
        runs.append(Run(candidate, seeds, role, float(share[i]), float(pool.quality[i]), ends))
    return Portfolio(
        _in_order(sets, runs, quality),
        objective,
        minutes,
        quality,
        float(sets.needed(objective)[chosen]),
        sets.gain_of(objective, minutes, chosen),
        sets.gain_of(objective, 2.0 * minutes, chosen),
        sets.next_needed(objective, minutes, quality),
        sets.done,
    )


def _in_order(sets: RunSets, runs: list[Run], quality: float) -> tuple[Run, ...]:
    """The runs one after another, each with what it adds to those before it: together they add up to the
    portfolio's quality."""
    blended: list[tuple[str, float]] = [(run.model, run.quality) for run in sets.done]
    reached, start, out = blend_quality(blended, sets.difference), 0.0, list[Run]()
    number = max((run.run for run in sets.done), default=0)
    for place, run in enumerate(runs, 1):
        now = run.quality
        if run.role != "first":
            blended.append((run.model, run.quality))
            now = quality if place == len(runs) else blend_quality(blended, sets.difference)
        now = min(max(now, reached), quality)
        out.append(replace(run, number=number + place, start=start, gain=now - reached))
        reached, start = now, out[-1].deadline
    return tuple(out)
