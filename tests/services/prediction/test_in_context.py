"""Networks of tables in context take as many rows as they were made for, by both doors."""

from __future__ import annotations

import pytest

from memory_service.errors import InvalidInput
from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend
from memory_service.services.prediction.predict import predict

ASKED = {"model": "tabpfn-v2", "gpu": "t4"}


def test_more_rows_than_the_network_was_made_for_are_refused_by_both(seeded_sqlite: Database) -> None:
    assert predict(seeded_sqlite, {**ASKED, "n_train": 5_000, "n_features": 20})["fits"]
    with pytest.raises(InvalidInput, match="at most 10,000 rows"):
        predict(seeded_sqlite, {**ASKED, "n_train": 500_000, "n_features": 20})
    tables = {**ASKED, "task": "tabular-classification", "n_features": 20}
    assert recommend(seeded_sqlite, {**tables, "n_train": 500})["feasible"]
    assert not recommend(seeded_sqlite, {**tables, "n_train": 500_000})["feasible"]


def test_a_network_in_context_needs_its_weights(seeded_sqlite: Database) -> None:
    asked = {**ASKED, "task": "tabular-classification", "n_features": 20, "n_train": 500}
    assert not recommend(seeded_sqlite, {**asked, "weights": "none"})["feasible"]
