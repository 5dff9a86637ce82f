"""Does every change land in the audit exactly once, with who made it, and with the change or not at all?"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from memory_service.errors import Unavailable
from memory_service.store.queries import history
from tests.api.test_calibrations import MEASURED, posted
from tests.security.conftest import LOOPBACK, Answer, House
from tests.services.devices.test_local_calibration import CARD
from tests.store.fakes import ROWS, gpu
from tests.telling import case

HERE: dict[str, Any] = {"server": LOOPBACK, "headers": {"host": "localhost"}}


def since(house: House, entry: int) -> list[tuple[str, str, str, str]]:
    """(table, row, action, who) of what was written behind an entry."""
    found = [e for e in house.audit(sort="-id")[::-1] if e["id"] > entry]
    return [(e["table"], e["row"], e["action"], e["who"]) for e in found]


def last(house: House) -> int:
    return int(house.audit(sort="-id")[0]["id"])


def changes(house: House) -> list[tuple[tuple[str, str, str, str] | None, tuple[Any, ...], dict[str, Any]]]:
    """(entry that it must leave, method and path, body) of changes by every door."""
    run, calibration = (
        case(gpu="custom/card", model="custom/net"),
        posted("audited", status="running", sections={}),
    )
    ended = calibration | {"status": "done", "sections": {"launch.us": MEASURED}}
    finish = {"status": "completed", "best_metric": 0.9}
    runs_of = f"/runs/{run['run_id']}"
    event = {"events": [{"seq": 0, "kind": "epoch", "at": run["started_at"], "epoch": 0, "seconds": 9.0}]}
    row = ROWS["patterns"]() | {"id": "p-audit", "who": "somebody else"}
    return [
        (("runs", run["run_id"], "create", "agent"), ("POST", "/runs"), run),
        (None, ("POST", "/runs"), run),  # the same again
        (None, ("POST", f"{runs_of}/events"), event),  # telemetry is kept with its run
        (("runs", run["run_id"], "update", "agent"), ("POST", f"{runs_of}/finish"), finish),
        (None, ("POST", f"{runs_of}/finish"), finish),
        (None, ("POST", f"{runs_of}/finish"), finish | {"best_metric": 0.1}),  # contradicts: 409
        (("patterns", "p-audit", "create", "agent"), ("POST", "/patterns"), row),
        (None, ("POST", "/patterns"), row),
        (("patterns", "p-audit", "update", "agent"), ("PATCH", "/patterns/p-audit"), {"statement": "Else."}),
        (None, ("PATCH", "/patterns/p-audit"), {"statement": "Else."}),
        (("patterns", "p-audit", "delete", "agent"), ("DELETE", "/patterns/p-audit"), {}),
        (("devices", "box-audit", "create", "agent"), ("POST", "/gpus"), {"name": "box-audit"}),
        (None, ("POST", "/gpus"), {"name": "box-audit"}),
        (("devices", "box-audit", "delete", "agent"), ("DELETE", "/gpus/box-audit"), {}),
        (("calibrations", calibration["id"], "create", "agent"), ("POST", "/calibrations"), calibration),
        (None, ("POST", "/calibrations"), calibration),
        (("calibrations", calibration["id"], "update", "agent"), ("POST", "/calibrations"), ended),
        (None, ("POST", "/calibrations"), ended),
    ]


def test_every_change_leaves_one_entry_signed_with_its_key(house: House):
    key = house.key("agent", "read", "tell", "edit")
    sheet = gpu("a100", name="NVIDIA A100", aliases=[CARD.name], memory_gib=40.0, usable_gib=39.0)
    assert house.ask("POST", "/gpus", key, body=sheet).status == 201
    for expected, (method, path), body in changes(house):
        before = last(house)
        answer: Answer = house.ask(method, path, key, body=body)
        assert answer.status < 500, answer.text
        written = since(house, before)
        if path == "/calibrations" and written and written[0][0] == "devices":
            assert written.pop(0) == ("devices", "audited", "create", "agent")
        assert written == ([] if expected is None else [expected]), (method, path, answer.text)


def test_keys_and_sessions_leave_their_entries(house: House):
    admin, before = house.keys["admin"], last(house)
    made = house.ask("POST", "/keys", admin, body={"name": "audited", "scopes": ["read"]}).json
    turned = house.ask("POST", "/keys/audited/rotate", admin).json
    session = house.sign_in(turned["key"]).session
    token = house.ask("GET", "/browse/models", session=session).text.split('name="csrf" value="')[1][:64]
    house.ask("POST", "/browse/logout", session=session, form={"csrf": token})
    house.ask("DELETE", "/keys/audited", admin)
    assert since(house, before) == [
        ("keys", made["id"], "create", "admin"),
        ("keys", made["id"], "delete", "admin"),
        ("keys", turned["id"], "create", "admin"),
        ("sessions", turned["id"], "create", "audited"),
        ("sessions", turned["id"], "delete", "audited"),
        ("keys", turned["id"], "delete", "admin"),
    ]


def test_without_a_key_it_says_what_was_said(house: House):
    before = last(house)
    for number, who in enumerate((None, "ada")):
        row = ROWS["patterns"]() | {"id": f"p-said-{number}"} | ({"who": who} if who else {})
        assert house.ask("POST", "/patterns", body=row, **HERE).status == 201
    assert [entry[3] for entry in since(house, before)] == ["anonymous", "ada"]


def test_a_change_without_its_entry_is_no_change(house: House, monkeypatch: pytest.MonkeyPatch):
    """One transaction: where the entry cannot be written, the run has not begun."""

    def full(*_: Any, **__: Any) -> None:
        raise Unavailable("no room for the entry")

    run_id = str(uuid.uuid4())
    with monkeypatch.context() as patch:
        patch.setattr(history, "record", full)
        run = case(run_id=run_id, gpu="custom/card", model="custom/net")
        for door, body in (("/runs", run), ("/keys", {"name": "lost", "scopes": "read"})):
            assert house.ask("POST", door, house.keys["admin"], body=body).status == 503
    assert house.ask("GET", f"/runs/{run_id}", house.keys["admin"]).status == 404
    assert "lost" not in [key["name"] for key in house.ask("GET", "/keys", house.keys["admin"]).json["items"]]


def test_the_audit_is_paged_narrowed_and_exported(house: House):
    admin = house.keys["admin"]
    first = house.ask("GET", "/audit?sort=-id&limit=2", admin).json
    second = house.ask("GET", f"/audit?sort=-id&limit=2&cursor={first['next']}", admin).json
    ids = [entry["id"] for entry in (*first["items"], *second["items"])]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 4
    assert {entry["table"] for entry in house.audit(table="keys")} == {"keys"}
    assert {entry["who"] for entry in house.audit(who="admin")} == {"admin"}
    assert {entry["action"] for entry in house.audit(action="delete", table="keys")} == {"delete"}
    lines = house.ask("GET", "/audit?format=csv", admin).text.splitlines()
    assert lines[0].startswith("id,table,row,version,action,origin,at,who,why")
    assert len(lines) > 5
