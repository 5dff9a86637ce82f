"""Where a command tells of runs: a server, or a database here by the same requests."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from memory_service.cli.common.databases import open_ready
from memory_service.cli.common.remote import get, post
from memory_service.client.doors import Door
from memory_service.errors import MemoryServiceError, TooManyRequests, Unavailable

PAUSES_SECONDS = (0.5, 2.0, 8.0, 30.0)


def remote_door(server: str) -> Door:
    """Requests of a server, each repeated for a while where it does not answer or wants them slower."""

    def answered(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        return get(server, path, {}) if body is None else post(f"{server}{path}", body)

    def answer(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        for pause in PAUSES_SECONDS:
            try:
                return answered(path, body)
            except MemoryServiceError as error:
                if error.status not in (TooManyRequests.status, Unavailable.status):
                    raise
            time.sleep(pause)
        return answered(path, body)

    return answer


@contextmanager
def local_door(url: str | None) -> Iterator[Door]:
    """The same of a database here."""
    from memory_service.services.runs.runs import begin_run, finish_run, run_page
    from memory_service.services.runs.telemetry import take_events

    with open_ready(url) as database:

        def answer(path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
            _, _, key, what = [*path.split("/"), "", ""][:4]
            if body is None:
                return run_page(database, key)
            if what == "events":
                return asyncio.run(take_events(database, key, body))
            return finish_run(database, key, body) if what == "finish" else begin_run(database, body)[0]

        yield answer
