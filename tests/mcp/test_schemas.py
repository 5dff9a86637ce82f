"""Are numbers that a model puts in quotes taken as numbers, and texts left alone?"""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.mcp.server import TOOLS


@pytest.mark.parametrize(
    ("tool", "given", "taken"),
    [
        ("plan", {"minutes": "30", "n_train": "20000"}, {"minutes": 30.0, "n_train": 20_000}),
        ("plan", {"minutes": "soon", "run": "2.5"}, {"minutes": "soon", "run": "2.5"}),
        ("plan", {"minutes": 30, "competition": "2019"}, {"minutes": 30, "competition": "2019"}),
        ("plan", {"unheard": "3"}, {"unheard": "3"}),
        ("plan", {"more": {"folds": "3"}, "model": "7"}, {"folds": 3, "model": "7"}),
        ("report", {"best_metric": "0.81", "log": "7"}, {"best_metric": 0.81, "log": "7"}),
    ],
)
def test_quoted_numbers(tool: str, given: dict[str, Any], taken: dict[str, Any]) -> None:
    assert TOOLS[tool].fields(given) == taken
