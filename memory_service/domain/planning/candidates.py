"""Every plan that a problem allows, priced, within the memory of the host: networks on the cards, boosted
trees on the processor.

A search has two stages: a bi-encoder finds candidates of each query, a cross-encoder orders them. Both are
priced as any other model, by samples of their own: a text that is embedded, a pair that is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, log2
from typing import Any

import numpy as np

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.boosted_trees import table_memory
from memory_service.domain.cost.data_loader import loader_settings
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import StepConfig, layout_of, precision_class
from memory_service.domain.cost.step_time import StepModel
from memory_service.domain.cost.throughput_knee import BATCH_LADDER, KNEE_GAIN
from memory_service.domain.description.stated_facts import Search
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.planning.batch_choice import BOUNDS
from memory_service.domain.planning.boosting_plan import (
    cost_of,
    fitted_at_once,
    kind_of,
    price_trees,
    rounds_of_estimator,
)
from memory_service.domain.planning.cost_table import CostTable, with_memory
from memory_service.domain.planning.fits import Fits
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.planning.option import Array, Flags, Option
from memory_service.domain.planning.plan_search import GridIndex, PlanGrid, loader_rate, price_grid, utility
from memory_service.domain.planning.problem import CostProvider, PlanningProblem
from memory_service.domain.planning.run_seconds import RunSeconds, Seconds
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.domain.recipe.vocabulary import families_of

USABLE_OF_HOST = 0.9
"""Of a host's memory; the rest is the system's and the notebook's."""


def host_memory(problem: PlanningProblem, option: Option, rounds: Any) -> Estimate | None:
    """GiB of the process that trains the option on the problem's table; None where files are read one by one.
    rounds: of boosting, a number or an array of them; what is fitted at once has its own."""
    if option.is_trees:
        rounds = rounds_of_estimator(kind_of(option)) if fitted_at_once(option) else rounds
        return cost_of(problem, option, problem.n_train, rounds).memory_gib
    if option.model.input_kind != "n_features":
        return None
    return table_memory(problem.n_train, problem.n_features)


def host_limit_gib(problem: PlanningProblem) -> float:
    """What a process may use of the smallest host whose memory is known: as said, or of a processor that is
    planned for; infinite beside cards, whose hosts nobody described."""
    if problem.host_gib is not None:
        return USABLE_OF_HOST * problem.host_gib
    vram = problem.question.vram_gib
    hosts = (card for card in problem.cards if card.kind == "cpu")
    return min((with_memory(h, vram).usable_gib if vram else h.usable_gib for h in hosts), default=inf)


def host_share(problem: PlanningProblem, options: Iterable[Option]) -> float | None:
    """How many times the host holds the option that needs least of it; None where none is limited by it."""
    needs = [m.high for option in options if (m := host_memory(problem, option, 1)) is not None]
    limit = host_limit_gib(problem)
    return limit / min(needs) if needs and limit < inf else None


def within_host(problem: PlanningProblem, options: Sequence[Option], grid: PlanGrid) -> PlanGrid:
    """The grid without what the host cannot hold nine times in ten."""
    limit = host_limit_gib(problem)
    if limit == inf:
        return grid
    over = np.zeros((len(options), len(grid.epochs), 1), dtype=bool)
    for row, option in enumerate(options):
        memory = host_memory(problem, option, np.array(grid.epochs, dtype=np.float64))
        if memory is not None:
            over[row, :, 0] = memory.high + grid.batches.peak_high_gib[row] > limit
    on = grid.minutes_on
    return replace(
        grid,
        minutes=np.where(over, inf, grid.minutes),
        minutes_on=None if on is None else np.where(over, inf, on),
    )


_PRECISION_ORDER = ("fp32", "fp16", "bf16")

TREES_LEAVE_OUT = {"epochs", "batch_size", "precision", "image_size", "seq_len"}
"""Who pins one of these has a network in mind: boosted trees are then no answer unless they are asked for by
name."""


KEPT = (100, 50, 25, 10)
"""Candidates a query that the retriever may keep; as usual of rerankers."""

PAIRS = (8, 4, 2)
"""Pairs a query that the reranker may learn from, one of them relevant; 8 as of BGE's rerankers."""

SHARES = (0.1, 0.2, 0.35, 0.5)
"""Of the minutes, that the retriever may take."""

POINTS_OF_HALF = 0.5
"""Index points that half as many candidates lose, for fewer relevant ones are among them, and half as many
pairs. Judged."""

FEWEST_TEXTS = 32
"""A batch, of which a bi-encoder learns too little; such a model is taken where there is no other."""

_OF_DECODERS = ("method", "lora_rank", "sharding", "trainer", "packing", "text_tokens")


