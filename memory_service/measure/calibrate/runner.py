"""Runs a calibration from its first event to its last.

Sections have a least time and a weight: what is left of the budget is given in their order until their least
times fill it, the rest by weight, and asked again after every section (`next_share`). The runner imports no
torch: it identifies the device, checks whether others use it, gives the process of the
sections one section after another, passes on what they find, and ends in time. All events go to stdout (see
the package).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import psutil

from memory_service.domain.calibration.calibration import Fingerprint
from memory_service.domain.calibration.probes import PRECISIONS, Kind, Probe, probes
from memory_service.domain.common.tables import shipped_table
from memory_service.errors import MemoryServiceError
from memory_service.measure.calibrate.section_processes import is_pipe, line
from memory_service.measure.identity import (
    Occupancy,
    busy_seconds,
    cores_of_process,
    device_kind,
    identify,
    occupancy,
)


@dataclass(frozen=True, slots=True)
class Share:
    """least_seconds: with its process and one repetition of everything, on a slow machine of two cores."""

    least_seconds: float
    weight: float


SHARES = {name: Share(*of) for name, of in shipped_table(__package__, "shares.toml").items()}

CONTEXT_SECONDS, NETWORK_SECONDS = 1.5, 4.0
"""A child that uses CUDA first makes a context and loads kernels: those of one operation, of a network's."""


def share_of(section: str, kind: str) -> Share:
    """By the longest listed prefix; others get half a second."""
    prefix = max((name for name in SHARES if section.startswith(name)), key=len, default="")
    share = SHARES.get(prefix, Share(0.5, 0.0))
    if kind == "cpu" or prefix in ("trees", "loader", "memory.process"):
        return share
    loads = NETWORK_SECONDS if prefix == "step" else CONTEXT_SECONDS
    return Share(share.least_seconds / 2 + loads, share.weight)


def next_share(sections: Sequence[str], seconds_left: float, kind: str) -> float | None:
    """Seconds that the first of `sections` gets; None when not even its least fits."""
    if not sections:
        return None
    first = share_of(sections[0], kind)
    if first.least_seconds > seconds_left:
        return None
    spare, weights = seconds_left, 0.0
    for section in sections:
        share = share_of(section, kind)
        if share.least_seconds > spare:
            break
        spare -= share.least_seconds
        weights += share.weight
    return first.least_seconds + (spare * first.weight / weights if weights else 0.0)


OVERRUN, ENDING_SECONDS = 1.08, 0.1
"""Sections have ended by this share of the budget, less what ending takes (issue 3 allows 1.10 in all)."""

ORPHAN_SECONDS = 5.0
"""Long enough to end in order once stdin is closed."""

START_SECONDS = 0.25
"""A forked child and its first answer."""

CROWDED_SHARE = 0.5
"""Of the processor's cores, taken by others on average: then what was measured is theirs too."""


class _StoppedError(Exception):
    """Stdin was closed, or a signal came."""


def run(
    device: str, budget_seconds: float, *, force: bool = False, only: Sequence[str] = (), extra: str = ""
) -> int:
    """Calibrate, print the events, and return the exit code: 0 done or timed out, 1 failed, 130 stopped.

    only    beginnings of section names; () = all
    extra   a module with PROBES and measure(probe, hardware, seconds) whose sections run before the others
    """
    started = time.monotonic() - _age_seconds()
    runner = _Runner(budget_seconds, started)
    if is_pipe(0):
        threading.Thread(target=_end_with, args=(os.getppid(), runner), daemon=True).start()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, _stop)
    try:
        return runner.calibrate(device, force, only, extra)
    except MemoryServiceError as error:
        return runner.end("failed", error.detail)
    except EOFError:
        return runner.end("failed", "the process that imports torch died")
    except _StoppedError as stopped:
        runner.end("failed", str(stopped))
        return 130
    except BrokenPipeError:
        return 130
    finally:
        runner.close()


def _end_with(parent: int, runner: _Runner) -> None:
    """End this process after its parent, also where a driver's call hangs and nothing reads stdin."""
    while os.getppid() == parent:
        time.sleep(1.0)
    time.sleep(ORPHAN_SECONDS)
    runner.close()
    os._exit(130)


def _stop(number: int, _frame: object) -> None:
    raise _StoppedError(f"stopped by {signal.Signals(number).name}")


