"""Hours of sound: figures that plain rules read."""

from __future__ import annotations

import pytest

from memory_service.domain.description.stated_facts import stated_in


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
