"""Fair shares of one process among its callers: requests in progress, bytes of their bodies, worker threads.

A caller is a key, or without one an address. Over open loopback nobody can be told apart: there only the
limits of everybody hold. A request counts once its body is there, so that a withheld body takes nothing from
others. `/healthz`, `/readyz` and `/keys` are answered whatever else is in progress.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from math import exp
from time import monotonic, sleep

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_service.api.error_handlers import refusal
from memory_service.api.security.rate_limits import network_of
from memory_service.api.time_and_load_limits import Limits, TooBusy
from memory_service.services.knowledge.asker import PAUSE

_RESERVED = ("/healthz", "/readyz", "/keys")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_EVENT_STREAM = b"text/event-stream"
EVERYBODY = ""
"""The name of a caller over open loopback."""

LONG_SECONDS = 0.3
"""Of a usual answer's time the most; who takes longer makes nobody wait for a turn any more."""


SPAN_SECONDS, MUCH_SECONDS, MORE_THAN_USUAL = 2.0, 0.2, 1.5
"""Work counts e times less after so many seconds; so much is not little; of the usual caller's so many times
is far more."""
_NOTHING_SECONDS = 0.001
PIECE_SECONDS = 0.01
"""Of an answer, after which it may rest."""


class FairShare:
    """ASGI middleware inside the authentication: requests and bytes in progress, of everybody and of each
    caller (`Limits`). TooBusy (503) beyond."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits | None = None,
        longest_body: int = 4 * 2**20,
        shown: Callable[[Scope, Response], Response] | None = None,
    ) -> None:
        """longest_body: bytes of a longer one are not counted. `shown` may turn a refusal into a page."""
        self.app = app
        self.limits = limits or Limits()
        self.longest_body = longest_body
        self.shown = shown
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_reserved(scope):
            await self.app(scope, receive, send)
            return
        usage = _Usage(self, caller_of(scope))
        answer = self.app
        try:
            if not takes_body(scope):
                usage.begin()
        except TooBusy as error:
            refused = refusal(error, scope["state"]["request_id"])
            answer = refused if self.shown is None else self.shown(scope, refused)
        try:
            await answer(scope, usage.counted(receive), usage.until_streaming(send))
        finally:
            usage.end()


class _Usage:
    """What one request holds."""

    __slots__ = ("begun", "caller", "in_progress", "shares", "size")

    def __init__(self, shares: FairShare, caller: str) -> None:
        self.shares = shares
        self.caller = caller
        self.begun = False
        self.in_progress = False
        self.size = 0

    def begin(self) -> None:
        """Count the request; TooBusy where too many are in progress, of everybody or of this caller."""
        counts, limits = self.shares.requests, self.shares.limits
        if counts.total() >= limits.requests:
            raise TooBusy(f"{limits.requests} requests are in progress; ask again in a moment")
        if self.caller != EVERYBODY and counts[self.caller] >= limits.requests_of_one:
            raise TooBusy(f"{limits.requests_of_one} requests of this caller are in progress; ask again")
        counts[self.caller] += 1
        self.begun = self.in_progress = True

    def counted(self, receive: Receive) -> Receive:
        """A `receive` that counts the bytes of the body, and the request when the body is there."""

        async def count() -> Message:
            message = await receive()
            if body := message.get("body"):
                self._add(len(body))
            if not self.begun and message["type"] == "http.request" and not message.get("more_body"):
                self.begin()
            return message

        return count

    def _add(self, size: int) -> None:
        counts, longest = self.shares.bytes, self.shares.longest_body
        size = min(size, max(0, longest - self.size))
        self.size += size
        counts[self.caller] += size
        room = max(self.shares.limits.body_bytes, 4 * longest)
        if counts.total() > room:
            raise TooBusy(f"over {room} bytes are in progress; ask again")
        if self.caller != EVERYBODY and counts[self.caller] > max(room // 4, longest):
            raise TooBusy(f"over {room // 4} bytes of this caller are in progress; ask again")

    def until_streaming(self, send: Send) -> Send:
        """A `send` that ends the request where server-sent events begin: they go on for minutes."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and _streams_events(message):
                self.end()
            await send(message)

        return answer

    def end(self) -> None:
        for held, counts in ((int(self.in_progress), self.shares.requests), (self.size, self.shares.bytes)):
            counts[self.caller] -= held
            if counts[self.caller] <= 0:
                del counts[self.caller]
        self.in_progress, self.size = False, 0


