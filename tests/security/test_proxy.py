"""The proxy's settings of docs/operations.md, in nginx before a real server."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from memory_service.cli import app as command_line
from tests.conftest import Servers, free_port
from tests.security.test_processes import serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx on this machine"),
]
DOCUMENTED = Path(__file__).parents[2] / "docs" / "operations.md"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
HOST = {"Host": "memory.example.org"}
SLOW = b"POST /runs HTTP/1.1\r\nHost: memory.example.org\r\nContent-Length: 10\r\n\r\n{"


def documented(port: int, to: int) -> str:
    """The lines of the page, on another port and without TLS."""
    (found,) = re.findall(r"```\n(limit_conn_zone .*?\n}\n)```", DOCUMENTED.read_text(), re.DOTALL)
    for before, after in (("443 ssl", f"0.0.0.0:{port}"), ("127.0.0.1:8000", f"127.0.0.1:{to}")):
        assert found.count(before) == 1
        found = found.replace(before, after)
    return str(found)


@pytest.fixture(scope="module")
def proxy(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """(port of nginx, a key of the service behind it)."""
    url, folder = servers.new("sqlite", "head"), tmp_path_factory.mktemp("nginx")
    made = CliRunner().invoke(command_line, ["keys", "create", "ada", "--scope", "admin", "--database", url])
    (key,) = re.findall(r"msk_\w+", made.stdout)
    port, to = free_port(), free_port()
    paths = "".join(f"{name}_temp_path {folder}/{name};" for name in TEMPORARY)
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/errors; events {{ worker_connections 900; }}\n"
        f"http {{ access_log off; {paths}\n{documented(port, to)} }}\n"
    )
    command = ["nginx", "-p", str(folder), "-e", str(folder / "errors"), "-c", str(folder / "nginx.conf")]
    with serving(url, to, folder / "log"):
        process = subprocess.Popen(command)
        try:
            while not (folder / "pid").exists():
                assert process.poll() is None, (folder / "errors").read_text()
                time.sleep(0.05)
            yield port, key
        finally:
            process.terminate()
            process.wait(60)


def asking(port: int, source: str) -> httpx2.Client:
    transport = httpx2.HTTPTransport(local_address=source)
    return httpx2.Client(base_url=f"http://127.0.0.1:{port}", transport=transport, headers=HOST, timeout=60)


def test_nobody_passes_the_proxy_without_a_key(proxy: tuple[int, str]):
    port, key = proxy
    with asking(port, "127.0.0.1") as ask:
        assert ask.get("/models").status_code == 401
        assert ask.get("/models", headers={"X-API-Key": key}).status_code == 200


def test_wrong_keys_are_counted_for_who_sent_them(proxy: tuple[int, str]):
    port, key = proxy
    with asking(port, "127.0.0.5") as guesser, asking(port, "127.0.0.6") as other:
        wrong = [{"X-API-Key": f"msk_{n:060d}"} for n in range(15)]
        tried = [guesser.get("/models", headers=one).status_code for one in wrong]
        assert tried[0] == 401
        assert tried[-1] == 429
        assert other.get("/models", headers=wrong[0]).status_code == 401
        assert other.get("/models", headers={"X-API-Key": key}).status_code == 200


def test_an_address_has_its_share_of_connections(proxy: tuple[int, str]):
    port, key = proxy
    with ExitStack() as stack:
        for _ in range(130):
            slow = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0), timeout=60)
            stack.enter_context(slow).sendall(SLOW)
        with asking(port, "127.0.0.2") as same, asking(port, "127.0.0.3") as other:
            assert same.get("/healthz").status_code == 429
            assert other.get("/healthz").status_code == 200
            assert other.get("/models", headers={"X-API-Key": key}).status_code == 200


def test_an_address_has_its_rate_of_requests(proxy: tuple[int, str]):
    port, _ = proxy

    def many(_: int) -> list[int]:
        with asking(port, "127.0.0.4") as ask:
            return [ask.get("/healthz").status_code for _ in range(400)]

    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        statuses = [status for some in pool.map(many, range(4)) for status in some]
    assert set(statuses) <= {200, 429}
    assert statuses.count(200) <= 401 + 200 * (time.monotonic() - began)
    with asking(port, "127.0.0.3") as other:
        assert [other.get("/healthz").status_code for _ in range(5)] == [200] * 5