@dataclass(frozen=True, slots=True)
class Stages:
    """What a stage of a search learns from and hands on.

    queries, documents   that are learned from, that are searched
    kept                 candidates a query, 0 of a retriever whose order is the answer
    pairs                a query that a reranker learns from, 0 of a retriever
    """

    queries: int
    documents: int
    kept: int
    pairs: int

    @property
    def name(self) -> str:
        return "reranker" if self.pairs else "retriever"


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """One kind of candidates, everything priced: networks on the cards, or boosted trees on the processor.

    loader   data loader settings of the contract
    stages   of a search, of which this is one
    """

    problem: PlanningProblem
    precision: str
    loader: Mapping[str, Any]
    table: CostTable
    grid: PlanGrid
    stages: Stages | None = None

    def best(self, objective: str, minutes: float, keep: Flags | None = None) -> Candidate | None:
        """The plan of highest utility that `minutes` allow; None when none does."""
        pick = self.grid.best(objective, minutes, keep)
        return None if pick is None else Candidate(self, pick)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One plan of a set. pick: its place in the grid."""

    candidates: CandidateSet
    pick: GridIndex

    @property
    def problem(self) -> PlanningProblem:
        return self.candidates.problem

    @property
    def grid(self) -> PlanGrid:
        return self.candidates.grid

    @property
    def option(self) -> Option:
        return self.candidates.table.options[self.pick.row]

    @property
    def precision(self) -> str:
        return self.candidates.precision

    @property
    def batch_size(self) -> int:
        return int(self.grid.batches.batch_size[self.pick.row])

    @property
    def epochs(self) -> int:
        """The cap of each fold; of boosted trees, in rounds."""
        return int(self.grid.epochs[self.pick.epoch])

    @property
    def folds(self) -> int:
        return int(self.grid.folds[self.pick.fold])

    @property
    def checkpointing(self) -> bool:
        return bool(self.grid.batches.checkpointing[self.pick.row])

    @property
    def profile(self) -> Profile | None:
        """With checkpointing where the batch needs it; None for boosted trees."""
        profiles = self.option.checkpointed if self.checkpointing else self.option.profile
        return profiles.get(precision_class(self.precision))

    @property
    def on_card(self) -> bool:
        return self.grid.on_card(self.pick)

    @property
    def loader_bound(self) -> bool:
        """Whether the input pipeline is the slower one."""
        return bool(self.grid.loader_bound[self.pick.row])

    @property
    def batch_bound(self) -> str:
        """Which of `BOUNDS` kept the batch from being larger."""
        return BOUNDS[int(self.grid.batches.bound[self.pick.row])]

    def utility(self, objective: str) -> float:
        return float(utility(objective, self.grid.quality[self.pick], self.grid.doublings[self.pick]))

    @property
    def quality(self) -> float:
        """Expected index."""
        return float(self.grid.quality[self.pick])

    @property
    def minutes(self) -> float:
        """The smallest budget that holds it by itself."""
        return float(self.grid.minutes[self.pick])

    def run(self, seeds: int = 1) -> RunSeconds:
        """All folds with each seed."""
        return self.grid.run_of(self.pick).repeated(self.fits(seeds))

    def fits(self, seeds: int = 1) -> Fits:
        return self.problem.fits(self.folds, seeds, trees=self.option.is_trees)

    def speeds(self) -> dict[int, float]:
        """Batch of the ladder from the planned one on, as memory holds it at p90 -> samples a second of the
        slowest card, the input pipeline counted; empty of boosted trees."""
        profile, own, question = self.profile, self.batch_size, self.problem.question
        if profile is None:
            return {}
        workers = int(self.candidates.loader["num_workers"])
        loader = loader_rate(self.problem, self.option.input_size, workers).value
        out: dict[int, float] = {}
        for batch in (own, *(rung for rung in BATCH_LADDER if rung > own)):
            rates = []
            for card in self.problem.cards:
                peak = peak_memory(profile, batch, card, self.config_on(card, profile)).driver_gib.high
                if batch > own and peak > (question.vram_gib or card.usable_gib):
                    return out
                rates.append(batch / self.step_on(card, profile).step_seconds(batch).value)
            out[batch] = min(*rates, loader * self.option.texts_per_row)
        return out

    def faster_batch(self) -> tuple[float, int, float] | None:
        """(samples a second of the planned batch, a larger one, its samples a second): the smallest within a
        tenth of the fastest; None where none is a tenth faster than the planned one."""
        speeds = self.speeds()
        top = max(speeds.values(), default=0.0)
        batch = next((each for each, speed in speeds.items() if KNEE_GAIN * speed >= top), self.batch_size)
        return None if batch == self.batch_size else (speeds[self.batch_size], batch, speeds[batch])

    def step_on(self, card: TargetDevice, profile: Profile) -> StepModel:
        return prepare(profile, card, self.config_on(card, profile))

    def config_on(self, card: TargetDevice, profile: Profile) -> StepConfig:
        return StepConfig(self.precision, layout_of(profile, card), self.option.defaults.optimizer)


Rival = tuple[tuple[str, ...], Option, float]
"""(families, option, quality index without what winners used)."""


@dataclass(frozen=True, slots=True)
class CandidateSets:
    """Every set of a problem: what both the plan and the refusal are read from. before: of a search the
    retriever, a run of its own whose minutes all budgets here include, those of a set do not."""

    problem: PlanningProblem
    sets: tuple[CandidateSet, ...]
    before: Candidate | None = None

    @property
    def taken(self) -> float:
        """Minutes of the budget that the run before takes."""
        return 0.0 if self.before is None else self.before.minutes

    def best(
        self, objective: str, minutes: float, keep: Callable[[CandidateSet], Flags] | None = None
    ) -> Candidate | None:
        """The plan of highest utility of all sets that `minutes` allow; None when none does."""
        left = minutes - self.taken
        each = (s.best(objective, left, None if keep is None else keep(s)) for s in self.sets)
        return max(filter(None, each), key=lambda best: best.utility(objective), default=None)

    def total_end(self, candidate: Candidate) -> Seconds:
        """From the start of the run before to the end of the candidate's."""
        own = candidate.run().total_end
        return own if self.before is None else self.before.run().total_end + own

    def flat(self) -> tuple[Array, Array]:
        """(the smallest budget, quality) of every plan, the sets one after another."""
        minutes, quality = ([getattr(s.grid, n).ravel() for s in self.sets] for n in ("minutes", "quality"))
        return self.taken + np.concatenate(minutes), np.concatenate(quality)

    def at(self, place: int) -> Candidate:
        """The plan at a place of `flat`."""
        candidates, *others = self.sets
        for other in others:
            if place >= candidates.grid.minutes.size:
                place, candidates = place - candidates.grid.minutes.size, other
        return Candidate(candidates, candidates.grid.at(place))

    def least_minutes(self) -> float:
        """The smallest budget that any plan holds; infinite when memory allows none."""
        return self.taken + min((float(s.grid.minutes.min(initial=inf)) for s in self.sets), default=inf)

    def rival(self, candidate: Candidate) -> Rival | None:
        """(families, option, index without what winners used) of the best option of other families in the
        minutes of a candidate; None where there is none."""
        said, minutes = self.problem.preferences, candidate.minutes + 1e-9
        own = families_of(candidate.option.model.name, candidate.option.model.family)
        best: Rival | None = None
        for names, option, params_m, index in self._best_of_groups(minutes):
            quality = index - said.winner_points(names, params_m)
            if set(names).isdisjoint(own) and quality > (best[2] if best else 0.0):
                best = names, option, quality
        return best

    def best_of_families(self, minutes: float) -> dict[str, str]:
        """Family -> the model of it whose plan in these minutes is expected to be best."""
        best: dict[str, tuple[float, str]] = {}
        for names, option, _, index in self._best_of_groups(minutes - self.taken):
            for name in names if index > -inf else ():
                best[name] = max(best.get(name, (-inf, "")), (index, option.model.name))
        return {name: model for name, (_, model) in best.items()}

    def _best_of_groups(self, minutes: float) -> Iterator[tuple[tuple[str, ...], Option, float, float]]:
        """(families, option, millions of parameters, quality index or -inf) of the best of each group of
        families in each set."""
        for candidates in self.sets:
            grid, columns = candidates.grid, candidates.table.columns
            index = np.where(grid.minutes <= minutes, grid.quality, -inf).max(axis=(1, 2), initial=-inf)
            for code, names in enumerate(columns.families):
                rows = np.flatnonzero(columns.family == code)
                row = int(rows[np.argmax(index[rows])])
                yield names, candidates.table.options[row], float(columns.params_m[row]), float(index[row])


