"""Pages of strategies: the tables of R01-R34, which rows plans follow, and one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.tables.policy_rows import with_steering
from memory_service.services.tables.table_rows import get_row, history_of, list_requested

_FILTERED = ("rule", "table", "followed", "grade", "corrected")


def strategies_page(database: Database, knowledge: Knowledge, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"items", "next", "choices"}`; each row with `steers_plans`. choices: filter -> [[value, rows]]."""
    with database.read() as transaction:
        page = list_requested(transaction, "strategies", {"limit": 100, **requested})
        items = with_steering(transaction, page.items)
    counts = {name: Counter(_word(row.get(name)) for row in knowledge.strategies) for name in _FILTERED}
    choices = {name: [[value, n] for value, n in sorted(found.items())] for name, found in counts.items()}
    return {"items": items, "next": page.next, "choices": choices}


def _word(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def strategy_page(database: Database, knowledge: Knowledge, key: str) -> dict[str, Any]:
    """`{"strategy", "beside", "claims", "history"}`; NotFound.

    beside   the other rows of its rule
    claims   what was claimed of the same thing and is named in the row: `[{"id", "statement", "source"}]`
    """
    with database.read() as transaction:
        (row,) = with_steering(transaction, [get_row(transaction, "strategies", key)])
        history = history_of(transaction, "strategies", key)
    named = row["value"].get("claims", ()) if isinstance(row["value"], Mapping) else ()
    known = {str(claim["id"]): claim for claim in knowledge.claims}
    return {
        "strategy": row,
        "beside": [
            {"id": other["id"], "statement": other["statement"], "followed": other["followed"]}
            for other in knowledge.strategies
            if other["rule"] == row["rule"] and other["id"] != key
        ],
        "claims": [
            {
                "id": str(name),
                "statement": known[str(name)]["statement"],
                "source": known[str(name)]["source"],
            }
            for name in named
            if str(name) in known
        ],
        "history": history,
    }
