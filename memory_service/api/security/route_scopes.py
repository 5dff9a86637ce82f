"""The table of scopes that each route needs; `api.security.auth_middleware` refuses a route that is not in
it.

    GET /runs/{run_id}   one route, by the template that the application has it under
    GET /browse/*        every route below

Any of the scopes suffices, and `admin` for all of them. docs/security.md shows this table.
"""

import re
from collections.abc import Mapping

from starlette.routing import compile_path

Scopes = tuple[str, ...]

OPEN: Scopes = ()
"""No key is asked for."""

READ, TELL, EDIT, ADMIN = ("read",), ("tell",), ("edit",), ("admin",)
ANY = ("read", "tell", "edit")

_ROWS = ("competitions", "solutions", "patterns", "models", "gpus", "strategies", "claims")

ROUTES: Mapping[str, Scopes] = {
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /static/{name:path}": OPEN,
    "GET /browse/login": OPEN,
    "POST /browse/login": OPEN,
    "POST /browse/logout": ANY,
    "GET /": READ,
    "GET /index.json": READ,
    "POST /": READ,
    "POST /browse/understand": READ,
    "POST /browse/devices": ADMIN,
    "POST /browse/operate": ADMIN,
    "GET /browse/*": READ,
    "POST /browse/*": EDIT,
    "GET /docs": READ,
    "GET /openapi.json": READ,
    "GET /metrics": READ,
    "GET /recommend": READ,
    "POST /recommend": READ,
    "GET /brief": READ,
    "GET /plans/{plan_id}": READ,
    "GET /plans/{plan_id}/train.py": READ,
    "POST /brief": READ,
    "GET /similar": READ,
    "POST /similar": READ,
    "GET /predict": READ,
    "POST /predict": READ,
    "POST /rank": READ,
    "POST /choose": READ,
    "POST /compare": READ,
    "GET /scripts/memory_train.py": READ,
    "POST /review": READ,
    "GET /conflicts": READ,
    "GET /accuracy": READ,
    "POST /runs/{run_id}/events": TELL,
    "POST /runs": TELL,
    "POST /runs/{run_id}/log": TELL,
    "POST /runs/{run_id}/finish": TELL,
    "POST /runs/{run_id}/exclude": EDIT,
    "POST /runs/{run_id}/restore": EDIT,
    "GET /runs/{run_id}/verdict": ("read", "tell"),
    "GET /runs": READ,
    "GET /runs/{run_id}": READ,
    "GET /runs/{run_id}/events": READ,
    "POST /calibrations": TELL,
    "GET /calibrations": READ,
    "GET /calibrations/{id}/events": READ,
    "GET /calibrations/{id}": READ,
    "GET /sizing": READ,
    "GET /sizing/{key:path}": READ,
    **{f"GET /{table}": READ for table in _ROWS},
    **{f"POST /{table}": EDIT for table in _ROWS},
    **{f"GET /{table}/{{key:path}}/history": READ for table in _ROWS},
    **{f"GET /{table}/{{key:path}}": READ for table in _ROWS},
    **{f"POST /{table}/{{key:path}}/undo": EDIT for table in _ROWS},
    **{f"PATCH /{table}/{{key:path}}": EDIT for table in _ROWS},
    **{f"DELETE /{table}/{{key:path}}": EDIT for table in _ROWS},
    "GET /keys": ADMIN,
    "POST /keys": ADMIN,
    "POST /keys/{name}/rotate": ADMIN,
    "DELETE /keys/{name}": ADMIN,
    "GET /audit": ADMIN,
    "POST /mcp": ANY,
}

_Place = tuple[str, re.Pattern[str], Scopes]


def _places() -> dict[str, list[_Place]]:
    """First part of the path -> its routes, those without fields first."""
    found: dict[str, list[_Place]] = {}
    for named, scopes in sorted(ROUTES.items(), key=lambda route: "{" in route[0] or "*" in route[0]):
        method, path = named.split(" ")
        pattern = compile_path(path.replace("*", "{rest:path}"))[0]
        found.setdefault(path.split("/")[1], []).append((method, pattern, scopes))
    return found


_PLACES = _places()


def wanted(method: str, path: str) -> Scopes | None:
    """The scopes of which the route wants one; None where the table has no such route."""
    for known, pattern, scopes in _PLACES.get(path.split("/", 2)[1] if path[:1] == "/" else "", ()):
        if known == method and pattern.match(path):
            return scopes
    return None
