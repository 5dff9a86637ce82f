"""Does `memory-service watch` tell of a training that knows nothing of it, and end as that ended?"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client.conftest import Scripted, Service, spools

TRAIN = """
import sys, time
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(1000, 20)
y = (x[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
best = torch.optim.AdamW(net.parameters(), 1e-2)
print("RESOURCES: 2 CPU cores, batch=50, GPU=none, Mixed Precision=OFF")
for epoch in range(1, 6):
    began = time.time()
    for at in range(0, 1000, 50):
        loss = nn.functional.cross_entropy(net(x[at : at + 50]), y[at : at + 50])
        best.zero_grad(); loss.backward(); best.step()
    time.sleep(0.3)
    accuracy = (net(x).argmax(1) == y).float().mean().item()
    print(f"Epoch {epoch}/5 loss={loss.item():.4f} val_acc={accuracy:.4f} time={time.time() - began:.3f}s")
print("a line that nobody understands", file=sys.stderr)
"""


def watch(tmp_path: Path, url: str, script: str, *options: str, **more: Any) -> subprocess.Popen[str]:
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, "-m", "memory_service", "watch", str(tmp_path / "train.log"), *options,
               "--server", url, "--", sys.executable, str(tmp_path / "train.py")]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_a_training_that_is_launched_untouched_is_told_of(service: Service, tmp_path: Path, home: Path):
    before = time.time()
    options = ("--task", "tabular", "--n-train", "1000", "--epochs", "5")
    with watch(tmp_path, service.url, TRAIN, *options) as done:
        shown, said = done.communicate(timeout=120)
    assert done.returncode == 0, said
    assert shown == (tmp_path / "train.log").read_text(), "the output passes through and is in the log"
    assert shown.count("Epoch") == 5
    (run_id,) = [word for word in said.split() if word.count("-") == 4]
    page = service.page(run_id)
    assert page["status"] == "completed"
    assert (page["gpu"], page["task"]) == ("cpu", "tabular-classification")
    told = page["outcome"]["epochs"]
    assert [row["epoch"] for row in told] == [1, 2, 3, 4, 5]
    printed = [line.split("time=")[1][:5] for line in shown.splitlines() if "time=" in line]
    assert [row["seconds"] for row in told] == [float(text) for text in printed]
    assert all(row["batch_size"] == 50 for row in told)
    assert told[-1]["metric"] > 0.9
    assert page["verdict"]["action"] == "continue", page["verdict"]
    assert page["watch"]["position"]["epochs"] == 5
    assert page["watch"]["position"]["epochs_done"] == 5
    assert told[-1]["train_loss"] < told[0]["train_loss"]
    events = service.events(run_id)
    samples = [event for event in events if event["kind"] == "gpu"]
    assert samples
    assert max(event["host_gib"] for event in samples) > 0.05
    assert any("nobody understands" in event.get("text", "") for event in events)
    assert 0 < page["outcome"]["last_event_after_seconds"] < time.time() - before
    assert spools(home) == []


def test_the_exit_code_is_the_trainings_and_the_end_is_read_off_it(scripted: Scripted, tmp_path: Path):
    oom = "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')"
    for script, code, status in (
        ("import sys; sys.exit(3)", 3, "crashed"),
        (oom, 1, "out_of_memory"),
        (
            f"try:\n    {oom}\nexcept RuntimeError as e:\n    print(e)\nprint('batch_size=16 it is')",
            0,
            "completed",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + 9, "crashed"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 128 + 15, "stopped"),
    ):
        with watch(tmp_path, scripted.url, script, "--json") as done:
            shown, said = done.communicate(timeout=120)
        assert done.returncode == code, said
        assert scripted.ends[-1]["status"] == status
        answer = json.loads(shown)
        assert (answer["status"], answer["exit_code"]) == (status, code)
    assert {body["model"] for body in scripted.begun.values()} == {"custom"}


def test_a_signal_reaches_the_training_and_what_it_does_about_it_counts(scripted: Scripted, tmp_path: Path):
    script = """
import signal, sys, time
def end(*_):
    print("Epoch 9: loss=0.1 after the signal"); sys.exit(7)
signal.signal(signal.SIGTERM, end)
print("ready")
time.sleep(60)
"""
    with watch(tmp_path, scripted.url, script) as done:
        assert done.stdout is not None
        assert done.stdout.readline() == "ready\n"
        done.terminate()
        assert done.wait(120) == 7
    assert [e["epoch"] for e in scripted.events.values() if e["kind"] == "epoch"] == [9]
    assert scripted.ends[0]["status"] == "crashed"


def test_a_training_goes_on_when_its_watcher_is_killed(scripted: Scripted, tmp_path: Path):
    script = "import time\nfor n in range(15):\n    print('step', n)\n    time.sleep(0.1)\nprint('all done')"
    with watch(tmp_path, scripted.url, script) as done:
        assert done.stdout is not None
        done.stdout.readline()
        os.kill(done.pid, signal.SIGKILL)
        done.wait(60)
    until = time.monotonic() + 60
    while "all done" not in (tmp_path / "train.log").read_text():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_an_output_that_nobody_reads_any_more_changes_nothing(scripted: Scripted, tmp_path: Path):
    script = (
        "import time\nfor n in range(10):\n    print('line', n)\n    time.sleep(0.1)\nraise SystemExit(5)"
    )
    with watch(tmp_path, scripted.url, script) as done:
        assert done.stdout is not None
        done.stdout.readline()
        done.stdout.close()
        assert done.wait(60) == 5
    assert "line 9" in (tmp_path / "train.log").read_text()
    assert scripted.ends[0]["status"] == "crashed"


def test_a_command_that_does_not_exist_is_said_as_a_shell_says_it(scripted: Scripted, tmp_path: Path):
    command = [sys.executable, "-m", "memory_service", "watch", str(tmp_path / "x.log"), "--server",
               scripted.url, "--", "no-such-program"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 127
    assert "no-such-program" in done.stderr
    assert scripted.begun == {}


def test_a_log_that_another_process_writes_is_followed_to_its_end(scripted: Scripted, tmp_path: Path):
    log = tmp_path / "train.log"
    log.write_text("2026-01-01 10:00:00 Epoch 1/3 loss=0.9\n2026-01-01 10:01:00 Epoch 2/3 loss=0.8\nEpoch 3")
    command = [sys.executable, "-m", "memory_service", "watch", str(log), "--model", "resnet18", "--task",
               "image", "--server", scripted.url, "--idle-seconds", "8"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as done:
        until = time.monotonic() + 60
        while not scripted.events and time.monotonic() < until:
            time.sleep(0.05)
        with log.open("a") as out:
            out.write("/3 loss=0.7\n")
        _, said = done.communicate(timeout=60)
    assert done.returncode == 0, said
    epochs = [e for _, e in sorted(scripted.events.items()) if e["kind"] == "epoch"]
    assert [(e["epoch"], e["train_loss"]) for e in epochs] == [(1, 0.9), (2, 0.8), (3, 0.7)]
    first, second = (_seconds(e["at"]) for e in epochs[:2])
    assert second - first == pytest.approx(60.0), "lines of before are dated by their own clocks"
    assert scripted.ends[0]["status"] == "completed"


def _seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


def test_binary_noise_and_a_line_without_end_are_absorbed(scripted: Scripted, tmp_path: Path):
    script = """
import os, sys
out = sys.stdout.buffer
out.write(os.urandom(200_000))
out.write(b"\\nEpoch 1: loss=0.5\\n")
out.write(b"x" * 5_000_000)
out.write(b"\\nEpoch 2: loss=0.4\\n")
"""
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, "-m", "memory_service", "watch", str(tmp_path / "train.log"), "--json",
               "--server", scripted.url, "--", sys.executable, str(tmp_path / "train.py")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [e["epoch"] for _, e in sorted(scripted.events.items()) if e["kind"] == "epoch"] == [1, 2]
    assert scripted.ends[0]["status"] == "completed"


UNTIMED = """
import time
for epoch in range(1, 5):
    time.sleep(1.5)
    print(f"Epoch {epoch}/4 | loss: 0.5 | val_acc: {0.70 + 0.05 * epoch:.2f}")
"""


def test_lines_without_a_time_and_a_named_metric_say_time_and_direction(
    service: Service, tmp_path: Path, home: Path
):
    with watch(tmp_path, service.url, UNTIMED, "--task", "tabular", "--epochs", "4") as done:
        _, said = done.communicate(timeout=120)
    (run_id,) = [word for word in said.split() if word.count("-") == 4]
    page = service.page(run_id)
    assert page["outcome"]["epoch_seconds"] == pytest.approx(1.5, abs=0.7)
    assert page["best_metric"] == pytest.approx(0.9)
    assert page["best_epoch"] == 4
    assert not [note for note in page["notes"] if "gets better" in note]


def follow(tmp_path: Path, url: str, run: str, *options: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "train.log").write_text("Epoch 1/3 loss=0.5 time=12s\n")
    command = [sys.executable, "-m", "memory_service", "watch", str(tmp_path / "train.log"), "--run", run,
               "--server", url, "--idle-seconds", "1", *options]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_run_is_named_by_a_unique_beginning_and_an_unknown_one_is_refused_at_once(
    service: Service, tmp_path: Path, home: Path
):
    facts = {"task": "tabular", "gpu": "cpu", "model": "lightgbm"}
    run_id = httpx2.post(f"{service.url}/runs", json=facts, timeout=60).json()["run_id"]
    for unknown in ("zzzz", "4f0c0000-0000-4000-8000-000000000000"):
        refused = follow(tmp_path, service.url, unknown)
        assert refused.returncode == 1
        assert f"There is no run '{unknown}'; the latest: {run_id}" in " ".join(refused.stderr.split())
    began = follow(tmp_path, service.url, "short", "--task", "tabular")
    assert began.returncode == 1
    assert "must be a UUID" in began.stderr
    assert follow(tmp_path, service.url, run_id[:8]).returncode == 0
    assert [event for event in service.events(run_id) if event["kind"] == "epoch"]


def test_a_whole_id_is_followed_where_no_server_answers(tmp_path: Path, home: Path):
    known = "4f0c0000-0000-4000-8000-000000000000"
    assert follow(tmp_path, "http://127.0.0.1:9", known).returncode == 0
    assert follow(tmp_path, "http://127.0.0.1:9", "4f0c").returncode == 1
