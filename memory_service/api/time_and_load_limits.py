"""Time limits of requests, limits on load, and the errors that refuse what is beyond them."""

from dataclasses import dataclass

from memory_service.errors import MemoryServiceError, Unavailable

HUNG_UP = "memory_service.hung_up"
"""What of a request's scope says whether its caller hung up."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, bytes and counts; docs/methods/threats.md lists them.

    head_seconds     a request line with its headers must arrive within this
    body_seconds     and its body within this: 4 MiB at 70 KB/s
    answer_seconds   an answer must begin within this; the longest, 10 000 predictions, takes a quarter of it
    reader_seconds   a reader must take 64 KiB, or what is left, within this
    keep_seconds     an idle connection stays open this long: longer than the five seconds after which httpx2
                     leaves one alone, so that no request meets a closing connection
    head_bytes       request line and headers: a question of several fields, each too long and all escaped,
                     is still refused as one
    connections      open ones; under the 1024 files that a process usually may open
    unread           of these, those whose reader lags behind: each holds the rest of its answer
    body_bytes       bodies in progress, of everybody; of one caller a quarter. At least four of the longest
    requests         in progress at once; a request counts when its body is there, a streamed answer until it
                     is read, server-sent events until they begin
    requests_of_one  the same of one caller: 200 clients that report with one key
    """

    head_seconds: float = 15.0
    body_seconds: float = 60.0
    answer_seconds: float = 120.0
    reader_seconds: float = 30.0
    keep_seconds: int = 15
    head_bytes: int = 256 * 1024
    connections: int = 800
    unread: int = 200
    requests: int = 600
    requests_of_one: int = 200
    body_bytes: int = 64 * 2**20


class SlowBody(MemoryServiceError):
    code, title, status = "request-timeout", "The body did not arrive in time", 408


class TooBusy(Unavailable):
    code, title = "too-busy", "Too many requests are in progress"


class TooSlow(Unavailable):
    code, title = "too-slow", "The answer took too long"
