"""Spool of unacknowledged events: a bounded file of JSON lines, one for each run.

    {"run": {...}, "server": "http://…"}      what POST /runs is sent; "run": null for a run begun elsewhere
    {"seq": 0, "kind": "epoch", "at": …}      events, in the order of seq
    {"acked": 17}                             every event up to this seq is on the service's disk
    {"finish": {...}}                         the body of the finish request

Lines are handed to the operating system as soon as they are made, so they survive the process; `fsync` runs
after a summary (epoch, fold, note, finish), at most once in 5 s, so a loss of power costs that much. An
acknowledgement that was lost makes a line be sent again: the service drops it by its seq. The process that
writes holds a lock on the file, so that nobody else takes it for one that was left behind.

Where the disk does not take it, the run goes on in memory: what is unsent then dies with the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_service.client.fields import RAW_KINDS


class InUseError(Exception):
    """The process that writes this spool is alive."""


class Disk:
    """An append-only file that this process alone has locked; OSError where it cannot be written."""

    def __init__(self, path: Path, *, new: bool) -> None:
        self.path = path
        self._fd = _locked(path, os.O_CREAT | os.O_EXCL if new else 0)
        self.size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.size)  # no half line
            raise
        self.size += len(data)

    def read(self, at: int, most: int) -> bytes:
        return os.pread(self._fd, most, at)

    def replace(self, data: bytes) -> None:
        beside = self.path.with_suffix(".tmp")
        with contextlib.suppress(OSError):
            beside.unlink()  # of a process that was killed, or a link that somebody laid
        fresh = _locked(beside, os.O_CREAT | os.O_EXCL)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fresh, view) :]
            os.fsync(fresh)
            beside.replace(self.path)
        except OSError:
            os.close(fresh)
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
        os.close(self._fd)
        self._fd, self.size = fresh, len(data)

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self, *, remove: bool) -> None:
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):
            if remove:
                self.path.unlink(missing_ok=True)
            os.close(self._fd)
        self._fd = -1


class Memory:
    """What is left when the disk takes nothing."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = bytearray(data)
        self.size = len(data)

    def write(self, data: bytes) -> None:
        self._data += data
        self.size = len(self._data)

    def read(self, at: int, most: int) -> bytes:
        return bytes(self._data[at : at + most])

    def replace(self, data: bytes) -> None:
        self._data = bytearray(data)
        self.size = len(data)

    def sync(self) -> None:
        pass

    def close(self, *, remove: bool) -> None:
        del remove


SpoolStorage = Disk | Memory
"""Bytes that grow at the end or are replaced whole."""


def append_to(path: Path, data: bytes, most: int) -> bool:
    """Add to a file that this user alone may read; False where it would grow past `most` bytes. OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    try:
        return os.fstat(fd).st_size + len(data) <= most and os.write(fd, data) == len(data)
    finally:
        os.close(fd)


def _locked(path: Path, flags: int) -> int:
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise InUseError(f"{path} is being written") from None
    except OSError:
        pass  # a file system without locks
    try:
        same = flags != 0 or os.fstat(fd).st_ino == path.stat().st_ino
    except OSError:
        same = False
    if not same:  # sent and removed, or rewritten by its process, between opening and locking
        os.close(fd)
        raise InUseError(f"{path} was replaced meanwhile")
    return fd


FSYNC_EVERY_S = 5.0
COMPACT_BYTES = 4 * 2**20
"""Acknowledged lines are cleared away once they take this much."""

MEMORY_BYTES = 8 * 2**20
"""Most that is kept in memory where the disk takes nothing."""

SHRINK_TO = 0.5
"""A spool over its bound is brought to this share of it, so that it is not rewritten for every line."""

ASIDE, ASIDE_BYTES = "refused", 256 * 2**20
"""Folder in that of the spools for runs and events that a service refused for good; most that is kept."""

REFUSED_BYTES = 4 * 2**20
"""Most that is kept of one run's refused events."""

BLOCK_BYTES = 1 << 18
CONTROL = (b'{"run"', b'{"acked"')
_RUN_ID = re.compile(r"[\w-]{1,80}", re.ASCII)
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Part:
    """Some unsent events: their JSON texts, the last one's seq, and where reading goes on."""

    events: tuple[bytes, ...]
    last_seq: int
    end: int
    generation: int


