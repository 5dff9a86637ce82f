"""Scores that ranks reached in the very competition: what is good there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_service.domain.recipe.solution import Solution


def targets_of(record: Mapping[str, Any] | None, solutions: Sequence[Solution]) -> dict[str, Any] | None:
    """{"metric", "direction", "by_rank"} of a known competition; None for others, or where no score is
    known. A neighbour's scores say nothing of another test set."""
    scored = [one for one in solutions if one.private is not None]
    if record is None or not record.get("metric") or not scored:
        return None
    return {
        "metric": record["metric"],
        "direction": record.get("metric_direction"),
        "by_rank": [{"rank": one.rank, "score": one.private, "from": one.id} for one in scored],
    }
