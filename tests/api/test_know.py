"""Are rows listed, read, added, corrected and deleted over HTTP as the contract says, on both databases?"""

from __future__ import annotations

import csv
import io
from typing import Any
from urllib.parse import quote

import httpx2
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

TABLES = ("competitions", "solutions", "patterns", "models", "gpus", "strategies", "claims", "sizing")


@pytest.mark.parametrize("table", TABLES)
def test_pages_walk_the_whole_table_once(client: TestClient, table: str):
    keys: list[str] = []
    cursor: str | None = None
    while True:
        page = client.get(f"/{table}", params={"limit": 500} | ({"cursor": cursor} if cursor else {})).json()
        assert len(page["items"]) <= 500
        keys += [str(next(iter(row.values()))) for row in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert keys
    assert len(keys) == len(set(keys))
    lines = client.get(f"/{table}?format=jsonl").text.splitlines()
    assert len(lines) == len(keys)
    rows = list(csv.DictReader(io.StringIO(client.get(f"/{table}?format=csv").text)))
    assert len(rows) == len(keys)


@pytest.mark.parametrize("table", TABLES)
def test_every_listed_row_can_be_read_alone(client: TestClient, table: str):
    for row in client.get(f"/{table}?limit=5").json()["items"]:
        key = next(iter(row.values()))
        alone = client.get(f"/{table}/{quote(str(key), safe='/@+:')}")
        assert alone.status_code == 200
        assert alone.json().items() >= row.items()


def test_filters_and_sorts_narrow_and_order(client: TestClient):
    cards = client.get("/gpus?architecture=ampere&memory_gib_min=30&sort=-memory_gib&limit=500").json()[
        "items"
    ]
    sizes = [card["memory_gib"] for card in cards]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) >= 30
    assert {card["architecture"] for card in cards} == {"ampere"}
    models = client.get("/models?task=image-segmentation&limit=500").json()["items"]
    assert all("image-segmentation" in model["tasks"] for model in models)


def test_an_unknown_filter_names_the_nearest(client: TestClient):
    answer = client.get("/gpus?archtecture=ampere")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["nearest"][0] == "architecture"


def test_a_row_is_added_corrected_deleted_and_keeps_its_history(client: TestClient):
    new = {
        "slug": "bird-songs",
        "title": "Bird songs",
        "description": "Recognise 30 bird species in ten second recordings.",
    }
    made = client.post("/competitions", json=new | {"who": "ada", "why": "new on the site"})
    assert made.status_code == 201
    assert made.headers["location"] == "/competitions/bird-songs"
    assert made.json()["task"] == "audio-classification"
    assert "task" in made.json()["inferred"]
    again = client.post("/competitions", json=new)
    assert again.status_code == 409
    assert again.json()["errors"][0]["nearest"] == ["bird-songs"]
    found = client.post("/similar", json={"text": "which bird species sings in a recording"}).json()["items"]
    assert "bird-songs" in [hit["slug"] for hit in found]
    change = {"title": "Bird songs 2", "who": "bob", "why": "typo", "version": 1}
    assert client.patch("/competitions/bird-songs", json=change).json()["version"] == 2
    stale = client.patch("/competitions/bird-songs", json=change | {"title": "Bird songs 3"})
    assert stale.status_code == 409
    assert stale.json()["type"].endswith(":moved")
    assert stale.json()["changes"] == [{"field": "title", "before": "Bird songs", "after": "Bird songs 2"}]
    assert stale.json()["current"]["version"] == 2
    assert client.delete("/competitions/bird-songs?who=bob&why=done&version=1").status_code == 409
    assert client.delete("/competitions/bird-songs?who=bob&why=done&version=2").status_code == 204
    assert client.get("/competitions/bird-songs").status_code == 404
    told = client.get("/competitions/bird-songs/history").json()["items"]
    assert [(entry["action"], entry["who"], entry["why"]) for entry in told] == [
        ("delete", "bob", "done"),
        ("update", "bob", "typo"),
        ("create", "ada", "new on the site"),
    ]
    assert told[1]["before"]["title"] == "Bird songs"


