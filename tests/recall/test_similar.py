"""`/similar` finds the competition a text is of, then its kind; says why; and answers without an encoder."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.recall_blind import recognised
from memory_service.errors import InvalidInput, NotFound
from memory_service.recall.encoder import LoadedEncoder
from memory_service.schemas.similar import SimilarQuery, SimilarRequest
from memory_service.schemas.validation_errors import checked
from memory_service.services.competitions.signals import read_text
from memory_service.services.competitions.similar import SimilarAnswer, recall, similar
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database
from tests.recall.conftest import Remembering

ROOT = Path(__file__).parents[2]
SALT = "Mark the salt bodies in seismic images; run-length encoded masks, precision over IoU thresholds."


def ask(database: Database, loaded: LoadedEncoder, **question: Any) -> SimilarAnswer:
    return similar(database, checked(SimilarQuery, question), loaded)


def slugs(answer: SimilarAnswer) -> list[str]:
    return [hit.slug for hit in answer.items]


def test_an_answer_has_the_fields_of_the_contract(known: Database, loaded: LoadedEncoder) -> None:
    answer = ask(known, loaded, text=SALT, limit=3).as_dict()
    assert answer["inferred_task"] == "image-segmentation"
    assert answer["degraded"] is False
    assert len(answer["items"]) == 3
    first = answer["items"][0]
    assert first["slug"] == "tgs-salt-identification-challenge"
    assert set(first) == {"slug", "title", "task", "score", "signals", "why", "lessons"}
    assert set(first["signals"]) == {"embedding", "words", "structure"}
    assert "same task" in first["why"]
    assert "'salt'" in first["why"]
    json.dumps(answer, allow_nan=False)


def test_paraphrases_find_their_competition_and_their_kind(known: Database, loaded: LoadedEncoder) -> None:
    """Every second paraphrase of the held-out half: itself first in 95 of 100, and the task is right."""
    lines = (ROOT / "tests/knowledge/paraphrases.jsonl").read_text().splitlines()
    rows = [
        r for line in lines if (r := json.loads(line))["half"] == "held-out" and r["kind"] == "paraphrase"
    ]
    first, task = [], []
    for row in rows[::2]:
        answer = ask(known, loaded, text=row["text"])
        first.append(answer.items[0].slug == row["slug"])
        task.append(answer.inferred is not None and answer.inferred.task == row["task"])
    assert np.mean(first) >= 0.95
    assert np.mean(task) >= 0.90


def test_neighbours_of_a_competition_share_its_task_where_any_does(known: Database) -> None:
    with known.read() as unit:
        competitions = recall_snapshot(unit).competitions
        tasks = [row["task"] for row in competitions]
        for row in competitions:
            hits = recall(unit, competition=row["slug"], limit=3).hits
            assert hits[0].slug == row["slug"]
            if row["task"] is not None and tasks.count(row["task"]) > 1:
                assert hits[1].task == row["task"]


def test_family_leaves_out_the_competition_and_its_editions(known: Database, loaded: LoadedEncoder) -> None:
    found = slugs(ask(known, loaded, competition="herbarium-2020-fgvc7", mode="family", limit=100))
    assert "herbarium-2020-fgvc7" not in found
    assert "herbarium-2022-fgvc9" not in found
    assert "inaturalist-2019-fgvc6" in found
    assert "tgs-salt-identification-challenge" not in slugs(
        ask(known, loaded, text=SALT, mode="family", limit=100)
    )


def test_blind_has_no_items_and_says_why(known: Database, loaded: LoadedEncoder) -> None:
    answer = ask(known, loaded, text=SALT, mode="blind")
    assert answer.items == ()
    assert "blind" in str(answer.reason)
    assert answer.inferred is not None
    assert answer.inferred.task == "image-segmentation"


def test_without_an_encoder_words_and_structure_answer(known: Database) -> None:
    answer = ask(known, LoadedEncoder(None, "no model here"), text=SALT)
    assert answer.degraded is True
    assert answer.reason == "no model here"
    assert answer.items[0].slug == "tgs-salt-identification-challenge"
    assert answer.items[0].signals["embedding"] is None


def test_a_given_task_overrules_the_text(known: Database, loaded: LoadedEncoder) -> None:
    answer = ask(known, loaded, text="Chest x-rays of hospitals", task="detection")
    assert answer.items[0].task == "object-detection"


def test_both_databases_rank_alike_by_structure(known: Database) -> None:
    with known.read() as unit:
        hits = recall(unit, task="image-segmentation", facts={"n_train": 4000}, limit=4).hits
    assert [hit.task for hit in hits] == ["image-segmentation"] * 4
    assert all(hit.signals["embedding"] is None for hit in hits)


def test_bare_facts_answer_in_about_a_millisecond(known: Database) -> None:
    with known.read() as unit:
        recall(unit, task="image-classification")
        taken = []
        for _ in range(20):
            began = time.process_time()
            recall(unit, task="image-classification", facts={"n_train": 9000, "n_classes": 120})
            taken.append(time.process_time() - began)
    assert min(taken) < 0.01


def test_an_unknown_competition_is_not_found_and_the_nearest_named(
    known: Database, loaded: LoadedEncoder
) -> None:
    with pytest.raises(NotFound) as refused:
        ask(known, loaded, competition="dog-bred-identification")
    assert "dog-breed-identification" in refused.value.errors[0].nearest


def test_a_new_competition_is_found_at_once(servers: Any, kind: str, loaded: LoadedEncoder) -> None:
    from memory_service.store.queries import passages, rows

    url = servers.new(kind, "seeded")
    database = Database(url)
    text = "Count zorbulons in photographs of glass beads"
    assert all(hit.slug != "zorbulons" for hit in ask(database, loaded, text=text).items)
    with database.write() as unit:
        row = {"slug": "zorbulons", "title": "Zorbulons", "description": text, "task": "image-regression"}
        row |= {"source": "test", "grade": "claimed"} | rows.bookkeeping("user", unit.now)
        rows.insert_all(unit.session, "competitions", [row])
        passages.replace(unit.session, "zorbulons", [passages.NewPassage("text", text)])
    assert ask(database, loaded, text=text).items[0].slug == "zorbulons"
    database.close()
    servers.drop(url)


def test_an_empty_database_answers(database: Database, loaded: LoadedEncoder) -> None:
    assert ask(database, loaded, text=SALT).items == ()


def test_a_megabyte_of_text_is_answered(known: Database, loaded: LoadedEncoder) -> None:
    request = SimilarRequest.model_construct(text=SALT + " Nothing else is known of it." * 34_000)
    assert len(similar(known, request, loaded).items) == 5


def test_many_threads_get_the_same_answer(known: Database, loaded: LoadedEncoder) -> None:
    answers: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(slugs(ask(known, loaded, text=SALT))))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6
    assert all(answer == answers[0] for answer in answers)


def test_asking_writes_nothing(known: Database, loaded: LoadedEncoder) -> None:
    before = known.knowledge_revision()
    ask(known, loaded, text=SALT)
    assert known.knowledge_revision() == before


def test_facts_of_a_described_competition_complete_the_text(known: Database, loaded: LoadedEncoder) -> None:
    rows = [json.loads(line) for line in (ROOT / "seeds/competitions.jsonl").read_text().splitlines()]
    row = next(r for r in rows if r["slug"] == "dog-breed-identification")
    answer = ask(known, loaded, text=row["description"])
    assert answer.described == "dog-breed-identification"
    assert answer.inferred is not None
    assert answer.inferred.n_classes == 120
    with known.read() as unit:
        assert recall(unit, competition="dog-breed-identification").described is None


@pytest.mark.parametrize(
    ("known", "name", "most_false", "least_true"),
    [
        ("sqlite", "blind4", 0.0125, 0.95),
        ("sqlite", "blind5", 0.0, 0.9),
        ("sqlite", "blind6", 0.016, 0.92),
        ("sqlite", "blind7", 0.06, 0.95),
        ("postgresql", "blind7", 0.06, 0.95),
    ],
    indirect=["known"],
)
def test_texts_of_other_competitions_are_not_taken_for_stored_ones(
    known: Database, remembering: Remembering, name: str, most_false: float, least_true: float
) -> None:
    """Of 275 texts of others, many deliberately near, at most four; of those stored most are known."""
    with known.read() as unit:
        stored = recall_snapshot(unit).position

        def described(text: str) -> str | None:
            return recall(unit, read=read_text(text, remembering), limit=1).described

        found = recognised(described, stored, name)
    assert found.false_all <= most_false
    assert found.another == 0
    assert found.true >= least_true


def test_words_of_a_field_with_round_figures_are_of_no_competition(
    known: Database, loaded: LoadedEncoder
) -> None:
    text = "Sales of 3000 products in 50 stores, daily for five years; forecast the next 28 days."
    answer = ask(known, loaded, text=text)
    assert answer.described is None
    assert answer.inferred is not None
    assert answer.inferred.task == "time-series-regression"


@pytest.mark.parametrize("text", ["asdf qwer zxcv", "hello"])
def test_a_text_that_says_nothing_is_like_nothing(known: Database, loaded: LoadedEncoder, text: str) -> None:
    answer = ask(known, loaded, text=text)
    assert answer.items == ()
    assert answer.as_dict()["inferred_task"] is None
    assert "nothing alike" in str(answer.reason)
    assert ask(known, loaded, text=text, task="image").items


def test_both_fields_are_named_where_neither_or_each_is_given() -> None:
    for question in ({}, {"text": "a", "competition": "b"}):
        with pytest.raises(InvalidInput) as refused:
            checked(SimilarQuery, question)
        assert {error.field for error in refused.value.errors} == {"text", "competition"}


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"text": " "},
        {"text": "a", "competition": "b"},
        {"text": "a", "limit": 0},
        {"text": "a", "limit": 1.5},
        {"text": "a", "limit": float("nan")},
        {"text": "a", "limit": 1e300},
        {"text": "a", "limit": True},
        {"text": "a", "mode": "closed"},
        {"text": "a", "task": "imge"},
        {"text": "a", "txet": "b"},
        {"text": 7},
    ],
)
def test_a_wrong_question_is_refused_by_field(question: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked(SimilarQuery, question)
    assert refused.value.errors
