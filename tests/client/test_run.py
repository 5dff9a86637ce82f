"""Does what a script tells reach the real service, and can nothing of it disturb the script?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

from memory_service.client import Run, watch
from memory_service.client.begin import attach
from memory_service.client.delivery.sender import sync
from memory_service.client.run import status_of
from tests.client.conftest import VERDICT, Scripted, Service, spools

FACTS: dict[str, Any] = {"task": "image", "model": "resnet18", "batch_size": 32, "epochs": 4, "n_train": 128}


def train(run: Run, epochs: int = 4, steps: int = 4) -> None:
    for epoch in range(epochs):
        for _ in run.loader(range(steps)):
            time.sleep(0.01)
        run.epoch(epoch, train_loss=1.0 / (epoch + 1), valid_loss=0.5, metric=0.7 + 0.01 * epoch)


def test_epochs_times_and_the_end_arrive(service: Service, home: Path):
    with watch(**FACTS, server=service.url) as run:
        began = time.perf_counter()
        train(run)
        taken = time.perf_counter() - began
        run.note("submission.csv written", submission=True)
        run.result(best_metric=0.73, best_epoch=3, submission=True, test_metric=0.71, followed=["tta"])
    assert run.problems == []
    page = service.page(run.run_id)
    assert page["status"] == "completed"
    assert (page["best_metric"], page["best_epoch"], page["submission"]) == (0.73, 3, True)
    assert (page["finish"]["test_metric"], page["finish"]["followed"]) == (0.71, ["tta"])
    assert page["evidence"]["test_metric"] == 0.71
    assert page["evidence"]["minutes_to_submission"] > 0
    epochs = page["outcome"]["epochs"]
    assert [row["epoch"] for row in epochs] == [0, 1, 2, 3]
    assert all(row["seconds"] >= 0.04 and row["samples"] == 128 for row in epochs)
    assert sum(row["seconds"] for row in epochs) <= taken
    assert [row["metric"] for row in epochs] == pytest.approx([0.7, 0.71, 0.72, 0.73])
    assert page["gpu"] == "cpu"
    events = service.events(run.run_id)
    assert sum(event.get("steps", 0) for event in events) == 16
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert spools(home) == []


def test_a_fit_without_callbacks_is_told_and_learned_from(service: Service, home: Path):
    facts: dict[str, Any] = {"task": "tabular-regression", "model": "random-forest"}
    facts |= {"n_train": 8_000, "folds": 1}
    with watch(**facts, n_features=9, server=service.url) as run:
        with run.fitting(rows=6_400, columns=9, rounds=50) as fit:
            time.sleep(0.3)
            fit["metric"] = 0.5
        with pytest.raises(ZeroDivisionError), run.fitting(rows=6_400):
            _ = 1 / 0
    assert run.problems == []
    (one,) = service.page(run.run_id)["observations"]
    assert (one["part"], one["batch_size"], one["input_size"], one["n"]) == ("fit", 6_400, 9, 50)
    assert one["step_seconds"] == pytest.approx(one["timed_seconds"] / 50)
    assert one["timed_seconds"] >= 0.3
    assert one["peak_driver_gib"] > 0.01
    assert spools(home) == []


def test_the_verdict_comes_back_to_the_script_which_never_waits_for_it(scripted: Scripted):
    may_answer = threading.Event()

    def hold(path: str, body: dict[str, Any]) -> None:
        if path.endswith("/events"):
            may_answer.wait(60)

    scripted.answer = hold
    with watch(**FACTS, server=scripted.url) as run:
        told = run.epoch(0, train_loss=1.0)
        assert (told.action, told.known) == ("continue", False)
        may_answer.set()
        until = time.monotonic() + 60
        while not run.verdict.known and time.monotonic() < until:
            time.sleep(0.01)
        told = run.epoch(1, train_loss=0.9)
    assert (told.action, dict(told.set), told.rule) == ("raise_batch", {"batch_size": 256}, "R23")
    assert told.eta_minutes == VERDICT["eta_minutes"]
    assert str(told) == "raise_batch batch_size=256: Fill is 34 %. [R23]"


def test_the_services_own_verdict_reaches_the_script(service: Service):
    facts = {**FACTS, "epochs": 30, "folds": 5, "minutes": 11, "n_train": 50_000}
    with watch(**facts, server=service.url) as run:
        for epoch in range(2):
            run.epoch(epoch, fold=1, seconds=50.0, train_loss=1.0)
            until = time.monotonic() + 60
            while not run.verdict.known and time.monotonic() < until:
                time.sleep(0.02)
        told = run.verdict
    assert told.known
    assert told.why
    assert told.raw["action"] == told.action
    assert run.problems == []


def test_a_service_that_goes_away_and_comes_back_gets_everything_once(scripted: Scripted, home: Path):
    with watch(**FACTS, server=scripted.url) as run:
        train(run, epochs=1)
        scripted.stop()
        for epoch in range(1, 6):
            run.epoch(epoch, seconds=1.0)
            time.sleep(0.05)
        scripted.start()
        run.epoch(6, seconds=1.0)
        assert run.finish(flush_seconds=60)
    assert epochs_of(scripted) == list(range(7))
    assert sorted(scripted.events) == list(range(len(scripted.events)))
    assert [end["status"] for end in scripted.ends] == ["completed"]
    assert spools(home) == []


def test_offline_a_run_is_kept_and_a_later_sync_brings_everything_once(service: Service, home: Path):
    with watch(**FACTS, mode="offline") as run:
        train(run)
    assert len(spools(home)) == 1
    copy = spools(home)[0].read_bytes()
    (sent,) = sync(service.url)
    assert (sent.outcome, sent.run_id) == ("sent", run.run_id)
    before = service.events(run.run_id)
    assert sent.events == len(before)
    spools_again = home / "spool" / f"{run.run_id}.jsonl"
    spools_again.write_bytes(copy)  # as if the acknowledgement had been lost
    assert [one.outcome for one in sync(service.url)] == ["sent"]
    assert service.events(run.run_id) == before
    assert service.page(run.run_id)["status"] == "completed"


def test_a_network_of_ones_own_is_watched(service: Service):
    with watch(task="image", model="custom/tiny net", batch_size=32, server=service.url) as run:
        train(run, epochs=2)
    page = service.page(run.run_id)
    assert page["model"] == "custom/tiny net"
    assert len(page["outcome"]["epochs"]) == 2
    with watch(task="image", model="no-such-network-v9", batch_size=32, server=service.url) as run:
        train(run, epochs=1)
    assert service.page(run.run_id)["model"] == "custom/no-such-network-v9"
    assert "no-such-network-v9" in run.problems[0]


def test_a_plan_says_what_the_script_does_not(service: Service):
    import httpx2

    question = {"task": "image", "size": "small", "gpu": "t4", "minutes": "30"}
    plan = httpx2.get(f"{service.url}/recommend", params=question, timeout=60).json()
    said: list[dict[str, Any]] = [{"plan": plan}, {"plan_id": plan["plan_id"]}]
    for one in said:
        with watch(**one, n_train=5000, server=service.url) as run:
            for _ in run.loader([np.zeros((7, 2))] * 4):
                pass
            run.epoch(0, seconds=2.0)
        assert run.problems == []
        page = service.page(run.run_id)
        assert (page["plan_id"], page["model"]) == (plan["plan_id"], plan["model"]["name"])
        for name in ("task", "batch_size", "folds", "epochs", "minutes", "precision"):
            assert page[name] == plan[name], name
        assert (page["gpu"], page["n_train"]) == ("t4", 5000)
        assert page["prediction"]["samples_per_second"]
        assert page["observations"] == [], "no card is seen here: nothing is learned of the plan's"
        assert page["outcome"]["epochs"][0]["samples"] == 28, "the loader's own batch counts, not the plan's"
    (problem,) = told_of_an_unknown_plan(service).problems
    assert "plan-nobody-gave is not known here" in problem


def told_of_an_unknown_plan(service: Service) -> Run:
    with watch(plan_id="plan-nobody-gave", server=service.url) as run:
        run.epoch(0, seconds=2.0)
    page = service.page(run.run_id)
    assert (page["model"], page["gpu"]) == ("custom", "cpu")
    return run


def test_a_card_that_is_not_registered_is_watched_without_predictions(service: Service):
    with watch(**{**FACTS, "gpu": "Biren BR100"}, server=service.url) as run:
        run.epoch(0, seconds=2.0, peak_allocated_gib=20.0, total_gib=32.0)
        run.epoch(1, seconds=2.0, peak_allocated_gib=20.0)
    assert "is not priced" in run.problems[0]
    page = service.page(run.run_id)
    assert (page["gpu"], page["family"]) == ("custom/Biren BR100", "resnet")
    assert "unregistered" in page["prediction"]["why_not"]
    assert page["verdict"]["memory"]["fill_percent"] == pytest.approx(62.5)
    assert len(page["outcome"]["epochs"]) == 2


def test_more_can_be_told_of_a_run_that_was_begun_elsewhere(service: Service):
    with watch(**FACTS, server=service.url) as run:
        run.epoch(0, seconds=1.0)
        other = attach(run.run_id, pid=0, server=service.url)
        other.note("from the outside")
        assert other.finish()
        run.epoch(1, seconds=1.0)
    events = service.events(run.run_id)
    assert [e["epoch"] for e in events if e["kind"] == "epoch"] == [0, 1]
    assert events[-1]["text"] == "from the outside"
    assert service.page(run.run_id)["status"] == "completed"


def test_a_script_and_its_agent_report_one_run_each_epoch_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
):
    before = len(runs_of(service))
    run_id = told(service, "/runs", {"task": "image", "gpu": "cpu", "model": "resnet18", "minutes": 5})[
        "run_id"
    ]
    monkeypatch.setenv("MEMORY_RUN_ID", run_id)
    with watch(server=service.url, task="image", model="resnet18") as run:
        for epoch in (1, 2):
            run.epoch(epoch - 1, train_loss=0.5 / epoch, metric=0.8 + epoch / 100, seconds=2)
            lines = f"Epoch {epoch}/2 - loss: {0.5 / epoch} - val_acc: {0.8 + epoch / 100} - time: 2s\n"
            told(service, f"/runs/{run_id}/log", lines)
    told(service, f"/runs/{run_id}/finish", {"status": "completed", "best_metric": 0.9, "submission": True})
    page = service.page(run_id)
    assert len(runs_of(service)) == before + 1
    assert [epoch["train_loss"] for epoch in page["outcome"]["epochs"]] == [0.5, 0.25], "from 0 and from 1"
    assert (page["status"], page["best_metric"], page["submission"]) == ("completed", 0.9, True)


def test_a_script_that_was_told_no_id_joins_the_run_of_its_plan(service: Service):
    with urlopen(f"{service.url}/recommend?task=image&size=small&gpu=t4&minutes=33") as answer:
        plan = json.load(answer)
    before = len(runs_of(service))
    agents = told(service, "/runs", {"plan_id": plan["plan_id"]})["run_id"]
    seen = {"seq": 0, "kind": "note", "at": "2026-03-01T12:00:00Z", "text": "launched"}
    told(service, f"/runs/{agents}/events", {"events": [seen]})
    said = {"plan_id": plan["plan_id"], "server": service.url}
    with watch(**said, mode="offline") as late, watch(**said) as run:
        run.epoch(fold=1, epoch=1, train_loss=0.5, seconds=2)
        late.epoch(fold=2, epoch=1, train_loss=0.4, seconds=2)
    assert (run.run_id, run.problems) == (agents, [])
    assert [one.outcome for one in sync(service.url)] == ["sent"]
    assert len(runs_of(service)) == before + 2, "the other process, which trained at the same time"
    for run_id, fold in ((agents, 1), (late.run_id, 2)):
        page = service.page(run_id)
        assert [epoch["fold"] for epoch in page["outcome"]["epochs"]] == [fold]
        assert page["status"] == "completed"
    assert [event["text"] for event in service.events(agents) if event["kind"] == "note"] == ["launched"]


def test_an_agent_that_tells_of_the_plan_after_its_script_began_tells_of_the_scripts_run(service: Service):
    with urlopen(f"{service.url}/recommend?task=image&size=small&gpu=t4&minutes=34") as answer:
        plan_id = json.load(answer)["plan_id"]
    before = len(runs_of(service))
    with watch(plan_id=plan_id, server=service.url) as run:
        run.epoch(0, train_loss=0.5, seconds=2)
        agents = told(service, "/runs", {"plan_id": plan_id})["run_id"]
        told(service, f"/runs/{agents}/log", "Epoch 1/2 - loss: 0.5 - time: 2s\n")
        run.epoch(1, train_loss=0.25, seconds=2)
    told(service, f"/runs/{agents}/log", "Epoch 2/2 - loss: 0.25 - time: 2s\n")
    assert (run.run_id, len(runs_of(service))) == (agents, before + 1), "whoever of them was first"
    assert [one["train_loss"] for one in service.page(agents)["outcome"]["epochs"]] == [0.5, 0.25]


def runs_of(service: Service) -> list[Any]:
    with urlopen(f"{service.url}/runs?limit=500") as answer:
        items: list[Any] = json.load(answer)["items"]
    return items


def told(service: Service, path: str, body: dict[str, Any] | str) -> dict[str, Any]:
    media = "text/plain" if isinstance(body, str) else "application/json"
    data = (body if isinstance(body, str) else json.dumps(body)).encode()
    with urlopen(Request(service.url + path, data, {"Content-Type": media})) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_losses_that_are_no_numbers_arrive_as_what_they_are(service: Service):
    import torch

    with watch(**FACTS, server=service.url) as run:
        scores: dict[str, Any] = {"valid_loss": torch.tensor(float("inf")), "metric": 0.5}
        answer = run.epoch(0, seconds=1.0, train_loss=float("nan"), **scores)
        assert (answer.action, answer.rule) == ("investigate", "not-a-number"), "at once"
        run.epoch(1, seconds=1.0, train_loss=torch.tensor(0.25, requires_grad=True))
    told = [e for e in service.events(run.run_id) if e["kind"] == "epoch"]
    assert (told[0]["train_loss"], told[0]["valid_loss"], told[0]["metric"]) == ("nan", "inf", 0.5)
    assert told[1]["train_loss"] == 0.25
    assert run.problems == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"epoch": "three"}, {"epoch": 10**9}, {"epoch": None}, {"epoch": -1}, {"epoch": 0, "seconds": -1.0},
        {"epoch": 0, "seconds": float("nan")}, {"epoch": 0, "train_loss": "x"}, {"epoch": 0, "metric": ()},
        {"epoch": 0, "accuracy": 0.5}, {"epoch": 0, "batch_size": 0}, {"epoch": 0, "fold": object()},
    ],
)  # fmt: skip
def test_a_wrong_value_is_left_out_and_said_and_disturbs_nothing(wrong: dict[str, Any], scripted: Scripted):
    with watch(**FACTS, server=scripted.url) as run:
        assert run.epoch(**wrong).action == "continue"
        run.epoch(7, seconds=1.0)
    assert len(run.problems) == 1
    assert [e["epoch"] for e in scripted.events.values() if e["kind"] == "epoch"][-1] == 7


def test_wrong_calls_do_not_raise_either(scripted: Scripted):
    wrong: dict[str, Any] = {"batch_size": "many", "epochs": object()}
    with watch(task="image", model="resnet18", server=scripted.url, **wrong) as run:
        run.batch("several")  # type: ignore[arg-type]
        run.fold("first")  # type: ignore[arg-type]
        run.note(b"\xff\0bytes")  # type: ignore[arg-type]
        run.set(batch_size="small", workers=3)
        run.event("no such kind", {})
        run.finish("done and dusted", best_metric="good", grade="A")
    assert scripted.ends[0]["status"] == "completed"
    watch(run_id="not a uuid", server=scripted.url).epoch(0)
    watch(plan="/no/such/file.json", server=scripted.url).epoch(0)
    with watch(task="image", server="ftp://nowhere") as run:
        run.epoch(0)


def test_how_a_script_ends_is_how_its_run_ends(scripted: Scripted):
    class OutOfMemoryError(RuntimeError):
        pass

    for error, status in (
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "out_of_memory"),
        (OutOfMemoryError("no room"), "out_of_memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"), "out_of_memory"),
        (raised_from(MemoryError()), "out_of_memory"),
        (ValueError("shapes do not match"), "crashed"),
        (KeyboardInterrupt(), "stopped"),
        (SystemExit(0), "completed"),
        (SystemExit(2), "crashed"),
    ):
        assert status_of(error) == status
        with pytest.raises(type(error)), watch(**FACTS, server=scripted.url):
            raise error
        assert scripted.ends[-1]["status"] == status
    notes = [event for event in scripted.events.values() if event["kind"] == "note"]
    assert notes, "what was raised is told"


def raised_from(error: BaseException) -> BaseException:
    try:
        try:
            raise error
        except MemoryError as first:
            raise ValueError("this fold failed") from first
    except ValueError as outer:
        return outer


def test_of_the_processes_of_one_training_the_first_tells(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
):
    for name, rank in (("RANK", "3"), ("LOCAL_RANK", "1"), ("RANK", "0"), ("LOCAL_RANK", "0"), ("RANK", "-")):
        monkeypatch.setenv(name, rank)
        with watch(**FACTS, server=scripted.url) as run:
            run.epoch(0, seconds=1.0)
        assert run.status == ("completed" if rank in "0-" else "disabled")
        monkeypatch.delenv(name)
    assert len(scripted.begun) == 3


SCRIPT = """
import sys, time
from memory_service.client import watch
run = watch(task="image", model="resnet18", batch_size=32, server=sys.argv[1])
for epoch in range(1000):
    run.epoch(epoch, seconds=0.01)
    print(epoch, flush=True)
    time.sleep({pause})
    if epoch == {until}:
        {then}
