"""The input pipeline: more workers never hurt, larger pictures never help, settings follow rule R08."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.cost.data_loader import loader_samples_per_second, loader_settings

tasks = st.sampled_from(TASKS)
sizes = st.integers(1, 4096)
counts = st.integers(1, 256)


@given(tasks, sizes, st.integers(0, 64), st.integers(0, 64), counts)
def test_more_workers_are_never_slower(task: str, size: int, one: int, other: int, cores: int) -> None:
    few, many = sorted((one, other))
    slow = loader_samples_per_second(task, size, few, cores).value
    assert loader_samples_per_second(task, size, many, cores).value >= slow


@given(tasks, sizes, st.integers(0, 64), counts, counts)
def test_more_cores_are_never_slower(task: str, size: int, workers: int, one: int, other: int) -> None:
    few, many = sorted((one, other))
    slow = loader_samples_per_second(task, size, workers, few).value
    assert loader_samples_per_second(task, size, workers, many).value >= slow


@given(tasks, sizes, sizes, counts)
def test_a_larger_input_is_never_delivered_faster(task: str, one: int, other: int, cores: int) -> None:
    small, large = sorted((one, other))
    fast = loader_samples_per_second(task, small, 8, cores).value
    assert loader_samples_per_second(task, large, 8, cores).value <= fast


@given(tasks, sizes, st.integers(0, 64), counts)
def test_a_loader_estimate_is_wide_and_says_its_basis(task: str, size: int, workers: int, cores: int) -> None:
    rate = loader_samples_per_second(task, size, workers, cores)
    assert 0 < rate.low < rate.value < rate.high
    assert rate.high / rate.low >= 2
    assert rate.grade == "estimated"
    assert "workers" in rate.basis


def test_one_core_decodes_some_hundred_photographs_a_second() -> None:
    """Published single-thread decoding alone is 360-864 a second; the crop and the tensor cost as much."""
    rate = loader_samples_per_second("image-classification", 224, 1, 1, stored_side=430)
    assert 150 < rate.value < 500


def test_knowing_how_large_the_pictures_are_stored_narrows_the_interval() -> None:
    known = loader_samples_per_second("image-classification", 224, 8, 8, stored_side=358)
    assumed = loader_samples_per_second("image-classification", 224, 8, 8)
    assert known.high / known.low < assumed.high / assumed.low
    assert known.value == pytest.approx(assumed.value, rel=0.01)


@given(counts, tasks)
def test_r08_workers_follow_the_cores_up_to_twelve(cores: int, task: str) -> None:
    settings = loader_settings(cores, task)
    assert settings["num_workers"] == max(1, min(cores, 12))
    assert settings["pin_memory"] is True
    assert settings["persistent_workers"] is True
    assert settings["prefetch_factor"] in (3, 4)


def test_a_timed_loader_is_believed_and_narrows_the_interval() -> None:
    law = loader_samples_per_second("image-classification", 224, 4, 4, stored_side=320)
    timed = {workers: 2.0 * rate.value for workers, rate in _laws(4).items()}
    measured = loader_samples_per_second("image-classification", 224, 4, 4, stored_side=320, measured=timed)
    assert measured.value == pytest.approx(2.0 * law.value)
    assert measured.high / measured.low < law.high / law.low
    assert "timed on this host" in measured.basis


def test_pictures_say_nothing_of_rows_that_sit_in_memory() -> None:
    timed = {workers: 3.0 * rate.value for workers, rate in _laws(4).items()}
    for task in ("tabular-classification", "text-classification"):
        rate = loader_samples_per_second(task, 64, 2, 4, measured=timed)
        assert rate == loader_samples_per_second(task, 64, 2, 4)


@given(sizes, st.integers(0, 64), st.integers(0, 64), counts, st.floats(1.0, 1e5), st.floats(1.0, 1e5))
def test_more_workers_are_never_slower_on_a_timed_host(
    size: int, one: int, other: int, cores: int, alone: float, several: float
) -> None:
    few, many = sorted((one, other))
    slow, quick = (
        loader_samples_per_second("image", size, w, cores, measured={0: alone, 2: several}).value
        for w in (few, many)
    )
    assert slow <= quick * (1 + 1e-12)


def _laws(cores: int) -> dict[int, Estimate]:
    task = "image-classification"
    return {w: loader_samples_per_second(task, 224, w, cores, stored_side=320) for w in (0, 1, 2, 4)}
