"""What tests read in answers."""

from collections.abc import Mapping
from typing import Any


def warnings_of(answer: Mapping[str, Any]) -> list[str]:
    """The sentences of a plan's warnings."""
    return [each["text"] for each in answer["warnings"]]
