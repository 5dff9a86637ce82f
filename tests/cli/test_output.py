"""Can every column of a table be read in a narrow window?"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time

import pytest
from rich.console import Console

from memory_service.cli.common import output
from memory_service.cli.recommend import render_plan
from memory_service.domain.planning.explanation.plan_text import plan_view
from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_remedies_of_a_plan_are_whole_words_in_a_narrow_window(
    seeded_sqlite: Database, columns: int, everything: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = recommend(seeded_sqlite, {"task": "image", "size": "medium", "gpu": "a100", "minutes": "25"})
    shown = io.StringIO()
    console = Console(width=columns, file=shown)
    monkeypatch.setattr(output, "stdout", console)
    console.print(render_plan(plan, everything=everything))
    text = shown.getvalue()
    flat = " ".join(text.split())
    for line in plan_view(plan).trouble_lines():
        assert line.removeprefix("if ") in flat, (line, text)
    assert all(each["text"] in text for each in plan["warnings"] if each["severity"] == "warning")
    assert all(len(line) <= columns for line in text.splitlines())


def test_work_of_over_a_second_shows_a_spinner_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "SPINNER_AFTER_SECONDS", 0.02)
    for terminal, seconds, seen in ((True, 0.3, True), (True, 0.0, False), (False, 0.3, False)):
        shown = io.StringIO()
        console = Console(file=shown, force_terminal=terminal, width=80)
        monkeypatch.setattr(output, "stderr", console)
        output.spinning(time.sleep)(seconds)
        assert ("working" in shown.getvalue()) == seen


def test_the_shell_completes_commands() -> None:
    asked = {
        "COMP_WORDS": "memory-service rec",
        "COMP_CWORD": "1",
        "_MEMORY_SERVICE_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        [sys.executable, "-m", "memory_service"], env={**os.environ, **asked}, capture_output=True, text=True
    )
    assert "recommend" in done.stdout


def test_an_id_is_not_folded_at_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "f9b59727-0000-4000-8000-000000000000"
    shown = io.StringIO()
    monkeypatch.setattr(output, "stdout", Console(width=80, file=shown))
    output.stdout.print(output.table(None, ("run", "what"), [(key, "a long sentence of words " * 5)]))
    assert key in shown.getvalue()
