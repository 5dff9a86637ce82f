"""Whether a request came in over this machine's loopback or over an address that others reach.

The address is that of the socket (`scope["server"]`), which no header changes. Behind a proxy on this machine
every request comes in over loopback: it is recognized by a proxy's headers, and by a `Host` that is not this
machine's own name. So is a page of another site whose name resolves to 127.0.0.1 (DNS rebinding).
"""

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from memory_service.errors import Forbidden
from memory_service.settings import Settings

Reach = Literal["loopback", "outside"]

_IN_PROCESS = ("testserver", "testclient")
"""Starlette's test client has no socket: it names these two, and no server that listens does."""

_FORWARDED = frozenset(
    {b"forwarded", b"via", b"x-real-ip", b"cf-connecting-ip", b"true-client-ip"}
)  # fmt: skip


def reach_of(scope: Mapping[str, Any]) -> Reach:
    """ "loopback" only where the socket is one of this machine's own and no proxy passed the request on."""
    server = scope.get("server")
    if server is None or not _is_own(str(server[0]), _host(scope.get("client"))):
        return "outside"
    outside = any(name in _FORWARDED or name.startswith(b"x-forwarded-") for name, _ in scope["headers"])
    return "outside" if outside else "loopback"


def wrong_host(scope: Mapping[str, Any]) -> Forbidden | None:
    """The refusal of a request that came in over loopback and asked for another host than this machine."""
    if _host(scope.get("client")) == _IN_PROCESS[1] and scope["server"][0] == _IN_PROCESS[0]:
        return None
    for name, value in scope["headers"]:
        if name == b"host" and not _names_loopback(value):
            asked = value.decode("latin-1")[:200]
            return Forbidden(
                f"This server is open on loopback only, and {asked!r} is not its name. Ask http://127.0.0.1 "
                "or localhost; behind a proxy set MEMORY_REQUIRE_KEYS=true and use a key"
            )
    return None


_PLAIN_HOST = re.compile(rb"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def odd_host(scope: Mapping[str, Any]) -> Forbidden | None:
    """The refusal of a request whose `Host` is no name of a host, or is given twice: scripts and commands
    hold it."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) <= 1 and all(map(_PLAIN_HOST.fullmatch, hosts)):
        return None
    return Forbidden(f"The Host header {b', '.join(hosts).decode('latin-1')[:200]!r} is no name of a host")


def server_url(scope: Mapping[str, Any], settings: Settings) -> str:
    """The address that scripts and commands name: as set, else as the `Host` says where that is this
    machine's own name or address, else that of the socket. A caller cannot lead others to another server."""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    scheme, (host, port) = scope.get("scheme", "http"), scope.get("server") or (settings.host, settings.port)
    asked = next((value for name, value in scope["headers"] if name == b"host"), b"")
    name = _without_port(asked.decode("latin-1")).lower()
    if is_loopback(name) or name.strip("[]") in (str(host).lower(), settings.host.lower()):
        return f"{scheme}://{asked.decode('latin-1')}"
    named = f"[{host}]" if ":" in str(host) else host
    return f"{scheme}://{named}" if port in (None, _USUAL_PORTS.get(scheme)) else f"{scheme}://{named}:{port}"


_USUAL_PORTS = {"http": 80, "https": 443}


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether a host or address, with brackets or not, is this machine's own."""
    plain = host.strip("[]").rstrip(".").lower()
    if plain == "localhost" or plain.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


@lru_cache(maxsize=256)
def _names_loopback(host: bytes) -> bool:
    return is_loopback(_without_port(host.decode("latin-1")))


def _without_port(name: str) -> str:
    if not name.endswith("]"):  # an IPv6 address without a port
        before, colon, port = name.rpartition(":")
        name = before if colon and port.isdigit() else name
    return name


@lru_cache(maxsize=1_024)
def _is_own(server: str, client: str) -> bool:
    if (server, client) == _IN_PROCESS:
        return True
    try:
        ipaddress.ip_address(server)
    except ValueError:
        return False  # a socket's address is an address, never a name
    return is_loopback(server)


def _host(address: Any) -> str:
    return str(address[0]) if address else ""
