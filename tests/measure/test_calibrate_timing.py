"""Time is shared by usefulness, and a figure says how steady it was."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import pytest

from memory_service.domain.calibration.calibration import Fingerprint
from memory_service.domain.calibration.probes import probe_of, probes
from memory_service.measure.calibrate import timing
from memory_service.measure.calibrate.hardware import Cpu
from memory_service.measure.calibrate.runner import next_share, precisions_of, share_of
from memory_service.measure.calibrate.sections.kernels import matmul
from memory_service.measure.calibrate.timing import in_unit, measured, repeat, summary

SECTIONS = [section for section, _ in itertools.groupby(p.section for p in probes("cpu", ("fp32",), 2))]


def spent(budget: float) -> list[tuple[str, float]]:
    """Sections that run when each takes exactly its share."""
    out: list[tuple[str, float]] = []
    for index, section in enumerate(SECTIONS):
        share = next_share(SECTIONS[index:], budget, "cpu")
        if share is not None:
            out.append((section, share))
            budget -= share
    return out


@pytest.mark.parametrize("budget", [3.0, 18.0, 58.0, 600.0])
def test_shares_fill_the_time_and_never_more(budget: float) -> None:
    total = sum(share for _, share in spent(budget))
    assert total <= budget + 1e-9
    assert total > 0.6 * budget
    assert all(share >= share_of(section, "cpu").least_seconds for section, share in spent(budget))


def test_a_short_budget_keeps_the_useful_sections_and_a_long_one_keeps_all() -> None:
    short = [section for section, _ in spent(18.0)]
    assert {"launch", "matmul.fp32", "trees", "step.cnn.fp32.nchw", "bandwidth.8mib"} <= set(short)
    assert "sustained" not in short
    assert [section for section, _ in spent(58.0)] == SECTIONS


def test_no_time_means_no_section() -> None:
    assert next_share(SECTIONS, 0.1, "cpu") is None
    assert next_share(SECTIONS, -5.0, "cuda") is None
    assert next_share([], 10.0, "cpu") is None


def test_a_summary_is_median_and_percentiles_and_flags_a_wide_spread() -> None:
    steady = summary([1.00, 1.01, 1.02, 1.01, 1.00], "s")
    assert (steady.value, steady.n, steady.flagged) == (1.01, 5, False)
    wide = summary([1.0, 2.0, 3.0, 4.0, 5.0], "s")
    assert (wide.value, wide.flagged) == (3.0, True)
    assert (wide.p20, wide.p80) == pytest.approx((1.8, 4.2))
    assert summary([0.0], "GiB").flagged is False


def test_a_rate_keeps_its_slow_end_low() -> None:
    probe = probe_of("cpu", "matmul.fp32.1024")
    assert probe is not None
    rate = in_unit(probe, summary([0.010, 0.020, 0.030], "s"))
    assert rate.unit == "TFLOP/s"
    assert rate.p20 < rate.value < rate.p80
    assert rate.value == pytest.approx(2 * 1024**3 / 0.020 / 1e12)


def test_a_product_of_matrices_is_measured_on_this_processor() -> None:
    probe = probe_of("cpu", "matmul.fp32.256")
    assert probe is not None
    ((name, found),) = matmul(probe, Cpu("cpu", "cpu"), 0.1)
    assert (name, found.unit) == ("matmul.fp32.256", "TFLOP/s")
    assert 1e-4 < found.value < 10.0


def test_an_unsteady_figure_is_measured_once_more_and_the_steadier_set_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = itertools.count()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: next(clock) / 1000))
    ticks = itertools.chain([1.0, 9.0, 1.0] * 66, itertools.repeat(2.0))
    found = repeat(lambda: next(ticks), 3.0)
    assert (found.value, found.flagged) == (2.0, False)


def test_repetitions_stop_with_their_time_but_are_three_at_least() -> None:
    probe = probe_of("cpu", "launch.us")
    assert probe is not None
    slow = measured(probe, Cpu("cpu", ""), lambda: time.sleep(0.05), 0.02)
    assert slow.n == 3
    assert slow.value >= 50_000.0


@pytest.mark.parametrize(
    ("capability", "has"),
    [(6.0, ("fp32",)), (7.5, ("fp32", "fp16")), (9.0, ("fp32", "tf32", "fp16", "bf16"))],
)
def test_a_card_is_asked_for_the_precisions_of_its_generation(
    capability: float, has: tuple[str, ...]
) -> None:
    card = Fingerprint("cuda", "any", "GPU-1", 16.0, compute_capability=capability)
    found, absent = precisions_of(card)
    assert found == has
    assert set(absent) == {f"matmul.{p}" for p in ("tf32", "fp16", "bf16") if p not in has}
