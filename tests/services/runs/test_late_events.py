"""Late events of an ended run cost a share of a core, however many come, and count in the end."""

from __future__ import annotations

from contextvars import copy_context
from pathlib import Path
from time import monotonic, sleep, thread_time

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.runs import late_work, observations


def _concluded(monkeypatch: pytest.MonkeyPatch, long: str) -> list[str]:
    """Runs as they are concluded; one whose name begins so takes 0.05 s, after which its owner rests 50."""
    made: list[str] = []

    def conclude(_: Database, run_id: str) -> None:
        made.append(run_id)
        began = thread_time()
        while run_id.startswith(long) and thread_time() - began < 0.05:
            pass

    monkeypatch.setattr(observations, "conclude", conclude)
    monkeypatch.setattr(late_work, "AHEAD_SECONDS", 0.0)
    monkeypatch.setattr(late_work, "RESTS", 1_000.0)
    return made


def _wait_for(made: list[str], number: int) -> None:
    until = monotonic() + 40.0  # less than a rest
    while len(made) < number and monotonic() < until:
        sleep(0.01)


def test_a_long_conclusion_is_drawn_again_after_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _concluded(monkeypatch, "long")
    with Database(f"sqlite:///{tmp_path}/x.sqlite3") as database:
        for _ in range(10):
            observations.conclude_again(database, "long")
        assert made == ["long"]
        observations.conclude_again(database, "short")
        _wait_for(made, 2)
        assert made == ["long", "short"]
        database.caches.of(observations._Conclusions).rests.clear()
        _wait_for(made, 3)
        sleep(0.5)
        assert made == ["long", "short", "long"]


def test_a_key_that_adds_to_ever_other_runs_rests_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _concluded(monkeypatch, "eve")

    def again(who: str, run_id: str) -> None:
        def ask() -> None:
            ASKER.set(f"key {who}")
            observations.conclude_again(database, run_id)

        copy_context().run(ask)

    with Database(f"sqlite:///{tmp_path}/x.sqlite3") as database:
        for n in range(5):
            again("eve", f"eve {n}")
        again("ada", "ada")
        _wait_for(made, 2)
        sleep(0.5)
        assert made == ["eve 0", "ada"]
