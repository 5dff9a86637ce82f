"""Who asks: what a key reported alone teaches the questions of that key, and moves those of others little."""

from contextvars import ContextVar

ASKER: ContextVar[str | None] = ContextVar("asker", default=None)
"""The reporter that the key of a request is (`domain.prediction.trust.reporter_of`); None without a key: on
the server's own machine all that was told counts."""
