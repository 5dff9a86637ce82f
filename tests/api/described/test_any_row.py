"""Whatever row people add, empty or delete, every question is still answered: one row hurts only itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete

from memory_service.schemas.rows import ROW_MODELS
from memory_service.services.tables.table_rows import CORRECTABLE
from memory_service.store.queries.rows import ENTITIES
from tests.api.conftest import serve
from tests.conftest import Servers
from tests.store.fakes import ROWS
from tests.web.paths import PAGES

NAMED_IN_CODE = (
    "gpus/a100", "gpus/a10", "gpus/t4", "gpus/h200", "gpus/cpu", "models/efficientnet_b4.ra2_in1k",
    "models/efficientnet_b3.ra2_in1k", "models/lightgbm", "models/unet/efficientnet_b3",
    "models/bert-base-uncased", "strategies/R06-a100-a10", "strategies/R14-reserve", "strategies/R17-start",
    "strategies/R03-a100-image-224",
)  # fmt: skip

ASKED = (
    "/recommend?task=image&size=small&gpu=h100&minutes=30",
    "/recommend?task=image&n_train=20000&gpu=a100&minutes=60&mode=blind",
    "/recommend?task=tabular&size=medium&gpu=t4&minutes=20",
    "/recommend?task=text&size=small&gpu=testcard&minutes=30",
    "/predict?model=resnet50&image_size=224&gpu=h100&precision=bf16&batch_size=32",
    "/predict?model=testnet&image_size=224&gpu=a100&precision=fp16",
    "/similar?text=count+the+leaves+of+potted+plants",
    "/metrics",
)


AS_OTHERS = ("/browse/sizing.csv", "/browse/sizing.jsonl", "/browse/sizing.xlsx")
"""The rows of `/browse/sizing.parquet`, which asks most of them: seconds each."""


@pytest.fixture
def fresh(servers: Servers) -> Iterator[TestClient]:
    yield from serve(servers, "sqlite")


def key_of(row: dict[str, Any]) -> str:
    return next(str(row[name]) for name in ("slug", "name", "id") if name in row)


def broken(client: TestClient) -> list[str]:
    """The questions that are answered 5xx; every GET route is asked, once."""
    paths = {page.path for page in PAGES} | set(ASKED)
    for route in client.app.state.routes:  # type: ignore[attr-defined]
        if "GET" in route.methods and not route.path.endswith("/events"):
            paths.add(re.sub(r"\{[^}]*\}", "testnet", route.path))
            paths.add(re.sub(r"\{[^}]*\}", "h100", route.path))
    out = []
    for path in sorted(paths.difference(AS_OTHERS)):
        status = client.get(path).status_code
        if status >= 500:
            out.append(f"{path}: {status}")
    for body in ({"model": "resnet50", "gpu": "h100"}, {"model": "testnet", "gpu": "testcard"}):
        status = client.post("/predict", json=[body]).status_code
        if status >= 500:
            out.append(f"POST /predict {body}: {status}")
    run = {"task": "image", "gpu": "h100", "model": "resnet50", "batch_size": 32, "precision": "bf16"}
    status = client.post(
        "/runs", json={**run, "folds": 1, "epochs": 2, "n_train": 5000, "minutes": 5}
    ).status_code
    return out if status < 500 else [*out, f"POST /runs: {status}"]


def prepared(client: TestClient) -> None:
    client.post("/competitions", json=ROWS["competitions"]())


def of_kind(table: str, number: int) -> dict[str, Any]:
    row = ROWS[table]()
    if table == "solutions":
        return {**row, "rank": number + 2}
    key = next(name for name in ("slug", "name", "id") if name in row)
    return {**row, key: f"{row[key]}-{number}"}


@pytest.mark.slow
def test_no_field_left_out_or_emptied_breaks_a_route(fresh: TestClient):
    prepared(fresh)
    for table in CORRECTABLE:
        stored = fresh.get(f"/{table}?limit=100").json()["items"]
        for number, field in enumerate(ROW_MODELS[table].model_fields):
            row = of_kind(table, number)
            path = f"/{table}/{quote(str(key_of(stored[number])))}"
            values: list[dict[str, Any]] = [
                {},
                {field: None},
                {field: []},
                {field: {}},
                {field: 0},
                {field: ""},
            ]
            for value in values[number % 2 :: 2]:  # the others of the next field
                left = {name: each for name, each in row.items() if name != field} | value
                added = fresh.post(f"/{table}", json=left).status_code
                assert added in (201, 400, 409, 422), (table, field, value)
                patched = fresh.patch(path, json=value).status_code
                assert patched in (200, 409, 422), (table, field, value)
    assert broken(fresh) == []


@pytest.mark.slow
def test_a_row_that_code_names_can_be_deleted(fresh: TestClient):
    prepared(fresh)
    gone = {path for path in NAMED_IN_CODE if fresh.delete(f"/{path}").status_code == 204}
    assert gone == set(NAMED_IN_CODE)
    assert broken(fresh) == []


@pytest.mark.slow
def test_tables_without_rows_break_no_route(fresh: TestClient):
    """One after the other: the rows that others rest on (competitions) after those."""
    database = fresh.app.state.service.database  # type: ignore[attr-defined]
    for table in ("gpus", "models", "patterns", "solutions", "strategies", "claims", "competitions"):
        first = fresh.get(f"/{table}?limit=1").json()["items"][0]
        assert fresh.delete(f"/{table}/{quote(str(key_of(first)))}").status_code == 204
        with database.write() as transaction:  # the thousand others at once
            transaction.session.execute(delete(ENTITIES[table]))
        assert fresh.get(f"/{table}").json()["items"] == []
        if table in ("gpus", "competitions"):
            assert broken(fresh) == []


@pytest.mark.parametrize("epochs", ["²", "9" * 30, "٣", "-3", "8-12"])
def test_a_claim_of_odd_epochs_breaks_no_list_of_conflicts(sqlite_client: TestClient, epochs: str):
    assert sqlite_client.patch("/claims/C42", json={"epochs": epochs}).status_code in (200, 422)
    assert sqlite_client.get("/conflicts").status_code == 200
