"""How runs are told to a service: a server, or a database here by the same requests."""

from collections.abc import Callable, Mapping
from typing import Any

Door = Callable[[str, Mapping[str, Any] | None], Mapping[str, Any]]
"""POST of a body to a path of the service, GET where there is none; its answer, or MemoryServiceError."""
