"""Runs that were killed are closed: those that report nothing for long behind their budget."""

import datetime as dt
import threading

from memory_service.services.database.transactions import Database
from memory_service.services.runs.observations import conclude
from memory_service.services.runs.verdicts import or_nothing
from memory_service.services.tables.audit import note
from memory_service.store.engine import read_object
from memory_service.store.queries import runs

SILENT_SECONDS = 3_600.0
"""Nothing that trains reports less often; a client sends a sample of its device every minute."""


def close_silent(
    database: Database, *, now: dt.datetime | None = None, stop: threading.Event | None = None
) -> int:
    """End runs that have been silent for an hour and, where they have a budget, behind its end; how many.

    They end as crashed, at their last event. That is assumed: what the run itself reports later goes before.
    """
    now = now or dt.datetime.now(dt.UTC)
    with database.read() as transaction:
        going = runs.running_since(transaction.session, now - dt.timedelta(seconds=SILENT_SECONDS))
        latest = runs.last_event_bodies(transaction.session, [run.id for run in going])
    closed = 0
    for run in going:
        if stop is not None and stop.is_set():
            break
        body = read_object(latest.get(run.id))
        last = run.started_at
        if body:
            last = max(last, dt.datetime.fromisoformat(body["at"]))
        budget = dt.timedelta(minutes=run.minutes or 0.0)
        offset = run.created_at - run.started_at  # its own clock against the service's
        if now - (last + offset) < dt.timedelta(seconds=SILENT_SECONDS) or now < run.created_at + budget:
            continue
        closed += _close(database, run.id, last)
    return closed


def _close(database: Database, run_id: str, at: dt.datetime) -> bool:
    with database.write_untracked() as transaction:
        run = runs.find(transaction.session, run_id, to_change=True)
        if run is None or run.finish:
            return False
        finish = {"status": "crashed", "at": at.isoformat(), "assumed": True}
        values = {"status": "crashed", "finish": finish, "finished_at": at, "updated_at": transaction.now}
        runs.change(transaction.session, run_id, values)
        note(transaction, "runs", run_id, "update", "ended: no sign of it any more", who=None)
    or_nothing(run_id, lambda: conclude(database, run_id))
    return True
