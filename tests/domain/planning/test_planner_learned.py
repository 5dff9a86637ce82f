"""Do the laws of plans hold on cards that were calibrated and whose runs were observed, whatever was seen?"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_service.domain.calibration.calibration import Calibration
from memory_service.domain.calibration.memory_overhead import MemoryOverhead
from memory_service.domain.cost.step_config import StepConfig, layout_of, precision_class
from memory_service.domain.cost.throughput_knee import BATCH_LADDER, throughput_knee
from memory_service.domain.learning.observation import Observation
from memory_service.domain.planning.candidates import price_candidates
from memory_service.domain.planning.cost_table import build_table
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.portfolio.portfolio_plan import plan_portfolio
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import allocated_limit_gib, observed_bounds, peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.services.devices.calibrations import reference_profiles
from memory_service.services.devices.devices import Device, KeptCalibration
from memory_service.services.knowledge.cards import Cards, cards_of
from memory_service.services.knowledge.decoder_options import Asked
from memory_service.services.knowledge.learned_corrections import observation_selection
from tests.planning import case, promises_kept, seed_knowledge
from tests.registered import A100, measurement

DEVICE = "box7"
MODELS = {
    "resnet50": "resnet", "resnet18": "resnet", "vit_base_patch16_224": "vit", "convnext_tiny": "convnext",
    "efficientnet_b0": "efficientnet", "tf_efficientnet_b4": "efficientnet",
}  # fmt: skip
RATES = {"matmul.bf16.4096": 150.0, "matmul.bf16.8192": 160.0, "bandwidth.copy": 900.0, "launch.us": 9.0}
NO_RUN = Observation(
    gpu="a100", device=DEVICE, model="resnet50", family="resnet", input_size=224, precision="bf16",
    batch_size=32,
)  # fmt: skip


@lru_cache(maxsize=1)
def calibrated() -> Cards:
    """The seeds' cards with box7, an A100 measured at about two thirds of its rates."""
    device = Device(DEVICE, "a100", A100, host=None)
    sections = {name: measurement(name, value) for name, value in RATES.items()}
    kept = KeptCalibration(Calibration("c1", DEVICE, A100, "done", 60.0, sections), "a100", ())
    return cards_of(seed_knowledge().cards.sheets, [device], [kept], reference_profiles())


@st.composite
def runs(draw: st.DrawFn) -> list[Observation]:
    """What a few runs showed: slower or faster, with more memory or less, out of memory, absurd."""
    out = []
    for index in range(draw(st.integers(0, 6))):
        model = draw(st.sampled_from(sorted(MODELS)))
        failed = draw(st.booleans()) and draw(st.booleans())
        out.append(
            replace(
                NO_RUN,
                model=model,
                family=MODELS[model],
                input_size=draw(st.sampled_from([160, 224, 288, 384])),
                batch_size=draw(st.sampled_from([1, 4, 16, 64, 96, 256])),
                device=draw(st.sampled_from([DEVICE, DEVICE, ""])),
                out_of_memory=failed,
                step_seconds=None if failed else draw(st.floats(1e-3, 30.0)),
                peak_driver_gib=None if failed else draw(st.none() | st.floats(1.0, 39.0)),
                peak_allocated_gib=None if failed else draw(st.none() | st.floats(0.5, 38.0)),
                run_id=f"r{index}",
                at=f"2026-11-{index + 1:02d}",
            )
        )
    return out


def card_after(observations: list[Observation]) -> TargetDevice:
    cards = calibrated()
    return cards.taught(observation_selection(cards, observations, seed_knowledge().priced)).named(DEVICE)


def asked(card: TargetDevice, **facts: Any) -> PlanningProblem:
    return replace(case(task="image", gpu="a100", **facts), cards=(card,))


def quality(card: TargetDevice, **facts: Any) -> float:
    on_card = asked(card, **facts)
    choice = price_candidates(on_card, seed_knowledge()).best(
        on_card.question.objective, on_card.question.minutes
    )
    if choice is None:
        return -1.0
    return choice.quality


MODEL = st.sampled_from(sorted(MODELS))


@settings(max_examples=8, deadline=None)
@given(runs(), st.floats(2, 300), st.floats(2, 300), st.sampled_from(["fast", "balanced", "quality"]))
def test_more_minutes_never_lower_the_expected_quality(
    seen: list[Observation], first: float, second: float, objective: str
) -> None:
    card = card_after(seen)
    facts = {"n_train": 40_000, "objective": objective}
    low, high = (quality(card, **facts, minutes=minutes) for minutes in sorted((first, second)))
    assert high >= low


@settings(max_examples=25, deadline=None)
@given(runs(), MODEL, st.floats(2, 60), st.floats(2, 60), st.integers(100, 500_000))
def test_more_memory_never_lowers_the_batch_of_a_pinned_model(
    seen: list[Observation], model: str, first: float, second: float, n_train: int
) -> None:
    card, batches = card_after(seen), []
    for vram in sorted((first, second)):
        search = price_candidates(
            asked(card, model=model, vram_gib=vram, n_train=n_train), seed_knowledge()
        ).sets[0]
        batches.append(int(search.grid.batches.batch_size[0]))
    assert batches[0] <= batches[1]


