"""Is the fp32 bound of a mixed-precision profile never under the profile that was traced in fp32?"""

from __future__ import annotations

import pytest

from memory_service.domain.cost.interpolation import fp32_bound
from memory_service.domain.cost.memory import allocated_bytes
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.roofline import roofline_of
from tests.planning import seed_knowledge

Pairs = list[tuple[Profile, Profile]]


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    """Each model's profile in mixed precision and the one in fp32."""
    profiles = seed_knowledge().profiles
    found = [
        (amp, profiles[(name, size, "fp32")])
        for (name, size, kind), amp in profiles.items()
        if kind == "amp" and (name, size, "fp32") in profiles
    ]
    assert len(found) >= 100
    return found


@pytest.mark.parametrize("batch", [1, 8, 128])
def test_memory_is_hardly_ever_under_what_was_traced(pairs: Pairs, batch: int) -> None:
    under = [
        amp.model
        for amp, real in pairs
        if allocated_bytes(fp32_bound(amp), batch) < 0.97 * allocated_bytes(real, batch)
    ]
    assert len(under) <= 0.02 * len(pairs), under


def test_bytes_moved_are_hardly_ever_under_what_was_traced(pairs: Pairs) -> None:
    under = [
        amp.model
        for amp, real in pairs
        if roofline_of(fp32_bound(amp)).bytes_per_sample.sum()
        < 0.97 * roofline_of(real).bytes_per_sample.sum()
    ]
    assert len(under) <= 0.02 * len(pairs), under
