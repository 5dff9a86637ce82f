"""Scripts and commands name the server's own address, whatever `Host` a caller sends."""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.api.security.loopback import server_url
from memory_service.settings import load_settings
from tests.security.conftest import House


@pytest.mark.parametrize(
    ("host", "socket", "public", "named"),
    [
        ("evil.example.com", ("192.0.2.1", 8000), "", "http://192.0.2.1:8000"),
        ("evil.example.com", ("127.0.0.1", 8000), "", "http://127.0.0.1:8000"),
        ("192.0.2.1:8000", ("192.0.2.1", 8000), "", "http://192.0.2.1:8000"),
        ("192.0.2.7", ("192.0.2.1", 8000), "", "http://192.0.2.1:8000"),
        ("Box:8000", ("192.0.2.1", 8000), "", "http://Box:8000"),
        ("localhost:9000", ("172.17.0.2", 8000), "", "http://localhost:9000"),
        ("localhost.evil.com", ("2001:db8::1", 8000), "", "http://[2001:db8::1]:8000"),
        ("[2001:db8::1]:8000", ("2001:db8::1", 8000), "", "http://[2001:db8::1]:8000"),
        ("evil.example.com", ("testserver", 80), "", "http://testserver"),
        ("localhost", ("127.0.0.1", 8000), "https://memory.example.org/", "https://memory.example.org"),
    ],
)
def test_a_foreign_host_is_never_the_server(
    host: str, socket: tuple[str, int], public: str, named: str
) -> None:
    scope: dict[str, Any] = {"scheme": "http", "server": socket, "headers": [(b"host", host.encode())]}
    assert server_url(scope, load_settings(host="box", public_url=public)) == named


def test_commands_name_no_foreign_host(house: House) -> None:
    body = {"name": "box-of-a-stranger", "calibrate": True}
    answer = house.ask(
        "POST", "/gpus", key=house.keys["edit"], body=body, headers={"host": "evil.example.com"}
    )
    assert answer.status == 201
    assert "evil.example.com" not in answer.text
    assert "http://192.0.2.1:8000" in answer.text
