"""What observed runs say of the cards: each is compared with its prediction."""

from __future__ import annotations

from collections.abc import Iterable

from memory_service.domain.cost.interpolation import interpolate_profile
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.learning.observation import BaselinePrediction, Observation, Predict
from memory_service.domain.learning.observation_selection import ObservationSelection
from memory_service.domain.prediction.device_step_time import baseline_prediction
from memory_service.services.knowledge.cards import Cards
from memory_service.services.knowledge.cost_cache import PricedCatalogue


def observation_selection(
    cards: Cards, observations: Iterable[Observation], priced: PricedCatalogue
) -> ObservationSelection:
    """All that the observations say of predictions on the cards."""
    return ObservationSelection(observations, _predictor(cards, priced))


def observed_profile(priced: PricedCatalogue, observation: Observation) -> Profile | None:
    """The profile of what ran: known, or between two known sizes; None where there is neither."""
    name, size = observation.model, observation.input_size
    kind = precision_class(observation.precision)
    stored = priced.checkpointed if observation.checkpointing else priced.profiles
    exact = stored.get((name, size, kind))
    if exact is not None:
        return exact
    sizes = [s for s in priced.sizes.get(name, ()) if (name, s, kind) in stored]
    lower, upper = [s for s in sizes if s < size], [s for s in sizes if s > size]
    if not lower or not upper:
        return None
    return interpolate_profile(stored[name, max(lower), kind], stored[name, min(upper), kind], size)


def _predictor(cards: Cards, priced: PricedCatalogue) -> Predict:
    def predict(observation: Observation) -> BaselinePrediction | None:
        card = cards.devices.get(observation.device) or cards.sheets.get(observation.gpu)
        profile = observed_profile(priced, observation)
        return None if card is None or profile is None else baseline_prediction(observation, profile, card)

    return predict
