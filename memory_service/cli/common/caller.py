"""The name under which the audit records changes made from the command line."""

from __future__ import annotations

import getpass


def caller() -> str:
    """The system's user, and that it was a command."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # a container without a user of this number
        return "command line"
