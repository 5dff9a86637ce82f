"""Do neighbours come with what their best solutions taught, and with what a person wrote there?"""

from __future__ import annotations

from memory_service.domain.runs.pattern_effect import Tally
from memory_service.services.competitions.similar import lessons_of
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import add_row
from memory_service.services.planning.recommend import recommend
from memory_service.store.queries.outcomes import write_tallies

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


def test_what_runs_ranked_down_is_no_lesson(seeded_database: Database):
    """Neither the very pattern nor any pattern of a competition whose memory did worse than none."""
    note = {"scope": "competition", "competition": SLUG, "kind": "model"}
    for name, statement in {"good": "B5 at 456.", "bad": "B0 at 128."}.items():
        row = {**note, "id": name, "statement": statement}
        add_row(seeded_database, "patterns", row, encoder=lambda: None, who="ada", why="seen")

    def told() -> tuple[str, ...]:
        with seeded_database.read() as transaction:
            return lessons_of(transaction, [SLUG])[SLUG]

    worse = Tally(served=9, followed=9, compared=9, without=9, worse=81, weight=12.0)
    assert worse.demoted
    assert told()[0] == "B0 at 128."
    for subject, left in {"pattern:bad": {"B5 at 456."}, f"competition:{SLUG}": set()}.items():
        with seeded_database.write() as transaction:
            write_tallies(transaction.session, "competition:another", {subject: worse}, transaction.now)
        assert {"B5 at 456.", "B0 at 128."} & set(told()) == left
    assert len(told()) == 3, "what winners wrote stays"


def test_a_plan_tells_the_lessons_of_its_neighbours(seeded_sqlite: Database):
    plan = recommend(seeded_sqlite, {"competition": SLUG, "gpu": "t4"})
    with seeded_sqlite.read() as transaction:
        lessons = lessons_of(transaction, [hit["slug"] for hit in plan["similar"]])
    assert {hit["slug"]: tuple(hit["lessons"]) for hit in plan["similar"]} == lessons
    assert any(lessons.values())
