"""Do numbers with units read alike by every door?"""

from __future__ import annotations

from memory_service.domain.common.units import clock, figures, interval, lasting, minutes, percent, spread


def test_figures_are_rounded_but_never_a_whole_part():
    assert [figures(v) for v in (0.0, 0.00884, 9.999, 99.96, 1013.4)] == ["0", "0.00884", "10", "100", "1013"]
    assert figures(1_234_567.0, mark=",") == "1,234,567"
    assert (figures(1e-9), figures(float("nan")), percent(0.376)) == ("1.00e-09", "nan", "38 %")


def test_an_interval_that_says_nothing_is_left_out():
    measured = {"value": 1285, "low": 96, "high": 1410, "grade": "measured"}
    assert spread(measured, "samples/s") == "1285 (96–1410) samples/s, measured"
    assert interval(measured, mark=",") == "1,285 (96–1,410)"
    assert interval({"value": 128, "low": 128, "high": 128}, "GiB") == "128 GiB"
    assert interval({"value": 3.2, "low": None, "high": None}) == "3.2"
    assert interval({"value": 0.05, "low": None, "high": 0.06}, "s") == "50 ms"


def test_times():
    assert [minutes(v) for v in (None, 0.5, 12.34, 125.0)] == ["–", "30 s", "12.3 min", "2 h 05 min"]
    assert [clock(v) for v in (None, 0.25, 45.0, 600.0)] == ["–", "0.25 s", "45 s", "10 min"]
    short = {"value": 0.0188, "low": 0.009, "high": 0.0392}
    assert lasting(short, "min") == "1.13 s (0.54–2.35)"
    assert lasting({name: 60 * value for name, value in short.items()}, "s") == lasting(short, "min")
