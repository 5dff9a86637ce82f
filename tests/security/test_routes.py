"""Does every route answer everybody as docs/security.md says?"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from memory_service.api import error_handlers
from memory_service.api.security.route_scopes import ROUTES, wanted
from memory_service.app import create_app
from memory_service.errors import Unavailable
from memory_service.services.database.transactions import Database
from memory_service.settings import load_settings
from tests.security.conftest import LOOPBACK, SCOPES, Answer, House, mistyped, not_valid

TABLES = ("competitions", "solutions", "patterns", "models", "gpus", "strategies", "claims")
"""What `/TABLE` stands for on the page."""
DATA = (".json", ".csv", ".xlsx", ".jsonl", ".parquet")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"


def said() -> dict[str, dict[str, str]]:
    """Route -> who -> what the table says."""
    table = PAGE.read_text(encoding="utf-8").split("<!-- routes -->")[1].split("<!-- /routes -->")[0]
    head, _, *rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]] for line in table.split("\n") if line
    ]
    return {
        route.replace("/TABLE", f"/{name}"): dict(zip(head[1:], row[1:], strict=True))
        for row in rows
        for route in row[0].split("`, `")
        for name in TABLES
    }


def row_of(table: dict[str, dict[str, str]], method: str, path: str) -> dict[str, str]:
    """The row of a route of the application: its own, else the first that covers it."""
    own = table.get(f"{method} {path}")
    covering = (
        row for name, row in table.items() if name.endswith("*") and f"{method} {path}".startswith(name[:-1])
    )
    return own or next(covering)


def given(answer: Answer, method: str) -> str:
    if answer.status == 303 and method == "GET" and answer.headers["location"].startswith("/browse/login"):
        return "sign in"
    if answer.status == 401 and 'action="/browse/login"' in answer.text:
        return "yes"  # the login page itself, once more
    return str(answer.status) if answer.status in (401, 403) else "yes"


def test_every_route_answers_everybody_as_the_table_says(house: House):
    table, wrong = said(), []
    shown: dict[str, dict[str, str | None]] = {
        "no key": {"none": None},
        "not valid": {**not_valid(house), "mistyped": mistyped(house.keys["admin"]), "no key": "nonsense"},
        **{scope: {scope: house.keys[scope]} for scope in SCOPES},
    }
    for route in house.app.state.routes:
        for method in route.methods - {"HEAD"}:
            path = re.sub(r"\{[^}]*\}", "x", route.path)
            row = row_of(table, method, route.path)
            for who, keys in shown.items():
                for kind, key in keys.items():
                    answer = house.ask(method, path, key, body=None if method == "GET" else {})
                    expected = row[who]
                    if expected == "sign in" and path.endswith(DATA):
                        expected = "401"
                    if given(answer, method) != expected:
                        wrong.append(f"{method} {path}, {kind}: {answer.status}, not {expected}")
                    if answer.status in (401, 403) and key is not None:
                        assert key not in answer.text
                    if answer.status == 401:
                        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert wrong == []


def test_the_table_has_every_route_and_no_other(house: House):
    routes = [(method, route.path) for route in house.app.state.routes for method in route.methods - {"HEAD"}]
    for method, path in routes:
        assert wanted(method, path) is not None, (
            f"{method} {path} has no entry in api/security/route_scopes.py"
        )
    for name in ROUTES:
        method, _, path = name.partition(" ")
        covers = path.removesuffix("*")
        assert any(
            m == method and (p == path or (covers != path and p.startswith(covers))) for m, p in routes
        ), name


def test_the_table_finds_each_route_where_the_application_does(house: House):
    """A path that two of its patterns match must mean the one that answers."""
    for route in house.app.state.routes:
        for method in route.methods - {"HEAD"}:
            own = ROUTES.get(f"{method} {route.path}")
            path = re.sub(r"\{[^}]*\}", "x", route.path)
            assert own is None or wanted(method, path) == own, f"{method} {path}"


def test_a_route_that_is_not_in_the_table_is_refused_to_everybody(tmp_path: Path):
    app = create_app(load_settings(database_url=f"sqlite:///{tmp_path}/x.sqlite3"))
    app.add_api_route("/nobody/thought/of/this", lambda: "a secret", methods=["GET"])
    from fastapi.testclient import TestClient

    answer = TestClient(app).get("/nobody/thought/of/this")
    assert answer.status_code == 403
    assert "a secret" not in answer.text
    assert TestClient(app).get("/nobody/thought/of/that").status_code == 404


@pytest.mark.parametrize("path", ["/nowhere", "/browse/devices\n", "/runs/a\nb", "//keys", "/keys/"])
def test_what_is_no_route_is_nothing_without_a_key(house: House, path: str):
    assert house.ask("POST", path).status in (401, 403)
    assert house.ask("POST", path, house.keys["read"]).status in (403, 404, 405)


def test_over_loopback_nothing_is_asked_for_but_what_is_shown_counts(house: House):
    def ask(path: str, key: str | None = None, host: str = "localhost:8000") -> int:
        return house.ask("GET", path, key, server=LOOPBACK, headers={"host": host}).status

    assert ask("/keys") == 200
    assert ask("/keys", host="[::1]") == ask("/keys", host="127.0.0.1") == 200
    assert ask("/keys", house.keys["read"]) == 403
    assert ask("/models", house.keys["read"]) == 200
    assert ask("/models", mistyped(house.keys["read"])) == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "2130706433"]
)
def test_a_page_whose_name_leads_to_loopback_gets_nothing(house: House, host: str):
    answer = house.ask("GET", "/models", server=LOOPBACK, headers={"host": host})
    assert answer.status == 403
    assert "MEMORY_REQUIRE_KEYS" in answer.text


@pytest.mark.parametrize(
    ("server", "headers"),
    [
        (None, {}),  # a socket without an address: a proxy asks
        (("::ffff:192.0.2.1", 8000), {}),
        (("0.0.0.0", 8000), {}),
        (("localhost", 8000), {}),  # a name is what somebody says, an address is where the socket is
        (("testserver", 80), {}),
        (LOOPBACK, {"x-forwarded-for": "127.0.0.1"}),
        (LOOPBACK, {"forwarded": "for=127.0.0.1"}),
        (LOOPBACK, {"x-forwarded-proto": "https"}),
        (LOOPBACK, {"via": "1.1 proxy"}),
    ],
)
def test_whatever_may_come_from_outside_wants_a_key(
    house: House, server: tuple[str, int] | None, headers: dict[str, str]
):
    assert house.ask("GET", "/models", server=server, headers={"host": "localhost"} | headers).status == 401
    assert house.ask("GET", "/models", house.keys["read"], server=server, headers=headers).status == 200


@pytest.mark.parametrize("origin", ["http://[", "http://evil.example", "null", "http://\xe9"])
def test_a_change_from_another_origin_is_refused_however_it_is_written(house: House, origin: str):
    asked = house.ask("POST", "/competitions", house.keys["edit"], body={}, headers={"origin": origin})
    assert (asked.status, asked.json["type"].rpartition(":")[2]) == (403, "other-origin")


def test_why_the_database_is_away_is_told_to_keys_and_this_machine_only(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def away(*_: object) -> None:
        raise Unavailable('the database did not answer: connection to "db.inside" failed for user "ada"')

    monkeypatch.setattr(error_handlers, "failures", type(error_handlers.failures)())
    known = house.keys["read"]
    assert house.ask("GET", "/models", known).status == 200
    new, preparation = house.key("new", "read"), house.app.state.service.preparation
    lost = replace(preparation.state, database=False, failed="no answer of db.inside")
    monkeypatch.setattr(preparation, "checked", lambda: lost)
    monkeypatch.setattr(Database, "read", away)
    for key, session in ((mistyped(known), None), (new, None), (None, "x"), (None, None)):
        for path in ("/models", "/readyz", "/browse/runs"):
            answer = house.ask("GET", path, key, session=session)
            assert "db.inside" not in answer.text, (key, session, path)
    assert "db.inside" in caplog.text
    assert "db.inside" in house.ask("GET", "/models", known).text
    inside = house.ask("GET", "/readyz", server=LOOPBACK, headers={"host": "localhost"})
    assert "db.inside" in inside.text


def test_measuring_the_servers_own_host_is_for_admins(house: House):
    body = {"name": "box", "device": "cpu", "calibrate": True}
    refused = house.ask("POST", "/gpus", house.keys["edit"], body=body)
    assert refused.status == 403
    assert "admin" in refused.json["detail"]
    assert house.ask("POST", "/gpus", house.keys["edit"], body={"name": "elsewhere"}).status == 201


def test_both_headers_are_read_and_a_key_in_the_url_is_not(house: House):
    key = house.keys["read"]
    assert house.ask("GET", "/models", headers={"x-api-key": key}).status == 200
    assert house.ask("GET", "/models", headers={"authorization": f"bearer  {key}"}).status == 200
    assert house.ask("GET", "/models", headers={"authorization": f"Basic {key}"}).status == 401
    assert house.ask("GET", "/models", headers={"x-api-key": key, "authorization": "Bearer x"}).status == 401
    both = house.ask(
        "GET", "/models", headers={"x-api-key": house.keys["admin"], "authorization": f"Bearer {key}"}
    )
    assert both.status == 401, "which one counts would be for a proxy to guess"
    assert (
        house.ask("GET", "/models", headers={"x-api-key": key, "authorization": f"Bearer {key}"}).status
        == 200
    )
    assert house.ask("GET", f"/models?key={key}").status == 401
    assert house.ask("GET", "/healthz", "nonsense").status == 200


@pytest.mark.parametrize(
    "host", ['x");import os;("', "a'b\"c", "a b", "a/b", "a@b", "[::1", "x:99999999", ""]
)
def test_a_host_that_is_no_name_of_one_reaches_no_script(house: House, host: str) -> None:
    key = house.keys["read"]
    assert house.ask("GET", "/gpus", key, headers={"host": host}).status == 403
    assert house.ask("GET", "/gpus", key, headers={"host": "service.example:8000"}).status == 200
    assert house.ask("GET", "/gpus", key, headers={"host": "[2001:db8::1]:8000"}).status == 200
