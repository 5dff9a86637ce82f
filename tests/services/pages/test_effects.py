"""What an edit changes in plans: compared within one state of what is known."""

from dataclasses import replace

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages import strategies


def test_plans_are_made_anew_once_more_is_known(
    seeded_sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def planned(_: Database, knowledge: object, __: object) -> tuple[dict[str, object], frozenset[str]]:
        made.append(1)
        return {"epochs": len(made)}, frozenset()

    monkeypatch.setattr(strategies, "_planned", planned)
    knowledge = knowledge_of(seeded_sqlite)
    first = strategies.examples(seeded_sqlite, knowledge)
    assert strategies.examples(seeded_sqlite, knowledge) == first
    learned = replace(knowledge, revision=knowledge.revision + 1)
    assert strategies.examples(seeded_sqlite, learned) != first
