"""However much one key tells, what others are taught costs no more."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import pytest

from memory_service.domain.learning.corrections import in_turn
from memory_service.domain.learning.observation import Observation, prediction_key
from memory_service.domain.learning.observation_selection import ObservationSelection, Place, _batches
from memory_service.domain.prediction import trust
from memory_service.domain.prediction.device_step_time import baseline_prediction
from tests.domain.learning.test_corrections import AMP, CARD, PROFILES, cold_profile, moved, ran, taught

ONE = Observation("a100", "resnet50", "resnet", 224, "bf16", 8, step_seconds=0.1, reporter="key eve")


ANY = attrgetter("device")


def told(who: str, number: int, model: str = "resnet50", seconds: float = 0.1) -> list[Observation]:
    return [
        replace(ONE, reporter=who, model=model, batch_size=1 + n, step_seconds=seconds * (1 + n))
        for n in range(number)
    ]


def test_reports_are_held_against_those_of_their_batch() -> None:
    apart = [*told("key eve", 64), *told("key ada", 64, seconds=9.0)]
    assert not any(trust.confirmed_figures(apart, ANY))
    confirmed = trust.confirmed_figures([*apart, *told("key bob", 32)], ANY)
    assert list(map(bool, confirmed)) == [True] * 32 + [False] * 96 + [True] * 32


@pytest.mark.parametrize(("batch", "confirmed"), [(16, False), (32, True), (48, True)])
def test_memory_that_ran_out_is_confirmed_at_the_same_batch_or_a_smaller_one(
    batch: int, confirmed: bool
) -> None:
    out = replace(ONE, step_seconds=None, out_of_memory=True, batch_size=batch)
    other = replace(out, reporter="key ada", batch_size=32)
    assert bool(trust.confirmed_figures([out, other], ANY)[0]) is confirmed
    contended = replace(other, excluded="contended")
    assert trust.confirmed_figures([out, contended], ANY)[0] == {}


@pytest.mark.parametrize(("device", "confirmed"), [("box", False), ("desk", True), ("", True)])
def test_keys_that_share_a_device_confirm_no_memory_that_ran_out_there(device: str, confirmed: bool) -> None:
    """Each has taken the other's."""
    out = replace(ONE, step_seconds=None, out_of_memory=True, batch_size=32, device="box")
    other = replace(out, reporter="key ada", device=device)
    assert all(map(bool, trust.confirmed_figures([out, other], lambda _: ""))) is confirmed
    timed = [replace(o, step_seconds=0.1, out_of_memory=False) for o in (out, other)]
    assert all(trust.confirmed_figures(timed, lambda _: "")), "a time is a time"


def of_key(who: str, number: int, times: float, **changes: Any) -> list[Observation]:
    runs = (ran(times=times, run=f"{who} {i} {times} {changes}", gpu=CARD) for i in range(number))
    return [replace(o, reporter=f"key {who}", **changes) for o in runs]


def asked_by(who: str, observations: list[Observation]) -> float:
    """How many times the step of resnet50 a key expects, beside the data sheet."""
    heard, _ = trust.heard(observations, trust.confirmed_figures(observations, ANY), f"key {who}")
    return moved("resnet50", taught(list(heard), CARD))


@pytest.mark.parametrize("other", [0.7, 0.74, 0.8, 1.0, 1.3, 1.45])
@pytest.mark.parametrize("number", [1, 3, 8])
def test_no_key_moves_what_another_ran_three_times_itself(other: float, number: int) -> None:
    own = of_key("ada", 3, 3.6)
    expected = asked_by("ada", own)
    assert expected > 3.0
    assert asked_by("ada", [*own, *of_key("eve", number, 3.6 / other)]) == pytest.approx(expected)


def test_the_truth_told_of_another_case_takes_nothing_away() -> None:
    own, fp32 = of_key("ada", 4, 3.6), {"precision": "fp32"}
    both = [*own, *of_key("ada", 1, 1.0, **fp32), *of_key("eve", 1, 1.0, **fp32)]
    assert asked_by("ada", both) > 3.0


