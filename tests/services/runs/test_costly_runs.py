"""What one run reports costs no other run its events, and the service a bounded amount of work; whatever its
figures are, they are acknowledged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.runs import observations, run_log, telemetry
from memory_service.services.runs.outcome_evidence import remember_missing
from memory_service.services.runs.run_log import take_log
from memory_service.services.runs.runs import begin_run, finish_run, run_page
from memory_service.services.runs.summaries import Folding
from tests.telling import at, case, take_events, told


def events(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"seq": first + n, "kind": "gpu", "at": at(30), "used_gib": 5.0} for n in range(count)]


def test_events_of_others_are_kept_where_those_of_one_run_cannot_be_summed(
    seeded_sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, odd = (begin_run(seeded_sqlite, case())[0]["run_id"] for _ in range(2))
    add, began, go = Folding.add, threading.Event(), threading.Event()

    def added(self: Folding, run_id: str, told: Sequence[Any]) -> None:
        if run_id == odd:
            raise TypeError("Integer exceeds 64-bit range")
        add(self, run_id, told)

    known = telemetry._known

    def slowly(database: Database, group: Any) -> Any:
        began.set()
        go.wait(10.0)
        return known(database, group)

    monkeypatch.setattr(Folding, "add", added)
    monkeypatch.setattr(telemetry, "_known", slowly)

    async def report() -> Any:
        first = asyncio.ensure_future(telemetry.take_events(seeded_sqlite, good, {"events": events(1)}))
        await asyncio.to_thread(began.wait, 10.0)
        both = [
            asyncio.ensure_future(
                telemetry.take_events(seeded_sqlite, run_id, {"events": events(1, first=9)})
            )
            for run_id in (odd, good)
        ]
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(first, *both, return_exceptions=True)

    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.extend(asyncio.run(report())))
    thread.start()
    thread.join(60.0)
    first, refused, kept = answers
    assert (first["accepted"], kept["accepted"]) == (1, 1)
    assert isinstance(refused, TypeError)


def test_a_conclusion_reads_so_many_events_and_the_marks(
    seeded_sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observations, "MOST_READ", 20)
    epoch = {"seq": 0, "kind": "epoch", "at": at(60), "fold": 0, "epoch": 0, "seconds": 30.0}
    page = told(seeded_sqlite, case(), [epoch, *events(200, first=1)])
    assert page["outcome"]["epochs_done"] == 1
    assert sum(page["outcome"]["events"].values()) == 21


def test_late_events_of_however_many_runs_are_concluded_from_by_one_thread(
    seeded_sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    began, go, over = threading.Event(), threading.Event(), threading.Event()
    at_work = threading.Lock()

    def conclude(_: Database, of: str) -> None:
        assert at_work.acquire(blocking=False), "two at once"
        began.set()
        go.wait(10.0)
        at_work.release()
        drawn.append(of)
        if of == "c":
            over.set()

    monkeypatch.setattr(observations, "conclude", conclude)
    first = threading.Thread(target=observations.conclude_again, args=(seeded_sqlite, "a"))
    first.start()
    assert began.wait(10.0)
    for late in ("a", "a", "b", "a", "c"):
        observations.conclude_again(seeded_sqlite, late)
    go.set()
    first.join(10.0)
    assert over.wait(10.0)
    assert drawn == ["a", "a", "b", "c"], "each once more for all that came meanwhile"


def test_a_late_log_is_acknowledged_where_nothing_can_be_concluded(
    seeded_sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = told(seeded_sqlite, case(), events(3))["id"]

    def conclude(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(observations, "conclude", conclude)
    if not hasattr(run_log, "conclude_again"):
        monkeypatch.setattr(run_log, "conclude", conclude)
    taken = take_log(seeded_sqlite, run_id, b"Epoch 1/3 loss: 0.5\n")
    assert taken["accepted"] >= 1
    assert take_events(seeded_sqlite, run_id, {"events": events(1, first=50)})["accepted"] == 1
    assert run_page(seeded_sqlite, run_id)["status"] == "completed"


def test_a_run_whose_figures_become_infinite_is_acknowledged_and_concluded(seeded_sqlite: Database) -> None:
    body = case(minutes=5e-324, batch_size=10**9, n_train=10**10, epochs=100_000, folds=50)
    run_id = begin_run(seeded_sqlite, body)[0]["run_id"]
    epoch = {"seq": 0, "kind": "epoch", "at": at(60), "epoch": 1, "train_loss": "nan", "metric": 3.0}
    for seq, kind in enumerate(("fold", "note", "gpu"), 1):
        told = {"events": [{**epoch, "seq": 10 * seq}, {"seq": seq, "kind": kind, "at": at(70 * seq)}]}
        assert take_events(seeded_sqlite, run_id, told)["accepted"] == 2
    assert run_page(seeded_sqlite, run_id)["verdicts"]
    page = finish_run(seeded_sqlite, run_id, {"status": "completed", "at": at(900)})
    assert page["outcome"]["events"]["epoch"] == 3
    assert remember_missing(seeded_sqlite) == 0
