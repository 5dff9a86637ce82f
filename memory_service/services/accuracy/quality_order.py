"""Does the expected quality order the models that were run on a competition as their metrics did?"""

from typing import Any

import numpy as np

from memory_service.domain.quality.quality_model import QualityModel
from memory_service.domain.quality.ranking import probability_better
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.own_runs import ComparedRuns, compared_runs
from memory_service.services.knowledge.snapshot import knowledge_of
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
    compared = compared_runs(knowledge.models, knowledge.quality, rows)
    pairs = [_pairs(knowledge.quality, each) for each in compared]
    said = np.concatenate([probability for probability, _ in pairs] or [np.zeros(0)])
    right = np.concatenate([won for _, won in pairs] or [np.zeros(0)])
    return {
        "competitions": sum(len(won) > 0 for _, won in pairs),
        "pairs": len(said),
        "right_percent": round(100.0 * float(right.mean()), 1) if len(said) else None,
        "expected_percent": round(100.0 * float(said.mean()), 1) if len(said) else None,
    }


def _pairs(quality: QualityModel, compared: ComparedRuns) -> tuple[Any, Any]:
    """(probability of the expected winner, whether it won) of each two models with different metrics."""
    value = np.array([run.signed for run in compared.best])
    index = np.array([each.index for each in compared.candidates])
    a, b = np.triu_indices(len(value), 1)
    differ = value[a] != value[b]
    a, b = a[differ], b[differ]
    own = np.array([each.sd**2 for each in compared.candidates])
    models = [(each.model, each.family) for each in compared.candidates]
    apart = quality.difference_sds(compared.table, models)[a, b]
    ahead = probability_better(index[a], index[b], np.sqrt(apart**2 + own[a] + own[b]))
    return np.maximum(ahead, 1.0 - ahead), (value[a] > value[b]) == (ahead >= 0.5)
