"""Work in a child process: what it costs hurts nobody else, and the next call gets a new child."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from memory_service.child_processes import TooCostly, Workers
from memory_service.errors import InvalidInput, Unavailable, wrong_value


def few(seconds: float = 60.0, processes: int = 1, waiting: int = 0) -> Workers:
    return Workers("a sum", processes=processes, waiting=waiting, seconds=seconds, mib=512)


def test_a_child_stays_for_the_next_call_and_raises_what_it_raised():
    workers = few()
    child = workers.run(os.getpid)
    assert child != os.getpid()
    with pytest.raises(InvalidInput, match="n must be a number") as refused:
        workers.run(_refuse)
    assert refused.value.errors[0].field == "n"
    assert workers.run(os.getpid) == child


def test_one_that_takes_too_long_is_killed():
    workers = few(seconds=20.0)
    child = workers.run(os.getpid)
    workers.seconds = 0.2
    with pytest.raises(TooCostly, match=r"over 0\.2 s"):
        workers.run(time.sleep, 600)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    workers.seconds = 60.0
    assert workers.run(os.getpid) != child


def test_one_that_takes_too_much_memory_or_dies_ends_alone():
    workers = few()
    with pytest.raises(TooCostly, match="memory"):
        workers.run(bytearray, 2**30)
    with pytest.raises(TooCostly, match="memory"):
        workers.run(os._exit, 3)
    assert workers.run(len, "abc") == 3


def test_a_child_that_ended_while_it_was_idle_is_replaced():
    workers = few()
    child = workers.run(os.getpid)
    os.kill(child, 9)
    while _runs(child):
        time.sleep(0.01)
    assert workers.run(os.getpid) != child


def test_who_comes_when_too_many_wait_is_told_so_at_once():
    workers = few()
    workers.run(len, "")
    asleep = threading.Thread(target=lambda: workers.run(time.sleep, 3))
    asleep.start()
    while workers._idle:
        time.sleep(0.001)
    with pytest.raises(Unavailable, match="too many wait for a sum"):
        workers.run(len, "")
    asleep.join()
    assert workers.run(len, "ab") == 2


def test_one_caller_who_fills_the_children_and_the_queue_leaves_others_one_of_each(tmp_path: Path):
    """Its calls are done one at a time; those of others go between, and none is refused."""
    of_thread = threading.local()
    workers = Workers("a sum", processes=2, waiting=4, seconds=60.0, mib=512, caller=lambda: of_thread.name)
    refused, done = list[str](), list[str]()

    def call(name: str, after: Path) -> None:
        of_thread.name = name
        try:
            workers.run(_wait_for, str(after))
            done.append(name)
        except Unavailable:
            refused.append(name)

    hostile = [threading.Thread(target=call, args=("hostile", tmp_path / "go")) for _ in range(6)]
    for each in hostile:
        each.start()
    while len(refused) < 3:  # one works, two wait
        time.sleep(0.001)
    for _ in range(3):
        call("other", tmp_path)
    assert done == ["other"] * 3
    (tmp_path / "go").touch()
    for each in hostile:
        each.join()
    assert refused == ["hostile"] * 3
    assert done == ["other"] * 3 + ["hostile"] * 3


def test_two_callers_who_fill_everything_leave_a_third_the_next_child(tmp_path: Path):
    of_thread = threading.local()
    workers = Workers("a sum", processes=2, waiting=4, seconds=60.0, mib=512, caller=lambda: of_thread.name)
    done = list[str]()

    def call(name: str, after: Path) -> None:
        of_thread.name = name
        workers.run(_wait_for, str(after))
        done.append(name)

    names = ("one", "two", "one", "two", "one", "two", "third")
    calls = []
    for place, name in enumerate(names):
        calls.append(threading.Thread(target=call, args=(name, tmp_path / "go")))
        calls[-1].start()
        while len(workers._working) + len(workers._waiting) <= place:
            time.sleep(0.001)
    (tmp_path / "go").touch()
    for each in calls:
        each.join()
    assert "third" in done[:3], "before the second turn of those who came earlier"


def _wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


def _refuse() -> None:
    raise wrong_value("n", "must be a number", "x")


def _runs(child: int) -> bool:
    try:
        return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
