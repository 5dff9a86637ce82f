"""What an edit changes in plans: compared within one state of what is known."""

from dataclasses import replace

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages import strategies
from memory_service.services.pages.tables import grid_page


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


def test_the_list_waits_for_no_example_plan(seeded_sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(*_: object) -> tuple[dict[str, object], frozenset[str]]:
        assert waited, "the first view makes no plan"
        return {}, frozenset({"R14-reserve"})

    monkeypatch.setattr(strategies, "_planned", planned)
    monkeypatch.setattr(strategies, "_state", lambda _: "of no other test")
    waited, quickly = False, {"counted": "no"}
    told = {row["id"]: row for row in strategies.rows(seeded_sqlite, quickly)}
    assert (told["R14-reserve"]["use"], told["R14-reserve"]["read_by"]) == (None, None)
    assert {row["use"] for row in told.values()} == {None, "informs", "rejected"}
    waited = True
    of_use = strategies.rows(seeded_sqlite, quickly | {"use": "read by plans"})
    assert of_use == strategies.rows(seeded_sqlite, {})
    old = grid_page(seeded_sqlite, "strategies", {"use": "drives plans"})
    assert [row["id"] for row in old["items"]] == ["R14-reserve"]
    waited = False
    assert strategies.rows(seeded_sqlite, quickly) == of_use, "what is known is said"
    assert {row["use"] for row in of_use if row["read_by"]} == {"read by plans"}


def test_plans_that_only_a_changed_row_would_drive_are_counted_before_it_is_saved(
    seeded_sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge = knowledge_of(seeded_sqlite)

    def planned(_: Database, known: object, __: object) -> tuple[dict[str, object], frozenset[str]]:
        return {}, frozenset() if known is knowledge else frozenset({"R14-reserve"})

    monkeypatch.setattr(strategies, "_planned", planned)
    monkeypatch.setattr(strategies, "_state", lambda known: ("of this test alone", known is knowledge))
    changed = {"R14-reserve": {"value": {"reserve_percent": 20}}}
    effect = strategies.effect_on_plans(seeded_sqlite, knowledge, changed)
    assert effect["read_by"] == effect["of"]


def test_a_sentence_and_values_that_part_are_named_whichever_was_changed(
    seeded_sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategies, "_planned", lambda *_: ({}, frozenset()))
    knowledge, key = knowledge_of(seeded_sqlite), "R03-a10-image-224"
    row = next(each for each in knowledge.strategies if each["id"] == key)
    values = {"value": {"batch_size": 96, "raise_to_if_it_fits": 160}}
    sentence = {"statement": row["statement"].replace("128", "96").replace("192", "160")}
    for changed, stale in (
        (values, {key: ["128", "192"]}),
        (sentence, {key: ["96", "160"]}),
        (values | sentence, {}),
    ):
        effect = strategies.effect_on_plans(seeded_sqlite, knowledge, {key: changed})
        assert effect["stale"] == stale, changed
