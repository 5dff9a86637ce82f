"""Does every route that answers a question answer in words, and refuse forms that it has not?"""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from tests.telling import at, case

MARKDOWN = {"Accept": "text/markdown"}
ASKED = {
    "/similar?text=photos%20of%20dogs%2C%20120%20breeds": "dog-breed-identification",
    "/predict?model=resnet50&gpu=a100": "batch: at most",
    "/brief?description=Photos%20of%20dogs%2C%20120%20breeds%2C%20log%20loss": "- n_classes = 120",
    "/accuracy": "runs have ended",
    "/recommend?task=image&gpu=a100": "batch_size=",
}


@pytest.mark.parametrize("path", ASKED)
def test_a_question_is_answered_in_words(sqlite_client: TestClient, path: str) -> None:
    answer = sqlite_client.get(path, headers=MARKDOWN)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/markdown")
    assert ASKED[path] in answer.text
    assert sqlite_client.get(path, headers={"Accept": "image/png"}).status_code == 406
    assert sqlite_client.get(path).headers["content-type"].startswith("application/json")


def test_a_run_tells_its_verdict_the_minutes_left_and_what_it_taught(sqlite_client: TestClient) -> None:
    body = case(minutes=60)
    assert sqlite_client.post("/runs", json=body).status_code == 201
    path = f"/runs/{body['run_id']}"
    event = {
        "seq": 0,
        "kind": "epoch",
        "at": at(120),
        "fold": 0,
        "epoch": 0,
        "seconds": 100,
        "train_loss": 0.7,
    }
    assert sqlite_client.post(f"{path}/events", json={"events": [event]}).status_code == 200
    verdict = sqlite_client.get(f"{path}/verdict", headers=MARKDOWN).text
    assert "why: " in verdict
    page = sqlite_client.get(path, headers=MARKDOWN).text
    assert "of 60 min used" in page
    assert "why: " in page
    end = {"status": "completed", "at": at(500), "best_metric": 0.9, "submission": True}
    assert sqlite_client.post(f"{path}/finish", json=end).status_code == 200
    assert "completed" in sqlite_client.get(path, headers=MARKDOWN).text
