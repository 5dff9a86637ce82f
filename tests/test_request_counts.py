"""What a request costs in counts that no busy machine changes: SQL statements, and texts encoded.

A bound is what was counted when it was committed. More is a regression; fewer, a reason to lower it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from benchmarks.events import BEGIN, events
from memory_service.app import create_app
from memory_service.recall.encoder import load_encoder
from memory_service.settings import load_settings
from memory_service.store.session import Statements
from tests.conftest import KINDS, Servers

OF_ITS_OWN = {"retention", "keyring", "preparation", "late"}
"""Threads that work whether anybody asks or not, or behind the answer."""

PLAN = "/recommend?task=image&size=medium&gpu=a100&minutes="


@dataclass
class Counted:
    """A service, and what it did since `begin`."""

    client: TestClient
    statements: int = 0
    texts: int = 0

    def begin(self) -> None:
        self.statements = self.texts = 0


@pytest.fixture(params=KINDS)
def counted(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Counted]:
    url = servers.new(str(request.param), "seeded")
    app = create_app(load_settings(database_url=url, seed_on_start=False, calibrate=False))
    with TestClient(app) as client, pytest.MonkeyPatch.context() as patch:
        service = app.state.service
        assert service.preparation.wait(300).ready
        found = Counted(client)

        def count(*_: object) -> None:
            found.statements += threading.current_thread().name not in OF_ITS_OWN

        event.listen(service.database.engine, "before_cursor_execute", count)
        run, rows = Statements.run, Statements.rows
        encoder = load_encoder().encoder
        assert encoder is not None
        compute = encoder._compute

        def counted_run(self: Statements, statement: str) -> None:
            count()
            run(self, statement)

        def counted_rows(self: Statements, query: str, values: tuple[object, ...] = ()) -> object:
            count()
            return rows(self, query, values)

        def counted_texts(texts: list[str]) -> object:
            found.texts += len(texts)
            return compute(texts)

        patch.setattr(Statements, "run", counted_run)
        patch.setattr(Statements, "rows", counted_rows)
        patch.setattr(encoder, "_compute", counted_texts)
        yield found
    servers.drop(url)


def test_no_request_makes_more_statements_or_encodes_more_than_it_did(counted: Counted) -> None:
    client, run_id, other = counted.client, str(uuid.uuid4()), str(uuid.uuid4())
    said = [{"seq": n, **one} for n, one in enumerate(events(100))]
    for key in (run_id, other):
        assert client.post("/runs", json={"run_id": key, **BEGIN}).status_code == 201
    client.post(f"/runs/{other}/events", json={"events": said})
    client.get(PLAN + "30")
    requests: dict[str, Callable[[], Any]] = {
        "plan asked before": lambda: client.get(PLAN + "30"),
        "plan not asked before": lambda: client.get(PLAN + "31"),
        "similar": lambda: client.post("/similar", json={"text": "Photos of dogs, one breed each of 120."}),
        "predict": lambda: client.get("/predict?model=resnet50&gpu=a100&batch_size=77"),
        "one event": lambda: client.post(f"/runs/{run_id}/events", json={"events": said[:1]}),
        "ninety-nine events": lambda: client.post(f"/runs/{run_id}/events", json={"events": said[1:]}),
        "verdict": lambda: client.get(f"/runs/{run_id}/verdict"),
        "finish": lambda: client.post(f"/runs/{run_id}/finish", json={"status": "completed"}),
        "plan after a run ended": lambda: client.get(PLAN + "30"),
        "page of runs": lambda: client.get("/browse/runs"),
        "page of models": lambda: client.get("/browse/models"),
    }
    found = {}
    for name, ask in requests.items():
        counted.begin()
        answer = ask()
        assert answer.is_success, (name, answer.text[:300])
        found[name] = (counted.statements, counted.texts)
    over = {name: (counts, BOUNDS[name]) for name, counts in found.items() if any(
        count > bound for count, bound in zip(counts, BOUNDS[name], strict=True)
    )}  # fmt: skip
    assert not over, f"more than the bounds: {over}; all: {found}"


BOUNDS = {
    "plan asked before": (0, 0),
    "plan not asked before": (0, 0),
    "similar": (11, 1),
    "predict": (0, 0),
    "one event": (16, 0),
    "ninety-nine events": (8, 0),
    "verdict": (4, 0),
    "finish": (62, 0),  # 48 of the run, and its place counted in transactions of their own
    "plan after a run ended": (0, 0),
    "page of runs": (13, 0),
    "page of models": (4, 0),
}
"""Request -> (SQL statements, texts encoded). A glance at the revision is not counted: every request makes
one. Events with an epoch of 5 s and more get a verdict anew, and the list of runs that of each running run
that was advised. What a run taught is read anew (9 statements) by its end or by the next plan, whichever
comes first."""
