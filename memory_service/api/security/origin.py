"""Whether a request comes from a program, a page of this server, or a page of another site (CSRF)."""

from typing import Any, ClassVar
from urllib.parse import urlsplit

from memory_service.errors import MemoryServiceError

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class OtherOrigin(MemoryServiceError):
    """A page of another site made somebody's browser send this."""

    code = "other-origin"
    title = "Requests are taken from programs and from the pages of this server only"
    status: ClassVar[int] = 403


def other_origin(scope: dict[str, Any]) -> OtherOrigin | None:
    """The refusal of a changing request that another site's page sends; None for programs, which say neither
    `Origin` nor `Sec-Fetch-Site`, and for this server's own pages.

    Browsers send a body without a media type across sites unasked, so media types protect nothing.
    """
    if scope["method"] in _READING:
        return _embedded(scope)
    headers = {name: value for name, value in scope["headers"] if name in _HEADERS}
    if not headers.keys() & {b"sec-fetch-site", b"origin"}:
        return None
    site, origin, host = (headers.get(name, b"").decode("latin-1") for name in _HEADERS)
    own = site in ("same-origin", "none") if site else _place_of(origin) == host
    if own:
        return None
    return OtherOrigin(f"This came from {(origin or 'another site')[:200]}, not from {host[:200]}")


def _embedded(scope: dict[str, Any]) -> OtherOrigin | None:
    """A page of another site that loads this as a picture or the like: it may not read the answer, but making
    it costs. A link that a person follows is no such thing."""
    said = {name: value for name, value in scope["headers"] if name in _FETCH}
    if said.get(_FETCH[0]) != b"cross-site" or said.get(_FETCH[1], b"navigate") == b"navigate":
        return None
    return OtherOrigin("A page of another site embeds this; follow a link to it instead")


def _place_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # no browser sends that
        return None


_FETCH = (b"sec-fetch-site", b"sec-fetch-mode")
_HEADERS = (b"sec-fetch-site", b"origin", b"host")
