"""However much one key tells, what others are taught costs no more."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Any

import pytest

from memory_service.domain.learning.corrections import in_turn
from memory_service.domain.learning.observation import Observation
from memory_service.domain.learning.observation_selection import Place, _batches
from memory_service.domain.learning.shrinkage import SAME_FIGURE
from memory_service.domain.prediction import trust
from tests.domain.learning.test_corrections import CARD, moved, ran, taught

ONE = Observation("a100", "resnet50", "resnet", 224, "bf16", 8, step_seconds=0.1, reporter="key eve")


ANY = attrgetter("device")


def told(who: str, number: int, model: str = "resnet50", seconds: float = 0.1) -> list[Observation]:
    return [
        replace(ONE, reporter=who, model=model, batch_size=1 + n, step_seconds=seconds * (1 + n))
        for n in range(number)
    ]


def test_reports_are_held_against_those_of_their_batch() -> None:
    apart = [*told("key eve", 64), *told("key ada", 64, seconds=9.0)]
    assert all(trust.told_alone(apart, ANY))
    alone = trust.told_alone([*apart, *told("key bob", 32)], ANY)
    assert list(map(bool, alone)) == [False] * 32 + [True] * 96 + [False] * 32


@pytest.mark.parametrize(("batch", "confirmed"), [(16, False), (32, True), (48, True)])
def test_memory_that_ran_out_is_confirmed_at_the_same_batch_or_a_smaller_one(
    batch: int, confirmed: bool
) -> None:
    out = replace(ONE, step_seconds=None, out_of_memory=True, batch_size=batch)
    other = replace(out, reporter="key ada", batch_size=32)
    assert (trust.told_alone([out, other], ANY)[0] == frozenset()) is confirmed
    contended = replace(other, excluded="contended")
    assert trust.told_alone([out, contended], ANY)[0] == {"out_of_memory"}


def of_key(who: str, number: int, times: float, **changes: Any) -> list[Observation]:
    runs = (ran(times=times, run=f"{who} {i} {times} {changes}", gpu=CARD) for i in range(number))
    return [replace(o, reporter=f"key {who}", **changes) for o in runs]


def asked_by(who: str, observations: list[Observation]) -> float:
    """How many times the step of resnet50 a key expects, beside the data sheet."""
    heard, _ = trust.heard(observations, trust.told_alone(observations, ANY), f"key {who}")
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
def test_a_report_that_is_heard_as_confirmed_moves_others_by_no_more_than_agreement_allows(
    times: float,
) -> None:
    alone = asked_by("bob", [*of_key("ada", 4, times), *of_key("cy", 4, times)])
    for other in (0.68, 0.74, 1.3, 1.45):
        with_eve = [*of_key("ada", 4, times), *of_key("cy", 4, times), *of_key("eve", 8, times / other)]
        assert asked_by("bob", with_eve) == pytest.approx(alone, rel=SAME_FIGURE - 1.0)


@pytest.mark.parametrize("said", [{"excluded": "contended"}, {"step_seconds": None}], ids=str)
def test_own_runs_that_say_nothing_of_speed_take_away_no_report_of_it(said: dict[str, Any]) -> None:
    own = of_key("ada", 3, 1.0, peak_driver_gib=7.0, **said)
    others = [*of_key("bob", 4, 3.6), *of_key("cy", 4, 3.6)]
    assert asked_by("ada", others) > 3.0
    assert asked_by("ada", [*own, *others]) > 3.0


def test_own_runs_without_a_peak_take_away_no_report_of_memory() -> None:
    own = of_key("ada", 3, 3.6)
    others = [*of_key("bob", 4, 1.0, peak_driver_gib=30.0), *of_key("cy", 4, 1.0, peak_driver_gib=30.0)]
    heard, _ = trust.heard([*own, *others], trust.told_alone([*own, *others], ANY), "key ada")
    assert {o.step_seconds for o in heard if o.peak_driver_gib} == {None}
    assert [o.peak_driver_gib for o in heard].count(30.0) == 8


def test_what_nobody_said_a_name_for_takes_no_keys_report_away() -> None:
    unnamed = [replace(o, reporter="") for o in of_key("", 3, 1.0)]
    others = [*of_key("bob", 4, 3.6), *of_key("cy", 4, 3.6)]
    every = [*unnamed, *others]
    heard, by_one = trust.heard(every, trust.told_alone(every, ANY), "")
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
