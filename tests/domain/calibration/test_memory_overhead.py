"""What a process holds beyond its live tensors follows the calibration of its device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_service.domain.calibration.calibration import Calibration, Fingerprint, Measurement
from memory_service.domain.calibration.corrected_rates import calibrated_rates
from memory_service.domain.calibration.memory_overhead import memory_overhead_of
from memory_service.domain.calibration.probes import probe_of
from memory_service.domain.calibration.timed_sections import profile_of_step, profiles_by_key
from memory_service.domain.cost.memory import GIB, allocated_bytes, workspace_bytes
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import largest_batch, peak_memory
from tests.synthetic import catalogue, references, sheets

CPU_STEPS = ("step.cnn.fp32.nchw.b16", "step.cnn.fp32.nchw.b64", "step.vit.fp32.nchw.b64")
CARD_STEPS = ("step.cnn.bf16.nhwc.b32", "step.mobile.bf16.nhwc.b32", "step.vit.bf16.nhwc.b32")


def calibrated(gpu: TargetDevice, kind: str, sections: dict[str, float]) -> tuple[TargetDevice, Calibration]:
    fingerprint = Fingerprint(kind, gpu.name, "u", gpu.memory_gib, cores=8 if kind == "cpu" else None)  # type: ignore[arg-type]
    found = {n: Measurement(v, "GiB" if n.endswith("gib") else "ms", v, v, 9) for n, v in sections.items()}
    calibration = Calibration("c", "box", fingerprint, "done", 60.0, found)
    return replace(gpu, calibrated=calibrated_rates(calibration, (), (), gpu, references())), calibration


def live_gib(kind: str, name: str) -> tuple[float, float]:
    """Allocated bytes and the general workspace of a reference network's step, in GiB."""
    probe = probe_of(kind, name)
    assert probe is not None, name
    profile = profile_of_step(probe, profiles_by_key(references()))
    assert profile is not None
    workspace = workspace_bytes(profile, probe.batch, probe.precision)
    return allocated_bytes(profile, probe.batch) / GIB, workspace / GIB


def host(ratio: float) -> dict[str, float]:
    sections = {"memory.process_gib": 0.7}
    for name in CPU_STEPS:
        sections[name] = 100.0
        sections[f"{name}.first_peak_gib"] = ratio * live_gib("cpu", name)[0]
    return sections


def test_a_processors_peak_is_its_runtime_and_what_its_allocator_holds() -> None:
    cpu = sheets()["cpu"]
    card, _ = calibrated(cpu, "cpu", host(1.4))
    (p,) = (p for p in catalogue("fp32", "small-cnn") if p.input_size == 64)
    peak = peak_memory(p, 64, card, StepConfig(p.precision)).driver_gib
    assert peak.value == pytest.approx(0.7 + 1.4 * allocated_bytes(p, 64) / GIB, rel=0.01)
    assert peak.low < peak.value < peak.high
    assert "measured" in peak.basis
    assert (
        peak.high / peak.low
        < peak_memory(p, 64, cpu, StepConfig(p.precision)).driver_gib.high
        / peak_memory(p, 64, cpu, StepConfig(p.precision)).driver_gib.low
    )
    assert largest_batch(p, card, StepConfig(p.precision), ladder=None) < largest_batch(
        p, cpu, StepConfig(p.precision), ladder=None
    )


def test_a_cards_context_and_workspace_are_those_it_was_seen_with() -> None:
    a100 = sheets()["a100"]
    sections = {"memory.context_gib": 0.4, "memory.conv_gib": 0.1, "memory.matmul_gib": 0.05}
    for name in CARD_STEPS:
        live, workspace = live_gib("cuda", name)
        sections[name] = 50.0
        reserved = 1.03 * live + 0.35 + 0.5 * workspace
        sections[f"{name}.reserved_gib"] = reserved
        sections[f"{name}.driver_gib"] = reserved + 0.6
    card, calibration = calibrated(a100, "cuda", sections)
    held = memory_overhead_of(calibration, references())
    assert held is not None
    assert held.base_gib == pytest.approx(0.6)
    assert held.workspace_share is not None
    assert 0.5 < held.workspace_share < 0.8
    p = catalogue("amp", "resnet50")[0]
    assert (
        peak_memory(p, 64, card, StepConfig(p.precision)).driver_gib.value
        < peak_memory(p, 64, a100, StepConfig(p.precision)).driver_gib.value
    )
    assert largest_batch(p, card, StepConfig(p.precision), ladder=None) >= largest_batch(
        p, a100, StepConfig(p.precision), ladder=None
    )


def test_the_context_alone_is_used_where_no_network_was_measured() -> None:
    _, calibration = calibrated(sheets()["a100"], "cuda", {"memory.context_gib": 0.4, "memory.conv_gib": 0.2})
    held = memory_overhead_of(calibration, references())
    assert held is not None
    assert held.base_gib == pytest.approx(0.6)
    assert held.workspace_share is None


def test_without_a_figure_of_the_process_nothing_is_said() -> None:
    _, calibration = calibrated(sheets()["cpu"], "cpu", {"step.cnn.fp32.nchw.b16": 40.0})
    assert memory_overhead_of(calibration, references()) is None


def test_memory_never_falls_with_the_batch_on_a_calibrated_processor() -> None:
    card, _ = calibrated(sheets()["cpu"], "cpu", host(2.0))
    (p,) = (p for p in catalogue("fp32", "small-cnn") if p.input_size == 64)
    peaks = [
        peak_memory(p, batch, card, StepConfig(p.precision)).driver_gib.value for batch in (1, 2, 8, 64, 512)
    ]
    assert peaks == sorted(peaks)


def test_what_the_allocator_leaves_unused_is_no_share_of_the_workspace() -> None:
    gpu, (p,) = sheets()["a100"], (p for p in catalogue("amp", "small-cnn") if p.input_size == 64)
    sections = {"memory.context_gib": 0.4}
    for name in CARD_STEPS:
        live, workspace = live_gib("cuda", name)
        sections |= {name: 100.0, f"{name}.reserved_gib": 1.05 * live + 0.1 * workspace}
    card, _ = calibrated(gpu, "cuda", sections)
    largest = {**p.extra.get("largest_conv_bytes", {}), "holes": 2.0**27}
    holed = replace(p, extra={**p.extra, "largest_conv_bytes": largest})
    for each in (gpu, card):
        without, with_holes = (peak_memory(one, 16, each, StepConfig("bf16")) for one in (p, holed))
        assert with_holes.reserved_gib.value - without.reserved_gib.value == pytest.approx(2.0)
    assert card.memory_overhead is not None
    assert (card.memory_overhead.workspace_share or 1.0) < 1.0
