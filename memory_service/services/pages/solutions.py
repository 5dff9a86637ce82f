"""Pages of winning solutions: the list, narrowed by what they used, and one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from memory_service.domain.recipe.vocabulary import TECHNIQUES
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.tables.table_rows import get_row, history_of, list_requested


def solutions_page(database: Database, knowledge: Knowledge, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"items", "next", "choices"}`; choices: filter -> [[value, how many of all solutions]], most first."""
    with database.read() as transaction:
        page = list_requested(transaction, "solutions", requested)
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("task", "family", "technique", "basis")}
    for slug, solutions in knowledge.solution_memory.by_competition.items():
        task = knowledge.competitions[slug]["task"]
        for solution in solutions:
            counts["task"].update([task] if task else [])
            counts["family"].update(solution.families)
            counts["technique"].update(solution.techniques)
            counts["basis"].update([solution.basis])
    choices = {name: [[value, n] for value, n in count.most_common()] for name, count in counts.items()}
    return {"items": page.items, "next": page.next, "choices": choices}


def solution_page(database: Database, _: Knowledge, key: str) -> dict[str, Any]:
    """`{"solution", "techniques", "history"}`; techniques: [[name, what is done]]. NotFound."""
    with database.read() as transaction:
        row = get_row(transaction, "solutions", key)
        history = history_of(transaction, "solutions", key)
    told = [[name, TECHNIQUES[name]] for name in row["techniques"] if name in TECHNIQUES]
    return {"solution": row, "techniques": told, "history": history}
