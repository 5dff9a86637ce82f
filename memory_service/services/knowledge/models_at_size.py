"""Models that are worth planning at a size which is none of their usual ones."""

from collections.abc import Sequence
from math import inf
from operator import itemgetter

from memory_service.domain.cost.profile import Work
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.quality.quality_index import from_random_weights, learning_of, size_points

SHORTLIST = 48
"""Models considered at a pinned size: the cheapest of their score there and the best scores."""

SMALL_SIZES = (32, 64, 96, 128, 160)
"""Of images, below a model's usual sizes: for few minutes, a processor or tiny images. All models at all of
them would triple the options, for 0.2 index points on average."""

OPERATIONS_A_BYTE = (0, 100)
"""What computing costs on a processor, and on a card, which computes as much while it reads a byte: networks
that are cheap on one are not on the other."""

IMAGES = 5_000
"""How many are taken where the score from random weights depends on it."""

Works = Sequence[tuple[CatalogueModel, Work]]
"""Models that accept a size, with what each computes and moves of a pixel or token."""


def cheapest(task: str, models: Works, size: int) -> list[CatalogueModel]:
    """The models whose score at the size no cheaper one reaches, on a processor or on a card."""
    out = {}
    for each in OPERATIONS_A_BYTE:
        least = inf
        costs = ((work.flops_per_sample + each * work.bytes_per_sample, row) for row, work in models)
        ranked = sorted(
            ((-_score_at(task, row, size), cost, row.name, row) for cost, row in costs),
            key=itemgetter(0, 1, 2),
        )
        for _, cost, name, row in ranked:
            if cost < least:
                out[name] = row
                least = cost
    return list(out.values())


def shortlist(task: str, models: Works, size: int) -> list[CatalogueModel]:
    """The cheapest and the best of the models."""
    best = sorted((row for row, _ in models), key=lambda row: -_score_at(task, row, size))
    names = {row.name: row for row in (*cheapest(task, models, size), *best[: SHORTLIST // 2])}
    return list(names.values())[:SHORTLIST]


def _score_at(task: str, row: CatalogueModel, size: int) -> float:
    points: float = row.quality_score
    if not row.pretrained and row.input_kind == "image_size":
        points = float(from_random_weights(points, row.params_m, IMAGES))
    ratio = min(size / row.default_input_size, 1.0)
    return points + float(size_points(ratio, learning_of(task, row.pretrained, family=row.family)))
