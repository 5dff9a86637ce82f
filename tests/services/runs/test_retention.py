"""Raw samples of old runs are thinned to one an epoch; epochs, summaries and young runs are left alone."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import Any

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.runs.observations import read_outcome
from memory_service.services.runs.retention import Retention, thin
from memory_service.store.queries import runs

NOW = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)


def _tell(
    database: Database, days_ago: float, *, ended: bool = True, told_days_ago: float | None = None
) -> str:
    """A run of three epochs with five readings of the card and of steps each."""
    began = NOW - dt.timedelta(days=days_ago)
    at = (began if told_days_ago is None else NOW - dt.timedelta(days=told_days_ago)).isoformat()
    events: list[tuple[str, dict[str, Any]]] = [("note", {"text": "begin"})]
    for epoch in range(3):
        for n in range(5):
            events.append(("gpu", {"process_gib": 8.0 + epoch + n / 10, "utilization_percent": 90.0 + n}))
            events.append(("batch", {"steps": 50, "seconds": 4.0, "samples": 1600}))
        events.append(("epoch", {"fold": 0, "epoch": epoch, "seconds": 20.0, "metric": 0.5 + epoch / 10}))
    key = str(uuid.uuid4())
    with database.write_untracked() as unit:
        row = {
            "id": key, "task": "image-classification", "gpu": "a100", "device": "", "model": "resnet50",
            "family": "resnet", "input_kind": "image_size", "batch_size": 32, "precision": "bf16",
            "layout": "nhwc", "optimizer": "adamw", "mode": "train", "n_train": 10_000,
            "status": "completed" if ended else "running", "started_at": began, "created_at": began,
            "updated_at": began, "finished_at": began if ended else None, "digest": "", "given": {},
        }  # fmt: skip
        runs.add(unit.session, row)
        kept = [(key, n, kind, json.dumps({"at": at, **body})) for n, (kind, body) in enumerate(events)]
        runs.add_events(unit.session.statements, kept)
    return key


def _kinds(database: Database, run_id: str) -> dict[str, int]:
    with database.read() as unit:
        told = [kind for _, kind, _ in runs.events_of(unit.session, run_id)]
    return {kind: told.count(kind) for kind in sorted(set(told))}


WHOLE = {"batch": 15, "epoch": 3, "gpu": 15, "note": 1}
THIN = {"batch": 3, "epoch": 3, "gpu": 3, "note": 1}


def test_only_what_is_older_is_thinned_and_what_is_learned_from_it_stays(database: Database) -> None:
    old, young = _tell(database, 31), _tell(database, 29)
    abandoned = _tell(database, 40, ended=False)
    going_on = _tell(database, 40, ended=False, told_days_ago=1)
    with database.read() as unit:
        run = runs.find(unit.session, old)
        assert run is not None
        before = read_outcome(unit, run)
    revision = database.knowledge_revision()
    assert thin(database, 30, now=NOW) == {"runs": 2, "events": 2 * 24}
    assert database.knowledge_revision() == revision, "no plan rests on raw samples"
    assert _kinds(database, old) == _kinds(database, abandoned) == THIN
    assert _kinds(database, young) == _kinds(database, going_on) == WHOLE
    with database.read() as unit:
        after = read_outcome(unit, run)
    assert (after.epochs, after.peaks, after.epoch_seconds) == (
        before.epochs,
        before.peaks,
        before.epoch_seconds,
    )
    assert sum(s.steps for s in after.step_windows) == 750


def test_an_old_run_that_was_told_today_waits(database: Database) -> None:
    run_id = _tell(database, 90, ended=False)
    with database.write_untracked() as unit:
        runs.find(unit.session, run_id).created_at = NOW  # type: ignore[union-attr]
    assert thin(database, 30, now=NOW) == {"runs": 0, "events": 0}
    assert _kinds(database, run_id) == WHOLE


def test_thinning_again_finds_nothing(database: Database) -> None:
    _tell(database, 31)
    assert thin(database, 30, now=NOW)["runs"] == 1
    assert thin(database, 30, now=NOW) == {"runs": 0, "events": 0}


@pytest.mark.parametrize("kind", ["sqlite"])
def test_zero_days_keep_everything_for_ever(database: Database) -> None:
    run = _tell(database, 3_000)
    assert thin(database, 0, now=NOW) == {"runs": 0, "events": 0}
    assert _kinds(database, run) == WHOLE


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_server_thins_when_it_is_ready_and_stops_at_once(database: Database) -> None:
    run = _tell(database, 9_000)
    asked: list[bool] = []

    def ready() -> bool:
        asked.append(True)
        return len(asked) > 1

    retention = Retention(database, 30)
    retention.start(ready)
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=30)
    while _kinds(database, run) != THIN and dt.datetime.now(dt.UTC) < deadline:
        pass
    retention.stop()
    assert _kinds(database, run) == THIN
