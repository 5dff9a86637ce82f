"""What exactly should be run? Searches every plan the case allows, keeps the promises, and says why.

Order of decisions: precision from the card, one batch per model from memory, throughput and updates, then
model, input size, epochs and folds together by utility (`domain.planning.plan_search`), then everything that
follows from
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.vocabulary import OBJECTIVES, size_of
from memory_service.domain.cost.data_loader import loader_settings
from memory_service.domain.cost.memory import peak_memory
from memory_service.domain.cost.step_time import prepare
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.learning.baseline_prediction import precision_class
from memory_service.domain.parallel.parallel import parallel_sets
from memory_service.domain.planning import contingency as advice
from memory_service.domain.planning import rationale as reasons
from memory_service.domain.planning.boosting_plan import cost_of, price_trees
from memory_service.domain.planning.budget import Seconds
from memory_service.domain.planning.cost_table import CostTable, layout_of
from memory_service.domain.planning.plan import Expected, Plan, Refusal, Stage, gpu_facts, plan_id_of
from memory_service.domain.planning.plan_search import Field, Flags, Pick, loader_rate, price_field
from memory_service.domain.planning.plan_settings import settings_of
from memory_service.domain.planning.problem import Case, Shelf
from memory_service.domain.planning.relaxation import closest_changes
from memory_service.domain.quality.quality_index import quality_estimate

__all__ = ["Choice", "Lanes", "Search", "make_plan", "precision_for", "search_case", "settings_of"]

_PRECISION_ORDER = ("fp32", "fp16", "bf16")

TREES_LEAVE_OUT = {"epochs", "batch_size", "precision", "image_size", "seq_len"}
"""Who pins one of these has a network in mind: boosted trees are then no answer unless they are asked for by
name."""

SMALLER = 0.6
"""A "smaller" alternative has at most this share of the parameters."""


@dataclass(frozen=True, slots=True)
class Search:
    """One lane of a case, everything priced: networks on the cards, or boosted trees on the processor.

    loader   data loader settings of the contract
    """

    case: Case
    precision: str
    loader: Mapping[str, Any]
    table: CostTable
    field: Field


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan that won in its lane."""

    search: Search
    pick: Pick

    @property
    def batch_size(self) -> int:
        return int(self.search.field.batches.batch_size[self.pick.row])


@dataclass(frozen=True, slots=True)
class Lanes:
    """Every lane of a case: what both the plan and the refusal are read from."""

    case: Case
    searches: tuple[Search, ...]

    def best(
        self, objective: str, minutes: float, keep: Callable[[CostTable], Flags] | None = None
    ) -> Choice | None:
        """The plan of highest utility over all lanes that `minutes` allow; None when none does."""
        winner: Choice | None = None
        for search in self.searches:
            flags = None if keep is None else keep(search.table)
            pick = search.field.best(objective, minutes, flags)
            if pick is not None and (winner is None or pick.utility > winner.pick.utility):
                winner = Choice(search, pick)
        return winner

    def least_minutes(self) -> float:
        """The smallest budget that any plan holds; infinite when memory allows none."""
        return min((float(s.field.minutes.min()) for s in self.searches if s.table.options), default=inf)

    def summary(self, choice: Choice) -> dict[str, Any]:
        return summary(choice.search, choice.pick)


def precision_for(cards: tuple[Gpu, ...]) -> str:
    """The best precision that every card runs in hardware: bf16, else fp16 on tensor cores, else fp32."""
    common = min((card.preferred_precision() for card in cards), key=_PRECISION_ORDER.index)
    return common if all(card.supports(common) for card in cards) else "fp32"


def search_case(case: Case, shelf: Shelf) -> Lanes:
    """Price every option of the case; raises nothing: what cannot run is never the best."""
    precision = case.question.precision or precision_for(case.cards)
    loader = loader_settings(case.cpu_count, case.task)
    table = shelf.table(case, case.cards, precision)
    searches = [Search(case, precision, loader, table, price_field(case, table, int(loader["num_workers"])))]
    trees = shelf.trees(case)
    if trees.options and (case.model is not None or not TREES_LEAVE_OUT & set(case.question.pinned)):
        searches.append(Search(case, "fp32", loader, trees, price_trees(case, trees)))
    return Lanes(case, tuple(searches))


