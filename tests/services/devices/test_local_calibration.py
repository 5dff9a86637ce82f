"""A calibration ends in a state that says what happened, whatever happens; what was measured is kept."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import update

from memory_service.domain.calibration.calibration import Fingerprint
from memory_service.errors import Conflict, InvalidInput
from memory_service.services.database.transactions import Database
from memory_service.services.devices import calibrations
from memory_service.services.devices import local_calibration as benchmarks
from memory_service.services.devices.calibrations import get_calibration, settle
from memory_service.services.devices.devices import (
    calibrations_of,
    device_of,
    host_name,
    keep_device,
    look_again,
    registered,
)
from memory_service.services.devices.local_calibration import (
    Begun,
    Calibrating,
    Report,
    Stop,
    Wanted,
    begin,
    carry_out,
)
from memory_service.services.tables import table_rows as catalogue
from memory_service.store.queries import calibrations as store
from memory_service.store.tables import devices as tables

CPU = Fingerprint("cpu", "A processor", "c" * 32, 16.0, "x86", torch="2.15.0", cores=4)
CARD = Fingerprint(
    "cuda", "NVIDIA A100-SXM4-40GB", "GPU-1", 39.6, "ampere", 8.0, power_limit_w=400.0, driver="550.54"
)

SAY = """
import json, sys, time
def say(event, **said):
    print(json.dumps({"event": event, **said}), flush=True)
def section(name, value, unit="us"):
    say("section", name=name, measurement={"value": value, "unit": unit, "p20": value, "p80": value, "n": 5})
"""
LAUNCH = 'section("launch.us", 5.0)\n'
DONE = 'say("end", status="done", why=None, seconds=1.0)\n'

CALLER = """
from memory_service.services.devices.local_calibration import benchmark
for report in benchmark("cpu", "cpu", 60.0):
    print(report.doing, flush=True)
"""

Script = Callable[[str], None]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    """The benchmark's process runs this instead: what a machine cannot have is a CUDA card that crashes."""

    def install(body: str) -> None:
        file = tmp_path / "speaker.py"
        file.write_text(SAY + body)
        monkeypatch.setattr(benchmarks, "command", lambda *_, **__: [sys.executable, str(file)])

    return install


def started(database: Database, budget: float = 600.0, fingerprint: Fingerprint = CPU) -> Begun:
    name = "cpu" if fingerprint.kind == "cpu" else "box-a100"
    return begin(database, Wanted(name, fingerprint, fingerprint.kind, budget))


def test_sections_come_as_they_are_measured_and_only_the_end_is_news(
    seeded_database: Database, script: Script
) -> None:
    script(
        LAUNCH + 'say("progress", done=1, of=4, doing="matmul.fp32", seconds=0.1)\ntime.sleep(1.2)\n' + DONE
    )
    begun = started(seeded_database)
    revision = seeded_database.knowledge_revision()
    seen: list[tuple[float, int]] = []

    def look(report: Report) -> None:
        if report.status == "running" and report.sections:
            time.sleep(0.7)
            now = get_calibration(seeded_database, begun.id)
            seen.append((now["progress"], len(now["sections"])))
            assert seeded_database.knowledge_revision() == revision

    carry_out(seeded_database, begun, on_report=look)
    assert (0.25, 1) in seen
    ended = get_calibration(seeded_database, begun.id)
    assert (ended["status"], ended["progress"], ended["usable"]) == ("done", 1.0, True)
    assert ended["sections"]["launch.us"] == {
        "value": 5.0, "unit": "us", "p20": 5.0, "p80": 5.0, "n": 5, "flagged": False
    }  # fmt: skip
    assert ended["environment"]["torch"] == "2.15.0"
    assert seeded_database.knowledge_revision() == revision + 1


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (LAUNCH + "sys.exit('driver crashed')", "failed", "ended with status 1: driver crashed"),
        (LAUNCH + "import os; os.kill(os.getpid(), 9)", "failed", "killed by signal 9"),
        (LAUNCH + "time.sleep(6000)", "timed_out", "budget of 2 s ended"),
        (LAUNCH + 'say("end", status="failed", why="the card is gone")', "failed", "the card is gone"),
        (LAUNCH + "print('no json'); print('[1]'); print('{}'); " + DONE, "done", None),
    ],
    ids=["exit", "signal", "hang", "said", "babble"],
)
def test_however_it_ends_the_reason_is_said_and_what_was_measured_is_kept(
    seeded_database: Database, script: Script, body: str, status: str, why: str | None
) -> None:
    script(body)
    begun = started(seeded_database, budget=2.0 if status == "timed_out" else 600.0)
    carry_out(seeded_database, begun)
    ended = get_calibration(seeded_database, begun.id)
    assert ended["status"] == status
    assert (why is None and ended["why"] is None) or why in ended["why"]
    assert list(ended["sections"]) == ["launch.us"]
    with seeded_database.read() as unit:
        (kept,) = calibrations_of(unit, registered(unit), store.ended(unit.session))
    assert kept.current, "a calibration that was cut short is usable as far as it went"


