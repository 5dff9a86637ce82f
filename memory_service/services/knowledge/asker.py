"""Who asks, which decides whose reports count, and whether they still wait for the answer."""

from collections.abc import Callable
from contextvars import ContextVar

from memory_service.errors import Unavailable

ASKER: ContextVar[str | None] = ContextVar("asker", default=None)
"""The reporter that the key of a request is (`domain.prediction.trust.reporter_of`); None without a key: on
the server's own machine all that was told counts."""

CORRECTS: ContextVar[bool] = ContextVar("corrects", default=True)
"""Whether the asker may change what another key told (scope `edit`)."""

INSIDE: ContextVar[bool] = ContextVar("inside", default=True)
"""Whether the request came over loopback."""

GONE: ContextVar[Callable[[], bool] | None] = ContextVar("gone", default=None)
"""Whether the caller hung up; None where nobody can tell."""

PAUSE: ContextVar[Callable[[], None]] = ContextVar("pause", default=lambda: None)
"""Lets others go on between the pieces of a long answer."""


def still_wanted() -> None:
    """Between the pieces of an answer. Unavailable where the caller hung up: nobody would read it."""
    PAUSE.get()()
    gone = GONE.get()
    if gone is not None and gone():
        raise Unavailable("whoever asked hung up")
