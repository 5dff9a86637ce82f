"""What all routes share: the settings, the database behind its preparation, the keys, the counts."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from weakref import WeakValueDictionary

import anyio
from fastapi import Request

from memory_service.api.fair_share import EVERYBODY
from memory_service.api.idempotency import IdempotentAnswers
from memory_service.api.metrics import Metrics
from memory_service.api.security.loopback import server_url
from memory_service.api.time_and_load_limits import Limits
from memory_service.child_processes import ASIDE
from memory_service.domain.common.api_keys import mode_limit
from memory_service.domain.common.vocabulary import Mode
from memory_service.services.access.keyring import Keyring, Quotas
from memory_service.services.database.transactions import Database
from memory_service.services.devices.local_calibration import Calibrating
from memory_service.services.operations.readiness import Preparation
from memory_service.services.runs.retention import Retention
from memory_service.settings import Settings

LONG_BODIES = 2
"""Requests with a long body (`api.request_body`) that are worked on at once."""
FILES = 2
"""Of files that are streamed, pieces that are made at once: between them nobody waits for a slow reader."""


BATCHES = 8
"""Large batches of events that are checked and written at once."""


class FewAtOnce:
    """Work that holds Python's lock for most of its time: `most` at once, and one of a caller, whose others
    wait for it. No thread can be ended: what goes on when its answer was given up (after `seconds`) keeps
    only its caller waiting."""

    def __init__(self, most: int, seconds: float = Limits().answer_seconds) -> None:
        self.limiter = anyio.CapacityLimiter(most)
        self.seconds = seconds
        self._own = WeakValueDictionary[str, asyncio.Lock]()

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        own = nullcontext() if caller == EVERYBODY else self._own.setdefault(caller, asyncio.Lock())
        async with own:
            place = _Place(self.limiter)
            await place.take()
            late = place.loop.call_later(self.seconds, place.end)
            ASIDE.set(place.aside)
            try:
                yield
            finally:
                late.cancel()
                place.end()


class _Place:
    """That of one caller. While a child process works for it, others have it."""

    def __init__(self, limiter: anyio.CapacityLimiter) -> None:
        self.limiter, self.loop = limiter, asyncio.get_running_loop()
        self.ended, self._taking = False, asyncio.Lock()

    async def take(self) -> None:
        async with self._taking:  # the limiter wakes only one who waits for a place
            if not self.ended:
                with suppress(RuntimeError):  # held: two children work for one caller
                    await self.limiter.acquire_on_behalf_of(self)
        if self.ended:
            self._give_back()

    def end(self) -> None:
        self.ended = True
        self._give_back()

    def _give_back(self) -> None:
        with suppress(RuntimeError):  # given back before
            self.limiter.release_on_behalf_of(self)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """In a thread of the caller's."""
        self.loop.call_soon_threadsafe(self._give_back)
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self.take(), self.loop).result()


class Service:
    """One per application, in `app.state.service`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings.database_url)
        self.preparation = Preparation(self.database, settings)
        self.calibrating = Calibrating(self.database)
        self.retention = Retention(self.database, settings.keep_raw_days)
        self.quotas = Quotas(self.database, settings.daily_events, settings.daily_bytes)
        self.keyring = Keyring(self.database, self.quotas)
        self.metrics = Metrics()
        self.idempotent_answers = IdempotentAnswers(self.database)
        self.readiness_limiter = anyio.CapacityLimiter(1)
        self.long_bodies = FewAtOnce(LONG_BODIES)
        self.files = FewAtOnce(FILES)
        self.batches = FewAtOnce(BATCHES)
        self.keeps_house = True
        """Whether this process does what one of several that serve an address does for all."""
        self.stopping = threading.Event()
        """Set when the server stops: streamed answers end here, and clients ask again."""


def service_of(request: Request) -> Service:
    """The service of the application that the request came to."""
    service: Service = request.app.state.service
    return service


def server_of(request: Request) -> str:
    """The server's address in scripts and commands, without a slash at the end."""
    return server_url(request.scope, service_of(request).settings)


def mode_limit_of(request: Request) -> Mode:
    """The most that the asker may use of memory of competitions, by the server's settings and the key."""
    return mode_limit(request.state.scopes, service_of(request).settings.mode_limit)


def database_of(request: Request) -> Database:
    """The database once it can be asked; Unavailable (503) before."""
    return service_of(request).preparation.require_knowledge()
