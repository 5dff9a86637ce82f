"""A run as a tracker recorded it, and the readers of trackers."""

import ast
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

Made = TypeVar("Made")
Ended = Literal["completed", "stopped", "crashed", "out_of_memory"]


class Row(NamedTuple):
    """Values that were logged together.

    at   seconds since 1970; step: the tracker's own number of the row, None where it has none
    """

    at: float
    step: int | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run, in the tracker's own words.

    key        what names it among all runs of the tracker, wherever its files lie
    config     settings, nested as they were logged
    rows       of the training, in time; system: of the machine
    began, ended   seconds since 1970; None: the tracker does not say it
    how        how it ended; None: the tracker does not say it
    machine    facts of the host: hostname, cpu_count, gpu, gpu_count
    notes      what of its files could not be read
    """

    tracker: str
    key: str
    name: str
    config: Mapping[str, Any]
    rows: tuple[Row, ...]
    began: float | None
    ended: float | None
    how: Ended | None
    system: tuple[Row, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """What is no run that can be read, and why."""

    where: str
    why: str


Found = Iterator[PastRun | Unread]
READERS: dict[str, Callable[[Path], Found]] = {}
"""Tracker -> reader of a folder or file."""


def reader(tracker: str) -> Callable[[Callable[[Path], Found]], Callable[[Path], Found]]:
    """Registers a function as the reader of a tracker's files."""

    def register(read: Callable[[Path], Found]) -> Callable[[Path], Found]:
        READERS[tracker] = read
        return read

    return register


_DAMAGES = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, struct.error
)  # fmt: skip


def alone(where: str, read: Callable[[], Made], what: str = "is damaged") -> Made | Unread:
    """What is read or made of one run, or why it cannot be: a damaged run costs itself alone."""
    try:
        return read()
    except _DAMAGES as error:
        return Unread(where, f"{what}: {type(error).__name__} {error}")


def literal(text: str) -> Any:
    """The number, truth value, list or text that a tracker stored as text."""
    try:
        return ast.literal_eval(text) if len(text) <= MOST_LITERAL else text
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


MOST_LITERAL = 200


def query(path: Path, *statements: str) -> list[list[dict[str, Any]]]:
    """Rows of each statement on a file that nothing is written to; ValueError for another file, or another
    tracker's."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10.0)) as file:
            file.row_factory = sqlite3.Row
            return [[dict(row) for row in file.execute(statement)] for statement in statements]
    except sqlite3.Error as error:
        raise ValueError(str(error)) from error
