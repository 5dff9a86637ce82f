"""The list of runs: what it shows of a run that goes on."""

import datetime as dt
from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.pages.run_list import runs_page
from memory_service.services.runs.runs import begin_run, finish_run
from tests.telling import case, epochs, take_events


def test_a_running_run_is_shown_as_of_its_latest_event_and_of_its_end(seeded_database: Database) -> None:
    run_id = begin_run(seeded_database, case(gpu="b200", metric_direction="max"))[0]["run_id"]

    def row() -> dict[str, Any]:
        (found,) = runs_page(seeded_database, {"gpu": "b200"}, dt.datetime.now(dt.UTC))["items"]
        return {name: found[name] for name in ("status", "curve")}

    assert row() == {"status": "running", "curve": []}
    told = [event | {"metric": 0.5 + event["seq"] / 10} for event in epochs(0.08, 3)]
    shown = []
    for count in (1, 2, 3):
        take_events(seeded_database, run_id, {"events": told[count - 1 : count]})
        shown.append(row()["curve"])
        assert row()["curve"] == shown[-1]  # now from the cache
    assert shown == [[[0.5]], [[0.5, 0.6]], [[0.5, 0.6, 0.7]]]
    finish_run(seeded_database, run_id, {"status": "stopped"})
    assert row() == {"status": "stopped", "curve": shown[-1]}
