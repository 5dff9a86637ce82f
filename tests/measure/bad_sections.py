"""Sections that end badly, each in its own way, for the runner to survive: see test_calibrate."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import torch

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe
from memory_service.measure.calibrate.hardware import Hardware

ENDINGS = ("memory", "raises", "signal", "killed", "exits", "good", "hangs")

PROBES = tuple(Probe(f"bad.{ending}", f"bad.{ending}", "ms") for ending in ENDINGS)


def measure(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:
    ending = probe.name.removeprefix("bad.")
    if ending == "memory":
        torch.empty(2**55, dtype=torch.int8)
    elif ending == "raises":
        raise ValueError("no such thing on this device")
    elif ending == "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif ending == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif ending == "exits":
        os._exit(7)
    elif ending == "hangs":
        while True:
            time.sleep(60)
    yield probe.name, Measurement(2.0, "ms", 2.0, 2.0, 3)
