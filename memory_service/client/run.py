"""What can a training script tell while it trains? Its steps, epochs, folds, remarks and its end.

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
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any, TypeVar

from memory_service.client.config import Config, load_config
from memory_service.client.courier import Courier, utc
from memory_service.client.facts import OWN_MODEL, body_of, guessed_task, host_facts, script_text
from memory_service.client.fields import as_float, cleaned
from memory_service.client.gauge import SAMPLE_EVERY_S, TREE_EVERY_S, Gauge, torch_device, torch_memory
from memory_service.client.meter import EpochTimes, Loader, Meter
from memory_service.client.verdict import NOT_YET, Verdict

__all__ = ["Run", "attach", "status_of", "watch"]

ATTACHED_SINCE = 1_577_836_800.0  # 2020-01-01: 53 bits hold its milliseconds times 4096 for two centuries

log = logging.getLogger("memory_service.client")

T = TypeVar("T")

STATUSES = ("completed", "stopped", "out_of_memory", "timed_out", "crashed")


def watch(
    plan: Any = None,
    *,
    plan_id: str | None = None,
    task: str | None = None,
    gpu: str = "auto",
    model: str | None = None,
    batch_size: int | None = None,
    run_id: str | None = None,
    pid: int | None = None,
    mode: str | None = None,
    server: str | None = None,
    **facts: Any,
) -> Run:
    """Begin to tell of a run. Use it as a context manager, or call `finish` at the end.

    task       one of the vocabulary or an alias; guessed from the script's own text if not given
    model      a catalogue, timm or transformers name; `custom/<name>` for a network of one's own, which is
               also what a name becomes that the service does not know
    pid        the process to sample, with its children; by default this one
    plan       an answer of /recommend: a mapping, its JSON text or a file. It fills in what is not given
    gpu        "auto" takes the name that the card's driver tells, "cpu" where there is no card; else a
               registered device or a GPU model
    facts      more fields of POST /runs: image_size, seq_len, n_features, precision, folds, epochs, n_train,
               minutes, competition, optimizer, num_workers, ...
    mode       online | offline | disabled, by default MEMORY_MODE; or train | infer: what the run's steps are
    server     its address, by default MEMORY_SERVER

    Never raises: what cannot be used is logged, and the run goes untold.
    """
    given = {"plan_id": plan_id, "task": task, "model": model, "batch_size": batch_size, **facts}
    if mode in ("train", "infer"):
        given["mode"], mode = mode, None
    try:
        config = load_config(mode, server)
        if config.mode == "disabled":
            return Run._silent()
        return Run._begun(config, body_of(given, plan), gpu, run_id, pid)
    except Exception as error:  # noqa: BLE001 - never the training's problem
        log.warning("memory-service: this run goes untold: %r", error)
        return Run._silent()


def attach(run_id: str, *, pid: int | None = None, mode: str | None = None, server: str | None = None) -> Run:
    """Tell more of a run that was begun elsewhere, which also ends it. Never raises, as `watch`."""
    try:
        config = load_config(mode, server)
        return Run._silent() if config.mode == "disabled" else Run._attached(config, run_id, pid)
    except Exception as error:  # noqa: BLE001 - never the training's problem
        log.warning("memory-service: run %s goes untold: %r", run_id, error)
        return Run._silent()


class Run:
    """One run. Made by `watch`; calls belong to the training thread."""

    def __init__(
        self, run_id: str, config: Config | None, courier: Courier | None, batch_size: int | None
    ) -> None:
        self.run_id = run_id
        self._config, self._courier = config, courier
        self._meter = Meter(batch_size, lambda fields: self._tell("batch", fields))
        self._gauge: Gauge | None = None
        self._zero = (time.time(), time.perf_counter())
        self._fold: int | None = None
        self._ended = courier is None
        self._is_attached = False
        self.status = "running" if courier is not None else "disabled"
        """running, how it ended, or disabled"""
        self._said: dict[str, Any] = {}
        self._pid = os.getpid()
        self._complained: set[str] = set()

    @classmethod
    def _silent(cls) -> Run:
        return cls("", None, None, None)

    @classmethod
    def _begun(
        cls, config: Config, body: dict[str, Any], gpu: str, run_id: str | None, pid: int | None = None
    ) -> Run:
        key = str(uuid.UUID(run_id)) if run_id else str(uuid.uuid4())
        samples: list[Run] = []
        gauge = Gauge(
            lambda fields: samples[0]._tell("gpu", fields) if samples else None,
            pid=pid,
            tree_every_seconds=TREE_EVERY_S if pid is None else SAMPLE_EVERY_S,
        )
        if gpu == "auto":
            body.setdefault("gpu", gauge.wait_for_name())
        else:
            body["gpu"] = gpu
        begun = time.time()
        usual = {"model": OWN_MODEL, "task": guessed_task(script_text(sys.argv))}
        if "plan_id" not in body:  # else the service may know the plan: it says what it lacks
            body = {**usual, **body}
        host = host_facts()
        if gauge.name:
            host |= {"gpu_name": gauge.name, "gpu_memory_gib": gauge.total_gib}
        body = {**body, "started_at": body.get("started_at") or utc(begun), "host": body.get("host") or host}
        run = cls(key, config, Courier(config, key, body, usual=usual), _whole(body.get("batch_size")))
        run._zero = (begun, time.perf_counter())
        run._gauge = gauge
        samples.append(run)
        if gauge.total_gib:
            run._tell("note", {"total_gib": gauge.total_gib, "gpu_name": gauge.name})
        _remember(run)
        return run

    @classmethod
    def _attached(cls, config: Config, run_id: str, pid: int | None) -> Run:
        """More events for a run that was begun, and will be ended, elsewhere."""
        key = str(uuid.UUID(run_id))
        # Its own events count up from 0; these come behind them, and behind those of whoever attached before.
        first_seq = int((time.time() - ATTACHED_SINCE) * 1000.0) * 4096
        run = cls(key, config, Courier(config, key, None, first_seq), None)
        run._is_attached = True
        tell = lambda fields: run._tell("gpu", fields)  # noqa: E731
        run._gauge = Gauge(tell, pid=pid, tree_every_seconds=SAMPLE_EVERY_S)
        _remember(run)
        return run

    @property
    def verdict(self) -> Verdict:
        """The last one the service gave; `known` is False until it gave one."""
        return self._courier.verdict if self._courier is not None else NOT_YET

    @property
    def problems(self) -> list[str]:
        """What went wrong so far, each thing once; it was logged as well."""
        return list(self._courier.problems) if self._courier is not None else []

    def batch(self, samples: int | None = None) -> None:
        """A training step of `samples` samples (default: the run's batch size) has ended. About 1 µs."""
        try:
            self._meter.step(samples)
        except Exception as error:  # noqa: BLE001
            self._complain("batch", error)

    def loader(self, loader: Iterable[T]) -> Iterable[T]:
        """The training loader, with the time that the script waits for it measured. Iterating over it counts
        the steps, too, unless `batch` is called."""
        return Loader(loader, self._meter) if not self._ended else loader

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
        """An epoch has ended, validation included. Answers the last verdict known and waits for nothing.

        seconds   of the whole epoch, validation included; measured since the epoch's first step if not given
        more      valid_seconds, samples, loader_wait_percent, batch_size, learning_rate, ... where the script
                  knows better than what is measured here
        """
        with self._guarded("epoch"):
            times = self._meter.end_epoch()
            now = self._now()
            measured: dict[str, Any] = {"loader_wait_percent": times.wait_percent, "samples": times.samples}
            measured |= _times(times, seconds, more)
            if self._gauge is not None:
                self._gauge.device_index = torch_device()
                measured["utilization_percent"] = self._gauge.take_utilization()
            measured |= torch_memory(torch_device() or 0)
            scores = {"train_loss": train_loss, "valid_loss": valid_loss, "metric": metric}
            where = {"epoch": epoch, "fold": self._fold if fold is None else fold}
            said = {name: value for name, value in {**scores, **more}.items() if value is not None}
            self._tell("epoch", {**where, **measured, **said}, now, needs="epoch")
            self._meter.batch_size = _whole(more.get("batch_size")) or self._meter.batch_size
        return self.verdict

    def fold(self, fold: int, folds: int | None = None, *, done: bool = False, **more: Any) -> None:
        """A fold begins, or with `done=True` has ended (metric=, best_epoch=, seconds=)."""
        with self._guarded("fold"):
            self._fold = None if done else fold
            self._meter.end_epoch()
            self._tell("fold", {"fold": fold, "folds": folds, "done": done or None, **more}, needs="fold")

    def set(self, **settings: Any) -> None:
        """Settings that hold from here on, e.g. `batch_size=64` after memory ran out."""
        with self._guarded("set"):
            self._tell("note", settings)
            self._meter.batch_size = _whole(settings.get("batch_size")) or self._meter.batch_size

    def note(self, text: str, **more: Any) -> None:
        """A remark; `out_of_memory=True` or `error=True` where it is one of those."""
        with self._guarded("note"):
            self._tell("note", {"text": text, **more})

    def event(self, kind: str, fields: Mapping[str, Any], at: float | None = None) -> None:
        """Any event of POST /runs/{id}/events, at `at` (seconds since 1970) or now."""
        with self._guarded("event"):
            self._tell(kind, fields, at)

    def finish(
        self,
        status: str = "completed",
        *,
        best_metric: Any = None,
        best_epoch: int | None = None,
        submission: bool | None = None,
        flush_seconds: float | None = None,
        **more: Any,
    ) -> bool:
        """The run has ended: completed | stopped | out_of_memory | timed_out | crashed. Waits until all is
        sent, MEMORY_FLUSH_SECONDS at most, and not at all for a service that does not answer. True when the
        service has everything; the spool has it otherwise. Called again it does nothing."""
        if self._ended or self._courier is None or self._config is None or os.getpid() != self._pid:
            return False
        if status not in STATUSES:
            self._complain("status", f"the run ended {status!r}, which is none of {', '.join(STATUSES)}")
            status = "completed"
        self._ended, self.status = True, status
        with self._guarded("finish"):
            self._meter.flush(time.perf_counter())
            if self._gauge is not None:
                self._gauge.stop()
                last = torch_memory(torch_device() or 0)
                if last:
                    self._tell("gpu", last)
            self.result(best_metric=best_metric, best_epoch=best_epoch, submission=submission, **more)
        with self._guarded("finish"):
            body = {} if self._is_attached else {"status": status, **self._said}
            self._courier.finish(body, self._now())
            _forget(self)
            return self._courier.wait(self._config.flush_seconds if flush_seconds is None else flush_seconds)
        return False

    def result(self, **said: Any) -> None:
        """What the end will be told with, when the `with` block closes the run: best_metric=, best_epoch=,
        submission= (whether one was written), test_metric= (its score), followed= (patterns of the plan that
        were acted on), batch_size= (the one that ran out of memory)."""
        for name, value in said.items():
            if value is not None:
                with self._guarded(name):
                    self._said[name] = _RESULT[name](value)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish_by(error)

    def _finish_by(self, error: BaseException | None) -> None:
        status = status_of(error)
        if not self._ended and error is not None and status in ("crashed", "out_of_memory"):
            with self._guarded("note"):
                said = f"{type(error).__name__}: {error}"[:2000]
                oom = True if status == "out_of_memory" else None
                self._tell("note", {"text": said, "error": True, "out_of_memory": oom})
        self.finish(status)

    def _tell(
        self, kind: str, fields: Mapping[str, Any], at: float | None = None, needs: str | None = None
    ) -> None:
        courier = self._courier
        if courier is None:
            return
        if kind in ("gpu", "batch"):
            if self._gauge is not None and kind == "batch":
                self._gauge.device_index = torch_device()
            courier.put(kind, fields, at or self._now())
            return
        known, problems = cleaned(kind, fields)
        for problem in problems:
            self._complain(problem.split("=")[0], f"{kind}: {problem}")
        if needs is not None and needs not in known:
            if not problems:
                self._complain(kind, f"{kind}: it has no number")
            return
        courier.put(kind, known, at or self._now())

    def _now(self) -> float:
        """Seconds since 1970, by a clock that never goes back."""
        wall, steady = self._zero
        return wall + time.perf_counter() - steady

    def _guarded(self, about: str) -> _Guard:
        return _Guard(self, about)

    def _complain(self, about: str, what: object) -> None:
        if about not in self._complained and len(self._complained) < 50:
            self._complained.add(about)
            message = f"left out: {what}" if isinstance(what, str) else f"{about} failed: {what!r}"
            if self._courier is not None:
                self._courier.problems.append(message)
            log.warning("memory-service: %s", message)


class _Guard:
    """What goes wrong inside is logged and ends here: it is never the training's problem."""

    def __init__(self, run: Run, about: str) -> None:
        self._run, self._about = run, about

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self._run._complain(self._about, error)
            return True
        return False


def status_of(error: BaseException | None) -> str:
    """How a run ended that ended with this."""
    if error is None or isinstance(error, GeneratorExit):
        return "completed"
    if isinstance(error, SystemExit):
        return "completed" if error.code in (None, 0) else "crashed"
    if isinstance(error, KeyboardInterrupt):
        return "stopped"
    name, text = type(error).__name__.lower(), str(error).lower()[:2000]
    out = isinstance(error, MemoryError) or "outofmemory" in name or "out of memory" in text
    return "out_of_memory" if out else "crashed"


def _times(times: EpochTimes, seconds: float | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Where the script times the epoch itself, only it knows what its figure includes."""
    if seconds is not None or "valid_seconds" in more:
        return {"seconds": seconds}
    return {"seconds": times.seconds, "valid_seconds": times.valid_seconds}


def _finite(value: Any) -> float:
    plain = as_float(value)
    if not math.isfinite(plain):
        raise ValueError(f"{plain} is no finite number")
    return plain


_RESULT: dict[str, Callable[[Any], Any]] = {
    "best_metric": _finite, "test_metric": _finite, "best_epoch": int, "submission": bool, "batch_size": int,
    "followed": lambda names: [str(name) for name in names],
}  # fmt: skip


def _whole(value: Any) -> int | None:
    try:
        return int(value) if value and int(value) > 0 else None
    except (TypeError, ValueError, OverflowError):
        return None


_running: set[Run] = set()
_installed = False


def _remember(run: Run) -> None:
    """Until it ends: a script that exits, or is told to (SIGTERM), takes its runs to their end."""
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


def _forget(run: Run) -> None:
    _running.discard(run)
    if not _running:
        with contextlib.suppress(ValueError, OSError):
            if signal.getsignal(signal.SIGTERM) is _on_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _at_exit() -> None:
    """Runs that were not finished: by the exception that ended the script, if one did."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    for run in list(_running):
        run._finish_by(error)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """Only where the script had no handler of its own; afterwards it ends as if there were none."""
    del frame
    if os.getpid() in {run._pid for run in _running}:
        for run in list(_running):
            run.finish("stopped")
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
