"""The list of runs: what it shows of a run that goes on, and of one that has ended."""

import datetime as dt
from typing import Any

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.pages.run_list import runs_page, runs_table
from memory_service.services.runs.runs import begin_run, finish_run, run_page
from tests.telling import case, epochs, take_events, told


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


def test_the_list_says_how_long_each_run_took_however_it_ended_and_so_far(
    seeded_database: Database,
) -> None:
    told(seeded_database, case(gpu="b200"), epochs(0.08), "crashed")
    begin_run(seeded_database, case(gpu="b200"))
    now = dt.datetime.now(dt.UTC)
    rows = runs_page(seeded_database, {"gpu": "b200"}, now)["items"]
    took = {row["status"]: row["took_minutes"] for row in rows}
    ended = next(row for row in rows if row["status"] == "crashed")
    begun, end = (dt.datetime.fromisoformat(ended[name]) for name in ("started_at", "finished_at"))
    assert took["crashed"] == (end - begun).total_seconds() / 60 > 0
    assert 0 <= took["running"] < 1, "since it was begun, as its page says"


def test_epochs_that_are_told_at_once_have_taken_their_time_on_the_page_and_in_the_list(
    seeded_database: Database,
) -> None:
    now = dt.datetime.now(dt.UTC)
    started = now.isoformat()
    run_id = begin_run(seeded_database, case(gpu="b200", minutes=60, epochs=20, folds=1, started_at=started))[
        0
    ]["run_id"]
    said = [
        {"seq": n, "kind": "epoch", "at": started, "fold": 1, "epoch": n + 1, "seconds": 300.0}
        for n in range(6)
    ]
    verdict = take_events(seeded_database, run_id, {"events": said})["verdict"]
    assert verdict["budget_used_percent"] == pytest.approx(50, abs=1)
    for end in (None, "completed"):
        if end is not None:
            finish_run(seeded_database, run_id, {"status": end})
        (row,) = runs_page(seeded_database, {"gpu": "b200"}, now)["items"]
        assert row["took_minutes"] == pytest.approx(30, abs=0.5)
        assert run_page(seeded_database, run_id)["watch"]["used_minutes"] == pytest.approx(30, abs=0.5)


def test_runs_are_searched_grouped_and_put_in_any_order(seeded_database: Database) -> None:
    now = dt.datetime.now(dt.UTC)
    for batch in (24, 8, 16):
        begin_run(seeded_database, case(gpu="b200", batch_size=batch))
    begin_run(seeded_database, case(gpu="h200"))
    found = runs_page(seeded_database, {"q": "b200", "sort": "-batch_size", "limit": "2"}, now)
    assert [row["batch_size"] for row in found["items"]] == [24, 16]
    assert (found["matching"], found["of"]) == (3, 4)
    assert found["facets"]["gpu"] == [["b200", 3]], "chips count what the search lets through"
    chosen = runs_page(seeded_database, {"q": "b200", "gpu": "h200"}, now)
    assert (chosen["items"], chosen["facets"]["gpu"]) == ([], [["b200", 3]])
    rest = runs_page(seeded_database, {"q": "b200", "sort": "-batch_size", "cursor": found["next"]}, now)
    assert [row["batch_size"] for row in rest["items"]] == [8]
    by_card = runs_page(seeded_database, {"group": "gpu"}, now)
    assert by_card["heads"] == ["b200"] * 3 + ["h200"]
    (page,) = runs_table(seeded_database, {"q": "b200", "sort": "batch_size"}).pages()
    assert [row["batch_size"] for row in page] == [8, 16, 24]
