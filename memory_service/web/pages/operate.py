"""The page of whoever runs the service, and what can be done there: keys, a backup, a check."""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import Request
from starlette.responses import Response

from memory_service.api.security.auth_middleware import who_of
from memory_service.api.service import Service, database_of, service_of
from memory_service.domain.common.api_keys import LIMITS, SCOPES
from memory_service.errors import MemoryServiceError, unknown_name, wrong_value
from memory_service.services.access.keys import create_key, revoke_key, rotate_key
from memory_service.services.operations.database import check
from memory_service.services.pages.operate import back_up, operate_page
from memory_service.web.environment import reader_of
from memory_service.web.site import Form, Pages, answer, query_of

router = Pages()


@router.page("/browse/operate")
def operate(request: Request) -> Response:
    return _page(request)


@router.form("/browse/operate")
def operated(request: Request, form: Form) -> Response:
    """`step`: make, rotate or revoke a key, backup, check. A key that was made is in this answer and never
    again."""
    step = form.get("step", "")
    try:
        if step not in _STEPS:
            raise unknown_name("step", step[:40], tuple(_STEPS))
        return _page(request, **_STEPS[step](request, form))
    except MemoryServiceError as refusal:
        return _page(request, refusal.status, refused=refusal.detail, form=form)


def _make(request: Request, form: Mapping[str, str]) -> dict[str, Any]:
    scopes = [name for name in (*SCOPES, *LIMITS) if form.get(f"scope-{name}")]
    days = form.get("expires_days", "").strip()
    try:
        life = float(days) if days else None
    except ValueError:
        raise wrong_value("expires_days", "must be a number of days", days[:40]) from None
    name = form.get("name", "")
    return {"made": create_key(database_of(request), name, scopes, expires_days=life, who=who_of(request))}


def _rotate(request: Request, form: Mapping[str, str]) -> dict[str, Any]:
    made = rotate_key(database_of(request), form.get("key", ""), who=who_of(request))
    service_of(request).keyring.forget()
    return {"made": made}


def _revoke(request: Request, form: Mapping[str, str]) -> dict[str, Any]:
    gone = revoke_key(database_of(request), form.get("key", ""), who=who_of(request))
    service_of(request).keyring.forget()
    return {"said": f"Key {gone['name']} is revoked, and its sessions have ended."}


def _backup(request: Request, _: Mapping[str, str]) -> dict[str, Any]:
    return {"said": f"Saved as {back_up(database_of(request), dt.datetime.now(dt.UTC)).name}."}


def _check(request: Request, _: Mapping[str, str]) -> dict[str, Any]:
    found = check(database_of(request)).problems
    return {"said": "; ".join(found) if found else "The database is sound.", "bad": bool(found)}


_STEPS: Mapping[str, Callable[[Request, Mapping[str, str]], dict[str, Any]]] = {
    "make": _make, "rotate": _rotate, "revoke": _revoke, "backup": _backup, "check": _check,
}  # fmt: skip


def _page(request: Request, status: int = 200, **view: Any) -> Response:
    service = service_of(request)
    asked = query_of(request) if request.method == "GET" else {}  # a key that was made must be shown
    admin = reader_of(request).may("admin")
    data = operate_page(database_of(request), service.settings.home, asked, admin=admin)
    data["queues"] += _queues(service)
    data |= {"health": service.preparation.checked().as_dict(), **service.metrics.slowest()}
    view = {"made": None, "said": None, "bad": False, "refused": None, "form": {}} | view
    scopes = (*SCOPES, *LIMITS)
    return answer(request, "operate.html", data, title="Operate", status=status, scopes=scopes, **view)


def _queues(service: Service) -> list[dict[str, Any]]:
    """Work of this process that waits for its turn."""
    limiters = {
        "Long requests": service.long_bodies,
        "Files": service.files,
        "Event batches": service.batches,
    }
    return [
        {"name": name, "working": counted.borrowed_tokens, "waiting": counted.tasks_waiting}
        for name, few in limiters.items()
        for counted in [few.limiter.statistics()]
    ]