def test_nonsense_of_the_benchmark_is_missing_not_stored(seeded_database: Database, script: Script) -> None:
    script(
        'section("launch.us", float("nan"))\nsection("launch.train_us", -1.0)\nsection("no.such", 1.0)\n'
        'section("launch.adamw_us", 3.0, "ms")\n' + DONE
    )
    begun = started(seeded_database)
    carry_out(seeded_database, begun)
    ended = get_calibration(seeded_database, begun.id)
    assert (ended["status"], ended["sections"], ended["usable"]) == ("done", {}, False)
    assert set(ended["missing"]) == {"launch.us", "launch.train_us", "no.such", "launch.adamw_us"}


def test_a_stop_is_the_reason(seeded_database: Database, script: Script) -> None:
    script(LAUNCH + "time.sleep(60)")
    begun, stop = started(seeded_database), Stop()

    def ask(report: Report) -> None:
        if report.sections:
            stop.now("stopped by SIGTERM")

    carry_out(seeded_database, begun, stop=stop, on_report=ask)
    ended = get_calibration(seeded_database, begun.id)
    assert (ended["status"], ended["why"], ended["measured"]) == ("failed", "stopped by SIGTERM", 1)


def test_the_benchmark_ends_when_its_caller_is_gone(tmp_path: Path) -> None:
    """Its standard input is the thread it hangs on: that is what the real one looks at."""
    caller = subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    caller.stdout.readline()
    children = psutil.Process(caller.pid).children(recursive=True)
    assert children
    caller.kill()
    caller.wait()
    caller.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


