"""A value of a run, a device or a calibration that is no JSON object costs itself: the row is named, and
every answer that can do without it goes on."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from memory_service.app import create_app
from memory_service.services.database.transactions import Database
from memory_service.services.operations import database as databases
from memory_service.services.runs import retention
from memory_service.settings import load_settings
from tests.conftest import KINDS, Servers
from tests.registered import A100, calibrate, register
from tests.telling import epochs

RUN = {"task": "image", "gpu": "a100", "model": "resnet50", "batch_size": 32, "epochs": 2, "folds": 1,
       "n_train": 5_000, "minutes": 30, "metric": "accuracy"}  # fmt: skip
EVENTS = epochs(0.5, 2, metric=0.7)
END = {"status": "completed", "submission": True, "best_metric": 0.7}
OF_RUNS = {
    "runs": ("waste", "given", "prediction", "summary", "finish", "watch", "exclusion"),
    "observations": ("observation",),
    "outcomes": ("advice", "outcome"),
    "run_advice": ("verdict",),
    "run_logs": ("context",),
    "run_summaries": ("summary",),
    "run_events": ("body",),
}
TEXTS = ("run_summaries", "run_events")
"""Tables whose JSON is kept as text."""
OF_CALIBRATIONS = ("fingerprint", "environment", "sections", "missing", "self_check")
OF_DEVICES = ("fingerprint", "environment")
CUT = {"sqlite": "'{\"cut'", "postgresql": "'7'"}
"""No JSON object: a type of PostgreSQL takes no text that is no JSON."""

EVERYWHERE = (
    "/healthz", "/readyz", "/metrics", "/runs", "/runs?status=completed", "/runs?format=csv", "/gpus",
    "/calibrations", "/calibrations?format=jsonl", "/accuracy",
    "/conflicts", "/gpus/a100", "/gpus/box",
    "/predict?model=resnet50&gpu=a100", "/predict?model=resnet50&gpu=box",
    "/recommend?task=image&size=small&gpu=a100", "/recommend?task=image&size=small&gpu=box",
    "/browse/runs", "/browse/runs?by=gpu", "/browse/devices", "/browse/devices/a100",
    "/browse/devices/box", "/browse/accuracy", "/browse/conflicts", "/browse/techniques", "/browse/choose",
    "/browse/find?q=box", "/browse/models/resnet50.a1_in1k", "/browse/sizing?gpu=a100",
)  # fmt: skip


def named(table: str, column: str, ended: bool = False) -> str:
    """The run, device or calibration whose column is damaged."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{table} {column} {ended}"))


def runs() -> Iterator[tuple[str, str, str]]:
    """(run, table, column): one that goes on and one that ended of each column."""
    for table, columns in OF_RUNS.items():
        for column in columns:
            yield from ((named(table, column, ended), table, column) for ended in (False, True))


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    """Of a database with a run for each column, damaged there, and so devices and calibrations."""
    url = servers.new(request.param, "seeded")
    for client in served(url):
        for run_id, table, column in runs():
            assert client.post("/runs", json={**RUN, "run_id": run_id}).status_code == 201
            tell(client, run_id, EVENTS)
            if run_id == named(table, column, ended=True):
                assert client.post(f"/runs/{run_id}/finish", json=END).status_code == 200
        excluded = client.post(
            f"/runs/{named('runs', 'exclusion', ended=True)}/exclude", json={"why": "a test"}
        )
        assert excluded.status_code == 200
    with Database(url) as database:
        for column in OF_DEVICES:
            card = dataclasses.replace(A100, uuid=f"GPU-{column}")
            register(database, named("devices", column), "a100", card)
            calibrate(database, named("devices", column), "a100", {"matmul.4096.fp32": 15.0}, card)
        register(database, "box", "a100")
        for column in OF_CALIBRATIONS:
            calibrate(database, "box", "a100", {"matmul.4096.fp32": 15.0}, id=named("calibrations", column))
        damage(database, CUT[request.param])
    yield url
    servers.drop(url)


