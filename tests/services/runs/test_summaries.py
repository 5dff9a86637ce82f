"""A run's summary is of all its events, whoever took them in, in whatever order, and whoever was killed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.summary import Summary
from memory_service.errors import OutOfSpace
from memory_service.services.database.transactions import Database
from memory_service.services.runs import summaries
from memory_service.services.runs.run_log import take_log
from memory_service.services.runs.runs import begin_run
from memory_service.services.runs.summaries import begun, events_in, read_summary, write_summary
from memory_service.store.queries import run_summaries as watched
from memory_service.store.queries import runs
from tests.conftest import Servers
from tests.telling import at, case, take_events

Opener = Callable[[str], Database]


def _sample(seq: int) -> dict[str, Any]:
    if seq % 7 == 3:
        return {"seq": seq, "kind": "epoch", "at": at(seq), "fold": 0, "epoch": seq // 7, "seconds": 5.5}
    return {
        "seq": seq,
        "kind": "gpu",
        "at": at(seq),
        "utilization_percent": 50.0,
        "used_gib": float(seq % 11),
    }


def _is_of_all_events(database: Database, run_id: str) -> Summary:
    start = begun(database, [run_id])[run_id].started
    with database.read() as unit:
        told = [*events_in(runs.events_of(unit.session, run_id), start)]
        summary = read_summary(unit, run_id, start)
    assert summary == add_events(Summary(), told)
    return summary


def test_whoever_takes_events_in_the_summary_is_of_all_of_them(
    servers: Servers, kind: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "MOST_BEHIND", 20)
    monkeypatch.setattr(summaries, "MOST_PENDING", 5)
    url, draw = servers.new(kind, "seeded"), random.Random(5)
    processes = [opened(url), opened(url)]
    body = case()
    run_id = begin_run(processes[0], body)[0]["run_id"]
    blocks = [draw.sample(range(start, start + 40), 40) for start in range(0, 500, 40)]
    seqs = [seq for block in blocks for seq in block]  # some come late, and some twice
    sent = 0
    for turn in range(60):
        one = draw.choice(processes)
        do = draw.random()
        if do < 0.7:
            batch = seqs[sent : sent + draw.randint(1, 9)] + draw.sample(seqs[: sent + 1], min(2, sent))
            sent += 9
            take_events(one, run_id, {"events": [_sample(seq) for seq in batch]})
        elif do < 0.8:
            take_log(one, run_id, f"Epoch {turn}/99 loss=0.5\n".encode())
        elif do < 0.9:
            with one.write_untracked() as unit:
                write_summary(unit, run_id, begun(one, [run_id])[run_id].started)
        else:  # killed, and started again
            processes = [opened(url) if each is one else each for each in processes]
        _is_of_all_events(draw.choice(processes), run_id)
    for each in (*processes, opened(url)):
        assert _is_of_all_events(each, run_id).events > 200


def test_a_summary_is_behind_and_catches_up(servers: Servers, kind: str, opened: Opener) -> None:
    url = servers.new(kind, "seeded")
    database = opened(url)
    run_id = begin_run(database, case())[0]["run_id"]

    def kept() -> tuple[int | None, str | None]:
        with database.read() as unit:
            row = watched.summary_of(unit.session.statements, run_id)
        assert row is not None
        return row[0], row[1]

    take_events(database, run_id, {"events": [_sample(0)]})
    first = kept()
    for seq in range(1, 200):
        take_events(database, run_id, {"events": [_sample(seq)]})
    assert kept() == first == (0, first[1]), "199 events cost no writing of the summary"
    take_events(opened(url), run_id, {"events": [_sample(200)]})
    assert kept()[0] == 200, "another process begins by writing it"
    take_events(database, run_id, {"events": [_sample(seq) for seq in range(201, 470)]})
    assert kept()[0] == 469
    assert _is_of_all_events(database, run_id).events == 470


def test_what_did_not_reach_the_disk_is_not_in_the_summary(
    servers: Servers, kind: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = opened(servers.new(kind, "seeded"))
    run_id = begin_run(database, case())[0]["run_id"]
    take_events(database, run_id, {"events": [_sample(seq) for seq in range(10)]})
    real = summaries.Folding.write

    def full(folding: summaries.Folding, *, all_of_it: bool = False) -> None:
        real(folding, all_of_it=all_of_it)
        raise OutOfSpace("the disk is full")

    monkeypatch.setattr(summaries.Folding, "write", full)
    with pytest.raises(OutOfSpace):
        take_events(database, run_id, {"events": [_sample(seq) for seq in range(10, 20)]})
    monkeypatch.setattr(summaries.Folding, "write", real)
    assert _is_of_all_events(database, run_id).events == 10
    take_events(database, run_id, {"events": [_sample(seq) for seq in range(10, 20)]})
    assert _is_of_all_events(database, run_id).events == 20
