"""Does the expected quality order the models that were run on a competition as their metrics did?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from memory_service.domain.common.vocabulary import SIZE_TYPICAL_N_TRAIN
from memory_service.domain.quality.combination import probability_better
from memory_service.domain.quality.quality_model import quality_kind
from memory_service.domain.quality.ranking import candidate_of
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.store.queries import outcomes

MOST_RUNS = 2_000


def quality_order(database: Database) -> dict[str, Any]:
    """Pairs of models run on one competition, each by its best run: `{"competitions", "pairs",
    "right_percent", "expected_percent"}`; None where there is no pair.

    right      the model of higher expected quality had the better metric; expected: the mean probability of
               that. The expectation is that of the shipped figures alone: no run of this service is in it.
    """
    knowledge = knowledge_of(database)
    with database.read() as transaction:
        rows = outcomes.with_metric(transaction.session, MOST_RUNS)
    by_competition: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in rows:
        if row.model in knowledge.models:
            by_competition[row.competition, row.task].append(row)
    pairs = [_pairs(knowledge, found) for found in by_competition.values()]
    said = np.concatenate([probability for probability, _ in pairs] or [np.zeros(0)])
    right = np.concatenate([won for _, won in pairs] or [np.zeros(0)])
    return {
        "competitions": sum(len(won) > 0 for _, won in pairs),
        "pairs": len(said),
        "right_percent": round(100.0 * float(right.mean()), 1) if len(said) else None,
        "expected_percent": round(100.0 * float(said.mean()), 1) if len(said) else None,
    }


def _pairs(knowledge: Knowledge, rows: Sequence[Any]) -> tuple[Any, Any]:
    """(probability of the expected winner, whether it won) of each two models with different metrics."""
    best = _best_runs(rows)
    found = [
        candidate_of(
            knowledge.quality,
            quality_kind(row.task),
            row.task,
            knowledge.models[row.model],
            row.n_train or SIZE_TYPICAL_N_TRAIN["medium"],
            row.epochs,
            row.folds,
            row.input_size,
        )
        for _, row in best
    ]
    value, index = np.array([value for value, _ in best]), np.array([each.index for each in found])
    a, b = np.triu_indices(len(best), 1)
    differ = value[a] != value[b]
    a, b = a[differ], b[differ]
    if not len(a):
        return np.zeros(0), np.zeros(0)
    own = np.array([each.sd**2 for each in found])
    models = [(each.model, each.family) for each in found]
    apart = knowledge.quality.difference_sds(quality_kind(rows[0].task).table, models)[a, b]
    ahead = probability_better(index[a], index[b], np.sqrt(apart**2 + own[a] + own[b]))
    return np.maximum(ahead, 1.0 - ahead), (value[a] > value[b]) == (ahead >= 0.5)


def _best_runs(rows: Sequence[Any]) -> list[tuple[float, Any]]:
    """(metric, higher is better; run) of each model's best run: by the test metric where two models have
    one, else by validation. Runs without a direction say nothing."""
    sign = {"max": 1.0, "min": -1.0}
    for name in ("test_metric", "metric"):
        best: dict[str, tuple[float, Any]] = {}
        for row in rows:
            value, direction = row.outcome[name], row.outcome["direction"]
            if value is None or direction not in sign or row.outcome["succeeded"] is False:
                continue
            signed = sign[direction] * value
            if row.model not in best or signed > best[row.model][0]:
                best[row.model] = signed, row
        if len(best) > 1:
            return list(best.values())
    return []
