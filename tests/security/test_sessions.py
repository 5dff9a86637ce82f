"""Is a session its browser's alone, and a form its session's?"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest
from sqlalchemy import text

from memory_service.api.security.auth_middleware import SESSION_COOKIE
from memory_service.domain.common.api_keys import digest
from memory_service.services.access.keyring import MOST_OF_KEY
from tests.security.conftest import House
from tests.store.fakes import ROWS

ROW = "/browse/edit/strategies/of-a-test"


@pytest.fixture(scope="module")
def editor(house: House) -> str:
    """A key that may read and edit; and a row to edit."""
    row = {**ROWS["strategies"](), "id": "of-a-test"}
    assert house.ask("POST", "/strategies", house.keys["edit"], body=row).status == 201
    return house.key("editor", "read", "edit")


def token_of(house: House, session: str) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', house.ask("GET", ROW, session=session).text)
    assert found is not None
    return found[1]


def test_the_cookie_is_for_this_server_alone_and_for_no_script(house: House, editor: str):
    for scheme, secure in (("http", False), ("https", True)):
        answer = house.sign_in(editor, scheme=scheme)
        parts = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "samesite=lax", "path=/", "max-age=43200"} <= parts
        assert ("secure" in parts) == secure
        assert not any(part.startswith("domain") for part in parts)
        assert (answer.status, answer.headers["location"]) == (303, "/")


def test_a_session_is_always_new_and_ends_the_one_before(house: House, editor: str):
    planted = "an-id-that-somebody-else-knows"
    first = house.sign_in(editor, session=planted).session
    assert first != planted
    assert house.ask("GET", "/browse/models", session=planted).status == 303
    second = house.sign_in(editor, session=first).session
    assert second != first
    assert house.ask("GET", "/browse/models", session=first).status == 303
    assert house.ask("GET", "/browse/models", session=second).status == 200


def test_signing_out_ends_it_here_and_after_seconds_elsewhere(house: House, other_house: House, editor: str):
    session = house.sign_in(editor).session
    page = other_house.ask("GET", "/browse/models", session=session)
    assert page.status == 200, "another process knows it, too"
    assert ">editor<" in page.text
    refused = house.ask("POST", "/browse/logout", session=session, form={})
    assert refused.status == 403
    done = house.ask("POST", "/browse/logout", session=session, form={"csrf": token_of(house, session)})
    assert (done.status, done.headers["location"]) == (303, "/browse/login")
    assert "max-age=0" in done.headers["set-cookie"].lower()
    assert house.ask("GET", "/browse/models", session=session).status == 303
    other_house.app.state.service.keyring.forget()
    assert other_house.ask("GET", "/browse/models", session=session).status == 303


def test_a_session_ends_after_half_a_day(house: House, editor: str):
    session = house.sign_in(editor).session
    with house.database.engine.begin() as connection:
        query = text("SELECT created_at, expires_at FROM browser_sessions WHERE digest = :digest")
        made, ends = connection.execute(query, {"digest": digest(session)}).one()
        life = dt.datetime.fromisoformat(str(ends)) - dt.datetime.fromisoformat(str(made))
        assert life == dt.timedelta(hours=12)
        connection.execute(
            text("UPDATE browser_sessions SET expires_at = created_at WHERE digest = :digest"),
            {"digest": digest(session)},
        )
    house.app.state.service.keyring.forget()
    assert house.ask("GET", "/browse/models", session=session).status == 303
    assert house.ask("GET", "/models", session=session).status == 401
    house.sign_in(editor)
    with house.database.engine.connect() as connection:
        left = connection.execute(query, {"digest": digest(session)}).all()
    assert left == [], "those that ended are cleared away"


def test_a_form_without_its_sessions_token_changes_nothing(house: House, editor: str):
    session, other = (house.sign_in(editor).session for _ in range(2))
    own, foreign = token_of(house, session), token_of(house, other)
    assert own != foreign
    before = house.ask("GET", "/strategies/of-a-test", editor).json
    change: dict[str, Any] = {"step": "save", "statement": "Changed.", "why": "a test", "version": "1"}
    for token in ({}, {"csrf": ""}, {"csrf": foreign}, {"csrf": own[:-1]}, {"csrf": session}):
        answer = house.ask("POST", ROW, session=session, form={**change, **token})
        assert answer.status == 403, token
        assert "token" in answer.text
    for headers in ({}, {"x-csrf-token": foreign}):
        body = {"statement": "Changed."}
        refused = house.ask("PATCH", "/strategies/of-a-test", session=session, body=body, headers=headers)
        assert refused.json["type"].endswith(":csrf")
    assert house.ask("GET", "/strategies/of-a-test", editor).json == before
    other_site = {"origin": "http://evil.example"}
    with_token = {**change, "csrf": own}
    assert house.ask("POST", ROW, session=session, form=with_token, headers=other_site).status == 403
    assert house.ask("POST", ROW, session=session, form=with_token).status == 303
    more: dict[str, Any] = {"body": {"statement": "Changed again."}, "headers": {"x-csrf-token": own}}
    assert house.ask("PATCH", "/strategies/of-a-test", session=session, **more).status == 200
    row = house.ask("GET", "/strategies/of-a-test/history", editor).json["items"]
    assert [entry["who"] for entry in row[:2]] == ["editor", "editor"], "whoever is signed in signs it"


def test_every_form_of_every_page_wants_the_token(house: House):
    session = house.sign_in(house.keys["admin"]).session
    posts = [r.path for r in house.app.state.routes if "POST" in r.methods and r.path.startswith("/browse/")]
    assert len(posts) >= 5
    for path in posts:
        answer = house.ask("POST", re.sub(r"\{[^}]*\}", "x", path), session=session, form={"step": "save"})
        assert (answer.status == 403) == (path != "/browse/login"), path
    assert house.ask("GET", "/models", session=session).status == 200


def test_a_key_in_place_of_a_session_is_none(house: House, editor: str):
    assert house.ask("GET", "/models", editor).status == 200
    assert house.ask("GET", "/models", session=editor).status == 401
    assert house.ask("GET", "/models", house.sign_in(editor).session).status == 401


def test_pages_leave_out_what_the_scopes_do_not_allow(house: House, editor: str):
    def shown(scopes: tuple[str, ...], path: str) -> str:
        key = house.key(f"looker {len(house.keys)}", *scopes)
        return house.ask("GET", path, session=house.sign_in(key).session).text

    page = "/browse/strategies/of-a-test"
    assert "/browse/edit/" not in shown(("read",), page)
    assert "Undo this change" not in shown(("read",), page)
    assert "/browse/edit/" in shown(("read", "edit"), page)
    assert "Measure it" not in shown(("read", "edit"), "/browse/devices")
    assert "scope admin" in shown(("read", "edit"), "/browse/devices")
    refused = house.ask("GET", page, session=house.sign_in(house.keys["tell"]).headers.get("set-cookie", "x"))
    assert refused.status == 303, "who may not look does not get in"


@pytest.mark.parametrize(
    ("asked", "leads"),
    [
        ("/browse/models?task=image-classification&sort=-quality_score", None),
        ("/", None),
        ("/docs", None),
        ("//evil.example/browse/models", "/"),
        ("https://evil.example/browse/models", "/"),
        ("/\\evil.example", "/"),
        ("/browse/\\..\\evil", "/"),
        ("javascript:alert(1)", "/"),
        ("/browse/models\r\nX-Evil: 1", "/"),
        ("/browse/login?next=/browse/models", "/"),
        ("/browse/logout", "/"),
        ("/keys", "/"),
        ("", "/"),
    ],
)
def test_signing_in_leads_to_the_page_asked_for_and_nowhere_else(
    house: House, editor: str, asked: str, leads: str | None
):
    answer = house.sign_in(editor, form={"next": asked})
    assert answer.headers["location"] == (asked if leads is None else leads)
    assert "x-evil" not in answer.headers


def test_whoever_asks_for_a_page_comes_back_to_it(house: House, editor: str):
    sent = house.ask("GET", "/browse/models?task=image-classification&sort=-name")
    where = sent.headers["location"]
    form = house.ask("GET", where)
    (back,) = re.findall(r'name="next" value="([^"]*)"', form.text)
    answer = house.sign_in(editor, form={"next": back.replace("&amp;", "&")})
    assert answer.headers["location"] == "/browse/models?task=image-classification&sort=-name"
    evil = house.ask("GET", "/browse/login?next=//evil.example")
    assert "evil" not in evil.text


def test_a_wrong_key_is_told_on_the_page_and_shown_nowhere(house: House):
    answer = house.sign_in(house.keys["revoked"])
    assert answer.status == 401
    assert "revoked" in answer.text
    assert house.keys["revoked"] not in answer.text
    assert SESSION_COOKIE not in str(answer.headers)


def test_over_loopback_pages_need_no_session_and_forms_no_token(house: House, editor: str):
    at: dict[str, Any] = {"server": ("127.0.0.1", 8000), "headers": {"host": "127.0.0.1:8000"}}
    form = {"step": "look", "version": "1"}
    assert house.ask("POST", ROW, form=form, **at).status == 409, "the row moved meanwhile: it was answered"
    assert house.ask("POST", ROW, form=form, session="one-that-ended", **at).status == 409
    assert house.ask("POST", ROW, form=form, session=house.sign_in(editor).session, **at).status == 403


@pytest.mark.parametrize("path", ["/browse/login", "/browse/login?next=/"])
def test_whoever_shows_no_key_sends_no_long_form(house: House, path: str):
    """Percent signs are decoded before anybody knows whether the key in them is one."""
    assert house.ask("POST", path, form={"key": "A" * 10_000}).status == 401
    refused = house.ask("POST", path, form={"key": "A" * 17_000})
    assert (refused.status, "16384 bytes without a key" in refused.text) == (413, True)


def test_a_key_that_signs_in_again_and_again_keeps_a_few_sessions_and_one_entry(house: House):
    key = house.key("restless", "read")
    latest = [house.sign_in(key).session for _ in range(MOST_OF_KEY + 5)]
    with house.database.engine.connect() as connection:
        query = text("SELECT count(*) FROM browser_sessions WHERE key_id = :key")
        kept = connection.execute(query, {"key": key.split("_")[1]}).scalar_one()
    noted = [e for e in house.audit(sort="-id") if (e["table"], e["who"]) == ("sessions", "restless")]
    assert (kept, len(noted)) == (MOST_OF_KEY, 1)
    assert house.ask("GET", "/models", session=latest[-1]).status == 200
