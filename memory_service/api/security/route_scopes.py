"""The table of scopes that each route needs; `api.security.auth_middleware` refuses a route that is not in
it.

    GET /runs/{run_id}   one route, by the template that the application has it under
    GET /browse/*        every route below

Any of the scopes suffices, and `admin` for all of them. docs/security.md shows this table.
"""

import re
from collections.abc import Mapping

from starlette.routing import compile_path

from memory_service.domain.common.tables import shipped_table

Scopes = tuple[str, ...]

OPEN: Scopes = ()
"""No key is asked for."""

_TABLE = shipped_table(__package__, "route_scopes.toml")

ROUTES: Mapping[str, Scopes] = {
    route.replace("TABLE", table): tuple(scopes.split())
    for route, scopes in _TABLE["routes"].items()
    for table in (_TABLE["tables"].split() if "TABLE" in route else [""])
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
