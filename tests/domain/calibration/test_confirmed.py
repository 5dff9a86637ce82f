"""Which of what one key measured another's measurement confirms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory_service.domain.calibration.calibration import Calibration, Measurement
from memory_service.domain.prediction.trust import confirmed_sections
from tests.registered import A100
from tests.synthetic import Truth, calibration, sheets

WHOLE = calibration(sheets()["a100"], Truth(3))


def of(number: int, **fingerprint: object) -> Calibration:
    return replace(WHOLE, fingerprint=replace(A100, uuid=f"GPU-{number}", **fingerprint))  # type: ignore[arg-type]


def test_a_copy_of_another_device_confirms_all_and_one_of_the_same_device_nothing() -> None:
    assert confirmed_sections(of(1), {"key b": [of(2)]}).keys() == WHOLE.sections.keys()
    assert confirmed_sections(of(1), {"key b": [of(1)]}) == {}


@pytest.mark.parametrize(
    "other", [{"power_limit_w": 1.0}, {"power_limit_w": None}, {"memory_gib": 20.0}, {"mig": "1g.5gb"}]
)
def test_devices_of_other_sizes_confirm_nothing(other: dict[str, object]) -> None:
    """The same figures at a lower power limit would say that the architecture is faster than it is."""
    assert confirmed_sections(of(1, **other), {"key b": [of(2)]}) == {}


def test_the_spread_of_a_confirmed_figure_is_not_for_one_key_to_say() -> None:
    name = "bandwidth.copy"
    wide = {**WHOLE.sections, name: replace(WHOLE.sections[name], p20=1e-9, p80=1e7)}
    found = confirmed_sections(replace(of(1), sections=wide), {"key b": [of(2)]})[name]
    assert found.p20 == pytest.approx(found.value / 1.25)
    assert found.p80 == pytest.approx(found.value * 1.25)


def test_figures_out_of_all_range_are_compared() -> None:
    tiny = {name: replace(one, value=5e-324) for name, one in WHOLE.sections.items()}
    assert confirmed_sections(of(1), {"key b": [replace(of(2), sections=tiny)]}) == {}


def test_a_pattern_within_what_agrees_is_not_confirmed() -> None:
    """Short sections a fifth faster and long ones a fifth slower would double what a kernel costs."""
    values = sorted(one.value for one in WHOLE.sections.values() if one.unit == "ms")
    middle = values[len(values) // 2]
    turned = {
        name: replace(one, value=one.value * (1.2 if one.value > middle else 1 / 1.2))
        if one.unit == "ms"
        else one
        for name, one in WHOLE.sections.items()
    }
    found = confirmed_sections(replace(of(1), sections=turned), {"key b": [of(2)]})
    assert not [name for name, one in found.items() if one.unit == "ms"]
    evenly = {
        name: replace(one, value=one.value * (1 / 1.2 if one.unit in ("TFLOP/s", "GB/s") else 1.2))
        if one.unit != "GiB"
        else one
        for name, one in WHOLE.sections.items()
    }
    found = confirmed_sections(replace(of(1), sections=evenly), {"key b": [of(2)]})
    assert len(found) > 0.9 * len(WHOLE.sections)


@pytest.mark.parametrize(("times", "confirmed"), [(1.03, True), (1.2, False)])
def test_memory_is_confirmed_within_what_allocators_differ(times: float, confirmed: bool) -> None:
    peak = Measurement(4.0, "GiB", 4.0, 4.0, 3)
    one, other = (
        replace(of(number), sections={**WHOLE.sections, "step.cnn.peak_gib": replace(peak, value=value)})
        for number, value in ((1, 4.0 * times), (2, 4.0))
    )
    assert ("step.cnn.peak_gib" in confirmed_sections(one, {"key b": [other]})) is confirmed


@pytest.mark.parametrize(
    ("told_by", "moved"), [(("key b",), True), (("key b", "key c"), False), (("",), False)]
)
@pytest.mark.parametrize("times", [1.05, 1 / 1.05])
def test_within_what_agrees_one_key_moves_no_figure_that_others_confirm(
    told_by: tuple[str, ...], moved: bool, times: float
) -> None:
    others = {who: [of(2 + n)] for n, who in enumerate(told_by)}
    scaled = {
        name: replace(one, value=one.value * (1 / times if one.unit in ("TFLOP/s", "GB/s") else times))
        for name, one in WHOLE.sections.items()
    }
    found = confirmed_sections(replace(of(1), sections=scaled), others)
    assert len(found) == len(WHOLE.sections)
    assert all((one.value != WHOLE.sections[name].value) is moved for name, one in found.items())
