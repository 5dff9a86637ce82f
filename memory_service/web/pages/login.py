"""Signing in with a key, and out."""

from urllib.parse import quote, urlencode, urlsplit

import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from memory_service.api.security.auth_middleware import SESSION_COOKIE, NoKey, session_in
from memory_service.api.service import service_of
from memory_service.domain.common.api_keys import allows, parse
from memory_service.services.access.keyring import sign_in, sign_out
from memory_service.web.refusals import is_page
from memory_service.web.site import Form, answer, see

router = APIRouter(include_in_schema=False)

LOGIN = "/browse/login"

_NOT_VALID = "This key is not valid: it is unknown, wrong, expired or revoked."
_LONGEST_PATH = 2_000


def sent_to_login(scope: Scope) -> Response | None:
    """A redirect to the login page and back, for a request of a page."""
    request = Request(scope)
    if not is_page(request) and scope["path"] != "/docs":
        return None
    query = scope["query_string"].decode("latin-1")
    page = quote(scope["path"], safe="/@+:~,") + (f"?{query}" if query else "")
    return RedirectResponse(f"{LOGIN}?{urlencode({'next': page})}" if page != "/" else LOGIN, 303)


@router.get(LOGIN)
def login(request: Request) -> Response:
    return _form(request, request.query_params.get("next", ""))


@router.post(LOGIN)
async def signed_in(request: Request, form: Form) -> Response:
    """A new session, or the form again."""
    service, next_page = service_of(request), form.get("next", "")
    key = parse(form.get("key", "").strip())
    if key is None:
        return _form(request, next_page, "This is no key: a character of it is wrong, or it was cut off.")
    holder = await anyio.to_thread.run_sync(service.keyring.of_key, key)
    if holder is None:
        service.keyring.refused(request.client.host if request.client else "unknown", key.id)
        return _form(request, next_page, _NOT_VALID)
    if not allows(holder.scopes, ("read",)):
        return _form(request, next_page, "This key may not look at pages: it lacks the scope read.", 403)
    before = session_in(request.headers.get("cookie", ""))
    session = await anyio.to_thread.run_sync(sign_in, service.database, holder, before)
    response = see(_local_page(next_page))
    response.set_cookie(
        SESSION_COOKIE,
        session.id,
        max_age=session.seconds,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
    return response


@router.post("/browse/logout")
def signed_out(request: Request, form: Form) -> Response:  # noqa: ARG001 - its token is checked
    service, session_id = service_of(request), session_in(request.headers.get("cookie", ""))
    if session_id is not None and request.state.csrf is not None:
        sign_out(service.database, session_id, request.state.key_name)
        service.keyring.forget()
    response = see(LOGIN)
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="lax")
    return response


def _form(request: Request, next_page: str, refused: str | None = None, status: int = 401) -> Response:
    """status: 401 counts as a wrong key"""
    data = {"next": _local_page(next_page), "refused": refused}
    if refused is None:
        return answer(request, "login.html", data, title="Sign in")
    headers = NoKey.headers if status == 401 else None
    return answer(request, "login.html", data, title="Sign in", status=status, headers=headers)


def _local_page(next_page: str) -> str:
    """The page that was asked for if it is of this server; else the first one."""
    plain = len(next_page) <= _LONGEST_PATH and next_page.isprintable()
    parts = urlsplit(next_page if plain else "")
    own = not parts.scheme and not parts.netloc and "\\" not in next_page and not next_page.startswith("//")
    page = parts.path in ("/", "/docs") or (
        parts.path.startswith("/browse/") and parts.path not in (LOGIN, "/browse/logout")
    )
    return next_page if own and page else "/"
