"""Plans and runs of `memory_service.train` within this process, on tiny data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memory_service.train import answers, budget, reading

Prepare = Callable[..., Any]


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prepare]:
    """Begins a run as a script with these settings would. The data are to lie in `tmp_path / "data"`."""
    plan, state, known = budget.plan, budget.state, dict(vars(budget.plan))
    of_items = known.pop("baseline_table", None)  # set as recommend.py is imported
    (tmp_path / "data").mkdir()

    def prepare(answer: str = "values", **settings: Any) -> Any:
        usual = {
            "PLAN_ID": "p", "TASK": "tabular-regression", "MODEL": "lightgbm", "MINUTES": 5.0,
            "SPLIT": "random", "GROUP_BY": None, "GAP": 0, "FOLDS": 3, "SEEDS": 1, "SEED": 42,
            "RESERVE_SHARE": 0.15, "TRAIN_SHARE": 0.7, "CHECKPOINT": "answers_NAME_{}.npz",
            "SETTINGS": {}, "DATA_DIR": tmp_path / "data", "OUT_DIR": tmp_path / "out",
        }  # fmt: skip
        answers.use_usual(answer)
        plan.baseline_table = of_items if answer == "items" else None
        budget.begin(SimpleNamespace(**(usual | settings)))
        state.out_dir.mkdir(exist_ok=True)
        return plan

    def anew() -> None:
        vars(plan).clear()
        vars(plan).update(known | {"baseline_table": of_items})
        vars(state).clear()
        vars(state).update(vars(type(state)()))
        reading.WARNED.clear()

    anew()
    monkeypatch.delenv("MEMORY_DEADLINE", raising=False)
    monkeypatch.setattr(budget, "START", time.monotonic())
    yield prepare
    anew()
