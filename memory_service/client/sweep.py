"""A list of models timed once each by any number of workers, which may be killed at any moment.

A cell of the list is a run with a known id, and whoever begins it has claimed it: of two that begin one id
the service refuses the second. A worker that measures gives signs of life; one of which nothing was heard for
the length of a lease is taken for dead, its run is ended as crashed, and the next attempt is another run.
How long nothing was heard each worker measures with its own clock, so clocks need not agree.
"""

import datetime as dt
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from memory_service.client.delivery.http import Door
from memory_service.errors import Conflict, FieldError, InvalidInput, MemoryServiceError

_NAMESPACE = uuid.UUID("b0a2d0f4-1c39-5a0c-8a34-0d3a0e3f6c11")
_WHOLE = ("batch_size", "image_size", "seq_len", "n_features", "n_classes")
_WORDS = ("precision", "layout", "task")
DEFAULT_BATCH = 32

MOST_ATTEMPTS = 3
"""A cell that ended so many workers is given up: it may be the cell that kills them."""

_DONE = ("completed", "stopped", "out_of_memory")
_LOOKS = 4
"""In a lease: signs of life, and looks at what others do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is timed: a model, and the fields of a run that are stated with it."""

    model: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return " ".join([self.model, *(f"{name}={value}" for name, value in sorted(self.facts.items()))])


@dataclass(frozen=True, slots=True)
class Timed:
    """What was measured of a cell.

    windows   (steps, seconds), the first of them warm-up; peaks: fields of a `gpu` event
    why       what kept it from being measured
    """

    windows: Sequence[tuple[int, float]] = ()
    peaks: Mapping[str, float] = field(default_factory=dict)
    out_of_memory: bool = False
    why: str | None = None


Outcome = Literal["timed", "out_of_memory", "failed", "lost", "done_before", "given_up"]


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """lost: another worker took this one for dead meanwhile, and has measured the cell too."""

    cell: str
    run_id: str
    outcome: Outcome
    why: str | None = None


def cells_in(text: str) -> list[Cell]:
    """A line is a model, then `name=value` of fields of a run: `resnet50 batch_size=64 precision=bf16`.

    Empty lines and what follows `#` say nothing; InvalidInput names a line that cannot be meant. A cell that
    stands there twice is one.
    """
    cells: dict[str, Cell] = {}
    for number, line in enumerate(text.splitlines(), 1):
        model, *words = line.partition("#")[0].split() or [""]
        facts: dict[str, Any] = {}
        for word in words:
            name, _, value = word.partition("=")
            if name in _WHOLE and value.isdecimal() and int(value) > 0:
                facts[name] = int(value)
            elif name in _WORDS and value:
                facts[name] = value
            else:
                message = f"line {number}: {word!r} is none of {', '.join((*_WHOLE, *_WORDS))} with a value"
                raise InvalidInput(message, [FieldError("sweep", message, word)])
        if model:
            cell = Cell(model, {"batch_size": DEFAULT_BATCH, **facts})
            cells.setdefault(cell.name, cell)
    return list(cells.values())


