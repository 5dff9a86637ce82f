"""A plan that needs an answer asks the client for it, by both protocols and over both transports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp_types as wire
import pytest

from tests.mcp.conftest import WORDS_ONLY, Agent, agent_by, by_http, by_stdio, serving

OPEN = {"description": "We have a data set. Predict the target.", "gpu": "t4", "minutes": 20}


class Person:
    """Answers with the first choice, or as `action` says; keeps what was asked."""

    def __init__(self, action: str = "accept") -> None:
        self.action = action
        self.asked: list[Any] = []

    async def __call__(self, _: Any, params: wire.ElicitRequestFormParams) -> wire.ElicitResult:
        self.asked.append(params)
        choices = params.requested_schema["properties"]["task"]["enum"]
        content = {"task": choices[0], "gpu": "b200"} if self.action == "accept" else None
        return wire.ElicitResult(action=self.action, content=content)


@contextmanager
def asking(url: str, transport: str, mode: str, folder: Path, person: Any) -> Iterator[Agent]:
    if transport == "http":
        with serving(url) as address, agent_by(by_http(address), mode, person) as agent:
            yield agent
    else:
        quiet = {"MEMORY_EMBEDDING_MODEL": WORDS_ONLY, "MEMORY_SEED_ON_START": "false"}
        with agent_by(by_stdio(url, folder / "log", **quiet), mode, person) as agent:
            yield agent


@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("stdio", "legacy"), ("http", "auto")])
def test_an_open_task_is_asked_and_the_answer_planned(
    seeded_url: str, transport: str, mode: str, tmp_path: Path
) -> None:
    person = Person()
    with asking(seeded_url, transport, mode, tmp_path, person) as agent:
        plan = agent.answer("plan", **OPEN)
        (question,) = person.asked
        assert "Which task is it" in question.message
        assert plan["feasible"]
        assert plan["task"] == question.requested_schema["properties"]["task"]["enum"][0]
        assert plan["gpu"]["slug"] == "t4", "nobody asked for the card"
        person.action = "decline"
        plan = agent.answer("plan", **OPEN)
        assert (plan["feasible"], plan["why"]) == (False, "task-not-told")
        assert len(person.asked) == 2, "a declined question is not asked again"


@pytest.mark.parametrize(("mode", "person"), [("auto", None), ("legacy", Person())])
def test_a_client_that_cannot_be_asked_gets_the_questions(
    seeded_url: str, tmp_path: Path, mode: str, person: Person | None
) -> None:
    """The older protocol over HTTP without sessions has no way back to a client."""
    with asking(seeded_url, "http", mode, tmp_path, person) as agent:
        assert [need["field"] for need in agent.answer("plan", **OPEN)["needs"]] == ["task"]
    assert not (person and person.asked)
