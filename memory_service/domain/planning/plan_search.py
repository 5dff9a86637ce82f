"""Search of the best plan: every model x input size x epochs x folds as arrays; one batch size for each.

Utility = expected quality - PRICE(objective) * log2(1 + minutes needed). Minutes needed do not depend on the
budget; the budget only decides what is feasible. So a larger budget only adds plans that need more minutes,
and one of those can win only by a higher quality: more minutes never lower the expected quality.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from math import log
from typing import NamedTuple

import numpy as np

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.vocabulary import writes_text
from memory_service.domain.cost.bands import COLOURS
from memory_service.domain.cost.decoders.generation import answer_seconds, writes_by_token
from memory_service.domain.cost.multi_gpu import exchange_seconds_of, slowed_by
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.cost.step_time import HIDDEN, LAST_BUCKET
from memory_service.domain.planning.batch_choice import ROOMY_GIB, Batches, choose_batches, cramped
from memory_service.domain.planning.cost_table import CostTable
from memory_service.domain.planning.option import Array, Flags, Integers, Option
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.run_seconds import (
    RunSeconds,
    Seconds,
    minutes_needed,
    run_seconds,
    setup_seconds,
)
from memory_service.domain.prediction.device_host import device_loader
from memory_service.domain.quality.conditioning import given_runs
from memory_service.domain.quality.quality_index import (
    Learning,
    from_random_weights,
    noisy_normalisation,
    quality_index,
    too_large,
)
from memory_service.domain.recipe.preferences import DECODERS

PRICE = {"fast": 2.0, "balanced": 0.1, "quality": 0.0}
"""Index points that a doubling of the minutes must buy (R32).

balanced: of 33 questions of users with 30 to 480 minutes, 88 % use half of them or more (with 0.2 and 0.3: 81
and 73 %); where less is used, all of them would buy under 0.2 points, far inside the index's interval.
fast: only what a first submission needs pays as much.
"""


def utility(objective: str, quality: Array, doublings: Array) -> Array:
    """What is maximised: expected quality less the price of log2(1 + minutes needed)."""
    return np.asarray(quality - PRICE[objective] * doublings, dtype=np.float64)


def front(cost: Array, quality: Array, least: float = 0.0) -> Integers:
    """Places of the points, by rising cost, that no cheaper one reaches within `least`."""
    order = np.argsort(cost)  # most are far below; ties are put in order among those that are left
    some = np.sort(order[quality[order] >= np.maximum.accumulate(quality[order])])
    order = some[np.lexsort((-quality[some], cost[some]))]
    best = np.maximum.accumulate(quality[order])
    return np.asarray(order[np.diff(best, prepend=-np.inf) > least], dtype=np.int64)


def evenly(points: Integers, most: int) -> Integers:
    """At most so many of these, evenly over them."""
    return points[np.unique(np.linspace(0, len(points) - 1, min(most, len(points))).round().astype(np.int64))]


Places = Integers | int

EPOCH_CHOICES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 60, 100, 150)


class GridIndex(NamedTuple):
    """Places of a plan in a grid's arrays."""

    row: int
    epoch: int
    fold: int


