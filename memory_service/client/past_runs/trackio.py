"""Runs of trackio: the SQLite database of a project, or the folder that holds them.

It does not record how a run ended: a run that logged all epochs of its settings was completed.
"""

import datetime as dt
import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

from memory_service.client.past_runs.past_run import Found, PastRun, Row, Unread, alone, query, reader

Logged = dict[str, Any]
"""A row of the database."""


@reader("trackio")
def read(path: Path) -> Found:
    """Databases in the folder, or this one."""
    files = sorted(path.glob("*.db")) if path.is_dir() else [path]
    if not files:
        yield Unread(str(path), "no database of trackio lies there")
    for file in files:
        try:
            yield from _of_database(file)
        except (OSError, KeyError, TypeError, ValueError) as error:
            yield Unread(str(file), f"is no database of trackio: {type(error).__name__} {error}")


def _of_database(file: Path) -> Found:
    configs, metrics, system = query(
        file,
        "SELECT * FROM configs ORDER BY created_at",
        "SELECT * FROM metrics ORDER BY id",
        "SELECT * FROM system_metrics ORDER BY id",
    )
    settings = {_key(one): one for one in configs}
    told, read = _by_run(metrics), _by_run(system)
    for key in dict.fromkeys([*settings, *told]):
        name = f"{file.stem}/{key}"
        yield alone(name, partial(_run, name, key, settings.get(key, {}), told[key], read[key]))


def _by_run(rows: list[Logged]) -> dict[str, list[Logged]]:
    found: dict[str, list[Logged]] = defaultdict(list)
    for one in rows:
        found[_key(one)].append(one)
    return found


def _run(name: str, key: str, told: Logged, metrics: list[Logged], system: list[Logged]) -> PastRun:
    config: dict[str, Any] = json.loads(told.get("config") or "null") or {}
    rows = _rows(metrics)
    created = config.get("_Created") or told.get("created_at")
    began = _moment(created) if created else None
    config = {name: value for name, value in config.items() if not name.startswith("_")}
    return PastRun(
        "trackio", name, str(told.get("run_name", key)), config, rows, began, rows[-1].at if rows else None,
        None, _rows(system),
    )  # fmt: skip


def _rows(logged: list[Logged]) -> tuple[Row, ...]:
    """In time; of one moment by their steps."""
    rows = [Row(_moment(one["timestamp"]), one.get("step"), json.loads(one["metrics"])) for one in logged]
    return tuple(sorted(rows, key=lambda row: (row.at, row.step or 0)))


def _key(row: Logged) -> str:
    """The run's id, of older databases its name."""
    return str(row.get("run_id") or row["run_name"])


def _moment(text: str) -> float:
    moment = dt.datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or dt.UTC).timestamp()
