"""Which runs wasted the most minutes, and on what: kept when a run ends, sorted by the database."""

from __future__ import annotations

from memory_service.services.database.transactions import Database
from memory_service.services.tables.table_rows import list_rows
from tests.telling import case, epochs, take_events, told


def test_runs_are_sorted_by_the_minutes_they_wasted_and_say_on_what(seeded_database: Database) -> None:
    lost = told(seeded_database, case(), epochs(0.2), "timed_out", submission=False)
    late = epochs(0.2)
    for nth, event in enumerate(late):
        event |= {"valid_loss": 1.0 + nth}
    trained_on = told(seeded_database, case(), late, submission=True)
    good = told(seeded_database, case(), epochs(0.04), submission=True)
    with seeded_database.read() as unit:
        found = list_rows(unit, "runs", sort="-wasted_minutes").items
    assert [row["id"] for row in found] == [lost["id"], trained_on["id"], good["id"]]
    assert (found[0]["wasted_minutes"], found[0]["wasted_on"]) == (10.0, "no_submission")
    assert found[1]["wasted_on"] == "after_best"
    assert found[1]["waste"]["after_best"] == 2.5
    assert found[2]["wasted_minutes"] == 0.0
    further = {
        "seq": 50,
        "kind": "epoch",
        "at": "2026-03-01T12:04:00Z",
        "fold": 0,
        "epoch": 4,
        "seconds": 60.0,
    }
    take_events(seeded_database, trained_on["id"], {"events": [further | {"valid_loss": 9.0}]})
    with seeded_database.read() as unit:
        (again,) = list_rows(unit, "runs", {"wasted_on": "after_best"}).items
    assert again["waste"]["after_best"] == 3.5, "an event told late counts, too"
