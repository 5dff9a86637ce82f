"""Can a key be guessed, told apart, stolen with the database, or used after its end?"""

from __future__ import annotations

import datetime as dt
import hmac
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from time import monotonic, time
from typing import Any

import pytest
from sqlalchemy import event, inspect, text
from typer.testing import CliRunner

from memory_service.cli import app as command_line
from memory_service.domain.common import api_keys as form
from memory_service.errors import Unavailable
from memory_service.services.access import keyring
from memory_service.services.access import keyring as sessions
from memory_service.services.access.keyring import Quotas
from memory_service.services.access.keys import is_valid, list_keys, revoke_key
from memory_service.services.database.transactions import Database
from memory_service.store.tables.keys import ApiKey
from tests.conftest import Servers
from tests.registered import calibrate, register
from tests.security.conftest import House, mistyped, not_valid

CLI = CliRunner()


def test_a_key_has_its_form_and_a_typo_is_told_without_the_database():
    keys = [form.compose("abcdefghij", f"{n:043}") for n in range(200)]
    for key in keys:
        assert form.parse(key.text) == key
        assert key.text not in repr(key)
    text = keys[7].text
    for place in range(len(text)):
        other = "z" if text[place] != "z" else "y"
        assert form.parse(text[:place] + other + text[place + 1 :]) is None, place
        assert form.parse(text[:place]) is None
    swapped = text[:20] + text[21] + text[20] + text[22:]
    assert form.parse(swapped) is None or swapped == text
    assert form.SECRET_CHARACTERS * 5.95 > 192, "bits"


def test_keys_are_never_made_twice_and_use_the_systems_randomness(house: House):
    made = [house.key(f"many {n}", "read") for n in range(30)]
    assert len({key.split("_")[1] for key in made}) == len({key.split("_")[2] for key in made}) == 30
    assert len(set("".join(key.split("_")[2][:43] for key in made))) == 62


