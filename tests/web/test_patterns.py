"""Does the page of a pattern say how often it was followed, where, and what came of it?"""

from __future__ import annotations

import pytest

from memory_service.errors import NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.knowledge import pattern_page
from memory_service.services.pages.tables import grid_page
from memory_service.services.planning.recommend import recommend
from memory_service.services.tables.table_rows import create_row
from tests.telling import case, epochs, told

SLUG = "dog-breed-identification"


@pytest.fixture
def followed(seeded_database: Database) -> tuple[Database, str]:
    """A database with a run that followed its plan and one that crashed without any; the followed pattern."""
    asked = {"competition": SLUG, "gpu": "a100", "minutes": 30}
    first = recommend(seeded_database, asked)
    key = "as-it-was-planned"
    with seeded_database.write() as unit:
        row = {"id": key, "scope": "competition", "competition": SLUG, "task": first["task"], "kind": "model"}
        advice = {"models": [first["model"]["name"]]}
        create_row(unit, "patterns", row | {"statement": "Train it.", "advice": advice}, who="ada")
    plan = recommend(seeded_database, asked)
    settings = {name: plan[name] for name in ("batch_size", "precision", "folds", "epochs")}
    body = case(plan_id=plan["plan_id"], competition=SLUG, model=plan["model"]["name"], **settings)
    told(seeded_database, body, epochs(0.1), best_metric=0.9, submission=True)
    other = case(competition=SLUG, model="resnet18", batch_size=64)
    told(seeded_database, other, epochs(0.1), status="crashed", submission=False)
    return seeded_database, key


def test_the_page_tells_what_came_of_a_pattern_and_where(followed: tuple[Database, str]):
    database, key = followed
    page = pattern_page(database, key)
    assert page["pattern"]["id"] == key
    assert page["outcomes"]["served"] == 1
    (place,) = page["places"]
    assert (place["competition"], place["compared"], place["without"], place["better"]) == (SLUG, 1, 1, 1)
    assert {row["id"] for row in page["beside"]} == {
        row["id"] for row in knowledge_of(database).patterns if row["competition"] == SLUG
    } - {key}
    listed = grid_page(database, "patterns", {"competition": SLUG})
    assert next(row for row in listed["items"] if row["id"] == key)["outcomes"]["served"] == 1


def test_an_unknown_pattern_names_the_nearest(seeded_sqlite: Database):
    with pytest.raises(NotFound) as refused:
        pattern_page(seeded_sqlite, "image-classification-smal-model")
    assert "image-classification-small-model" in refused.value.errors[0].nearest
