"""What the service is told of a run before it trains."""

from __future__ import annotations

import datetime as dt
import importlib
import time
from types import SimpleNamespace
from typing import Any

import pytest

from memory_service import train
from memory_service.train import budget
from memory_service.train.runtime import run_facts


def test_a_run_begins_when_its_script_did(prepared: Any, monkeypatch: pytest.MonkeyPatch):
    prepared(SERVER="", EPOCHS=3)
    monkeypatch.setattr(budget, "START", time.monotonic() - 600.0)
    data: Any = SimpleNamespace(samples=10, test_ids=["a"])
    began = dt.datetime.fromisoformat(run_facts(data)["started_at"])
    assert 599 <= (dt.datetime.now(dt.UTC) - began).total_seconds() < 660, "reading took ten minutes"


def test_a_script_without_what_reads_tables_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pandas" else name)
    with pytest.raises(ModuleNotFoundError, match=r"^pandas not installed: .*memory-service\[train\]"):
        importlib.reload(train)
