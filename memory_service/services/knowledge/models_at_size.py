"""Models that are worth planning at a size which is none of their usual ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log2
from operator import itemgetter

from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.quality.quality_index import learning_of

SHORTLIST = 48
"""Models considered at a pinned size: the cheapest of their score there and the best scores."""

SMALL_SIZES = (32, 64, 96, 128, 160)
"""Of images, below a model's usual sizes: for few minutes, a processor or tiny images. All models at all of
them would triple the options, for 0.2 index points on average."""

Works = Sequence[tuple[CatalogueModel, float]]
"""Models that accept a size, with what each computes of a pixel or token."""


def cheapest(task: str, models: Works, size: int) -> list[CatalogueModel]:
    """The models whose score at the size no cheaper one reaches."""
    out, least = [], inf
    ranked = sorted(
        ((-_score_at(task, row, size), work, row.name, row) for row, work in models), key=itemgetter(0, 1, 2)
    )
    for _, work, _, row in ranked:
        if work < least:
            out.append(row)
            least = work
    return out


def shortlist(task: str, models: Works, size: int) -> list[CatalogueModel]:
    """The cheapest and the best of the models."""
    best = sorted((row for row, _ in models), key=lambda row: -_score_at(task, row, size))
    names = {row.name: row for row in (*cheapest(task, models, size), *best[: SHORTLIST // 2])}
    return list(names.values())[:SHORTLIST]


def _score_at(task: str, row: CatalogueModel, size: int) -> float:
    below = min(log2(size / row.default_input_size), 0.0)
    lost: float = learning_of(task, row.pretrained, family=row.family).octave_down * below
    return row.quality_score + lost
