"""Does everything get from SQLite to PostgreSQL and back, also when the first copy was interrupted?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import select

from memory_service.errors import Conflict
from memory_service.services.access.keys import create_key
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import add_row
from memory_service.services.operations import database as databases
from memory_service.services.tables import table_rows as catalogue
from memory_service.store.queries import passages
from memory_service.store.tables.keys import Base
from tests.conftest import KINDS, Servers
from tests.store.fakes import HashEncoder, competition
from tests.telling import case, epochs, told

Opener = Callable[[str], Database]


@pytest.fixture
def other(servers: Servers, kind: str, opened: Opener) -> Database:
    """A new database of the other kind."""
    return opened(servers.new(next(one for one in KINDS if one != kind), None))


def _rows(database: Database) -> dict[str, Sequence[Any]]:
    found: dict[str, Sequence[Any]] = {}
    with database.read() as unit:
        for table in Base.metadata.sorted_tables:
            plain = [column for column in table.columns if column.name != "embedding"]
            rows = unit.session.execute(select(*plain).order_by(*table.primary_key.columns)).all()
            found[table.name] = [tuple(row) for row in rows]
    return found


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_everything_is_copied_into_the_other_kind_of_database(
    seeded_database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
):
    add_row(
        seeded_database, "competitions", competition(title="Übung 🌿\\N\t"), encoder=HashEncoder, who="ada"
    )
    told(seeded_database, case(), epochs(0.5, train_loss="nan"))
    create_key(seeded_database, "ada", ["admin"], who="ada")
    with monkeypatch.context() as patched:
        patched.setattr(type(other.dialect), "advance_sequences", interrupted)
        with pytest.raises(KeyboardInterrupt):
            databases.copy(seeded_database, other)
    copied = databases.copy(seeded_database, other)
    before = _rows(seeded_database)
    assert _rows(other) == before
    assert copied == {name: len(rows) for name, rows in before.items()}
    assert min(copied[name] for name in ("history", "run_events", "api_keys", "passages", "profiles")) > 0
    assert databases.check(other).problems == ()
    with seeded_database.read() as old, other.read() as new:
        vectors = passages.all_vectors(old.session).vectors
        assert (passages.all_vectors(new.session).vectors == vectors).all()
        assert passages.search_words(new.session, "leaves potted", 5)
    add_row(other, "competitions", competition("after"), encoder=HashEncoder, who="ada")
    with other.read() as unit:
        assert len(catalogue.history_of(unit, "competitions", "after")) == 1
    with pytest.raises(Conflict, match="not empty"):
        databases.copy(seeded_database, other)