def test_a_change_is_taken_back_by_its_entry_of_the_history(client: TestClient):
    def back(**body: object) -> httpx2.Response:
        return client.post("/competitions/frogs/undo", json=body)

    def latest() -> Any:
        return client.get("/competitions/frogs/history").json()["items"][0]

    new = {"slug": "frogs", "title": "Frogs", "description": "Recognise 12 species of frogs by their calls."}
    assert client.post("/competitions", json=new).status_code == 201
    added = latest()["id"]
    client.patch("/competitions/frogs", json={"title": "Toads"})
    slip = latest()["id"]
    assert back(entry=added).status_code == 409
    undone = back(entry=slip, who="ada")
    assert (undone.status_code, undone.json()["title"], latest()["who"]) == (200, "Frogs", "ada")
    assert back(entry=slip).status_code == 409
    assert back(entry=10**9).status_code == 404
    assert back().json()["errors"][0]["field"] == "entry"
    assert back(entry=added).status_code == 204
    assert client.get("/competitions/frogs").status_code == 404
    assert back(entry=latest()["id"]).json()["title"] == "Frogs"


def test_names_with_slashes_are_rows_like_others(client: TestClient):
    row = client.get("/models/unet/efficientnet_b3").json()
    assert row["name"] == "unet/efficientnet_b3"
    changed = client.patch(
        "/models/unet/efficientnet_b3", json={"licence_note": "checked", "who": "t", "why": "t"}
    )
    assert changed.status_code == 200
    assert client.get("/models/unet/efficientnet_b3/history").json()["items"][0]["action"] == "update"


def test_a_competition_that_patterns_name_is_not_deleted(client: TestClient):
    pattern = next(p for p in client.get("/patterns?scope=competition&limit=1").json()["items"])
    refused = client.delete(f"/competitions/{pattern['competition']}?who=t&why=t")
    assert refused.status_code == 409


def test_a_solution_is_added_found_corrected_and_shown_with_its_competition(client: TestClient):
    new = {
        "competition": "dog-breed-identification", "rank": 3, "url": "https://example.org/write-up",
        "families": ["ResNet", "inception"], "techniques": ["tta", "mean-blend"], "loss": ["cross-entropy"],
        "validation": {"split": "stratified", "folds": 5}, "score": {"private": 0.2}, "learning_rate": 0.001,
    }  # fmt: skip
    made = client.post("/solutions", json=new | {"who": "ada"})
    assert made.status_code == 201, made.text
    assert made.headers["location"] == "/solutions/dog-breed-identification%233"
    row = made.json()
    assert (row["id"], row["families"][0], row["origin"]) == ("dog-breed-identification#3", "resnet", "user")
    assert (row["source"], row["grade"], row["learning_rate"]) == (new["url"], "claimed", "0.001")
    assert client.post("/solutions", json=new).status_code == 409
    mine = made.headers["location"]
    narrowed = "competition=dog-breed-identification&family=resnet&technique=tta&task=image&rank_max=3"
    found = client.get(f"/solutions?{narrowed}&basis=second-hand&sort=-rank&total=1").json()
    assert ([item["id"] for item in found["items"]], found["total"]) == ([row["id"]], 1)
    assert (
        client.get(f"/solutions?{narrowed}&technique=lora".replace("technique=tta&", "")).json()["items"]
        == []
    )
    shown = client.get("/competitions/dog-breed-identification").json()["solutions"]
    assert [one["rank"] for one in shown] == sorted(one["rank"] for one in shown)
    (own,) = (one for one in shown if one["rank"] == 3)
    assert own["validation"] == {"split": "stratified", "by": None, "folds": 5}
    change = {"validation": {"split": "group", "by": "dog", "folds": 4}, "version": 1}
    assert client.patch(mine, json=change).json()["validation"]["by"] == "dog"
    moved = client.patch(mine, json={"rank": 4})
    assert (moved.status_code, moved.json()["errors"][0]["field"]) == (422, "rank")
    kept = client.delete("/competitions/dog-breed-identification?who=t&why=t")
    assert kept.status_code == 409
    assert "dog-breed-identification#3" in kept.json()["detail"]
    assert client.delete(f"{mine}?version=2").status_code == 204
    assert [entry["action"] for entry in client.get(f"{mine}/history").json()["items"]] == [
        "delete", "update", "create",
    ]  # fmt: skip


