"""What one caller may cost is bounded before the work begins, or ended; the others are answered meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from anyio import (
    CapacityLimiter,
    create_task_group,
    fail_after,
    move_on_after,
    run,
    sleep,
    sleep_forever,
    to_thread,
    wait_all_tasks_blocked,
)
from fastapi import Request
from fastapi.testclient import TestClient
from pydantic import ValidationError

from memory_service.api import request_body
from memory_service.api.answers import file_of
from memory_service.api.service import FewAtOnce, _Place
from memory_service.child_processes import Workers
from memory_service.domain.logs.parser import Context, read_log
from memory_service.schemas import validation_errors
from memory_service.services.knowledge import profiling
from memory_service.services.review import review
from memory_service.services.runs import run_log
from memory_service.web import site
from tests.store.fakes import model
from tests.telling import at

PYTHON = {"Content-Type": "text/x-python"}
AGENT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def transformer(name: str, **figures: Any) -> dict[str, Any]:
    config = {"model_type": "bert", "figures": {"hidden_size": 64, "num_attention_heads": 2, **figures}}
    return model(name, library="transformers", input_kind="seq_len", default_input_size=32, config=config)


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        ({"num_hidden_layers": 300}, "num_hidden_layers must be between 1 and 128"),
        ({"vocab_size": 10**9}, "vocab_size must be between 1 and 2000000"),
        ({"backbone": "resnet50"}, "Unknown figure 'backbone'"),
        ({"use_pretrained_backbone": True}, "Unknown figure 'use_pretrained_backbone'"),
        ({"timm_model_name": "resnet50"}, "Unknown figure 'timm_model_name'"),
        ({"hidden_act": "../../weights"}, "hidden_act must be a plain word"),
        ({"d_model": 512}, "Unknown figure 'd_model'"),
        ({"hidden_act": ["gelu"] * 300}, "holds more than 256 values"),
        ({"hidden_size": {"a": 1}}, "figures are numbers, words and short lists"),
    ],
)
def test_a_model_of_any_size_or_origin_is_refused(
    sqlite_client: TestClient, figures: dict[str, Any], why: str
):
    refused = sqlite_client.post("/models", json=transformer("zz-net", **figures))
    assert refused.status_code == 422
    assert why in refused.text
    patched = sqlite_client.patch(
        "/models/bert-base-uncased", json={"config": transformer("x", **figures)["config"]}
    )
    assert patched.status_code == 422


def test_a_trace_that_takes_too_long_is_ended_and_not_tried_again(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    assert (
        sqlite_client.post("/models", json=transformer("zz-slow", num_hidden_layers=128)).status_code == 201
    )
    asked: dict[str, str | int] = {"model": "zz-slow", "seq_len": 32, "gpu": "a100"}
    monkeypatch.setattr(profiling.TRACING, "seconds", 0.05)
    refused = sqlite_client.get("/predict", params=asked)
    assert refused.status_code == 422
    assert "took over 0.05 s" in refused.text
    monkeypatch.undo()
    assert "took over 0.05 s" in sqlite_client.get("/predict", params=asked).text


def test_a_review_that_takes_too_long_is_ended_and_says_so(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    script = b"import torch\nprint(torch.ones(2))\n"
    assert sqlite_client.post("/review", content=script, headers=PYTHON).json()["ok"]
    monkeypatch.setattr(review._REVIEWING, "seconds", 0.0001)
    ended = sqlite_client.post("/review", content=script * 20_000, headers=PYTHON)
    assert ended.status_code == 200
    assert "every rule: reading the script took over" in ended.json()["not_checked"][0]
    monkeypatch.undo()
    assert sqlite_client.post("/review", content=script, headers=PYTHON).json()["not_checked"] == []


MEMBERS = "An object has at most 200 members"


@pytest.mark.parametrize(
    "path",
    [
        "/recommend",
        "/competitions",
        "/models",
        "/calibrations",
        "/review",
        "/predict",
        "/rank",
        "/choose",
        "/compare",
        "/runs",
        "/similar",
    ],
)
def test_unknown_fields_are_not_looked_up_one_by_one(sqlite_client: TestClient, path: str):
    body = {f"_etainsr{n}": n for n in range(60_000)}
    refused = sqlite_client.post(path, json=body)
    assert refused.status_code == 422
    assert MEMBERS in refused.json()["detail"]
    few = sqlite_client.post(path, json={f"_etainsr{n}": n for n in range(190)})
    assert few.status_code == 422
    assert 1 <= len(few.json()["errors"]) <= 51


def test_corrections_and_tools_refuse_too_many_members_too(sqlite_client: TestClient):
    many = {f"_etainsr{n}": n for n in range(60_000)}
    assert MEMBERS in sqlite_client.patch("/gpus/a100", json=many).text
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "plan", "arguments": many},
    }
    assert MEMBERS in sqlite_client.post("/mcp", json=call, headers=AGENT).text
    call["params"] = {"name": "plan", "arguments": {"description": [[] for _ in range(10_000)]}}
    assert sqlite_client.post("/mcp", json=call, headers=AGENT).status_code == 413
    nan = orjson.dumps(call).replace(b"[]", b"NaN")
    assert sqlite_client.post("/mcp", content=nan, headers=AGENT).status_code == 413
    script = "x = [1, 2, 3, 4]  # {}, [], \n" * 5_000  # as many commas, in one text
    call["params"] = {"name": "review", "arguments": {"script": script}}
    answered = sqlite_client.post("/mcp", json=call, headers=AGENT)
    assert answered.status_code == 200
    assert "isError" in answered.text


def test_events_with_wrong_fields_are_refused_after_the_first_few(sqlite_client: TestClient):
    run_id = begun(sqlite_client)
    wrong = {f"w{n}": n for n in range(70)}
    events = [{"seq": n, "kind": "epoch", "at": at(n), **wrong} for n in range(5_000)]
    refused = sqlite_client.post(f"/runs/{run_id}/events", json={"events": events})
    assert refused.status_code == 422
    assert {error["field"].split(".")[1] for error in refused.json()["errors"]} == {"0"}


def test_a_long_body_is_read_beside_the_event_loop(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    in_loop: list[bool] = []
    parse = request_body.parse_json

    def noted(raw: bytes, *members: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            in_loop.append(False)
        else:
            in_loop.append(True)
        return parse(raw, *members)

    monkeypatch.setattr(request_body, "parse_json", noted)
    question = {"model": "resnet50", "gpu": "a100", "image_size": 224}
    assert sqlite_client.post("/predict", json=[question] * 2_000).status_code == 200
    run_id = begun(sqlite_client)
    long = {"events": [{"seq": 1, "kind": "note", "at": at(1), "text": "x" * 15_000}] * 5}
    assert sqlite_client.post(f"/runs/{run_id}/events", json=long).status_code == 200
    assert sqlite_client.post("/similar", json={"text": "leaves " * 12_000}).status_code == 200
    assert in_loop == [False, True, False, False]  # the run's own body is short


def test_a_log_of_many_events_is_taken_in_pieces(sqlite_client: TestClient):
    whole = "".join(f"Epoch {n % 3 + 1}/3 loss=0.5\n" for n in range(12_000)).encode()
    by_offset, by_repeating = begun(sqlite_client), begun(sqlite_client)
    taken, pieces = 0, []
    while taken < len(whole):
        answer = sqlite_client.post(f"/runs/{by_offset}/log?offset={taken}", content=whole[taken:]).json()
        taken = answer["offset"]
        pieces.append(answer["accepted"])
    assert sum(pieces) == 12_000
    assert max(pieces) <= run_log.MOST_EVENTS
    path, times = f"/runs/{by_repeating}/log", len(pieces) + 2
    repeated = [sqlite_client.post(path, content=whole).json() for _ in range(times)]
    assert [one["accepted"] for one in repeated] == [*pieces, 0, 0]
    assert repeated[-1]["offset"] == len(whole)
    kept = sqlite_client.get(f"/runs/{by_repeating}/events").text.splitlines()
    assert len(kept) == 12_000


def test_frames_of_bars_are_lines_where_a_piece_of_a_log_ends():
    """Two thousand lines of eighteen frames are not read at once."""
    line = b"\r1:[val\r{0.1" * 18 + b"\n"
    reading, size = run_log._read(2 * run_log.MOST_LINES * line, Context(), final=False)
    assert reading.lines <= run_log.MOST_LINES + run_log.MOST_EVENTS
    assert 0 < size < run_log.MOST_LINES * len(line)


def test_nothing_but_writing_happens_while_a_log_has_the_database(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    """Whoever makes events inside of the transaction makes all other writers wait."""
    run_id, inside = begun(sqlite_client), list[bool]()
    fitting, database = run_log.fitting, sqlite_client.app.state.service.database  # type: ignore[attr-defined]

    def noted(*event: Any) -> Any:
        with database.write_untracked():  # on SQLite it would wait for itself
            inside.append(False)
        return fitting(*event)

    monkeypatch.setattr(run_log, "fitting", noted)
    answer = sqlite_client.post(f"/runs/{run_id}/log", content=b"Epoch 1/3 loss=0.5\n")
    assert (answer.status_code, inside) == (200, [False])


def begun(client: TestClient) -> str:
    run = {"task": "image", "gpu": "a100", "model": "resnet50", "batch_size": 32, "epochs": 3, "folds": 1}
    return str(
        client.post("/runs", json={**run, "n_train": 5_000, "minutes": 30, "started_at": at(0)}).json()[
            "run_id"
        ]
    )


def test_a_second_long_body_of_one_caller_leaves_the_place_to_others():
    service = SimpleNamespace(long_bodies=FewAtOnce(2))

    def of(caller: str) -> Any:
        app = SimpleNamespace(state=SimpleNamespace(service=service))
        request: Any = SimpleNamespace(app=app, scope={"state": {"key_id": caller}})
        return request_body.long_body(request)

    async def enter(caller: str, seconds: float = 30.0) -> bool:
        with move_on_after(seconds):
            async with of(caller):
                return True
        return False

    async def main() -> tuple[bool, bool, bool]:
        async with of("one"):
            again = await asyncio.create_task(enter("one", 0.2))
            other = await asyncio.create_task(enter("another"))
        return again, other, await enter("one")

    assert run(main) == (False, True, True)


def test_long_events_of_one_caller_take_one_place_too():
    service = SimpleNamespace(long_bodies=FewAtOnce(2), settings=SimpleNamespace(max_body_bytes=10**6))
    app = SimpleNamespace(state=SimpleNamespace(service=service))
    body = orjson.dumps({"events": ["x" * request_body.LOOP_BYTES]})

    def of(caller: str) -> Request:
        state = {"key_id": caller, "scopes": {"tell"}}

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        return Request({"type": "http", "headers": [], "state": state, "app": app}, receive)

    async def read(caller: str, seconds: float = 30.0) -> bool:
        with move_on_after(seconds):
            return bool(await request_body.event_object(of(caller)))
        return False

    async def main() -> tuple[bool, bool, bool]:
        async with request_body.long_body(of("one")):
            again = await asyncio.create_task(read("one", 0.2))
            other = await asyncio.create_task(read("another"))
        return again, other, await read("one")

    assert run(main) == (False, True, True)


def test_whoever_waits_for_a_child_process_leaves_the_place_to_others(tmp_path: Path):
    turns, came = FewAtOnce(1), tmp_path / "came"
    workers = Workers("a wait", processes=1, waiting=0, seconds=60.0, mib=512)

    async def main() -> tuple[bool, int]:
        async with create_task_group() as tasks, turns.turn("one"):
            tasks.start_soon(another)
            waited = await to_thread.run_sync(workers.run, _until, came)
            held = turns.limiter.borrowed_tokens
        return waited, held

    async def another() -> None:
        async with turns.turn("another"):
            came.touch()

    assert run(main) == (True, 1)


def test_two_children_of_one_caller_take_its_place_again():
    async def main() -> tuple[float, float]:
        limiter = CapacityLimiter(1)
        place = _Place(limiter)
        await limiter.acquire_on_behalf_of("another")
        with fail_after(60.0):
            async with create_task_group() as tasks:
                tasks.start_soon(place.take)
                tasks.start_soon(place.take)
                await wait_all_tasks_blocked()
                limiter.release_on_behalf_of("another")
        held = limiter.borrowed_tokens
        place.end()
        return held, limiter.borrowed_tokens

    assert run(main) == (1, 0)


def _until(came: Path) -> bool:
    for _ in range(3_000):
        if came.exists():
            return True
        time.sleep(0.01)
    return False


def test_work_that_goes_on_when_its_answer_was_given_up_keeps_only_its_caller_waiting():
    turns, order = FewAtOnce(1, seconds=0.01), list[str]()

    async def take(caller: str) -> None:
        async with turns.turn(caller):
            order.append(caller)

    async def main() -> float:
        async with create_task_group() as tasks, turns.turn("one"):
            tasks.start_soon(take, "one")
            await sleep(0)
            with move_on_after(30.0):
                await take("another")
            order.append("end")
        await take("another")
        return turns.limiter.borrowed_tokens

    assert run(main) == 0
    assert order == ["another", "end", "one", "another"]


def test_pieces_of_files_are_made_one_at_a_time_for_a_caller_and_two_for_all():
    service = SimpleNamespace(files=FewAtOnce(2))
    made: list[str] = []
    most: dict[str, int] = {}

    def pieces(caller: str) -> Iterator[bytes]:
        for _ in range(3):
            made.append(caller)
            most["all"] = max(most.get("all", 0), len(made))
            most[caller] = max(most.get(caller, 0), made.count(caller))
            time.sleep(0.01)  # in a thread
            made.remove(caller)
            yield b"x"

    async def read(caller: str) -> None:
        app = SimpleNamespace(state=SimpleNamespace(service=service))
        request: Any = SimpleNamespace(app=app, scope={"state": {"key_id": caller}})
        file: Any = file_of(request, pieces(caller), "text/csv")
        assert [piece async for piece in file.body_iterator] == [b"x"] * 3

    async def main() -> None:
        async with create_task_group() as tasks:
            for caller in ("one", "one", "one", "two", "three", "four"):
                tasks.start_soon(read, caller)

    run(main)
    assert most == {"all": 2, "one": 1, "two": 1, "three": 1, "four": 1}


def test_a_form_is_read_beside_the_event_loop_too(sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch):
    in_loop: list[bool] = []
    fields = site._fields

    def noted(*form: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            in_loop.append(False)
        else:
            in_loop.append(True)
        return fields(*form)

    monkeypatch.setattr(site, "_fields", noted)
    for text in ("leaves", "leaves " * 12_000):
        form = {"text": f"id,quantity\nfrom-a-form,{text}\n", "step": "look"}
        assert sqlite_client.post("/browse/import/claims", data=form).status_code == 200
    assert sqlite_client.post("/browse/login", data={"key": "none"}).status_code == 401
    assert in_loop == [False, False, False]


def test_whoever_reads_the_answer_to_a_long_form_slowly_holds_no_turn(sqlite_client: TestClient):
    app: Any = sqlite_client.app
    turns = app.state.service.long_bodies.limiter
    unread = [b"step=look&text=id,quantity%0Aslow,%0A" + b"%0A" * 30_000]
    held: list[tuple[int, int]] = []
    media = [(b"content-type", b"application/x-www-form-urlencoded"), (b"host", b"testserver")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/browse/import/claims", "raw_path": b"/browse/import/claims", "query_string": b"",
        "root_path": "", "headers": media, "client": ("testclient", 1), "server": ("testserver", 80),
        "state": {},
    }  # fmt: skip

    async def receive() -> Any:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await sleep_forever()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            held.append((message["status"], turns.borrowed_tokens))

    assert sqlite_client.portal is not None
    sqlite_client.portal.call(app, scope, receive, send)
    assert held == [(200, 0)]


@pytest.mark.parametrize("path", ["/rank", "/predict", "/calibrations", "/compare"])
def test_of_hundreds_of_thousands_of_wrong_values_few_errors_are_made(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
):
    made: list[int] = []
    found_errors = validation_errors.found_errors

    def counted(error: ValidationError) -> Any:
        made.append(len(found := found_errors(error)))
        return found

    monkeypatch.setattr(validation_errors, "found_errors", counted)
    monkeypatch.setattr(request_body, "found_errors", counted)
    row = {f"a{n}": 1 for n in range(38)}
    bodies: dict[str, Any] = {
        "/rank": {"rows": [row] * 9_990},
        "/compare": {"rows": [row] * 9_990},
        "/predict": [row] * 9_990,
        "/calibrations": {
            "id": "0" * 32,
            "sections": {f"s{n}": {f"z{k}": 1 for k in range(150)} for n in range(1_990)},
        },
    }
    body = orjson.dumps(bodies[path])
    began = time.process_time()
    refused = sqlite_client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 422
    assert refused.json()["errors"]
    assert sum(made) <= validation_errors.MOST_FOUND
    assert made, "no list of errors was made past the count"
    assert time.process_time() - began < 1.0, "the errors alone took one to two seconds"


def test_more_questions_than_one_request_may_hold_are_not_checked(sqlite_client: TestClient):
    refused = sqlite_client.post("/predict", json=[1] * 10_001)
    assert refused.status_code == 413, refused.text


@pytest.mark.parametrize("line", [b"a=1 " * 495, b"{'loss': 0.5, " + b"'a': 1, " * 240 + b"}"])
def test_lines_that_take_long_are_read_for_little_more_than_a_second(line: bytes):
    raw = (line[:1_990] + b"\n") * 2_000
    began = time.thread_time()
    _, size = run_log._read(raw, Context(), final=False)
    assert time.thread_time() - began < 2.0 * run_log.MOST_SECONDS
    assert 0 < size < len(raw)
    assert raw[size - 1 : size] == b"\n"


@pytest.mark.parametrize("frame", [b"a\r", b"a\x08\x08", b" \r"])
def test_of_a_million_frames_of_one_line_the_last_is_read_without_cutting_all(frame: bytes):
    began = time.thread_time()
    reading = read_log(b"100%|##| 9/9\r" + frame * 1_000_000 + b"Epoch 1/3 loss=0.5\n", Context())
    assert time.thread_time() - began < 1.0
    assert reading.understood >= 1
    assert any(event.kind == "epoch" for event in reading.events)
    began = time.thread_time()
    assert read_log(frame * 1_000_000 + b"Epoch 2/3 loss=0.5\n", Context()).events
    assert time.thread_time() - began < 0.1, "no pattern goes over them"
