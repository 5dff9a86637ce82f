"""Messages between the processes of a calibration: one JSON object a line."""

import json
import os
import stat
from collections.abc import Mapping
from typing import Any


def line(event: Mapping[str, Any]) -> bytes:
    """One event as a line of JSON."""
    return json.dumps(event, separators=(",", ":"), default=str).encode() + b"\n"


def is_pipe(descriptor: int) -> bool:
    """Whether it is a pipe or socket, not a terminal, file or nothing."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
