"""Are numbers that a model puts in quotes taken as numbers, and texts left alone?"""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.mcp.schemas import unquoted
from memory_service.mcp.server import TOOLS


@pytest.mark.parametrize(
    ("tool", "given", "taken"),
    [
        ("recommend_plan", {"minutes": "30", "n_train": "20000"}, {"minutes": 30.0, "n_train": 20_000}),
        ("recommend_plan", {"minutes": "soon", "folds": "2.5"}, {"minutes": "soon", "folds": "2.5"}),
        ("recommend_plan", {"minutes": 30, "competition": "2019"}, {"minutes": 30, "competition": "2019"}),
        ("recommend_plan", {"unheard": "3"}, {"unheard": "3"}),
        ("report_progress", {"epoch": "3", "train_loss": "0.5"}, {"epoch": 3, "train_loss": 0.5}),
        ("report_progress", {"train_loss": "nan", "text": "7"}, {"train_loss": "nan", "text": "7"}),
        ("finish_run", {"best_metric": "0.81"}, {"best_metric": 0.81}),
    ],
)
def test_quoted_numbers(tool: str, given: dict[str, Any], taken: dict[str, Any]) -> None:
    assert unquoted(given, TOOLS[tool].takes["properties"]) == taken