"""


def started(url: str, *, pause: float = 0.02, until: int = -1, then: str = "pass") -> subprocess.Popen[str]:
    script = SCRIPT.format(pause=pause, until=until, then=then)
    return subprocess.Popen([sys.executable, "-c", script, url], stdout=subprocess.PIPE, text=True)


def read_until(process: subprocess.Popen[str], epoch: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= epoch:
            return


def epochs_of(scripted: Scripted) -> list[int]:
    return sorted(e["epoch"] for e in scripted.events.values() if e["kind"] == "epoch")


def test_sigterm_ends_the_script_as_before_and_the_run_as_stopped(scripted: Scripted, home: Path):
    with started(scripted.url) as process:
        read_until(process, 5)
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
    assert epochs_of(scripted) == list(range(len(epochs_of(scripted))))
    assert len(epochs_of(scripted)) >= 6
    assert [end["status"] for end in scripted.ends] == ["stopped"]
    assert spools(home) == []


@pytest.mark.parametrize(
    ("then", "status", "code"),
    [("break", "completed", 0), ("raise ValueError('no')", "crashed", 1), ("sys.exit(3)", "completed", 3)],
)
def test_a_script_that_never_says_finish_is_finished_at_its_exit(
    scripted: Scripted, then: str, status: str, code: int, capfd: pytest.CaptureFixture[str]
):
    with started(scripted.url, until=5, then=then) as process:
        assert process.wait(60) == code
    assert epochs_of(scripted) == list(range(6))
    assert [end["status"] for end in scripted.ends] == [status]
    capfd.readouterr()


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:9"], ids=["service up", "service down"])
def test_kill_9_of_the_script_loses_a_tenth_of_a_second_at_most(scripted: Scripted, home: Path, url: str):
    for attempt in range(2):
        scripted.events.clear()
        scripted.ends.clear()
        with started(url or scripted.url, pause=0.03) as process:
            read_until(process, 10 * (attempt + 1))
            time.sleep(0.5)  # a busy machine gets a few of these tenths
            os.kill(process.pid, signal.SIGKILL)
            process.wait(60)
        assert [one.outcome for one in sync(scripted.url)] == ["sent"]
        found = epochs_of(scripted)
        assert found == list(range(len(found)))
        assert len(found) > 10 * (attempt + 1)
        assert [end["status"] for end in scripted.ends] == ["crashed"]
        assert spools(home) == []


def test_a_forked_worker_tells_nothing_of_its_parents_run(scripted: Scripted):
    with watch(**FACTS, server=scripted.url) as run:
        run.epoch(0, seconds=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from Python 3.12 on: a process with threads forks
            child = os.fork()
        if child == 0:
            try:
                run.epoch(1, seconds=1.0)
                run.finish("crashed")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        run.epoch(2, seconds=1.0)
    assert epochs_of(scripted) == [0, 2]
    assert [end["status"] for end in scripted.ends] == ["completed"]


def test_a_run_leaves_no_thread_behind(scripted: Scripted):
    with watch(**FACTS, server=scripted.url) as run:
        run.epoch(0, seconds=1.0)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        left = [t.name for t in threading.enumerate() if t.name.startswith("memory-service")]
        if not left:
            return
        time.sleep(0.05)
    raise AssertionError(left)
