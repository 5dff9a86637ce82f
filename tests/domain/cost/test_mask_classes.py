"""Is a segmentation of many classes priced as its trace would say?"""

from __future__ import annotations

import pytest

from memory_service import resources
from memory_service.domain.cost.interpolation import interpolate_profile
from memory_service.domain.cost.mask_classes import with_mask_classes
from memory_service.domain.cost.profile import Profile
from memory_service.services.knowledge.profiling import TraceClass, catalogue_row, profile_model


def traced(n_classes: int, precision: TraceClass, size: int = 128) -> Profile:
    row = catalogue_row("unet-small", resources.path("seeds"))
    assert row is not None
    return profile_model(
        row.name,
        input_size=size,
        precision=precision,
        library="torch",
        config=row.config,
        n_outputs=n_classes,
    )


def moved(profile: Profile) -> float:
    return float(sum(row[5] for row in profile.extra["roofline"] if row[0] < 2))


@pytest.mark.parametrize("precision", ["amp", "fp32"])
@pytest.mark.parametrize("n_classes", [20, 150])
def test_classes_cost_what_a_trace_with_them_says(n_classes: int, precision: TraceClass) -> None:
    made, true = with_mask_classes(traced(1, precision), n_classes), traced(n_classes, precision)
    assert made.peak[-1].per_sample_bytes == pytest.approx(true.peak[-1].per_sample_bytes, rel=0.07)
    assert moved(made) == pytest.approx(moved(true), rel=0.05)
    for phase in ("forward", "backward"):
        got, wanted = (getattr(p, phase)["elementwise"].bytes_per_sample for p in (made, true))
        assert got == pytest.approx(wanted, rel=0.08)


def test_two_classes_are_one_mask_and_other_networks_stay_as_they_are() -> None:
    one = traced(1, "amp")
    assert with_mask_classes(one, 2) is one
    picture = profile_model("test_vit", input_size=160, precision="amp")
    assert with_mask_classes(picture, 5000) is picture


def test_more_classes_never_need_less_at_any_size() -> None:
    small, large = traced(1, "amp", 64), traced(1, "amp", 128)
    between = interpolate_profile(small, large, 96)
    per_sample = [with_mask_classes(between, n).peak[-1].per_sample_bytes for n in (2, 3, 10, 100)]
    assert per_sample == sorted(per_sample)
