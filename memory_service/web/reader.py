"""The person who reads a page and their scopes, for templates."""

from dataclasses import dataclass

from starlette.requests import Request

from memory_service.domain.common.api_keys import SCOPES, allows


@dataclass(frozen=True, slots=True)
class Reader:
    """name: of the key that signed in, None without one; csrf: the token of each form."""

    name: str | None
    scopes: frozenset[str]
    csrf: str | None

    def may(self, scope: str) -> bool:
        return allows(self.scopes, (scope,))


ANYBODY = Reader(None, frozenset(SCOPES), None)


def reader_of(request: Request) -> Reader:
    """As `api.security.auth_middleware` found out; without scopes where it refused before."""
    state = request.scope.get("state", {})
    if "scopes" not in state:
        return Reader(None, frozenset(), None)
    return Reader(state["key_name"], state["scopes"], state["csrf"])
