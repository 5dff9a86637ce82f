"""Over HTTP: a run brings its plan along, a pattern's row tells its counts, a competition its runs."""

from __future__ import annotations

from fastapi.testclient import TestClient

from tests.telling import at, case

SLUG = "dog-breed-identification"


def test_a_runs_outcome_reaches_patterns_competition_and_plan(client: TestClient) -> None:
    asked = {"competition": SLUG, "gpu": "a100", "minutes": 30}
    plan = client.post("/recommend", json=asked).json()
    same = {name: plan[name] for name in ("batch_size", "precision", "folds", "epochs")}
    body = case(competition=SLUG, model=plan["model"]["name"], image_size=plan["model"]["image_size"], **same)
    assert client.post("/runs", json=body | {"plan": plan}).status_code == 201
    end = {"status": "completed", "at": at(600), "best_metric": 0.49, "test_metric": 0.5, "submission": True}
    finished = client.post(f"/runs/{body['run_id']}/finish", json=end)
    assert finished.status_code == 200, finished.text
    page = finished.json()
    assert page["plan_id"] == plan["plan_id"]
    assert page["notes"] == []
    assert page["advice"]["followed"] == dict.fromkeys(("model", *same), True)
    served = [one["pattern"] for one in page["advice"]["served"]]
    assert served
    row = client.get(f"/patterns/{served[0]}").json()
    assert (row["outcomes"]["served"], row["outcomes"]["demoted"]) == (1, False)
    listed = client.get("/patterns", params={"competition": SLUG}).json()["items"]
    assert all("outcomes" in each for each in listed)
    competition = client.get(f"/competitions/{SLUG}").json()
    assert competition["runs"]["by_status"] == {"completed": 1}
    assert competition["runs"]["best"]["test_metric"] == 0.5
    (mine,) = client.get("/runs", params={"competition": SLUG}).json()["items"]
    assert mine["id"] == body["run_id"]
    again = client.post("/recommend", json=asked | {"include": ["evidence"]}).json()
    assert any(row["id"] == f"runs:{SLUG}" for row in again["evidence"])


def test_a_run_of_a_plan_that_is_not_known_is_watched_and_told_what_is_missing(client: TestClient) -> None:
    body = case(plan_id="plan-of-another-process")
    begun = client.post("/runs", json=body).json()
    assert "plan-of-another-process is not known here" in begun["notes"][0]
    assert client.post("/runs", json=body).json() == begun
    page = client.get(f"/runs/{begun['run_id']}").json()
    assert page["notes"] == begun["notes"]
    assert page["verdict"]["action"]
    assert client.post("/runs", json=case()).json()["notes"] == []


def test_a_plan_that_is_none_is_refused_by_field(sqlite_client: TestClient) -> None:
    for plan, field in (({"plan_id": "x"}, "plan.feasible"), ("plan-1", "plan"), ({"a": {}}, "plan.plan_id")):
        refused = sqlite_client.post("/runs", json=case(plan=plan))
        assert refused.status_code == 422, refused.text
        assert field in {error["field"] for error in refused.json()["errors"]}
    wrong = sqlite_client.post("/runs", json=case()).json()["run_id"]
    refused = sqlite_client.post(f"/runs/{wrong}/finish", json={"status": "completed", "followed": ["a b"]})
    assert refused.status_code == 422
