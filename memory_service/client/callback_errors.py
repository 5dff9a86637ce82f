"""A failing callback logs its error once and lets the training go on."""

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

log = logging.getLogger("memory_service.client")

Hook = TypeVar("Hook", bound=Callable[..., Any])

_logged: set[str] = set()


def never_raise(hook: Hook) -> Hook:
    """The hook; an exception is logged once and None returned."""

    @functools.wraps(hook)
    def never_raises(*args: Any, **kwargs: Any) -> Any:
        try:
            return hook(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - never the training's problem
            if hook.__qualname__ not in _logged:
                _logged.add(hook.__qualname__)
                log.warning("memory-service: %s failed: %r", hook.__qualname__, error)
            return None

    return never_raises  # type: ignore[return-value]
