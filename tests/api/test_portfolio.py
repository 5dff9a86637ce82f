"""What are all the minutes for, and how does one go on when a run was over early or late?"""

from __future__ import annotations

import ast
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.answers import warnings_of

ASKED: dict[str, str | int] = {"task": "image", "n_train": 24000, "gpu": "t4", "minutes": 60, "cpu_count": 4}


def asked(client: TestClient, **more: Any) -> dict[str, Any]:
    answer = client.post("/recommend", json=ASKED | more)
    assert answer.status_code == 200, answer.text
    plan: dict[str, Any] = answer.json()
    return plan


def test_the_top_level_is_the_main_run_of_the_portfolio(client: TestClient) -> None:
    plan = asked(client)
    runs = plan["portfolio"]
    assert [run["run"] for run in runs] == list(range(1, len(runs) + 1))
    assert len(runs) > 1
    main = next(run for run in runs if run["model"] == plan["model"]["name"])
    for name in ("batch_size", "folds", "epochs", "seeds"):
        assert main[name] == plan[name]
    assert plan["run"] is None
    assert plan["timetable"][0]["start_minute"] == 0
    last = runs[-1]["deadline_minute"]
    assert plan["used_percent"] == pytest.approx(100 * last / 60, abs=0.1)
    assert plan["reserve_minutes"] >= 0.15 * 60 - 0.01
    assert set(plan["blend"]["runs"]) <= {run["run"] for run in runs}
    whole = plan["expected"]["quality_index"]["value"]
    blended = [run["expected_gain"] for run in runs if run["run"] in plan["blend"]["runs"]]
    thrown_away = [run["expected_gain"] for run in runs if run["run"] not in plan["blend"]["runs"]]
    assert thrown_away == [0.0] * len(thrown_away)
    assert 0.0 < max(blended) < (0.2 if len(runs) > 1 else 1.0) * whole


def test_each_run_is_answered_with_its_own_settings_minutes_and_script(client: TestClient) -> None:
    plan = asked(client)
    shares = 0.0
    for run in plan["portfolio"]:
        own = asked(client, run=run["run"])
        assert own["plan_id"] == plan["plan_id"]
        assert own["portfolio"] == plan["portfolio"]
        assert (own["run"], own["model"]["name"], own["epochs"]) == (run["run"], run["model"], run["epochs"])
        assert own["timetable"][-1]["deadline_minute"] <= own["minutes"]
        shares += own["minutes"]
        script = client.get(
            "/recommend", params=ASKED | {"run": run["run"]}, headers={"Accept": "text/x-python"}
        )
        constants = {
            node.targets[0].id: ast.unparse(node.value)
            for node in ast.parse(script.text).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        assert constants["MODEL"] == repr(run["model"])
        assert f'os.environ.get("MINUTES", {own["minutes"]!r})' in script.text
        assert f"run_{run['run']}" in constants["OUT_DIR"]
        assert constants["SEEDS"] == str(run["seeds"])
    assert shares <= 60.001


def test_the_script_that_joins_the_runs_is_an_answer_too(client: TestClient) -> None:
    answer = client.get("/recommend", params=ASKED, headers={"Accept": "text/x-python-blend"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/x-python-blend")
    names = {node.name for node in ast.parse(answer.text).body if isinstance(node, ast.FunctionDef)}
    assert {"blend_runs", "climb"} <= names
    assert answer.text != client.get("/recommend", params=ASKED, headers={"Accept": "text/x-python"}).text


def test_a_run_that_is_not_in_the_portfolio_is_refused(client: TestClient) -> None:
    answer = client.post("/recommend", json=ASKED | {"run": 9})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "run"


def test_what_is_left_is_planned_again_around_what_is_done(client: TestClient) -> None:
    plan = asked(client)
    first = plan["portfolio"][0]
    again = asked(client, after=plan["plan_id"], done=[{"run": 1, "metric": 0.91, "minutes": 20.0}])
    assert again["minutes"] == 40.0
    assert again["plan_id"] != plan["plan_id"]
    assert (
        again["plan_id"]
        == asked(client, after=plan["plan_id"], done=[{"run": 1, "metric": 0.91, "minutes": 20.0}])["plan_id"]
    )
    assert again["portfolio"][0]["run"] == 2
    assert again["blend"]["runs"][0] == 1
    assert again["portfolio"][-1]["deadline_minute"] <= 40.0
    assert first["model"] not in {run["model"] for run in again["portfolio"]}
    every = [{"run": run["run"], "minutes": 57.0 / len(plan["portfolio"])} for run in plan["portfolio"]]
    over = asked(client, after=plan["plan_id"], done=every)
    assert any("blend these and stop" in warning for warning in warnings_of(over))
    assert not any("blend these" in warning for warning in warnings_of(again))
    early = asked(client, after=plan["plan_id"], done=[{"run": 1, "minutes": 2.0}])
    assert early["expected"]["quality_index"]["value"] >= again["expected"]["quality_index"]["value"]


def test_what_done_runs_reached_changes_what_follows(client: TestClient) -> None:
    """Where the second family reached far more than the first one, others that err like it are worth more."""
    plan = asked(client, metric="accuracy")
    models = {}
    for other in (0.60, 0.99):
        done = [{"run": 1, "metric": 0.90, "minutes": 10.0}, {"run": 2, "metric": other, "minutes": 10.0}]
        models[other] = asked(client, metric="accuracy", after=plan["plan_id"], done=done)["plan_id"]
    assert models[0.60] != models[0.99]


@pytest.mark.parametrize(
    ("more", "status", "field"),
    [
        ({"after": "plan-0123456789abcdef"}, 409, "after"),
        ({"done": [{"run": 1, "minutes": 2.0}]}, 422, "after"),
        ({"after": "plan", "done": [{"run": 1, "minutes": 2.0}, {"run": 1, "minutes": 3.0}]}, 422, "done"),
        ({"after": "plan", "done": [{"run": 1, "minutes": -2.0}]}, 422, "done.0.minutes"),
        ({"after": "own", "done": [{"run": 8, "minutes": 2.0}]}, 422, "done"),
        ({"after": "own", "done": [{"run": 1, "minutes": 61.0}]}, 422, "done"),
    ],
)
def test_what_does_not_go_on_from_this_plan_is_refused(
    client: TestClient, more: dict[str, Any], status: int, field: str
) -> None:
    if more.get("after") == "own":
        more = more | {"after": asked(client)["plan_id"]}
    answer = client.post("/recommend", json=ASKED | more)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert answer.json()["errors"][0]["field"] == field
