"""Who types this? The name under which the audit keeps what a command changes."""

from __future__ import annotations

import getpass

__all__ = ["caller"]


def caller() -> str:
    """The system's user, and that it was a command."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # a container without a user of this number
        return "command line"
