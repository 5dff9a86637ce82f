"""What can be refused, and how a refusal reads: one tree, one stable code per kind.

    MemoryServiceError
    ├── InvalidInput            422  a field is unknown, out of range or not in the vocabulary
    │   └── MalformedBody       400  the body is not JSON
    ├── Unauthorized            401  a key is needed, or the one shown is not valid
    ├── Forbidden               403  the key may not do this
    ├── TooManyRequests         429  a rate or a day's quota is used up: `headers` say when to come back
    ├── TooLarge                413  the body is over the limit
    ├── NotFound                404  no such row
    ├── Conflict                409  the same key with another body, or what other rows need
    │   └── Moved               409  somebody changed the row meanwhile: it carries the row and what changed
    ├── NotInstalled            501  this installation lacks what it takes
    └── Unavailable             503  the service cannot answer now, and says what to do
        ├── WrongRevision       503  the database needs `memory-service db upgrade`
        └── OutOfSpace          507  the disk is full: nothing of the request was kept

HTTP, the command line and the client show the same `code`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field: where, why, what was given, what would have been right."""

    field: str
    message: str
    given: Any = None
    nearest: tuple[str, ...] = ()


class MemoryServiceError(Exception):
    """Root of every refusal. `detail` is a sentence for a person; `errors` names the fields."""

    code: ClassVar[str] = "error"
    title: ClassVar[str] = "The request was refused"
    status: ClassVar[int] = 500

    def __init__(self, detail: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)


class InvalidInput(MemoryServiceError):
    code, title, status = "invalid-input", "Invalid value", 422


class MalformedBody(InvalidInput):
    code, title, status = "malformed-body", "The body is not valid JSON", 400


class Unauthorized(MemoryServiceError):
    code, title, status = "unauthorized", "A valid key is needed", 401


class Forbidden(MemoryServiceError):
    code, title, status = "forbidden", "This may not be done with this key, or from here", 403


class TooManyRequests(MemoryServiceError):
    """`headers` say when to come back."""

    code, title, status = "too-many-requests", "Too many requests in too little time", 429

    def __init__(self, detail: str, wait_seconds: float) -> None:
        super().__init__(detail)
        self.headers = {"Retry-After": str(max(1, ceil(wait_seconds)))}


class TooLarge(MemoryServiceError):
    code, title, status = "too-large", "The body is over the limit", 413


class NotFound(MemoryServiceError):
    code, title, status = "not-found", "Not found", 404


class Conflict(MemoryServiceError):
    code, title, status = "conflict", "This contradicts what is already stored", 409


class Moved(Conflict):
    """`current` is the row as it is now; `changes` what somebody changed: [{field, before, after}]."""

    code, title = "moved", "This row changed since you opened it"

    def __init__(
        self,
        detail: str,
        errors: Sequence[FieldError] = (),
        *,
        current: Mapping[str, Any],
        changes: Sequence[Mapping[str, Any]],
    ) -> None:
        super().__init__(detail, errors)
        self.current = dict(current)
        self.changes = [dict(change) for change in changes]


class NotInstalled(MemoryServiceError):
    code, title, status = "not-installed", "A part is not installed", 501


class Unavailable(MemoryServiceError):
    code, title, status = "unavailable", "The service cannot answer now", 503


def no_server(address: str, why: object) -> Unavailable:
    """None of ours answers at the address: why (an error or a text), and what to do."""
    return Unavailable(
        f"{address} does not answer as a memory-service ({getattr(why, 'reason', why)}): is one running "
        "there? `memory-service serve` starts one (memory-service[planner]), MEMORY_SERVER names another"
    )


class WrongRevision(Unavailable):
    code, title = "wrong-database-revision", "The database is at another revision than this program"


class OutOfSpace(Unavailable):
    code, title, status = "out-of-space", "There is no room to keep this", 507


class Refused(MemoryServiceError):
    """What a server on another host refused, with its code and words."""

    def __init__(self, document: Mapping[str, Any], status: int) -> None:
        errors = [
            FieldError(
                e.get("field", ""), e.get("message", ""), e.get("given"), tuple(e.get("nearest") or ())
            )
            for e in document.get("errors") or ()
        ]
        super().__init__(str(document.get("detail") or f"the server answered {status}"), errors)
        self.code = str(document.get("type", "refused")).rsplit(":", 1)[-1]  # type: ignore[misc]
        self.title = str(document.get("title", self.title))  # type: ignore[misc]
        self.status = status  # type: ignore[misc]


def wrong_value(
    field: str, message: str, given: Any = None, *, detail: str = "", nearest: tuple[str, ...] = ()
) -> InvalidInput:
    """The refusal of one field: what is wrong with it, behind its name; or `detail` in place of that."""
    return InvalidInput(detail or f"{field} {message}", [FieldError(field, message, given, nearest)])


def nothing_named(field: str, given: str, known: Iterable[str]) -> NotFound:
    """The refusal for a key that nothing has, with the nearest ones (closest first)."""
    shown = given[:200]
    nearest = _nearest(shown, _comparable(shown, list(known)))
    hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
    refused = [FieldError(field, f"unknown {field}", shown, nearest)]
    return NotFound(f"There is no {field} {shown!r}{hint}", refused)


MOST_COMPARED = 1_000
"""Names that a mistyped one is compared with, and words of them, which takes 30 ms each; of 10 000 it would
be 330."""


def _comparable(given: str, known: Sequence[str]) -> Sequence[str]:
    """All names, of very many those that begin alike."""
    if len(known) <= MOST_COMPARED:
        return known
    return [name for name in known if name[:1] == given[:1]][:MOST_COMPARED]


def _nearest(given: str, known: Sequence[str], cutoff: float = 0.4) -> tuple[str, ...]:
    text, close = given.lower()[:80], {name.lower(): name for name in reversed(known)}
    found = get_close_matches(text, close, n=5, cutoff=cutoff)
    if not found:  # perhaps one word of a longer name
        parts = {part: name for name in reversed(known) for part in re.split(r"[^a-z0-9]+", name.lower())}
        parts = dict([*parts.items()][:MOST_COMPARED])
        close, found = parts, get_close_matches(text, parts, n=5, cutoff=0.82)
    return tuple(dict.fromkeys(close[name] for name in found))


MOST_NAMED = 12
"""A vocabulary of at most so many names is named whole where none is near."""


def unknown_name(field: str, given: str, known: Sequence[str], cutoff: float = 0.4) -> InvalidInput:
    """The refusal for a name outside a vocabulary, with the nearest known names (closest first)."""
    shown = given if len(given) <= 80 else given[:77] + "..."
    nearest = _nearest(given, known, cutoff)
    hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
    if not nearest and len(known) <= MOST_NAMED:
        nearest = tuple(known)
        hint = f"; one of {', '.join(known)}"
    detail = f"Unknown {field} {shown!r}{hint}"
    return wrong_value(field, f"unknown {field}", shown, detail=detail, nearest=nearest)
