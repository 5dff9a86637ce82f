"""Do neighbours come with what their best solutions taught, and with what a person wrote there?"""

from __future__ import annotations

from memory_service.services.competitions.lessons import lessons_of
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import add_row
from memory_service.services.planning.recommend import recommend

SLUG = "aptos2019-blindness-detection"


def test_one_sentence_of_each_kind_comes_first_and_a_persons_own_before_all(seeded_database: Database):
    with seeded_database.read() as transaction:
        (shipped,) = lessons_of(transaction, [SLUG]).values()
        assert lessons_of(transaction, []) == {}
    assert len(shipped) == len(set(shipped)) == 3
    note = {
        "id": "mine",
        "scope": "competition",
        "competition": SLUG,
        "kind": "model",
        "statement": "B5 at 456.",
    }
    add_row(seeded_database, "patterns", note, encoder=lambda: None, who="ada", why="seen")
    with seeded_database.read() as transaction:
        (told,) = lessons_of(transaction, [SLUG]).values()
    assert told == ("B5 at 456.", *shipped[:2])


def test_a_plan_tells_the_lessons_of_its_neighbours(seeded_sqlite: Database):
    plan = recommend(seeded_sqlite, {"competition": SLUG, "gpu": "t4"})
    with seeded_sqlite.read() as transaction:
        lessons = lessons_of(transaction, [hit["slug"] for hit in plan["similar"]])
    assert {hit["slug"]: tuple(hit["lessons"]) for hit in plan["similar"]} == lessons
    assert any(lessons.values())