@dataclass(frozen=True, slots=True)
class PlanGrid:
    """Every plan considered: arrays [option, epochs, folds] of minutes needed and expected quality.

    step, forward   with the loader's bound applied; loader_bound: where the loader is the slower one
    runs_of         the stages of one plan or several, by places, or arrays of them, of option, epochs, folds
    learning_rates  of the places of `epochs`, where the rate is weighed (boosted trees)
    best_epoch_of   when a fold's validation is expected to be best
    minutes_on      of boosted trees, [2, option, epochs, folds]: on the processor, on the card
    close           places of epochs so close to others that several runs hold the others only [epochs]; None
                    where none is
    doublings       log2(1 + minutes), 0 where nothing fits
    """

    epochs: tuple[int, ...]
    folds: tuple[int, ...]
    batches: Batches
    step: Seconds
    forward: Seconds
    loader_bound: Flags
    runs_of: Callable[[Places, Places, Places], RunSeconds]
    minutes: Array
    quality: Array
    learning_rates: tuple[float, ...] = ()
    best_epoch_of: Callable[[GridIndex], Estimate] | None = None
    minutes_on: Array | None = None
    close: Flags | None = None
    doublings: Array = field(init=False)
    _runs: dict[GridIndex, RunSeconds] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        finite = np.where(np.isfinite(self.minutes), self.minutes, 0.0)
        object.__setattr__(self, "doublings", np.log(1.0 + finite) / log(2.0))

    def run_of(self, pick: GridIndex) -> RunSeconds:
        """The stages of one plan, as floats."""
        run = self._runs.get(pick)
        if run is None:
            run = self._runs[pick] = self.runs_of(*pick).each(lambda stage: stage.each(float))
        return run

    def on_card(self, pick: GridIndex) -> bool:
        """Whether boosted trees grow on the card."""
        if self.minutes_on is None:
            return False
        processor, card = self.minutes_on[:, *pick]
        return bool(card < processor)

    def on_processor(self) -> PlanGrid:
        """Boosted trees with the card left to others."""
        if self.minutes_on is None:
            return self
        return replace(self, minutes=self.minutes_on[0], minutes_on=None)

    def next_rate(self, epoch: int) -> int | None:
        """Place of the whole schedule at the next lower learning rate; None where there is none."""
        rates = self.learning_rates
        lower = max((rate for rate in rates if rate < rates[epoch]), default=None)
        return None if lower is None else len(rates) - 1 - rates[::-1].index(lower)

    def best(self, objective: str, minutes: float, keep: Flags | None = None) -> GridIndex | None:
        """The plan of highest utility that `minutes` allow, cheaper first on ties; None when none fits.

        keep   restricts the plans, broadcast to [option, epochs, folds]
        """
        fits = self.minutes <= minutes
        if keep is not None:
            fits &= keep
        places = np.flatnonzero(fits)
        if not places.size:
            return None
        worth = utility(objective, self.quality.ravel()[places], self.doublings.ravel()[places])
        ties = places[worth >= worth.max() - 1e-9]
        return self.at(int(ties[np.argmin(self.minutes.ravel()[ties])]))

    def at(self, flat: int) -> GridIndex:
        """The plan at a place of the arrays laid flat."""
        return GridIndex(*(int(i) for i in np.unravel_index(flat, self.minutes.shape)))


def _column(values: Array) -> Array:
    return values[:, None, None]


def quality_of(problem: PlanningProblem, table: CostTable, epochs: Array, folds: Array) -> Array:
    """Expected quality [option, epochs, folds]; what similar competitions suggest is part of the
    expectation."""
    c, n_train = table.columns, float(problem.n_train)
    points = _expected_points(problem, table)
    if problem.data_kind.table == "image":
        if problem.question.weights == "none":
            published = np.array([option.model.library != "torch" for option in table.options])
            random = from_random_weights(points, c.params_m, n_train)
            points = np.where(published, random, points)
        else:
            points = points - too_large(c.params_m, n_train)
    learning = Learning(*(_column(getattr(c.learning, f.name)) for f in fields(Learning)))
    averaged = problem.fits(folds, trees=False).averaged
    ratio = _column(_size_ratio(problem, table))
    index = quality_index(_column(points), ratio, epochs, averaged, learning, n_train)
    preferred = _column(_option_points(problem, table)) + np.zeros_like(folds)  # of each number of folds
    for count, points_of_folds in problem.preferences.folds.items():
        preferred = preferred + np.where(folds == count, points_of_folds, 0.0)
    return np.clip(np.asarray(index + preferred, dtype=np.float64), 0.0, 100.0)


def _size_ratio(problem: PlanningProblem, table: CostTable) -> Array:
    """Each option's input size by its model's own; a sequence that is read to its end loses nothing by being
    shorter than that [option]."""
    c, own = table.columns, problem.preferences.seq_len and problem.preferences.seq_len.own
    if not own:
        return c.size_ratio
    shorter = (c.input_kind == "seq_len") & (c.size_ratio * own < c.input_size)
    return np.where(shorter, np.minimum(c.input_size / own, 1.0), c.size_ratio)


