"""What is too deep or too much costs little, wherever it stands; what every answer says to a browser."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from memory_service.api.request_body import MOST_VALUES, parse_json
from memory_service.errors import InvalidInput, TooLarge
from tests.api.described.test_any_row import AS_OTHERS
from tests.api.limits.test_connections import SAFE

DEEP = {
    "open": b"[" * 4_000_000,
    "closed": b"[" * 2_000_000 + b"]" * 2_000_000,
    "objects": b'{"a":' * 700_000 + b"1" + b"}" * 700_000,
    "escaped": b'{"a":' * 1_000 + b'"\\u0041"' + b"}" * 1_000,
    "lists": b"[" * 1_010 + b"]" * 1_010,
    "a literal": b"[" * 300 + b"NaN" + b"]" * 300,
}


@pytest.mark.parametrize("raw", DEEP.values(), ids=DEEP)
def test_deep_nesting_costs_little(raw: bytes):
    began = time.process_time()
    with pytest.raises((InvalidInput, TooLarge)):
        parse_json(raw)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("piece", [b"[]", b"{}", b"0"])
def test_too_many_values_cost_little(piece: bytes):
    began = time.process_time()
    with pytest.raises(TooLarge):
        parse_json(b"[" + piece + (b"," + piece) * MOST_VALUES + b"]")
    assert time.process_time() - began < 0.3


def test_depth_on_every_route_that_takes_a_body(sqlite_client: TestClient):
    """As deep as is read, in every field: nothing behind the reader may break on it."""
    described = sqlite_client.get("/openapi.json").json()["paths"]
    for path, operations in described.items():
        for method in operations.keys() & {"post", "patch", "put"}:
            for depth, allowed in ((250, range(200, 500)), (1_015, (200, 404, 422))):
                body = b'{"a":' * depth + b"1" + b"}" * depth
                content = operations[method].get("requestBody", {}).get("content", {})
                shape = content.get("application/json", {}).get("schema", {})
                for name in ("", *shape.get("properties", {})):
                    told = sqlite_client.request(
                        method,
                        path.replace("{", "").replace("}", ""),
                        content=b'{"%s": %s}' % (name.encode(), body) if name else body,
                        headers={"Content-Type": "application/json"},
                    )
                    assert told.status_code in allowed, (method, path, name, depth, told.text[:300])


def test_every_answer_has_the_safe_headers(sqlite_client: TestClient, tmp_path: Path):
    """Every route there is, described or not, well asked or not."""
    app = sqlite_client.app
    assert isinstance(app, FastAPI)
    paths = {getattr(route, "path", "") for route in app.state.routes}.difference(AS_OTHERS)
    paths |= {"/nowhere", "/browse/nowhere"}
    asked = [(method, path) for path in paths for method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS")]
    for method, path in [*asked, ("GET", "/static/site.css"), ("GET", "/recommend?task=image&gpu=a100")]:
        told = sqlite_client.request(method, path, follow_redirects=False)
        missing = SAFE - {name.lower() for name in told.headers}
        assert not missing, (method, path, told.status_code, missing)
        assert told.headers["content-security-policy"].count("frame-ancestors 'none'") == 1, path
        assert len(told.headers.get_list("cache-control")) == 1, path
        assert "strict-transport-security" not in told.headers
        kept = told.headers["cache-control"]
        shown_again = method == "POST" and path.startswith("/browse") and kept == "private, no-cache"
        cached = path.startswith(("/static", "/docs", "/calibrations")) or shown_again  # by Back
        assert "no-store" in kept or cached, (method, path, kept)


def test_over_tls_the_browser_is_told_to_stay_there(sqlite_client: TestClient):
    app = sqlite_client.app
    secure = TestClient(app, base_url="https://memory.example")
    assert secure.get("/healthz").headers["strict-transport-security"].startswith("max-age=")