def test_a_name_outside_the_vocabulary_of_solutions_is_answered_with_the_nearest(client: TestClient):
    new: dict[str, Any] = {"competition": "dog-breed-identification", "rank": 9}
    names: tuple[tuple[str, Any, str], ...] = (
        ("families", ["efficentnet"], "efficientnet"),
        ("techniques", ["pseudo-label"], "pseudo-labels"),
        ("loss", ["cross-entopy"], "cross-entropy"),
        ("validation", {"split": "stratifed"}, "stratified"),
    )
    for field, wrong, right in names:
        refused = client.post("/solutions", json=new | {field: wrong}).json()["errors"][0]
        assert refused["field"].split(".")[0] == field
        assert right in refused["nearest"]
    for field, other in (("url", "javascript:alert(1)"), ("competition", "unheard-of"), ("rank", 0)):
        answer = client.post("/solutions", json=new | {field: other})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    asked = client.get("/solutions?technique=pseudo-label").json()["errors"][0]
    assert "pseudo-labels" in asked["nearest"]


def test_lists_count_when_asked_and_leave_as_parquet(client: TestClient):
    few = client.get("/gpus?architecture=ampere&limit=2&total=1").json()
    assert few["total"] > len(few["items"]) == 2
    assert "total" not in client.get("/gpus?limit=2").json()
    sent = client.get("/gpus?architecture=ampere&format=parquet")
    assert sent.headers["content-type"] == "application/vnd.apache.parquet"
    table = pq.read_table(pa.BufferReader(sent.content))
    assert (table.num_rows, set(table.column("architecture").to_pylist())) == (few["total"], {"ampere"})
    begun = client.post("/runs", json={"task": "image", "gpu": "t4", "model": "resnet50"}).json()["run_id"]
    event = {"seq": 0, "kind": "epoch", "at": "2026-03-01T12:00:00Z", "epoch": 0, "seconds": 9.5}
    assert client.post(f"/runs/{begun}/events", json={"events": [event]}).json()["accepted"] == 1
    (line,) = client.get(f"/runs/{begun}/events").text.splitlines()
    told = orjson.loads(line)
    assert {n: told[n] for n in ("run_id", "seq", "kind", "seconds")} == {
        "run_id": begun, "seq": 0, "kind": "epoch", "seconds": 9.5,
    }  # fmt: skip
    assert client.get(f"/runs/{begun}/events?kind=gpu&format=csv").text.count("\n") == 1
    assert client.get(f"/runs/{'0' * 32}/events").status_code == 404
    strategy = client.get("/strategies?rule=R14").json()["items"][0]
    assert strategy["steers_plans"] is True


def test_formulas_are_defused_in_csv(client: TestClient):
    row = {"id": "X-formula", "quantity": "q", "statement": "=1+1", "source": "test"}
    assert client.post("/claims", json=row).status_code == 201
    text = client.get("/claims?format=csv&quantity=q").text
    assert "'=1+1" in text
    line = orjson.loads(client.get("/claims?format=jsonl&quantity=q").text)
    assert line["statement"] == "=1+1"


@pytest.mark.parametrize(
    ("path", "change", "field"),
    [
        ("strategies/R03-a10-image-384", {"value": {"batch_size": -7}}, "value"),
        ("strategies/R03-a10-image-384", {"value": {"batch_size": 0.5}}, "value"),
        ("strategies/R04-fill-as-aim", {"value": {"aim_percent_to": "banana"}}, "value"),
        ("strategies/R04-fill-as-aim", {"value": {"aim_percent_from": 95, "aim_percent_to": 90}}, "value"),
        ("strategies/R16-patience", {"value": {"early_stopping_patience_min": 3}}, "value"),
        ("strategies/R20-under-50", {"key": {"fill_percent_below": 120}}, "key"),
        ("gpus/l4", {"usable_gib": 500}, "usable_gib"),
    ],
)
def test_a_number_that_nobody_can_mean_is_refused(
    client: TestClient, path: str, change: dict[str, Any], field: str
):
    before = client.get(f"/{path}").json()
    refused = client.patch(f"/{path}", json=change)
    assert refused.status_code == 422
    assert [error["field"] for error in refused.json()["errors"]] == [field]
    assert client.get(f"/{path}").json() == before
