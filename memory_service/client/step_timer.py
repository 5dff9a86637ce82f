"""Times steps, waiting for the data loader, and epochs.

Called in the training thread, so the common path is a handful of additions; figures are handed over every
two seconds. A step is timed from the end of the one before it, or from where an iteration over the loader
began: what lies between (validation, checkpoints) counts in no step. Kernels run asynchronously, so single
steps mean little; over two seconds the queue to the card is in balance.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

REPORT_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class EpochTimes:
    """One measured epoch; None = not measured.

    seconds         validation included; valid_seconds: from the last training step on
    wait_percent    of the time in training steps that went into waiting for the loader
    """

    seconds: float | None
    valid_seconds: float | None
    samples: int | None
    wait_percent: float | None


class StepTimer:
    """Times steps; `report(fields)` gets each two seconds' sum."""

    def __init__(self, batch_size: int | None, report: Callable[[dict[str, Any]], None]) -> None:
        self.batch_size = batch_size
        self._report = report
        self._created = perf_counter()
        self._due = self._created
        self._mark: float | None = None
        self._counted = False
        self._steps = self._samples = 0
        self._seconds = self._waited = 0.0
        self._has_wait = False
        self._epoch_began: float | None = None
        self._epoch_before: float | None = None
        self._epoch = [0.0, 0.0, 0.0]
        self._epoch_has_wait = False

    def step(self, samples: int | None = None) -> None:
        """A training step has ended."""
        now = perf_counter()
        self._counted = True
        mark, self._mark = self._mark, now
        if mark is None:
            if self._epoch_began is None:
                self._epoch_began = now
            return
        self._steps += 1
        self._seconds += now - mark
        self._samples += samples or self.batch_size or 0
        if now >= self._due:
            self.flush(now)

    def start_iteration(self) -> None:
        """An iteration over the training loader begins."""
        self._mark = now = perf_counter()
        if self._epoch_began is None:
            self._epoch_began = now
        self._counted = True

    def add_wait(self, seconds: float) -> None:
        """The loader took this long to give a batch."""
        self._waited += seconds
        self._has_wait = True
        self._counted = False

    def end_batch(self, samples: int | None) -> None:
        """The script asks for the next batch: a step, unless it counted it itself."""
        if not self._counted:
            self.step(samples)

    def flush(self, now: float) -> None:
        """Report the steps since the last flush."""
        self._due = now + REPORT_EVERY_S
        if not self._steps:
            return
        fields: dict[str, Any] = {"steps": self._steps, "seconds": self._seconds}
        if self._samples:
            fields["samples"] = self._samples
        if self._has_wait:
            fields["loader_wait_seconds"] = min(self._waited, self._seconds)
        epoch = self._epoch
        epoch[0] += self._seconds
        epoch[1] += self._waited
        epoch[2] += self._samples
        self._epoch_has_wait |= self._has_wait
        self._steps = self._samples = 0
        self._seconds = self._waited = 0.0
        self._has_wait = False
        self._report(fields)

    def end_epoch(self) -> EpochTimes:
        """Close the epoch that now ends; the next one begins with its first step or iteration."""
        now = perf_counter()
        self.flush(now)
        busy, waited, samples = self._epoch
        began = self._epoch_began if self._epoch_began is not None else self._epoch_before
        if began is None:
            began = self._created
        valid = now - self._mark if self._mark is not None and busy else None
        percent = 100.0 * min(waited / busy, 1.0) if busy and self._epoch_has_wait else None
        self._epoch, self._epoch_has_wait = [0.0, 0.0, 0.0], False
        self._epoch_began, self._epoch_before, self._mark = None, now, None
        return EpochTimes(now - began, valid, int(samples) or None, percent)


class Loader:
    """Iterates over `inner` and times waiting for it. Everything else is `inner`'s own."""

    def __init__(self, inner: Iterable[Any], step_timer: StepTimer) -> None:
        self._inner, self._step_timer = inner, step_timer

    def __len__(self) -> int:
        return len(self._inner)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name in ("_inner", "_step_timer"):  # while it is being copied
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __iter__(self) -> Iterator[Any]:
        step_timer = self._step_timer
        step_timer.start_iteration()
        wait_began = perf_counter()
        for batch in self._inner:
            step_timer.add_wait(perf_counter() - wait_began)
            yield batch
            step_timer.end_batch(None if step_timer.batch_size else samples_of(batch))
            wait_began = perf_counter()
        step_timer.add_wait(0.0)
        step_timer._counted = True


def samples_of(batch: Any) -> int | None:
    """Samples in a batch of the usual forms (tensor, tuple, mapping); None for another."""
    try:
        if isinstance(batch, dict):
            batch = next(iter(batch.values()))
        elif isinstance(batch, (tuple, list)):
            batch = batch[0] if hasattr(batch[0], "shape") or isinstance(batch[0], (tuple, list)) else batch
        shape = getattr(batch, "shape", None)
        return int(shape[0]) if shape is not None else len(batch)
    except Exception:  # noqa: BLE001 - a batch of any form may come
        return None
