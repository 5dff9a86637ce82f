"""The solutions of a competition in short."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from memory_service.services.database.transactions import ReadTransaction
from memory_service.store.queries.rows import column
from memory_service.store.tables.knowledge import Solution

_SHOWN = (
    "id", "rank", "url", "basis", "families", "validation", "techniques", "score", "what_mattered",
)  # fmt: skip


def solutions_of(transaction: ReadTransaction, slug: str) -> list[dict[str, Any]]:
    """What is told of its solutions, best rank first."""
    query = select(*(column(Solution, name) for name in _SHOWN))
    query = query.where(Solution.competition == slug).order_by(Solution.rank)
    return [dict(zip(_SHOWN, row, strict=True)) for row in transaction.session.execute(query)]
