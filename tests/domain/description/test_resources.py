"""Are the GPU and the time limit of a description read, and nothing where it states none?"""

from __future__ import annotations

import pytest

from memory_service.domain.description.resources import resources_in

GPUS = {
    "t4": "t4", "l4": "l4", "p100": "p100", "a100": "a100", "v100": "v100", "rtx3090": "rtx3090",
    "3090": "rtx3090",
    "a10080gb": "a100-80gb", "a10": "a10",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("40k images on a T4 in half an hour", {"gpu": "t4", "minutes": 30}),
        ("CPU Notebook <= 9 hours run-time. GPU Notebook <= 9 hours run-time.", {"minutes": 540}),
        ("CPU Notebook ≤ 6 hours run-time; GPU Notebook ≤ 4 hours run-time", {"minutes": 240}),
        ("We have 2 x T4 GPUs and 90 minutes to train.", {"gpu": "2xt4", "minutes": 90}),
        ("Kaggle T4 x2, up to 12 hours", {"gpu": "2xt4", "minutes": 720}),
        ("I have a T4.", {"gpu": "t4"}),
        ("NVIDIA RTX 3090, 45 min budget", {"gpu": "rtx3090", "minutes": 45}),
        ("an A100-80GB for two hours", {"gpu": "a100-80gb", "minutes": 120}),
        ("training on a Tesla P100 for 30 min", {"gpu": "p100", "minutes": 30}),
        ("Cells in pictures, two hours on a T4", {"gpu": "t4", "minutes": 120}),
        ("One A100-80GB, 30 minutes", {"gpu": "a100-80gb", "minutes": 30}),
        ("Predict the next 24 hours on a T4.", {"gpu": "t4"}),
        # Two that differ, and words that only look like it.
        ("Use an A100 or a V100.", {}),
        ("At most 2 hours. At most 3 hours.", {}),
        ("Grade L4/L5 stenosis of lumbar spines; T4 cells were counted.", {}),
        ("Predict demand for the next 24 hours from 48 hours of sensor data, 3090 rows each.", {}),
    ],
)
def test_resources(text: str, found: dict[str, object]):
    assert resources_in(text, GPUS) == found
