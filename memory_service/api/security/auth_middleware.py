"""Authentication and authorisation of every request, before its body is read.

Over loopback the service is open, unless MEMORY_REQUIRE_KEYS demands keys there, too; over any other address
it wants one, however it was started. A key that is shown counts everywhere: it is checked, its scopes hold.

What follows finds in `scope["state"]`:

    scopes              of the key; without one all where none is demanded, else none
    key_id, key_name    None without a key
    inside              whether it came over loopback
    csrf                the token that the forms of a session carry; None without a session
    still               what was shown, to be asked again by an answer that goes on (`still_good`)
"""

from collections.abc import Callable, Mapping
from functools import partial
from hmac import compare_digest
from typing import Any, ClassVar

import anyio.to_thread
from fastapi import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_service.api.error_handlers import refusal_to
from memory_service.api.security.loopback import odd_host, reach_of, wrong_host
from memory_service.api.security.rate_limits import PerKey
from memory_service.api.security.route_scopes import OPEN, Scopes, wanted
from memory_service.api.service import database_of
from memory_service.api.time_and_load_limits import HUNG_UP
from memory_service.domain.common.api_keys import PREFIX, SCOPES, allows, mode_limit, parse
from memory_service.domain.common.vocabulary import Mode
from memory_service.domain.prediction.trust import reporter_of
from memory_service.errors import Forbidden, MemoryServiceError, Unauthorized
from memory_service.services.access.keyring import RUN_BYTES, Holder, Keyring, Quotas
from memory_service.services.access.keys import check_stated
from memory_service.services.database.transactions import STORED
from memory_service.services.knowledge.asker import ASKER, CORRECTS, GONE, INSIDE
from memory_service.services.tables.mode_limit import LIMIT, OF_WINNERS, check_shown

SESSION_COOKIE = "memory_service_session"
CSRF_HEADER = b"x-csrf-token"

_CHALLENGE = 'Bearer realm="memory_service"'
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_ALL, _NONE = frozenset(SCOPES), frozenset[str]()
_LONGEST_COOKIE = 200

Page = Callable[[Scope, Response], Response]
SignIn = Callable[[Scope], Response | None]


class NoKey(Unauthorized):
    headers: ClassVar[Mapping[str, str]] = {"WWW-Authenticate": _CHALLENGE}


