"""A damaged row, vector or file is named and left out; everything else goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from memory_service.app import create_app
from memory_service.errors import InvalidInput, Unavailable
from memory_service.services.database.transactions import Database
from memory_service.services.operations import database as databases
from memory_service.settings import load_settings
from memory_service.store import migrations
from memory_service.store.queries.passages import all_vectors, cut_vectors
from tests.conftest import Servers

LAYERS = '{"model_type": "qwen2", "figures": {"num_hidden_layers": "a"}}'
FIRST = "(SELECT min(id) FROM"
BROKEN = {
    "models": (
        "UPDATE models SET quality = '{\"top', version = 2 WHERE name = 'resnet18.a1_in1k'",
        "quality is no JSON",
    ),
    "strategies": (f"UPDATE strategies SET value = 'odd' WHERE id = {FIRST} strategies)", "value is no JSON"),
    "patterns": (f"UPDATE patterns SET advice = '[' WHERE id = {FIRST} patterns)", "advice is no JSON"),
    "gpus": ("UPDATE gpus SET tdp_w = 0 WHERE slug = 'v100'", "gpus v100"),
}  # fmt: skip


@pytest.fixture
def file(servers: Servers) -> Iterator[Path]:
    url = servers.new("sqlite", "seeded")
    yield Path(url.removeprefix("sqlite:///"))
    servers.drop(url)


def change(file: Path, *statements: str) -> None:
    with sqlite3.connect(file) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("UPDATE knowledge SET revision = revision + 1")
    connection.close()


def problems(file: Path) -> tuple[str, ...]:
    with Database(f"sqlite:///{file}") as database:
        return databases.check(database).problems


def test_rows_that_cannot_be_used_cost_themselves_and_are_named(file: Path) -> None:
    no_price = f"UPDATE models SET config = '{LAYERS}' WHERE name = 'qwen1.5-14b'"
    change(file, no_price, *(statement for statement, _ in BROKEN.values()))
    found = problems(file)
    for table, (_, why) in BROKEN.items():
        assert any(table in one and why in one for one in found), (table, found)
    settings = load_settings(database_url=f"sqlite:///{file}", seed_on_start=False, calibrate=False)
    app = create_app(settings)
    with TestClient(app) as client:
        assert app.state.service.preparation.wait(300).ready
        assert client.get("/predict?model=resnet50&gpu=a100").status_code == 200
        assert client.get("/recommend?task=image&size=small&gpu=t4&model=resnet50").status_code == 200
        assert client.get("/predict?model=resnet50&gpu=v100").status_code == 422
        ready = client.get("/readyz")
        assert ready.status_code == 200
        named = " ".join(ready.json()["left_out"])
        assert all(table in named for table in (*BROKEN, "models qwen1.5-14b: config")), named
        assert client.get("/browse/strategies").status_code == 200


def test_damaged_vectors_are_named_and_encoded_anew(file: Path) -> None:
    change(file, "UPDATE passages SET embedding = x'0102', encoder = 'an encoder' WHERE id IN (1, 2)")
    assert any("2 passages have a damaged vector (1, 2)" in one for one in problems(file))
    with Database(f"sqlite:///{file}") as database, database.read() as unit:
        assert cut_vectors(unit.session) == [1, 2]
        assert {1, 2}.isdisjoint(all_vectors(unit.session).ids)


def test_a_database_of_a_newer_program_is_said_to_be_one(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    (found,) = [one for one in problems(file) if "revision" in one]
    assert (
        found
        == f"stands at revision 9999, not {migrations.head()}: a newer program made it: upgrade the program"
    )


def test_a_file_that_was_emptied_is_not_filled_again_in_silence(tmp_path: Path) -> None:
    file = tmp_path / "memory.sqlite3"
    file.touch()
    (tmp_path / "memory.sqlite3.0012.20260101.backup").write_bytes(b"what it held")
    with Database(f"sqlite:///{file}") as database, pytest.raises(Unavailable, match="it was a database"):
        databases.require_head(database)
    assert file.stat().st_size == 0


def test_an_empty_file_that_never_was_one_becomes_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "new.sqlite3"
    file.touch()
    with Database(f"sqlite:///{file}") as database:
        assert databases.require_head(database) is not None
    assert "was a file of 0 bytes" in caplog.text


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
def test_an_index_of_an_expression_is_named_and_not_restored(file: Path, tmp_path: Path) -> None:
    change(file, "CREATE INDEX evil ON api_keys (lower(name))")
    assert "index evil is not this service's" in problems(file)
    fresh = Database(f"sqlite:///{tmp_path / 'fresh.sqlite3'}")
    with fresh, pytest.raises(InvalidInput, match="index evil"):
        databases.restore(fresh, file)
