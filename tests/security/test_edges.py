"""The low findings of the audit of 2026-11-22, each with what it was."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from memory_service.api.connection import OneOfMany
from memory_service.api.security.loopback import reach_of
from memory_service.api.security.rate_limits import network_of
from memory_service.client.config import DEFAULT_SERVER
from memory_service.client.delivery.sender import _key_for
from memory_service.client.delivery.spool import Disk
from memory_service.errors import InvalidInput
from memory_service.services.database.transactions import Database
from memory_service.services.operations import database as databases
from memory_service.services.tables.file_formats import TableExport, in_format
from memory_service.services.tables.paging import _check, parse_query
from tests.api.conftest import serve
from tests.conftest import Servers
from tests.store.fakes import claim
from tests.telling import CASE


@pytest.fixture(scope="module")
def client(servers: Servers) -> Any:
    yield from serve(servers, "sqlite")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59"])
@pytest.mark.parametrize(
    "path", ["/runs?started_at_min=", "/runs?started_at_max=", "/audit?at_min=", "/audit?at_max="]
)
def test_l1_times_at_the_edge_are_refused(client: TestClient, path: str, moment: str):
    assert client.get(path + moment).status_code == 422


def test_l2_a_forged_cursor_with_null_is_refused(client: TestClient):
    query = parse_query("runs", {}, "-started_at")
    for value, key in ((None, "a"), ("2026-01-01T00:00:00+00:00", None), (None, None), ({}, []), ([1], "a")):
        body = json.dumps([query._digest(), value, key]).encode()
        forged = base64.urlsafe_b64encode(_check(body) + body).decode().rstrip("=")
        refused = client.get("/runs", params={"sort": "-started_at", "cursor": forged})
        assert refused.status_code == 422, (value, key)


def test_l3_files_are_their_owners(tmp_path: Path):
    before = os.umask(0o022)
    try:
        folder = tmp_path / "a" / "b"
        with Database(f"sqlite:///{folder}/memory.sqlite3") as database:
            databases.upgrade(database)
            databases.backup(database, tmp_path / "saved")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        os.umask(before)
    assert "memory.sqlite3-wal" in modes
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE((tmp_path / "saved").stat().st_mode) == 0o600
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, folder.parent)] == [0o700, 0o700]


def test_l4_a_compressed_body_is_refused(client: TestClient):
    run_id = client.post("/runs", json=CASE).json()["run_id"]
    packed, headers = gzip.compress(b"Epoch 1/3 loss=0.5\n"), {"Content-Encoding": "gzip"}
    assert client.post(f"/runs/{run_id}/log", content=packed, headers=headers).status_code == 415
    assert client.get(f"/runs/{run_id}/events").text == ""
    for path in ("/similar", "/mcp", f"/runs/{run_id}/events", "/review"):
        assert client.post(path, content=packed, headers=headers).status_code == 415, path
    assert client.post(
        "/similar", json={"text": "leaves"}, headers={"Content-Encoding": "identity"}
    ).is_success


def test_l5_no_cell_is_a_formula_whatever_separates_them():
    rows = [{"title": title, "n": 1.5} for title in ("x;=1+1", "＝1+1", "plain", "=1")]
    text = b"".join(in_format(TableExport({"title": str, "n": float}, lambda: iter([rows])), "csv")).decode()
    for separator in (",", ";"):
        for row in csv.reader(io.StringIO(text), delimiter=separator):
            assert not any(cell.lstrip('"').startswith(("=", "＝")) for cell in row), (separator, row)
    assert next(csv.reader([text.splitlines()[3]])) == ["plain", "1.5"]


def test_l6_nobody_signs_with_the_name_of_a_key_or_of_the_service(client: TestClient):
    assert client.post("/keys", json={"name": "ada", "scopes": "edit"}).status_code == 201
    for name in ("ada", " ada ", "memory_service"):
        refused = client.post("/claims", json=claim("C-signed") | {"who": name})
        assert refused.status_code == 422, name
        assert refused.json()["errors"][0]["field"] == "who"
        assert client.patch("/gpus/a100", json={"year": 2020, "who": name}).status_code == 422
    assert client.post("/claims", json=claim("C-signed") | {"who": "ada's laptop"}).status_code == 201


def test_l7_a_key_goes_to_its_own_server_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MEMORY_API_KEY", "msk_x")
    monkeypatch.delenv("MEMORY_SERVER", raising=False)
    assert _key_for("http://evil.example", None) is None
    assert _key_for(DEFAULT_SERVER, None) == "msk_x"
    assert _key_for("http://box:8000", "http://box:8000/") == "msk_x"
    monkeypatch.setenv("MEMORY_SERVER", "http://box:8000")
    assert _key_for("http://box:8000", None) == "msk_x"
    assert _key_for("http://box:8000.evil.example", None) is None


def test_l8_a_spool_is_not_written_through_a_link(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    disk = Disk(tmp_path / "run.jsonl", new=True)
    (tmp_path / "run.tmp").symlink_to(victim)
    disk.replace(b"all anew\n")
    assert victim.read_text() == "mine"
    assert (tmp_path / "run.jsonl").read_text() == "all anew\n"
    (tmp_path / "link.jsonl").symlink_to(victim)
    with pytest.raises(OSError, match="link"):
        Disk(tmp_path / "link.jsonl", new=False)


def test_l9_another_log_from_its_beginning_is_not_passed_over(client: TestClient):
    run_id = client.post("/runs", json=CASE).json()["run_id"]
    log = b"".join(b"Epoch %d/40 loss=0.5\n" % n for n in range(1, 40))
    path = f"/runs/{run_id}/log"
    assert client.post(f"{path}?offset=0", content=log[:30]).json()["accepted"] == 1
    assert client.post(f"{path}?offset=0", content=log).json()["accepted"] == 38
    rotated = client.post(f"{path}?offset=0", content=b"Epoch 40/40 loss=0.1\n" * 100)
    assert rotated.status_code == 409
    assert "rotated" in rotated.json()["detail"]
    for offset, beginning in ((0, b"Another log\n"), (12, b"its second line\n")):
        short = client.post(f"{path}?offset={offset}", content=beginning)
        assert short.status_code == 409, "also one that has only begun"
    assert client.post(path, content=b"Epoch 40/40 loss=0.1\n").json()["accepted"] == 1
    assert client.post(f"{path}?offset=0", content=log).json()["accepted"] == 0


def test_l10_a_page_of_another_site_embeds_nothing_of_this_one(client: TestClient):
    embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert client.get("/gpus/a100", headers=embedded).status_code == 403
    assert client.get("/gpus/a100", headers=embedded | {"Sec-Fetch-Mode": "navigate"}).status_code == 200
    assert client.get("/gpus/a100", headers=embedded | {"Sec-Fetch-Site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("name", ["x-forwarded-prefix", "cf-connecting-ip", "true-client-ip", "via"])
def test_l11_what_a_proxy_adds_marks_a_request_as_one_from_outside(name: str):
    scope = {"server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 5), "headers": []}
    assert reach_of(scope) == "loopback"
    assert reach_of({**scope, "headers": [(name.encode(), b"1.2.3.4")]}) == "outside"


def test_m2_addresses_of_one_customer_are_one():
    assert network_of("192.0.2.7") == "192.0.2.7"
    assert network_of("2001:db8::7") == network_of("2001:db8::8:9") == "2001:db8::/64"
    assert network_of("") == ""


@pytest.mark.parametrize("what", ["Invalid HTTP request received.", "socket.send() raised exception."])
def test_l12_what_anybody_can_cause_is_logged_once_in_a_while(what: str):
    bad = logging.LogRecord("asyncio", logging.WARNING, "", 0, what, None, None)
    other = logging.LogRecord("uvicorn.error", logging.INFO, "", 0, "Started", None, None)
    one_in_a_while = OneOfMany()
    assert [one_in_a_while.filter(bad) for _ in range(5)] == [True] + [False] * 4
    assert one_in_a_while.filter(other)


@pytest.mark.parametrize("url", ["sqlite:///file:/tmp/x.db", "sqlite:///file:x.db?uri=true"])
def test_l13_a_uri_is_no_path(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="not a URI"):
        Database(url)
    assert list(tmp_path.iterdir()) == []
