"""Late events of an ended run cost a share of a core, however many come, and count in the end."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep, thread_time

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.runs import observations


def _within(seconds: float, made: list[str], number: int) -> bool:
    until = monotonic() + seconds
    while len(made) < number and monotonic() < until:
        sleep(0.01)
    return len(made) >= number


def test_a_long_conclusion_is_drawn_again_after_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def conclude(_: Database, run_id: str) -> None:
        made.append(run_id)
        began = thread_time()
        while run_id == "long" and thread_time() - began < 0.05:
            pass

    monkeypatch.setattr(observations, "conclude", conclude)
    monkeypatch.setattr(observations, "LONG_SECONDS", 0.04)
    monkeypatch.setattr(observations, "RESTS", 100.0)
    with Database(f"sqlite:///{tmp_path}/x.sqlite3") as database:
        for _ in range(10):
            observations.conclude_again(database, "long")
        assert made == ["long"]
        observations.conclude_again(database, "short")
        assert _within(4.0, made, 2)
        assert made == ["long", "short"]
        assert _within(60.0, made, 3)
        assert made == ["long", "short", "long"]
        sleep(0.5)
        assert len(made) == 3
