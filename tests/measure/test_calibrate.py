"""A calibration ends in time, tells what happened, and one broken section costs that section alone.

Real processes and real measurements on this processor, one thread each. Cards are faked where a test says so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from memory_service.domain.calibration.calibration import Fingerprint, Measurement
from memory_service.domain.calibration.probes import probe_of
from memory_service.measure.calibrate import command
from tests.measure.bad_sections import PROBES

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more}


def start(*arguments: str, device: str = "cpu", budget: float = 30.0, **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*command(device, budget), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=environment(**more), cwd=ROOT,
    )  # fmt: skip


def finish(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """All events of a calibration that ends by itself while its stdin stays open."""
    assert process.stdout is not None
    assert process.stdin is not None
    events = [json.loads(text) for text in process.stdout]
    process.wait(PATIENCE)
    process.stdout.close()
    process.stdin.close()
    return events


def until(process: subprocess.Popen[bytes], event: str) -> dict[str, Any]:
    assert process.stdout is not None
    for text in process.stdout:
        found: dict[str, Any] = json.loads(text)
        if found["event"] == event:
            return found
    raise AssertionError(f"it ended without {event}")


def tree(pid: int) -> list[psutil.Process]:
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
    return all(p.status() == psutil.STATUS_ZOMBIE for p in alive)


@pytest.fixture(scope="module")
def survived() -> list[dict[str, Any]]:
    """One run through sections that end badly, then a real one."""
    process = start("--only", "launch", "--with", "tests.measure.bad_sections", budget=PATIENCE)
    return finish(process)


def test_every_bad_end_costs_its_own_section_and_says_why(survived: list[dict[str, Any]]) -> None:
    why = {event["name"]: event["why"] for event in survived if event["event"] == "missing"}
    assert why == {
        "bad.memory": "out of memory",
        "bad.raises": "no such thing on this device",
        "bad.signal": "its process died by SIGSEGV",
        "bad.killed": "its process was killed (SIGKILL): most likely out of memory",
        "bad.exits": "its process ended with exit code 7",
        "bad.hangs": "took longer than its 4.0 s",
    }
    assert "bad.good" in {event["name"] for event in survived if event["event"] == "section"}
    assert survived[-1]["status"] == "done"


def test_a_real_run_yields_sane_positive_numbers_with_their_spread(survived: list[dict[str, Any]]) -> None:
    found = {
        event["name"]: Measurement(**event["measurement"])
        for event in survived
        if event["event"] == "section" and not event["name"].startswith("bad.")
    }
    assert {"launch.us", "launch.train_us", "launch.adamw_us"} == set(found)
    for name, measurement in found.items():
        probe = probe_of("cpu", name)
        assert probe is not None
        assert measurement.unit == probe.unit
        assert 0.0 < measurement.p20 <= measurement.value <= measurement.p80
        assert measurement.n >= 3
        assert measurement.flagged == (measurement.p80 - measurement.p20 > 0.05 * measurement.value)
    assert 0.1 < found["launch.us"].value < 1000.0


def test_events_come_in_order_and_are_counted(survived: list[dict[str, Any]]) -> None:
    kinds = [event["event"] for event in survived]
    assert (kinds[0], kinds[-1]) == ("identity", "end")
    assert Fingerprint.from_dict(survived[0]["fingerprint"]).kind == "cpu"
    progress = [event for event in survived if event["event"] == "progress"]
    assert [event["done"] for event in progress] == sorted(event["done"] for event in progress)
    told = {e["name"] for e in survived if e["event"] in ("section", "missing")}
    assert progress[-1]["done"] == progress[-1]["of"] == len(told)
    assert len(told) > len(PROBES)
    assert survived[-1]["seconds"] <= PATIENCE * 1.1


def test_a_budget_of_one_second_ends_timed_out_with_the_identity() -> None:
    events = finish(start(budget=1))
    assert events[0]["event"] == "identity"
    assert events[-1]["status"] == "timed_out"
    assert "1 s" in events[-1]["why"]
    assert not [event for event in events if event["event"] == "section"]


def test_closing_stdin_ends_it_failed_and_leaves_no_process() -> None:
    process = start("--only", "bad", "--with", "tests.measure.bad_sections")
    until(process, "section")  # bad.good is there: nothing but the hanging section is left
    everyone = tree(process.pid)
    assert len(everyone) >= 2
    assert process.stdin is not None
    process.stdin.close()
    end = until(process, "end")
    assert (end["status"], end["why"]) == ("failed", "whoever asked for it closed the line")
    assert process.wait(PATIENCE) == 130
    assert gone(everyone)
    assert process.stdout is not None
    process.stdout.close()


def test_a_killed_parent_takes_the_calibration_with_it() -> None:
    code = (
        "import subprocess, sys; from memory_service.measure.calibrate import command;"
        "p = subprocess.Popen([*command('cpu', 60), '--only', 'bad', '--with', 'tests.measure.bad_sections'],"
        " stdin=subprocess.PIPE); print(p.pid, flush=True); p.wait()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment(), cwd=ROOT
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    until(parent, "identity")
    deadline = time.monotonic() + PATIENCE
    while len(everyone := tree(pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(everyone) == 2  # the runner and the process of the sections, which imports torch
    parent.kill()
    parent.wait()
    assert gone(everyone)
    parent.stdout.close()


def test_a_calibration_whose_driver_hangs_ends_with_its_killed_parent() -> None:
    hung = (
        "import time; from memory_service.measure.calibrate import runner;"
        "runner.identify = lambda _: time.sleep(600); runner.run('cpu', 60)"
    )
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]], "
        "stdin=subprocess.PIPE); print(p.pid, flush=True); p.wait()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, hung], stdout=subprocess.PIPE, env=environment(), cwd=ROOT
    )
    assert parent.stdout is not None
    everyone = [psutil.Process(int(parent.stdout.readline()))]
    time.sleep(4.0)
    assert everyone[0].is_running()
    parent.kill()
    parent.wait()
    assert gone(everyone)
    parent.stdout.close()


def test_a_killed_runner_takes_its_children_with_it() -> None:
    process = start("--only", "bad", "--with", "tests.measure.bad_sections")
    until(process, "section")
    everyone = tree(process.pid)
    process.kill()
    process.wait()
    assert gone(everyone)
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.close()
    process.stdin.close()


def test_terminating_it_says_so() -> None:
    process = start()
    until(process, "identity")
    process.send_signal(signal.SIGTERM)
    assert finish(process)[-1]["why"] == "stopped by SIGTERM"
    assert process.returncode == 130


def test_an_unknown_device_and_one_that_is_not_there_fail_with_their_reason() -> None:
    events = finish(start(device="tpu"))
    assert [event["event"] for event in events] == ["end"]
    assert "Unknown device 'tpu'" in events[0]["why"]
    events = finish(start(device="cuda:0", CUDA_VISIBLE_DEVICES=""))
    assert [event["event"] for event in events] == ["end"]
    assert events[0]["status"] == "failed"


@pytest.fixture
def faked(tmp_path: Path) -> str:
    """A PYTHONPATH whose `pynvml` replays an H200 with 60 000 MiB in use by pid 1."""
    (tmp_path / "pynvml.py").write_text(
        "import sys\nfrom dataclasses import replace\nfrom tests.measure import nvml_answers as told\n"
        "card = replace(told.H200, used_mib=60_000, processes=[(1, 59_000)])\n"
        "sys.modules[__name__] = told.module([card])\n",
        encoding="utf-8",
    )
    return f"{tmp_path}{os.pathsep}{ROOT}"


def test_a_busy_card_is_refused_with_the_process_list(faked: str) -> None:
    process = start(device="cuda:0", PYTHONPATH=faked)
    events = finish(process)
    assert [event["event"] for event in events] == ["identity", "end"]
    assert "42% of its memory" in events[-1]["why"]
    assert "pid 1" in events[-1]["why"]
    assert "--force" in events[-1]["why"]
    assert process.returncode == 1


def test_force_goes_on_and_marks_it_contended(faked: str) -> None:
    """The faked card cannot compute: every figure is missing with torch's own reason."""
    events = finish(start("--force", "--only", "launch", device="cuda:0", PYTHONPATH=faked))
    kinds = [event["event"] for event in events]
    assert kinds.count("missing") == 3
    assert "contended" in kinds
    assert events[-1]["status"] == "failed"
    assert events[-1]["why"].startswith("nothing could be measured: ")
