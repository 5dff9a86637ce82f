"""Do look-alike names, keys without `read` and packed texts get no further than they should?"""

from __future__ import annotations

import uuid
import zlib
from base64 import urlsafe_b64encode

import pytest

from memory_service.web.site import packed
from tests.security.conftest import LOOPBACK, House

LOCAL = {"host": "127.0.0.1:8000"}
NAMES = (
    "ａdmin", "admin\u200b", "ad\u00admin", "\ufeffadmin", "admin\u2060", "аdmin", "ADMIN", " admin ",
    "memory_service\u200d", "Memory_Service", "ｍemory_service", "ad\u202emin",
)  # fmt: skip


@pytest.mark.parametrize("who", NAMES)
def test_nobody_without_a_key_signs_with_what_looks_like_a_keys_name(house: House, who: str):
    row = {"slug": f"a-{uuid.uuid4().hex}", "title": "A", "description": "Photos of dogs.", "who": who}
    answer = house.ask("POST", "/competitions", body=row, server=LOOPBACK, headers=LOCAL)
    assert answer.status == 422, answer.text
    assert answer.json["errors"][0]["field"] == "who"


@pytest.mark.parametrize("who", ["José", "Анна", "bob", "陳"])
def test_a_name_in_any_one_script_is_taken(house: House, who: str):
    row = {"slug": f"a-{uuid.uuid4().hex}", "title": "A", "description": "Photos of dogs.", "who": who}
    answer = house.ask("POST", "/competitions", body=row, server=LOOPBACK, headers=LOCAL)
    assert answer.status == 201, answer.text


def test_a_keys_name_in_capitals_is_taken(house: House):
    house.key("k_read", "read")
    asked = {"name": "K_READ", "scopes": ["read"]}
    refused = house.ask("POST", "/keys", house.keys["admin"], body=asked)
    assert (refused.status, refused.json["errors"][0]["field"]) == (409, "name")


def test_a_valid_key_without_read_is_no_wrong_key_at_the_login_page(house: House):
    assert house.sign_in(house.keys["tell"]).status == 403
    assert house.sign_in("msk_nothing").status == 401


@pytest.mark.parametrize("text", ["a" * 4_000_000, "<&\"'>" * 800_000, "é" * 300_000, "\n" * 100_001])
def test_a_packed_text_is_measured_before_it_is_read(house: House, text: str):
    answer = house.ask("GET", f"/?packed={packed(text)}", house.keys["read"])
    assert answer.status == 422
    assert "100000 characters" in answer.text
    assert len(answer.body) < 100_000


@pytest.mark.parametrize("raw", [b"", b"x", zlib.compress(b"\xff\xfe"), zlib.compress(b"dogs" * 999)[:20]])
def test_what_does_not_unpack_is_refused(house: House, raw: bytes):
    given = urlsafe_b64encode(raw).rstrip(b"=").decode() or "A"
    assert house.ask("GET", f"/?packed={given}", house.keys["read"]).status == 422
