"""Columns of several types and hours of sound: figures that plain rules read."""

from __future__ import annotations

import pytest

from memory_service.domain.description.stated_facts import stated_in


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("45 numeric and 12 categorical columns", 57),
        ("45 numeric columns, 12 categorical columns and 3 date columns", 60),
        ("ten numerical and four nominal features", 14),
        ("200 features, among them 150 numeric and 10 categorical features", 200),
        ("20 columns, 12 of them categorical", 20),
        ("14 columns hold sensor readings of temperature and shocks, two hold variety and truck type", 16),
        ("30 columns hold prices, and 4 are dropped", 30),
    ],
)
def test_columns_of_all_types_are_counted_together(text: str, columns: int) -> None:
    assert stated_in(f"train.csv has 9,000 rows: {text}.")["n_features"][0] == columns


@pytest.mark.parametrize(
    ("text", "hours", "seconds"),
    [
        ("Transcribe 100 hours of children's speech.", 100, None),
        ("1,200 hours of Common Voice, MP3.", 1200, None),
        ("Frogs in 10-second clips, 50 hours in all.", 50, 10),
        ("Clips are about 5 seconds long; three thousand hours of radio.", 3000, 5),
        ("20 hours of talks are labelled, 960 hours of radio are not.", None, None),
        ("Recordings of 24 hours each.", None, None),
        ("Bird calls; only two hours of CPU time.", None, None),
    ],
)  # fmt: skip
def test_hours_of_sound_are_told_in_all(text: str, hours: float | None, seconds: float | None) -> None:
    stated = stated_in(text)
    assert stated.get("audio_hours", (None,))[0] == hours
    assert stated.get("clip_seconds", (None,))[0] == seconds
