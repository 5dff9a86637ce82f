"""A large batch of events is written in parts: it counts as one, and small ones go between its parts."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from memory_service.errors import Unavailable
from memory_service.services.database.transactions import Database
from memory_service.services.runs import telemetry
from memory_service.services.runs.runs import begin_run
from memory_service.store.queries import runs as store
from memory_service.store.session import Statements
from tests.telling import case, epochs, take_events


@pytest.fixture
def run_id(seeded_database: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(telemetry, "LARGE", 4)
    monkeypatch.setattr(telemetry, "PART", 3)
    return str(begin_run(seeded_database, case())[0]["run_id"])


def test_a_batch_in_parts_is_answered_as_one(seeded_database: Database, run_id: str) -> None:
    events = epochs(0.5, 10)
    take_events(seeded_database, run_id, {"events": [events[1], {**events[7], "metric": 0.5}]})
    answer = take_events(seeded_database, run_id, {"events": [*events, events[2]]})
    assert (answer["accepted"], answer["duplicates"], answer["differing"]) == (8, 3, [7])
    assert answer["verdict"] is not None
    again = take_events(seeded_database, run_id, {"events": events})
    assert (again["accepted"], again["duplicates"]) == (0, 10)
    with seeded_database.read() as transaction:
        stored = store.events_of(transaction.session, run_id)
    assert [seq for seq, _, _ in stored] == list(range(10))


def test_small_batches_go_between_the_parts_of_a_large_one(
    seeded_database: Database, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    small = str(begin_run(seeded_database, case())[0]["run_id"])
    written: list[tuple[str, int]] = []
    commit = telemetry._Writer._commit

    def watched(writer: telemetry._Writer, group: Sequence[telemetry.Batch]) -> None:
        if not written:  # the first part is being written: another asks now
            asyncio.run_coroutine_threadsafe(tell_small(), loops[0])
            while writer._waiting.empty():
                pass
        written.extend((batch.run_id, len(batch.events)) for batch in group)
        commit(writer, group)

    async def tell_small() -> dict[str, Any]:
        return await telemetry.take_events(seeded_database, small, {"events": epochs(0.5, 1)})

    async def both() -> None:
        loops.append(asyncio.get_running_loop())
        await telemetry.take_events(seeded_database, run_id, {"events": epochs(0.5, 7)})

    monkeypatch.setattr(telemetry._Writer, "_commit", watched)
    asyncio.run(both())
    assert written == [(run_id, 3), (small, 1), (run_id, 3), (run_id, 1)]


def test_where_a_part_fails_the_rest_is_not_tried_and_nothing_is_acknowledged(
    seeded_database: Database, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = store.add_events
    tried: list[int] = []

    def full(at: Statements, rows: Sequence[store.Event]) -> int:
        tried.append(len(rows))
        if len(tried) == 2:
            raise Unavailable("busy") from sqlite3.OperationalError("database is locked")
        return add(at, rows)

    monkeypatch.setattr(store, "add_events", full)
    with pytest.raises(Unavailable, match="busy"):
        take_events(seeded_database, run_id, {"events": epochs(0.5, 10)})
    assert tried == [3, 3]
    monkeypatch.setattr(store, "add_events", add)
    answer = take_events(seeded_database, run_id, {"events": epochs(0.5, 10)})
    assert (answer["accepted"], answer["duplicates"]) == (7, 3)