@pytest.mark.parametrize("times", [1.0, 3.6])
def test_a_report_near_what_others_confirm_moves_nothing(times: float) -> None:
    ada, cy = of_key("ada", 4, times, peak_driver_gib=7.0), of_key("cy", 4, times, peak_driver_gib=7.02)
    alone = asked_by("bob", [*ada, *cy])
    for other in (0.76, 1.3):
        eve = of_key("eve", 8, times / other, peak_driver_gib=7.4)
        observations = [*ada, *cy, *eve]
        assert asked_by("bob", observations) == pytest.approx(alone, rel=1e-2)
        heard, _ = trust.heard(observations, trust.confirmed_figures(observations, ANY), "key bob")
        assert {o.peak_driver_gib for o in heard} <= {7.0, 7.02}
    hosts = [replace(o, reporter="host box", peak_driver_gib=7.0) for o in ada]
    told = [*hosts, *of_key("eve", 8, times, peak_driver_gib=7.4)]
    heard, _ = trust.heard(told, trust.confirmed_figures(told, ANY), "key bob")
    assert {o.peak_driver_gib for o in heard} == {7.0}, "whoever is no key is believed"


@pytest.mark.parametrize("said", [{"excluded": "contended"}, {"step_seconds": None}], ids=str)
def test_own_runs_that_say_nothing_of_speed_take_away_no_report_of_it(said: dict[str, Any]) -> None:
    own = of_key("ada", 3, 1.0, peak_driver_gib=7.0, **said)
    others = [*of_key("bob", 4, 3.6), *of_key("cy", 4, 3.6)]
    assert asked_by("ada", others) > 3.0
    assert asked_by("ada", [*own, *others]) > 3.0


def test_own_runs_without_a_peak_take_away_no_report_of_memory() -> None:
    own = of_key("ada", 3, 3.6)
    others = [*of_key("bob", 4, 1.0, peak_driver_gib=30.0), *of_key("cy", 4, 1.0, peak_driver_gib=30.0)]
    heard, _ = trust.heard([*own, *others], trust.confirmed_figures([*own, *others], ANY), "key ada")
    assert {o.step_seconds for o in heard if o.peak_driver_gib} == {None}
    assert [o.peak_driver_gib for o in heard].count(30.0) == 8


def test_what_nobody_said_a_name_for_takes_no_keys_report_away() -> None:
    unnamed = [replace(o, reporter="") for o in of_key("", 3, 1.0)]
    others = [*of_key("bob", 4, 3.6), *of_key("cy", 4, 3.6)]
    every = [*unnamed, *others]
    heard, by_one = trust.heard(every, trust.confirmed_figures(every, ANY), "")
    assert (heard, by_one) == (tuple(every), ())


@pytest.mark.parametrize("changes", [{"device": "slice"}, {"excluded": "throttled"}], ids=str)
def test_runs_of_another_kind_of_device_or_that_tell_no_time_confirm_none(changes: dict[str, Any]) -> None:
    honest = [replace(o, **changes) for o in of_key("ada", 3, 3.6)]
    assert asked_by("bob", [*honest, *of_key("eve", 3, 3.6)]) == pytest.approx(asked_by("bob", honest))
    assert asked_by("bob", [*of_key("ada", 3, 3.6), *of_key("eve", 3, 3.6)]) > 3.0


def test_many_devices_of_one_key_push_nobody_else_out_of_a_model() -> None:
    def place(who: str, device: str) -> Place:
        return Place((replace(ONE, reporter=f"key {who}", device=device),))

    places = [*(place("eve", f"box{n}") for n in range(60)), place("ada", "desk"), place("cy", "shelf")]
    first = [batch[0].reporter for batch in islice(in_turn(_batches(places)), 3)]
    assert sorted(first) == ["key ada", "key cy", "key eve"]


def read_by(who: str, observations: list[Observation], device: str = "") -> float:
    """How many times the data sheet's step of resnet50 a key expects of a device of the card."""
    alone = trust.confirmed_figures(observations, attrgetter("gpu"))
    heard, by_one = trust.heard(observations, alone, f"key {who}")
    selection = ObservationSelection(heard, lambda o: baseline_prediction(o, cold_profile(o), CARD), by_one)
    return moved("resnet50", replace(CARD, device=device, learned=selection.about(device, CARD.slug)))


