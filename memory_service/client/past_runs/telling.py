"""Tells a service of past runs, each once."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from memory_service.client.doors import Door
from memory_service.client.facts import CUSTOM
from memory_service.client.past_runs.past_run import PastRun, Unread, alone
from memory_service.client.past_runs.reported import ReportedRun, reported
from memory_service.errors import Conflict, FieldError, InvalidInput, MemoryServiceError

AT_ONCE = 1_000
"""Events of a request."""

_NEEDED = ("task", "gpu", "model")
_OUTCOMES = ("taken", "there", "refused")


def tell_all(
    found: Iterable[PastRun | Unread], stated: Mapping[str, str], door: Door, now: float
) -> dict[str, Any]:
    """How many were taken, were there or were refused, each run with its outcome, and the names that nobody
    understood with the number of runs that have them.

    In the order of their beginnings, so that each is predicted by what was known before. Unavailable where
    the service is away: what was told stays, and the next time only the rest is told.
    """
    lines: list[dict[str, Any]] = []
    unknown: Counter[str] = Counter()
    for one in sorted(found, key=lambda each: (each.began or 0.0) if isinstance(each, PastRun) else 0.0):
        if isinstance(one, Unread):
            lines.append(_line(one.where, None, "refused", one.why, []))
            continue
        run = alone(one.key, partial(reported, one, stated, now))
        if isinstance(run, Unread):
            lines.append(_line(run.where, None, "refused", run.why, []))
            continue
        unknown.update(run.unknown)
        notes = list(run.notes)
        try:
            outcome, why = _tell(run, stated, door, notes), None
        except MemoryServiceError as error:
            if error.status not in (Conflict.status, InvalidInput.status):
                raise
            outcome, why = "refused", error.detail
        lines.append(_line(one.key, run.begin["run_id"], outcome, why, notes))
    counts = Counter(line["outcome"] for line in lines)
    answer: dict[str, Any] = {name: counts[name] for name in _OUTCOMES}
    return answer | {"runs": lines, "unknown": dict(unknown.most_common())}


def _line(run: str, run_id: str | None, outcome: str, why: str | None, notes: list[str]) -> dict[str, Any]:
    return {"run": run, "run_id": run_id, "outcome": outcome, "why": why, "notes": notes}


def _tell(run: ReportedRun, stated: Mapping[str, str], door: Door, notes: list[str]) -> str:
    """ "taken", or "there" where the service knows its end already."""
    answer = _begun(dict(run.begin), stated, door, notes)
    if answer["status"] != "running":
        return "there"
    at = f"/runs/{answer['run_id']}"
    for first in range(0, len(run.events), AT_ONCE):
        door(f"{at}/events", {"events": run.events[first : first + AT_ONCE]})
    door(f"{at}/finish", run.finish)
    return "taken"


def _begun(
    body: dict[str, Any], stated: Mapping[str, str], door: Door, notes: list[str]
) -> Mapping[str, Any]:
    """The service's answer. A model or GPU that it does not know is the run's own: watched, without
    predictions; another setting that it refuses is left out."""
    missing = [name for name in _NEEDED if name not in body]
    if missing:
        options = " ".join(f"--{name}" for name in missing)
        raise InvalidInput(f"its settings do not say {', '.join(missing)}: give {options}")
    while True:
        try:
            return door("/runs", body)
        except MemoryServiceError as error:
            wrong = {each.field.split(".")[0]: each for each in error.errors}
            if error.status != InvalidInput.status or not wrong or not wrong.keys() <= body.keys():
                raise
            for name, each in wrong.items():
                _mend(body, name, each, stated, notes, error)


def _mend(
    body: dict[str, Any], name: str, each: FieldError, stated: Mapping[str, str], notes: list[str],
    error: MemoryServiceError,
) -> None:  # fmt: skip
    value = body.pop(name)
    notes.append(f"{name} {str(value)[:80]!r} is not taken: {each.message}")
    if name in stated and stated[name] != value:
        body[name] = stated[name]
    elif name in ("gpu", "model") and not str(value).startswith(CUSTOM):
        body[name] = f"{CUSTOM}/{value}"[:120]
    elif name in _NEEDED:
        raise error
