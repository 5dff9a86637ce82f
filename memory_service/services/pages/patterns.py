"""Pages of patterns: what worked, where it was followed, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from memory_service.domain.runs.pattern_effect import Tally
from memory_service.errors import nothing_named
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.outcomes import with_tallies
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.tables.table_rows import get_row, history_of, list_requested

_FILTERED = ("task", "kind", "scope", "size")


def patterns_page(database: Database, knowledge: Knowledge, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"items", "next", "choices"}`: each row with `outcomes`, its tally."""
    with database.read() as transaction:
        page = list_requested(transaction, "patterns", requested)
        items = with_tallies(transaction, page.items)
    counts = {name: Counter(row[name] for row in knowledge.patterns if row[name]) for name in _FILTERED}
    choices = {name: [[value, n] for value, n in count.most_common()] for name, count in counts.items()}
    return {"items": items, "next": page.next, "choices": choices}


def pattern_page(database: Database, knowledge: Knowledge, key: str) -> dict[str, Any]:
    """`{"pattern", "outcomes", "places", "beside", "history"}`; NotFound with the nearest ids.

    outcomes   the tally of all places, in words and figures
    places     the same by competition or kind of task, the most followed first
    beside     other patterns of the same competition, or of the same task and size
    """
    ids = [row["id"] for row in knowledge.patterns]
    if key not in ids:
        raise nothing_named("pattern", key, ids)
    with database.read() as transaction:
        row = get_row(transaction, "patterns", key)
        (reported,) = with_tallies(transaction, [row])
        history = history_of(transaction, "patterns", key)
    places = knowledge.tallies.get(f"pattern:{key}", {})
    return {
        "pattern": row,
        "outcomes": reported["outcomes"],
        "places": [_place(name, tally) for name, tally in sorted(places.items(), key=_most_followed)],
        "beside": [
            {"id": other["id"], "kind": other["kind"], "statement": other["statement"]}
            for other in knowledge.patterns
            if other["id"] != key and _same_place(other, row)
        ],
        "history": history,
    }


def _place(name: str, tally: Tally) -> dict[str, Any]:
    what, _, key = name.partition(":")
    return {"place": key, "competition": key if what == "competition" else None, **tally.as_dict()}


def _most_followed(item: tuple[str, Tally]) -> tuple[int, str]:
    return -item[1].followed, item[0]


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if other["competition"]:
        return bool(one["competition"] == other["competition"])
    return not one["competition"] and (one["task"], one["size"]) == (other["task"], other["size"])
