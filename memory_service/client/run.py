"""The run object of a training script: steps, epochs, folds, notes and the end.

Nothing here raises, blocks or waits on the network: what goes wrong is logged once under
`memory_service.client`, and the script goes on as if it had not asked.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any, Protocol, TypeVar

from memory_service.client.config import Config
from memory_service.client.delivery.sender import EventSender
from memory_service.client.fields import RAW_KINDS, as_float, cleaned
from memory_service.client.gpu_sampler import GpuSampler, resident_gib, torch_device, torch_memory
from memory_service.client.step_timer import EpochTimes, Loader, StepTimer
from memory_service.client.verdict import NOT_A_NUMBER, NOT_YET, Verdict
from memory_service.domain.monitoring.event import OWN_FIT

log = logging.getLogger("memory_service.client")

T = TypeVar("T")


class Run:
    """One run, made by `watch`; calls belong to the training thread."""

    def __init__(
        self,
        config: Config | None,
        sender: EventSender | None,
        batch_size: int | None = None,
        gpu_sampler: GpuSampler | None = None,
        started: float = 0.0,
    ) -> None:
        self.owner = os.getpid()
        self.is_attached = False
        """Whether it was begun, and will be ended, elsewhere."""
        self.rank: int | None = None
        """Of a distributed training; only the first rank reports more than steps and samples."""
        self.status = "running" if sender is not None else "disabled"
        """running, how it ended, or disabled"""
        self._config, self._sender, self._gpu_sampler = config, sender, gpu_sampler
        self._step_timer = StepTimer(batch_size, lambda fields: self.record("batch", fields))
        self._zero = (started or time.time(), time.perf_counter())
        self._fold: int | None = None
        self._ended, self._complete = sender is None, False
        self._result: dict[str, Any] = {}
        self._best: dict[int | None, tuple[float, int]] = {}
        self._complained: set[str] = set()
        self._peak_before, _ = resident_gib()

    @classmethod
    def silent(cls) -> Run:
        """A run that reports nothing."""
        return cls(None, None)

    @property
    def run_id(self) -> str:
        """Its own, or that of the run of its plan that an agent had begun, once the service answered so."""
        return self._sender.run_id if self._sender is not None else ""

    @property
    def verdict(self) -> Verdict:
        """The last one the service gave; `known` is False before."""
        return self._sender.verdict if self._sender is not None else NOT_YET

    @property
    def problems(self) -> list[str]:
        """What went wrong so far, each thing once; also logged."""
        return list(self._sender.problems) if self._sender is not None else []

    def batch(self, samples: int | None = None) -> None:
        """A training step of `samples` samples (default: the run's batch size) has ended. About 1 µs."""
        try:
            self._step_timer.step(samples)
        except Exception as error:  # noqa: BLE001
            self._complain("batch", error)

    def loader(self, loader: Iterable[T]) -> Iterable[T]:
        """The training loader, timed. Iterating counts the steps unless `batch` is called."""
        return Loader(loader, self._step_timer) if not self._ended else loader

    def epoch(
        self,
        epoch: int,
        *,
        seconds: float | None = None,
        train_loss: Any = None,
        valid_loss: Any = None,
        metric: Any = None,
        fold: int | None = None,
        **more: Any,
    ) -> Verdict:
        """An epoch has ended, validation included. Answers the last verdict known and waits for nothing; of a
        training loss that is not a number it says so itself, at once.

        seconds   of the whole epoch, validation included; measured since the epoch's first step if not given
        more      valid_seconds, samples, loader_wait_percent, batch_size, learning_rate, ... where the script
                  knows better than what is measured here
        """
        with self._guarded("epoch"):
            times = self._step_timer.end_epoch()
            now = self._now()
            measured: dict[str, Any] = {"loader_wait_percent": times.wait_percent, "samples": times.samples}
            measured |= _times(times, seconds, more)
            if self._gpu_sampler is not None:
                self._gpu_sampler.device_index = torch_device()
                measured["utilization_percent"] = self._gpu_sampler.pop_utilization()
            measured |= torch_memory(torch_device() or 0)
            scores = {"train_loss": train_loss, "valid_loss": valid_loss, "metric": metric}
            where = {"epoch": epoch, "fold": self._fold if fold is None else fold}
            values = {name: value for name, value in {**scores, **more}.items() if value is not None}
            self.record("epoch", {**where, **measured, **values}, now, needs="epoch")
            self._step_timer.batch_size = positive_int(more.get("batch_size")) or self._step_timer.batch_size
            if self._sender is not None and _is_no_number(train_loss):
                return self.verdict if self.verdict.rule == NOT_A_NUMBER.rule else NOT_A_NUMBER
        return self.verdict

    def score(
        self, name: str, value: Any, epoch: int, *, fold: int | None = None, direction: str | None = None
    ) -> None:
        """A validation score: the best one, of several folds the mean of theirs, becomes the `best_metric` of
        the run's end, unless `result` says it. direction: max | min, where the name does not say it."""
        with self._guarded("score"):
            from memory_service.domain.description.metrics import direction_of_name

            way, plain = direction_of_name(name) or direction, as_float(value)
            sign, best = 1.0 if way == "max" else -1.0, self._best.get(fold)
            if way and math.isfinite(plain) and (best is None or sign * plain > sign * best[0]):
                self._best[fold] = plain, epoch

    def fold(self, fold: int, folds: int | None = None, *, done: bool = False, **more: Any) -> None:
        """A fold begins, or with `done=True` has ended (metric=, best_epoch=, seconds=)."""
        with self._guarded("fold"):
            self._fold = None if done else fold
            self._step_timer.end_epoch()
            self.record("fold", {"fold": fold, "folds": folds, "done": done or None, **more}, needs="fold")

    @contextlib.contextmanager
    def fitting(
        self, model: str = OWN_FIT, *, rows: int | None = None, columns: int | None = None,
        rounds: int | None = None, fold: int | None = None,
    ) -> Iterator[dict[str, Any]]:  # fmt: skip
        """Times one fit of an estimator, as of scikit-learn, that has no callbacks.

            with run.fitting(rows=len(x), columns=x.shape[1]) as fit:
                model.fit(x, y)
                fit["metric"] = score(model)

        model   where it is another than the run's; rounds: boosting rounds or trees. What is put into the
                mapping goes with it. A fit that raises is not reported.
        """
        told: dict[str, Any] = {}
        began = time.perf_counter()
        yield told
        seconds = time.perf_counter() - began
        with self._guarded("fitting"):
            facts = {"rows": rows, "columns": columns, "rounds": rounds}
            where = {"fold": self._fold if fold is None else fold}
            text = f"{model}: fitted in {seconds:.1f} s"
            self.record("note", {"text": text, "fit": model, "seconds": seconds, **facts, **where, **told})

    def set(self, **settings: Any) -> None:
        """Settings from here on, e.g. `batch_size=64` after memory ran out."""
        with self._guarded("set"):
            self.record("note", settings)
            stated = positive_int(settings.get("batch_size"))
            self._step_timer.batch_size = stated or self._step_timer.batch_size

    def note(self, text: str, **more: Any) -> None:
        """A remark; `out_of_memory=True`, `error=True` or `submission=True` where it is one of those."""
        with self._guarded("note"):
            self.record("note", {"text": text, **more})

    def event(self, kind: str, fields: Mapping[str, Any], at: float | None = None) -> None:
        """Any event of POST /runs/{id}/events, at `at` (seconds since 1970) or now."""
        with self._guarded("event"):
            self.record(kind, fields, at)

    def finish(self, status: str = "completed", *, flush_seconds: float | None = None, **values: Any) -> bool:
        """End the run: completed | stopped | out_of_memory | timed_out | crashed; `values` as in `result`.

        Waits until all is sent, MEMORY_FLUSH_SECONDS at most. True when the service has everything; the spool
        has it otherwise. Called again it does nothing.
        """
        if self._ended or self._sender is None or self._config is None or os.getpid() != self.owner:
            return False
        if status not in STATUSES:
            self._complain("status", f"the run ended {status!r}, which is none of {', '.join(STATUSES)}")
            status = "completed"
        self._ended, self.status = True, status
        with self._guarded("finish"):
            self._step_timer.flush(time.perf_counter())
            if self._gpu_sampler is not None:
                self._gpu_sampler.stop()
                last = torch_memory(torch_device() or 0) | self._host_peak()
                if last:
                    self.record("gpu", last)
        self.result(**values)
        with self._guarded("finish"):
            body = {} if self.is_attached else {"status": status, **self._best_score(), **self._result}
            patience = self._config.flush_seconds if flush_seconds is None else flush_seconds
            self._sender.finish(body, self._now(), patience)
            unregister(self)
            self._complete = self._sender.wait(patience)
        return self._complete

    def result(
        self,
        *,
        best_metric: Any = None,
        best_epoch: int | None = None,
        test_metric: Any = None,
        submission: bool | None = None,
        followed: Iterable[str] | None = None,
        batch_size: int | None = None,
        **other: Any,
    ) -> None:
        """What the run's end will report, when the `with` block closes it. Called again, the latest
        counts.

        best_metric, best_epoch   of the validation, over all epochs
        test_metric   the submission's score on data that it never saw; it goes before best_metric
        submission    whether one was written. `run.note("...", submission=True)` says when, as it is written
        followed      ids of the plan's `evidence` that were acted on, where nothing else would show it
        batch_size    the one that ran out of memory, where it is not the run's
        """
        values = {
            "best_metric": best_metric, "best_epoch": best_epoch, "test_metric": test_metric,
            "submission": submission, "followed": followed, "batch_size": batch_size,
        }  # fmt: skip
        for name, value in values.items():
            if value is not None:
                with self._guarded(name):
                    self._result[name] = _RESULT[name](value)
        for name in other:
            self._complain(name, f"{name!r} is no field of the end of a run")

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish_by(error)

    def finish_by(self, error: BaseException | None) -> None:
        """End as the script did, by this exception or none."""
        status = status_of(error)
        if not self._ended and error is not None and status in ("crashed", "out_of_memory"):
            with self._guarded("note"):
                values = f"{type(error).__name__}: {error}"[:2000]
                oom = True if status == "out_of_memory" else None
                self.record("note", {"text": values, "error": True, "out_of_memory": oom})
        self.finish(status)

    def record(
        self, kind: str, fields: Mapping[str, Any], at: float | None = None, needs: str | None = None
    ) -> None:
        """Queue an event. `needs`: the field without which it is worthless."""
        sender = self._sender
        if sender is None or (self.rank and kind not in RAW_KINDS):
            return
        if kind in RAW_KINDS:
            fields = fields if self.rank is None else {**fields, "rank": self.rank}
            if self._gpu_sampler is not None and kind == "batch":
                self._gpu_sampler.device_index = torch_device()
            sender.put(kind, fields, at or self._now())
            return
        clean, problems = cleaned(kind, fields)
        for problem in problems:
            self._complain(problem.split("=")[0], f"{kind}: {problem}")
        if needs is not None and needs not in clean:
            if not problems:
                self._complain(kind, f"{kind}: it has no number")
            return
        sender.put(kind, clean, at or self._now())

    def _host_peak(self) -> dict[str, Any]:
        """What samples may have missed: the process's own peak, where it reached it in this run."""
        peak, now = resident_gib()
        highest = peak if peak > self._peak_before else now
        own = self._gpu_sampler is not None and self._gpu_sampler.is_own
        return {"host_gib": highest} if own and highest > 0.0 else {}

    def _best_score(self) -> dict[str, Any]:
        if not self._best:
            return {}
        values, epochs = zip(*self._best.values(), strict=True)
        one = {"best_epoch": epochs[0]} if len(epochs) == 1 else {}
        return {"best_metric": sum(values) / len(values), **one}

    def _now(self) -> float:
        """Seconds since 1970, by a clock that never goes back."""
        wall, steady = self._zero
        return wall + time.perf_counter() - steady

    @contextlib.contextmanager
    def _guarded(self, about: str) -> Iterator[None]:
        """Logs an exception instead of raising it into the training."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self._complain(about, error)

    def _complain(self, about: str, what: object) -> None:
        if about not in self._complained and len(self._complained) < 50:
            self._complained.add(about)
            message = f"left out: {what}" if isinstance(what, str) else f"{about} failed: {what!r}"
            if self._sender is not None:
                self._sender.problems.append(message)
            log.warning("memory-service: %s", message)


def _times(times: EpochTimes, seconds: float | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """An epoch timed by the script: only it knows what its figure includes."""
    if seconds is not None or "valid_seconds" in more:
        return {"seconds": seconds}
    return {"seconds": times.seconds, "valid_seconds": times.valid_seconds}


def _is_no_number(loss: Any) -> bool:
    try:
        return loss is not None and not math.isfinite(as_float(loss))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False  # no loss at all, as its event says


def _finite(value: Any) -> float:
    plain = as_float(value)
    if not math.isfinite(plain):
        raise ValueError(f"{plain} is no finite number")
    return plain


_RESULT: dict[str, Callable[[Any], Any]] = {
    "best_metric": _finite, "test_metric": _finite, "best_epoch": int, "submission": bool, "batch_size": int,
    "followed": lambda names: [str(name) for name in names],
}  # fmt: skip


def positive_int(value: Any) -> int | None:
    """The positive whole number in a value, if it is one."""
    try:
        return int(value) if value and int(value) > 0 else None
    except (TypeError, ValueError, OverflowError):
        return None


STATUSES = ("completed", "stopped", "out_of_memory", "timed_out", "crashed")

NO_MEMORY = (
    "out of memory", "outofmemory", "can't allocate memory", "cannot allocate memory", "bad_alloc",
    "status_alloc_failed", "resource exhausted: oom", "oom when allocating",
)  # fmt: skip
"""What torch (CUDA, MPS, processor), cuBLAS, cuDNN, boosted trees and TensorFlow say when memory is out."""


class Ending(Protocol):
    """What is known here of a run."""

    owner: int
    """The process that it belongs to."""

    def finish(self, status: str = ...) -> bool: ...
    def finish_by(self, error: BaseException | None) -> None: ...


def status_of(error: BaseException | None) -> str:
    """The status of a run that ended with this exception, or none."""
    if error is None or isinstance(error, GeneratorExit):
        return "completed"
    if isinstance(error, SystemExit):
        return "completed" if error.code in (None, 0) else "crashed"
    if isinstance(error, KeyboardInterrupt):
        return "stopped"
    return "out_of_memory" if _no_memory(error) else "crashed"


def _no_memory(error: BaseException) -> bool:
    """Whether the exception or one of its causes is out of memory."""
    cause: BaseException | None = error
    for _ in range(5):
        if cause is None:
            return False
        message = f"{type(cause).__name__}: {str(cause)[:2000]}".lower()
        if isinstance(cause, MemoryError) or any(words in message for words in NO_MEMORY):
            return True
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


_running: set[Ending] = set()
_installed = False


def register(run: Ending) -> None:
    """End this run when the script exits or gets SIGTERM."""
    global _installed
    if not _running:
        with contextlib.suppress(ValueError, OSError):
            main = threading.current_thread() is threading.main_thread()
            if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _on_sigterm)
    _running.add(run)
    if not _installed:
        _installed = True
        atexit.register(_at_exit)


def unregister(run: Ending) -> None:
    _running.discard(run)
    if not _running:
        with contextlib.suppress(ValueError, OSError):
            if signal.getsignal(signal.SIGTERM) is _on_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _at_exit() -> None:
    """Finish open runs by the exception that ended the script, if any."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    for run in list(_running):
        run.finish_by(error)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """Only where the script had no handler of its own; then end as if there were none."""
    del frame
    if os.getpid() in {run.owner for run in _running}:
        for run in list(_running):
            run.finish("stopped")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
