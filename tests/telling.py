"""A run as tests tell it: what it begins with, its events, and telling all of it to the services."""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.runs import telemetry
from memory_service.services.runs.runs import begin_run, finish_run

START = "2026-03-01T12:00:00Z"
CASE: dict[str, Any] = {
    "task": "image",
    "gpu": "a100",
    "model": "resnet50",
    "batch_size": 128,
    "precision": "bf16",
    "folds": 5,
    "epochs": 4,
    "n_train": 40_000,
    "minutes": 30,
    "started_at": START,
}
"""An epoch trains on 32 000 samples: 250 steps."""

STEPS = 250


def case(**changed: Any) -> dict[str, Any]:
    """A run with an id of its own; a field given as None is left out."""
    body = {"run_id": str(uuid.uuid4()), **CASE, **changed}
    return {name: value for name, value in body.items() if value is not None}


def at(seconds: float) -> str:
    """A moment of the run, in its own time."""
    return f"2026-03-01T12:{int(seconds) // 60:02d}:{int(seconds) % 60:02d}Z"


def epochs(step_seconds: float, count: int = 4, **fields: Any) -> list[dict[str, Any]]:
    """Events of `count` epochs, of which the first takes half as long again."""
    took = [STEPS * step_seconds * (1.5 if n == 0 else 1.0) for n in range(count)]
    return [
        {"seq": n, "kind": "epoch", "at": at(60 * n), "fold": 0, "epoch": n, "seconds": s, **fields}
        for n, s in enumerate(took)
    ]


def take_events(database: Database, run_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """`telemetry.take_events`, waited for."""
    with ThreadPoolExecutor(1) as thread:  # a browser test has an event loop of its own in this one
        telling = telemetry.take_events(database, run_id, body)
        return thread.submit(copy_context().run, asyncio.run, telling).result()


def told(
    database: Database,
    body: dict[str, Any],
    events: list[dict[str, Any]],
    status: str = "completed",
    **end: Any,
) -> dict[str, Any]:
    """Begin, tell and end a run; its page."""
    begun, _ = begin_run(database, body)
    if events:
        take_events(database, begun["run_id"], {"events": events})
    return finish_run(database, begun["run_id"], {"status": status, "at": at(600), **end})