def tell(client: TestClient, run_id: str, events: list[dict[str, Any]]) -> None:
    assert client.post(f"/runs/{run_id}/events", json={"events": events}).status_code == 200
    line, text_plain = b"Epoch 1/3 loss=0.5\n", {"Content-Type": "text/plain"}
    assert client.post(f"/runs/{run_id}/log", content=line, headers=text_plain).status_code == 200


def damage(database: Database, cut: str) -> None:
    changes = [
        (table, column, "id" if table == "runs" else "run_id", run_id) for run_id, table, column in runs()
    ]
    changes += [("devices", column, "name", named("devices", column)) for column in OF_DEVICES]
    changes += [("calibrations", column, "id", named("calibrations", column)) for column in OF_CALIBRATIONS]
    with database.write() as transaction:
        for table, column, key, value in changes:
            what = CUT["sqlite"] if table in TEXTS else cut
            change = f"UPDATE {table} SET {column} = {what} WHERE {key} = '{value}'"
            transaction.session.execute(text(change.replace(":", r"\:")))


def served(url: str) -> Iterator[TestClient]:
    """A client of a new server of the database."""
    app = create_app(load_settings(database_url=url, seed_on_start=False, calibrate=False))
    with TestClient(app) as client:
        state = app.state.service.preparation.wait(120)
        assert state.ready, state
        yield client


def test_the_check_names_each_damaged_row(url: str) -> None:
    with Database(url) as database:
        found = databases.check(database).problems
    columns = [(run_id, table, column) for run_id, table, column in runs() if table not in TEXTS]
    columns += [(named("devices", column), "devices", column) for column in OF_DEVICES]
    columns += [(named("calibrations", column), "calibrations", column) for column in OF_CALIBRATIONS]
    for key, table, column in columns:
        known = [one for one in found if f"{table} {key}" in one and f"{column} is no JSON object" in one]
        # Only ended runs have an observation.
        assert len(known) == (0 if table == "observations" and key == named(table, column) else 1), (
            key,
            table,
        )


def test_no_answer_fails_for_a_damaged_row(url: str) -> None:
    below = {
        ("/calibrations", "/browse/calibrations"): [named("calibrations", each) for each in OF_CALIBRATIONS],
        ("/gpus", "/browse/devices"): [named("devices", each) for each in OF_DEVICES],
        ("/runs", "/browse/runs"): [run_id for run_id, *_ in runs()],
    }
    asked = [
        *EVERYWHERE,
        *(f"{path}/{key}" for paths, keys in below.items() for path in paths for key in keys),
    ]
    asked += [f"/runs/{run_id}/{part}" for run_id, *_ in runs() for part in ("verdict", "events")]
    for client in served(url):
        failed = {path: code for path in asked if (code := client.get(path).status_code) != 200}
        assert failed == {}
        shown = client.get("/readyz").json()["left_out"]
        assert f"devices {named('devices', 'fingerprint')}: fingerprint is no JSON object" in shown
        page = client.get(f"/runs/{named('runs', 'given')}").json()
        assert page["notes"][0] == "Damaged, and read as if it were empty: given."


def test_silent_runs_end_whatever_is_damaged(url: str) -> None:
    with Database(url) as database:
        closed = retention.close_silent(database, now=dt.datetime.now(dt.UTC) + dt.timedelta(days=30))
    assert closed == len([*runs()]) // 2


def test_runs_go_on_and_end_whatever_is_damaged(url: str) -> None:
    for client in served(url):
        for run_id, table, column in runs():
            if run_id == named(table, column):
                tell(client, run_id, [{**EVENTS[1], "seq": 7}])
            assert client.post(f"/runs/{run_id}/finish", json=END).status_code == 200
            for way in ("exclude", "restore") if run_id == named(table, column, ended=True) else ():
                assert client.post(f"/runs/{run_id}/{way}", json={"why": "a test"}).status_code == 200


def test_work_on_all_runs_passes_damaged_ones(url: str) -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=30)
    with Database(url) as database:
        thinned = retention.thin(database, 1.0, now=later)
    assert thinned["runs"] == len([*runs()])
