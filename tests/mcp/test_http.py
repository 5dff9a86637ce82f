"""Does /mcp go on through restarts, many agents at once and calls that are given up, and does it keep keys
apart?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from memory_service.domain.planning.explanation.plan_text import MOST_TOKENS, rough_tokens
from memory_service.services.access.keys import create_key
from memory_service.services.database.transactions import Database
from memory_service.store.queries import runs
from tests.conftest import Servers
from tests.mcp.conftest import Agent, agent_by, by_http, serving, text_of

RUN = {"task": "image", "gpu": "cpu", "model": "resnet18", "minutes": 5}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("plan", {"task": "image", "gpu": "t4"}, "read"),
    ("find", {"text": "dogs"}, "read"),
    ("fit", {"model": "resnet18", "gpu": "t4"}, "read"),
    ("review", {"script": "x = 1"}, "read"),
    ("look", {"run_id": "x"}, "read"),
    ("report", {"run": RUN}, "tell"),
    ("report", {"run_id": "x", "status": "completed"}, "tell"),
    ("remember", {"competition": {"slug": "x"}}, "edit"),
    ("remember", {"solution": {"competition": "x"}}, "edit"),
]
"""Tool, arguments (some of which are refused for another reason), the scope it wants."""


@pytest.fixture(scope="module")
def site(seeded_url: str) -> Iterator[str]:
    with serving(seeded_url) as url:
        yield url


@pytest.fixture(scope="module")
def agent(site: str) -> Iterator[Agent]:
    with agent_by(by_http(site)) as made:
        yield made


def test_a_run_goes_on_after_the_server_was_started_anew(servers: Servers):
    url = servers.new("sqlite", "seeded")
    with serving(url) as before, agent_by(by_http(before)) as agent:
        run_id = agent.answer("report", run=RUN)["run_id"]
    with serving(url) as after, agent_by(by_http(after)) as agent:
        epoch = {"kind": "epoch", "epoch": 0, "fold": 0}
        assert agent.answer("report", run_id=run_id, event=epoch)["accepted"] == 1
    servers.drop(url)


def test_agents_at_once_lose_no_report(site: str, seeded_url: str, agent: Agent):
    run_id = agent.answer("report", run=RUN)["run_id"]

    def tells(number: int) -> None:
        with agent_by(by_http(site)) as one:
            for epoch in range(5):
                event = {"kind": "epoch", "fold": number, "epoch": epoch}
                assert one.answer("report", run_id=run_id, event=event)["accepted"] == 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tells, range(8)))
    database = Database(seeded_url)
    with database.read() as unit:
        assert len(runs.events_of(unit.session, run_id)) == 40
    database.close()


@pytest.mark.parametrize(
    "task", ["image", "image-segmentation", "text", "text-regression", "tabular", "audio"]
)
def test_every_plan_reads_in_700_tokens(agent: Agent, task: str):
    for more in (
        {"gpu": "a100", "minutes": 60, "more": {"size": "large"}},
        {"gpu": "rtx3090,a10", "minutes": 3, "more": {"objective": "quality"}},
        {"gpu": "cpu", "more": {"size": "small"}},
    ):
        text = text_of(agent.call("plan", {"task": task, **more, "form": "text"}))
        assert rough_tokens(text) <= MOST_TOKENS


def test_an_agent_plans_what_is_left_after_a_run(agent: Agent):
    asked = {"task": "image", "gpu": "a100", "minutes": 60}
    plan_id = agent.answer("plan", **asked)["plan_id"]
    done = [{"run": 1, "minutes": 20.0, "metric": 0.9}]
    left = agent.answer("plan", **asked, more={"after": plan_id, "done": done})
    assert left["minutes"] == 40.0
    assert left["blend"]["runs"][0] == 1


def test_a_call_that_is_given_up_keeps_nobody_waiting(agent: Agent, monkeypatch: pytest.MonkeyPatch):
    goes_on = threading.Event()

    def slow(*_: Any) -> Any:
        goes_on.wait(60)
        return {}

    monkeypatch.setattr("memory_service.mcp.tools.predict", slow)
    with pytest.raises(MCPError, match=r"[Tt]imed out"):
        agent.call("fit", {"model": "resnet18", "gpu": "t4"}, timeout=0.3)
    assert agent.answer("plan", task="image", gpu="t4")["feasible"]
    goes_on.set()


def test_what_an_unexpected_failure_says_stays_in_the_log(agent: Agent, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> Any:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr("memory_service.mcp.tools.recommend", broken)
    text = agent.refusal("plan", task="image", gpu="t4")
    assert text.startswith("unexpected")
    assert "secret" not in text


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 405),
        ("DELETE", {}, 405),
        ("POST", {"Host": "evil.example"}, 403),
        ("POST", {"Origin": "http://evil.example"}, 403),
        ("POST", {"Content-Type": "text/plain"}, 400),
    ],
)
def test_what_is_no_call_of_a_program_is_refused(
    site: str, method: str, headers: dict[str, str], status: int
):
    given = {"Accept": "application/json", **headers}
    body = LIST if method == "POST" else None
    assert httpx2.request(method, f"{site}/mcp", headers=given, json=body).status_code == status


def test_a_call_over_the_limit_is_refused(site: str):
    answer = httpx2.post(f"{site}/mcp", json={**LIST, "params": {"x": "x" * 5_000_000}})
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")


def test_a_tool_wants_the_scope_of_its_sibling(servers: Servers):
    url = servers.new("sqlite", "seeded")
    database = Database(url)
    keys = {scope: create_key(database, scope, [scope])["key"] for scope in ("read", "tell", "edit", "admin")}
    database.close()
    with serving(url, require_keys=True) as site:
        for key in (None, "msk_wrong"):
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            answer = httpx2.post(f"{site}/mcp", json=LIST, headers={"Accept": "application/json", **headers})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for scope, key in keys.items():
            with agent_by(by_http(site, key)) as agent:
                assert len(agent.portal.call(agent.client.list_tools).tools) == len(
                    {tool for tool, _, _ in CALLS} | {"fit"}
                )
                for tool, arguments, wanted in CALLS:
                    result = agent.call(tool, arguments)
                    refused = result.is_error and text_of(result).startswith("forbidden")
                    assert refused == (scope not in (wanted, "admin")), (scope, tool)
                    if refused:
                        assert f"needs the scope {wanted}" in text_of(result)
        with agent_by(by_http(site, keys["edit"])) as agent:
            about = {"slug": "signed", "title": "Signed", "description": "photos of dogs, 120 breeds"}
            agent.answer("remember", competition=about)
            with pytest.raises(MCPError, match="scope read"):
                agent.portal.call(agent.client.read_resource, "memory://rules")
        with agent_by(by_http(site, keys["read"])) as agent:
            assert agent.portal.call(agent.client.read_resource, "memory://rules").contents
            changes = httpx2.get(
                f"{site}/competitions/signed/history", headers={"Authorization": f"Bearer {keys['read']}"}
            )
            assert changes.json()["items"][0]["who"] == "edit"
    servers.drop(url)
