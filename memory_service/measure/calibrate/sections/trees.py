"""Time of LightGBM for a tree and for binning."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from memory_service.domain.calibration.calibration import Measurement
from memory_service.domain.calibration.probes import Probe
from memory_service.measure.calibrate.hardware import Hardware
from memory_service.measure.calibrate.timing import repeat, summary
from memory_service.measure.identity import cores_of_process


def measure(probe: Probe, hardware: Hardware, seconds: float) -> Iterator[tuple[str, Measurement]]:  # noqa: ARG001
    import lightgbm

    ends = time.perf_counter() + seconds
    rows, columns = int(probe.facts["rows"]), int(probe.facts["columns"])
    draw = np.random.default_rng(3)
    table = draw.standard_normal((rows, columns))
    chance = table[:, :5].sum(axis=1) + np.sin(3 * table[:, 5]) + draw.standard_normal(rows)
    label = (chance > 0).astype(np.float32)
    settings: dict[str, Any] = {
        "objective": "binary", "num_leaves": probe.facts["leaves"], "num_threads": cores_of_process(),
        "verbosity": -1, "seed": 1,
    }  # fmt: skip
    started = time.perf_counter()
    data = lightgbm.Dataset(table, label, params=settings).construct()
    yield f"{probe.name}.binning", summary([time.perf_counter() - started], "s")
    booster = lightgbm.Booster(settings, data)
    booster.update()

    def tree() -> float:
        tree_started = time.perf_counter()
        booster.update()
        return time.perf_counter() - tree_started

    yield probe.name, repeat(tree, ends)
