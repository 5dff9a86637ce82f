"""Runs of MLflow: a folder `mlruns` of its file store, or its SQLite database."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from memory_service.client.past_runs.past_run import (
    Ended,
    Found,
    PastRun,
    Row,
    Unread,
    alone,
    literal,
    query,
    reader,
)

_ENDS: Mapping[str, Ended] = {"FINISHED": "completed", "FAILED": "crashed", "KILLED": "stopped"}
_STATUSES = ("", "RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")
"""Of the file store by their number."""

_OF_MACHINE = "system/"
_MS = 1000.0

Metric = tuple[str, float, float, int]
"""Name, value, milliseconds since 1970, step."""


@reader("mlflow")
def read(path: Path) -> Found:
    """Runs that were deleted are passed over."""
    try:
        if path.is_dir():
            runs = [file.parent for file in sorted(path.rglob("meta.yaml")) if _is_run(file)]
            if not runs:
                yield Unread(str(path), "no run of MLflow's file store lies there")
            for folder in runs:
                yield alone(str(folder), partial(_of_folder, folder))
        else:
            yield from _of_database(path)
    except (OSError, ValueError) as error:
        yield Unread(str(path), f"is neither a folder mlruns nor a SQLite database of MLflow: {error}")


def _of_folder(folder: Path) -> PastRun | Unread:
    meta = _flat(_text(folder / "meta.yaml"))
    params, tags = (_texts(folder / name) for name in ("params", "tags"))
    metrics: list[Metric] = []
    for file in _files(folder / "metrics"):
        name = file.relative_to(folder / "metrics").as_posix()
        for line in filter(str.strip, _text(file).splitlines()):
            at, value, *step = line.split()
            metrics.append((name, float(value), float(at), int(step[0]) if step else 0))
    return _run(meta, _STATUSES[int(meta["status"])], params, tags, metrics)


def _of_database(path: Path) -> Found:
    runs, params, tags, metrics = query(
        path,
        "SELECT * FROM runs ORDER BY start_time",
        "SELECT run_uuid, key, value FROM params",
        "SELECT run_uuid, key, value FROM tags",
        "SELECT run_uuid, key, value, timestamp, step, is_nan FROM metrics",
    )
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in metrics:
        told[one["run_uuid"]].append(one)
    words: dict[str, dict[str, dict[str, str]]] = {"params": defaultdict(dict), "tags": defaultdict(dict)}
    for name, some in (("params", params), ("tags", tags)):
        for one in some:
            words[name][one["run_uuid"]][one["key"]] = str(one["value"])
    for run in runs:
        key = str(run["run_uuid"])
        meta = run | {"run_id": key, "run_name": run.get("name")}
        status, logged = str(run["status"]), map(_metric, told[key])
        yield alone(key, partial(_run, meta, status, words["params"][key], words["tags"][key], logged))


def _metric(row: Mapping[str, Any]) -> Metric:
    value = math.nan if row["is_nan"] else float(row["value"])
    return row["key"], value, float(row["timestamp"]), int(row["step"])


def _run(
    meta: Mapping[str, Any],
    status: str,
    params: Mapping[str, str],
    tags: Mapping[str, str],
    metrics: Iterable[Metric],
) -> PastRun | Unread:
    key, name = str(meta["run_id"]), str(meta.get("run_name") or tags.get("mlflow.runName") or "")
    if meta.get("lifecycle_stage") == "deleted":
        return Unread(key, "was deleted")
    if status not in _ENDS:
        return Unread(key, f"is {status.lower() or 'of no known status'}: import it when it has ended")
    config = {name: literal(text) for name, text in params.items()}
    config |= {
        n: literal(text) for n, text in tags.items() if not n.startswith("mlflow.") and n not in config
    }
    rows: dict[tuple[bool, int], dict[str, Any]] = defaultdict(dict)
    moments: dict[tuple[bool, int], float] = {}
    for metric, value, at, step in sorted(metrics, key=lambda one: one[2]):
        place = metric.startswith(_OF_MACHINE), step
        rows[place][metric.removeprefix(_OF_MACHINE)] = value
        moments[place] = at / _MS
    found = [
        tuple(Row(moments[place], place[1], rows[place]) for place in sorted(rows) if place[0] == of_machine)
        for of_machine in (False, True)
    ]
    began, ended = (
        float(meta[name]) / _MS if meta.get(name) else None for name in ("start_time", "end_time")
    )
    return PastRun("mlflow", key, name, config, found[0], began, ended, _ENDS[status], found[1])


def _flat(text: str) -> dict[str, str]:
    """The plain values of a YAML file that has one a line."""
    pairs = (line.partition(":") for line in text.splitlines() if line[:1].isalpha())
    return {name: value.strip().strip("'\"") for name, _, value in pairs}


def _is_run(file: Path) -> bool:
    return file.is_file() and "run_id:" in _text(file)


def _texts(folder: Path) -> dict[str, str]:
    return {file.relative_to(folder).as_posix(): _text(file).strip() for file in _files(folder)}


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else []


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")
