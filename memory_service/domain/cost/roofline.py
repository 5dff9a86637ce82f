"""Kernels of a profile in groups over which a roofline can be laid.

Rows come from `Profile.extra["roofline"]` (measure/live_memory.py); a profile without them is read by class
totals.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.cost.profile import OP_CLASSES, Profile
from memory_service.domain.cost.step_config import StepMode

Floats = NDArray[np.float64]

FORWARD, BACKWARD, INFERENCE = 0, 1, 2

NO_WORK = (0.0,) * 9
"""The row of a profile without kernels."""


@dataclass(frozen=True, slots=True, eq=False)
class Roofline:
    """Parallel arrays, one entry per group of like kernels.

    kind            index into OP_CLASSES
    tile_fit        useful share of the padded tensor-core tile, 0..1
    group_width     channels per group of a grouped convolution, else 0
    flops_per_sample, bytes_per_sample, flops_fixed, bytes_fixed: work at batch B = fixed + B x per sample
    kernels         launches
    """

    kind: NDArray[np.intp]
    tile_fit: Floats
    group_width: Floats
    flops_per_sample: Floats
    bytes_per_sample: Floats
    flops_fixed: Floats
    bytes_fixed: Floats
    kernels: Floats


def roofline_of(profile: Profile, mode: StepMode = "train") -> Roofline:
    """The groups of a training step (forward + backward) or of an inference step.

    A profile traced without an inference pass answers with its forward pass.
    """
    rows = profile.extra.get("roofline") or _class_rows(profile)
    if mode == "train":
        wanted = [row for row in rows if row[0] != INFERENCE]
    else:
        wanted = [row for row in rows if row[0] == INFERENCE] or [row for row in rows if row[0] == FORWARD]
    table = np.asarray(wanted or [NO_WORK], dtype=np.float64)
    return Roofline(
        kind=table[:, 1].astype(np.intp),
        tile_fit=2.0 ** (-table[:, 2] / 2.0),
        group_width=table[:, 3],
        flops_per_sample=table[:, 4],
        bytes_per_sample=table[:, 5],
        flops_fixed=table[:, 6],
        bytes_fixed=table[:, 7],
        kernels=table[:, 8],
    )


def _class_rows(profile: Profile) -> list[list[float]]:
    return [
        [
            phase, OP_CLASSES.index(name), 0, 32 if name == "grouped_conv" else 0, work.flops_per_sample,
            work.bytes_per_sample, work.flops_fixed, work.bytes_fixed, work.kernels,
        ]
        for phase, works in ((FORWARD, profile.forward), (BACKWARD, profile.backward))
        for name, work in works.items()
    ]  # fmt: skip
