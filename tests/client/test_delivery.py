"""Does everything arrive once, whatever the service answers on the way?"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_service.client import watch
from memory_service.client.config import load_config
from memory_service.client.delivery import sender as courier
from memory_service.client.delivery.http import Wire
from memory_service.client.delivery.sender import pause_before, sync
from tests.client.conftest import Answer, Scripted, spools


def told(scripted: Scripted, epochs: int = 5, **facts: Any) -> list[str]:
    """A run of so many epochs, told to the end; its problems."""
    with watch(**{"task": "image", "model": "resnet18", "server": scripted.url, **facts}) as run:
        for epoch in range(epochs):
            run.epoch(epoch, seconds=1.0, train_loss=0.5)
    return run.problems


def first(number: int, answer: Answer, path: str = "") -> Callable[[str, dict[str, Any]], Answer | None]:
    """The first so many requests to a path get this answer."""
    left = [number]

    def script(asked: str, body: dict[str, Any]) -> Answer | None:
        if path in asked and left[0]:
            left[0] -= 1
            return answer
        return None

    return script


def epochs_of(scripted: Scripted) -> list[int]:
    return [e["epoch"] for _, e in sorted(scripted.events.items()) if e["kind"] == "epoch"]


def test_a_run_arrives_whole_and_its_spool_is_gone(scripted: Scripted, home: Path):
    assert told(scripted) == []
    assert epochs_of(scripted) == [0, 1, 2, 3, 4]
    assert [end["status"] for end in scripted.ends] == ["completed"]
    assert spools(home) == []


@pytest.mark.parametrize("status", [429, 500, 503, 507])
def test_a_service_that_is_busy_gets_it_later_and_not_before_it_said(scripted: Scripted, status: int):
    scripted.answer = first(1, (status, {"Retry-After": "0.6"}, {"detail": "later"}))
    with watch(task="image", model="resnet18", server=scripted.url) as run:
        run.epoch(0, seconds=1.0)
        until = time.monotonic() + 60
        while not scripted.events and time.monotonic() < until:
            time.sleep(0.01)
    assert epochs_of(scripted) == [0]
    assert scripted.times[1] - scripted.times[0] >= 0.6
    assert str(status) in run.problems[0]


def test_pauses_double_up_to_a_minute_with_jitter_and_never_undercut_the_server():
    assert [pause_before(n, None, lambda: 0.0) for n in (1, 2, 3, 20)] == [0.5, 1.0, 2.0, 60.0]
    assert pause_before(3, None, lambda: 1.0) == 1.0
    assert pause_before(1, 7.0, lambda: 0.5) == 7.0


def test_an_answer_that_was_lost_makes_the_same_events_come_again(scripted: Scripted):
    taken: list[int] = []

    def lose_the_first_answer(path: str, body: dict[str, Any]) -> Answer | None:
        if path.endswith("/events") and not taken:
            taken.extend(event["seq"] for event in body["events"])
            for event in body["events"]:
                scripted.events[event["seq"]] = event
            return 503, {"Retry-After": "0"}, {}
        return None

    scripted.answer = lose_the_first_answer
    told(scripted)
    assert scripted.repeated >= len(taken)
    assert epochs_of(scripted) == [0, 1, 2, 3, 4]


def test_a_body_over_the_limit_is_sent_in_parts(scripted: Scripted):
    most = 20

    def limit(path: str, body: dict[str, Any]) -> Answer | None:
        return (413, {}, {"detail": "too large"}) if len(body.get("events", ())) > most else None

    scripted.answer = limit
    told(scripted, mode="offline", epochs=300)
    assert [one.outcome for one in sync(scripted.url)] == ["sent"]
    assert epochs_of(scripted) == list(range(300))


def test_an_event_the_service_cannot_take_holds_up_none_behind_it(scripted: Scripted, home: Path):
    def refuse_epoch_2(path: str, body: dict[str, Any]) -> Answer | None:
        wrong = [i for i, event in enumerate(body.get("events", ())) if event.get("epoch") == 2]
        errors = [{"field": f"events.{i}.seconds", "message": "no"} for i in wrong]
        return (422, {}, {"detail": "wrong", "errors": errors}) if wrong else None

    scripted.answer = refuse_epoch_2
    problems = told(scripted)
    assert epochs_of(scripted) == [0, 1, 3, 4]
    assert "1 events were refused and kept in" in problems[0]
    kept = next((home / "spool" / "refused").glob("*.events")).read_bytes().splitlines()
    assert json.loads(kept[0]) == {"refused": "422 wrong"}
    assert json.loads(kept[1])["epoch"] == 2


def test_a_service_that_lost_the_run_is_told_of_it_again(scripted: Scripted):
    scripted.answer = first(1, (404, {}, {"detail": "no such run"}), "/events")
    told(scripted)
    assert epochs_of(scripted) == [0, 1, 2, 3, 4]


def test_a_model_the_service_does_not_know_costs_the_predictions_not_the_run(scripted: Scripted):
    def know_no_model(path: str, body: dict[str, Any]) -> Answer | None:
        if path == "/runs" and not body["model"].startswith("custom"):
            return 422, {}, {"detail": "Unknown model", "errors": [{"field": "model", "message": "unknown"}]}
        return None

    scripted.answer = know_no_model
    problems = told(scripted, model="my net, v2")
    assert [body["model"] for body in scripted.begun.values()] == ["custom/my net- v2"]
    assert "Unknown model" in problems[0]
    assert epochs_of(scripted) == [0, 1, 2, 3, 4]


def test_a_run_that_had_begun_with_other_facts_goes_on(scripted: Scripted):
    scripted.answer = first(1, (409, {}, {"detail": "run_id is taken"}), "/runs")
    told(scripted)
    assert epochs_of(scripted) == [0, 1, 2, 3, 4]
    assert [end["status"] for end in scripted.ends] == ["completed"]


def test_a_service_that_knows_the_plan_is_told_no_more_than_it_asks_for(scripted: Scripted):
    told(scripted, task=None, model=None, plan_id="p1")
    assert {"task", "model"}.isdisjoint(*scripted.begun.values())
    scripted.begun.clear()

    def know_no_plan(path: str, body: dict[str, Any]) -> Answer | None:
        lacking = [name for name in ("task", "model") if name not in body]
        errors = [{"field": name, "message": "Field required"} for name in lacking]
        return (422, {}, {"detail": "required", "errors": errors}) if path == "/runs" and lacking else None

    scripted.answer = know_no_plan
    (problem,) = told(scripted, task=None, model=None, plan_id="p1")
    (body,) = scripted.begun.values()
    assert (body["plan_id"], body["model"]) == ("p1", "custom")
    assert body["task"] in problem, "what is guessed is said"


def test_an_unknown_card_or_task_costs_the_predictions_not_the_run(scripted: Scripted):
    def know_little(path: str, body: dict[str, Any]) -> Answer | None:
        if path == "/runs" and body["task"] == "imgae":
            return 422, {}, {"detail": "Unknown task 'imgae'", "errors": [{"field": "task"}]}
        if path == "/runs" and not body["gpu"].startswith("custom"):
            return 422, {}, {"detail": "Unknown gpu; nearest: a100", "errors": [{"field": "gpu"}]}
        return None

    scripted.answer = know_little
    problems = told(scripted, gpu="A101 (beta)", task="imgae")
    (body,) = scripted.begun.values()
    assert body["gpu"] == "custom/A101 -beta-"
    assert "Unknown task 'imgae'" in problems[0]
    assert body["task"] in problems[0]
    assert "nearest: a100" in problems[1]
    assert epochs_of(scripted) == [0, 1, 2, 3, 4]


def test_what_is_refused_for_good_is_kept_aside_named_and_in_nobodys_way(scripted: Scripted, home: Path):
    scripted.answer = first(99, (403, {}, {"detail": "not from here"}), "/runs")
    problems = told(scripted)
    assert "not from here" in problems[0]
    assert [path.name for path in spools(home)] == ["refused"]
    scripted.answer = lambda path, body: None
    (named,) = sync()
    assert (named.outcome, named.why) == ("aside", "403 not from here")
    told(scripted)
    assert [(one.outcome, one.events) for one in sync(refused=True)] == [("sent", 6)], "epochs, memory"
    assert list(sync()) == []


def test_what_sync_finds_refused_is_put_aside_too(scripted: Scripted, home: Path):
    told(scripted, mode="offline")
    told(scripted, mode="offline")
    scripted.answer = first(1, (403, {}, {"detail": "not yours"}), "/runs")
    found = list(sync(scripted.url))
    assert sorted(one.outcome for one in found) == ["refused", "sent"]
    assert [one.outcome for one in sync(scripted.url, refused=True)] == ["sent"]


def test_a_run_whose_key_is_not_valid_any_more_waits_for_another_one(
    scripted: Scripted, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("MEMORY_API_KEY", "msk_old")
    shown: list[str] = []

    def answer(path: str, body: dict[str, Any]) -> Answer | None:
        shown.append(scripted.headers[-1].get("Authorization", ""))
        return None if shown[-1] == "Bearer msk_new" else (401, {}, {"detail": "A valid key is needed"})

    scripted.answer = answer
    problems = told(scripted)
    assert len(problems) == 1
    assert "MEMORY_API_KEY" in problems[0]
    assert [path.suffix for path in spools(home)] == [".jsonl"], "it is not put aside"
    assert [one.outcome for one in sync(scripted.url)] == ["away"]
    monkeypatch.setenv("MEMORY_API_KEY", "msk_new")
    assert [(one.outcome, one.events) for one in sync(scripted.url)] == [("sent", 6)]
    written = "".join(path.read_text() for path in home.rglob("*") if path.is_file()) + caplog.text
    assert not re.search("msk_(old|new)", written)


def test_nothing_is_slower_and_nothing_lost_with_the_service_down_for_the_whole_run(
    scripted: Scripted, home: Path
):
    began = time.perf_counter()
    problems = told(scripted, epochs=200, server="http://127.0.0.1:9")
    assert time.perf_counter() - began < 30.0, "200 times the first pause of half a second would be more"
    assert len(problems) == 1, "warned once"
    assert [(one.outcome, one.events) for one in sync(scripted.url)] == [("sent", 201)]
    assert epochs_of(scripted) == list(range(200))
    assert spools(home) == []
    assert list(sync(scripted.url)) == []


def test_a_service_that_was_away_for_long_gets_the_end_within_the_seconds_given(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(courier, "FIRST_PAUSE_S", 20.0)  # as after many failures
    scripted.answer = lambda path, body: (503, {}, {"detail": "being loaded"})
    run = watch(task="image", model="resnet18", server=scripted.url)
    run.epoch(0, seconds=1.0)
    until = time.monotonic() + 60
    while not run.problems and time.monotonic() < until:
        time.sleep(0.01)
    monkeypatch.setattr(courier, "FIRST_PAUSE_S", 0.1)
    scripted.answer = first(3, (503, {}, {"detail": "being loaded"}))
    assert run.finish(flush_seconds=60)
    assert epochs_of(scripted) == [0]


def test_a_service_that_never_answers_holds_the_end_up_for_the_stated_time_only(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MEMORY_FLUSH_SECONDS", "1")

    may_answer = threading.Event()

    def hang(path: str, body: dict[str, Any]) -> None:
        may_answer.wait(120)

    scripted.answer = hang
    began = time.perf_counter()
    told(scripted)
    assert 0.9 < time.perf_counter() - began < 60.0
    may_answer.set()


def test_what_no_server_can_be_is_a_reply_not_an_exception():
    reply = Wire("http://127.0.0.1:9").post("/runs", b"{}")
    assert (reply.outcome, reply.status) == ("later", 0)
    assert Wire("http://[not-an-address").post("/runs", b"{}").outcome == "later"


def test_an_empty_server_is_none_and_no_usual_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MEMORY_SERVER", "")
    assert load_config().mode == load_config(server="").mode == "disabled"
    assert load_config(mode="offline").mode == "offline"
    assert load_config(server="http://there:1").mode == "online"
    monkeypatch.delenv("MEMORY_SERVER")
    assert (load_config().mode, load_config().server) == ("online", "http://127.0.0.1:8000")
