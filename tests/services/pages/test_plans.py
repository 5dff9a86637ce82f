"""The loop closes: a plan knows its runs, a run its plan, and what is left is planned from there."""

from __future__ import annotations

import datetime as dt

import pytest

from memory_service.domain.planning.explanation.plan_text import plan_markdown
from memory_service.errors import NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.ask import ask_page
from memory_service.services.pages.plans import asked_of, plan_page, rest_of_run
from memory_service.services.pages.runs import one_run_page
from memory_service.services.planning.plan_cache import PlanCache
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import question_of, recommend
from memory_service.services.runs.runs import begin_run, finish_run, run_page

NOW = dt.datetime(2030, 1, 2, tzinfo=dt.UTC)
ASKED = {"task": "image", "size": "medium", "gpu": "a100", "minutes": "60", "n_classes": "5"}


def test_a_plan_knows_its_question_and_the_runs_that_followed_it(seeded_database: Database) -> None:
    database = seeded_database
    plan = recommend(database, ASKED)
    page = plan_page(database, plan["plan_id"], NOW)
    assert (page["plan"], page["runs"], page["again"]) == (plan, [], None)
    assert page["asked"] == {**ASKED, "task": "image-classification"}
    assert recommend(database, page["asked"])["plan_id"] == plan["plan_id"]
    run = begin_run(database, {"plan_id": plan["plan_id"], "started_at": "2030-01-01T00:00:00Z"})[0]["run_id"]
    shown = one_run_page(database, knowledge_of(database), run, NOW)
    assert shown["timetable"] == plan["timetable"]
    finish_run(database, run, {"status": "completed", "best_metric": 0.9, "at": "2030-01-01T00:10:00Z"})
    page = plan_page(database, plan["plan_id"], NOW)
    assert [(each["id"], each["best_metric"]) for each in page["runs"]] == [(run, 0.9)]
    rest = rest_of_run(database, run)
    page = plan_page(database, rest, NOW)
    question = question_of(database, rest)
    assert question is not None
    assert page["rest_of"] == plan["plan_id"]
    assert question.done[-1].minutes == 10
    assert page["plan"]["minutes"] == pytest.approx(60 - sum(run.minutes for run in question.done))


def test_a_plan_that_was_forgotten_is_known_from_its_runs(seeded_database: Database) -> None:
    database = seeded_database
    plan = recommend(database, {**ASKED, "description": "Which of five plants is on a photo?"})
    run = begin_run(database, {"plan_id": plan["plan_id"]})[0]["run_id"]
    cache = database.caches.of(PlanCache)
    cache._answers.clear()
    cache._plans.clear()
    cache._asked.clear()
    assert question_of(database, plan["plan_id"]) is None
    page = plan_page(database, plan["plan_id"], NOW)
    assert page["asked"]["description"] == "Which of five plants is on a photo?"
    known = page["plan"]["plan_id"] if page["plan"] else page["again"]
    assert known is not None
    assert [each["id"] for each in page["runs"]] == [run]
    with pytest.raises(NotFound):
        plan_page(database, "plan-0123456789ab", NOW)


def test_a_run_of_a_plan_for_a_competition_belongs_to_it(seeded_database: Database) -> None:
    slug = "dog-breed-identification"
    plan = recommend(seeded_database, {"competition": slug, "gpu": "a100"})
    run = begin_run(seeded_database, {"plan_id": plan["plan_id"]})[0]["run_id"]
    assert run_page(seeded_database, run)["competition"] == slug


def test_a_question_that_is_asked_again_says_nothing_that_was_not_said(seeded_database: Database) -> None:
    plan = recommend(seeded_database, {"task": "tabular", "n_train": "20000", "gpu": "cpu"})
    question = question_of(seeded_database, plan["plan_id"])
    assert question is not None
    assert asked_of(question) == {"gpu": "cpu", "task": "tabular-classification", "n_train": "20000"}


TABLE = {"task": "tabular", "gpu": "cpu", "minutes": "3", "n_train": "2000", "n_features": "10"}


def test_a_script_that_uses_all_minutes_is_not_judged_by_its_first_part(seeded_database: Database) -> None:
    database = seeded_database
    plan = recommend(database, TABLE)
    (said,) = [each for each in plan["warnings"] if each["code"] == "script-uses-all"]
    assert said["values"]["end"] == pytest.approx(0.97 * 3)
    for text in (plan_script(plan).partition('"""\nimport')[0], plan_markdown(plan)):
        assert "the planned model, which the script fits first" in " ".join(text.split())
        assert "planned model in all" in " ".join(text.split())
    begun = {"plan_id": plan["plan_id"], "reserve_minutes": 0.12, "started_at": "2030-01-01T00:00:00Z"}
    run = begin_run(database, begun)[0]["run_id"]
    finish_run(database, run, {"status": "completed", "at": "2030-01-01T00:02:54Z"})
    page = run_page(database, run)
    assert page["prediction"].get("total_minutes") is None
    assert "total_minutes" not in {each["quantity"] for each in page["comparison"]}
    assert "used all minutes on many models" in " ".join(page["learned"])


def test_a_processor_of_a_text_has_no_size_that_the_text_does_not_say(seeded_sqlite: Database) -> None:
    asked = {"description": "Classify rows of customers, 4000 rows, AUC. CPU only.", "minutes": "10"}
    facts = ask_page(seeded_sqlite, knowledge_of(seeded_sqlite), asked)["facts"]
    (card,) = [fact for fact in facts if fact["field"] == "gpu"]
    assert (card["value"], card["from"]) == ("CPU", "text")