def line_of(record: Mapping[str, Any]) -> bytes:
    """The record as one line; events have `seq` and `kind` first, which `_kind` relies on."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"


class Spool:
    """One run's spool. Any thread may call; errors of the disk end in memory, not with the caller."""

    def __init__(self, storage: SpoolStorage, most_bytes: int) -> None:
        self._storage = storage
        self._most = most_bytes
        self._lock = threading.RLock()
        self._read_at = 0
        self._generation = 0
        self._synced = time.monotonic()
        self._unsynced = False
        self.acked = -1
        self.last_seq = -1
        self.last_at: str | None = None
        self.header: dict[str, Any] = {}
        self.finish: dict[str, Any] | None = None
        self.dropped = 0
        """Events that had to go unsent since it was opened."""
        self.trouble: str | None = None
        """Why the disk is not used; None while it is."""

    @classmethod
    def create(cls, folder: Path, name: str, header: Mapping[str, Any], most_bytes: int) -> Spool:
        """A new spool; in memory, with `trouble`, where the folder takes no file."""
        storage: SpoolStorage
        trouble = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            storage = Disk(folder / f"{name}.jsonl", new=True)
        except OSError as error:
            storage, trouble = Memory(), str(error)
        spool = cls(storage, most_bytes if trouble is None else min(most_bytes, MEMORY_BYTES))
        spool.trouble = trouble
        spool.header = dict(header)
        spool._write(line_of(header))
        return spool

    @classmethod
    def open(cls, path: Path, most_bytes: int = 1 << 40) -> Spool:
        """A spool left behind. InUseError while its process lives; OSError; ValueError for no spool."""
        spool = cls(Disk(path, new=False), most_bytes)
        try:
            spool._recover()
        except ValueError:
            spool.close()
            raise
        return spool

    @property
    def path(self) -> Path | None:
        """The file; None in memory."""
        return self._storage.path if isinstance(self._storage, Disk) else None

    def append(self, events: Iterable[Mapping[str, Any]], finish: Mapping[str, Any] | None = None) -> None:
        """Write events, each with a seq above all before, and the end if it is known."""
        lines, summaries = [], finish is not None
        for event in events:
            lines.append(line_of(event))
            summaries |= event["kind"] not in RAW_KINDS
            self.last_seq, self.last_at = event["seq"], event.get("at")
        if finish is not None:
            self.finish = dict(finish)
            lines.append(line_of({"finish": self.finish}))
        with self._lock:
            self._write(b"".join(lines))
            self._unsynced |= summaries
            if self._storage.size > self._most:
                self._shrink()
            self._sync(force=finish is not None)

    def unsent(self, most_events: int, most_bytes: int) -> Part | None:
        """The next events to send, at least one; None when there is none."""
        with self._lock:
            lines: list[bytes] = []
            last, end, size = -1, self._read_at, 0
            for line, after in self._lines(self._read_at):
                seq = _seq(line)
                if seq is not None and seq > self.acked:
                    if lines and (len(lines) >= most_events or size + len(line) > most_bytes):
                        break
                    lines.append(line)
                    size += len(line) + 1
                    last = seq
                end = after
            if not lines:
                self._read_at = end
                return None
            return Part(tuple(lines), last, end, self._generation)

    def acknowledge(self, part: Part) -> None:
        """Forget events that are on the service's disk."""
        with self._lock:
            self.acked = max(self.acked, part.last_seq)
            if part.generation == self._generation:
                self._read_at = part.end
            self._write(line_of({"acked": self.acked}))
            if self._read_at > COMPACT_BYTES:
                self._rewrite(line for line, _ in self._lines(self._read_at))

    def change_run(self, body: Mapping[str, Any]) -> None:
        """Begin the run with this body instead."""
        with self._lock:
            self.header["run"] = dict(body)
            self._rewrite([line for line, _ in self._lines(self._read_at)])

    def close(self, *, remove: bool = False) -> None:
        """Give up the lock; `remove`: everything was acknowledged."""
        with self._lock:
            if not remove:
                self._sync(force=True)
            self._storage.close(remove=remove)

    def set_aside(self, why: str) -> Path | None:
        """Move to the folder of refused runs, with the reason, and close; None in memory."""
        with self._lock:
            self.header["refused"] = why
            self._rewrite([line for line, _ in self._lines(self._read_at)])
            path = self.path
            self.close()
        if path is None:
            return None
        try:
            return path.replace(_aside(path) / path.name)
        except OSError:
            return path

    def keep_refused(self, events: Iterable[bytes], why: str) -> Path | None:
        """Add events that the service does not take, with the reason, to a file among the refused runs; None
        where they cannot be kept."""
        if self.path is None:
            return None
        lines = line_of({"refused": why}) + b"".join(event + b"\n" for event in events)
        try:
            kept = _aside(self.path) / f"{self.path.stem}.events"
            return kept if append_to(kept, lines, REFUSED_BYTES) else None
        except OSError:
            return None

    def release(self) -> None:
        """In a forked child: close the file, so that the parent's lock ends with the parent."""
        self._storage.close(remove=False)

    def _write(self, data: bytes) -> None:
        try:
            self._storage.write(data)
        except OSError as error:
            self._to_memory(error, data)

    def _sync(self, *, force: bool) -> None:
        now = time.monotonic()
        if self._unsynced and (force or now - self._synced >= FSYNC_EVERY_S):
            with contextlib.suppress(OSError):
                self._storage.sync()
            self._synced, self._unsynced = now, False

    def _to_memory(self, error: OSError, data: bytes) -> None:
        """The disk is full or gone: go on in memory. The file stays for a later sync."""
        self.trouble = str(error)
        unsent = line_of(self.header)
        with contextlib.suppress(OSError):
            unsent += b"".join(
                line + b"\n" for line, _ in self._lines(self._read_at) if _seq(line) is not None
            )
        self._storage.close(remove=False)
        self._storage = Memory(unsent + data)
        self._most = min(self._most, MEMORY_BYTES)
        self._read_at, self._generation = 0, self._generation + 1

    def _shrink(self) -> None:
        """Drop unsent events: the oldest raw samples first, then the oldest notes, then summaries."""
        lines = [line for line, _ in self._lines(self._read_at) if not line.startswith(CONTROL)]
        excess = sum(len(line) + 1 for line in lines) - int(self._most * SHRINK_TO)
        gone: set[int] = set()
        for droppable in (RAW_KINDS, ("note",), ("epoch", "fold")):
            for index, line in enumerate(lines):
                if excess <= 0:
                    break
                if _kind(line) in droppable:
                    gone.add(index)
                    excess -= len(line) + 1
        self.dropped += len(gone)
        self._rewrite(line for index, line in enumerate(lines) if index not in gone)

    def _rewrite(self, lines: Iterable[bytes]) -> None:
        body = [line for line in lines if not line.startswith(CONTROL)]
        head = line_of(self.header) + line_of({"acked": self.acked})
        try:
            self._storage.replace(head + b"".join(line + b"\n" for line in body))
        except OSError as error:
            self._to_memory(error, b"")
            return
        self._read_at, self._generation = 0, self._generation + 1

    def _lines(self, at: int) -> Iterator[tuple[bytes, int]]:
        """(line without its end, where the next begins); a torn last line is left out."""
        tail = b""
        while True:
            block = self._storage.read(at + len(tail), BLOCK_BYTES)
            if not block:
                return
            tail += block
            *whole, tail = tail.split(b"\n")
            for line in whole:
                at += len(line) + 1
                yield line, at

    def _recover(self) -> None:
        """Read what a dead process left, or somebody who writes into its folder; ValueError for what no run
        wrote."""
        good, torn = 0, set[int]()
        for line, after in self._lines(0):
            good = after
            record = _record(line)
            if record is None:
                torn.add(after)  # a torn write in the middle: the rest is whole
            elif "run" in record:
                self.header = _header(record)
            elif "acked" in record:
                self.acked = max(self.acked, _whole(record["acked"]))
            elif "finish" in record:
                self.finish = record["finish"] if _is_finish(record["finish"]) else self.finish
            elif "seq" in record:
                self.last_seq = max(self.last_seq, _whole(record["seq"]))
                self.last_at = record.get("at") or self.last_at
        if not self.header:
            raise ValueError("does not begin as a spool does")
        if torn:
            self._rewrite([line for line, after in self._lines(0) if after not in torn])
        elif good < self._storage.size:
            self._write(b"\n")  # the last line was cut off with its process: ended so, it is passed over


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _header(record: dict[str, Any]) -> dict[str, Any]:
    """The same; ValueError where it begins no run. The id becomes part of a path."""
    if not isinstance(record.get("run_id"), str) or not _RUN_ID.fullmatch(record["run_id"]):
        raise ValueError("has no id of a run")
    if not all(isinstance(record.get(name), dict | None) for name in ("run", "usual")):
        raise ValueError("begins no run")
    return record


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("holds a number that is none")  # noqa: TRY004 - as everything that no run wrote
    return value


def _is_finish(value: Any) -> bool:
    return isinstance(value, dict) and "status" in value


def _aside(spool: Path) -> Path:
    """The folder of what is refused, with room in it."""
    folder = spool.parent if spool.parent.name == ASIDE else spool.parent / ASIDE
    folder.mkdir(exist_ok=True)
    _make_room(folder)
    return folder


def _make_room(folder: Path) -> None:
    total = 0
    kept = [*folder.glob("*.jsonl"), *folder.glob("*.events")]
    for path in sorted(kept, key=lambda p: p.stat().st_mtime, reverse=True):
        total += path.stat().st_size
        if total > ASIDE_BYTES:
            path.unlink()


def _seq(line: bytes) -> int | None:
    if not line.startswith(b'{"seq":') or not line.endswith(b"}"):
        return None
    digits = line[7 : line.find(b",", 7)]
    return int(digits) if digits.isdigit() and len(digits) < _MOST_DIGITS else None


def _kind(line: bytes) -> str | None:
    at = line.find(b'"kind":"')
    if at < 0 or _seq(line) is None:
        return None
    return line[at + 8 : line.find(b'"', at + 8)].decode("utf-8", "replace")
