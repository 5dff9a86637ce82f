"""The application over a seeded database of either kind, prepared as a server prepares it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from memory_service.app import create_app
from memory_service.settings import load_settings
from tests.conftest import KINDS, Servers


@pytest.fixture(scope="module", params=KINDS)
def client(request: pytest.FixtureRequest, servers: Servers) -> Iterator[TestClient]:
    """A client of a ready application; the module's tests share its database."""
    yield from serve(servers, str(request.param))


@pytest.fixture(scope="module")
def sqlite_client(servers: Servers) -> Iterator[TestClient]:
    """The same on the embedded database only."""
    yield from serve(servers, "sqlite")


def serve(servers: Servers, kind: str) -> Iterator[TestClient]:
    url = servers.new(kind, "seeded")
    app = create_app(load_settings(database_url=url, seed_on_start=False, calibrate=False))
    with TestClient(app) as client:
        state = app.state.service.preparation.wait(300)
        assert state.ready, state
        yield client
    servers.drop(url)