def _expected_points(problem: PlanningProblem, table: CostTable) -> Array:
    """Points of each option's model on these data [option], given the results of runs of the competition."""
    c, kind = table.columns, problem.data_kind
    known = table.points.get(kind)
    if known is None or known[0] is not problem.quality:
        expected = problem.quality.expected(kind, c.names[c.first].tolist(), c.score[c.first])
        known = table.points[kind] = problem.quality, expected.points[c.place]
    points = known[1]
    if len(problem.results) > 1:
        models = [table.options[row].model for row in c.first]
        named = [(model.name, model.family) for model in models]
        given = given_runs(points[c.first], named, problem.results, problem.quality, kind.table)
        points = given[c.place]
    return points


def _option_points(problem: PlanningProblem, table: CostTable) -> Array:
    """What memory says of each option's model and input size, in index points [option]; of what is pinned,
    too: the same settings have the same index, whoever chose them."""
    said, c, question = problem.preferences, table.columns, problem.question
    points = np.array([said.family_points(names) for names in c.families], dtype=np.float64)[c.family]
    decoders = np.array([DECODERS in names for names in c.families], dtype=np.float64)[c.family]
    points += decoders * said.decoder_points(c.params_m)
    for name, preference in said.models.items():
        points[c.names == name] += preference.points
    for kind, pinned in (("image_size", question.image_size), ("seq_len", question.seq_len)):
        of_kind = c.input_kind == kind
        points[of_kind] += said.size_points(kind, c.input_size[of_kind], pinned=pinned is not None)
    return points


FEW, FOLDS_OF_FEW = 1_000, 5
"""Up to so many samples five folds are weighed: R17 wants them once a first submission is made."""


def fold_choices(problem: PlanningProblem) -> tuple[int, ...]:
    """Numbers of folds that are weighed: the pinned one, else R17's and those that memory names; of few
    samples five, too, for the first of them is over at once. Of few groups no more than there are; of both
    stages of a search one, so that the same queries are held out."""
    if problem.question.folds or problem.search is not None:
        return (problem.question.folds or 1,)
    more = {FOLDS_OF_FEW} if problem.n_train <= FEW and "R17-start" not in problem.policy.changed else set()
    choices = {*problem.policy.fold_choices, *problem.preferences.folds, *more}
    if problem.most_folds < problem.n_train:
        choices = {min(folds, problem.most_folds) for folds in choices}
    return tuple(folds for folds in sorted(choices) if folds <= problem.n_train) or (1,)


def loader_rate(problem: PlanningProblem, input_size: int, workers: int) -> Estimate:
    """Samples a second that the input pipeline delivers, on the host of the card where it is slowest."""
    asked = problem.task, input_size, workers, problem.cpu_count
    rates = (device_loader(*asked, card) for card in problem.cards)
    slowest = min(rates, key=lambda rate: rate.value)
    return slowest.scaled(COLOURS / max(COLOURS, problem.bands))


def loader_seconds(problem: PlanningProblem, sizes: Integers, workers: int) -> Seconds:
    """Seconds per sample that the input pipeline needs, for each input size."""
    unique, inverse = np.unique(sizes, return_inverse=True)
    rates = [loader_rate(problem, int(size), workers) for size in unique]
    low, value, high = (
        np.array([1.0 / getattr(rate, name) for rate in rates], dtype=np.float64)[inverse]
        for name in ("high", "value", "low")
    )
    return Seconds(low, value, high)


def written_seconds(
    problem: PlanningProblem, options: Sequence[Option], batches: Integers, precision: str
) -> Array:
    """Seconds a test sample that writing its answer takes on the box [option]; 0 where no text is written."""
    if not writes_text(problem.task):
        return np.zeros(len(options))
    slowest, kind = min(card.bandwidth_gb_s for card in problem.cards), precision_class(precision)
    tokens = problem.question.text_tokens
    each = [
        answer_seconds(option.profile[kind], int(batch), slowest, tokens)
        if kind in option.profile and writes_by_token(option.profile[kind])
        else 0.0
        for option, batch in zip(options, batches, strict=True)
    ]
    return np.array(each, dtype=np.float64) / problem.together.n


