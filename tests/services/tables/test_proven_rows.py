"""Rows of cards and models are priced before they are written, and not again while they stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory_service.errors import InvalidInput
from memory_service.services.database import transactions
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import add_row, correct_row
from memory_service.services.tables import usable_rows
from memory_service.store.queries.rows import all_rows
from tests.api.odd_rows import SHEET
from tests.store.fakes import HashEncoder

CARD = {**SHEET, "slug": "zz-card", "name": "ZZ Card", "tdp_w": 231.0}


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch, seeded_sqlite: Database) -> list[str]:
    """The names that are priced from now on; each time somebody else writes meanwhile."""
    names: list[str] = []
    monkeypatch.setattr(transactions, "WRITER_TURN_SECONDS", 0.5)

    def beside_a_writer(prove: Callable[..., None]) -> Callable[..., None]:
        def call(value: Any, *shipped: Any) -> None:
            with seeded_sqlite.write():
                names.append(value.name)
            prove(value, *shipped)

        return call

    for name in ("prove_gpu", "prove_model"):
        monkeypatch.setattr(usable_rows, name, beside_a_writer(getattr(usable_rows, name)))
    return names


def test_no_writer_waits_for_the_price_of_a_row(seeded_sqlite: Database, priced: list[str]) -> None:
    add_row(seeded_sqlite, "gpus", CARD, encoder=HashEncoder)
    correct_row(seeded_sqlite, "gpus", "zz-card", {"tdp_w": 233.0}, encoder=HashEncoder)
    correct_row(seeded_sqlite, "models", "resnet50.a1_in1k", {"default_input_size": 216}, encoder=HashEncoder)
    assert priced == ["ZZ Card", "ZZ Card", "resnet50.a1_in1k"]


def test_a_row_that_stays_the_same_is_priced_once(seeded_sqlite: Database, priced: list[str]) -> None:
    correct_row(seeded_sqlite, "gpus", "a100", {"tdp_w": 399.0}, encoder=HashEncoder)
    correct_row(seeded_sqlite, "gpus", "a100", {"source": "measured by hand"}, encoder=HashEncoder)
    with seeded_sqlite.read() as transaction:
        usable_rows.usable("gpus", all_rows(transaction.session, "gpus"))
        priced.clear()
        usable_rows.usable("gpus", all_rows(transaction.session, "gpus"))
    assert priced == []


def test_a_row_without_a_price_is_refused_and_nothing_is_written(
    seeded_sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> None:
        raise InvalidInput("no price")

    monkeypatch.setattr(usable_rows, "prove_gpu", refuse)
    before = seeded_sqlite.knowledge_revision()
    with pytest.raises(InvalidInput, match="no price"):
        add_row(seeded_sqlite, "gpus", {**CARD, "tdp_w": 237.0}, encoder=HashEncoder)
    assert seeded_sqlite.knowledge_revision() == before
