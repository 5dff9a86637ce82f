"""Observed runs correct the next prediction: as far as they insist, and no further."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from math import exp, log
from typing import Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.cost.profile import PeakPoint, Profile, Work
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.cost.step_time import PARTS, StepModel
from memory_service.domain.learning.corrections import (
    MOST_OBSERVATIONS,
    MOST_OF_A_CASE,
    LearnedCorrections,
    learn,
)
from memory_service.domain.learning.observation import Exclusion, Observation, PredictionKey, prediction_key
from memory_service.domain.learning.observation_selection import ObservationSelection
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import largest_batch, peak_memory
from memory_service.domain.prediction.device_step_time import baseline_prediction, prepare

AMP = StepConfig("bf16")
MIB = 2.0**20
CARD = TargetDevice(
    "a40", "A40", "cuda", "ampere", 44.0, 43.5, 700.0, {"fp32": 37.0, "fp16": 150.0, "bf16": 150.0}, 8.6
)
BOX = replace(CARD, device="box7")
MOVED = Work(0.0, 1.4e8, 0.0, 0.0, 200)


def profile(model: str, family: str, size: int = 224, scale: float = 1.0) -> Profile:
    return Profile(
        model=model, library="timm", input_kind="image_size", input_size=size, precision="amp",
        params=25_000_000, buffers_bytes=0,
        peak=(PeakPoint(300 * MIB, 90 * MIB * scale),), inference_peak=(PeakPoint(150 * MIB, 10 * MIB),),
        forward={"dense_conv": Work(8e9 * scale, 4e7, 0.0, 5e7, 60), "elementwise": MOVED},
        backward={"dense_conv": Work(16e9 * scale, 8e7, 0.0, 1e8, 120), "elementwise": MOVED},
        family=family,
    )  # fmt: skip


PROFILES = {
    name: profile(name, family, scale=scale)
    for name, family, scale in (
        ("resnet18", "resnet", 0.5), ("resnet50", "resnet", 1.0), ("resnet101", "resnet", 2.0),
        ("resnet152", "resnet", 3.0), ("vit_small", "vit", 1.0), ("vit_base", "vit", 3.0),
    )
}  # fmt: skip


def cold_profile(observation: Observation) -> Profile:
    return replace(PROFILES[observation.model], input_size=observation.input_size)


def taught(observations: list[Observation], gpu: TargetDevice = BOX) -> TargetDevice:
    return replace(gpu, learned=learned(observations))


def learned(observations: list[Observation]) -> LearnedCorrections:
    return learn(observations, lambda o: baseline_prediction(o, cold_profile(o), BOX if o.device else CARD))


def ran(
    model: str = "resnet50",
    times: float | None = 1.0,
    run: str = "run 1",
    gpu: TargetDevice = BOX,
    batch: int = 64,
    **more: Any,
) -> Observation:
    """A run that took `times` as long as predicted."""
    p = PROFILES[model]
    more = {"n": 50, "at": "2026-11-20T10:00:00Z", "input_size": 224, **more}
    seconds = None if times is None else times * step(model, gpu).seconds(batch)
    return Observation(
        gpu=gpu.slug, device=gpu.device, model=model, family=p.family, precision="bf16", batch_size=batch,
        step_seconds=seconds, run_id=run, **more,
    )  # fmt: skip


def step(model: str, gpu: TargetDevice) -> StepModel:
    return prepare(PROFILES[model], gpu, StepConfig("bf16"))


def moved(model: str, gpu: TargetDevice, batch: int = 64) -> float:
    """Predicted time over the prediction before anything was learned."""
    return step(model, gpu).seconds(batch) / step(model, replace(gpu, learned=None)).seconds(batch)


@pytest.mark.parametrize("gpu", [BOX, CARD], ids=["registered device", "GPU model"])
@pytest.mark.parametrize("slower", [1.3, 1 / 0.7, 0.7])
@pytest.mark.parametrize("models", [("resnet50",) * 3, ("resnet18", "resnet50", "resnet101")])
@pytest.mark.parametrize("asked", ["resnet50", "resnet152"])
def test_three_runs_bring_the_next_prediction_of_the_family_within_5_percent(
    gpu: TargetDevice, slower: float, models: tuple[str, ...], asked: str
) -> None:
    runs = [ran(model, slower, f"run {i}", gpu) for i, model in enumerate(models)]
    assert moved(asked, taught(runs, gpu)) == pytest.approx(slower, rel=0.05)


def test_another_family_on_the_device_follows_less() -> None:
    gpu = taught([ran(model, 1.3, model) for model in ("resnet18", "resnet50", "resnet101")])
    assert 1.0 < moved("vit_base", gpu) < moved("resnet152", gpu)


def test_two_families_that_agree_say_it_is_the_device() -> None:
    one = [ran(model, 1.3, model) for model in ("resnet18", "resnet50")]
    both = [*one, ran("vit_small", 1.3, "vit")]
    unseen = replace(PROFILES["resnet50"], model="mixer", family="mixer")

    def factor(runs: list[Observation]) -> float:
        return prepare(unseen, taught(runs), StepConfig("bf16")).of_one.factor.item()

    assert factor(both) > factor(one) > 1.0


@pytest.mark.parametrize("times", [100.0, 0.01])
def test_one_absurd_observation_moves_nothing(times: float) -> None:
    known = [ran("resnet50", 1.2, f"run {i}") for i in range(3)]
    absurd = ran("resnet50", times, "absurd", batch=32)
    for model in PROFILES:
        assert moved(model, taught([absurd])) == 1.0
        assert moved(model, taught([*known, absurd])) == pytest.approx(moved(model, taught(known)), rel=1e-9)
    assert learned([*known, absurd]).set_aside == (absurd,)


def test_what_is_far_off_is_believed_when_three_runs_agree() -> None:
    def factor(runs: list[str]) -> float:
        return moved(
            "resnet50", taught([ran("resnet50", 6.0, run, batch=8 * (i + 1)) for i, run in enumerate(runs)])
        )

    assert factor(["one", "two", "three"]) == pytest.approx(6.0, rel=0.1)
    assert factor(["one", "two"]) == 1.0
    assert factor(["one", "one", "one"]) == 1.0


def test_three_runs_of_one_reporter_overturn_nothing_that_another_told() -> None:
    known = ran("resnet50", 1.1, "theirs", reporter="key b")

    def factor(*reporters: str) -> float:
        slow = [ran("resnet50", 6.0, f"run {i}", reporter=each) for i, each in enumerate(reporters)]
        return moved("resnet50", taught([*slow, known]))

    before = moved("resnet50", taught([known]))
    assert factor("key a", "key a", "key a") == pytest.approx(before, rel=1e-9)
    assert factor("key a", "key a", "key c") > 2.0


def test_many_runs_of_one_reporter_push_nobody_elses_out() -> None:
    at = "2026-11-21T10:00:{:02d}Z"
    flood = [ran("resnet50", 6.0, f"run {i}", reporter="key a", at=at.format(i)) for i in range(20)]
    known = ran("resnet50", 1.1, "theirs", reporter="key b")
    chosen = ObservationSelection(
        [*flood, known], lambda o: baseline_prediction(o, cold_profile(o), BOX)
    ).about(BOX.device, BOX.slug)
    assert moved("resnet50", replace(BOX, learned=chosen)) < 1.2
    assert len(chosen.set_aside) == MOST_OF_A_CASE - 1


def test_on_a_device_known_to_be_slow_an_ordinary_run_is_the_odd_one() -> None:
    slow = [ran(model, 6.0, model) for model in PROFILES if model != "resnet152"]
    odd = ran("resnet152", 1.0, "odd")
    assert learned([*slow, odd]).set_aside == (odd,)


@pytest.mark.parametrize("why", get_args(Exclusion))
def test_contended_throttled_and_loader_bound_runs_say_nothing_of_speed(why: Exclusion) -> None:
    runs = [ran(times=1.5, run=f"run {i}", excluded=why, peak_driver_gib=20.0) for i in range(3)]
    gpu = taught(runs)
    assert moved("resnet50", gpu) == 1.0
    assert peak_memory(PROFILES["resnet50"], 64, gpu, AMP).driver_gib.value > (
        peak_memory(PROFILES["resnet50"], 64, BOX, AMP).driver_gib.value
    )


def test_the_first_epoch_is_kept_apart() -> None:
    one = learned([ran(times=None, run=f"run {i}", first_epoch_ratio=1.5) for i in range(3)])
    assert moved("resnet50", replace(BOX, learned=one)) == 1.0


def subject() -> PredictionKey:
    return prediction_key(PROFILES["resnet50"], BOX, StepConfig("bf16"))


def test_a_time_out_is_a_lower_bound() -> None:
    predicted = step("resnet50", BOX).seconds(64)
    above = ran(times=None, at_least_seconds=1.5 * predicted)
    below = ran(times=None, at_least_seconds=0.5 * predicted)
    assert moved("resnet50", taught([above])) > 1.2
    assert moved("resnet50", taught([below])) == 1.0
    known = [ran(times=2.0, run=f"run {i}") for i in range(3)]
    assert moved("resnet50", taught([*known, above])) == pytest.approx(moved("resnet50", taught(known)))


def test_only_the_very_case_is_graded_measured() -> None:
    gpu = taught([ran("resnet50", 1.1, "run 1"), ran("resnet50", 1.1, "run 2", batch=32)])
    here, kin = (step(m, gpu).step_seconds(64) for m in ("resnet50", "resnet101"))
    assert (here.grade, here.n) == ("measured", 2)
    assert "residual of 2 runs of resnet50 at 224" in here.basis
    assert (kin.grade, kin.n) == ("estimated", 2)
    assert "2 runs of resnet on box7" in kin.basis
    assert (
        prepare(replace(PROFILES["resnet50"], input_size=320), gpu, StepConfig("bf16")).grade == "estimated"
    )


def test_what_another_device_showed_is_not_said_of_this_one() -> None:
    known = learned([ran("resnet50", 1.2, f"run {i}") for i in range(2)])
    there, model = (
        prediction_key(PROFILES["resnet50"], replace(CARD, device=d), StepConfig("bf16"))
        for d in ("box8", "")
    )
    for subject in (there, model):
        found = known.time_of(subject, np.zeros((1, len(PARTS))), 0.1)
        assert found is not None
        assert found.basis == "residual of 2 runs of resnet50 at 224 on this GPU model"


def test_one_network_says_nothing_of_the_device_two_do() -> None:
    one = taught([ran("resnet50", 1.2, f"run {i}") for i in range(3)])
    two = taught([ran("resnet50", 1.2, "run 1"), ran("resnet18", 1.2, "run 2")])
    other = replace(CARD, slug="l4")
    for gpu, is_told in ((one, False), (two, True)):
        assert (moved("vit_base", gpu) > 1.0) is is_told
        assert ("2 runs of other models" in step("vit_base", gpu).basis) is is_told
        assert ("on other cards" in step("resnet50", replace(other, learned=gpu.learned)).basis) is is_told
    assert step("vit_base", two).grade == "estimated"
    # What a network has to itself is wide (0.33 in all) beside the noise of one step (0.054).
    assert moved("resnet50", taught([ran("resnet50", 1.3, n=1)])) == pytest.approx(1.3**0.97, rel=0.01)


def test_intervals_narrow_with_runs_and_never_below_two_percent() -> None:
    widths = []
    for n in (0, 1, 4, 40):
        seen = step("resnet50", taught([ran(run=f"run {i}", batch=8 + i) for i in range(n)])).step_seconds(64)
        widths.append(seen.high / seen.low)
    assert all(later <= earlier for earlier, later in pairwise(widths))
    assert widths[-1] < widths[0] / 1.1
    assert widths[-1] >= 1.02**2


def test_an_out_of_memory_refuses_its_batch_until_a_later_success() -> None:
    failed = ran(times=None, batch=96, out_of_memory=True)
    p = PROFILES["resnet50"]
    assert largest_batch(p, BOX, AMP) > 96
    gpu = taught([failed])
    assert largest_batch(p, gpu, AMP) == 64
    assert largest_batch(p, gpu, AMP, ladder=None, confidence="p10") == 95
    for batch in (96, 128, 1024):
        assert peak_memory(p, batch, gpu, AMP).driver_gib.value > gpu.usable_gib
    assert peak_memory(p, 64, gpu, AMP).driver_gib.high < gpu.usable_gib
    earlier = ran(batch=128, run="earlier", at="2026-11-19T10:00:00Z")
    smaller = ran(batch=64, run="smaller", at="2026-11-21T10:00:00Z")
    later = ran(batch=128, run="later", at="2026-11-21T10:00:00Z")
    assert largest_batch(p, taught([failed, earlier, smaller]), AMP) == 64
    assert largest_batch(p, taught([failed, later]), AMP) == largest_batch(p, BOX, AMP)
    again = ran(times=None, batch=128, out_of_memory=True, at="2026-11-22T10:00:00Z")
    assert largest_batch(p, taught([failed, later, again]), AMP) == 96


def later(count: int, **more: Any) -> list[Observation]:
    """Runs that end one after another, a day behind the others."""
    return [ran(run=f"later {i}", at=f"2026-11-22T10:00:{i:02}Z", **more) for i in range(count)]


def test_a_success_that_lifted_an_out_of_memory_is_not_forgotten_over_later_smaller_runs() -> None:
    failed = ran(times=None, batch=96, out_of_memory=True)
    lifted = ran(batch=128, run="lifted", at="2026-11-21T10:00:00Z")
    p = PROFILES["resnet50"]
    assert largest_batch(p, taught([failed, lifted, *later(20, batch=32)]), AMP) == largest_batch(p, BOX, AMP)


def test_an_out_of_memory_is_not_forgotten_over_later_larger_ones() -> None:
    failed = ran(times=None, batch=96, out_of_memory=True)
    larger = later(20, times=None, batch=128, out_of_memory=True)
    assert largest_batch(PROFILES["resnet50"], taught([failed, *larger]), AMP) == 64


def test_an_out_of_memory_holds_for_what_needs_as_much_and_nothing_else() -> None:
    gpu = taught([ran(times=None, batch=96, out_of_memory=True, optimizer="sgd")])
    p = PROFILES["resnet50"]
    assert largest_batch(replace(p, input_size=256), gpu, AMP) == 64
    assert largest_batch(replace(p, input_size=192), gpu, AMP) > 96
    assert largest_batch(p, gpu, AMP) == 64
    assert largest_batch(p, gpu, StepConfig("bf16", optimizer="sgd-plain")) > 96
    assert largest_batch(PROFILES["resnet101"], gpu, AMP) >= 96
    assert largest_batch(p, gpu, StepConfig("bf16", mode="infer")) > 96
    assert largest_batch(p, replace(gpu, device="box8", memory_gib=80.0, usable_gib=79.0), AMP) > 96
    assert largest_batch(p, replace(gpu, device="box9", memory_gib=24.0, usable_gib=23.5), AMP) <= 64
    assert largest_batch(p, replace(gpu, slug="a6000", device=""), AMP) > 96


def test_a_batch_that_ran_fits() -> None:
    p = PROFILES["resnet50"]
    most = largest_batch(p, BOX, AMP, ladder=None)
    gpu = taught([ran(batch=most + 200)])
    assert largest_batch(p, gpu, AMP, ladder=None) == most + 200
    assert peak_memory(p, most + 200, gpu, AMP).driver_gib.high <= gpu.usable_gib
    assert largest_batch(p, replace(gpu, memory_gib=24.0, usable_gib=23.5), AMP, ladder=None) < most


def test_peaks_are_learned_each_in_its_own_sense() -> None:
    p = PROFILES["resnet50"]
    cold = peak_memory(p, 64, BOX, AMP)
    more = {b: peak_memory(p, b, BOX, AMP).driver_gib.value + 1.0 for b in (32, 64, 128)}
    runs = [ran(times=None, run=f"at {b}", batch=b, peak_driver_gib=gib) for b, gib in more.items()]
    warm = peak_memory(PROFILES["resnet50"], 64, taught(runs), AMP)
    assert warm.driver_gib.value == pytest.approx(cold.driver_gib.value + 1.0, abs=0.1)
    assert (warm.driver_gib.grade, warm.driver_gib.n) == ("measured", 3)
    assert warm.allocated_gib == cold.allocated_gib
    kin = peak_memory(PROFILES["resnet101"], 64, taught(runs), AMP).driver_gib
    assert kin.value > peak_memory(PROFILES["resnet101"], 64, BOX, AMP).driver_gib.value + 0.5
    assert kin.grade == "estimated"


def test_the_memory_of_one_network_says_nothing_of_other_families_that_of_two_does() -> None:
    other, cold = PROFILES["vit_base"], peak_memory(PROFILES["vit_base"], 64, BOX, AMP)
    runs = []
    for name in ("resnet50", "resnet18"):
        gib = 1.0 + peak_memory(PROFILES[name], 64, BOX, AMP).driver_gib.value
        runs.append(ran(name, times=None, run=name, peak_driver_gib=gib))
    assert peak_memory(other, 64, taught(runs[:1]), AMP) == cold
    assert peak_memory(other, 64, taught(runs), AMP).driver_gib.value > cold.driver_gib.value + 0.3


def test_what_is_reserved_keeps_its_distance_above_live_memory_that_alone_was_observed() -> None:
    cold = peak_memory(PROFILES["resnet50"], 64, BOX, AMP)
    gib = 2.0 * cold.allocated_gib.value
    runs = [ran(times=None, run=f"run {i}", batch=64, peak_allocated_gib=gib) for i in range(3)]
    warm = peak_memory(PROFILES["resnet50"], 64, taught(runs), AMP)
    assert warm.allocated_gib.value > 1.8 * cold.allocated_gib.value
    for outer, inner in (("reserved_gib", "allocated_gib"), ("driver_gib", "reserved_gib")):
        apart, before = (getattr(m, outer).value - getattr(m, inner).value for m in (warm, cold))
        assert apart == pytest.approx(before)


def test_more_live_memory_than_traced_lowers_the_largest_batch() -> None:
    p = PROFILES["resnet50"]
    more = {b: 1.3 * peak_memory(p, b, BOX, AMP).allocated_gib.value for b in (32, 64, 128)}
    runs = [ran(times=None, run=f"at {b}", batch=b, peak_allocated_gib=gib) for b, gib in more.items()]
    before, after = (largest_batch(p, gpu, AMP, ladder=None) for gpu in (BOX, taught(runs)))
    assert after == pytest.approx(before / 1.3, rel=0.06)


names = st.sampled_from(sorted(PROFILES))
modes: st.SearchStrategy[Literal["train", "infer"]] = st.sampled_from(["train", "infer"])
observations = st.builds(
    ran, names, st.one_of(st.none(), st.floats(0.02, 50.0)), st.sampled_from(["a", "b", "c", "d"]),
    st.sampled_from([BOX, CARD]), st.sampled_from([8, 32, 96, 256]),
    input_size=st.sampled_from([192, 224, 288]), n=st.integers(1, 500),
    out_of_memory=st.booleans(), mode=modes,
    at=st.sampled_from(["", "2026-11-20T10:00:00Z", "2026-11-21T10:00:00Z"]),
    peak_driver_gib=st.one_of(st.none(), st.floats(0.5, 60.0)),
    peak_allocated_gib=st.one_of(st.none(), st.floats(0.1, 60.0)),
    at_least_seconds=st.one_of(st.none(), st.floats(1e-3, 10.0)),
    excluded=st.sampled_from([None, None, "contended", "loader_bound"]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(observations, max_size=10), names)
def test_whatever_was_observed_the_laws_hold(seen: list[Observation], model: str) -> None:
    gpu = taught(seen)
    one, batches = step(model, gpu), [1, 2, 7, 8, 32, 64, 95, 96, 97, 256, 257, 1024, 8192]
    seconds = one.seconds_many(batches)
    assert all(a <= b for a, b in pairwise(seconds))
    assert all(
        x / a <= (y / b) * (1 + 1e-12) for (x, a), (y, b) in pairwise(zip(batches, seconds, strict=True))
    )
    peaks = [peak_memory(PROFILES[model], batch, gpu, AMP) for batch in batches]
    assert all(a.driver_gib.value <= b.driver_gib.value + 1e-9 for a, b in pairwise(peaks))
    for peak in peaks:
        assert 0 < peak.allocated_gib.value <= peak.reserved_gib.value <= peak.driver_gib.value
        for seen_as in (peak.allocated_gib, peak.reserved_gib, peak.driver_gib, one.step_seconds(8)):
            assert seen_as.low <= seen_as.value <= seen_as.high
    less, more = (replace(gpu, usable_gib=gib) for gib in (20.0, 43.5))
    assert largest_batch(PROFILES[model], less, AMP) <= largest_batch(PROFILES[model], more, AMP)


@settings(max_examples=40, deadline=None)
@given(st.lists(observations, max_size=8).flatmap(lambda o: st.tuples(st.just(o), st.permutations(o))), names)
def test_the_order_of_observations_means_nothing(
    pair: tuple[list[Observation], list[Observation]], model: str
) -> None:
    def told(seen: list[Observation]) -> list[float]:
        gpu = taught(seen)
        peak = peak_memory(PROFILES[model], 96, gpu, AMP).driver_gib
        time = step(model, gpu).step_seconds(96)
        return [
            time.value,
            time.low,
            time.high,
            peak.value,
            peak.high,
            largest_batch(PROFILES[model], gpu, AMP),
        ]

    one, other = pair
    assert told(one) == pytest.approx(told(other), rel=1e-6)


def test_nothing_is_learned_from_what_cannot_be_predicted() -> None:
    nothing = learn([ran(times=2.0)], lambda _: None)
    assert moved("resnet50", replace(BOX, learned=nothing)) == 1.0
    assert peak_memory(PROFILES["resnet50"], 64, replace(BOX, learned=nothing), AMP) == (
        peak_memory(PROFILES["resnet50"], 64, BOX, AMP)
    )


def test_a_busy_device_does_not_crowd_out_a_quiet_one() -> None:
    draw = random.Random(3)
    busy = [
        ran(draw.choice(list(PROFILES)), 1.0, f"run {i}", batch=i % 500 + 1, input_size=32 * (i % 40 + 1),
            at="2026-11-21T10:00:00Z")
        for i in range(3 * MOST_OBSERVATIONS)
    ]  # fmt: skip
    quiet = replace(BOX, device="quiet")
    runs = [ran("resnet50", 1.3, f"quiet {i}", quiet, at="2026-01-01T10:00:00Z") for i in range(3)]
    assert moved("resnet50", taught([*busy, *runs], quiet)) == pytest.approx(1.3, rel=0.05)


def test_one_observation_of_a_well_predicted_card_does_no_harm_on_average() -> None:
    """Truth drawn from what the levels say: nobody is better off without the observation."""
    draw = random.Random(11)
    cold, warm = [], []
    for _ in range(200):
        device, family = draw.gauss(0, 0.10), draw.gauss(0, 0.30)
        seen, next_one = (device + family + draw.gauss(0, 0.13) for _ in range(2))
        predicted = moved("resnet101", taught([ran("resnet50", exp(seen))]))
        cold.append(next_one**2)
        warm.append((next_one - log(predicted)) ** 2)
    assert sum(warm) < 0.6 * sum(cold)


@pytest.mark.parametrize("figure", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_figures_teach_nothing(figure: float) -> None:
    seen = replace(ran(), step_seconds=figure, first_epoch_ratio=figure, peak_driver_gib=figure)
    gpu = taught([seen, replace(seen, step_seconds=None, at_least_seconds=figure)])
    assert moved("resnet50", gpu) == 1.0
    assert peak_memory(PROFILES["resnet50"], 32, gpu, AMP) == peak_memory(PROFILES["resnet50"], 32, BOX, AMP)
