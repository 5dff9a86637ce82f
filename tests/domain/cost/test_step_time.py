"""A step takes longer with more samples and on a lesser card; and figures agree with what others measured."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.cost.profile import OP_CLASSES, Profile, Work
from memory_service.domain.cost.rates import COEFFICIENTS, sheet_rates
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.cost.step_time import optimizer_bytes_per_param
from memory_service.domain.cost.throughput_knee import BATCH_LADDER, floor_to_ladder, throughput_knee
from memory_service.domain.hardware.gpu_spec import gpu_from_row
from memory_service.domain.prediction.device import TargetDevice, target_device
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.resources import path as resource

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")


def card(
    tflops: float = 70.0,
    bandwidth: float = 900.0,
    tdp: float | None = 300.0,
    architecture: str = "ampere",
    capability: float = 8.6,
) -> TargetDevice:
    figures = {"fp32": tflops / 2, "tf32": tflops / 2, "fp16": tflops, "bf16": tflops}
    return TargetDevice(
        "made-up", "Made up", "cuda", architecture, 24.0, 23.5, bandwidth, figures, capability, tdp_w=tdp
    )


def profile(rows: list[list[float]] | None = None, **more: Any) -> Profile:
    conv = Work(8e9, 40e6, 0.0, 50e6, 60)
    moved = Work(0.0, 140e6, 0.0, 0.0, 200)
    return Profile(
        model="made-up",
        library="torch",
        input_kind="image_size",
        input_size=224,
        precision="amp",
        params=25_000_000,
        buffers_bytes=0,
        peak=(),
        forward={"dense_conv": conv, "elementwise": moved},
        backward={
            "dense_conv": Work(16e9, 80e6, 0.0, 100e6, 120),
            "elementwise": Work(0.0, 200e6, 0.0, 0.0, 200),
        },
        extra={"roofline": rows} if rows else {},
        **more,
    )


amounts = st.floats(0.0, 1e10)
row = st.tuples(
    st.integers(0, 2), st.integers(0, len(OP_CLASSES) - 1), st.integers(0, 8),
    st.sampled_from([0, 4, 24, 64, 256]),
    amounts, amounts, amounts, amounts, st.integers(1, 500),
).map(list)  # fmt: skip
profiles = st.lists(row, min_size=1, max_size=12).map(profile)
batches = st.integers(1, 100_000)
layouts = st.sampled_from(["nhwc", "nchw"])
precisions = st.sampled_from(PRECISIONS)
modes = st.sampled_from(["train", "infer"])
figures = st.floats(1.0, 5000.0)


@given(profiles, batches, batches, precisions, layouts, modes)
def test_a_larger_batch_never_takes_less_time_and_never_loses_throughput(
    p: Profile, one: int, other: int, precision: str, layout: str, mode: Any
) -> None:
    small, large = sorted((one, other))
    model = prepare(p, card(), StepConfig(precision, layout, "adamw", mode))
    assert model.seconds(small) <= model.seconds(large) * (1 + 1e-12)
    if model.seconds(small) > 0:
        assert large / model.seconds(large) >= small / model.seconds(small) * (1 - 1e-12)


sheets = st.tuples(figures, figures, figures)


@given(profiles, batches, precisions, layouts, modes, sheets, sheets)
def test_a_card_better_in_every_figure_never_takes_longer(
    p: Profile, batch: int, precision: str, layout: str, mode: Any, one: Any, other: Any
) -> None:
    lesser = card(*(min(pair) for pair in zip(one, other, strict=True)))
    better = card(*(max(pair) for pair in zip(one, other, strict=True)))
    slow = prepare(p, lesser, StepConfig(precision, layout, "adamw", mode)).seconds(batch)
    assert prepare(p, better, StepConfig(precision, layout, "adamw", mode)).seconds(batch) <= slow * (
        1 + 1e-12
    )


@given(profiles, batches, precisions)
def test_a_newer_architecture_with_the_same_sheet_never_takes_longer(
    p: Profile, batch: int, precision: str
) -> None:
    order = [
        ("turing", 7.5),
        ("volta", 7.0),
        ("ampere", 8.6),
        ("ada", 8.9),
        ("hopper", 9.0),
        ("blackwell", 10.0),
    ]
    times = [
        prepare(p, card(architecture=name, capability=level), StepConfig(precision)).seconds(batch)
        for name, level in order
    ]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(times))


@given(profiles, batches, precisions, layouts)
def test_an_estimate_lies_inside_its_interval_and_throughput_is_its_reciprocal(
    p: Profile, batch: int, precision: str, layout: str
) -> None:
    step = prepare(p, card(), StepConfig(precision, layout=layout)).step_seconds(batch)
    rate = prepare(p, card(), StepConfig(precision, layout=layout)).samples_per_second(batch)
    assert 0 < step.low < step.value < step.high
    assert rate.low < rate.value < rate.high
    assert rate.value * step.value == pytest.approx(batch)
    assert step.grade == "estimated"
    assert step.basis


@given(profiles, st.lists(batches, min_size=1, max_size=20))
def test_many_batches_at_once_agree_with_one_by_one(p: Profile, several: list[int]) -> None:
    model = prepare(p, card(), StepConfig("fp16"))
    assert np.allclose(model.seconds_many(several), [model.seconds(b) for b in several])


@given(profiles, st.integers(1, 70_000))
def test_the_knee_is_a_rung_that_fits_and_the_next_one_gains_little(p: Profile, most: int) -> None:
    model = prepare(p, card(), StepConfig("fp16"))
    knee = throughput_knee(model.seconds_many, most)
    assert knee == floor_to_ladder(knee) <= most
    following = [b for b in BATCH_LADDER if knee < b <= most]
    if following:
        assert following[0] / model.seconds(following[0]) < 1.1 * knee / model.seconds(knee)


def test_class_totals_stand_in_for_a_profile_without_rows() -> None:
    assert 100 < prepare(profile(), card(), StepConfig("bf16")).samples_per_second(64).value < 3000


def test_inference_is_cheaper_than_training_and_compiling_never_slower() -> None:
    p, gpu = profile(), card()
    train = prepare(p, gpu, StepConfig("fp16")).step_seconds(64)
    assert prepare(p, gpu, StepConfig("fp16", mode="infer")).step_seconds(64).value < train.value / 2
    compiled = prepare(p, gpu, StepConfig("fp16", compiled=True)).step_seconds(64)
    assert compiled.value < train.value
    assert compiled.high / compiled.low > train.high / train.low


def test_one_picture_waits_for_the_host_as_long_a_launch_as_in_training() -> None:
    old, new = (
        prepare(profile(), card(), StepConfig("fp16", mode="infer", stack=stack))
        for stack in ("torch1", "torch2")
    )
    kernels = 60 + 200
    for step, stack in ((old, "torch1"), (new, "torch2")):
        assert step.seconds(1) == pytest.approx(kernels * COEFFICIENTS[f"kernel_seconds.{stack}"])
    assert old.seconds(512) == pytest.approx(new.seconds(512)), "many pictures keep the card busy"


def test_a_precision_that_is_not_in_hardware_runs_at_the_fp32_rate() -> None:
    pascal = TargetDevice(
        "p", "P", "cuda", "pascal", 16, 15.5, 732, {"fp32": 9.3, "fp16": 9.3}, 6.0, tdp_w=250
    )
    assert sheet_rates(pascal, "bf16").flops_per_second[4] == sheet_rates(pascal, "fp32").flops_per_second[4]


def test_grouped_convolutions_widen_the_interval_most_on_old_software() -> None:
    index = OP_CLASSES.index("grouped_conv")
    grouped = profile([[0, index, 0, 16, 8e9, 40e6, 0, 0, 20], [1, index, 0, 16, 16e9, 80e6, 0, 0, 40]])
    step = prepare(grouped, card(), StepConfig("fp16")).step_seconds(64)
    plain = prepare(profile(), card(), StepConfig("fp16")).step_seconds(64)
    assert step.high / step.value > plain.high / plain.value
    assert prepare(grouped, card(), StepConfig("fp16", stack="torch1")).step_seconds(64).value > step.value


def test_a_power_limited_card_does_not_hold_its_peak() -> None:
    held = sheet_rates(card(tflops=121, tdp=350), "fp16").flops_per_second[4]
    assert sheet_rates(card(tflops=121, tdp=72), "fp16").flops_per_second[4] < 0.6 * held


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "none", "unheard-of"])
def test_an_update_costs_what_its_state_moves(optimizer: str) -> None:
    moved = optimizer_bytes_per_param(optimizer, "fp16")
    assert moved == {"sgd": 28.0, "adamw": 36.0, "none": 0.0, "unheard-of": 36.0}[optimizer]


@pytest.fixture(scope="module")
def shipped_cards() -> dict[str, TargetDevice]:
    lines = (resource("seeds") / "gpus.jsonl").read_text(encoding="utf-8").splitlines()
    return {gpu.slug: gpu for gpu in (target_device(gpu_from_row(json.loads(line))) for line in lines)}


def test_every_shipped_card_answers_in_every_precision(shipped_cards: dict[str, TargetDevice]) -> None:
    for gpu in shipped_cards.values():
        for precision in PRECISIONS:
            step = prepare(profile(), gpu, StepConfig(precision)).step_seconds(32)
            assert 0 < step.low < step.value < step.high < 600, gpu.slug


def test_a_shipped_card_that_dominates_another_is_not_slower(shipped_cards: dict[str, TargetDevice]) -> None:
    """Every figure counts: memory, bandwidth, arithmetic, board power, and no older architecture."""
    cards = [gpu for gpu in shipped_cards.values() if gpu.kind == "cuda" and gpu.compute_capability]
    for precision in PRECISIONS:
        time = {gpu.slug: prepare(profile(), gpu, StepConfig(precision)).seconds(64) for gpu in cards}
        for lesser in cards:
            for better in cards:
                if _dominates(better, lesser):
                    assert time[better.slug] <= time[lesser.slug] * (1 + 1e-9), (better.slug, lesser.slug)


def _dominates(better: TargetDevice, lesser: TargetDevice) -> bool:
    kinds = {*better.tflops, *lesser.tflops}
    return (
        better.memory_gib >= lesser.memory_gib
        and better.bandwidth_gb_s >= lesser.bandwidth_gb_s
        and (better.tdp_w or 0) >= (lesser.tdp_w or 0)
        and (better.compute_capability or 0) >= (lesser.compute_capability or 0)
        and all(better.tflops.get(k, 0) >= lesser.tflops.get(k, 0) for k in kinds)
    )


def test_a_better_card_of_the_same_kind_is_a_replaced_figure() -> None:
    faster = replace(card(), bandwidth_gb_s=1800.0)
    assert (
        prepare(profile(), faster, StepConfig("fp16")).step_seconds(64).value
        < prepare(profile(), card(), StepConfig("fp16")).step_seconds(64).value
    )