def precision_for(cards: Sequence[Gpu]) -> str:
    """The best precision that every card runs in hardware: bf16, else fp16 on tensor cores, else fp32."""
    common = min((card.preferred_precision() for card in cards), key=_PRECISION_ORDER.index)
    return common if all(card.supports(common) for card in cards) else "fp32"


def price_candidates(problem: PlanningProblem, costs: CostProvider) -> CandidateSets:
    """Price every option of the problem; raises nothing: what cannot run is never the best."""
    if problem.search is not None:
        return _in_stages(problem, problem.search, costs)
    sets = [_networks(problem, costs)]
    trees = costs.trees(problem)
    if trees.options and (problem.model is not None or not TREES_LEAVE_OUT & set(problem.question.pinned)):
        grid = within_host(problem, trees.options, price_trees(problem, trees))
        sets.append(CandidateSet(problem, "fp32", sets[0].loader, trees, grid))
    return CandidateSets(problem, tuple(sets))


def _networks(problem: PlanningProblem, costs: CostProvider) -> CandidateSet:
    """Networks, priced. Where no card of several holds a copy of any of them, with weights spread over the
    cards, unless that was asked for or refused."""
    question, loader = problem.question, loader_settings(problem.cpu_count, problem.task)
    precision = question.precision or precision_for(problem.cards)

    def priced(sharding: str | None) -> CandidateSet:
        options_of = replace(problem, question=replace(question, sharding=sharding))
        table = costs.table(options_of, problem.cards, precision)
        grid = within_host(problem, table.options, price_grid(problem, table, int(loader["num_workers"])))
        return CandidateSet(problem, precision, loader, table, grid)

    copies = priced(question.sharding)
    able = bool(np.isfinite(copies.grid.minutes).any()) or not any(o.method for o in copies.table.options)
    if problem.together.n <= 1 or question.sharding is not None or able:
        return copies
    spread = priced("fsdp")
    return spread if np.isfinite(spread.grid.minutes).any() else copies


