"""Runs of Weights & Biases: the folders `run-*` and `offline-run-*` that it writes beside a script.

All that a run logged is in its file `.wandb`: records in the format of LevelDB's log, each a message of
Protocol Buffers. The numbers of fields are those of `wandb/proto/wandb_internal.proto` (wandb 0.31.0).
"""

import json
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from memory_service.client.past_runs.past_run import Ended, Found, PastRun, Row, Unread, alone, reader
from memory_service.domain.logs.context import Context
from memory_service.domain.logs.trainer_formats import trouble

_HEAD, _BLOCK = b":W&B", 32_768
_FULL, _FIRST, _LAST = 1, 2, 4
_HISTORY, _CONFIG, _STATS, _OUTPUT, _RUN, _EXIT, _ENVIRONMENT = 2, 5, 7, 13, 17, 18, 26
"""Kinds of records that are read."""

Message = Mapping[int, list[Any]]
"""Number of a field -> its values: whole numbers, or bytes."""


@reader("wandb")
def read(path: Path) -> Found:
    """Every file `*.wandb` in the folder, or this one."""
    files = sorted(path.rglob("*.wandb")) if path.is_dir() else [path]
    if not files:
        yield Unread(str(path), "no file *.wandb lies there")
    for file in files:
        yield alone(str(file), partial(_run, file), "is no file of W&B")


def _run(file: Path) -> PastRun | Unread:
    records: dict[int, list[Message]] = defaultdict(list)
    notes: list[str] = []
    for record in _records(file.read_bytes(), notes):
        for kind, parts in _message(record).items():
            records[kind] += [_message(part) for part in parts if isinstance(part, bytes)]
    if not records[_RUN]:
        return Unread(str(file), "it does not say which run it is of")
    begun = records[_RUN][0]
    config: dict[str, Any] = {}
    told = [config for run in records[_RUN] for config in map(_message, run.get(4, []))]
    for update in [*told, *records[_CONFIG]]:
        _merge(config, update, 1)
    config.pop("_wandb", None)
    rows: list[Row] = []
    for row in records[_HISTORY]:
        values = _merge({}, row, 1)
        at, step = values.get("_timestamp"), values.get("_step")
        if isinstance(at, int | float):
            plain = {name: value for name, value in values.items() if not name.startswith("_")}
            rows.append(Row(float(at), step if isinstance(step, int) else None, plain))
    system = [
        Row(_moment(at), None, _merge({}, sample, 3))
        for sample in records[_STATS]
        for at in sample.get(2, [])
    ]
    began = next((_moment(value) for value in begun.get(17, [])), None)
    ran = [value for ending in records[_EXIT] for value in ending.get(2, [])]
    last = [row.at for row in (*rows, *system)]
    ended = max([*last, *([began + max(ran)] if began and ran else [])], default=None)
    project, key = _text(begun, 3), _text(begun, 1)
    return PastRun(
        "wandb", f"{project}/{key}", _text(begun, 8), config, tuple(sorted(rows, key=lambda row: row.at)),
        began, ended, _how(records), tuple(system), _machine(file, records), tuple(notes),
    )  # fmt: skip


def _how(records: Mapping[int, list[Message]]) -> Ended | None:
    if not records[_EXIT]:
        return None
    if not any(any(ending.get(1, [])) for ending in records[_EXIT]):
        return "completed"
    lines = "".join(_text(output, 3) for output in records[_OUTPUT]).splitlines()
    notes = (found[0] for line in lines if (found := trouble(line, Context())) is not None)
    memory = any(body.get("out_of_memory") for events in notes for _, body in events)
    return "out_of_memory" if memory else "crashed"


def _machine(file: Path, records: Mapping[int, list[Message]]) -> dict[str, Any]:
    """By the records of the environment, and the file that runs with a server have beside."""
    facts: dict[str, Any] = {}
    with suppress(OSError, ValueError, AttributeError):
        written = json.loads((file.parent / "files" / "wandb-metadata.json").read_text(encoding="utf-8"))
        names = {"hostname": "host", "cpu_count": "cpu_count_logical", "gpu": "gpu", "gpu_count": "gpu_count"}
        facts = {name: written[theirs] for name, theirs in names.items() if written.get(theirs)}
    for one in records[_ENVIRONMENT]:
        texts = {"hostname": _text(one, 12), "gpu": _text(one, 18)}
        texts["gpu"] = texts["gpu"] or next((_text(_message(card), 1) for card in one.get(24, [])), "")
        numbers = {"cpu_count": one.get(17, one.get(16)), "gpu_count": one.get(19)}
        facts |= {name: text for name, text in texts.items() if text}
        facts |= {name: found[-1] for name, found in numbers.items() if found}
    return facts


def _merge(into: dict[str, Any], update: Message, number: int) -> dict[str, Any]:
    """`into` with key and value of each item (field `number`)."""
    for item in map(_message, update.get(number, [])):
        keys = [key.decode("utf-8", "replace") for key in (*item.get(1, []), *item.get(2, []))]
        if not keys:
            continue
        place = into
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                break
        else:
            place[keys[-1]] = _value(item)
    return into


def _value(item: Message) -> Any:
    """Of a setting or a logged figure: as JSON, since wandb 0.20 also as a number of its own kind."""
    if 16 in item:
        with suppress(ValueError):
            return json.loads(item[16][-1])
    if 6 in item:
        return struct.unpack("<d", item[6][-1])[0]
    if 5 in item:
        return (item[5][-1] >> 1) ^ -(item[5][-1] & 1)
    return item[7][-1].decode("utf-8", "replace") if 7 in item else None


def _records(raw: bytes, notes: list[str]) -> Iterator[bytes]:
    """The records of LevelDB's log; one that was cut off at the end is noted."""
    if not raw.startswith(_HEAD):
        raise ValueError("it does not begin as one")
    at, record = 7, b""
    while at + 7 <= len(raw):
        if _BLOCK - at % _BLOCK < 7:
            at += _BLOCK - at % _BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", raw, at)
        part = raw[at + 7 : at + 7 + size]
        if len(part) < size or kind not in range(_FULL, _LAST + 1):
            notes.append("its file was cut off")
            return
        record = part if kind in (_FULL, _FIRST) else record + part
        at += 7 + size
        if kind in (_FULL, _LAST):
            yield record


def _message(raw: bytes) -> Message:
    """The fields of a message of Protocol Buffers; ValueError or IndexError where it is none."""
    fields: dict[int, list[Any]] = {}
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        sort = tag & 7
        value: int | bytes
        if sort == 0:
            value, at = _varint(raw, at)
        else:
            size, at = _varint(raw, at) if sort == 2 else ({1: 8, 5: 4}.get(sort, -1), at)
            if size < 0 or at + size > len(raw):
                raise ValueError("a record is damaged")
            value, at = raw[at : at + size], at + size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a record is damaged")


def _text(message: Message, number: int) -> str:
    return str(message[number][-1], "utf-8", "replace") if number in message else ""


def _moment(raw: bytes) -> float:
    """Of a google.protobuf.Timestamp, in seconds."""
    parts = _message(raw)
    return float(parts.get(1, [0])[-1] + parts.get(2, [0])[-1] / 1e9)
