"""Do pages of runs walk an index, whatever they are narrowed and sorted by, on both databases?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, Select, event, select, text
from sqlalchemy.orm import Session

from memory_service.domain.runs.pattern_effect import Tally
from memory_service.services.database.transactions import Database
from memory_service.services.tables.paging import Query, parse_query, sort_names
from memory_service.store.queries import calibrations, history, observations, outcomes, runs
from memory_service.store.session import WriteSession
from memory_service.store.tables.runs import Run
from tests.registered import calibrate, observe, register
from tests.services.knowledge.test_observed_cases import RAN

QUESTIONS: list[tuple[dict[str, str], str | None]] = [
    ({}, f"{sign}{name}") for name in sort_names("runs") for sign in ("", "-")
] + [
    ({"gpu": "a100"}, None),
    ({"model": "resnet50"}, "-started_at"),
    ({"status": "completed"}, "-started_at"),
    ({"task": "image"}, "-started_at"),
    ({"competition": "leaf"}, "-started_at"),
    ({"started_at_min": "2026-11-01"}, "-started_at"),
]


@pytest.mark.parametrize("begun", [False, True], ids=["first page", "a later page"])
def test_no_page_of_runs_reads_or_sorts_them_all(database: Database, begun: bool) -> None:
    with database.read() as unit:
        if not database.dialect.embedded:  # the table is empty: it would be read whole otherwise
            for setting in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
                unit.session.execute(text(f"SET LOCAL {setting} = off"))
        for filters, sort in QUESTIONS:
            query = parse_query("runs", filters, sort)
            for part in _later(query).parts(select(Run.id)) if begun else query.parts(select(Run.id)):
                plan = _plan(unit.session, database, part.limit(51))
                assert _walks_an_index(plan, by_time=query.sort.endswith("_at")), (filters, sort, plan)


def test_who_added_a_row_is_found_by_the_row(database: Database) -> None:
    told: list[tuple[str, Any]] = []
    with database.write() as unit:
        if not database.dialect.embedded:
            unit.session.execute(text("SET LOCAL enable_seqscan = off"))
        connection = unit.session.connection()
        event.listen(connection, "before_cursor_execute", lambda *of: told.append((of[2], of[3])))
        history.first_tellers(unit.session, "devices", "box7")
        ask = "EXPLAIN QUERY PLAN" if database.dialect.embedded else "EXPLAIN"
        (statement, values), *_ = list(told)
        plan = [str(row[-1]) for row in connection.exec_driver_sql(f"{ask} {statement}", values)]
    assert "ix_history_row" in " / ".join(plan)
    assert "ix_history_action" not in " / ".join(plan)


STARTED = {"start_up_minutes": 3.0}


def test_what_keys_told_of_devices_and_runs_is_looked_up_however_much_it_is(database: Database) -> None:
    """Nothing of the tables that a key adds to is read whole, and nothing is counted."""
    for who in ("ada", "bob"):
        register(database, f"box-{who}", "a100", told_by=who)
        calibrate(database, f"box-{who}", "a100", {"launch.us": 5.0}, told_by=who)
        observe(database, [replace(RAN, reporter=f"key {who}")])
    told: list[tuple[str, Any]] = []
    with database.write() as unit:
        if not database.dialect.embedded:
            for setting in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
                unit.session.execute(text(f"SET LOCAL {setting} = off"))
        connection = unit.session.connection()
        event.listen(connection, "before_cursor_execute", lambda *of: told.append((of[2], of[3])))
        assert len(calibrations.devices(unit.session)) == 2
        assert len(calibrations.ended(unit.session)) == 2
        assert len(calibrations.of_device(unit.session, ["box-ada"], 3)) == 1
        assert len(observations.latest(unit.session, 5)) == 2
        assert len(history.latest_ids(unit.session, "devices", 5)) == 2
        assert len(history.latest(unit.session, ["devices", "calibrations"], 3)) == 3
        _nothing_read_whole(database, connection, told, "devices", "calibrations", "observations", "history")


def test_what_runs_say_is_looked_up_however_many_one_key_told_of(database: Database) -> None:
    """Of the tables that a key adds to, nothing is read whole, and no index of theirs."""
    told: list[tuple[str, Any]] = []
    with database.write() as unit:
        if not database.dialect.embedded:
            for setting in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
                unit.session.execute(text(f"SET LOCAL {setting} = off"))
        for key in ("key ada", "host box"):
            _ended_run(unit.session, key, unit.now)
        connection = unit.session.connection()
        event.listen(connection, "before_cursor_execute", lambda *of: told.append((of[2], of[3])))
        assert len(outcomes.latest(unit.session, "competition:leaf", 5)) == 2
        assert len(outcomes.with_metric(unit.session, 5)) == 2
        assert [each.minutes for each in outcomes.start_ups(unit.session, 5)] == [3.0, 3.0]
        for n in range(4):  # they tell of no start-up, and hide none
            _ended_run(unit.session, f"key quiet{n}", unit.now, {"x": "y"})
        assert len(outcomes.start_ups(unit.session, 2)) == 2
        outcomes.tallies(unit.session, ["competition:leaf"])
        outcomes.fingerprint(unit.session)
        counted = {"pattern:one": Tally(served=1), "family:resnet": Tally(served=1)}
        outcomes.write_tallies(unit.session, "competition:leaf", counted, unit.now)
        _nothing_read_whole(database, connection, told, "outcomes", "runs", "tallies")


def _nothing_read_whole(
    database: Database, connection: Connection, told: list[tuple[str, Any]], *tables: str
) -> None:
    ask = "EXPLAIN QUERY PLAN" if database.dialect.embedded else "EXPLAIN"
    for statement, values in [each for each in told if each[0].startswith(("SELECT", "WITH", "DELETE"))]:
        plan = [str(row[-1]) for row in connection.exec_driver_sql(f"{ask} {statement}", values)]
        whole = [f"SCAN {table}" for table in tables] + ["Seq Scan"]
        assert not [line for line in plan for each in whole if each in line], (statement, plan)
        for line, behind in pairwise([*plan, ""]):
            assert " Scan using " not in line or "Index Cond" in behind, (statement, plan)


def _ended_run(session: WriteSession, told_by: str, now: Any, host: Any = STARTED) -> None:
    names = ("task", "gpu", "device", "model", "family", "input_kind", "precision", "layout", "optimizer",
             "mode", "digest")  # fmt: skip
    times = dict.fromkeys(("started_at", "finished_at", "created_at", "updated_at"), now)
    given = {"host": host}
    run = {**dict.fromkeys(names, "k"), **times, "status": "completed", "told_by": told_by, "given": given}
    runs.add(session, {"id": told_by, "competition": "leaf", **run})
    begun = runs.find(session, told_by)
    assert begun is not None
    outcomes.keep(session, begun, "competition:leaf", now, ended_at=now, outcome={})


def _later(query: Query) -> Query:
    value = {"batch_size": 64, "wasted_minutes": 3.0}.get(query.sort, "k")
    if query.sort.endswith("_at"):
        value = parse_query("runs", {"started_at_min": "2026-11-05"}).filters[0][2]
    return Query(query.table, query.sort, query.descending, query.limit, query.filters, (value, "k"))


def _plan(session: Session, database: Database, statement: Select[Any]) -> list[str]:
    said = statement.compile(database.engine, compile_kwargs={"literal_binds": True})
    ask = "EXPLAIN QUERY PLAN" if database.dialect.embedded else "EXPLAIN"
    return [str(row[-1]) for row in session.connection().exec_driver_sql(f"{ask} {said}".replace("%", "%%"))]


def _walks_an_index(plan: list[str], *, by_time: bool) -> bool:
    """Few runs began at the same moment: those may be put in order; nothing else is sorted."""
    told = " / ".join(plan)
    if any("cost=" in line for line in plan):
        sorted_too = "Sort  (" in (told.replace("Incremental Sort", "") if by_time else told)
        return "Index" in told and "Seq Scan" not in told and not sorted_too
    sorted_too = "TEMP B-TREE FOR ORDER BY" in told if by_time else "TEMP B-TREE" in told
    return "INDEX" in told and not sorted_too
