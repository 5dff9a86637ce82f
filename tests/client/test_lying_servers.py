"""Does an answer that is not this service's cost an event, or end what sends them?"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memory_service.client.delivery import http
from memory_service.client.delivery.sender import sync
from memory_service.client.delivery.spool import Spool
from memory_service.client.verdict import Verdict
from memory_service.train.budget import RunState
from tests.client.conftest import Answer, Scripted

HTML = {"Content-Type": "text/html"}
PAGE = b"<html><body>Please log in to the network\x1b[2J</body></html>"
JSON_TYPE = {"Content-Type": "application/json"}
PROBLEM = {"Content-Type": "application/problem+json"}
DEEP = b'{"accepted": 1, "verdict": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def ours(code: str, **members: Any) -> dict[str, Any]:
    return {"type": f"urn:memory-service:problem:{code}", "detail": "no", **members}


OF_PROXIES = (200, 201, 204, 400, 403, 404, 409, 413, 422)
NOTHING_LOST: dict[str, Answer] = {
    **{
        f"{status} of a proxy": (status, HTML, PAGE)
        for status in (200, 201, 204, 400, 403, 404, 409, 413, 422)
    },
    **{f"{status} of a proxy in JSON": (status, JSON_TYPE, {"detail": "no"}) for status in (400, 413, 422)},
    "a problem of somebody else": (422, PROBLEM, {"type": "about:blank", "errors": [{"field": "events.0"}]}),
    "a problem of no type": (400, PROBLEM, {"errors": [{"field": "events.0"}]}),
    "our type in plain JSON": (422, JSON_TYPE, ours("invalid-input", errors=[{"field": "events.0"}])),
    "a type that is no text": (422, PROBLEM, {"type": ["urn:memory-service:problem:x"]}),
    "a redirect": (302, {"Location": "http://127.0.0.1:9/"}, b""),
    "a redirect to itself": (307, {"Location": "/"}, b""),
    "empty": (200, JSON_TYPE, b""),
    "null": (200, JSON_TYPE, b"null"),
    "a list": (200, JSON_TYPE, [1, 2]),
    "deep JSON": (200, JSON_TYPE, DEEP),
    "deep JSON in a problem": (422, PROBLEM, DEEP),
    "no JSON": (200, JSON_TYPE, b"{"),
    "no UTF-8": (200, JSON_TYPE, b"\xff\xfe{"),
    "a number of 100 000 digits": (200, JSON_TYPE, b'{"accepted": ' + b"9" * 100_000 + b"}"),
    "accepted is a text": (200, JSON_TYPE, {"accepted": "3", "duplicates": 0}),
    "accepted is true": (200, JSON_TYPE, {"accepted": True, "duplicates": 0}),
    "too few accepted": (200, JSON_TYPE, {"accepted": 0, "duplicates": 0}),
    "too many accepted": (200, JSON_TYPE, {"accepted": 10**9, "duplicates": 0}),
    "another run": (200, JSON_TYPE, {"run_id": "another"}),
    "an answer of 2 MiB": (200, JSON_TYPE, b"[" + b"1," * 2**20 + b"1]"),
    "compressed": (200, {**JSON_TYPE, "Content-Encoding": "gzip"}, b"\x1f\x8b" + b"0" * 100),
    "a wait that is no number": (503, {"Retry-After": "nan"}, b""),
    "busy": (429, HTML, PAGE),
}
"""Nothing may be lost, and all arrives once the service is there."""


def left_behind(home: Path, url: str, events: int = 3) -> Path:
    head = {"run": {"task": "image"}, "run_id": "a-run", "server": url, "usual": {}}
    spool = Spool.create(home / "spool", "a-run", head, 1 << 20)
    told = [
        {"seq": seq, "kind": "epoch", "at": "2026-01-01T00:00:00Z", "epoch": seq} for seq in range(events)
    ]
    spool.append(told, {"status": "completed"})
    spool.close()
    return home / "spool" / "a-run.jsonl"


@pytest.mark.parametrize("path", ["/runs", "/events", "/finish"])
@pytest.mark.parametrize("lie", NOTHING_LOST)
def test_an_answer_that_is_not_the_services_costs_no_event_and_ends_nothing(
    scripted: Scripted, home: Path, lie: str, path: str
):
    kept = left_behind(home, scripted.url)
    scripted.answer = lambda asked, _: NOTHING_LOST[lie] if asked.endswith(path) else None
    (first,) = sync(sleep=lambda _: None)
    assert first.outcome == "away", first
    assert kept.exists()
    assert "\x1b" not in first.why
    scripted.answer = lambda _path, _body: None
    (second,) = sync(sleep=lambda _: None)
    assert second.outcome == "sent", second
    assert sorted(scripted.events) == [0, 1, 2]
    assert len(scripted.ends) == 1


ODD_BUT_TAKEN: dict[str, dict[str, Any]] = {
    "ignored is a number": {"ignored": 5},
    "ignored holds numbers": {"ignored": [5, None]},
    "a field that is a list": {"ignored": [{"field": ["a"], "value": {}, "why": 3}]},
    "a verdict that is a text": {"verdict": "stop"},
    "a verdict of odd parts": {"verdict": {"action": "stop", "set": 5, "why": ["\n"], "eta_minutes": "x"}},
    "a verdict of 100 000 letters": {"verdict": {"action": "a" * 100_000, "why": "b" * 100_000}},
}


@pytest.mark.parametrize("members", ODD_BUT_TAKEN.values(), ids=ODD_BUT_TAKEN.keys())
def test_odd_parts_of_an_answer_end_nothing(scripted: Scripted, home: Path, members: dict[str, Any]):
    left_behind(home, scripted.url)

    def answer(path: str, body: dict[str, Any]) -> Answer | None:
        if not path.endswith("/events"):
            return None
        for event in body["events"]:
            scripted.events[event["seq"]] = event
        return 200, {}, {"accepted": len(body["events"]), "duplicates": 0, **members}

    scripted.answer = answer
    (done,) = sync(sleep=lambda _: None)
    assert (done.outcome, sorted(scripted.events)) == ("sent", [0, 1, 2])


REFUSALS: dict[str, Callable[[int], dict[str, Any]]] = {
    "names it": lambda place: ours("invalid-input", errors=[{"field": f"events.{place}.seconds"}]),
    "names none": lambda _: ours("invalid-input"),
    "names one that is not there": lambda _: ours("invalid-input", errors=[{"field": "events.999999"}]),
    "errors is a number": lambda _: ours("invalid-input", errors=5),
    "errors holds numbers": lambda _: ours("invalid-input", errors=[5, None]),
    "a field that is a list": lambda _: ours("invalid-input", errors=[{"field": ["events.0"]}]),
}


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("how", REFUSALS)
def test_an_event_that_the_service_refuses_is_kept_aside_and_the_others_arrive(
    scripted: Scripted, home: Path, how: str, status: int
):
    left_behind(home, scripted.url, events=9)

    def answer(path: str, body: dict[str, Any]) -> Answer | None:
        wrong = [place for place, event in enumerate(body.get("events", ())) if event["seq"] == 4]
        return (status, {}, REFUSALS[how](wrong[0])) if wrong else None

    scripted.answer = answer
    (done,) = sync(sleep=lambda _: None)
    assert (done.outcome, done.events) == ("sent", 8)
    assert sorted(scripted.events) == [0, 1, 2, 3, 5, 6, 7, 8]
    kept = (home / "spool" / "refused" / "a-run.events").read_text().splitlines()
    assert [json.loads(line).get("seq") for line in kept] == [None, 4]
    assert kept[0].startswith('{"refused":')


def test_what_is_kept_of_refused_events_has_a_bound(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("memory_service.client.delivery.spool.REFUSED_BYTES", 100)
    left_behind(home, "http://127.0.0.1:9")
    spool = Spool.open(home / "spool" / "a-run.jsonl")
    assert spool.keep_refused([b"x" * 50], "no") is not None
    assert spool.keep_refused([b"x" * 50], "no") is None
    spool.close()


@pytest.mark.parametrize(
    "drips", [b"X-More: 1\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["headers", "interim answers"]
)
def test_a_server_that_drips_is_cut_off(monkeypatch: pytest.MonkeyPatch, drips: bytes) -> None:
    monkeypatch.setattr(http, "CONNECT_S", 0.5)
    over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"" if drips.startswith(b"HTTP") else b"HTTP/1.1 200 OK\r\n")
            while not over.wait(0.01):
                connection.sendall(drips)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,), daemon=True)
        dripping.start()
        wire = http.Wire(f"http://127.0.0.1:{listener.getsockname()[1]}")
        try:
            reply = wire.post("/runs", b"{}", seconds=0.5)
        finally:
            over.set()
            dripping.join(30)
            wire.close()
    assert reply.outcome == "later"


@pytest.mark.parametrize(
    "size", ["8", 0, -4, 0.5, 1, None, [1], True, {"a": 1}, "\x1b[2J", 64, 10**9, 1e308, float("nan")]
)
def test_advice_that_no_training_can_take_leaves_the_batch_as_it_is(
    size: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    state = RunState()
    state.batch_size, state.accumulation = 64, 1
    state.follow(Verdict.from_answer({"action": "lower_batch", "set": {"batch_size": size}, "why": "w"}))
    assert (state.batch_size, state.accumulation) == (64, 1)
    assert "\x1b" not in capsys.readouterr().out
