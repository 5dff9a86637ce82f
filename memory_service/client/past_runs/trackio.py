"""Runs of trackio: the SQLite database of a project, or the folder that holds them.

It does not record how a run ended: a run that logged all epochs of its settings was completed.
"""

import datetime as dt
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from memory_service.client.past_runs.past_run import Found, PastRun, Row, Unread, reader
from memory_service.client.past_runs.sqlite_file import query


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
    rows: dict[str, dict[str, list[Row]]] = {"metrics": defaultdict(list), "system": defaultdict(list)}
    for name, some in (("metrics", metrics), ("system", system)):
        for one in some:
            row = Row(_moment(one["timestamp"]), one.get("step"), json.loads(one["metrics"]))
            rows[name][_key(one)].append(row)
    settings = {_key(one): one for one in configs}
    for key in dict.fromkeys([*settings, *rows["metrics"]]):
        told = settings.get(key, {})
        config: dict[str, Any] = json.loads(told["config"]) if told else {}
        logged = sorted(rows["metrics"][key])
        created = config.get("_Created") or told.get("created_at")
        began = _moment(created) if created else None
        config = {name: value for name, value in config.items() if not name.startswith("_")}
        name = str(told.get("run_name", key))
        yield PastRun(
            "trackio", f"{file.stem}/{key}", name, config, tuple(logged), began,
            logged[-1].at if logged else None, None, tuple(sorted(rows["system"][key])),
        )  # fmt: skip


def _key(row: dict[str, Any]) -> str:
    """The run's id, of older databases its name."""
    return str(row.get("run_id") or row["run_name"])


def _moment(text: str) -> float:
    moment = dt.datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or dt.UTC).timestamp()