@contextmanager
def work(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is done meanwhile: hashes, comparisons, statements, rows of keys that are read."""
    done: list[str] = []
    compare = hmac.compare_digest

    def hashed(text: str) -> str:
        done.append(f"hash of {len(text)} characters")
        return form.digest(text)

    def compared(one: str, other: str) -> bool:
        done.append(f"comparison of {len(one)} with {len(other)}")
        return compare(one, other)

    def executed(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if threading.current_thread().name.startswith("AnyIO"):  # of requests; not of what runs beside them
            done.append(statement)

    def read(*_: Any) -> None:
        done.append("a row")

    event.listen(house.database.engine, "before_cursor_execute", executed)
    event.listen(ApiKey, "load", read)
    with monkeypatch.context() as patch:
        patch.setattr(keyring, "digest", hashed)
        patch.setattr(hmac, "compare_digest", compared)
        yield done
    event.remove(house.database.engine, "before_cursor_execute", executed)
    event.remove(ApiKey, "load", read)


def test_keys_that_are_not_valid_cannot_be_told_apart(house: House, monkeypatch: pytest.MonkeyPatch):
    """By the work, not by the clock: the same hashes, comparisons and statements, and the same words."""
    seen, told = {}, {}
    for why, key in not_valid(house).items():
        with monkeypatch.context() as patch, work(house, patch) as done:
            answer = house.ask("GET", "/models", key)
        seen[why] = [line for line in done if "history" not in line]
        told[why] = {name: value for name, value in answer.json.items() if name != "request_id"}
        headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
        told[why] |= headers
    assert seen["unknown"] == seen["wrong"] == seen["expired"] == seen["revoked"]
    assert told["unknown"] == told["wrong"] == told["expired"] == told["revoked"]
    own = {line for line in seen["wrong"] if line.startswith(("hash", "comparison"))}
    assert own == {"hash of 64 characters", "comparison of 64 with 64"}
    assert seen["unknown"].count("a row") == 1
    with work(house, monkeypatch) as done:
        house.ask("GET", "/models", mistyped(house.keys["read"]))
    assert done == [], "a typo costs the database nothing"


def test_a_stolen_database_opens_nothing(house: House):
    session = house.sign_in(house.keys["read"]).session
    house.ask("GET", "/models", house.keys["tell"])
    with house.database.engine.connect() as connection:
        found = {
            name: {str(v) for row in connection.execute(text(f'SELECT * FROM "{name}"')) for v in row}
            for name in inspect(connection).get_table_names()
        }
    whole = "\n".join(value for values in found.values() for value in values)
    stolen = found["api_keys"] | found["browser_sessions"]
    for key in house.keys.values():
        assert key not in whole
        assert key.split("_")[2] not in whole
    assert session not in whole
    for value in stolen:
        if value.isascii() and value.isprintable():
            assert house.ask("GET", "/models", value).status == 401
            assert house.ask("GET", "/models.json", session=value).status == 401
    assert sum(len(value) == 64 for value in stolen) > 5, "the digests were among them"


def test_a_key_that_is_revoked_or_expires_ends_here_at_once_and_elsewhere_within_seconds(
    house: House, other_house: House, monkeypatch: pytest.MonkeyPatch
):
    admin = house.keys["admin"]
    for name, end in (("gone", ("DELETE", "/keys/gone")), ("turned", ("POST", "/keys/turned/rotate"))):
        key = house.key(name, "read")
        assert house.ask("GET", "/models", key).status == other_house.ask("GET", "/models", key).status == 200
        assert house.ask(*end, admin).status == 200
        assert house.ask("GET", "/models", key).status == 401
        with monkeypatch.context() as patch:
            later = monotonic() + keyring.CACHED_SECONDS + 0.1
            patch.setattr(keyring, "monotonic", partial(float, later))
            assert other_house.ask("GET", "/models", key).status == 401
    key = house.key("short", "read", days=1.0)
    assert house.ask("GET", "/models", key).status == 200
    tomorrow = time() + 86_401
    monkeypatch.setattr(keyring, "time", lambda: tomorrow)
    assert house.ask("GET", "/models", house.keys["read"]).status == 200
    monkeypatch.setattr(keyring.Keyring, "of_key", lambda *_: None)
    assert house.ask("GET", "/models", key).status == 401, "believed no longer than it is valid"


def test_one_look_at_the_keys_stands_for_looking_each_of_them_up(
    house: House, other_house: House, monkeypatch: pytest.MonkeyPatch
):
    ring, parsed = other_house.app.state.service.keyring, form.parse(house.key("worker", "read"))
    assert parsed is not None
    ring.look()
    assert ring.of_key(parsed) is not None
    later = monotonic() + keyring.CACHED_SECONDS + 0.1
    monkeypatch.setattr(keyring, "monotonic", lambda: later)
    assert ring.cached_key(parsed) is None
    ring.look()
    assert ring.cached_key(parsed) is not None, "nothing changed meanwhile"
    assert house.ask("DELETE", "/keys/worker", house.keys["admin"]).status == 200
    ring.look()
    assert ring.cached_key(parsed) is None


def test_a_key_that_is_revoked_while_it_is_looked_up_is_not_believed(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    key, ring = house.key("at once", "read"), house.app.state.service.keyring
    valid = is_valid

    def revoked_meanwhile(*told: Any) -> bool:
        was = valid(*told)
        assert house.ask("DELETE", "/keys/at once", house.keys["admin"]).status == 200
        return was

    parsed = form.parse(key)
    assert parsed is not None
    with monkeypatch.context() as patch:
        house.ask("GET", "/keys", house.keys["admin"])  # believed: it is not looked up meanwhile
        patch.setattr(keyring, "is_valid", revoked_meanwhile)
        ring.of_key(parsed)
    assert ring.cached_key(parsed) is None
    assert house.ask("GET", "/models", key).status == 401


def test_what_is_told_as_it_happens_ends_with_the_key(house: House):
    register(house.database, "box", "x", fingerprint=None)
    going = calibrate(house.database, "box", "x", {}, status="running", origin="posted")
    house.key("listener", "read")
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(house.ask, "GET", f"/calibrations/{going}/events", house.keys["listener"])
        with pytest.raises(TimeoutError):
            heard.result(1.5)
        assert house.ask("DELETE", "/keys/listener", house.keys["admin"]).status == 200
        assert heard.result(20).status == 200


def test_a_database_without_keys_is_unavailable_not_a_fault(
    empty_url: str, opened: Callable[[str], Database]
):
    database = opened(empty_url)
    ring = keyring.Keyring(database, Quotas(database, 0, 0))
    with pytest.raises(Unavailable):
        ring.of_key(form.compose("abcdefghij", "0" * form.SECRET_CHARACTERS))


def test_a_rotated_key_keeps_name_scopes_and_length_of_life(house: House):
    house.key("worker", "read", "tell", days=10.0)
    made = house.ask("POST", "/keys/worker/rotate", house.keys["admin"]).json
    assert (made["name"], made["scopes"], made["status"]) == ("worker", ["read", "tell"], "valid")
    life = dt.datetime.fromisoformat(made["expires_at"]) - dt.datetime.fromisoformat(made["created_at"])
    assert life == dt.timedelta(days=10)
    assert house.ask("GET", "/models", made["key"]).status == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x", "scopes": ["write"]}, "scope"),
        ({"name": "x", "scopes": []}, "scopes"),
        ({"name": "x"}, "scopes"),
        ({"scopes": ["read"]}, "name"),
        ({"name": "admin", "scopes": ["read"]}, "name"),
        ({"name": "a\nb", "scopes": ["read"]}, "name"),
        ({"name": "Anonymous", "scopes": ["read"]}, "name"),
        ({"name": "memory_service", "scopes": ["read"]}, "name"),
        ({"name": "x", "scopes": ["read"], "expires_days": 0}, "expires_days"),
        ({"name": "x", "scopes": ["read"], "id": "mine"}, "id"),
    ],
)
def test_a_key_that_cannot_be_made_is_refused_by_its_field(house: House, body: dict[str, Any], field: str):
    answer = house.ask("POST", "/keys", house.keys["admin"], body=body)
    assert answer.status in (409, 422)
    assert field in [error["field"] for error in answer.json["errors"]]


def test_last_use_is_written_at_most_once_a_minute_and_by_no_request(house: House):
    ring = house.app.state.service.keyring
    key = house.key("used", "read")

    def last() -> str | None:
        (row,) = [row for row in list_keys(house.database) if row["name"] == "used"]
        used: str | None = row["last_used_at"]
        return used

    statements: list[str] = []

    def executed(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(house.database.engine, "before_cursor_execute", executed)
    for _ in range(20):
        assert house.ask("GET", "/models", key).status == 200
    event.remove(house.database.engine, "before_cursor_execute", executed)
    assert not [line for line in statements if line.startswith(("UPDATE", "INSERT"))]
    assert len([line for line in statements if "api_keys" in line]) == 1, "believed for some seconds"
    ring.write()
    first = last()
    assert first is not None
    house.ask("GET", "/models", key)
    ring.write()
    assert last() == first
    ring.write(all_of_it=True)
    assert last() != first


def test_no_key_and_no_session_is_ever_logged(house: House, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    key = house.key("quiet", "read", "edit")
    session = house.sign_in(key).session
    for shown in (key, mistyped(key), not_valid(house)["wrong"]):
        house.ask("GET", "/models", shown)
        house.ask("POST", "/runs", shown, body={"key": 1})
        house.sign_in(shown)
    house.ask("POST", "/browse/edit/models/x", session=session, form={})
    assert not re.search(rf"{key[5:40]}|{session}", caplog.text)


def test_refused_keys_are_told_once_a_minute_for_each_address(house: House):
    ring = house.app.state.service.keyring
    ring.write(all_of_it=True)
    before = len(house.audit(table="refusals"))
    for address, times in (("198.51.100.7", 40), ("198.51.100.8", 1)):
        for _ in range(times):
            ring.refused(address, "0123456789")
    ring.write(all_of_it=True)
    ring.refused("198.51.100.7", "0123456789")
    ring.write()
    entries = house.audit(table="refusals")[before:]
    assert [(e["who"], e["row"], e["why"].split()[0]) for e in entries] == [
        ("198.51.100.7", "0123456789", "40"),
        ("198.51.100.8", "0123456789", "1"),
    ]


def test_the_command_line_makes_lists_rotates_and_revokes(servers: Servers):
    url = servers.new("sqlite", "head")

    def run(*arguments: str) -> Any:
        done = CLI.invoke(command_line, ["keys", *arguments, "--database", url, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    made = run("create", "agent", "--scope", "read,tell", "--scope", "edit", "--expires-days", "2")
    assert made["scopes"] == ["read", "tell", "edit"]
    assert form.parse(made["key"]) is not None
    turned = run("rotate", "agent")
    assert turned["key"] != made["key"]
    assert run("revoke", turned["id"])["status"] == "revoked"
    listed = run("list")["items"]
    assert [row["status"] for row in listed] == ["revoked", "revoked"]
    assert made["key"] not in json.dumps(listed)
    gone = CLI.invoke(command_line, ["keys", "revoke", "agnt", "--database", url])
    assert gone.exit_code == 1
    shown = CLI.invoke(command_line, ["keys", "create", "ada", "--scope", "admin", "--database", url]).stdout
    key = next(word for word in shown.split() if word.startswith(form.PREFIX))
    assert form.parse(key) is not None, "whole, however narrow the terminal"


@pytest.mark.parametrize("settings", [{"--host": "0.0.0.0"}, {"--host": "::"}, {"--host": "box.example"}, {}])
def test_a_server_that_others_reach_starts_only_with_an_admin_key(
    settings: dict[str, str], servers: Servers, monkeypatch: pytest.MonkeyPatch
):
    started: list[str] = []

    class Server:
        started = True

        def run(self) -> None:
            started.append("yes")

    monkeypatch.setattr("memory_service.api.connection.server_of", lambda *_, **__: Server())
    monkeypatch.setattr("memory_service.cli.common.worker_processes.require_free", lambda *_: None)
    if not settings:
        monkeypatch.setenv("MEMORY_REQUIRE_KEYS", "true")
    url = servers.new("sqlite", "head")
    serve = ["serve", "--port", "0", "--database", url, *(word for pair in settings.items() for word in pair)]

    def refused() -> bool:
        done = CLI.invoke(command_line, serve)
        assert (done.exit_code == 1) == (
            "memory-service keys create NAME --scope admin" in " ".join(done.stderr.split())
        )
        return done.exit_code == 1

    def keys(*arguments: str) -> None:
        assert CLI.invoke(command_line, ["keys", *arguments, "--database", url]).exit_code == 0

    assert refused()
    keys("create", "agent", "--scope", "read,tell,edit")
    assert refused()
    keys("create", "ada", "--scope", "admin")
    assert not refused()
    keys("revoke", "ada")
    assert refused()
    assert started == ["yes"]


def test_a_key_that_ends_takes_its_sessions_along(house: House):
    house.key("left", "read")
    session = house.sign_in(house.keys["left"]).session
    assert house.ask("GET", "/browse/models", session=session).status == 200
    revoke_key(house.database, "left")
    house.app.state.service.keyring.forget()
    assert house.ask("GET", "/browse/models", session=session).status == 303
    with house.database.engine.connect() as connection:
        kept = connection.execute(text("SELECT digest FROM browser_sessions")).scalars().all()
    assert form.digest(session) not in kept
    assert sessions.HOURS == 12