def test_one_device_is_measured_once_at_a_time_and_another_waits(
    seeded_database: Database, script: Script, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script(
        f"import pathlib\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)\n" + LAUNCH + DONE
    )
    jobs = Calibrating(seeded_database)
    first = jobs.start(Wanted("cpu", CPU, "cpu", 600.0))
    for name in ("cpu", "the-same-by-another-name"):
        with pytest.raises(Conflict, match=first.id):
            jobs.start(Wanted(name, CPU, "cpu", 600.0))
    second = jobs.start(Wanted("box-a100", CARD, "cuda:0", 600.0))
    assert (first.status, second.status) == ("running", "queued")
    time.sleep(0.5)
    assert get_calibration(seeded_database, second.id)["status"] == "queued"
    go.touch()
    _await_end(seeded_database, second.id)
    for each in (first, second):
        assert get_calibration(seeded_database, each.id)["status"] == "done"
    jobs.stop()


def test_of_many_who_begin_at_once_one_may(seeded_database: Database) -> None:
    outcomes: list[str] = []
    start = threading.Barrier(5)

    def work() -> None:
        start.wait()
        try:
            started(seeded_database)
            outcomes.append("began")
        except Conflict as refused:
            outcomes.append(f"refused for its {refused.errors[0].field}")

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["began", *["refused for its device"] * 4]


def test_a_server_that_stops_ends_what_it_runs(seeded_database: Database, script: Script) -> None:
    script(LAUNCH + "time.sleep(60)")
    jobs = Calibrating(seeded_database)
    begun = jobs.start(Wanted("cpu", CPU, "cpu", 600.0))
    while not get_calibration(seeded_database, begun.id)["measured"]:
        time.sleep(0.1)
    jobs.stop()
    ended = get_calibration(seeded_database, begun.id)
    assert (ended["status"], ended["why"], ended["measured"]) == ("failed", "the server was stopped", 1)


def _await_end(database: Database, key: str, seconds: float = 120.0) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while (now := get_calibration(database, key))["status"] not in calibrations.ENDED:
        assert time.monotonic() < until, now
        time.sleep(0.1)
    return now


class TestLostOnes:
    def test_one_whose_process_is_gone_has_failed(self, seeded_database: Database) -> None:
        begun = started(seeded_database)
        with subprocess.Popen([sys.executable, "-c", ""]) as gone:
            gone.wait()
        _set(seeded_database, begun.id, runner=f"{host_name()}/{gone.pid}/1.00")
        assert settle(seeded_database) == 1
        assert settle(seeded_database) == 0
        ended = get_calibration(seeded_database, begun.id)
        assert ended["status"] == "failed"
        assert "process that ran it here is gone" in ended["why"]
        assert started(seeded_database).status == "running", "the device is free again"

    def test_one_that_lives_is_left_alone(self, seeded_database: Database) -> None:
        begun = started(seeded_database)
        _set(seeded_database, begun.id, heartbeat_at=_ago(calibrations.SILENT_SECONDS + 5))
        assert settle(seeded_database) == 0

    def test_one_of_another_host_that_is_silent_has_failed(self, seeded_database: Database) -> None:
        begun = started(seeded_database)
        _set(seeded_database, begun.id, runner="elsewhere/1/1.00")
        assert settle(seeded_database) == 0
        _set(seeded_database, begun.id, heartbeat_at=_ago(calibrations.SILENT_SECONDS + 5))
        assert get_calibration(seeded_database, begun.id)["status"] == "failed"

    def test_one_given_up_goes_on_when_it_speaks_after_all(
        self, seeded_database: Database, script: Script
    ) -> None:
        script(LAUNCH + DONE)
        begun = started(seeded_database)
        _set(seeded_database, begun.id, heartbeat_at=_ago(10_000))
        assert settle(seeded_database) == 1
        carry_out(seeded_database, begun)
        ended = get_calibration(seeded_database, begun.id)
        assert (ended["status"], ended["why"]) == ("done", None)


class TestStaleness:
    def test_another_driver_makes_a_calibration_stale_and_back_again_makes_it_hold(
        self, seeded_database: Database, script: Script
    ) -> None:
        script(LAUNCH + DONE)
        begun = started(seeded_database, fingerprint=CARD)
        carry_out(seeded_database, begun)
        newer = replace(CARD, driver="560.28", power_limit_w=300.0)
        revision = seeded_database.knowledge_revision()
        assert look_again(seeded_database, lambda _: newer, ["cuda:3"]) == ["box-a100"]
        assert seeded_database.knowledge_revision() == revision + 1, "kept answers stood on it"
        shown = get_calibration(seeded_database, begun.id)
        assert shown["stale"] == ["driver was 550.54, is 560.28", "power_limit_w was 400.0, is 300.0"]
        assert (shown["status"], shown["usable"]) == ("done", False)
        with seeded_database.read() as unit:
            (kept,) = calibrations_of(unit, registered(unit), store.ended(unit.session))
            (device,) = store.devices(unit.session)
        assert not kept.current
        assert kept.stale
        assert device.word == "cuda:3", "the card has another number now"
        look_again(seeded_database, lambda _: CARD, ["cuda:0"])
        assert look_again(seeded_database, lambda _: CARD, ["cuda:0"]) == []
        assert get_calibration(seeded_database, begun.id)["usable"]

    def test_a_card_that_is_gone_or_does_not_answer_changes_nothing(
        self, seeded_database: Database, script: Script
    ) -> None:
        started(seeded_database, fingerprint=CARD)

        def broken(word: str) -> Fingerprint:
            raise InvalidInput(f"{word} does not answer")

        assert look_again(seeded_database, broken, ["cuda:0"]) == []
        assert look_again(seeded_database, lambda _: replace(CARD, uuid="GPU-2"), ["cuda:0"]) == []

    def test_one_that_was_done_goes_before_a_newer_one_that_was_cut_short(
        self, seeded_database: Database, script: Script
    ) -> None:
        script(LAUNCH + DONE)
        whole = started(seeded_database)
        carry_out(seeded_database, whole)
        script(LAUNCH + "sys.exit(1)")
        carry_out(seeded_database, started(seeded_database))
        with seeded_database.read() as unit:
            assert [
                kept.calibration.status
                for kept in calibrations_of(unit, registered(unit), store.ended(unit.session))
            ] == ["done", "failed"]


class TestNames:
    def test_a_name_belongs_to_one_device(self, seeded_database: Database) -> None:
        started(seeded_database)
        other = replace(CPU, uuid="d" * 32)
        with pytest.raises(Conflict, match="is registered as A processor"):
            started(seeded_database, fingerprint=other)

    def test_a_device_does_not_take_the_name_of_a_gpu_model(self, seeded_database: Database) -> None:
        taken = {"H100": "h100", "A100": "a100", "Tesla-T4": "t4", "t4-15gb": "t4", "colab-a100": "a100"}
        for name, meant in taken.items():
            with pytest.raises(InvalidInput, match=f"means the GPU model '{meant}'"):
                begin(seeded_database, Wanted(name, CARD, "cuda:0", 5.0))
        assert begin(seeded_database, Wanted("cpu", CPU, "cpu", 5.0)).new, "this host's own processor"

    def test_an_unknown_gpu_model_names_the_nearest_and_what_to_do(self, seeded_database: Database) -> None:
        card = replace(CARD, name="NVIDIA A101-SXM4-40GB")
        with pytest.raises(InvalidInput, match="POST /gpus") as refused:
            started(seeded_database, fingerprint=card)
        assert any(name.startswith("a100") for name in refused.value.errors[0].nearest)
        with seeded_database.read() as unit:
            assert registered(unit) == [], "nothing half written"

    def test_a_slice_is_of_its_card_s_model(self, seeded_database: Database) -> None:
        sliced = replace(CARD, name="NVIDIA A100-SXM4-40GB MIG 3g.20gb", mig="3g.20gb", memory_gib=19.6)
        begin(seeded_database, Wanted("slice", sliced, "cuda:0", 5.0))
        with seeded_database.read() as unit:
            assert [device.gpu for device in registered(unit)] == ["a100"]

    def test_a_gpu_model_with_devices_is_not_deleted(self, seeded_database: Database) -> None:
        started(seeded_database, fingerprint=CARD)
        with pytest.raises(Conflict, match="a100"), seeded_database.write() as unit:
            catalogue.delete_row(unit, "gpus", "a100", who="ada", why="a test")


def _set(database: Database, key: str, **values: Any) -> None:
    with database.write_untracked() as unit:
        unit.session.execute(update(tables.Calibration).where(tables.Calibration.id == key).values(**values))


def _ago(seconds: float) -> dt.datetime:
    return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds)


def test_the_first_that_says_what_a_named_device_is_owns_it(seeded_database: Database) -> None:
    with seeded_database.write() as transaction:
        for who, fingerprint in (("admin", None), ("box", CARD), ("other", CARD)):
            row, _ = keep_device(transaction, "box77", fingerprint, who=who)
        assert device_of(row).told_by == "key box"
