"""Does /openapi.json tell the truth? Schemathesis asks every route, over a real socket.

Half of the questions follow the description, half break it: no answer may be a server
error or differ from what is described, and what breaks the description must be refused.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from memory_service.api.connection import server_of
from tests.api.conftest import serve
from tests.conftest import Servers

ASKED = {"kept": 3, "broken": 3}
"""Examples of a route, on SQLite: stories of `test_openapi_stateful` and texts that may trip over a database,
in `test_bad_input`, are told to both."""

SEED = int(os.environ.get("SEED", "0"))
"""Every second route is asked with what breaks it; `SEED=1` are the others. `test_bad_input` breaks each
field of all."""

PATIENCE_SECONDS = 60.0
"""A busy machine may take longer than the ten that Schemathesis waits."""

TOO_LARGE = 413


def breaking_is_refused(ctx: Any, response: Any, case: schemathesis.Case[Any]) -> bool | None:
    """A text that breaks its `maxLength` of a million can break the limit of the body first."""
    return None if response.status_code == TOO_LARGE else negative_data_rejection(ctx, response, case)


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    breaking_is_refused,
    unsupported_method,
]


def listen(client: TestClient) -> Iterator[str]:
    server = server_of(client.app, port=0, log_level="error", lifespan="off")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_every_route_is_as_described(servers: Servers, asked: str):
    mode = GenerationMode.POSITIVE if asked == "kept" else GenerationMode.NEGATIVE
    for client in serve(servers, "sqlite"):
        for url in listen(client):
            with requests.Session() as connection:
                assert_described(url, mode, ASKED[asked], connection)


def assert_described(url: str, mode: GenerationMode, examples: int, connection: requests.Session) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", timeout=PATIENCE_SECONDS)
    wrong: list[str] = []
    every = 2 if mode is GenerationMode.NEGATIVE else 1
    for result in itertools.islice(schema.get_all_operations(), SEED % every, None, every):
        assert isinstance(result, Ok)
        operation = result.ok()
        strategy = operation.as_strategy(generation_mode=mode)

        @seed(7)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(case=strategy)
        def ask(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(session=connection, checks=CHECKS, timeout=PATIENCE_SECONDS)

        try:
            ask()
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE, (
                operation.label
            )  # a route that takes nothing cannot be broken
        except BaseExceptionGroup as group:
            wrong += [f"{operation.label}: {error}" for error in group.exceptions]
        except Exception as error:  # noqa: BLE001 - every route is asked; what went wrong is told at the end
            wrong.append(f"{operation.label}: {type(error).__name__}: {error}")
    assert not wrong, "\n\n".join(wrong)
