"""Are the GPU and the time limit of a description read, and nothing where it states none?"""

from __future__ import annotations

import pytest

from memory_service.domain.description.resources import resources_in

GPUS = {
    "t4": "t4", "l4": "l4", "p100": "p100", "a100": "a100", "v100": "v100", "rtx3090": "rtx3090",
    "3090": "rtx3090", "4090": "rtx4090", "3080": "rtx3080", "v100s": "v100s", "h100": "h100",
    "h10080gb": "h100", "gtx1080ti": "gtx1080ti", "1080ti": "gtx1080ti", "k80": "k80",
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
        # Numbers in words, and spans of two units.
        ("twenty-five minutes on a T4", {"gpu": "t4", "minutes": 25}),
        ("forty five minutes on a T4", {"gpu": "t4", "minutes": 45}),
        ("ninety-five minutes on an L4", {"gpu": "l4", "minutes": 95}),
        ("a hundred and twenty minutes on an L4", {"gpu": "l4", "minutes": 120}),
        ("3,5 hours on an A100", {"gpu": "a100", "minutes": 210}),
        ("RTX3090, 1h30", {"gpu": "rtx3090", "minutes": 90}),
        ("one and a half hours on a P100", {"gpu": "p100", "minutes": 90}),
        ("an hour and a half on a P100", {"gpu": "p100", "minutes": 90}),
        ("a quarter of an hour on a P100", {"gpu": "p100", "minutes": 15}),
        ("half a day on a P100", {"gpu": "p100", "minutes": 720}),
        ("1.5 days on a P100", {"gpu": "p100", "minutes": 2160}),
        ("on a T4 with 2 hours and 30 minutes", {"gpu": "t4", "minutes": 150}),
        ("one hour and fifteen minutes on a T4", {"gpu": "t4", "minutes": 75}),
        ("with an A100 and 2-3 hours", {"gpu": "a100", "minutes": 120}),
        ("5 to 6 hours on an A100", {"gpu": "a100", "minutes": 300}),
        ("GPU: T4. Time: 120 minutes", {"gpu": "t4", "minutes": 120}),
        ("GTX 1080 Ti 90 mins", {"gpu": "gtx1080ti", "minutes": 90}),
        ("Forecast 7 days of sales on a T4.", {"gpu": "t4"}),
        ("Five minutes of sound each, on a T4 for three hours", {"gpu": "t4", "minutes": 180}),
        # How many cards.
        ("two T4 GPUs, 2 hours", {"gpu": "2xt4", "minutes": 120}),
        ("3 A100 GPUs", {"gpu": "3xa100"}),
        ("four V100 GPUs", {"gpu": "4xv100"}),
        ("dual RTX 3090", {"gpu": "2xrtx3090"}),
        ("8 H100 80GB", {"gpu": "8xh100"}),
        ("two V100s, 2 hours", {"gpu": "2xv100", "minutes": 120}),
        ("a V100S for an hour", {"gpu": "v100s", "minutes": 60}),
        ("2 A100s", {"gpu": "2xa100"}),
        ("eight H100s", {"gpu": "8xh100"}),
        ("at most 12 h on 2xT4", {"gpu": "2xt4", "minutes": 720}),
        ("A laptop's RTX 3090 16GB, half an hour", {"gpu": "rtx3090", "vram_gib": 16, "minutes": 30}),
        # Names that need something beside them.
        ("Faces, RMSE. 20 minutes, one L4.", {"gpu": "l4", "minutes": 20}),
        ("Essays, 60 min T4", {"gpu": "t4", "minutes": 60}),
        ("Find one L4 vertebra, 3 hours T4 counts", {}),
        ("Dog breeds on T4 for 2 hours", {"gpu": "t4", "minutes": 120}),
        ("Dog breeds using T4, 90 min", {"gpu": "t4", "minutes": 90}),
        ("a T4 for thirty minutes", {"gpu": "t4", "minutes": 30}),
        ("T4 GPU for 3h", {"gpu": "t4", "minutes": 180}),
        ("Dog breeds on my 4090", {"gpu": "rtx4090"}),
        ("Dog breeds with a 3080 with 10GB", {"gpu": "rtx3080"}),
        ("Pictures with a 3080 x 2160 frame, a 4090 row table", {}),
        ("P100 or T4, 2 hours", {"minutes": 120}),
        # No card.
        ("Dog breeds, CPU only, one hour", {"gpu": "cpu", "minutes": 60}),
        ("Dog breeds without a GPU", {"gpu": "cpu"}),
        ("Dog breeds on a laptop, CPU", {"gpu": "cpu"}),
        ("Dog breeds on my CPU in 20 minutes", {"gpu": "cpu", "minutes": 20}),
        # Two that differ, and words that only look like it.
        ("Use an A100 or a V100.", {}),
        ("At most 2 hours. At most 3 hours.", {}),
        ("Grade L4/L5 stenosis of lumbar spines; T4 cells were counted.", {}),
        ("Predict demand for the next 24 hours from 48 hours of sensor data, 3090 rows each.", {}),
    ],
)
def test_resources(text: str, found: dict[str, object]):
    assert resources_in(text, GPUS) == found


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("Classify 5000 photos into 12 classes. Accuracy. 2 hours.", 120),
        ("Detect cars, 4000 images, mAP. 2 hours", 120),
        ("Churn of 10k rows, AUC, 1h30", 90),
        ("Images, mAP, 45 min.", 45),
        ("Recordings of 2 hours. AUC", None),
        ("Classify recordings of birds, 2 hours.", None),
        ("500 files: 10 minutes of audio. F1.", None),
        ("The fare of trips, 45 minutes.", None),
        ("Forecast the load, 24 hours.", None),
        ("What is sold in 7 days. Two days.", None),
    ],
)
def test_a_span_that_stands_alone_is_the_limit_unless_it_is_of_data(text: str, minutes: int | None) -> None:
    assert resources_in(text, GPUS).get("minutes") == minutes