class RecentWork:
    """Seconds of one core that callers took of late, older ones counting less and less: those who work at
    the same time share it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._now = self._added = clock()
        self._each = 0.0
        self._of: dict[str, float] = {}

    def until_now(self, working: int) -> float:
        """What each of so many took who worked all the while, from the beginning on."""
        before, self._now = self._now, self._clock()
        self._each += (self._now - before) / max(1, working)
        return self._each

    def add(self, caller: str, seconds: float) -> None:
        left, self._added = self._left(), self._now
        older = {each: left * took for each, took in self._of.items()}
        self._of = {each: took for each, took in older.items() if took > _NOTHING_SECONDS}
        self._of[caller] = self._of.get(caller, 0.0) + seconds

    def is_over(self, caller: str, going: Mapping[str, float]) -> bool:
        """Whether it took far more than the usual one of them, and not little; going: what each takes by what
        it has not ended yet."""
        left = self._left()
        took = {each: left * self._of.get(each, 0.0) + going.get(each, 0.0) for each in {*self._of, *going}}
        mine = took.get(caller, 0.0)
        return mine > MUCH_SECONDS and mine * len(took) > MORE_THAN_USUAL * sum(took.values())

    def _left(self) -> float:
        return exp((self._added - self._clock()) / SPAN_SECONDS)


class WorkerTurns:
    """ASGI middleware around the routes: how many requests are worked on at once, of everybody and of one
    caller. A free turn goes to the waiting caller that holds fewest.

    A request that has worked for `LONG_SECONDS` hands its turn on and goes on beside the others, up to
    `long` of them at once, and one of each caller: however long some work, nobody waits for their end. It
    still counts among those of its caller. Who worked far more than others of late (`RecentWork`) begins one
    at a time, where none of them is worked for, and rests between the pieces of an answer (`still_wanted`).
    """

    def __init__(
        self,
        app: ASGIApp,
        turns: int,
        of_one_caller: int,
        long: int = 0,
        for_idle: int = 0,
        on_long: Callable[[int], None] = lambda _: None,
    ) -> None:
        """for_idle: of the turns, for callers of whom nothing is in progress.
        on_long: is told how many work beside the turns, whenever that changes."""
        self.app = app
        self.turns = turns
        self.of_one_caller = of_one_caller
        self.long = long
        self.for_idle = for_idle
        self.on_long = on_long
        self.held: Counter[str] = Counter()
        self.beside: Counter[str] = Counter()
        self.waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self.work = RecentWork()
        self.working: set[_Turn] = set()
        self._looks = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_reserved(scope):
            await self.app(scope, receive, send)
            return
        turn = _Turn(self, caller_of(scope))

        async def until_body() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                await turn.take()
            return message

        async def until_answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                turn.give_back()
            await send(message)

        if not takes_body(scope):
            await turn.take()
        try:
            await self.app(scope, until_body, until_answer)
        finally:
            turn.give_back()

    def _may_take(self, caller: str) -> bool:
        if caller == EVERYBODY:
            return self.held.total() < self.turns
        mine = self.held[caller] + self.beside[caller]
        if (mine or self.others(caller)) and self.work.is_over(caller, self.going()):
            return False
        return self.held.total() < self.turns - (self.for_idle if mine else 0) and mine < self.of_one_caller

    def others(self, caller: str) -> int:
        """Requests of other callers that are worked on."""
        mine = self.held[caller] + self.beside[caller]
        return self.held.total() + self.beside.total() - mine

    def going(self) -> Mapping[str, float]:
        """Seconds of work by caller, of requests that are worked on."""
        now, going = self.until_now(), dict[str, float]()
        for turn in self.working:
            going[turn.caller] = going.get(turn.caller, 0.0) + now - turn.since
        return going

    def until_now(self) -> float:
        """As `RecentWork` has it, of those who hold a turn or work beside."""
        return self.work.until_now(self.held.total() + self.beside.total())

    async def take(self, caller: str) -> None:
        """Wait for a turn."""
        if self._may_take(caller):
            self.until_now()
            self.held[caller] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        if not self.waiting:
            self._look_later()
        self.waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(caller, turn)
            else:
                self.give_back(caller, self.held)
            raise

    def go_beside(self, caller: str) -> bool:
        """Hand a turn on and go on without; whether there is room for one more that does. There is for the
        only one of a caller: however many callers there are, they leave turns for idle ones."""
        if self.beside.total() >= self.long and self.held[caller] + self.beside[caller] > 1:
            return False
        self.beside[caller] += 1
        self.on_long(self.beside.total())
        self.give_back(caller, self.held)
        return True

    def give_back(self, caller: str, of: Counter[str]) -> None:
        """End one of the caller's turns, or of those that work beside them."""
        self.until_now()
        of[caller] -= 1
        if of[caller] <= 0:
            del of[caller]
        if of is self.beside:
            self.on_long(self.beside.total())
        self._hand_out()

    def _look_later(self) -> None:
        """Who worked much may begin after a while, where nothing ends meanwhile."""
        if self._looks:
            return
        self._looks = True
        asyncio.get_running_loop().call_later(LONG_SECONDS, self._look)

    def _look(self) -> None:
        self._looks = False
        self._hand_out()
        if self.waiting:
            self._look_later()

    def _hand_out(self) -> None:
        self.until_now()
        while able := [each for each in self.waiting if self._may_take(each)]:
            chosen = min(able, key=lambda each: self.held[each] + self.beside[each])
            turns = self.waiting.pop(chosen)
            turn = turns.popleft()
            if turns:
                self.waiting[chosen] = turns  # behind those that hold as many
            if not turn.done():
                self.held[chosen] += 1
                turn.set_result(None)

    def _forget(self, caller: str, turn: asyncio.Future[None]) -> None:
        turns = self.waiting.get(caller, deque[asyncio.Future[None]]())
        if turn in turns:  # else somebody who gave one back found it cancelled
            turns.remove(turn)
            if not turns:
                del self.waiting[caller]


