"""Memory follows the batch, the optimizer and the card; and never the wrong way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.common.optimizers import OPTIMIZERS, optimizer_name
from memory_service.domain.cost.memory import GIB, allocated_bytes, optimizer_bytes, workspace_bytes
from memory_service.domain.cost.profile import PeakPoint, Profile
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.cost.step_time import optimizer_bytes_per_param
from memory_service.domain.cost.throughput_knee import BATCH_LADDER
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import allocated_limit_gib, largest_batch, peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.errors import InvalidInput

AMP = StepConfig("bf16")
MIB = 2**20


def card(memory_gib: float, kind: str = "cuda") -> TargetDevice:
    return TargetDevice("test", "Test", kind, "ampere", memory_gib, memory_gib - 0.1, 1000.0, {"fp32": 20.0})  # type: ignore[arg-type]


def profile(
    fixed_mib: float = 100.0, per_sample_mib: float = 40.0, params: int = 25_000_000, **more: object
) -> Profile:
    return Profile(
        model="made-up",
        library="torch",
        input_kind="image_size",
        input_size=224,
        precision="amp",
        params=params,
        buffers_bytes=0,
        peak=(PeakPoint(2 * fixed_mib * MIB, 0.1 * MIB), PeakPoint(fixed_mib * MIB, per_sample_mib * MIB)),
        inference_peak=(PeakPoint(fixed_mib * MIB, 0.1 * per_sample_mib * MIB),),
        forward={},
        backward={},
        **more,  # type: ignore[arg-type]
    )


sizes = st.floats(1.0, 5000.0)
profiles = st.builds(profile, sizes, st.floats(0.01, 2000.0), st.integers(1_000, 2_000_000_000))
optimizers = st.sampled_from(sorted(OPTIMIZERS))
memories = st.floats(2.0, 200.0)


@given(profiles, memories, memories, optimizers)
def test_more_memory_never_gives_a_smaller_batch(
    p: Profile, one: float, other: float, optimizer: str
) -> None:
    small, large = sorted((one, other))
    assert largest_batch(p, card(small), StepConfig("bf16", optimizer=optimizer)) <= largest_batch(
        p, card(large), StepConfig("bf16", optimizer=optimizer)
    )


@given(profiles, st.integers(1, 4096), st.integers(1, 4096), optimizers)
def test_a_larger_batch_never_needs_less_memory(p: Profile, one: int, other: int, optimizer: str) -> None:
    small, large = sorted((one, other))
    less, more = (
        peak_memory(p, batch, card(24.0), StepConfig("bf16", optimizer=optimizer)) for batch in (small, large)
    )
    for sense in ("allocated_gib", "reserved_gib", "driver_gib"):
        assert getattr(less, sense).value <= getattr(more, sense).value
        assert getattr(less, sense).high <= getattr(more, sense).high


@given(profiles, st.integers(1, 4096), optimizers)
def test_the_three_senses_are_ordered_and_their_intervals_hold_their_values(
    p: Profile, batch: int, optimizer: str
) -> None:
    for seen in (
        peak_memory(p, batch, card(24.0), StepConfig("bf16", optimizer=optimizer)),
        peak_memory(p, batch, card(24.0), StepConfig("bf16", mode="infer")),
    ):
        assert seen.allocated_gib.value <= seen.reserved_gib.value <= seen.driver_gib.value
        for estimate in (seen.allocated_gib, seen.reserved_gib, seen.driver_gib):
            assert 0 < estimate.low <= estimate.value <= estimate.high


@given(profiles, memories, optimizers)
def test_the_largest_batch_fits_and_the_next_one_does_not(p: Profile, memory: float, optimizer: str) -> None:
    room = allocated_limit_gib(card(memory)) * GIB
    batch = largest_batch(p, card(memory), StepConfig("bf16", optimizer=optimizer), ladder=None)
    if batch:
        assert allocated_bytes(p, batch, optimizer) <= room * (1 + 1e-12)
    if batch < 2**20:
        assert allocated_bytes(p, batch + 1, optimizer) > room * (1 - 1e-12)


@given(profiles, memories)
def test_planning_keeps_a_margin_and_stays_on_the_ladder(p: Profile, memory: float) -> None:
    planned, expected, hoped = (
        largest_batch(p, card(memory), AMP, confidence=c) for c in ("p90", "p50", "p10")
    )
    assert planned <= expected <= hoped
    assert {planned, expected, hoped} <= {0, *BATCH_LADDER}


def test_state_of_known_optimizers_by_hand() -> None:
    assert optimizer_bytes(1_000_000, "AdamW") == 8_000_000
    assert optimizer_bytes(1_000_000, "sgd") == 4_000_000
    assert optimizer_bytes(1_000_000, "sgd-plain") == 0
    with pytest.raises(InvalidInput, match="adamw"):
        optimizer_bytes(1_000_000, "adamv")


def test_a_paged_state_need_not_be_on_the_card_and_costs_its_way_over_the_bus() -> None:
    p = profile(params=1_000_000_000)
    assert optimizer_bytes(p.params, "paged_adamw_8bit") == 0
    assert allocated_bytes(p, 1, "paged-adamw") == 8 * p.params  # weights and gradients of the update
    steps = {
        name: prepare(p, card(24.0), StepConfig("bf16", optimizer=name)).seconds(1)
        for name in ("adamw-8bit", "paged-adamw-8bit", "paged-adamw-32bit")
    }
    bus = 0.5 * card(24.0).pcie_gb_s * 1e9  # 8 bits a moment to and fro
    assert steps["paged-adamw-8bit"] - steps["adamw-8bit"] == pytest.approx(2 * 2.0 * p.params / bus)
    assert steps["paged-adamw-32bit"] - steps["paged-adamw-8bit"] > 2 * 6.0 * p.params / bus


def test_allocated_bytes_by_hand() -> None:
    p = profile(fixed_mib=100.0, per_sample_mib=40.0, params=25_000_000)
    assert allocated_bytes(p, 64, "adamw") == (100 + 64 * 40) * MIB + 8 * 25_000_000
    # One sample: the optimizer's own step holds weights, gradients, a temporary and the state.
    assert allocated_bytes(p, 1, "adamw") == 25_000_000 * (4 + 4 + 4 + 8)


SHARES = [("fp32", 1.0), ("tf32", 1.0), ("bf16", 0.25), ("amp", 0.25)]


@pytest.mark.parametrize(("precision", "share"), SHARES)
def test_workspace_of_the_largest_convolutions_by_hand(precision: str, share: float) -> None:
    p = profile(extra={"largest_conv_bytes": {"dense_conv": MIB, "grouped_conv": 2 * MIB, "conv1x1": MIB}})
    assert workspace_bytes(p, 8, precision) == pytest.approx(share * 8 * (4.45 + 2 * 2.78) * MIB)


def test_gradients_kept_between_steps_cost_memory() -> None:
    kept = profile(extra={"peak_gradients_kept": [[200.0 * MIB, 40.0 * MIB]]})
    assert (
        allocated_bytes(kept, 64, "sgd", grads_persistent=True)
        == allocated_bytes(kept, 64, "sgd") + 100 * MIB
    )


def test_nothing_fits_where_the_weights_alone_are_too_large() -> None:
    assert largest_batch(profile(params=7_000_000_000), card(24.0), AMP) == 0


def test_inference_takes_larger_batches_than_training() -> None:
    assert largest_batch(profile(), card(16.0), StepConfig("bf16", mode="infer")) > largest_batch(
        profile(), card(16.0), AMP
    )


@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_below_one_is_refused(batch: int) -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        peak_memory(profile(), batch, card(24.0), AMP)


def test_a_processor_has_no_context() -> None:
    p = profile()
    on_card, on_host = (
        peak_memory(p, 8, card(24.0), AMP),
        peak_memory(p, 8, replace(card(24.0), kind="cpu"), AMP),
    )
    assert on_host.driver_gib.value < on_card.driver_gib.value


def test_every_optimizer_has_one_set_of_figures() -> None:
    for name, optimizer in OPTIMIZERS.items():
        assert optimizer_bytes(1, name) == optimizer.state_bytes
        assert optimizer_bytes_per_param(name, "fp32") == optimizer.step_bytes
        assert optimizer_name(name.upper().replace("-", "_")) == name
    assert OPTIMIZERS["rmsprop"].state_bytes == 4.0
    assert OPTIMIZERS["radam"] == OPTIMIZERS["nadam"] == OPTIMIZERS["adam"]
    assert optimizer_name("momentum") == "sgd"
