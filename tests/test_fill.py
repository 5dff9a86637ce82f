"""Are the made-up runs that pages are measured with such as the service itself would hold?"""

from __future__ import annotations

import datetime as dt
from collections import Counter

from sqlalchemy import func, select

from benchmarks.fill import fill_big
from memory_service.services.database.transactions import Database
from memory_service.services.runs.runs import run_page
from memory_service.services.tables import table_rows as catalogue
from memory_service.store.tables.knowledge import Competition
from memory_service.store.tables.runs import Run

NOW = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def test_a_filled_database_holds_as_many_as_asked_and_their_pages_are_whole(
    seeded_database: Database,
) -> None:
    fill_big(seeded_database, runs=80, competitions=300, now=NOW)
    with seeded_database.read() as unit:
        assert unit.session.scalar(select(func.count()).select_from(Run)) == 80
        assert unit.session.scalar(select(func.count()).select_from(Competition)) == 300
        told = unit.session.execute(select(Run.id, Run.status, Run.started_at, Run.competition)).all()
        latest = catalogue.list_rows(unit, "runs", {"status": "completed"}, "-started_at", 5).items
    assert Counter(row.status for row in told).keys() == {
        "running", "completed", "stopped", "out_of_memory", "timed_out", "crashed",
    }  # fmt: skip
    assert all(row.started_at < NOW for row in told)
    assert len({row.competition for row in told}) > 15
    page = run_page(seeded_database, latest[0]["id"])
    assert page["evidence"]["status"] == page["status"] == "completed"
    assert page["given"]["competition"] == page["competition"]
    assert page["outcome"]["epochs"][-1]["at"] > page["started_at"]
    assert "@" not in repr({name: page[name] for name in ("given", "outcome", "finish")})
    old = run_page(seeded_database, min(told, key=lambda row: row.started_at).id)
    assert old["outcome"]["epochs_done"] >= 0
