"""Is a key held to its rate, and does guessing keys get slow without locking out those who have one?"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import Message

from memory_service.api.security import rate_limits as rates
from memory_service.api.security.rate_limits import MOST_NAMES, Rate, network_of
from memory_service.app import create_app
from memory_service.services.access.keys import create_key
from memory_service.services.database.transactions import Database
from memory_service.settings import load_settings
from tests.conftest import Servers

PER_MINUTE = 30
WRONG = "msk_" + "0" * 40


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of the buckets, which go on only where a test says so."""
    seconds = [1000.0]
    monkeypatch.setattr(rates, "monotonic", lambda: seconds[0])
    return seconds


@dataclass(frozen=True)
class Served:
    """A server that demands keys. Each test comes from an address of its own, with keys of its own."""

    app: FastAPI
    database_url: str
    portal: BlockingPortal

    def client(self, address: str) -> TestClient:
        return TestClient(self.app, client=(address, 1))

    def keys(self, *names: str) -> list[dict[str, str]]:
        with Database(self.database_url) as database:
            made = [create_key(database, name, ["read"])["key"] for name in names]
        return [{"Authorization": f"Bearer {key}"} for key in made]


@pytest.fixture(scope="module")
def served(servers: Servers) -> Iterator[Served]:
    url = servers.new("sqlite", "head")
    app = create_app(
        load_settings(database_url=url, seed_on_start=False, require_keys=True, rate_limit=PER_MINUTE)
    )
    with TestClient(app) as client:
        assert client.portal is not None
        yield Served(app, url, client.portal)
    servers.drop(url)


def test_a_key_over_its_rate_is_told_when_to_come_back_and_another_is_not(served: Served, clock: list[float]):
    client, (ada, bob) = served.client("192.0.2.0"), served.keys("ada 0", "bob 0")
    told = [client.get("/metrics", headers=ada) for _ in range(PER_MINUTE + 3)]
    assert [answer.status_code for answer in told[:PER_MINUTE]] == [200] * PER_MINUTE
    left = [int(re.fullmatch(r'"key";r=(\d+);t=\d+', a.headers["RateLimit"])[1]) for a in told]  # type: ignore[index]
    assert left[:3] == [PER_MINUTE - 1, PER_MINUTE - 2, PER_MINUTE - 3]
    refused = told[-1]
    assert refused.status_code == 429
    assert refused.json()["type"].endswith(":too-many-requests")
    assert refused.headers["RateLimit-Policy"] == f'"key";q={PER_MINUTE};w=60'
    assert int(refused.headers["Retry-After"]) == 60 / PER_MINUTE
    assert client.get("/metrics", headers=bob).status_code == 200
    clock[0] += int(refused.headers["Retry-After"])
    assert client.get("/metrics", headers=ada).status_code == 200


def test_what_a_key_may_not_do_counts_too(served: Served):
    client, (cy,) = served.client("192.0.2.4"), served.keys("cy")
    told = [client.get("/keys", headers=cy) for _ in range(PER_MINUTE + 3)]
    assert {answer.status_code for answer in told[:PER_MINUTE]} == {403}
    assert told[0].headers["RateLimit"].startswith(f'"key";r={PER_MINUTE - 1};')
    assert told[-1].status_code == 429


def test_wrong_keys_soon_have_to_wait_while_a_known_one_passes(
    served: Served,
):
    client, (ada, bob) = served.client("192.0.2.1"), served.keys("ada 1", "bob 1")
    assert client.get("/metrics", headers=ada).status_code == 200
    guesses = [{"Authorization": f"Bearer {WRONG[:-2]}{n:02d}"} for n in range(15)]
    told = [client.get("/metrics", headers=guess) for guess in guesses]
    assert {answer.status_code for answer in told[:10]} == {401}
    assert {answer.status_code for answer in told[10:]} == {429}
    assert int(told[-1].headers["Retry-After"]) >= 1
    assert client.get("/metrics", headers=ada).status_code == 200
    assert client.get("/metrics", headers=bob).status_code == 200  # its first
    assert client.post("/browse/login", data={"key": WRONG}).status_code == 429
    assert client.get("/healthz").status_code == 200
    assert client.get("/healthz", headers=guesses[0]).status_code == 200


def test_an_open_route_does_not_make_a_guess_a_known_key(served: Served):
    client = served.client("192.0.2.2")
    guesses = [{"X-API-Key": f"{WRONG[:-2]}{n:02d}"} for n in range(15)]
    told = [
        client.get(path, headers=guess).status_code for guess in guesses for path in ("/healthz", "/metrics")
    ]
    assert told.count(401) == 10
    assert 429 in told


def test_signing_in_with_wrong_keys_gets_slow_too(served: Served):
    client = served.client("192.0.2.3")
    told = [client.post("/browse/login", data={"key": WRONG}).status_code for _ in range(12)]
    assert told == [401] * 10 + [429] * 2


@pytest.mark.parametrize("path", ["/browse/login", "/predict"])
def test_a_withheld_body_keeps_no_key_of_its_address_waiting(served: Served, path: str):
    """Of the form to sign in, and of a question with a key that is right."""
    client = TestClient(served.app, client=("192.0.2.7", 1))
    withholding, new, signing = served.keys(*(f"{name} {path[1:4]}" for name in ("cy", "dee", "eli")))
    for _ in range(12):
        client.post("/browse/login", data={"key": WRONG})
    begun = threading.Event()

    async def never() -> Message:
        begun.set()
        await asyncio.sleep(3_600)
        raise AssertionError

    async def nothing(_: Message) -> None:
        """Takes an answer."""

    sent = {"host": "testserver", "content-length": "100", "content-type": "application/json", **withholding}
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"", "client": ("192.0.2.7", 1),
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        "server": ("testserver", 80), "scheme": "http", "http_version": "1.1", "root_path": "",
    }  # fmt: skip
    withheld = served.portal.start_task_soon(served.app, scope, never, nothing)
    assert begun.wait(60)
    answers = [
        client.get("/metrics", headers=new),
        client.post("/browse/login", data={"key": signing["Authorization"][7:]}, follow_redirects=False),
    ]
    assert not withheld.done()
    withheld.cancel()
    assert [answer.status_code for answer in answers] == [200, 303]


def test_open_use_over_loopback_is_not_limited(servers: Servers):
    url = servers.new("sqlite", "head")
    settings = load_settings(database_url=url, seed_on_start=False, rate_limit=1, calibrate=False)
    with TestClient(create_app(settings)) as client:
        told = [client.get("/metrics") for _ in range(5)]
    assert {answer.status_code for answer in told} == {200}
    assert "RateLimit" not in told[0].headers
    servers.drop(url)


def test_a_bucket_fills_again_and_forgets_the_oldest_name():
    rate = Rate("key", 60)
    assert all(rate.take("a", 0.0) == 0 for _ in range(60))
    assert rate.take("a", 0.0) == pytest.approx(1.0)
    assert rate.take("a", 0.5) == pytest.approx(0.5)
    assert rate.take("a", 1.0) == 0
    for n in range(6 * MOST_NAMES):
        rate.take(f"n{n}", 2.0)
    assert rate.left("a", 1.0) == 60


def test_an_address_of_ipv6_counts_as_its_network():
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") != network_of("2001:db8:0:1::1")
    assert network_of("192.0.2.1") != network_of("192.0.2.2")
