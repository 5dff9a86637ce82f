"""Is drift said in the direction people mean?"""

from __future__ import annotations

import pytest

from memory_service.domain.calibration.calibration import Measurement, drift_percent, key_figures


def measured(value: float, unit: str) -> Measurement:
    return Measurement(value, unit, value, value, 5)


def test_over_zero_is_faster_for_rates_and_times_alike():
    before = {"matmul.bf16.4096": measured(100, "TFLOP/s"), "launch.us": measured(5, "us")}
    after = {"matmul.bf16.4096": measured(90, "TFLOP/s"), "launch.us": measured(4, "us")}
    drift = drift_percent(before, after)
    assert drift["matmul"]["percent"] == pytest.approx(-10.0)
    assert drift["launch"]["percent"] == pytest.approx(25.0)


def test_memory_is_a_group_of_its_own_and_only_shared_sections_count():
    before = {
        "memory.context_gib": measured(0.4, "GiB"),
        "step.cnn.fp32.nchw.b16": measured(10, "ms"),
        "step.cnn.fp32.nchw.b16.steady_peak_gib": measured(1.0, "GiB"),
        "loader.workers0": measured(100, "images/s"),
        "sustained.ratio": measured(0.0, "ratio"),
    }
    after = {
        "memory.context_gib": measured(0.5, "GiB"),
        "step.cnn.fp32.nchw.b16": measured(10, "ms"),
        "step.cnn.fp32.nchw.b16.steady_peak_gib": measured(1.25, "GiB"),
        "loader.workers1": measured(100, "images/s"),
        "sustained.ratio": measured(0.9, "ratio"),
    }
    drift = drift_percent(before, after)
    assert set(drift) == {"memory", "step"}
    assert drift["memory"] == {"percent": pytest.approx(25.0), "n": 2}
    assert drift["step"]["percent"] == 0.0


def test_key_figures_are_the_best_of_each_precision_and_of_the_loader():
    figures = key_figures(
        {
            "matmul.fp32.256": measured(0.1, "TFLOP/s"),
            "matmul.fp32.1024": measured(0.2, "TFLOP/s"),
            "loader.workers0": measured(120, "images/s"),
            "loader.workers2": measured(110, "images/s"),
            "conv.dense56.fp32.nchw.b8": measured(3, "ms"),
        }
    )
    assert figures["matmul.fp32"] == {"value": 0.2, "unit": "TFLOP/s", "section": "matmul.fp32.1024"}
    assert figures["loader"]["section"] == "loader.workers0"
    assert set(figures) == {"matmul.fp32", "loader"}


def test_figures_that_no_device_measures_are_no_error_of_all():
    least = {"matmul.bf16.4096": measured(5e-324, "TFLOP/s")}
    usual = {"matmul.bf16.4096": measured(100.0, "TFLOP/s")}
    assert drift_percent(least, usual)["matmul"]["percent"] > 1e200
    assert drift_percent(usual, least)["matmul"]["percent"] == -100.0