@pytest.mark.parametrize("number", [1, 3])
def test_however_many_runs_a_key_tells_it_is_one_reporter_in_a_case(number: int) -> None:
    two = of_key("ada", number, 1.1)
    once, often = ([*two, *of_key("eve", times, 1.1 * 1.33)] for times in (number, 30))
    assert read_by("bob", often) == pytest.approx(read_by("bob", once), rel=0.005)
    assert read_by("ada", often) == pytest.approx(read_by("ada", two)), "its own"
    three = [*of_key("ada", number, 1.1), *of_key("cy", number, 1.1), *of_key("dan", number, 1.1)]
    often = [*three, *of_key("eve", 30, 1.1 * 1.33)]
    assert read_by("bob", often) == pytest.approx(read_by("bob", three), rel=0.04)


def test_of_a_key_that_told_more_than_others_the_middle_run_counts() -> None:
    odd = of_key("eve", 1, 1.3), of_key("eve", 1, 1.29), of_key("ada", 1, 1.0)
    usual = [*of_key("eve", 4, 1.0), *chain(*odd)]
    assert read_by("bob", usual) == pytest.approx(1.0, abs=0.02)


def test_peaks_count_by_reporters_too() -> None:
    def peak(who: str, number: int, gib: float) -> list[Observation]:
        return [replace(o, step_seconds=None, peak_driver_gib=gib) for o in of_key(who, number, 1.0)]

    def added(told: list[Observation]) -> float:
        heard, _ = trust.heard(told, trust.confirmed_figures(told, ANY), "key bob")
        taught = ObservationSelection(heard, lambda o: baseline_prediction(o, cold_profile(o), CARD))
        key = prediction_key(PROFILES["resnet50"], CARD, AMP)
        shift = taught.about("", CARD.slug).memory_of(key, "driver")
        assert shift is not None
        return float(shift.fixed_gib)

    once = [*peak("ada", 1, 9.0), *peak("eve", 1, 9.5)]
    assert added([*once, *peak("eve", 29, 9.5)]) == pytest.approx(added(once), rel=0.02)


def test_of_the_only_reporter_of_a_case_all_runs_are_averaged() -> None:
    times = (0.98, 0.99, 1.03, 1.04, 1.05, 1.06)
    spread = [ran(times=each, run=f"{each}", gpu=CARD) for each in times]
    told = [replace(o, reporter="host box") for o in spread]
    another = [ran(times=0.97, run="another", gpu=CARD), *told[:5]]
    assert read_by("bob", another) < read_by("bob", told) - 0.005
    hosts = [replace(o, reporter=f"host {i}") for i, o in enumerate(spread)]
    assert read_by("bob", hosts) == pytest.approx(read_by("bob", told)), "hosts that told alike count alike"


def test_what_one_key_alone_told_moves_nothing_that_others_measured() -> None:
    honest = [*of_key("ada", 3, 1.0), *of_key("cy", 3, 1.0)]
    assert read_by("bob", [*honest, *of_key("eve", 30, 1.5)]) == pytest.approx(read_by("bob", honest))
    own = of_key("bob", 1, 1.0)
    assert read_by("bob", [*own, *of_key("eve", 30, 1.5)]) == pytest.approx(read_by("bob", own))
    assert read_by("bob", of_key("eve", 30, 1.5)) == pytest.approx(1.15, abs=0.01)
    among = [*of_key("ada", 1, 1.0), *of_key("cy", 1, 0.6), *of_key("eve", 30, 1.5)]
    assert read_by("bob", among) == pytest.approx(1.0, abs=0.01), "each key's median once"


def test_however_many_devices_a_key_tells_of_it_is_one_reporter_of_their_model() -> None:
    def on(who: str, device: str, times: float) -> list[Observation]:
        return [replace(o, device=device, run_id=f"{o.run_id} {device}") for o in of_key(who, 6, times)]

    honest = [*of_key("ada", 3, 1.1), *of_key("cy", 3, 1.1)]
    once = [*honest, *on("eve", "box0", 1.4), *of_key("eve", 1, 1.1)]
    often = [*once, *chain.from_iterable(on("eve", f"box{i}", 1.4) for i in range(1, 20))]
    assert read_by("bob", often, "new box") == pytest.approx(read_by("bob", once, "new box"), rel=0.005)
    assert read_by("bob", often) == pytest.approx(read_by("bob", honest), rel=0.005)
    own = list(chain.from_iterable(on("ada", f"box{i}", 1.4) for i in range(6)))
    assert read_by("ada", own, "new box") > read_by("ada", own[:6], "new box") + 0.05, "of the only one all"
