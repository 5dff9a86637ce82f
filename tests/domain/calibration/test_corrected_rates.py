"""Calibrated rates: found again from the times they make, used in order of trust, narrower where checked.

There is no GPU here: the calibrations of cards are synthetic (`tests.synthetic`), so these tests show that
the fit inverts the step law, not that the law is right on a card.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.calibration.calibration import Calibration, Fingerprint, Measurement
from memory_service.domain.calibration.corrected_rates import calibrated_rates, self_check
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import StepConfig, StepMode
from memory_service.domain.cost.step_time import step_model
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_step_time import prepare
from tests.synthetic import Truth, calibration, catalogue, references, sheets, without

MODELS = ("resnet50", "efficientnet_b0", "convnext_tiny", "vit_base_patch16_224", "mlp", "small-cnn")
BATCHES = (8, 128)

A100, A10, CPU = (sheets()[slug] for slug in ("a100", "a10", "cpu"))
CASES = (
    ("a100", "bf16", "nhwc"), ("t4", "fp16", "nhwc"), ("a100", "bf16", "nchw"), ("a100", "fp32", "nchw"),
    ("cpu", "fp32", "nchw"),
)  # fmt: skip
GROUPS = ("matmul", "conv", "bandwidth", "step", "linear", "attention", "launch")


def rated(
    gpu: TargetDevice,
    own: Calibration | None = None,
    model: tuple[Calibration, ...] = (),
    kin: tuple[tuple[TargetDevice, Calibration], ...] = (),
) -> TargetDevice:
    rates = calibrated_rates(own, model, kin, gpu, references())
    assert rates is not None
    return replace(gpu, calibrated=rates)


def scaled(found: Calibration, factor: float, chosen: Callable[[str], bool]) -> Calibration:
    """The same with the chosen sections' values multiplied."""
    changed = {
        name: replace(m, value=m.value * factor, p20=m.p20 * factor, p80=m.p80 * factor)
        for name, m in found.sections.items()
        if chosen(name)
    }
    assert changed
    return replace(found, sections={**found.sections, **changed})


def off(gpu: TargetDevice, card: TargetDevice, truth: Truth, precision: str, layout: str) -> list[float]:
    """|log(predicted / true)| of steps of real models."""
    rates = truth.rates(gpu, precision, layout)
    return [
        abs(
            log(
                prepare(p, card, StepConfig(precision, layout)).seconds(b)
                / step_model(p, rates, StepConfig(precision)).seconds(b)
            )
        )
        for p in catalogue("amp" if precision in ("fp16", "bf16") else "fp32", *MODELS)
        for b in BATCHES
    ]


def resnet() -> Profile:
    return catalogue("amp", "resnet50")[0]


def width(card: TargetDevice) -> float:
    step = prepare(resnet(), card, StepConfig("bf16")).step_seconds(64)
    return log(step.high / step.low)


@pytest.mark.parametrize(("slug", "precision", "layout"), CASES)
def test_rates_are_found_again_from_the_times_they_make(slug: str, precision: str, layout: str) -> None:
    gpu, truth = sheets()[slug], Truth(seed=3)
    card = rated(gpu, calibration(gpu, truth))
    found = off(gpu, card, truth, precision, layout)
    assert median(found) < 0.03
    assert max(found) < 0.2
    assert median(off(gpu, gpu, truth, precision, layout)) > median(found)


@pytest.mark.parametrize("group", GROUPS)
def test_a_calibration_with_one_group_of_sections_helps_and_never_harms(group: str) -> None:
    truth = Truth(1, spread=0.05, overall=0.6)
    card = rated(A100, calibration(A100, truth, keep=lambda name: name.startswith(f"{group}.")))
    partial, sheet = (median(off(A100, c, truth, "bf16", "nhwc")) for c in (card, A100))
    assert partial <= sheet * (1.1 if group == "launch" else 1.02)
    if group in ("matmul", "conv", "step"):
        assert partial < sheet * 0.7


def test_a_precision_that_was_not_measured_follows_the_one_that_was() -> None:
    truth = Truth(1, spread=0.0, overall=0.6)
    half = calibration(A100, truth, keep=lambda name: ".bf16" in name or name.startswith("bandwidth"))
    other, sheet = (median(off(A100, c, truth, "fp32", "nchw")) for c in (rated(A100, half), A100))
    assert other < 0.6 * sheet


@cache
def _far_from_its_sheet(slug: str, seed: int) -> TargetDevice:
    gpu = sheets()[slug]
    return rated(gpu, calibration(gpu, Truth(seed, spread=0.6), noise=0.3))


batches = st.integers(1, 100_000)
modes = st.sampled_from(["train", "infer"])


