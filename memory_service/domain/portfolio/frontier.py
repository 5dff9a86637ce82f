"""Quality against budget: the best plan for each budget, and each model's best."""

from typing import Any

import numpy as np

from memory_service.domain.planning.candidates import CandidateSet, CandidateSets

MOST_POINTS = 80
MOST_MODELS = 60


def best_by_budget(all_sets: CandidateSets) -> list[dict[str, Any]]:
    """The plans that no cheaper plan equals in expected quality, by rising minutes.

    Each `{"model", input size, "batch_size", "folds", "epochs", "minutes", "quality_index"}`; `minutes` is
    the smallest budget that holds the plan (p90 and reserve included). At most `MOST_POINTS`, evenly over the
    quality they reach; empty when no plan fits the memory of the cards.
    """
    found: list[tuple[float, float, int, int]] = []
    for candidate_set, candidates in enumerate(all_sets.sets):
        minutes, quality = candidates.grid.minutes.ravel(), candidates.grid.quality.ravel()
        flat = np.flatnonzero(np.isfinite(minutes))
        order = flat[np.argsort(minutes[flat])]
        best = np.maximum.accumulate(quality[order]) if len(order) else quality[order]
        rises = np.flatnonzero(np.diff(best, prepend=-np.inf) > 0)
        found += [(float(minutes[i]), float(quality[i]), candidate_set, int(i)) for i in order[rises]]
    found.sort(key=lambda point: (point[0], -point[1]))
    front: list[tuple[float, float, int, int]] = []
    for point in found:
        if not front or point[1] > front[-1][1] + 1e-9:
            front.append(point)
    if len(front) > MOST_POINTS:
        shown = np.unique(np.linspace(0, len(front) - 1, MOST_POINTS).round().astype(int))
        front = [front[i] for i in shown]
    return [_point(all_sets.sets[candidate_set], flat) for _, _, candidate_set, flat in front]


def best_of_models(all_sets: CandidateSets, minutes: float) -> list[dict[str, Any]]:
    """Of each model that `minutes` allow the plan of best expected quality (the cheaper on ties), best first;
    points as of `best_by_budget`."""
    best: dict[str, tuple[float, float, int, int]] = {}
    for candidate_set, candidates in enumerate(all_sets.sets):
        options = candidates.table.options
        if not options:
            continue
        needed = candidates.grid.minutes.reshape(len(options), -1)
        quality = np.where(needed <= minutes, candidates.grid.quality.reshape(needed.shape), -np.inf)
        most = quality.max(axis=1)
        columns = np.where(quality >= most[:, None] - 1e-9, needed, np.inf).argmin(axis=1)
        for row in np.flatnonzero(np.isfinite(most)):
            name, flat = options[row].model.name, int(row) * needed.shape[1] + int(columns[row])
            place = row, columns[row]
            point = (float(quality[place]), -float(needed[place]), candidate_set, flat)
            if name not in best or point > best[name]:
                best[name] = point
    ranked = sorted(best.values(), reverse=True)[:MOST_MODELS]
    return [_point(all_sets.sets[candidate_set], flat) for _, _, candidate_set, flat in ranked]


def _point(candidates: CandidateSet, flat: int) -> dict[str, Any]:
    grid = candidates.grid
    row, epoch, fold = (int(i) for i in np.unravel_index(flat, grid.minutes.shape))
    option = candidates.table.options[row]
    return {
        "model": option.model.name,
        option.model.input_kind: option.input_size,
        "batch_size": int(grid.batches.batch_size[row]),
        "folds": int(grid.folds[fold]),
        "epochs": int(grid.epochs[epoch]),
        "minutes": round(float(grid.minutes[row, epoch, fold]), 3),
        "quality_index": round(float(grid.quality[row, epoch, fold]), 3),
    }
