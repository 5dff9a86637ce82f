"""Quality against budget: the best plan for each budget, and each model's best."""

from typing import Any

import numpy as np

from memory_service.domain.planning.candidates import Candidate, CandidateSets
from memory_service.domain.planning.plan_search import evenly, front

MOST_POINTS = 80
MOST_MODELS = 60


def best_by_budget(all_sets: CandidateSets) -> list[dict[str, Any]]:
    """The plans that no cheaper plan equals in expected quality, by rising minutes.

    Each `{"model", input size, "batch_size", "folds", "epochs", "minutes", "quality_index"}`; `minutes` is
    the smallest budget that holds the plan (p90 and reserve included). At most `MOST_POINTS`, evenly over the
    quality they reach; empty when no plan fits the memory of the cards.
    """
    minutes, quality = all_sets.flat("minutes"), all_sets.flat("quality")
    able = np.flatnonzero(np.isfinite(minutes))
    shown = evenly(able[front(minutes[able], quality[able], 1e-9)], MOST_POINTS)
    return [_point(all_sets.at(int(place))) for place in shown]


def best_of_models(all_sets: CandidateSets, minutes: float) -> list[dict[str, Any]]:
    """Of each model that `minutes` allow the plan of best expected quality (the cheaper on ties), best first;
    points as of `best_by_budget`."""
    best: dict[str, tuple[float, float, int]] = {}
    before = 0
    for candidates in all_sets.sets:
        options = candidates.table.options
        if not options:
            continue
        needed = candidates.grid.minutes.reshape(len(options), -1)
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
    return [_point(all_sets.at(place)) for _, _, place in ranked]


def _point(candidate: Candidate) -> dict[str, Any]:
    return {
        "model": candidate.option.model.name,
        candidate.option.model.input_kind: candidate.option.input_size,
        "batch_size": candidate.batch_size,
        "folds": candidate.folds,
        "epochs": candidate.epochs,
        "minutes": round(candidate.minutes, 3),
        "quality_index": round(candidate.quality, 3),
    }