@settings(max_examples=25, deadline=None)
@given(
    batches, batches, st.sampled_from(["a100", "cpu"]), st.sampled_from(["nhwc", "nchw"]),
    st.integers(0, 1), modes,
)  # fmt: skip
def test_throughput_never_falls_with_the_batch_on_a_calibrated_device(
    one: int, other: int, slug: str, layout: str, seed: int, mode: StepMode
) -> None:
    card = _far_from_its_sheet(slug, seed)
    small, large = sorted((one, other))
    for p in catalogue("amp" if slug == "a100" else "fp32", "resnet50", "mlp"):
        model = prepare(p, card, StepConfig(card.preferred_precision(), layout, "adamw", mode))
        assert model.seconds(small) <= model.seconds(large) * (1 + 1e-12)
        assert large / model.seconds(large) >= small / model.seconds(small) * (1 - 1e-12)


@pytest.mark.parametrize(
    "absurd", ["matmul.bf16.4096", "conv.dense28.bf16.nhwc.b128", "step.cnn.bf16.nhwc.b32"]
)
def test_one_absurd_section_moves_nothing(absurd: str) -> None:
    clean = calibration(A100, Truth(5))
    wrong = scaled(clean, 100.0, lambda name: name == absurd)
    for p in catalogue("amp", "resnet50", "vit_base_patch16_224"):
        before, after = (prepare(p, rated(A100, c), StepConfig("bf16")).seconds(64) for c in (clean, wrong))
        assert abs(log(after / before)) < 0.08


def test_values_that_are_no_times_are_passed_over() -> None:
    truth = Truth(5)
    clean = calibration(A100, truth)
    zero, nan = (Measurement(value, "TFLOP/s", value, value, 1) for value in (0.0, float("nan")))
    bad = {"matmul.bf16.1024": zero, "matmul.bf16.4096": nan, "of another version": nan}
    card = rated(A100, replace(clean, sections={**clean.sections, **bad}))
    assert median(off(A100, card, truth, "bf16", "nhwc")) < 0.03


def test_sections_in_another_order_give_the_same_rates() -> None:
    found = calibration(CPU, Truth(2))
    turned = replace(found, sections=dict(reversed(list(found.sections.items()))))
    (p,) = (p for p in catalogue("fp32", "small-cnn") if p.input_size == 64)
    one, other = (prepare(p, rated(CPU, c), StepConfig("fp32")).seconds(32) for c in (found, turned))
    assert one == other


def test_the_devices_own_calibration_comes_before_its_models_and_before_its_architectures() -> None:
    own = calibration(A100, Truth(1, 0.0, 0.5), device="mine")
    twin = calibration(A100, Truth(2, 0.0, 0.8), device="twin")
    kin = ((A10, calibration(A10, Truth(3, 0.0, 0.7), device="cousin")),)
    cards = (rated(A100, own, (twin,), kin), rated(A100, None, (twin,), kin), rated(A100, None, (), kin))
    assert [c.calibrated and c.calibrated.origin for c in cards] == ["device", "model", "architecture"]
    steps = [prepare(resnet(), card, StepConfig("bf16")).step_seconds(128) for card in cards]
    for step, truth in zip(steps[:2], (Truth(1, 0.0, 0.5), Truth(2, 0.0, 0.8)), strict=True):
        real = step_model(resnet(), truth.rates(A100, "bf16", "nhwc"), StepConfig("bf16")).seconds(128)
        assert step.value == pytest.approx(real, rel=0.03)
    sheet = prepare(resnet(), A100, StepConfig("bf16")).seconds(128)
    assert 1.1 < steps[2].value / sheet < 1 / 0.7
    widths = [log(step.high / step.low) for step in steps]
    assert widths[0] < widths[1] < widths[2]
    assert "mine" in steps[0].basis
    assert "other devices of this model" in steps[1].basis
    assert "a10" in steps[2].basis
    assert [step.n for step in steps] == [1, 1, 1]


def test_devices_of_a_model_are_averaged_on_the_logarithm() -> None:
    slow = calibration(A100, Truth(1, 0.0, 0.5), noise=0.0, device="slow")
    quick = calibration(A100, Truth(2, 0.0, 2.0), noise=0.0, device="quick")
    card = rated(A100, None, (slow, quick))
    assert card.calibrated is not None
    assert card.calibrated.n == 2
    both, sheet = (prepare(resnet(), c, StepConfig("bf16")).seconds(512) for c in (card, A100))
    assert both == pytest.approx(sheet, rel=0.06)


def test_a_partial_calibration_stands_on_those_of_its_model() -> None:
    truth = Truth(4, 0.0, 0.6)
    whole = calibration(A100, truth, device="twin")
    part = calibration(A100, truth, keep=lambda name: name.startswith("launch"))
    alone, together = rated(A100, part), rated(A100, part, (whole,))
    assert together.calibrated is not None
    assert together.calibrated.origin == "device"
    far, near = (median(off(A100, c, truth, "bf16", "nhwc")) for c in (alone, together))
    assert near < 0.5 * far


