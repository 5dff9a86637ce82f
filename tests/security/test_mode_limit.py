"""Can a server, or a key, keep memory of past competitions from those whose rules forbid it?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from memory_service.app import create_app
from memory_service.schemas.rows import fields_of
from memory_service.services.access.keys import create_key
from memory_service.services.tables import mode_limit
from memory_service.services.tables.mode_limit import OF_WINNERS
from memory_service.services.tables.table_rows import create_row, get_row, history_of, list_rows
from memory_service.settings import load_settings
from tests.answers import warnings_of
from tests.conftest import Servers

ASKED: dict[str, Any] = {"competition": "dog-breed-identification", "gpu": "a100", "minutes": 30}
TEXT = {"text": "photos of dogs, 120 breeds"}


@pytest.fixture(scope="module")
def limited(servers: Servers) -> Iterator[TestClient]:
    """A server of mode family."""
    url = servers.new("sqlite", "seeded")
    settings = load_settings(database_url=url, seed_on_start=False, calibrate=False, mode_limit="family")
    app = create_app(settings)
    with TestClient(app) as client:
        assert app.state.service.preparation.wait(300).ready
        yield client
    servers.drop(url)


def test_a_server_allows_no_more_than_its_limit_and_says_so(limited: TestClient) -> None:
    plan = limited.post("/recommend", json=ASKED).json()
    assert any(text.startswith("Mode family: this server") for text in warnings_of(plan))
    asked_so = limited.post("/recommend", json=ASKED | {"mode": "family"}).json()
    assert not any("this server" in text for text in warnings_of(asked_so))
    assert plan["plan_id"] == asked_so["plan_id"]
    assert plan["recipe"]["basis"] == asked_so["recipe"]["basis"]
    assert limited.post("/recommend", json=ASKED | {"mode": "blind"}).json()["recipe"] is None
    found = limited.post("/similar", json=TEXT | {"mode": "open"}).json()
    assert found["mode"] == "family"


@pytest.mark.parametrize(
    "path",
    [
        "/competitions", "/solutions", "/patterns", "/competitions/x/history", "/browse/competitions",
        "/browse/edit/solutions/AI4Code%231", "/browse/find?q=AI4Code", "/browse/find.json?q=AI4Code",
    ],
)  # fmt: skip
def test_what_won_past_competitions_is_not_shown(limited: TestClient, path: str) -> None:
    assert limited.get(path).status_code == 403
    assert limited.get("/gpus").status_code == 200
    assert limited.get("/browse/edit/gpus/a100").status_code == 200


def test_a_key_has_a_limit_of_its_own(limited: TestClient) -> None:
    database = limited.app.state.service.database  # type: ignore[attr-defined]
    key = create_key(database, "bench", ["read", "blind"])["key"]
    headers = {"Authorization": f"Bearer {key}"}
    plan = limited.post("/recommend", json=ASKED, headers=headers).json()
    assert plan["recipe"] is None
    assert any(text.startswith("Mode blind") for text in warnings_of(plan))
    assert limited.post("/similar", json=TEXT, headers=headers).json()["items"] == []
    of_others = limited.post("/recommend", json=ASKED).json()["plan_id"]
    assert limited.get(f"/plans/{of_others}").status_code == 200
    assert limited.get(f"/plans/{of_others}", headers=headers).status_code == 404
    assert limited.get(f"/plans/{plan['plan_id']}", headers=headers).status_code == 200


def test_what_is_left_of_another_s_run_is_planned_within_the_reader_s_limit(limited: TestClient) -> None:
    database = limited.app.state.service.database  # type: ignore[attr-defined]
    blind, fresh = (
        {"Authorization": f"Bearer {create_key(database, name, ['read', 'tell', *more])['key']}"}
        for name, more in (("blind-reader", ["blind"]), ("reader", []))
    )
    plan = limited.post("/recommend", json=ASKED, headers=fresh).json()
    begun = limited.post(
        "/runs", json={"plan_id": plan["plan_id"], "competition": ASKED["competition"]}, headers=fresh
    )
    path = f"/runs/{begun.json()['run_id']}"
    at = "2026-01-01T00:00:00Z"
    event = {"seq": 0, "kind": "epoch", "at": at, "fold": 0, "epoch": 0, "seconds": 30.0, "metric": 0.5}
    limited.post(f"{path}/events", json={"events": [event]}, headers=fresh)
    told = limited.get(path, headers=fresh).json()["next_minutes"]
    assert told["ask"], told
    for address in (path, f"{path}/verdict"):
        hidden = limited.get(address, headers=blind).json()["next_minutes"]
        assert hidden["left"] == pytest.approx(told["left"], abs=0.1)
        assert (hidden["buys"], hidden["ask"]) == ([], None)


MARKER = "zebrafish-winner"


def test_no_page_shows_a_limited_key_the_rows_of_competitions(
    limited: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever route is asked, of whatever row, by its number or its key, in whatever form."""
    database = limited.app.state.service.database  # type: ignore[attr-defined]
    key = create_key(database, "blind-looks", ["read", "edit", "admin", "blind"])["key"]
    headers = {"Authorization": f"Bearer {key}"}
    slug, changes = "planted-here", set()
    with database.write() as unit:
        like = get_row(unit, "competitions", ASKED["competition"])
        own = {n: like[n] for n in fields_of("competitions") if n in like}
        create_row(unit, "competitions", {**own, "slug": slug, "title": MARKER}, who="ada")
        won = list_rows(unit, "solutions").items[0]
        whole = get_row(unit, "solutions", won["id"])
        own = {n: whole[n] for n in fields_of("solutions") if n in whole}
        own |= {"competition": slug, "url": f"https://example.org/{MARKER}"}
        solution = create_row(unit, "solutions", own, who="ada")["id"]
        create_row(
            unit, "patterns",
            {"id": "planted", "scope": "competition", "competition": slug, "task": like["task"],
             "kind": "input", "statement": MARKER, "advice": {"features": ["x"]}}, who="ada",
        )  # fmt: skip
    with database.read() as transaction:
        for table, key in (("competitions", slug), ("solutions", solution), ("patterns", "planted")):
            changes |= {str(entry["id"]) for entry in history_of(transaction, table, key)}
    values = [*changes, slug, quote(solution, safe=""), "planted", *OF_WINNERS]
    paths = {
        value.join(re.split(r"\{[^}]*\}", route.path)) + form
        for route in limited.app.state.routes  # type: ignore[attr-defined]
        if "GET" in route.methods
        for value in (values if "{" in route.path else ["x"])
        for form in ("", ".json")
        if not route.path.endswith((".json", ".py")) or not form
    }
    asked = ("", "?changes=rows", f"?key={slug}&table=competitions", "?q=zebrafish&text=zebrafish")
    shown = []
    for path in sorted(paths):
        for query in asked if path.startswith("/browse/operate") or "{" not in path else asked[:1]:
            answer = limited.get(path + query, headers=headers)
            if MARKER in answer.text:
                shown.append(path + query)
    assert not shown
    assert len(paths) > 500
    monkeypatch.setattr(mode_limit, "OF_WINNERS", frozenset())
    there = [limited.get(f"/browse/changes/{number}.json", headers=headers).text for number in changes]
    assert any(MARKER in text for text in there), there
