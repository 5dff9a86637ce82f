"""Paths of `seeds/` and `migrations/`, in a checkout or an installed wheel."""

from importlib.util import find_spec
from pathlib import Path

NEEDS_TORCH = "needs torch, which this installation lacks: pip install 'memory-service[server]'"
"""What is said of tracing and calibrating where `[planner]` is installed alone."""

_PACKAGE = Path(__file__).resolve().parent


def path(*parts: str) -> Path:
    """The absolute path of a shipped file or folder, e.g. `path("seeds", "gpus.jsonl")`.

    A wheel carries the folders in `memory_service/_shipped/`; a checkout has them beside the package.
    Raises FileNotFoundError when it is in neither.
    """
    for root in (_PACKAGE / "_shipped", _PACKAGE.parent):
        candidate = root.joinpath(*parts)
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"{'/'.join(parts)} is neither beside nor inside the package at {_PACKAGE}")


def has_torch() -> bool:
    """Whether torch is installed; it is not imported."""
    return find_spec("torch") is not None