def _age_seconds() -> float:
    """Since this process started, the start of Python included."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return max(0.0, time.time() - float(psutil.Process().create_time()))
    return max(0.0, uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"))


class _Runner:
    """What was reported so far, and how the rest is. refused: the first reason why a figure was not
    measured."""

    def __init__(self, budget_seconds: float, started: float) -> None:
        self.budget, self.started = budget_seconds, started
        self.measured: set[str] = set()
        self.missing: set[str] = set()
        self.cut, self.refused, self.cpu_seconds = False, "", 0.0
        self.last = started + budget_seconds * OVERRUN - ENDING_SECONDS
        self.sections_process: subprocess.Popen[bytes] | None = None
        self._read = bytearray()
        self._events = selectors.DefaultSelector()
        if is_pipe(0):
            self._events.register(0, selectors.EVENT_READ, "stdin")

    def calibrate(self, device: str, force: bool, only: Sequence[str], extra: str) -> int:
        kind, _ = device_kind(device)
        fingerprint = identify(device)
        self.emit({"event": "identity", "fingerprint": fingerprint.as_dict()})
        self._start_sections(fingerprint)
        before = occupancy(device)
        if before.busy and not force:
            return self.end("failed", f"the device is busy: {before.sentence}; --force measures all the same")
        busy_before = busy_seconds(psutil.cpu_times())
        sections, absent = self._select(fingerprint, only, extra)
        self._await_torch()
        for probe, lacking in absent.items():
            self.miss(probe, lacking)
        self._measure(sections, fingerprint, extra)
        why = self._check_contention(kind, device, before, busy_before)
        if not self.measured and self.refused and not self.cut:
            return self.end("failed", f"nothing could be measured: {self.refused}")
        if self.measured and not self.cut:
            return self.end("done", why)
        when = "during a section" if self.measured else "before anything was measured"
        return self.end("timed_out", f"the budget of {self.budget:g} s ended {when}")

    def emit(self, event: Mapping[str, Any]) -> None:
        sys.stdout.buffer.write(line(event))
        sys.stdout.buffer.flush()

    def end(self, status: Literal["done", "failed", "timed_out"], why: str | None) -> int:
        self.close()
        seconds = round(time.monotonic() - self.started, 3)
        self.emit({"event": "end", "status": status, "why": why, "seconds": seconds})
        return 1 if status == "failed" else 0

    def miss(self, name: str, why: str) -> None:
        if name not in self.missing:
            self.missing.add(name)
            self.emit({"event": "missing", "name": name, "why": why})

    def close(self) -> None:
        """End the sections' process and everything in its session."""
        sections_process, self.sections_process = self.sections_process, None
        if sections_process is None:
            return
        for group in (sections_process.pid, *_children(sections_process.pid)):
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        sections_process.wait()

    def _start_sections(self, fingerprint: Fingerprint) -> None:
        self._read.clear()
        environment = dict(os.environ)
        if fingerprint.kind == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = fingerprint.uuid
            environment["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # asking CUDA itself would forbid forking
        self.sections_process = subprocess.Popen(
            [sys.executable, "-m", "memory_service.measure.calibrate.section_processes"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True,
        )  # fmt: skip
        assert self.sections_process.stdout is not None  # noqa: S101
        self._events.register(self.sections_process.stdout, selectors.EVENT_READ, "sections")

    def _await_torch(self) -> None:
        def ready(event: Mapping[str, Any]) -> bool:
            if event["event"] == "broken":
                raise MemoryServiceError(str(event["why"]))
            return bool(event["event"] == "ready")

        self._read_until(ready, self.last)

    def _select(
        self, fingerprint: Fingerprint, only: Sequence[str], extra: str
    ) -> tuple[dict[str, list[Probe]], dict[str, str]]:
        """(section -> its probes, in order; name -> why it is not run)."""
        kind: Kind = fingerprint.kind
        has, absent = precisions_of(fingerprint)
        listed = list(probes(kind, has, cores_of_process()))
        more = list(importlib.import_module(extra).PROBES) if extra else []
        if only:
            listed = [probe for probe in listed if probe.section.startswith(tuple(only))]
            absent = {}
        sections = {name: list(group) for name, group in groupby([*more, *listed], lambda p: p.section)}
        return sections, absent

    def _measure(self, sections: Mapping[str, list[Probe]], fingerprint: Fingerprint, extra: str) -> None:
        names, total = list(sections), sum(map(len, sections.values()))
        soft = self.started + self.budget
        for index, name in enumerate(names):
            named = sections[name]
            seconds = next_share(names[index:], soft - time.monotonic(), fingerprint.kind)
            if seconds is None:
                for probe in named:
                    self.miss(probe.name, f"the budget of {self.budget:g} s had no time for it")
                continue
            self._progress(total, name)
            limit = min(2 * seconds + 3.0, self.last - time.monotonic() - START_SECONDS)
            request = {
                "section": name, "probes": [probe.name for probe in named], "kind": fingerprint.kind,
                "torch_device": "cuda:0" if fingerprint.kind == "cuda" else fingerprint.kind,
                "uuid": fingerprint.uuid, "seconds": max(seconds - START_SECONDS, 0.05),
                "limit_seconds": limit, "extra": extra,
            }  # fmt: skip
            why = self._section(request, total)
            self.refused = self.refused or why or ""
            for probe in named:
                if probe.name not in self.measured:
                    self.miss(probe.name, why or "its section ended without it")
            if self.sections_process is None and not self.cut:
                self._start_sections(fingerprint)
                self._await_torch()
        self._progress(total, "")

    def _section(self, request: Mapping[str, Any], total: int) -> str | None:
        """Run one section to its end; why it did not end well, else None."""
        assert self.sections_process is not None  # noqa: S101
        assert self.sections_process.stdin is not None  # noqa: S101
        self.sections_process.stdin.write(line(request))
        self.sections_process.stdin.flush()
        ended: dict[str, Any] = {}

        def over(event: Mapping[str, Any]) -> bool:
            if event["event"] == "ended":
                ended.update(event)
                return True
            if event["event"] == "missing":
                self.refused = self.refused or str(event["why"])
                self.miss(str(event["name"]), str(event["why"]))
            else:
                self.measured.add(str(event["name"]))
                self.emit(event)
                self._progress(total, str(request["section"]))
            return False

        try:
            self._read_until(over, self.last)
        except EOFError:
            self.close()
            return "its parent process ended unexpectedly"
        if not ended:
            self.cut = True
            self.close()
            return f"the budget of {self.budget:g} s ended during it"
        self.cpu_seconds = float(ended["cpu_seconds"])
        return None if ended["why"] is None else str(ended["why"])

    def _read_until(self, accept: Callable[[Mapping[str, Any]], bool], deadline: float) -> None:
        """Read the sections' process's events until `accept` or the deadline; EOFError when it died."""
        while time.monotonic() < deadline:
            while b"\n" in self._read:
                text, _, rest = bytes(self._read).partition(b"\n")
                self._read = bytearray(rest)
                if accept(json.loads(text)):
                    return
            for key, _ in self._events.select(max(0.0, deadline - time.monotonic())):
                got = os.read(key.fd, 65536)
                if key.data == "stdin":
                    if not got:
                        raise _StoppedError("whoever asked for it closed the line")
                elif got:
                    self._read += got
                else:
                    self._events.unregister(key.fileobj)
                    raise EOFError

    def _progress(self, total: int, doing: str) -> None:
        done = len(self.measured | self.missing)
        seconds = round(time.monotonic() - self.started, 2)
        self.emit({"event": "progress", "done": done, "of": total, "doing": doing, "seconds": seconds})

    def _check_contention(self, kind: str, device: str, before: Occupancy, busy_before: float) -> str | None:
        """Report use of the device by others meanwhile, as a sentence; else None."""
        if kind == "cuda":
            after = occupancy(device)
            if before.busy or after.busy:
                self.emit({"event": "contended"})
                return (before if before.busy else after).sentence
            return None
        elapsed = time.monotonic() - self.started
        host, usable = os.cpu_count() or 1, cores_of_process()
        busy = busy_seconds(psutil.cpu_times()) - busy_before
        other_cores = max(0.0, busy - self.cpu_seconds) / max(elapsed, 0.1)
        if host - other_cores < usable * CROWDED_SHARE:
            self.emit({"event": "contended"})
        if other_cores < 0.1 * usable:
            return None
        return f"other processes took {other_cores:.1f} of {host} cores meanwhile"


def precisions_of(fingerprint: Fingerprint) -> tuple[tuple[str, ...], dict[str, str]]:
    """(precisions of the hardware, {"matmul.bf16": why it lacks this one})."""
    least = {"fp32": 0.0, "fp16": 7.0, "tf32": 8.0, "bf16": 8.0}
    has: list[str] = []
    absent: dict[str, str] = {}
    for precision in PRECISIONS[fingerprint.kind]:
        if fingerprint.kind == "cuda":
            fits = (fingerprint.compute_capability or 0.0) >= least[precision]
        elif fingerprint.kind == "cpu":
            fits = precision == "fp32" or _processor_has_bf16()
        else:
            fits = True
        if fits:
            has.append(precision)
        else:
            absent[f"matmul.{precision}"] = f"no {precision} in this hardware"
    return tuple(has), absent


def _processor_has_bf16() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            flags = next((text for text in lines if text.startswith(("flags", "Features"))), "")
    except OSError:
        return False
    return any(flag in flags.split() for flag in ("avx512_bf16", "amx_bf16", "bf16"))


def _children(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []
