"""How far off may a step be, and still be believed?"""

from __future__ import annotations

import pytest

from tests.domain.learning.test_corrections import BOX, CARD, learned, moved, ran, step, taught


def test_what_is_published_is_believed_less_far_off_than_what_ran_here() -> None:
    """2.6 times as long: within a factor of three, beyond two and beyond 2.5 standard deviations."""
    here, published = ran(times=2.6, gpu=CARD), ran(times=2.6, run="", gpu=CARD)
    assert learned([here]).set_aside == ()
    assert learned([published]).set_aside == (published,)


@pytest.mark.parametrize(("times", "counts"), [(3.2, True), (5.0, False)])
def test_a_time_out_counts_within_a_factor_of_three_of_what_is_known(times: float, counts: bool) -> None:
    known = [ran(times=1.2, run=f"run {i}") for i in range(3)]
    late = ran(times=None, run="late", at_least_seconds=times * step("resnet50", BOX).seconds(64))
    assert (moved("resnet50", taught([*known, late])) > moved("resnet50", taught(known))) is counts