class Sweep:
    """One worker of a sweep.

    name    of the sweep: its cells are those of every worker with the same name and GPU
    about   what every run states: `gpu`, `host`, and `task` where a cell does not
    """

    def __init__(
        self, name: str, cells: Sequence[Cell], door: Door, about: Mapping[str, Any], lease_seconds: float,
        *, most_attempts: int = MOST_ATTEMPTS,
    ) -> None:  # fmt: skip
        first = uuid.uuid4().int % max(len(cells), 1)  # else all of them begin with the same cell
        self._cells = [*cells[first:], *cells[:first]]
        self._name, self._door, self._lease, self._most = name, door, lease_seconds, most_attempts
        worker = {"sweep": name, "worker": uuid.uuid4().hex, "pid": os.getpid()}
        self._about = {**about, "host": {**about.get("host", {}), **worker}}
        self._attempts = dict.fromkeys((cell.name for cell in cells), 0)
        self._heard: dict[str, tuple[Any, float]] = {}
        """Run of another worker -> its latest sign of life, and when that was first seen here."""
        self._readings: Callable[[], Mapping[str, Any]] = dict

    def work(
        self, measure: Callable[[Cell], Timed], readings: Callable[[], Mapping[str, Any]] = dict
    ) -> Iterator[CellOutcome]:
        """What became of each cell, until all are measured, here or by others. An exception of `measure` or
        of the service ends the worker; another one takes the cell. readings: fields of a `gpu` event, by
        which the service knows that others used the device."""
        self._readings = readings
        left = list(self._cells)
        while left:
            claimed = False
            for cell in list(left):
                run_id, known = self._claim(cell)
                if known is None and run_id is not None:
                    claimed = True
                    known = self._measured(cell, run_id, measure)
                if known is not None:
                    left.remove(cell)
                    yield known
            if left and not claimed:
                time.sleep(self._lease / _LOOKS)

    def _claim(self, cell: Cell) -> tuple[str | None, CellOutcome | None]:
        """(the run that this worker now has, None), (None, None) while another one measures the cell, or
        (_, how the cell ended)."""
        while (attempt := self._attempts[cell.name]) < self._most:
            run_id = self._run_id(cell, attempt)
            try:
                self._door("/runs", self._body(cell, run_id))
            except MemoryServiceError as error:
                if error.status == InvalidInput.status:
                    return run_id, CellOutcome(cell.name, run_id, "failed", error.detail)
                if error.status != Conflict.status:
                    raise
            else:
                return run_id, None
            page = self._door(f"/runs/{run_id}", None)
            if page["status"] in _DONE:
                return run_id, CellOutcome(cell.name, run_id, "done_before")
            if page["status"] == "running":
                if not self._is_silent(run_id, page):
                    return None, None
                told = page["outcome"]["events"]  # it may have died between its figures and its end
                end = "completed" if "batch" in told else "stopped" if "note" in told else "crashed"
                if not self._finish(run_id, end) or end != "crashed":
                    continue  # it may have ended meanwhile: look again
            self._attempts[cell.name] = attempt + 1
        run_id = self._run_id(cell, self._most - 1)
        why = f"{self._most} workers died of it"
        return run_id, CellOutcome(cell.name, run_id, "given_up", why)

    def _run_id(self, cell: Cell, attempt: int) -> str:
        return str(uuid.uuid5(_NAMESPACE, f"{self._name}|{self._about['gpu']}|{cell.name}|{attempt}"))

    def _body(self, cell: Cell, run_id: str) -> dict[str, Any]:
        return {**self._about, **cell.facts, "model": cell.model, "run_id": run_id, "num_workers": 0}

    def _is_silent(self, run_id: str, page: Mapping[str, Any]) -> bool:
        mark, now = page["outcome"]["events"], time.monotonic()
        known, since = self._heard.setdefault(run_id, (mark, now))
        if known != mark:
            self._heard[run_id] = mark, now
            return False
        return now - since > self._lease

    def _finish(self, run_id: str, status: str) -> bool:
        """Whether it ends so; False where it had ended otherwise."""
        try:
            self._door(f"/runs/{run_id}/finish", {"status": status})
        except MemoryServiceError as error:
            if error.status != Conflict.status:
                raise
            return False
        return True

    def _measured(self, cell: Cell, run_id: str, measure: Callable[[Cell], Timed]) -> CellOutcome:
        at = f"/runs/{run_id}"
        with self._alive(at):
            found = measure(cell)
        seq = 10**6  # behind all signs of life
        last = {**self._readings(), **found.peaks}
        fields: list[dict[str, Any]] = [{"kind": "gpu", **last}] if last else []
        batch = cell.facts["batch_size"]
        fields += [
            {"kind": "batch", "steps": steps, "seconds": seconds, "samples": steps * batch}
            for steps, seconds in found.windows
        ]
        if found.why:
            fields.append({"kind": "note", "text": found.why[:300]})
        events = [{"seq": seq + n, "at": _now(), **each} for n, each in enumerate(fields)]
        status = "out_of_memory" if found.out_of_memory else "stopped" if found.why else "completed"
        if events:  # all or nothing of it arrives
            self._door(f"{at}/events", {"events": events})
        if not self._finish(run_id, status):
            why = "another worker has it, as nothing was heard of this one"
            return CellOutcome(cell.name, run_id, "lost", why)
        outcome: Outcome = "out_of_memory" if found.out_of_memory else "failed" if found.why else "timed"
        return CellOutcome(cell.name, run_id, outcome, found.why)

    @contextmanager
    def _alive(self, at: str) -> Iterator[None]:
        """Signs of life, in a thread, from now on."""
        over = threading.Event()

        def speak() -> None:
            seq = 0
            while not over.wait(self._lease / _LOOKS):
                seq += 1
                try:
                    event = {"seq": seq, "kind": "gpu", "at": _now(), "rank": 0, **self._readings()}
                    self._door(f"{at}/events", {"events": [event]})
                except MemoryServiceError:
                    continue  # the next one may arrive

        speaking = threading.Thread(target=speak, daemon=True)
        speaking.start()
        try:
            yield
        finally:
            over.set()
            speaking.join()


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat()
