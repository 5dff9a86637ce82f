"""Sizes nobody profiled lie between the profiled ones, and a larger input never needs less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.cost.interpolation import (
    envelope,
    extrapolated_from,
    fp32_bound,
    grown_as,
    growth_beyond,
    interpolate_profile,
)
from memory_service.domain.cost.memory import allocated_bytes
from memory_service.domain.cost.profile import OP_CLASSES, PeakPoint, Profile, Work

MIB = 2.0**20


def convolutional(size: int, per_pixel: float = 900.0, fixed: float = 100 * MIB) -> Profile:
    """A network whose activations and work grow with the pixels."""
    pixels = float(size * size)
    return Profile(
        model="made-up",
        library="torch",
        input_kind="image_size",
        input_size=size,
        precision="amp",
        params=10_000_000,
        buffers_bytes=0,
        peak=(PeakPoint(1.5 * fixed, 0.2 * per_pixel * pixels), PeakPoint(fixed, per_pixel * pixels)),
        inference_peak=(PeakPoint(fixed, 0.1 * per_pixel * pixels),),
        forward={"dense_conv": Work(50_000 * pixels, 100 * pixels, 0, 1e6, 50)},
        backward={"dense_conv": Work(100_000 * pixels, 200 * pixels, 0, 2e6, 100)},
        extra={
            "roofline": [[0, 0, 0, 0, 50_000 * pixels, 100 * pixels, 0, 1e6, 50]],
            "peak_gradients_kept": [[2 * fixed, per_pixel * pixels]],
            "largest_conv_bytes": {"dense_conv": 40 * pixels},
        },
    )


def attentive(size: int) -> Profile:
    """Unfused attention: a part that grows with the square of the pixels."""
    pixels = float(size * size)
    return replace(convolutional(size), peak=(PeakPoint(100 * MIB, 300 * pixels + 0.05 * pixels**2),))


def test_between_two_sizes_a_convolutional_network_is_met() -> None:
    between = interpolate_profile(convolutional(224), convolutional(448), 320)
    true = convolutional(320)
    for batch in (1, 16, 256):
        guess, truth = allocated_bytes(between, batch), allocated_bytes(true, batch)
        # Where two moments of the step compete for the peak, the mixture is a little above both.
        assert truth * (1 - 1e-9) <= guess <= truth * 1.04
        assert allocated_bytes(between, batch, grads_persistent=True) == pytest.approx(
            allocated_bytes(true, batch, grads_persistent=True)
        )
    for phase in ("forward", "backward"):
        assert getattr(between, phase)["dense_conv"].flops_per_sample == pytest.approx(
            getattr(true, phase)["dense_conv"].flops_per_sample
        )
    assert sum(row[4] for row in between.extra["roofline"]) == pytest.approx(50_000 * 320**2)
    assert between.extra["largest_conv_bytes"]["dense_conv"] == pytest.approx(40 * 320**2)
    assert between.extra["interpolated_from"] == [224, 448]


@pytest.mark.parametrize("size", [64, 160, 640, 1024])
def test_beyond_the_profiled_sizes_it_grows_with_the_pixels(size: int) -> None:
    outside = interpolate_profile(convolutional(224), convolutional(448), size)
    assert allocated_bytes(outside, 64) == pytest.approx(allocated_bytes(convolutional(size), 64))
    assert outside.extra["largest_conv_bytes"]["dense_conv"] == pytest.approx(40 * size**2)


@pytest.mark.parametrize("known", [224, 448])
def test_above_the_profiled_sizes_each_class_of_operation_grows_by_its_own_power(known: int) -> None:
    def of(size: int) -> Profile:
        pixels = float(size * size)
        made = convolutional(size)
        rows: list[list[Any]] = [
            *made.extra["roofline"],
            [0, OP_CLASSES.index("attention"), 0, 0, 2 * pixels**2, 8 * pixels, 0, 0, 1],
        ]
        forward = {**made.forward, "attention": Work(2 * pixels**2, 8 * pixels, 0, 0, 1)}
        return replace(made, forward=forward, extra={**made.extra, "roofline": rows})

    above, true = interpolate_profile(of(known), of(448), 896), of(896)
    for name, work in true.forward.items():
        assert above.forward[name].flops_per_sample == pytest.approx(work.flops_per_sample)
        assert above.forward[name].bytes_per_sample == pytest.approx(work.bytes_per_sample)
    for got, wanted in zip(above.extra["roofline"], true.extra["roofline"], strict=True):
        assert got == pytest.approx(wanted)
    assert allocated_bytes(above, 16) == pytest.approx(allocated_bytes(true, 16))


def test_a_profile_grows_as_the_same_network_in_another_precision_did() -> None:
    made = grown_as(fp32_bound(attentive(224)), attentive(224), attentive(448), 448)
    true = fp32_bound(attentive(448))
    assert (made.input_size, made.precision) == (448, "fp32")
    for batch in (1, 64):
        assert allocated_bytes(made, batch) == pytest.approx(allocated_bytes(true, batch))
    assert made.backward["dense_conv"] == true.backward["dense_conv"]
    assert made.extra["roofline"] == true.extra["roofline"]


@pytest.mark.parametrize("size", [256, 384, 896, 1792])
def test_attention_in_full_is_met_between_and_beyond_two_sizes(size: int) -> None:
    made = interpolate_profile(attentive(224), attentive(448), size)
    assert allocated_bytes(made, 32) == pytest.approx(allocated_bytes(attentive(size), 32))


def test_what_does_not_grow_stays_and_weights_of_positions_grow() -> None:
    def of(size: int) -> Profile:
        pixels = float(size * size)
        peak = (PeakPoint(8 * pixels, 40 * MIB + 900 * pixels),)
        return replace(convolutional(size), params=round(pixels), peak=peak)

    made, true = interpolate_profile(of(224), of(448), 896), of(896)
    assert (made.params, made.peak) == (true.params, true.peak)


def test_a_cube_grows_with_its_voxels() -> None:
    def of(side: int) -> Profile:
        made = replace(convolutional(side), library="monai")
        return replace(made, peak=(PeakPoint(MIB, 900.0 * side**3),))

    for known, size in ((of(64), 96), (of(128), 96), (of(128), 192)):
        assert interpolate_profile(of(64), known, size).peak[0].per_sample_bytes == pytest.approx(
            900 * size**3
        )


def test_a_profile_says_how_far_beyond_the_traced_sizes_it_is() -> None:
    low, high = convolutional(224), convolutional(448)
    beyond, between = (interpolate_profile(low, high, size) for size in (896, 320))
    assert (extrapolated_from(beyond), growth_beyond(beyond)) == (448, 4.0)
    assert (extrapolated_from(between), growth_beyond(between)) == (None, 1.0)
    assert extrapolated_from(interpolate_profile(low, high, 112)) is None
    assert extrapolated_from(grown_as(fp32_bound(low), low, high, 448)) is None
    assert extrapolated_from(grown_as(fp32_bound(low), low, beyond, 896)) == 448


@given(
    st.sampled_from([convolutional, attentive]),
    st.integers(32, 1200),
    st.integers(32, 1200),
    st.integers(1, 512),
)
def test_a_larger_image_never_needs_less_memory(kind: type, one: int, other: int, batch: int) -> None:
    small, large = sorted((one, other))
    low, high = kind(224), kind(448)
    less, more = (interpolate_profile(low, high, size) for size in (small, large))
    assert allocated_bytes(less, batch) <= allocated_bytes(more, batch) * (1 + 1e-9)


def test_the_profiled_sizes_themselves_are_returned() -> None:
    low, high = convolutional(224), convolutional(448)
    assert interpolate_profile(high, low, 224) == low
    assert interpolate_profile(low, high, 448) == high


def test_profiles_of_two_models_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="model"):
        interpolate_profile(convolutional(224), replace(convolutional(448), model="other"), 300)


@given(
    st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), min_size=1, max_size=30), st.integers(1, 10_000)
)
def test_the_envelope_is_the_maximum_for_every_batch(points: list[tuple[float, float]], batch: int) -> None:
    hull = envelope(points)
    highest = max(fixed + batch * slope for fixed, slope in points)
    assert max(p.fixed_bytes + batch * p.per_sample_bytes for p in hull) == pytest.approx(highest)
