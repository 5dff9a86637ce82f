"""Storage of a spool's lines: a file locked by one process, or memory where the disk takes nothing."""

import contextlib
import fcntl
import os
from pathlib import Path


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