def test_a_contended_or_empty_calibration_is_not_used() -> None:
    found = calibration(A100, Truth(1))
    contended, empty = replace(found, contended=True), replace(found, sections={})
    assert calibrated_rates(contended, (contended, empty), [(A100, empty)], A100, references()) is None


def test_an_interval_is_narrower_where_networks_confirm_the_sections_and_wider_where_they_do_not() -> None:
    gpu = sheets()["a100-80gb"]
    good = calibration(gpu, Truth(6))
    bad = scaled(good, 1.8, lambda name: name.startswith("step.mobile"))
    unchecked = without(good, [name for name in good.sections if name.startswith("step.")])
    assert width(rated(gpu, good)) < width(gpu)
    assert width(rated(gpu, bad)) > 1.5 * width(rated(gpu, good))
    assert width(rated(gpu, good)) < width(rated(gpu, unchecked))


def test_the_self_check_predicts_each_network_without_its_own_measurement() -> None:
    found = calibration(A100, Truth(7))
    check = self_check(found, A100, references())
    assert {row["name"].split(".")[1] for row in check["networks"]} == {"cnn", "mobile", "vit"}
    assert check["median_error_percent"] < 8
    twice = scaled(found, 2.0, lambda name: name.startswith("step.vit"))
    rows = self_check(twice, A100, references())["networks"]
    assert all(-60 < row["error_percent"] < -40 for row in rows if row["name"].startswith("step.vit"))


def test_a_self_check_without_networks_says_so() -> None:
    found = calibration(A100, Truth(7), keep=lambda name: name.startswith("matmul"))
    assert self_check(found, A100, references()) == {"median_error_percent": None, "networks": []}


@pytest.mark.parametrize("folder", ["h200", "h200_slow_host"])
def test_real_calibrations_and_likely_ones_are_in_no_doubt(folder: str) -> None:
    lines = (Path("benchmarks/data") / folder / "calibration.jsonl").read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    sections = {one["name"]: Measurement(**one["measurement"]) for one in told if "measurement" in one}
    h200 = sheets()["h200"]
    fingerprint = Fingerprint.from_dict(told[0]["fingerprint"])
    real = Calibration("c", "box", fingerprint, "done", 60.0, sections)
    assert "doubt" not in self_check(real, h200, references())
    assert "doubt" not in self_check(calibration(A100, Truth(7)), A100, references())
    assert "doubt" not in self_check(calibration(CPU, Truth(7)), CPU, references())


@pytest.mark.parametrize(
    ("gpu", "factor", "chosen"),
    [
        (A100, 1e-3, "conv."), (A100, 1e-3, "linear."), (A100, 1e-3, "attention."), (A100, 1e4, "launch."),
        (A100, 0.1, "conv. .bf16"), (CPU, 1e-3, "conv."), (CPU, 1e3, "linear."),
    ],
)  # fmt: skip
def test_sections_that_no_such_device_reaches_are_in_doubt(
    gpu: TargetDevice, factor: float, chosen: str
) -> None:
    found = calibration(gpu, Truth(7), keep=lambda name: not name.startswith("step."))
    odd = scaled(found, factor, lambda name: all(part in name for part in chosen.split()))
    assert f"sections of {chosen.partition('.')[0]}" in self_check(odd, gpu, references())["doubt"]


def test_a_process_that_starts_with_most_of_a_card_is_in_doubt() -> None:
    found = calibration(A100, Truth(7), extra={"memory.context_gib": 30.0})
    assert "starts with 30 GiB" in self_check(found, A100, references())["doubt"]


def test_a_processor_of_more_cores_borrows_what_a_smaller_one_measured() -> None:
    found = calibration(CPU, Truth(8))
    (p,) = (p for p in catalogue("fp32", "small-cnn") if p.input_size == 64)
    more = rated(sheets()["cpu-16"], None, (found,))
    assert prepare(p, more, StepConfig("fp32")).seconds(64) < prepare(
        p, rated(CPU, found), StepConfig("fp32")
    ).seconds(64)


def test_a_card_that_throttles_under_load_is_planned_at_what_it_sustains() -> None:
    found = calibration(A100, Truth(9))

    def seconds(ratio: float, p20: float, p80: float) -> float:
        sustained = Measurement(ratio, "ratio", p20, p80, 40)
        own = replace(found, sections={**found.sections, "sustained.ratio": sustained})
        return prepare(resnet(), rated(A100, own), StepConfig("bf16")).seconds(256)

    steady = seconds(1.0, 0.99, 1.01)
    assert seconds(0.99, 0.97, 1.01) == steady
    assert seconds(0.8, 0.6, 1.1) == steady
    assert 1.15 < seconds(0.8, 0.79, 0.81) / steady <= 1.25
