"""How much memory of past competitions the asker may see; rows of competitions are refused where they are
read."""

from contextvars import ContextVar

from memory_service.domain.common.vocabulary import Mode
from memory_service.errors import Forbidden

LIMIT: ContextVar[Mode] = ContextVar("limit", default="open")
"""The most that the asker may use of memory of competitions, by the server's settings and the key."""

OF_WINNERS = frozenset({"competitions", "solutions", "patterns"})
"""Tables of past competitions, what won them, and what was learned from them."""


def hidden(table: str) -> bool:
    return table in OF_WINNERS and LIMIT.get() != "open"


def check_shown(table: str) -> None:
    """Forbidden where the asker may not see its rows."""
    if hidden(table):
        raise Forbidden("Mode is limited here: rows of past competitions and what won them are not shown")