class _Turn:
    """That of one request."""

    __slots__ = ("caller", "counted", "rested", "since", "taken", "timer", "turns")

    def __init__(self, turns: WorkerTurns, caller: str) -> None:
        self.turns = turns
        self.caller = caller
        self.taken = False
        self.counted: Counter[str] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.since = self.rested = 0.0

    async def take(self) -> None:
        if not self.taken:
            self.taken = True
            await self.turns.take(self.caller)
            self.counted = self.turns.held
            self.since, self.rested = self.turns.until_now(), monotonic()
            self.turns.working.add(self)
            PAUSE.set(self.pause)
            self._look_later()

    def _look_later(self) -> None:
        if self.turns.long:
            self.timer = asyncio.get_running_loop().call_later(LONG_SECONDS, self._go_beside)

    def _go_beside(self) -> None:
        if self.turns.go_beside(self.caller):
            self.counted = self.turns.beside
        else:
            self._look_later()

    def pause(self) -> None:
        """In a thread that works long, as it goes on: beside others it rests as long as it worked."""
        worked = monotonic() - self.rested
        if worked > PIECE_SECONDS:
            if self.turns.others(self.caller):
                sleep(min(LONG_SECONDS, worked))
            self.rested = monotonic()

    def give_back(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.counted is not None:
            self.turns.working.discard(self)
            self.turns.work.add(self.caller, self.turns.until_now() - self.since)
            counted, self.counted = self.counted, None
            self.turns.give_back(self.caller, counted)


def caller_of(scope: Scope) -> str:
    """Who shares: the key's id, else the address; EVERYBODY over open loopback."""
    state = scope["state"]
    if key := state.get("key_id"):
        return str(key)
    if state.get("scopes"):
        return EVERYBODY
    return network_of(str((scope.get("client") or ("unknown",))[0]))


def is_reserved(scope: Scope) -> bool:
    """Whether it is answered whatever else is in progress: health, and keys with their revocation."""
    path: str = scope["path"]
    return path in _RESERVED or path.startswith("/keys/")


def takes_body(scope: Scope) -> bool:
    return scope["method"] in _WITH_BODY


def _streams_events(message: Message) -> bool:
    return any(
        name == b"content-type" and value.startswith(_EVENT_STREAM) for name, value in message["headers"]
    )