def make_plan(case: Case, shelf: Shelf, lanes: Lanes | None = None) -> Plan | Refusal:
    """The plan for a case, or the refusal with the smallest change that fits.

    lanes   of this very case, where it was already priced
    """
    pinned = case.question.precision
    unsupported = [card.key for card in case.cards if pinned and not card.supports(pinned)]
    lanes = lanes or search_case(case, shelf)
    choice = None if unsupported else lanes.best(case.question.objective, case.question.minutes)
    if choice is not None:
        return _plan(lanes, choice, shelf)
    why = reasons.why_not(lanes, unsupported)
    return Refusal(
        plan_id=plan_id_of(case.question.canonical(), {"feasible": False, "why": why}),
        task=case.task,
        size=size_of(case.n_train),
        gpu=gpu_facts(case.cards, case.visible, lanes.searches[0].table.usable_gib),
        minutes=case.question.minutes,
        metric=case.metric,
        why=why,
        closest=closest_changes(lanes, shelf, search_case, precision_for(case.cards)),
        similar=case.similar,
        warnings=(*case.inferred, *case.warnings, *reasons.ground_warnings(case.cards)),
        evidence=case.evidence,
    )


def summary(search: Search, pick: Pick) -> dict[str, Any]:
    """A plan in one line, for alternatives and for the changes that would fit."""
    settings = settings_of(search, pick)
    expected = expected_of(search, pick)
    return {
        "model": settings["model"]["name"],
        search.table.options[pick.row].model.input_kind: search.table.options[pick.row].input_size,
        **{name: settings[name] for name in ("batch_size", "precision", "folds", "epochs")},
        "expected": {
            name: getattr(expected, name).as_dict()
            for name in ("peak_memory_gib", "total_minutes", "quality_index")
        },
    }


def expected_of(search: Search, pick: Pick) -> Expected:
    """The figures of a pick with their intervals, in the units of the contract."""
    case, field, row = search.case, search.field, pick.row
    batches, run = field.batches, field.run_of(pick)
    batch = float(batches.batch_size[row])
    memory, time = _grounds(search, pick)
    value, high = float(batches.peak_gib[row]), float(batches.peak_high_gib[row])
    peak = replace(memory, value=value, low=max(0.0, 2 * value - high), high=high)
    tightest = min(case.cards, key=lambda card: card.usable_gib)
    total = case.question.vram_gib or tightest.memory_gib
    step = Seconds(*(getattr(field.step, name)[row] for name in ("low", "value", "high")))
    composed = replace(time, grade="estimated")
    return Expected(
        peak_memory_gib=peak,
        memory_percent=peak.scaled(100.0 / total),
        samples_per_second=_estimate(step, 1.0, time).reciprocal(batch),
        epoch_seconds=_estimate(run.epoch, 1.0, composed),
        total_minutes=_estimate(run.total_end, 1 / 60, composed, ", hidden minutes included"),
        inference_minutes=_estimate(run.inference, 1 / 60, composed),
        host_memory_gib=_host_memory(search, pick),
        quality_index=quality_estimate(float(field.quality[row, pick.epoch, pick.fold])),
        bound=_bound(search, row),
    )


def _host_memory(search: Search, pick: Pick) -> Estimate | None:
    option = search.table.options[pick.row]
    if not option.is_trees:
        return None
    return cost_of(search.case, option, search.case.n_train, search.field.epochs[pick.epoch]).memory_gib


def _grounds(search: Search, pick: Pick) -> tuple[Estimate, Estimate]:
    """What memory and time of a pick stand on, as estimates of one step: grade, n and basis are theirs.

    Memory is the fullest card's, time the slowest one's; where the input pipeline is slower still, its.
    """
    case, option = search.case, search.table.options[pick.row]
    kind, saving = precision_class(search.precision), bool(search.field.batches.checkpointing[pick.row])
    profile = (option.checkpointed if saving else option.profile).get(kind)
    if profile is None:
        cost = cost_of(case, option, case.n_train, search.field.epochs[pick.epoch])
        return Estimate(0.0, 0.0, 0.0, basis="boosted trees use no device memory"), cost.fit_seconds
    batch, optimizer = int(search.field.batches.batch_size[pick.row]), option.recipe.optimizer
    fullest = min(case.cards, key=lambda card: card.usable_gib)
    memory = peak_memory(profile, batch, fullest, optimizer, search.precision).driver_gib
    steps = [
        prepare(profile, card, search.precision, layout_of(profile, card), optimizer).step_seconds(batch)
        for card in case.cards
    ]
    time = max(steps, key=lambda step: step.value)
    if search.field.loader_bound[pick.row]:
        workers = int(search.loader["num_workers"])
        loader = loader_rate(case, option.input_size, workers)
        time = replace(
            time, grade=loader.grade, n=loader.n, basis=f"{time.basis}; input pipeline: {loader.basis}"
        )
    return memory, time


