"""A service that others reach: every request comes in over an address that is not loopback.

Each comes from an address of its own: whoever shows many wrong keys has to wait, which is tested elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import text

from memory_service.api.security.auth_middleware import SESSION_COOKIE
from memory_service.app import create_app
from memory_service.domain.common.api_keys import ALPHABET, SECRET_CHARACTERS, compose
from memory_service.services.access.keys import create_key, revoke_key
from memory_service.services.database.transactions import Database
from memory_service.settings import load_settings
from tests.conftest import KINDS, Servers

SCOPES = ("read", "tell", "edit", "admin")
OUTSIDE = ("192.0.2.1", 8000)
LOOPBACK = ("127.0.0.1", 8000)
_addresses = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def session(self) -> str:
        """The session's id that the answer sets as a cookie."""
        name, _, rest = self.headers["set-cookie"].partition("=")
        assert name == SESSION_COOKIE
        return rest.partition(";")[0]


@dataclass
class House:
    """One process of the service over one database, and keys of every kind."""

    app: FastAPI
    client: TestClient
    keys: dict[str, str] = field(default_factory=dict)
    """Name -> key: of each scope, and `expired` and `revoked`, which had all of them."""

    @property
    def database(self) -> Database:
        opened: Database = self.app.state.service.database
        return opened

    def key(self, name: str, *scopes: str, days: float | None = None) -> str:
        """A new key."""
        made = create_key(self.database, name, scopes, expires_days=days, who="a test")
        self.keys[name] = made["key"]
        return str(made["key"])

    def ask(
        self,
        method: str,
        path: str,
        key: str | None = None,
        *,
        body: Any = None,
        form: Mapping[str, str] | None = None,
        session: str | None = None,
        server: tuple[str, int] | None = OUTSIDE,
        scheme: str = "http",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request, straight to the application."""
        told = dict(headers or {})
        if key is not None:
            told["authorization"] = f"Bearer {key}"
        if session is not None:
            told["cookie"] = f"{SESSION_COOKIE}={session}"
        content = b""
        if form is not None:
            content = "&".join(f"{n}={_quoted(v)}" for n, v in form.items()).encode()
            told["content-type"] = "application/x-www-form-urlencoded"
        elif body is not None:
            content, told["content-type"] = orjson.dumps(body), "application/json"
        assert self.client.portal is not None
        answer: Answer = self.client.portal.call(self._asked, method, path, told, content, server, scheme)
        return answer

    async def _asked(
        self, method: str, path: str, headers: dict[str, str], body: bytes, server: Any, scheme: str
    ) -> Answer:
        path, _, query = path.partition("?")
        high, low = divmod(next(_addresses), 65_536)
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "scheme": scheme,
            "headers": [(n.encode(), v.encode()) for n, v in ({"host": "service.example"} | headers).items()],
            "client": (f"2001:db8:{high:x}:{low:x}::1", 5), "server": server, "state": {},
        }  # fmt: skip
        sent: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]
        got: list[Any] = []

        async def receive() -> Any:
            if not sent:
                await anyio.sleep_forever()  # the caller waits for the answer
            return sent.pop(0)

        async def send(message: Any) -> None:
            got.append(message)

        await self.app(scope, receive, send)
        back = {n.decode(): v.decode() for n, v in got[0]["headers"]}
        return Answer(got[0]["status"], back, b"".join(m.get("body", b"") for m in got[1:]))

    def audit(self, **filters: str) -> list[dict[str, Any]]:
        """Entries in order."""
        asked = "&".join(f"{name}={value}" for name, value in filters.items())
        items: list[dict[str, Any]] = self.ask("GET", f"/audit?limit=500&{asked}", self.keys["admin"]).json[
            "items"
        ]
        return items

    def sign_in(self, key: str, **more: Any) -> Answer:
        """What the login page's form is answered."""
        form = {"key": key, **more.pop("form", {})}
        return self.ask("POST", "/browse/login", form=form, **more)


def _quoted(value: str) -> str:
    return "".join(c if c.isalnum() else "".join(f"%{b:02x}" for b in c.encode()) for c in value)


def opened_house(url: str) -> Iterator[House]:
    settings = load_settings(
        database_url=url, seed_on_start=False, calibrate=False, embedding_model="/no/such/model"
    )
    app = create_app(settings)
    with TestClient(app) as client:
        assert app.state.service.preparation.wait(300).knowledge
        app.state.service.keyring.stop()  # tests count statements, and call `write` themselves
        yield House(app, client)


@pytest.fixture(scope="module", params=KINDS)
def house_url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    url = servers.new(str(request.param), "head")
    yield url
    servers.drop(url)


@pytest.fixture(scope="module")
def house(house_url: str) -> Iterator[House]:
    """Shared by a module's tests, on both databases."""
    for made in opened_house(house_url):
        for scope in SCOPES:
            made.key(scope, scope)
        for name in ("expired", "revoked"):
            made.key(name, *SCOPES, days=1.0)
        revoke_key(made.database, "revoked")
        expire(made, "expired")
        yield made


@pytest.fixture(scope="module")
def other_house(house: House, house_url: str) -> Iterator[House]:
    """Another process of the same service, as far as it can be one in this."""
    for made in opened_house(house_url):
        made.keys = house.keys
        yield made


def expire(house: House, name: str) -> None:
    """Let a key's time be over."""
    with house.database.engine.begin() as connection:
        connection.execute(
            text("UPDATE api_keys SET expires_at = created_at WHERE name = :name"), {"name": name}
        )
    house.app.state.service.keyring.forget()


def not_valid(house: House) -> dict[str, str]:
    """Keys of the right form that open nothing, by why."""
    good = house.keys["admin"]
    key_id = good.split("_")[1]
    return {
        "unknown": compose("0" * len(key_id), ALPHABET[:SECRET_CHARACTERS]).text,
        "wrong": compose(key_id, ALPHABET[:SECRET_CHARACTERS]).text,
        "expired": house.keys["expired"],
        "revoked": house.keys["revoked"],
    }


def mistyped(key: str) -> str:
    return key[:-1] + ("a" if key[-1] != "a" else "b")
