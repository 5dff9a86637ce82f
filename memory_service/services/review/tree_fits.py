"""Minutes of boosted trees as a script trains them, by the laws that price plans."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_service.domain.cost.boosted_trees import fit_cost, fit_on_card
from memory_service.domain.planning.boosting_plan import CARD_START, over_rounds
from memory_service.domain.planning.fits import Fits
from memory_service.domain.planning.run_seconds import TREE_FOLD_OVERHEAD, Seconds
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_host import LEAVES
from memory_service.domain.quality.boosting_rounds import best_round, patience_rounds, rounds_trained
from memory_service.review.training_plan import Boosting

USUAL_RATES = {"lightgbm": 0.1, "xgboost": 0.3, "catboost": 0.05}
"""Where a script says none: defaults of the first two (their docs); CatBoost chooses one by rows and rounds,
0.03 to 0.1 as a rule."""

LEAST_FEATURES, USUAL_CORES = 10, 8
"""Columns where nobody says how many: no table of a competition that is boosted for minutes has fewer."""


@dataclass(frozen=True, slots=True)
class TreeFits:
    """training: of all folds, each validated; total: with the rows to predict, as far as they are known;
    rounds: (low, value, high) of a fold."""

    training: Seconds
    total: Seconds
    rounds: tuple[float, float, float]
    features: int
    where: str


def tree_fits(
    library: str, boosting: Boosting, fits: Fits, asked: Mapping[str, Any], card: TargetDevice | None
) -> TreeFits:
    """All fits of a script. asked: n_train; task, n_test, n_features, n_classes, cpu_count if known."""
    rows = int(fits.rows)
    features = asked.get("n_features") or LEAST_FEATURES
    outputs = 1 if str(asked.get("task")).endswith("-regression") else asked.get("n_classes") or 1
    rounds = (float(boosting.rounds),) * 3
    if boosting.stops:
        rate = boosting.learning_rate or USUAL_RATES[library]
        patience = boosting.patience or patience_rounds(rate)
        rounds = rounds_trained(best_round(rate, rows, features, library), patience, boosting.rounds)
    data = library, rows, features, outputs
    usual = max(1, round(rounds[1]))
    own = card.extra.get("cores") if card is not None else None
    cores = asked.get("cpu_count") or (own if isinstance(own, int) else USUAL_CORES)
    speed = card.calibrated.trees if card is not None and card.calibrated else None
    cost = fit_cost(*data, rounds=usual, leaves=LEAVES, cpu_count=cores, speed=speed)
    predict = over_rounds(cost.predict_seconds_per_row, rounds)
    fit, where, on_card = over_rounds(cost.fit_seconds, rounds), f"{cores} cores", None
    if boosting.on_card and card is not None and card.kind == "cuda":
        on_card = fit_on_card(*data, usual, card.bandwidth_gb_s, LEAVES)
    if card is not None and on_card is not None:
        fit, where = over_rounds(on_card, rounds) + CARD_START, card.name
    judged = predict.times(fits.valid * (fits.first + fits.other)) + TREE_FOLD_OVERHEAD.times(fits.models)
    training = fit.times(fits.rows_read / fits.rows) + judged
    total = training + predict.times(float(asked.get("n_test") or 0) * fits.models)
    return TreeFits(training, total, rounds, features, where)