def _bound(search: Search, row: int) -> str:
    if search.field.loader_bound[row]:
        return "loader"
    return "host" if search.table.options[row].is_trees or not search.case.on_gpu else "gpu"


def _estimate(seconds: Seconds, factor: float, ground: Estimate, how: str = "") -> Estimate:
    return Estimate(
        seconds.value * factor,
        seconds.low * factor,
        seconds.high * factor,
        ground.grade,
        ground.n,
        ground.basis + how,
    )


def timetable_of(search: Search, pick: Pick) -> tuple[Stage, ...]:
    """Setup, each fold, inference and writing: contiguous, each over by its p90 deadline."""
    run = search.field.run_of(pick)
    folds = int(search.field.folds[pick.fold])
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


def _plan(lanes: Lanes, choice: Choice, shelf: Shelf) -> Plan:
    case, search, pick = lanes.case, choice.search, choice.pick
    settings = settings_of(search, pick)
    expected = expected_of(search, pick)
    stages = timetable_of(search, pick)
    option = search.table.options[pick.row]
    minutes = case.question.minutes
    training_end = stages[-3].deadline_minute
    first_fold = search.field.run_of(pick).first_fold.value / 60
    fill = expected.memory_percent if case.on_gpu and not option.is_trees else None
    left = minutes * (1 - case.policy.reserve_share) - expected.total_minutes.value
    spare = advice.spare_folds(
        settings["folds"], left, first_fold, option.learning.fold_gain, float(case.n_train)
    )
    beside = parallel_sets(lanes)
    return Plan(
        plan_id=plan_id_of(case.question.canonical(), _named(case, settings)),
        task=case.task,
        size=size_of(case.n_train),
        gpu=gpu_facts(case.cards, case.visible, search.table.usable_gib),
        minutes=minutes,
        metric=case.metric,
        settings=settings,
        expected=expected,
        timetable=stages,
        reserve_minutes=minutes - training_end,
        checks=advice.checks_of(option.model.name, option.model.params_m, fill, case.policy),
        on_trouble=advice.trouble_ladder(
            settings,
            trees=option.is_trees,
            on_gpu=case.on_gpu,
            first_fold_percent=100 * first_fold / minutes,
            spare_folds=spare,
        ),
        alternatives=_alternatives(lanes, choice),
        parallel=beside.sets,
        similar=case.similar,
        rationale=(*reasons.rationale(search, pick, settings, expected, spare), *beside.why_none),
        warnings=(*case.inferred, *case.warnings, *reasons.warnings(search, pick, settings, expected)),
        evidence=(*reasons.evidence(search, pick, expected, shelf), *case.evidence),
        facts=case.facts,
    )


def _named(case: Case, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What an id stands for: another metric of the competition is another script."""
    return {**settings, **({"metric": case.metric.name} if case.metric else {})}


def _alternatives(lanes: Lanes, chosen: Choice) -> tuple[dict[str, Any], ...]:
    """What the other objectives would choose, and a smaller model that also fits."""
    question = lanes.case.question
    out = []
    for objective in OBJECTIVES:
        other = lanes.best(objective, question.minutes)
        if objective != question.objective and other is not None:
            out.append({"objective": objective, **lanes.summary(other)})
    mine = chosen.search.table.options[chosen.pick.row].model
    smaller = lanes.best(
        question.objective,
        question.minutes,
        lambda table: (table.columns.params_m < SMALLER * mine.params_m) & (table.columns.names != mine.name),
    )
    if smaller is not None:
        out.append({"objective": "smaller", **lanes.summary(smaller)})
    return tuple(out)
