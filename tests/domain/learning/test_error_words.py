"""Is an error said as a reader takes it in?"""

from __future__ import annotations

import pytest

from memory_service.domain.learning.scoring import error_words


@pytest.mark.parametrize(
    ("percent", "excluded", "words"),
    [
        (12.3, None, "+12 %"),
        (-40.0, "loader_bound", "-40 %"),
        (158_821.0, None, "1,589 times what it was"),
        (158_821.0, "too_short", "too short to compare"),
    ],
)
def test_error_words(percent: float, excluded: str | None, words: str) -> None:
    assert error_words(percent, excluded) == words
