"""What one caller writes or brings back at once is bounded, so that the others write meanwhile."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from anyio import create_task_group, run, sleep
from fastapi.testclient import TestClient

from memory_service.api.routes import runs as routes
from memory_service.api.service import FewAtOnce
from memory_service.errors import InvalidInput, Unavailable
from memory_service.services.editorial import curation, import_file
from memory_service.services.pages import edit
from memory_service.services.runs import telemetry
from memory_service.store.queries import history
from tests.store.fakes import pattern

PAGE = "/browse/import/claims"


def claims(n: int, tag: str, quantity: str = "epochs") -> str:
    return "id,quantity\n" + "".join(f"{tag}{i},{quantity}\n" for i in range(n))


def brought(client: TestClient, text: str, **more: str) -> Any:
    return client.post(PAGE, data={"text": text, "step": "look", **more}, follow_redirects=False)


def stored(client: TestClient, tag: str) -> list[str]:
    items = client.get("/claims", params={"limit": 500}).json()["items"]
    return [row["id"] for row in items if row["id"].startswith(tag)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("id," + ",".join(f"c{n}" for n in range(3_000)), "has 3001 columns; a table has at most 200"),
        (claims(import_file.MOST_LINES + 1, "many-"), "has more than 2000 rows"),
        (claims(curation.MOST_ROWS + 1, "some-"), "of one change are at most 500, not 501"),
    ],
)
def test_a_table_of_more_than_one_change_is_refused(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    looked: list[Any] = []
    one = import_file._looked

    def noted(*row: Any) -> Any:
        looked.append(row)
        return one(*row)

    monkeypatch.setattr(import_file, "_looked", noted)
    answer = brought(sqlite_client, text)
    assert (answer.status_code, why in answer.text) == (422, True)
    assert len(looked) <= curation.MOST_ROWS + 1
    assert stored(sqlite_client, "some-") == stored(sqlite_client, "many-") == []


def test_a_line_of_json_with_too_many_members_is_refused_alone(sqlite_client: TestClient) -> None:
    wide = "{" + ",".join(f'"m{n}":1' for n in range(250)) + "}\n"
    odd = '[1]\n5\n"taken: all is well"\n'
    answer = brought(sqlite_client, wide + odd + '{"id": "json-1", "quantity": "epochs"}')
    assert "has over 200 members" in answer.text
    assert answer.text.count("is no JSON object") == 3
    assert "all is well" not in answer.text.partition("<textarea")[0]
    assert "json-1" in answer.text


def test_a_file_is_stored_in_several_changes(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database = sqlite_client.app.state.service.database  # type: ignore[attr-defined]
    monkeypatch.setattr(import_file, "MOST_ROWS", 2)
    monkeypatch.setattr(curation, "MOST_ROWS", 2)
    file = tmp_path / "patterns.jsonl"
    file.write_text("\n".join(json.dumps(pattern(f"file-{n}")) for n in range(5)))
    import_file.import_file(database, file, encoder=lambda: None, who="a test")
    with database.read() as reading:
        entries = [history.of_row(reading.session, "patterns", f"file-{n}")[0] for n in range(5)]
    assert len({entry.at for entry in entries}) == 3


def test_of_a_change_from_before_the_first_rows_are_shown_each_read_once(
    sqlite_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = sqlite_client.app.state.service.database  # type: ignore[attr-defined]
    seen = re.search(r'value="([0-9a-f]{64})"', brought(sqlite_client, claims(5, "page-")).text)
    assert seen is not None
    done = brought(sqlite_client, claims(5, "page-"), step="save", seen=seen[1], why="a test")
    path = done.headers["location"]
    whole = sqlite_client.get(f"{path}.json").json()
    assert (len(whole["rows"]), whole["left_out"], whole["can_undo"]) == (5, 0, True)
    monkeypatch.setattr(edit, "MOST_ROWS", 3)
    monkeypatch.setattr(curation, "MOST_ROWS", 3)
    asked: list[Any] = []
    monkeypatch.setattr(history, "of_row", lambda *row: asked.append(row))
    page = edit.change_page(database, whole["change"])
    assert ([row["row"] for row in page["rows"]], page["left_out"]) == (["page-0", "page-1", "page-2"], 2)
    assert (page["can_undo"], asked) == (False, [])
    with pytest.raises(InvalidInput, match="of one change are at most 3, not 5"):
        curation.undo_together(database, whole["change"], encoder=lambda: None)


def test_events_of_one_key_leave_the_places_before_the_database_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "MOST_WAITING", 40)
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    database: Any = Opened()
    writer = telemetry._Writer(database)

    def write(asker: str | None, n: int) -> Any:
        batch: Any = SimpleNamespace(events=[None] * n, asker=asker)
        loop = Mock()  # whom nobody waits in
        waiting: Any = (batch, Mock(get_loop=lambda: loop))
        writer.write(*waiting)
        return waiting

    first = write("key a", 8)
    with pytest.raises(Unavailable, match="events of this key wait"):
        write("key a", 3)
    write("key b", 10)
    write(None, 20)
    writer._wake([first])
    write("key a", 9)
    with pytest.raises(Unavailable, match="too many events wait"):
        write("key c", 3)


def test_of_large_batches_of_one_key_one_is_taken_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    most: dict[str, int] = {}
    service = SimpleNamespace(batches=FewAtOnce(8))

    async def take(_: Any, run_id: str, __: Any) -> Any:
        taken.append(run_id)
        most[run_id] = max(most.get(run_id, 0), taken.count(run_id))
        await sleep(0.01)
        taken.remove(run_id)

    async def body(request: Any) -> Any:
        return {"events": [None] * request.n}

    async def main() -> None:
        async with create_task_group() as tasks:
            for key, n in (("large", 501), ("large", 501), ("large", 900), ("small", 500), ("small", 500)):
                request: Any = SimpleNamespace(n=n, scope={"query_string": b"", "state": {"key_id": key}})
                tasks.start_soon(routes.post_events, request, key)

    monkeypatch.setattr(routes, "take_events", take)
    monkeypatch.setattr(routes, "event_object", body)
    monkeypatch.setattr(routes, "service_of", lambda _: service)
    monkeypatch.setattr(routes, "database_of", lambda _: None)
    monkeypatch.setattr(routes, "_counted", lambda *_: None)
    run(main)
    assert most == {"large": 1, "small": 2}


class Opened:
    """A database that nobody closes."""