def is_bi_encoder(model: CatalogueModel) -> bool:
    """Whether it embeds each text by itself."""
    return model.config.get("head") == "encoder" or "embedding" in model.name


def _in_stages(problem: PlanningProblem, search: Search, costs: CostProvider) -> CandidateSets:
    """The rerankers of a search behind the retriever that is best with them. Where the minutes hold no two
    stages the retrievers alone, or the rerankers if one of them is pinned."""
    question, sizes = problem.question, product((search.candidates,) if search.candidates else KEPT, PAIRS)
    every = [Stages(problem.n_train, search.documents, kept, pairs) for kept, pairs in sizes]
    rerankers = {stages: _stage(problem, stages, costs) for stages in every}
    if not search.candidates and all(run.run != 1 for run in question.done):
        retrievers = _stage(problem, replace(every[0], kept=0, pairs=0), costs)
        firsts = (retrievers.best(question.objective, share * question.minutes) for share in SHARES)
        found = _best_chain(problem, [*filter(None, firsts)], rerankers)
        if found is not None or retrievers.problem.model == problem.model:
            return found or CandidateSets(problem, (retrievers,))
    return _best_chain(problem, [None], rerankers) or CandidateSets(problem, (rerankers[every[-1]],))


def _stage(problem: PlanningProblem, stages: Stages, costs: CostProvider) -> CandidateSet:
    """The models that serve a stage, priced; where the pinned one serves the other, all of them."""
    embeds, queries, asked = stages.pairs == 0, problem.n_train, problem.n_test
    only = problem.model is not None and stages.documents == 0
    n_train, n_test = queries * stages.pairs, asked * stages.kept
    if embeds:
        n_train, n_test = 2 * queries, stages.documents + queries + asked
    found = _networks(replace(problem, n_train=n_train, n_test=n_test, contrastive=embeds), costs)
    serve = np.array([only or is_bi_encoder(o.model) == embeds for o in found.table.options], dtype=bool)
    if problem.model is not None and serve.size and not serve.any():
        left_open: dict[str, Any] = dict.fromkeys(("model", *_OF_DECODERS))
        question = replace(problem.question, **left_open)
        return _stage(replace(problem, model=None, question=question), stages, costs)
    roomy = serve & (found.grid.batches.batch_size >= FEWEST_TEXTS)
    serve = roomy if embeds and roomy.any() else serve
    minutes = np.where(serve[:, None, None], found.grid.minutes, inf)
    return replace(found, grid=replace(found.grid, minutes=minutes), stages=stages)


def _best_chain(
    problem: PlanningProblem, firsts: Sequence[Candidate | None], rerankers: Mapping[Stages, CandidateSet]
) -> CandidateSets | None:
    """The rerankers, in the minutes that the retriever before them (None: none) leaves, of the best mean
    utility, more candidates and pairs counted; None where the minutes hold no such two."""
    best, most, objective = None, -inf, problem.question.objective
    for first, (stages, ranked) in product(firsts, rerankers.items()):
        before, minutes = None, problem.question.minutes
        if first is not None:
            handed = replace(first.candidates, stages=replace(stages, pairs=0))
            before, minutes = replace(first, candidates=handed), minutes - first.minutes
        question = replace(ranked.problem.question, minutes=minutes)
        own = replace(ranked, problem=replace(ranked.problem, question=question))
        if (pick := own.best(objective, minutes)) is not None:
            utilities = [each.utility(objective) for each in (before, pick) if each]
            worth = sum(utilities) / len(utilities) + POINTS_OF_HALF * log2(stages.kept * stages.pairs)
            if worth > most:
                best, most = CandidateSets(problem, (own,), before), worth
    return best
