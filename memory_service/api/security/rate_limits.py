"""Token buckets: requests per key, and failed logins per address. All processes of one `serve` share them;
over several servers a key has its rate in each.

The headers are those of the IETF's draft "RateLimit header fields for HTTP" (-10).
"""

import asyncio
import ipaddress
import mmap
import struct
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import ExitStack
from functools import lru_cache
from hashlib import blake2b
from math import ceil
from time import monotonic
from weakref import WeakValueDictionary

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_service.api.error_handlers import refusal
from memory_service.errors import TooManyRequests

_BUCKET = struct.Struct("<Qdd")
_PROBES = 8


class SharedBuckets:
    """name -> (tokens left, when), for some `most` names, in memory that forked processes share.

    A name's place follows from its hash; where all places for it are taken, the one used longest ago is
    forgotten. Nothing is locked: two processes that take in the same microsecond may both get one token.
    """

    def __init__(self, most: int) -> None:
        self._places = 2 * most + _PROBES
        self._memory = mmap.mmap(-1, self._places * _BUCKET.size)

    def get(self, name: str) -> tuple[float, float] | None:
        """Tokens left, and at which time; None where the name was not used, or is forgotten."""
        key, first = self._key(name)
        for place in range(first, first + _PROBES):
            stored, left, at = _BUCKET.unpack_from(self._memory, place * _BUCKET.size)
            if stored == key:
                return left, at
        return None

    def put(self, name: str, left: float, at: float) -> None:
        """Remember them."""
        key, first = self._key(name)
        oldest, place = float("inf"), first
        for candidate in range(first, first + _PROBES):
            stored, _, used = _BUCKET.unpack_from(self._memory, candidate * _BUCKET.size)
            if stored in (key, 0):
                place = candidate
                break
            if used < oldest:
                oldest, place = used, candidate
        _BUCKET.pack_into(self._memory, place * _BUCKET.size, key, left, at)

    def _key(self, name: str) -> tuple[int, int]:
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1
        return key, key % (self._places - _PROBES)


WINDOW_SECONDS = 60
MOST_NAMES = 10_000
"""Beyond this the bucket that was used longest ago is forgotten, and so begins full again."""

GUESSES_PER_MINUTE = 10
_LOGIN, _IN_BODY = "/browse/login", 0


class Rate:
    """`per_minute` a minute for each name, in bursts of up to as many."""

    def __init__(self, name: str, per_minute: int) -> None:
        """name: of the policy, as the headers say it"""
        self.name = name
        self.most = per_minute
        self.per_second = per_minute / WINDOW_SECONDS
        self._buckets = SharedBuckets(MOST_NAMES)

    def left(self, name: str, now: float) -> float:
        """How many may still come at once; an unknown name takes no memory."""
        bucket = self._buckets.get(name)
        if bucket is None:
            return float(self.most)
        left, at = bucket
        return min(float(self.most), left + (now - at) * self.per_second)

    def take(self, name: str, now: float) -> float:
        """Take one. Seconds to wait where there is none, else 0."""
        left = self.left(name, now)
        if left < 1:
            return (1 - left) / self.per_second
        self._buckets.put(name, left - 1, now)
        return 0.0

    def headers(self, name: str, now: float) -> list[tuple[bytes, bytes]]:
        """The policy, and what of it is left; `t` seconds until all of it is there again."""
        left = self.left(name, now)
        full = ceil((self.most - left) / self.per_second)
        return [
            (b"ratelimit-policy", f'"{self.name}";q={self.most};w={WINDOW_SECONDS}'.encode()),
            (b"ratelimit", f'"{self.name}";r={int(left)};t={full}'.encode()),
        ]


class PerKey:
    """Limits requests with a key, those refused for their scopes too. Requests over loopback without a key
    are not limited."""

    def __init__(self, per_minute: int) -> None:
        """per_minute: 0 = no limit"""
        self.rate = Rate("key", per_minute) if per_minute else None

    async def limited(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask `app` where the key's rate allows; else say when it does."""
        rate, key = self.rate, scope["state"].get("key_id")
        if rate is None or key is None:
            await app(scope, receive, send)
            return
        name = str(key)
        now = monotonic()
        wait = rate.take(name, now)
        shown = rate.headers(name, now)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *shown]
            await send(message)

        if wait:
            error = TooManyRequests(f"This key may ask {rate.most} times a minute (MEMORY_RATE_LIMIT)", wait)
            await refusal(error, scope["state"]["request_id"])(scope, receive, answer)
            return
        await app(scope, receive, answer)


class Guessing:
    """ASGI middleware before authentication: an address that sent too many wrong keys is told to wait instead
    of why its key is none, and its keys are looked up one after the other.

    A key that is right passes all the same, so that nobody with a wrong one locks out the others behind the
    same address; one that was right before does not even wait.
    """

    def __init__(self, app: ASGIApp, per_minute: int = GUESSES_PER_MINUTE) -> None:
        self.app = app
        self.rate = Rate("guesses", per_minute)
        self._right: OrderedDict[int, None] = OrderedDict()
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shown = _shown(scope) if scope["type"] == "http" else None
        if shown is None:
            await self.app(scope, receive, send)
            return
        address = network_of(str((scope.get("client") or ("unknown",))[0]))
        turn = ExitStack()
        limited = refused = False

        async def take_turn() -> None:
            nonlocal limited
            limited = self.rate.left(address, monotonic()) < 1 and shown not in self._right
            if limited:
                lock = self._turns.setdefault(address, asyncio.Lock())
                await lock.acquire()
                turn.callback(lock.release)

        async def until_body() -> Message:
            message = await receive()
            if not limited and message["type"] == "http.request" and not message.get("more_body"):
                await take_turn()
            return message

        async def answer(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                turn.close()
                if message["status"] == 401:
                    self._right.pop(shown, None)
                    if limited:
                        refused = True
                        wait = (1 - self.rate.left(address, monotonic())) / self.rate.per_second
                        error = TooManyRequests("Too many wrong keys came from this address", max(wait, 0.0))
                        await refusal(error, scope["state"]["request_id"])(scope, receive, send)
                        return
                    self.rate.take(address, monotonic())
                elif scope["state"].get("key_id") is not None:
                    self._keep(shown)
            if not refused:
                await send(message)

        scope["state"]["end_turn"] = turn.close
        if shown != _IN_BODY:
            await take_turn()
        with turn:
            await self.app(scope, until_body if shown == _IN_BODY else receive, answer)

    def _keep(self, shown: int) -> None:
        self._right[shown] = None
        if len(self._right) > MOST_NAMES:
            self._right.popitem(last=False)


def _shown(scope: Mapping[str, object]) -> int | None:
    """What was shown as a key, as a number that reveals nothing of it; None where nothing was, or where any
    key does."""
    if scope["path"] in ("/healthz", "/readyz"):
        return None
    if scope["path"] == _LOGIN and scope["method"] == "POST":
        return _IN_BODY
    headers: list[tuple[bytes, bytes]] = scope["headers"]  # type: ignore[assignment]
    keys = tuple(value for name, value in headers if name in (b"authorization", b"x-api-key"))
    return (hash(keys) or 1) if keys else None  # salted anew in every process


@lru_cache(maxsize=1_024)
def network_of(client: str) -> str:
    """The address; of IPv6 the /64, which one customer has whole."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    return str(ipaddress.ip_network(f"{client}/64", strict=False)) if address.version == 6 else client
