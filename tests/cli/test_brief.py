"""`memory-service brief` as a benchmark's container calls it, and /brief beside it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from memory_service.cli import app
from memory_service.cli import brief as command
from memory_service.cli.common import remote
from memory_service.services.database.transactions import Database
from tests.client.conftest import Service

runner = CliRunner()
DESCRIPTION = (
    "Classify 21,397 labelled photos of cassava leaves into five categories of disease. "
    "Submissions are evaluated on their categorization accuracy."
)


@pytest.fixture
def url(seeded_sqlite: Database) -> str:
    return f"sqlite:///{seeded_sqlite.file}"


@pytest.fixture(scope="module")
def server(seeded_sqlite: Database) -> Iterator[str]:
    service = Service(f"sqlite:///{seeded_sqlite.file}")
    service.start()
    while httpx2.get(f"{service.url}/readyz", timeout=120).status_code != 200:
        time.sleep(0.1)
    yield service.url
    service.stop()


@pytest.fixture(autouse=True)
def container(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit, no card, no key; a busy machine has time."""
    for name in ("TIME_LIMIT_SECS", "MEMORY_SERVER", "MEMORY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command, "driver_gpu_name", lambda: None)
    monkeypatch.setattr(remote, "TIMEOUT_SECONDS", 120.0)


@pytest.fixture
def description(tmp_path: Path) -> str:
    path = tmp_path / "description.md"
    path.write_text(DESCRIPTION, encoding="utf-8")
    return str(path)


def ask(*words: str, code: int = 0, stdin: str | None = None) -> Result:
    result = runner.invoke(app, ["brief", *words], input=stdin)
    assert result.exit_code == code, result.output
    return result


def facts(answer: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    return {fact["name"]: (fact["value"], fact["from"]) for fact in answer["facts"]}


def test_it_says_what_was_understood_what_nobody_said_and_the_plan(url: str, description: str):
    said = ask(description, "--minutes", "60", "--gpu", "t4", "--mode", "blind", "--database", url).stdout
    understood, unsaid, plan = said.split("\n## ")
    assert '- n_train = 21397 (text: "21,397 labelled photos")' in understood
    assert "- n_classes = 5 (text: " in understood
    assert "- gpu = t4 (asked)" in understood
    assert "- minutes = 60.0 (asked)" in understood
    assert "- n_test: " in unsaid
    assert plan.startswith("Plan\n\n**plan-")
    assert "60 min" in plan


def test_json_has_the_facts_the_schema_and_the_whole_plan(url: str, description: str):
    answer = json.loads(ask(description, "--gpu", "t4", "--database", url, "--json").stdout)
    assert facts(answer)["metric"] == ("accuracy", "record")  # of cassava, which the text is of
    assert answer["plan"]["feasible"] is True
    assert {"task", "gpu", "minutes", "description"} <= set(answer["json_schema"]["properties"])
    assert {"name": "minutes", "assumed": 30.0} in answer["not_said"]


def test_the_containers_time_limit_counts_where_no_minutes_are_given(
    url: str, description: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TIME_LIMIT_SECS", "7200")
    asked = ("--gpu", "t4", "--database", url, "--json")
    assert facts(json.loads(ask(description, *asked).stdout))["minutes"] == (120.0, "asked")
    given = json.loads(ask(description, "--minutes", "45", *asked).stdout)
    assert facts(given)["minutes"] == (45.0, "asked")
    monkeypatch.setenv("TIME_LIMIT_SECS", "a day")
    assert "minutes" not in facts(json.loads(ask(description, *asked).stdout))


def test_the_card_is_the_drivers_then_the_descriptions_then_the_processor(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    def card(text: str, *words: str) -> tuple[Any, str]:
        return facts(json.loads(ask("-", *words, "--database", url, "--json", stdin=text).stdout))["gpu"]

    assert card(DESCRIPTION) == ("cpu", "asked")
    assert card(f"{DESCRIPTION} You have one NVIDIA T4 GPU.", "--gpu", "auto") == ("t4", "text")
    monkeypatch.setattr(command, "driver_gpu_name", lambda: "NVIDIA A10G")
    assert card(f"{DESCRIPTION} You have one NVIDIA T4 GPU.") == ("a10g", "asked")


def test_where_the_task_cannot_be_told_there_are_facts_and_no_plan(url: str):
    said = ask("-", "--gpu", "t4", "--minutes", "30", "--database", url, stdin="Do your best.").stdout
    assert "- gpu = t4 (asked)" in said
    assert "- task: nothing" in said
    assert "**No plan**: " in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--gpu", "a1000"], "a1000"),
        (["--minutes", "-3"], "minutes"),
        (["--server", "http://127.0.0.1:9"], "does not answer"),
    ],
)
def test_what_cannot_be_used_is_refused(words: list[str], says: str, url: str, description: str):
    database = [] if "--server" in words else ["--database", url]
    result = ask(description, *words, *database, code=1)
    assert says in result.output
    assert "cannot be read" in ask("/nowhere/description.md", "--database", url, code=1).output


def test_a_server_is_asked_in_place_of_a_database(server: str, description: str):
    long = Path(description)
    long.write_text(DESCRIPTION + " More words." * 1000, encoding="utf-8")  # longer than a query may be
    said = ask(description, "--minutes", "60", "--gpu", "t4", "--server", server).stdout
    assert "- n_train = 21397 (record)" in said
    assert "\n**plan-" in said
    assert "**No plan**: " in ask("-", "--gpu", "t4", "--server", server, stdin="Do your best.").stdout


def test_the_route_tells_facts_without_a_card(server: str):
    told = httpx2.post(f"{server}/brief", json={"description": DESCRIPTION}, timeout=120).json()
    assert facts(told)["n_train"] == (21397, "record")
    assert "gpu" not in facts(told)
    assert "cpu_count" not in facts(told)
    assert {"name": "gpu", "assumed": None} in told["not_said"]
    assert set(told) == {"facts", "not_said", "questions", "outside", "json_schema"}
    asked = httpx2.get(f"{server}/brief", params={"description": DESCRIPTION, "minutes": "90"}, timeout=120)
    assert facts(asked.json())["minutes"] == (90.0, "asked")
    assert httpx2.post(f"{server}/brief", json={}, timeout=120).status_code == 422
