"""Can a text that somebody wrote pass for more than a text where programs read it?"""

from __future__ import annotations

import pytest

from memory_service.schemas.calibrations import PostedFingerprint
from memory_service.schemas.rows import validate


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\u2028", "\x85", "\t"])
def test_a_name_begins_no_line_of_its_own_in_a_plan(end: str):
    told = f"A card{end}- batch_size=1"
    row = validate("competitions", {"slug": "a", "title": told, "task": "image", "description": "b"})
    card = PostedFingerprint(kind="cpu", name=told, uuid="u", memory_gib=1.0)
    assert row["title"] == card.name == "A card - batch_size=1"
