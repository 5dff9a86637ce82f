"""What is known here, in short? Counts that the loaded snapshot holds anyway."""

from __future__ import annotations

from typing import Any

from memory_service.services.knowledge import Knowledge

__all__ = ["start_page"]


def start_page(knowledge: Knowledge) -> dict[str, Any]:
    """`{"known": {name: count}, "devices": [...]}`."""
    return {
        "known": {
            "competitions": len(knowledge.competitions),
            "models": len(knowledge.models),
            "gpus": len(knowledge.cards.sheets),
            "strategies": len(knowledge.strategies),
            "patterns": len(knowledge.patterns),
        },
        "devices": sorted(knowledge.cards.devices),
    }
