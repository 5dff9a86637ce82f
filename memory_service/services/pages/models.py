"""Pages of models: the catalogue, and one model with its costs by input size and its claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from memory_service.errors import FieldError, NotFound, unknown_name
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.tables.table_rows import get_row, history_of, list_requested, list_rows

_MOST_PROFILES = 200
_USUAL = ("t4", "p100", "v100", "l4", "a10g", "rtx3090", "rtx4090", "a100", "a100-80gb", "h100")


def models_page(database: Database, knowledge: Knowledge, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"items", "next", "choices"}`; `choices`: filter -> values in use, the most frequent first."""
    with database.read() as transaction:
        page = list_requested(transaction, "models", requested)
    models = knowledge.models.values()
    choices: dict[str, Counter[str]] = {
        "task": Counter(task for model in models for task in model.tasks),
        "library": Counter(model.library for model in models),
        "family": Counter(model.family for model in models),
        "device": Counter(model.device for model in models),
    }
    return {
        "items": page.items,
        "next": page.next,
        "choices": {name: [[key, n] for key, n in count.most_common()] for name, count in choices.items()},
    }


def model_page(database: Database, knowledge: Knowledge, name: str) -> dict[str, Any]:
    """`{"model", "profiles", "claims", "history", "cards", "usual_cards"}`; NotFound with the nearest names.

    profiles   what a sample costs by input size and precision, ascending
    claims     rows of claims about the model, whatever the spelling
    """
    if name not in knowledge.models:
        near = unknown_name("model", name, tuple(knowledge.models)).errors[0].nearest
        hint = f"; nearest: {', '.join(near)}" if near else ""
        refused = [FieldError("model", "unknown model", name[:200], near)]
        raise NotFound(f"There is no model {name[:200]!r}{hint}", refused)
    with database.read() as transaction:
        row = get_row(transaction, "models", name)
        profiles = list_rows(transaction, "sizing", {"model": name}, "input_size", _MOST_PROFILES).items
        history = history_of(transaction, "models", name)
    return {
        "model": row,
        "profiles": profiles,
        "claims": [dict(claim) for claim, _, model in knowledge.located_claims if model == name],
        "usual_cards": [
            *knowledge.cards.devices,
            *(slug for slug in _USUAL if slug in knowledge.cards.sheets),
        ],
        "cards": sorted(knowledge.gpus),
        "history": history,
    }
