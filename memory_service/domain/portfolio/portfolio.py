"""A portfolio: the runs of the chosen set in the order they are trained, each with its place and its gain."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from memory_service.domain.planning.candidates import Candidate, CandidateSets
from memory_service.domain.planning.plan_search import evenly, front
from memory_service.domain.planning.plan_settings import epochs_of
from memory_service.domain.planning.problem import DoneRun
from memory_service.domain.portfolio.run_sets import FIRST_SHARE, RunSets


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a portfolio.

    role      first | main | other | retriever (of a search, before all others)
    minutes   its own budget: what it needs with its part of the reserve
    quality   expected index of it alone; gain: points that all of them reach more than without it
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
        blended = (run.number for run in self.runs if run.role in ("main", "other"))
        runs = [*(run.run for run in self.done), *blended]
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
    elif not sets.done and sets.all_sets.before is None:
        left = min(FIRST_SHARE * minutes, (1.0 - reserve) * (minutes - float(pool.share[places].sum())))
        early = sets.all_sets.best(objective, left, lambda each: np.equal(each.grid.folds, 1))
        if early is not None and objective == "fast" and 2.0 * early.minutes > pool.alone[main]:
            early = None  # what is planned is nearly there by then
    share = pool.alone if len(places) == 1 and early is None else pool.share
    runs = []
    if (first := sets.all_sets.before) is not None:
        ends = _ends(first, 1)
        runs.append(Run(first, 1, "retriever", first.minutes, first.quality, ends, gain=quality))
    if early is not None:
        budget = early.minutes / (1.0 - reserve)
        runs.append(Run(early, 1, "first", budget, early.quality, _ends(early, 1)))
    for i in places:
        candidate, seeds, role = sets.candidate(i), int(pool.seeds[i]), "main" if i == main else "other"
        others = [place for place in places if place != i]
        without = sets.quality_of(others) if others or early is None else early.quality
        ends, gain = _ends(candidate, seeds), max(quality - without, 0.0)
        runs.append(Run(candidate, seeds, role, float(share[i]), float(pool.quality[i]), ends, gain=gain))
    return Portfolio(
        _in_order(sets, runs),
        objective,
        minutes,
        quality,
        float(sets.needed(objective)[chosen]),
        sets.gain_of(objective, minutes, chosen),
        sets.gain_of(objective, 2.0 * minutes, chosen),
        sets.next_needed(objective, minutes, quality),
        sets.done,
    )


def _in_order(sets: RunSets, runs: list[Run]) -> tuple[Run, ...]:
    """The runs one after another."""
    start, out = 0.0, list[Run]()
    number = max((run.run for run in sets.all_sets.problem.question.done), default=0)
    for place, run in enumerate(runs, 1):
        out.append(replace(run, number=number + place, start=start))
        start = out[-1].deadline
    return tuple(out)


MOST_POINTS = 80
MOST_MODELS = 60


def best_by_budget(all_sets: CandidateSets) -> list[dict[str, Any]]:
    """The plans that no cheaper plan equals in expected quality, by rising minutes.

    Each `{"model", input size, "batch_size", "folds", "epochs", "minutes", "quality_index"}`; `minutes` is
    the smallest budget that holds the plan (p90 and reserve included). At most `MOST_POINTS`, evenly over the
    quality they reach; empty when no plan fits the memory of the cards.
    """
    minutes, quality = all_sets.flat()
    able = np.flatnonzero(np.isfinite(minutes))
    shown = evenly(able[front(minutes[able], quality[able], 1e-9)], MOST_POINTS)
    return [_point(all_sets, int(place)) for place in shown]


def best_of_models(all_sets: CandidateSets, minutes: float) -> list[dict[str, Any]]:
    """Of each model that `minutes` allow the plan of best expected quality (the cheaper on ties), best first;
    points as of `best_by_budget`."""
    best: dict[str, tuple[float, float, int]] = {}
    before = 0
    for candidates in all_sets.sets:
        options = candidates.table.options
        if not options:
            continue
        needed = all_sets.taken + candidates.grid.minutes.reshape(len(options), -1)
        quality = np.where(needed <= minutes, candidates.grid.quality.reshape(needed.shape), -np.inf)
        most = quality.max(axis=1)
        columns = np.where(quality >= most[:, None] - 1e-9, needed, np.inf).argmin(axis=1)
        for row in np.flatnonzero(np.isfinite(most)):
            name, place = options[row].model.name, (row, columns[row])
            flat = before + int(row) * needed.shape[1] + int(columns[row])
            point = (float(quality[place]), -float(needed[place]), flat)
            if name not in best or point > best[name]:
                best[name] = point
        before += needed.size
    ranked = sorted(best.values(), reverse=True)[:MOST_MODELS]
    return [_point(all_sets, place) for _, _, place in ranked]


def _point(all_sets: CandidateSets, place: int) -> dict[str, Any]:
    candidate = all_sets.at(place)
    return {
        "model": candidate.option.model.name,
        candidate.option.model.input_kind: candidate.option.input_size,
        "batch_size": candidate.batch_size,
        "folds": candidate.folds,
        "epochs": epochs_of(candidate),
        "minutes": round(all_sets.taken + candidate.minutes, 3),
        "quality_index": round(candidate.quality, 3),
    }
