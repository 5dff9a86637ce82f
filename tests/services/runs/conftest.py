"""The seeds on either database, once for a module: reading the knowledge takes longer than any test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory_service.services.database.transactions import Database
from tests.conftest import KINDS, Servers


@pytest.fixture(scope="module", params=KINDS)
def shared(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Database]:
    """A test that looks at what was learned asks about a card or a competition of its own."""
    with servers.opened(str(request.param)) as database:
        yield database
