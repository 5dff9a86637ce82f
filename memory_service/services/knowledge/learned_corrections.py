"""Corrections of the cards by the runs observed on them: each run beside what was predicted for it without
learning (the arithmetic is `domain.learning.corrections`)."""

import datetime as dt
import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.learning.observation import BaselinePrediction, Observation
from memory_service.domain.learning.observation_selection import ObservationSelection
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_host import host_baseline
from memory_service.domain.prediction.device_step_time import baseline_prediction
from memory_service.domain.prediction.trust import (
    MOST_OF_KEY,
    confirmed_figures,
    host_doubt,
    limits_of,
    run_doubt,
    trusted,
)
from memory_service.services.database.transactions import ReadTransaction
from memory_service.services.knowledge.cards import Cards
from memory_service.services.knowledge.cost_cache import PricedCatalogue
from memory_service.store.engine import is_readable
from memory_service.store.queries import observations as store

_log = logging.getLogger(__name__)


def observation_selection(
    cards: Cards, observations: Iterable[Observation], priced: PricedCatalogue
) -> ObservationSelection:
    """All that the observations say of predictions on the cards."""
    return ObservationSelection(observations, _Predictions(cards, priced))


@dataclass(frozen=True, eq=False)
class _Predictions:
    """Of what was observed, on the cards before anything was learned."""

    cards: Cards
    priced: PricedCatalogue

    def __call__(self, observation: Observation) -> BaselinePrediction | None:
        card = observed_card(self.cards, observation)
        try:
            if observation.part != "step":
                return None if card is None else host_baseline(observation, card)
            profile = observed_profile(self.priced, observation)
            return (
                None if card is None or profile is None else baseline_prediction(observation, profile, card)
            )
        except (ArithmeticError, ValueError) as error:  # of what was told of one device: it stops no other's
            _log.warning("a run on %s says nothing: its prediction failed: %s", observation.device, error)
            return None


def predicted_alike(
    known: ObservationSelection | None, cards: Cards, observations: Iterable[Observation]
) -> ObservationSelection | None:
    """The selection, where these observations are predicted on the cards as it predicts them: those that ran
    them are as they were."""
    if known is None or not isinstance(known.predict, _Predictions):
        return None
    before, ran = known.predict.cards, {(each.device, each.gpu) for each in observations}
    same = before is cards or all(
        before.devices.get(device) == cards.devices.get(device)
        and before.sheets.get(gpu) == cards.sheets.get(gpu)
        for device, gpu in ran
    )
    return known if same else None


def with_doubt(
    cards: Cards, priced: PricedCatalogue, observation: Observation, n_train: int | None
) -> Observation:
    """The observation with why it cannot be, by its model's trace and its card's data sheet alone."""
    card = observed_card(cards, observation)
    if card is not None and observation.part != "step":
        sheet = replace(card, calibrated=None, learned=None)
        doubt = host_doubt(observation, host_baseline(observation, sheet))
        return replace(observation, doubt=doubt)
    profile = observed_profile(priced, observation)
    if card is None or profile is None:
        return observation
    sheet = replace(card, calibrated=None, learned=None)
    predicted = baseline_prediction(observation, profile, sheet)
    return replace(observation, doubt=run_doubt(observation, profile, sheet, predicted, n_train))


def observed_card(cards: Cards, observation: Observation) -> TargetDevice | None:
    """The card that ran, a processor with the cores it ran on. None where nobody knows the card, or the cores
    of an unregistered processor: such observations were stored before cores were, and say nothing."""
    card = cards.devices.get(observation.device) or cards.sheets.get(observation.gpu)
    if card is None or (card.cores and not card.device and observation.cores is None):
        return None
    return with_cores(card, observation.cores)


def observed_profile(priced: PricedCatalogue, observation: Observation) -> Profile | None:
    """The profile of what ran, as `ProfileLibrary.between` finds it."""
    kind, saving = precision_class(observation.precision), observation.checkpointing
    return priced.library.between(observation.model, observation.input_size, kind, checkpointing=saving)


Kept = tuple[dt.datetime, str, Observation]
"""When it was written, id, observation."""


@dataclass(frozen=True)
class Observed:
    """The latest observations of each case and of each key, as the database had them.

    state   as `store.queries.observations.latest` gave it; rows: by id, those that can be read
    kinds   `Cards.kinds`
    """

    state: Mapping[str, object] = field(default_factory=dict)
    rows: Mapping[str, Kept] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)

    def kind_of(self, one: Observation) -> str:
        """Of the device: of processors that nobody registered, each reporter's is one of its own."""
        return self.kinds.get(one.device) or ("" if one.cores is None else one.reporter)

    @cached_property
    def all(self) -> tuple[Observation, ...]:
        """Those that may teach, the oldest first, without the older ones beyond what counts of a case."""
        counted: Counter[Hashable] = Counter()
        kept = []
        for *_, one in sorted(self.rows.values(), key=lambda row: row[:2], reverse=True):
            limits = limits_of(one)
            if all(counted[what] < most for what, most in limits):
                counted.update(what for what, _ in limits)
                kept.append(one)
        return trusted(reversed(kept), self.kind_of)

    @cached_property
    def confirmed(self) -> tuple[Mapping[str, object], ...]:
        """Of each of `all` the figures that others than the key that told it hear."""
        return confirmed_figures(self.all, self.kind_of)


def observed(transaction: ReadTransaction, cards: Cards, cached: Observed | None = None) -> Observed:
    """The observations now; of those of `cached`, read earlier, what was written since is read."""
    now, cached = store.latest(transaction.session, MOST_OF_KEY), cached or Observed()
    if cached.state == now:
        return cached if cached.kinds == cards.kinds else replace(cached, kinds=cards.kinds)
    same = {key for key, stamp in now.items() if cached.state.get(key) == stamp}
    rows = {key: row for key, row in cached.rows.items() if key in same}
    for row in store.several(transaction.session, now.keys() - same):
        if is_readable(row.observation):
            rows[row.id] = row.updated_at, row.id, Observation.from_dict(row.observation)
    return Observed(now, rows, cards.kinds)