@settings(max_examples=25, deadline=None)
@given(runs(), MODEL, st.sampled_from([1, 8, 32, 100]), st.integers(2, 30), st.integers(2, 30))
def test_a_larger_image_never_needs_less_memory(
    seen: list[Observation], model: str, batch: int, first: int, second: int
) -> None:
    card, peaks = card_after(seen), list[float]()
    for size in sorted((first * 16, second * 16)):
        on_card = asked(card, n_train=5000, model=model, batch_size=batch, image_size=size, vram_gib=4000)
        search = price_candidates(on_card, seed_knowledge()).sets[0]
        peaks.extend(search.grid.batches.peak_gib[:1] if search.table.options else [])
    assert peaks == sorted(peaks)


@settings(max_examples=25, deadline=None)
@given(runs(), MODEL, st.integers(2, 24), st.integers(2, 24))
def test_a_larger_image_never_gets_a_larger_batch_from_memory(
    seen: list[Observation], model: str, first: int, second: int
) -> None:
    card, largest = card_after(seen), []
    for size in sorted((first * 16, second * 16), reverse=True):
        search = price_candidates(
            asked(card, n_train=5000, model=model, image_size=size), seed_knowledge()
        ).sets[0]
        if search.table.options:
            index = int(search.table.largest(search.table.plain, 0.0, False)[0])
            largest.append(search.table.rungs[index] if index >= 0 else 0)
    assert largest == sorted(largest)


@settings(max_examples=10, deadline=None)
@given(runs(), st.floats(3, 300), st.integers(200, 500_000), st.none() | st.integers(1, 300))
def test_any_plan_keeps_its_promises_and_its_distance_from_what_ran_out(
    seen: list[Observation], minutes: float, n_train: int, batch: int | None
) -> None:
    card = card_after(seen)
    answer = plan_portfolio(asked(card, minutes=minutes, n_train=n_train, batch_size=batch), seed_knowledge())
    plan = answer.as_dict()
    if not plan["feasible"]:
        assert plan["why"]
        return
    assert promises_kept(plan) == []
    for failed in seen:
        if not failed.out_of_memory or _lifted(failed, seen):
            continue
        for entry in (plan, *plan["alternatives"]):
            model = entry["model"] if isinstance(entry["model"], str) else entry["model"]["name"]
            size = entry.get("image_size") or plan["model"].get("image_size")
            if model.split(".")[0] == failed.model and size >= failed.input_size and _at_home(failed):
                assert entry["batch_size"] < failed.batch_size


def _at_home(failed: Observation) -> bool:
    return failed.device in (DEVICE, "")


def _lifted(failed: Observation, seen: list[Observation]) -> bool:
    return any(
        not o.out_of_memory and o.model == failed.model and o.at > failed.at
        and o.batch_size >= failed.batch_size and o.input_size >= failed.input_size
        for o in seen
    )  # fmt: skip


SET_ASIDE = replace(NO_RUN, device="", step_seconds=1.0, peak_allocated_gib=25.9, peak_driver_gib=3.7)
ONE_READING_EACH = [
    replace(NO_RUN, device="", model="convnext_tiny", family="convnext", peak_driver_gib=36.0),
    replace(NO_RUN, model="efficientnet_b0", family="efficientnet", peak_allocated_gib=6.0),
]
"""What the driver showed is known of one family only, what was allocated of another."""


@given(seen=runs())
@example(seen=[SET_ASIDE])
@example(seen=ONE_READING_EACH)
@settings(max_examples=3, deadline=None)
def test_a_table_says_of_each_network_what_it_is_predicted_alone(seen: list[Observation]) -> None:
    """Memory, step time and knee of all options at once are those of each profile at each batch."""
    cpu = next(card for card in calibrated().sheets.values() if card.kind == "cpu")
    rates = card_after(seen).calibrated
    assert rates is not None
    measured_cpu = replace(cpu, calibrated=replace(rates, memory=MemoryOverhead(0.4, 1.2), cpu=True))
    known = seed_knowledge().priced
    options = [
        option
        for option in known.options("image-classification", Asked(), None)
        if option.model.name.split(".")[0] in MODELS
    ]
    # Weights of other trainings have the same costs: one of each network at each size is predicted alone.
    alone = {(option.model.name.split(".")[0], option.input_size): n for n, option in enumerate(options)}
    assert len(alone) < len(options)
    for card in (card_after(seen), replace(card_after(seen), learned=None), cpu, measured_cpu):
        for precision in ("bf16", "fp32"):
            table = build_table(options, card, precision)
            for row in alone.values():
                option = options[row]
                profile = option.profile[precision_class(precision)]
                config = StepConfig(precision, layout_of(profile, card), option.defaults.optimizer)
                step = prepare(profile, card, config)
                refused = observed_bounds(profile, card, config).refused
                for n, batch in enumerate(BATCH_LADDER[: len(table.rungs)]):
                    one = peak_memory(profile, batch, card, config)
                    if np.isnan(table.plain.peak_gib[row, n]):
                        over = one.allocated_gib.value > allocated_limit_gib(card)
                        assert over or one.driver_gib.high > card.usable_gib or batch >= (refused or 10**6)
                        break
                    assert table.plain.peak_gib[row, n] == pytest.approx(one.driver_gib.value, rel=1e-9)
                    assert table.plain.peak_high_gib[row, n] == pytest.approx(one.driver_gib.high, rel=1e-9)
                    expected = step.step_seconds(batch)
                    assert table.plain.step_s[row, n] == pytest.approx(expected.value, rel=1e-9)
                    assert table.plain.step_s_low[row, n] == pytest.approx(expected.low, rel=1e-9)
                    assert table.plain.step_s_high[row, n] == pytest.approx(expected.high, rel=1e-9)
                    assert BATCH_LADDER[table.knee[row]] == throughput_knee(step.seconds_many, 1024)
