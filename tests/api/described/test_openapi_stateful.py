"""Does the description hold along whole stories, and for every kind of key?

A story follows the links that Schemathesis finds in the description: POST /runs, then events, verdict and
finish of that run; POST of a row, then GET, PATCH and DELETE of it; a key that is made, exchanged and taken
back. The server demands keys. Nothing may answer 500, or anything that is not described.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Flaky
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from memory_service.api.security.route_scopes import OPEN, wanted
from memory_service.app import create_app
from memory_service.domain.common.api_keys import SCOPES
from memory_service.services.access.keys import create_key
from memory_service.services.database.transactions import Database
from memory_service.settings import load_settings
from tests.api.described.test_openapi import CHECKS, PATIENCE_SECONDS, listen
from tests.conftest import KINDS, Servers

ROUNDS, STORIES, STEPS = 5, 5, 8
EXAMPLES = 1
WITHOUT = "without"


@dataclass
class Locked:
    """A server that demands keys, and keys of every scope."""

    url: str
    database_url: str
    made: int = 0

    def key(self, scope: str) -> dict[str, str]:
        self.made += 1
        with Database(self.database_url) as database:
            key = create_key(database, f"{scope} of the test {self.made}", [scope])["key"]
        return {"Authorization": f"Bearer {key}"}

    def schema(self, headers: dict[str, str]) -> Any:
        return schemathesis.openapi.from_url(
            f"{self.url}/openapi.json", headers=headers, timeout=PATIENCE_SECONDS
        )


@pytest.fixture(scope="module", params=KINDS)
def locked(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Locked]:
    url = servers.new(str(request.param), "seeded")
    app = create_app(
        load_settings(database_url=url, seed_on_start=False, calibrate=False, require_keys=True, rate_limit=0)
    )
    with TestClient(app) as client:
        state = app.state.service.preparation.wait(300)
        assert state.ready, state
        for address in listen(client):
            yield Locked(address, url)
    servers.drop(url)


@pytest.mark.slow
def test_stories_go_as_described(locked: Locked):
    admin = [locked.key("admin")]

    class Story(locked.schema(admin[0]).as_state_machine()):  # type: ignore[misc]
        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": admin[0], "timeout": PATIENCE_SECONDS}

        def after_call(self, response: Any, case: Any) -> None:
            if response.status_code == 401:  # the story took back its own key
                admin[0] = locked.key("admin")

        def validate_response(self, response: Any, case: Any, *_: Any, **__: Any) -> None:
            answered.append(response.status_code)
            try:
                case.validate_response(response, checks=CHECKS)
            except BaseException as error:
                wrong.append(f"{case.operation.label}: {error}")
                raise

    answered: list[int] = []
    wrong: list[str] = []
    for number in range(ROUNDS):
        seed(number)(Story)
        # The server remembers earlier stories: a step that was possible may not be again. That is no fault.
        with contextlib.suppress(Flaky):
            Story.run(
                settings=settings(
                    max_examples=STORIES,
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                    phases=[Phase.generate],
                )
            )
    assert not wrong, "\n\n".join(wrong)
    assert len(answered) > 4 * ROUNDS
    assert len({status // 100 for status in answered} & {2, 4}) == 2


@pytest.mark.slow
@pytest.mark.parametrize("locked", ["sqlite"], indirect=True)  # security/test_routes asks both for every key
def test_every_key_is_answered_as_described(locked: Locked):
    """Each route is asked the same with each key: what is asked takes longer to think of than to ask."""
    keys: dict[str, dict[str, str]] = {WITHOUT: {}} | {scope: locked.key(scope) for scope in SCOPES}
    wrong: list[str] = []
    for result in locked.schema(keys["admin"]).get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        scopes = wanted(operation.method.upper(), operation.path)
        assert scopes is not None, operation.label
        may = {shown for shown in keys if scopes == OPEN or shown in (*scopes, "admin")}

        @seed(7)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
        def ask(case: schemathesis.Case[Any]) -> None:
            for shown, headers in keys.items():
                wrong.extend(unlike(case, shown, headers, shown in may))  # noqa: B023

        ask()
    assert not wrong, "\n\n".join(wrong)


def unlike(case: schemathesis.Case[Any], shown: str, headers: dict[str, str], may: bool) -> list[str]:
    """What is wrong with the answer: nothing if it is as described, and refused only where it must be."""
    try:
        response = case.call(headers=headers, timeout=PATIENCE_SECONDS)
        case.validate_response(response, checks=CHECKS)
    except BaseException as error:  # noqa: BLE001 - every route is asked; what went wrong is told at the end
        return [f"{case.operation.label}, {shown}: {type(error).__name__}: {error}"]
    refused = response.status_code == (401 if shown == WITHOUT else 403)
    return [f"{case.operation.label}, {shown}: {response.status_code}"] if refused == may else []
