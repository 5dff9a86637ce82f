"""Late events of an ended run cost a share of a core, however many come, and count in the end."""

from __future__ import annotations

from contextvars import copy_context
from pathlib import Path
from time import monotonic, sleep, thread_time

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.runs import late_work, observations


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
    monkeypatch.setattr(late_work, "AHEAD_SECONDS", 0.0)
    monkeypatch.setattr(late_work, "RESTS", 100.0)
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


def test_a_key_that_adds_to_ever_other_runs_rests_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def conclude(_: Database, run_id: str) -> None:
        made.append(run_id)
        began = thread_time()
        while run_id.startswith("eve") and thread_time() - began < 0.05:
            pass

    def again(who: str, run_id: str) -> None:
        def ask() -> None:
            ASKER.set(f"key {who}")
            observations.conclude_again(database, run_id)

        copy_context().run(ask)

    monkeypatch.setattr(observations, "conclude", conclude)
    monkeypatch.setattr(late_work, "AHEAD_SECONDS", 0.0)
    monkeypatch.setattr(late_work, "RESTS", 1_000.0)
    with Database(f"sqlite:///{tmp_path}/x.sqlite3") as database:
        for n in range(5):
            again("eve", f"eve {n}")
        again("ada", "ada")
        assert _within(20.0, made, 2)
        sleep(0.5)
        assert made == ["eve 0", "ada"]
