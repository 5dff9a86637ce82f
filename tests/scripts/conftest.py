"""One fork server and one set of plans and data for each worker of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory_service.services.database.transactions import Database
from tests.conftest import Servers
from tests.scripts.harness.runner import Forks
from tests.scripts.harness.workshop import Workshop


@pytest.fixture(scope="session")
def workshop(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    forks = Forks()
    forks.start()
    url = servers.new("sqlite", "seeded")
    database = Database(url)
    yield Workshop(tmp_path_factory.mktemp("scripts"), database, forks)
    forks.close()
    database.close()
    servers.drop(url)