class WrongKey(Unauthorized):
    headers: ClassVar[Mapping[str, str]] = {"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"'}


class CsrfMissing(Forbidden):
    """A browser sent a change with its session's cookie, but not from a form of that session."""

    code, title = "csrf", "This form is not one of this session's"


class Gate:
    """ASGI middleware, inside the boundary."""

    def __init__(
        self,
        app: ASGIApp,
        keyring: Keyring,
        quotas: Quotas,
        require_keys: bool,
        per_minute: int,
        limit: Mode = "open",
        shown: Page | None = None,
        sign_in: SignIn | None = None,
    ) -> None:
        """per_minute: requests of one key, 0 = no limit; limit: of memory of competitions. `shown` turns a
        refusal into a page, and `sign_in` sends on to the login page, where a person asked."""
        self.app = app
        self.keyring = keyring
        self.quotas = quotas
        self.require_keys = require_keys
        self.limit: Mode = limit
        self.rate = PerKey(per_minute)
        self.shown = shown
        self.sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = self.app
        try:
            if await self._admit(scope):
                receive = self._counted(scope["state"]["key_id"], receive)
            if (end_turn := scope["state"].get("end_turn")) is not None:
                end_turn()  # the key was looked up: others need not wait for the answer
        except MemoryServiceError as error:
            answer = self._refused(scope, error)
        await self.rate.limited(answer, scope, receive, send)

    async def _admit(self, scope: Scope) -> bool:
        """Whether its body counts towards the quota of its key."""
        scopes = wanted(scope["method"], scope["path"])
        if scopes is None and _has_route(scope):
            raise Forbidden(f"{scope['method']} {scope['path'][:200]} is in no table of access: nobody may")
        loopback = reach_of(scope) == "loopback"
        inside = loopback and not self.require_keys
        if (other := wrong_host(scope) if inside else odd_host(scope)) is not None:
            raise other
        _leave(scope, None, _ALL if inside else _NONE)
        INSIDE.set(loopback)
        scope["state"]["inside"] = loopback
        holder = await self._holder(scope, scopes)
        if holder is not None:
            _leave(scope, holder, _NONE)
            _check(scope, holder, scopes)
        limit = mode_limit(scope["state"]["scopes"], self.limit)
        LIMIT.set(limit)
        if scopes and _shows_winners(scope["path"]):
            check_shown("solutions")
        if holder is not None:
            STORED.set(lambda size: self.quotas.add(holder.key_id, size=size))
            if scope["method"] not in _READING and scopes and "read" not in scopes:
                path = scope["path"].rstrip("/")
                if not f"{path}/".startswith(("/keys/", "/browse/operate/")):  # nothing stands in their way
                    self.quotas.check(holder.key_id, takes_back=_takes_back(scope["method"], path))
                if path == "/runs":
                    self.quotas.add(holder.key_id, size=RUN_BYTES)
                return True
        elif not inside and scopes != OPEN:
            raise NoKey("Show a key: Authorization: Bearer msk_…, or X-API-Key: msk_…")
        return False

    def _counted(self, key_id: str, receive: Receive) -> Receive:
        async def count() -> Message:
            message = await receive()
            self.quotas.add(key_id, size=len(message.get("body", b"")))
            return message

        return count

    async def _holder(self, scope: Scope, scopes: Scopes | None) -> Holder | None:
        if scopes == OPEN:
            return None
        given, cookie = _shown_key(scope["headers"])
        if given is not None:
            return await self._of_key(scope, given)
        if cookie is None:
            return None
        scope["state"]["still"] = partial(self.keyring.session_now, cookie)
        found = self.keyring.cached_session(cookie)
        return found or await anyio.to_thread.run_sync(self.keyring.of_session, cookie)

    async def _of_key(self, scope: Scope, given: str) -> Holder:
        key = parse(given)
        if key is None:
            raise WrongKey(
                f"This is no key: one begins with {PREFIX}, and a character of it is wrong or it was cut off"
            )
        scope["state"]["still"] = partial(self.keyring.key_now, key)
        holder = self.keyring.cached_key(key)
        if holder is None:
            holder = await anyio.to_thread.run_sync(self.keyring.of_key, key)
        if holder is None:
            client = scope.get("client")
            self.keyring.refused(str(client[0]) if client else "unknown", key.id)
            raise WrongKey("The key is not valid: it is unknown, wrong, expired or revoked")
        return holder

    def _refused(self, scope: Scope, error: MemoryServiceError) -> Response:
        asked = isinstance(error, NoKey) and scope["method"] in _READING
        sent_on = self.sign_in(scope) if asked and self.sign_in is not None else None
        if sent_on is not None:
            return sent_on
        response = refusal_to(scope, error)
        return response if self.shown is None else self.shown(scope, response)


def who_of(request: Request) -> str | None:
    """The name of the key that asks; None where none was shown."""
    name: str | None = getattr(request.state, "key_name", None)
    return name


def form_is_signed(request: Request, token: str) -> None:
    """CsrfMissing unless a form that was sent with a session's cookie carries the session's token."""
    due: str | None = getattr(request.state, "csrf", None)
    if due is not None and not compare_digest(token.encode(), due.encode()):
        raise CsrfMissing("The form does not carry its session's token; open the page again and send it anew")


def signed(request: Request, stated: Mapping[str, Any]) -> dict[str, Any]:
    """What is stated with a change, with the key's name for `who` where a key made it. InvalidInput where
    somebody without a key states the name of one."""
    name = who_of(request)
    if name is not None:
        return {**stated, "who": name}
    if stated.get("who") is not None:
        check_stated(database_of(request), stated["who"])
    return {**stated}


def still_good(request: Request) -> bool:
    """Whether the key or session that an answer was begun for would be let in now; may ask the database."""
    still: Callable[[], Holder | None] | None = getattr(request.state, "still", None)
    return still is None or still() is not None


def needs(request: Request, scope: str, to: str) -> None:
    """Forbidden unless the asker has this scope; for what only the body shows."""
    if not allows(request.state.scopes, (scope,)):
        raise _lacks((scope,), f"To {to}")


_OF_WINNERS = OF_WINNERS | {"techniques", "find", "sources"}
"""Tables, and pages that are no table's, that show past competitions and what won them. Rows that another
page shows are refused where they are read."""


def _shows_winners(path: str) -> bool:
    """Whether the route, the page, or the table that a page corrects (`/browse/edit/TABLE/KEY`) is one."""
    words = (word.partition(".")[0] for word in path.strip("/").split("/")[:3])
    return next((word for word in words if word not in ("browse", "edit", "undo")), "") in _OF_WINNERS


def _takes_back(method: str, path: str) -> bool:
    """Whether it takes something back: for that there are bytes beyond the quota."""
    undone = path.endswith(("/undo", "/exclude", "/restore")) or path.startswith("/browse/undo/")
    return method == "DELETE" or (undone and method == "POST")


def _leave(scope: Scope, holder: Holder | None, without: frozenset[str]) -> None:
    ASKER.set(reporter_of(holder.name, None) if holder else None)
    CORRECTS.set(allows(holder.scopes if holder else without, ("edit",)))
    GONE.set(scope.get(HUNG_UP))
    scope["state"] |= {
        "key_id": holder.key_id if holder else None,
        "key_name": holder.name if holder else None,
        "scopes": holder.scopes if holder else without,
        "csrf": holder.csrf if holder else None,
    }


def _check(scope: Scope, holder: Holder, scopes: Scopes | None) -> None:
    if scopes and not allows(holder.scopes, scopes):
        raise _lacks(scopes, f"For {scope['method']} {scope['path'][:200]}")
    if holder.csrf is None or scope["method"] in _READING:
        return
    if scope["path"].startswith("/browse/"):
        return  # a form: its token is in the body, and `web.site.form_of` refuses it without
    token = next((value.decode("latin-1") for name, value in scope["headers"] if name == CSRF_HEADER), "")
    if not compare_digest(token.encode(), holder.csrf.encode()):
        raise CsrfMissing("A change with a session's cookie needs the session's token in X-CSRF-Token")


def _lacks(scopes: Scopes, what: str) -> Forbidden:
    return Forbidden(f"{what} a key needs the scope {' or '.join(scopes)}")


def _shown_key(headers: list[tuple[bytes, bytes]]) -> tuple[str | None, str | None]:
    """(what was shown as a key, the session's cookie)."""
    keys: set[str] = set()
    cookie: str | None = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, rest = value.decode("latin-1").partition(" ")
            keys.add(rest.strip() if scheme.lower() == "bearer" else "")
        elif name == b"x-api-key":
            keys.add(value.decode("latin-1").strip())
        elif name == b"cookie":
            cookie = session_in(value.decode("latin-1")) or cookie
    if len(keys) > 1:  # a proxy in front may have looked at the other one
        raise WrongKey("Two things are shown as keys (Authorization, X-API-Key); show one")
    return next(iter(keys), None), cookie


def session_in(cookies: str) -> str | None:
    """The session's id in a `Cookie` header."""
    for part in cookies.split(";"):
        name, _, value = part.strip().partition("=")
        if name == SESSION_COOKIE and 0 < len(value) <= _LONGEST_COOKIE and value.isascii():
            return value
    return None


def _has_route(scope: Scope) -> bool:
    routes: list[Any] = scope["app"].router.routes
    return any(route.matches(scope)[0] is Match.FULL for route in routes)
