"""Which rows of the strategy tables decide in plans, and which only inform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_service.domain.planning.policy import policy_of
from memory_service.services.database.transactions import ReadTransaction


def with_steering(_: ReadTransaction, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of strategies, each with `steers_plans`: whether a number of it is what plans are made with, so
    that correcting it changes the next plan (`domain.planning.policy`)."""
    return [{**row, "steers_plans": bool(policy_of([row]).steering)} for row in rows]
