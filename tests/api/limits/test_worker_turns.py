"""Do callers take turns at the worker threads, and writers at an embedded database?"""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from memory_service.api import fair_share
from memory_service.api.fair_share import WorkerTurns
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import still_wanted


def scope_of(key: str, method: str = "GET", path: str = "/recommend") -> dict[str, Any]:
    state = {"key_id": key, "scopes": {"read"}}
    return {"type": "http", "method": method, "path": path, "headers": [], "state": state}


class Working:
    """An application whose requests go on until they are let go; `running` in the order of their turns."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.let_go: dict[str, asyncio.Event] = {}
        self.names = iter(range(1_000))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            await receive()
        name = f"{scope['state']['key_id']}{next(self.names)}"
        self.let_go[name] = asyncio.Event()
        self.running.append(name)
        await self.let_go[name].wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})


async def nothing(_: Message) -> None:
    """Takes an answer."""


def body(*pieces: bytes) -> Receive:
    waiting = list(pieces)

    async def receive() -> Message:
        if not waiting:
            await asyncio.sleep(3_600)
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    return receive


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_free_turn_goes_to_the_caller_that_holds_fewest():
    async def walk() -> list[str]:
        working = Working()
        turns = WorkerTurns(working, turns=3, of_one_caller=2)
        asked = [asyncio.create_task(turns(scope_of("a"), body(b""), nothing)) for _ in range(6)]
        await settled()
        asked += [asyncio.create_task(turns(scope_of("b"), body(b""), nothing)) for _ in range(2)]
        await settled()
        assert [name[0] for name in working.running] == ["a", "a", "b"], "one caller leaves a turn free"
        while not all(task.done() for task in asked):
            waiting = next(n for n in working.running if not working.let_go[n].is_set())
            working.let_go[waiting].set()
            await settled()
        assert not turns.held
        assert not turns.waiting
        return [name[0] for name in working.running]

    order = asyncio.run(walk())
    assert order.index("b", 3) <= 4, "the second of b does not wait for all of a"
    assert sorted(order) == ["a"] * 6 + ["b"] * 2


def test_a_withheld_body_holds_no_turn_and_a_caller_who_leaves_gives_it_back():
    async def walk() -> None:
        working = Working()
        turns = WorkerTurns(working, turns=1, of_one_caller=1)

        async def withheld() -> Message:
            await asyncio.sleep(3_600)
            raise AssertionError

        silent = asyncio.create_task(turns(scope_of("a", "POST"), withheld, nothing))
        await settled()
        assert not turns.held
        first = asyncio.create_task(turns(scope_of("b", "POST"), body(b"x", b""), nothing))
        await settled()
        first_piece_only = not turns.held
        assert first_piece_only or turns.held == {"b": 1}
        second = asyncio.create_task(turns(scope_of("c"), body(b""), nothing))
        third = asyncio.create_task(turns(scope_of("d"), body(b""), nothing))
        health = asyncio.create_task(turns(scope_of("a", path="/healthz"), body(b""), nothing))
        await settled()
        assert any(name.startswith("a") for name in working.running), "health needs no turn"
        third.cancel()
        await settled()
        assert "d" not in turns.waiting
        for task in (silent, first, second, health):
            task.cancel()
        await asyncio.gather(silent, first, second, third, health, return_exceptions=True)
        assert not turns.held
        assert not turns.waiting

    asyncio.run(walk())


def test_those_that_work_long_hand_their_turns_on(monkeypatch: pytest.MonkeyPatch):
    """Two callers fill all turns with work that does not end; a third is worked on all the same."""
    monkeypatch.setattr(fair_share, "LONG_SECONDS", 0.05)

    async def walk() -> None:
        working, beside = Working(), list[int]()
        turns = WorkerTurns(working, turns=2, of_one_caller=1, long=3, on_long=beside.append)
        asked = [asyncio.create_task(turns(scope_of(key), body(b""), nothing)) for key in "aabb"]
        await settled()
        third = asyncio.create_task(turns(scope_of("c"), body(b""), nothing))
        await settled()
        assert [name[0] for name in working.running] == ["a", "b"]
        await asyncio.sleep(0.2)
        assert [name[0] for name in working.running] == ["a", "b", "c"], "not a second one of a or b"
        assert beside == [1, 2, 3]
        asked += [asyncio.create_task(turns(scope_of(key), body(b""), nothing)) for key in "def"]
        await asyncio.sleep(0.2)
        assert [name[0] for name in working.running[3:]] == ["d", "e", "f"], (
            "one of each caller goes on beside"
        )
        working.let_go[working.running[0]].set()
        await asyncio.sleep(0.2)
        assert working.running[6][0] == "a", "what was worked on of a has ended"
        for task in (*asked, third):
            task.cancel()
        await asyncio.gather(*asked, third, return_exceptions=True)
        assert not turns.held
        assert not turns.beside
        assert not turns.waiting
        assert beside[-1] == 0

    asyncio.run(walk())


def test_where_many_work_long_a_second_one_of_a_caller_keeps_its_turn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fair_share, "LONG_SECONDS", 0.05)

    async def walk() -> None:
        working = Working()
        turns = WorkerTurns(working, turns=2, of_one_caller=2, long=1)
        asked = [asyncio.create_task(turns(scope_of(key), body(b""), nothing)) for key in "aabcd"]
        await asyncio.sleep(0.5)
        assert [name[0] for name in working.running] == [*"aabcd"]
        assert (turns.held, turns.beside) == ({"a": 1}, dict.fromkeys("abcd", 1))
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        assert not turns.beside

    asyncio.run(walk())


def test_some_turns_are_for_callers_of_whom_nothing_is_in_progress():
    async def walk() -> None:
        working = Working()
        turns = WorkerTurns(working, turns=4, of_one_caller=3, for_idle=1)
        asked = [asyncio.create_task(turns(scope_of(key), body(b""), nothing)) for key in "aaabbc"]
        await settled()
        assert [name[0] for name in working.running] == ["a", "a", "a", "b"]
        working.let_go[working.running[0]].set()
        await settled()
        assert [name[0] for name in working.running[4:]] == ["c"], "not a second one of b"
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        assert not turns.held

    asyncio.run(walk())


def test_who_worked_far_more_than_others_begins_where_none_of_them_is_worked_for():
    async def walk() -> None:
        now = [0.0]
        working = Working()
        turns = WorkerTurns(working, turns=4, of_one_caller=3)
        turns.work = fair_share.RecentWork(lambda: now[0])

        async def asked(key: str) -> asyncio.Task[None]:
            task = asyncio.create_task(turns(scope_of(key), body(b""), nothing))
            await settled()
            return task

        def running() -> list[str]:
            return [name[0] for name, event in working.let_go.items() if not event.is_set()]

        async def ended(*names: str) -> None:
            for name, event in working.let_go.items():
                if name[0] in names:
                    event.set()
            await settled()

        tasks = [await asked("a"), await asked("b"), await asked("c")]
        now[0] += 0.3
        await ended("b", "c")  # a third of the core each
        now[0] += 1.5
        await ended("a")
        assert turns.work.is_over("a", {})
        assert not turns.work.is_over("b", {})
        tasks += [await asked("a"), await asked("a")]
        assert running() == ["a"], "one at a time"
        tasks.append(await asked("b"))
        assert sorted(running()) == ["a", "b"]
        await ended("a")
        assert running() == ["b"]
        await ended("b")
        assert running() == ["a"], "nobody else is worked for"
        await ended("a")
        tasks += [await asked("b"), await asked("a")]
        now[0] += 20.0
        turns._look()
        await settled()
        assert sorted(running()) == ["a", "b"], "older work counts no more"
        await ended("a", "b")
        await asyncio.gather(*tasks)
        assert not turns.held

    asyncio.run(walk())


def test_a_long_answer_rests_between_its_pieces_for_others(monkeypatch: pytest.MonkeyPatch):
    async def walk() -> list[float]:
        rested: list[float] = []
        monkeypatch.setattr(fair_share, "sleep", rested.append)
        monkeypatch.setattr(fair_share, "PIECE_SECONDS", -1.0)
        let_go = asyncio.Event()

        async def working(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["state"]["key_id"] == "a":
                still_wanted()
                still_wanted()
                let_go.set()
            await let_go.wait()

        turns = WorkerTurns(working, turns=4, of_one_caller=3)
        await turns(scope_of("a"), body(b""), nothing)
        assert not rested, "nobody else is worked for"
        let_go.clear()
        other = asyncio.create_task(turns(scope_of("b"), body(b""), nothing))
        await settled()
        await turns(scope_of("a"), body(b""), nothing)
        await other
        return rested

    assert len(asyncio.run(walk())) == 2


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(f"sqlite:///{tmp_path / 'turns.sqlite3'}")
    with made.engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE told (n INTEGER)")
    return made


def test_events_wait_for_one_correction_and_not_for_all(database: Database):
    """Four writers queue before the events do; the events go second."""
    order: list[str] = []
    first_holds, go_on = threading.Event(), threading.Event()

    def correct(name: str) -> None:
        with database.write_untracked():
            order.append(name)
            if name == "first":
                first_holds.set()
                go_on.wait(60)

    def report() -> None:
        with database.bulk_write():
            order.append("events")

    threads = [threading.Thread(target=correct, args=("first",))]
    threads[0].start()
    assert first_holds.wait(60)
    for each in (threading.Thread(target=correct, args=(str(n),)) for n in range(3)):
        each.start()
        threads.append(each)
        until_waiting(database, len(threads) - 1)
    threads.append(threading.Thread(target=report))
    threads[-1].start()
    until_waiting(database, 4)
    go_on.set()
    for each in threads:
        each.join(60)
    database.close()
    assert order == ["first", "events", "0", "1", "2"]


def until_waiting(database: Database, number: int) -> None:
    turns = database._writer_turns
    assert turns is not None
    ends = time.monotonic() + 60
    while sum(map(len, turns._waiting.values())) < number:
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_work_that_has_not_ended_counts_among_what_others_took():
    work = fair_share.RecentWork(lambda: 0.0)
    work.add("busy", 0.4)
    work.add("light", 0.01)
    assert work.is_over("busy", {})
    assert not work.is_over("busy", {"long": 8.0})
    assert work.is_over("long", {"long": 8.0})
