"""Do keys, session cookies and database passwords stay out of logs, answers, counts, files and commands?

Canaries are given wherever a secret may be given, much is made to fail, and everything that comes out is
searched for them, whole and in their telling parts.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from memory_service.api.security.auth_middleware import SESSION_COOKIE
from memory_service.app import create_app
from memory_service.cli import app as command_line
from memory_service.errors import InvalidInput
from memory_service.services.access.keys import create_key
from memory_service.services.database.transactions import Database
from memory_service.services.planning import recommend
from memory_service.settings import load_settings
from tests.conftest import Servers, free_port
from tests.processes import Command

PASSWORD = "canary-Pass/word%2F"
QUOTED = "canary-Pass%2Fword%252F"
DEAD = f"postgresql://ada:{QUOTED}@127.0.0.1:1/x?connect_timeout=1"
DEAD_BY_QUERY = f"postgresql://ada@127.0.0.1:1/x?connect_timeout=1&password={QUOTED}"


def parts(secret: str) -> list[str]:
    """The secret, and pieces long enough to betray it."""
    return [secret, secret[-16:], secret[len(secret) // 2 :][:16]]


@pytest.mark.slow
def test_a_server_tells_nobody_its_keys_and_cookies(servers: Servers, tmp_path: Path):
    """A whole process with the most talkative log, over requests that are refused in every way."""
    url = servers.new("sqlite", "head")
    with Database(url) as database:
        key = str(create_key(database, "ada", ["admin"])["key"])
    wrong = key[:-4] + ("AAAA" if not key.endswith("AAAA") else "BBBB")
    port, log = free_port(), tmp_path / "log"
    setting = {
        "MEMORY_REQUIRE_KEYS": "true", "MEMORY_LOG_LEVEL": "DEBUG", "MEMORY_SEED_ON_START": "false",
        "MEMORY_EMBEDDING_MODEL": "/no/such/model", "MEMORY_HOME": str(tmp_path),
    }  # fmt: skip
    process = Command("serve", "--port", str(port), "--database", url, log=log, **setting)
    try:
        told, cookie = _everything_refused(port, key, wrong, process)
    finally:
        process.terminate()
        process.wait(60)
    file = Path(url.removeprefix("sqlite:///"))
    kept = b"".join(path.read_bytes() for path in file.parent.glob(file.name + "*"))
    written = log.read_text(encoding="utf-8")
    assert "/nowhere" in written, "the log should have said something"
    for secret in (key, cookie, wrong):
        for part in parts(secret):
            assert part not in written
            assert part not in told
            assert part.encode() not in kept
    servers.drop(url)


def _everything_refused(port: int, key: str, wrong: str, process: Command) -> tuple[str, str]:
    """(all answers with their headers, the session's cookie)."""
    told: list[str] = []
    right, other = {"Authorization": f"Bearer {key}"}, {"X-API-Key": wrong}
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:

        def ask(method: str, path: str, **how: object) -> httpx2.Response:
            answer = client.request(method, path, **how)  # type: ignore[arg-type]
            told.append(f"{answer.status_code} {answer.headers} {answer.text}")
            return answer

        while True:
            assert process.poll() is None
            try:
                client.get("/healthz")
                break
            except httpx2.TransportError:
                continue
        session = client.post("/browse/login", data={"key": key})
        assert session.status_code == 303, session.text
        cookie = session.cookies[SESSION_COOKIE]
        client.cookies.clear()
        seen = {"Cookie": f"{SESSION_COOKIE}={cookie}"}
        for headers in (right, other, seen, right | {"X-Request-ID": "x"}, {"Authorization": f"Basic {key}"}):
            for method, path in (
                ("GET", "/metrics"),
                ("GET", "/nowhere"),
                ("PUT", "/runs"),
                ("GET", "/audit"),
            ):
                ask(method, path, headers=headers)
            ask("POST", "/runs", headers=headers, content=b"{")
            ask("POST", "/runs", headers=headers, json={"task": "image", "gpu": "a101", "model": "x"})
            ask("GET", "/recommend?task=nothing", headers=headers)
            ask("GET", "/readyz", headers=headers)
            ask("GET", "/browse/runs", headers=headers)
        told.append(str(client.get(f"/nowhere?key={key}").headers))  # what it asked is in no log either
        ask("GET", "/metrics", headers={"X-A": "a", "Authorization": f"Bearer {key} {key}"})
        ask("POST", "/browse/login", data={"key": wrong})
        ask("POST", "/browse/login", data={"key": f" {key[:-1]}"})
        ask("GET", "/keys", headers=right)
        ask("DELETE", "/keys/nobody", headers=right)
        ask("GET", "/metrics", headers=right)
    assert any(answer.startswith("200") for answer in told)
    assert any(answer.startswith("401") for answer in told)
    return "\n".join(told), cookie


def test_what_nobody_thought_of_is_logged_without_what_was_sent(
    servers: Servers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    url = servers.new("sqlite", "seeded")
    settings = load_settings(
        database_url=url, seed_on_start=False, require_keys=True, embedding_model="/no/such/model"
    )
    app = create_app(settings)
    with Database(url) as database:
        key = str(create_key(database, "ada", ["admin"])["key"])
    with TestClient(app) as client, caplog.at_level(logging.DEBUG):
        app.state.service.preparation.wait(300)

        def broken(*_: object) -> None:
            with database.engine.connect() as connection:
                connection.exec_driver_sql("SELECT nothing FROM nowhere WHERE a = ?", (key,))

        monkeypatch.setattr(recommend, "plan_portfolio", broken)
        answer = client.post("/recommend", json={"task": "image", "gpu": "a100"}, headers={"X-API-Key": key})
    assert answer.status_code == 500, answer.text
    assert "nowhere" in caplog.text, "the trace belongs into the log"
    for part in parts(key):
        assert part not in caplog.text
        assert part not in answer.text
    servers.drop(url)


@pytest.mark.parametrize("url", [DEAD, DEAD_BY_QUERY], ids=["in its place", "in the query"])
def test_a_database_password_is_told_by_no_command_and_no_answer(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path))
    told = [repr(load_settings(database_url=url)), str(load_settings(database_url=url))]
    with Database(url) as database:
        told += [database.url, repr(database), repr(database.engine), str(database.engine.url)]
    with caplog.at_level(logging.DEBUG):
        for command in (["serve"], ["doctor"], ["db", "check"], ["db", "upgrade"], ["keys", "list"]):
            for form in ([], ["--json"]) if command != ["serve"] else ([],):
                done = CliRunner().invoke(command_line, [*command, *form, "--database", url])
                assert done.exit_code == 1, (command, done.output)
                told.append(done.output + repr(done.exception))
        app = create_app(load_settings(database_url=url, seed_on_start=False))
        with TestClient(app) as client:
            told += [client.get(path).text for path in ("/readyz", "/metrics", "/runs", "/", "/openapi.json")]
    everything = "\n".join([*told, caplog.text])
    assert "127.0.0.1" in everything
    assert "canary" not in everything


@pytest.mark.parametrize(
    "url",
    [f"mysql://a:{QUOTED}@h/x", f"postgresql://a:{QUOTED}@h:port/x", f"://{QUOTED}", f"sqlite://{QUOTED}"],
)
def test_a_wrong_database_url_is_refused_without_repeating_it(url: str):
    with pytest.raises(InvalidInput) as refused:
        Database(url)
    assert "canary" not in f"{refused.value} {refused.value.errors} {refused.value.detail}"


def test_a_client_keeps_its_key_out_of_its_spool_and_its_log(tmp_path: Path):
    """Over a server that is not there, so that everything is kept on disk."""
    key = "msk_canary0000000000000000000000000000"
    script = (
        "import logging; logging.basicConfig(level=logging.DEBUG)\n"
        "import os\n"
        "from memory_service.client import config, watch\n"
        "print(config.load_config())\n"
        "with watch(task='image', gpu='a100', model='resnet50') as run:\n"
        "    run.epoch(0, train_loss=0.5, fold=0)\n"
        "    print(run)\n"
    )
    setting = {
        "MEMORY_API_KEY": key, "MEMORY_HOME": str(tmp_path), "MEMORY_SERVER": "http://127.0.0.1:1",
        "MEMORY_FLUSH_SECONDS": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | setting, capture_output=True, text=True, timeout=120
    )
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert done.returncode == 0, done.stderr
    assert kept, "the spool should hold the run"
    assert "canary" not in done.stdout + done.stderr
    assert not [path for path in kept if b"canary" in path.read_bytes()]
    assert json.dumps({"key": key}) not in done.stdout
