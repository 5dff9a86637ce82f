"""Does the expected quality order the runs of a competition as their metrics did?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from memory_service.domain.common.vocabulary import SIZE_TYPICAL_N_TRAIN
from memory_service.domain.quality.combination import probability_better
from memory_service.domain.quality.quality_model import quality_kind
from memory_service.domain.quality.ranking import Candidate, candidate_of
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.store.queries import outcomes

MOST_RUNS = 2_000


def quality_order(database: Database) -> dict[str, Any]:
    """Pairs of runs of two models on one competition: `{"competitions", "pairs", "right_percent",
    "expected_percent"}`; None where there is no pair.

    right      the run of higher expected quality had the better metric; expected: the mean probability of
               that. The expectation is that of the shipped figures alone: no run of this service is in it.
    """
    knowledge = knowledge_of(database)
    with database.read() as transaction:
        rows = outcomes.with_metric(transaction.session, MOST_RUNS)
    by_competition: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        if row.model in knowledge.models:
            by_competition[row.competition].append(row)
    said: list[float] = []
    right: list[bool] = []
    competitions = 0
    for found in by_competition.values():
        pairs = list(_pairs(knowledge, found))
        competitions += bool(pairs)
        said += [probability for probability, _ in pairs]
        right += [won for _, won in pairs]
    return {
        "competitions": competitions,
        "pairs": len(said),
        "right_percent": round(100.0 * float(np.mean(right)), 1) if said else None,
        "expected_percent": round(100.0 * float(np.mean(said)), 1) if said else None,
    }


def _pairs(knowledge: Knowledge, rows: Sequence[Any]) -> list[tuple[float, bool]]:
    """(probability of the expected winner, whether it won) of each two runs of different models with
    different metrics; test metrics where both have one."""
    found = []
    for one, other in combinations(rows, 2):
        better = _better(one.outcome, other.outcome)
        if one.model == other.model or one.task != other.task or better is None:
            continue
        kind = quality_kind(one.task)
        a, b = (_candidate(knowledge, row) for row in (one, other))
        sd = knowledge.quality.difference_sd(kind.table, (a.model, a.family), (b.model, b.family))
        ahead = float(probability_better(a.index, b.index, float(np.hypot(sd, np.hypot(a.sd, b.sd)))))
        found.append((max(ahead, 1.0 - ahead), better == (ahead >= 0.5)))
    return found


def _better(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool | None:
    """Whether the first outcome is the better one; None where nothing says."""
    if one["direction"] != other["direction"] or one["direction"] not in ("max", "min"):
        return None
    for name in ("test_metric", "metric"):
        a, b = one[name], other[name]
        if a is not None and b is not None and a != b:
            return bool((a > b) == (one["direction"] == "max"))
    return None


def _candidate(knowledge: Knowledge, row: Any) -> Candidate:
    return candidate_of(
        knowledge.quality,
        quality_kind(row.task),
        row.task,
        knowledge.models[row.model],
        row.n_train or SIZE_TYPICAL_N_TRAIN["medium"],
        row.epochs,
        row.folds,
        row.input_size,
    )
