"""The problem document of an error, the same over HTTP (RFC 9457) and on the command line."""

from collections.abc import Sequence
from typing import Any

from memory_service.errors import FieldError, MemoryServiceError, Moved

_MOST_GIVEN = 200


def problem(
    code: str,
    title: str,
    status: int,
    detail: str,
    errors: Sequence[FieldError] = (),
    request_id: str | None = None,
) -> dict[str, Any]:
    """`{type, title, status, detail, errors: [{field, message, given, nearest}], request_id}`; the code
    ends `type`."""
    document: dict[str, Any] = {
        "type": f"urn:memory-service:problem:{code}",
        "title": title,
        "status": status,
    }
    document |= {"detail": _short(detail, 2_000), "errors": [_wrong(error) for error in errors[:50]]}
    if request_id is not None:
        document["request_id"] = request_id
    return document


def problem_of(error: MemoryServiceError, request_id: str | None = None) -> dict[str, Any]:
    """The document of an error of this service; of a row that moved with `current` and `changes`."""
    document = problem(error.code, error.title, error.status, error.detail, error.errors, request_id)
    return document | (
        {"current": error.current, "changes": error.changes} if isinstance(error, Moved) else {}
    )


def _wrong(error: FieldError) -> dict[str, Any]:
    nearest = [_short(name) for name in error.nearest]
    wrong = {"field": _short(error.field), "message": _short(error.message, 1_000)}
    return wrong | {"given": _shown(error.given), "nearest": nearest}


def _shown(given: Any) -> Any:
    """What was given, in a form that any JSON reader takes and no log minds."""
    if given is None or isinstance(given, bool):
        return given
    if isinstance(given, int) and abs(given) < 2**53:
        return given
    if isinstance(given, float) and abs(given) < 1e300:
        return given
    try:
        return _short(str(given))
    except ValueError:
        return "a number of more than 4300 digits"


def _short(text: str, most: int = _MOST_GIVEN) -> str:
    clean = text.encode("utf-8", "replace").decode().replace("\x00", "\\0")
    return clean if len(clean) <= most else clean[: most - 1] + "…"
