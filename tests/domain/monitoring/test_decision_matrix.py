"""Every cell of the decision matrix (R23): every kind of memory figure, small and large models."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.throughput_knee import BATCH_LADDER
from memory_service.domain.monitoring.event import MEMORY_FIELDS
from memory_service.domain.monitoring.state import Expectation, RunFacts, class_of_model
from memory_service.domain.monitoring.verdict import Verdict
from tests.watching import Said, judged

LARGE = RunFacts(model="EfficientNet-B4", params_m=19.3, batch_size=128, memory_gib=24.0)
SMALL = RunFacts(model="ResNet-18", params_m=11.7, batch_size=128, memory_gib=24.0)
BATCH_CHANGES = {"raise_batch", "relaunch", "lower_batch"}

CELLS = {
    (20.0, "small"): ("relaunch", 256),
    (20.0, "large"): ("relaunch", 256),
    (49.0, "small"): ("relaunch", 192),
    (49.0, "large"): ("relaunch", 192),
    (50.0, "small"): ("continue", None),
    (50.0, "large"): ("raise_batch", 192),
    (59.9, "small"): ("continue", None),
    (59.9, "large"): ("raise_batch", 192),
    (60.0, "small"): ("continue", None),
    (60.0, "large"): ("continue", None),
    (69.9, "small"): ("continue", None),
    (69.9, "large"): ("continue", None),
    (70.0, "small"): ("continue", None),
    (70.0, "large"): ("continue", None),
    (90.0, "small"): ("continue", None),
    (90.0, "large"): ("continue", None),
    (95.0, "small"): ("continue", None),
    (95.0, "large"): ("continue", None),
}
"""49 % takes the next rung only: twice the batch would pass 95 % of the card."""

SAID = {50.0: "under 50 %", 60.0: "", 70.0: "", 90.01: "inside 70-90 %", 101.0: "near the limit"}
"""What R23 says of each band whatever the model."""

PEAKS = ("peak_allocated_gib", "peak_reserved_gib", "reserved_gib", "used_gib", "process_gib", "memory_gib")
BETWEEN = "allocated_gib"


def at(percent: float, field: str, facts: RunFacts, expected: Expectation | None = None) -> Verdict:
    figure = percent if field == "memory_percent" else percent * 0.24
    said: list[Said] = [("gpu", 30.0, {field: figure}), ("batch", 61.0, {"steps": 100})]
    return judged(facts, said, expected)


@pytest.mark.parametrize("field", [*PEAKS, "memory_percent"])
@pytest.mark.parametrize(("percent", "size"), CELLS)
def test_cell(percent: float, size: str, field: str) -> None:
    answer = at(percent, field, SMALL if size == "small" else LARGE)
    action, batch = CELLS[percent, size]
    assert answer.model_class == size
    assert answer.reading == MEMORY_FIELDS.get(field, "unstated")
    assert f"{percent:g} %" in answer.why
    assert answer.severity == ("warning" if action == "relaunch" else "info")
    assert SAID[next(end for end in SAID if percent < end)] in answer.why
    assert answer.action == action
    assert answer.set.get("batch_size") == batch
    assert answer.rule == "R23"
    assert answer.fill_percent == pytest.approx(percent, abs=0.01)


def test_a_middling_fill_is_fine_for_a_small_model_and_noted_for_a_large_one() -> None:
    assert "good for a small model" in at(65.0, "used_gib", SMALL).why
    assert "acceptable, not ideal, for a large model" in at(65.0, "used_gib", LARGE).why
    assert "acceptable for a small model" in at(55.0, "used_gib", SMALL).why
    assert "optional" in at(55.0, "used_gib", LARGE).why


@pytest.mark.parametrize(("percent", "size"), CELLS)
def test_allocated_now_never_moves_the_batch(percent: float, size: str) -> None:
    answer = at(percent, BETWEEN, SMALL if size == "small" else LARGE)
    assert answer.reading == "allocated_now"
    assert answer.action == ("add_monitoring" if percent < 50.0 else "continue")
    assert "batch_size" not in answer.set
    assert "batch_size" not in answer.next_time


@given(
    st.floats(0.1, 120.0), st.sampled_from(("small", "large")), st.integers(1, 4096), st.floats(60.0, 3000.0),
    st.sampled_from((None, 3.0, 10.0, 600.0)),
)  # fmt: skip
def test_allocated_now_alone_never_moves_any_batch(
    percent: float, size: str, batch: int, seconds: float, minutes: float | None
) -> None:
    facts = replace(SMALL if size == "small" else LARGE, batch_size=batch, minutes=minutes)
    answer = judged(facts, [("gpu", seconds, {BETWEEN: percent * 0.24}), ("batch", seconds, {"steps": 100})])
    assert answer.action not in BATCH_CHANGES


@pytest.mark.parametrize("field", PEAKS)
def test_the_peak_counts_and_not_what_was_seen_between_steps(field: str) -> None:
    said: list[Said] = [
        ("gpu", 20.0, {BETWEEN: 0.3}),
        ("gpu", 30.0, {field: 18.0}),
        ("gpu", 50.0, {BETWEEN: 0.3}),
        ("batch", 61.0, {"steps": 100}),
    ]
    answer = judged(LARGE, said)
    assert (answer.action, answer.reading) == ("continue", MEMORY_FIELDS[field])


def test_this_process_counts_and_not_its_neighbours() -> None:
    said: list[Said] = [
        ("gpu", 30.0, {"used_gib": 22.0, "process_gib": 6.0}),
        ("batch", 61.0, {"steps": 100}),
    ]
    answer = judged(LARGE, said)
    assert answer.fill_percent == pytest.approx(25.0)
    assert answer.action == "relaunch"


@given(
    st.floats(1.0, 69.9), st.sampled_from(PEAKS), st.integers(1, 20_000), st.integers(1, 2_000_000),
    st.integers(1, 20_000), st.integers(2, 20_000),
)  # fmt: skip
def test_a_raised_batch_is_a_rung_that_fits_what_is_known(
    percent: float, field: str, batch: int, n_train: int, largest: int, refused: int
) -> None:
    facts = replace(LARGE, batch_size=batch, n_train=n_train)
    answer = at(percent, field, facts, Expectation(largest_batch=largest, refused_batch=refused))
    new = answer.set.get("batch_size")
    if new is not None:
        assert new in BATCH_LADDER
        assert batch < new <= 2 * batch
        assert new <= largest
        assert new < refused
        assert new * percent / batch <= 95.0 + 1e-9
        assert n_train * 0.8 / new >= 29.9


def test_nothing_larger_than_what_ran_out_of_memory_is_ever_said() -> None:
    answer = at(40.0, "used_gib", LARGE, Expectation(refused_batch=192))
    assert answer.action == "continue"
    assert "192 ran out of memory" in answer.why


CURVE = ((64, 700.0), (128, 800.0), (192, 820.0), (256, 830.0))
RATE = Estimate(800.0, 700.0, 900.0)


def measured(rate: float, percent: float, expected: Expectation) -> Verdict:
    said: list[Said] = [
        ("gpu", 30.0, {"peak_allocated_gib": percent * 0.24}),
        ("batch", 61.0, {"steps": 100, "seconds": 12_800 / rate, "samples": 12_800}),
    ]
    return judged(LARGE, said, expected)


@pytest.mark.parametrize("percent", [30.0, 55.0])
def test_throughput_decides_where_the_card_gives_what_it_can(percent: float) -> None:
    answer = measured(790.0, percent, Expectation(samples_per_second=RATE, curve=CURVE))
    assert answer.action == "continue"
    assert "throughput decides" in answer.why


@pytest.mark.parametrize("rate", [681.0, 679.0, 590.0])
def test_a_speed_inside_its_interval_is_as_predicted(rate: float) -> None:
    wide = Estimate(800.0, 580.0, 1100.0)
    answer = measured(rate, 30.0, Expectation(samples_per_second=wide, curve=CURVE))
    assert answer.action == "continue"
    assert answer.why.startswith("Memory is at 30 % (7.2 of 24.0 GiB"), "of whatever class of models"
    assert " model" not in answer.why


def test_a_run_that_is_slow_is_not_started_again_for_a_batch_that_would_not_help() -> None:
    answer = measured(300.0, 30.0, Expectation(samples_per_second=RATE, curve=CURVE))
    assert (answer.action, answer.rule) == ("investigate", "R18")
    assert "batch_size" not in answer.set


@pytest.mark.parametrize("percent", [30.0, 55.0])
def test_the_fill_decides_where_a_larger_batch_is_predicted_to_be_faster(percent: float) -> None:
    curve = ((64, 450.0), (128, 800.0), (192, 1000.0), (256, 1200.0))
    answer = measured(790.0, percent, Expectation(samples_per_second=RATE, curve=curve))
    assert answer.action in {"relaunch", "raise_batch"}


def test_a_knee_that_an_earlier_run_measured_decides() -> None:
    answer = measured(640.0, 55.0, Expectation(tried=((64, 630.0),)))
    assert answer.action == "continue"
    assert "past the knee of throughput, measured" in answer.why


def test_the_fill_that_the_plan_expects_is_no_alarm() -> None:
    planned = Expectation(batch_size=128, planned=True, driver_gib=Estimate(9.0, 8.5, 9.7))
    answer = at(37.0, "used_gib", LARGE, planned)
    assert answer.action == "continue"
    assert "as the plan expects" in answer.why


def test_far_less_than_the_plan_expects_is_an_alarm() -> None:
    planned = Expectation(batch_size=128, planned=True, driver_gib=Estimate(18.0, 17.0, 19.3))
    assert at(37.0, "used_gib", LARGE, planned).action == "relaunch"


def test_late_in_the_run_the_batch_is_left_for_next_time() -> None:
    """R24."""
    facts = replace(LARGE, minutes=20.0)
    said: list[Said] = [("gpu", 30.0, {"used_gib": 6.0}), ("batch", 400.0, {"steps": 1000})]
    answer = judged(facts, said)
    assert (answer.action, answer.rule) == ("continue", "R24")
    assert answer.next_time == {"batch_size": 256}


def test_accumulated_gradients_shrink_as_the_batch_grows() -> None:
    said: list[Said] = [
        ("note", 1.0, {"grad_accumulation": 4}),
        ("gpu", 30.0, {"used_gib": 6.0}),
        ("batch", 61.0, {"steps": 100}),
    ]
    assert judged(LARGE, said).set == {"batch_size": 256, "grad_accumulation": 2}


def test_no_reading_asks_for_monitoring() -> None:
    """R20."""
    answer = judged(LARGE, [("batch", 61.0, {"steps": 100})])
    assert (answer.action, answer.rule, answer.reading) == ("add_monitoring", "R20", None)
    assert answer.set["call"] == "torch.cuda.max_memory_allocated()"


@pytest.mark.parametrize(
    "facts", [replace(LARGE, device_kind="cpu"), RunFacts(model="lightgbm", task="tabular-regression")]
)
def test_without_a_card_in_use_no_reading_is_asked_for(facts: RunFacts) -> None:
    assert judged(facts, [("batch", 61.0, {"steps": 100})]).action == "continue"


def test_fill_is_of_the_card_that_was_planned_for() -> None:
    """R06: an A100 is seen, an A10 is planned for."""
    said: list[Said] = [
        ("gpu", 30.0, {"memory_gib": 18.3, "total_gib": 40.0}),
        ("batch", 61.0, {"steps": 100}),
    ]
    assert judged(LARGE, said).fill_percent == pytest.approx(76.25)


@pytest.mark.parametrize(
    ("name", "params_m", "size"),
    [
        ("ResNet-18", 0, "small"), ("resnet34.a1_in1k", 21.8, "small"), ("EfficientNet-B0", 0, "small"),
        ("efficientnet-b1", 0, "small"), ("tf_efficientnet_b2", 9.1, "small"),
        ("MobileNetV3-Large", 5.5, "small"),
        ("MLP", 0, "small"), ("logistic regression", 0, "small"), ("linear", 0, "small"),
        ("EfficientNet-B4", 0, "large"), ("efficientnetb5", 0, "large"),
        ("tf_efficientnet_b6_ns", 0, "large"),
        ("EfficientNet-B7", 0, "large"), ("ResNet-101", 0, "large"), ("resnet152", 0, "large"),
        ("ViT-Base", 0, "large"), ("vit_large_patch16_224", 304, "large"), ("BERT", 0, "large"),
        ("roberta-base", 125, "large"), ("GPT-2", 0, "large"), ("DenseNet-161", 0, "large"),
        ("EfficientNetV2-L", 0, "large"), ("tf_efficientnetv2_l", 118, "large"),
        ("resnet50", 25.6, "large"), ("my_network", 80.0, "large"), ("my_network", 3.0, "small"),
    ],
)  # fmt: skip
def test_r22_by_name_else_by_parameters(name: str, params_m: float, size: str) -> None:
    assert class_of_model(name, params_m) == size


B4_PREDICTED = Expectation(batch_size=128, driver_gib=Estimate(16.2, 15.2, 17.4), largest_batch=128)


@pytest.mark.parametrize("field", ["used_gib", "peak_allocated_gib", "memory_gib"])
def test_memory_measured_below_its_prediction_says_what_fits(field: str) -> None:
    """Source 002's 12.3 of 24 GB at batch 128, of which 15.2 or more were predicted: measured goes first."""
    assert at(51.25, field, LARGE, B4_PREDICTED).set == {"batch_size": 192}


def test_memory_measured_as_predicted_leaves_the_predicted_limit() -> None:
    answer = at(47.0, "used_gib", LARGE, replace(B4_PREDICTED, driver_gib=Estimate(11.5, 10.9, 12.3)))
    assert answer.action == "continue"
    assert "more is predicted not to fit" in answer.why