def _together(problem: PlanningProblem, table: CostTable, batches: Batches) -> Batches:
    """With several cards: seconds that one card's batch takes of the box's time, gradients exchanged: once a
    step of the optimizer, or, where weights lie spread, with each batch."""
    cards = problem.together
    if cards.n <= 1:
        return batches
    exchange = exchange_seconds_of(table.columns.exchanged_params, cards)
    spread = np.array([option.sharded for option in table.options], dtype=np.bool_)
    batches_a_step = np.where(spread, 1, batches.accumulation)

    def shared(seconds: Array) -> Array:
        shown = np.maximum(LAST_BUCKET * exchange, exchange - HIDDEN * seconds)
        return np.asarray((seconds * slowed_by(cards) + shown / batches_a_step) / cards.n, dtype=np.float64)

    return replace(batches, step=batches.step.each(shared), forward=batches.forward.times(1.0 / cards.n))


ROWS_AT_ONCE = 128
"""Of options, so that what is between their steps and their minutes stays in the processor's cache."""


def price_grid(problem: PlanningProblem, table: CostTable, workers: int) -> PlanGrid:
    """Minutes and quality of every option x epochs x folds; pinned epochs and folds are the only ones
    then."""
    question = problem.question
    epochs = (question.epochs,) if question.epochs else EPOCH_CHOICES
    folds = fold_choices(problem)
    batches = choose_batches(problem, table)
    loader = loader_seconds(problem, table.columns.input_size, workers)
    texts = table.columns.texts_per_row
    batch = np.maximum(batches.batch_size, 1) * texts
    alone = _together(problem, table, batches)
    step = alone.step.at_least(loader.times(batch))
    forward = alone.forward.times(1.0 / texts).at_least(loader)
    loader_bound = loader.value * batch > alone.step.value
    written = written_seconds(problem, table.options, batches.batch_size, table.precision)
    written = written + forward.value * np.array([option.patches - 1.0 for option in table.options])

    e = np.array(epochs, dtype=np.float64)[None, :, None]
    k = np.array(folds, dtype=np.float64)[None, None, :]
    params, pretrained = table.columns.params_m, table.columns.pretrained * problem.fetches_weights
    gpu, files = problem.on_gpu, problem.reads_files
    setup = setup_seconds(params, problem.n_train, gpu=gpu, pretrained=pretrained, files=files)

    def stages(
        of_option: Callable[[Array], Array], folds: Array, epochs: Array, step: Seconds, forward: Seconds
    ) -> RunSeconds:
        return run_seconds(
            setup.each(of_option), step.each(of_option), of_option(batch), forward.each(of_option),
            n_train=problem.n_train, n_test=problem.n_test, folds=folds, epochs=epochs,
            written=of_option(written), by_time=problem.by_time,
        )  # fmt: skip

    def runs_of(rows: Places, at_epochs: Places, at_folds: Places) -> RunSeconds:
        return stages(lambda values: values[rows], k.ravel()[at_folds], e.ravel()[at_epochs], step, forward)

    def needed(some: slice) -> Array:
        run = stages(lambda values: values[some, None, None], k, e, step.upper, forward.upper)
        policy = problem.policy
        return np.asarray(minutes_needed(run, policy.reserve_share, policy.median_share), dtype=np.float64)

    lost = np.where(table.columns.batch_norm, noisy_normalisation(batch), 0.0)
    quality = np.maximum(quality_of(problem, table, e, k) - _column(lost), 0.0)
    runs = batches.batch_size > 0
    sized = question.model is not None and question.image_size is not None
    if not sized and question.batch_size is None and table.usable_gib >= ROOMY_GIB:
        roomy = runs & ~cramped(problem, table, batches)
        runs = roomy if roomy.any() else runs
    blocks = (slice(at, at + ROWS_AT_ONCE) for at in range(0, max(len(batch), 1), ROWS_AT_ONCE))
    minutes = np.where(runs[:, None, None], np.concatenate([needed(some) for some in blocks]), np.inf)
    return PlanGrid(epochs, folds, batches, step, forward, loader_bound, runs_of, minutes, quality)
