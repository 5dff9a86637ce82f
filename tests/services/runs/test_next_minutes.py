"""Does a run say what the minutes that it leaves would buy, as the planner computes it?"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from memory_service.schemas.recommend import RecommendBody
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend
from memory_service.services.runs.runs import begin_run, finish_run, run_page
from memory_service.services.runs.verdicts import run_verdict
from tests.telling import take_events

ASKED = {"task": "image", "n_train": 20_000, "n_classes": 12, "gpu": "a100", "minutes": 60}
BEGUN = dt.datetime(2026, 11, 1, 12, 0, tzinfo=dt.UTC)


def told(
    database: Database, plan: dict[str, Any] | None, lasted: float, status: str | None, **facts_too: float
) -> str:
    """A run of the plan's main model, whose events span so many minutes, ended where `status` says."""
    facts = {"task": "image", "gpu": "a100", "model": "resnet50", "minutes": 60}
    key = str(uuid.uuid4())
    start = {
        "run_id": key,
        "started_at": BEGUN.isoformat(),
        **({"plan": plan} if plan else facts),
        **facts_too,
    }
    begin_run(database, start)
    moment = BEGUN + dt.timedelta(minutes=lasted)
    epoch = {"fold": 0, "epoch": 0, "seconds": 60.0 * lasted - 10.0, "metric": 0.8}
    take_events(database, key, {"events": [{"seq": 0, "kind": "epoch", "at": moment.isoformat(), **epoch}]})
    if status is not None:
        finish_run(database, key, {"status": status, "at": moment.isoformat(), "submission": True})
    return key


def test_who_stops_early_is_told_how_much_is_left_what_it_buys_and_plans_it_in_one_call(
    seeded_sqlite: Database,
) -> None:
    plan = recommend(seeded_sqlite, ASKED)
    page = run_page(seeded_sqlite, told(seeded_sqlite, plan, 12.0, "completed"))
    found = page["next_minutes"]
    assert found["left"] == 48.0
    assert found["used_percent"] == 20.0
    codes = [each["code"] for each in found["says"]]
    assert codes[0] == "stopped-early"
    assert found["says"][0]["text"].startswith("It ended at 20 % of its budget")
    assert codes[-1] == "plan-the-rest"
    after = recommend(seeded_sqlite, checked(RecommendBody, {**ASKED, **found["ask"]}).to_domain())
    first = found["buys"][0]
    assert first["points"] == max(run["expected_gain"] for run in after["portfolio"])
    assert first["set"]["model"] in {run["model"] for run in after["portfolio"]}
    assert after["minutes"] + sum(each["minutes"] for each in found["ask"]["done"]) == 60.0


def test_minutes_that_only_the_text_says_are_no_more_than_it_says(seeded_sqlite: Database) -> None:
    asked = {"description": "Classify 20000 images of 12 classes on an A100 in 20 minutes", "gpu": "a100"}
    plan = recommend(seeded_sqlite, asked)
    assert plan["minutes"] == 20.0
    found = run_page(seeded_sqlite, told(seeded_sqlite, plan, 19.6, "completed"))["next_minutes"]
    assert found["ask"] is None


def test_a_run_that_used_its_minutes_buys_nothing(seeded_sqlite: Database) -> None:
    plan = recommend(seeded_sqlite, ASKED)
    found = run_page(seeded_sqlite, told(seeded_sqlite, plan, 59.8, "completed"))["next_minutes"]
    assert found["buys"] == []
    assert [each["code"] for each in found["says"]] == ["minutes-used"]


def test_a_verdict_has_the_clock_too_and_without_a_plan_only_the_clock(seeded_sqlite: Database) -> None:
    key = told(seeded_sqlite, None, 12.0, "stopped")
    judged = run_verdict(seeded_sqlite, key)
    assert judged is not None
    found = judged["next_minutes"]
    assert found == run_page(seeded_sqlite, key)["next_minutes"]
    assert (found["buys"], found["ask"]) == ([], None)
    assert [each["code"] for each in found["says"]] == ["stopped-early"]


def test_a_run_that_goes_on_says_what_is_left_at_its_end(seeded_sqlite: Database) -> None:
    plan = recommend(seeded_sqlite, ASKED)
    found = run_page(seeded_sqlite, told(seeded_sqlite, plan, 12.0, None))["next_minutes"]
    assert found["says"][0]["code"] == "minutes-left"
    assert found["left_at_end"] <= found["left"]


def test_a_run_that_was_killed_used_the_minutes_after_its_last_report_too(seeded_sqlite: Database) -> None:
    key = told(seeded_sqlite, None, 12.0, None)
    end = BEGUN + dt.timedelta(minutes=60)
    finish_run(seeded_sqlite, key, {"status": "timed_out", "at": end.isoformat()})
    found = run_page(seeded_sqlite, key)["next_minutes"]
    assert found["left"] == 0.0
    assert [each["code"] for each in found["says"]] == ["minutes-used"]


def test_a_script_that_goes_on_through_models_by_itself_is_sold_none(seeded_sqlite: Database) -> None:
    plan = recommend(seeded_sqlite, ASKED)
    assert run_page(seeded_sqlite, told(seeded_sqlite, plan, 2.0, None))["next_minutes"]["buys"]
    searching = told(seeded_sqlite, plan, 2.0, None, reserve_minutes=1.0)
    assert run_page(seeded_sqlite, searching)["next_minutes"]["buys"] == []


def test_a_run_with_less_minutes_than_its_plan_is_sold_what_fits_its_own(seeded_sqlite: Database) -> None:
    plan = recommend(seeded_sqlite, ASKED)
    short = run_page(seeded_sqlite, told(seeded_sqlite, plan, 12.0, "completed", minutes=12.1))[
        "next_minutes"
    ]
    assert [each["code"] for each in short["says"]] == ["minutes-used"]
    some = run_page(seeded_sqlite, told(seeded_sqlite, plan, 12.0, "completed", minutes=20))["next_minutes"]
    assert all(one["minutes"] <= some["left"] for one in some["buys"])
