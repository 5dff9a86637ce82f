"""Which competitions count how much, and which of their solutions?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.recipe.neighbourhood import (
    COSINE_WEIGHT,
    LEAST_SHARE,
    MOST_COMPETITIONS,
    SOLUTIONS_EACH,
    competition_weights,
    neighbourhood,
)
from tests.domain.recipe.solutions import solution

NOBODY = np.zeros(3, dtype=np.bool_)
YEARS = np.array([2016.0, 2020.0, np.nan])
FLAT = np.zeros(3)


def weights(**asked: Any) -> list[float]:
    given_ = {"cosine": None, "agreement": FLAT, "years": YEARS, "as_of": None, "left_out": NOBODY, **asked}
    return [float(weight) for weight in competition_weights(**given_)]


def test_the_weight_is_the_documented_product_and_the_greatest_is_one() -> None:
    cosine, agreement = np.array([0.7, 0.4, 0.1]), np.array([0.3, 1.0, 2.75])
    same_year = np.full(3, 2020.0)
    found = weights(cosine=cosine, agreement=agreement, years=same_year)
    expected = np.exp(COSINE_WEIGHT * cosine + agreement)
    assert found == pytest.approx(list(expected / expected.max()))


def test_nearer_years_weigh_more_and_an_unknown_year_least() -> None:
    assert weights()[1] > weights()[0] >= weights()[2] > 0.0
    asked = weights(as_of=2016)
    assert asked == [1.0, 0.0, 0.0], "later ones, and those of no known year, were not known then"


def test_a_year_that_was_asked_about_counts_more_than_today() -> None:
    years = np.array([2010.0, 2020.0, 2020.0])
    today, then = weights(years=years), weights(years=years, as_of=2020)
    assert then[0] / then[1] < today[0] / today[1] < 1.0
    own = weights(years=np.array([2010.0, 2013.0, 2020.0]), own_year=2013.0)
    assert own[1] == 1.0 > own[0] > own[2] > 0.0, "what came later counts, too"


def test_those_left_out_weigh_nothing_and_do_not_set_the_year() -> None:
    left_out = np.array([False, True, False])
    found = weights(left_out=left_out)
    assert found[1] == 0.0
    assert found[0] > 0.9 * max(weights(years=np.array([2016.0, 2016.0, np.nan]))), "2016 is the latest now"


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.floats(0, 4), st.none() | st.integers(2000, 2030)
)
def test_weights_are_between_nothing_and_one(cosines: list[float], fact: float, as_of: int | None) -> None:
    n = len(cosines)
    years = np.array([2010.0 + i for i in range(n)])
    found = competition_weights(
        np.array(cosines), np.full(n, fact), years, as_of, np.zeros(n, dtype=np.bool_)
    )
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert as_of is None or (found[years > as_of] == 0.0).all()


def test_at_most_three_solutions_of_a_competition_count_and_together_weigh_what_it_weighs() -> None:
    stored = {
        "a": [solution("a", rank) for rank in range(1, 6)],
        "b": [solution("b", 1, basis="recalled"), solution("b", 2, basis="read")],
    }
    found = neighbourhood(np.array([0.8, 0.4, 0.9]), ["a", "b", "without"], stored, 7)
    assert found.competitions == ("a", "b"), "one without solutions is not counted"
    assert [one.id for one in found.solutions] == ["a#1", "a#2", "a#3", "b#1", "b#2"]
    assert SOLUTIONS_EACH == 3
    assert sum(found.weights[:3]) == pytest.approx(1.0), "the nearest weighs 1"
    assert sum(found.weights[3:]) == pytest.approx(0.5)
    assert found.weights[0] > found.weights[1] > found.weights[2], "better ranks count more"
    assert found.weights[3] < found.weights[4], "what was only recalled counts less than what was read"
    assert found.known == 7


def test_far_and_excluded_competitions_are_not_called_similar() -> None:
    slugs = [f"c{i}" for i in range(100)]
    stored = {slug: [solution(slug)] for slug in slugs}
    assert len(neighbourhood(np.ones(100), slugs, stored, 100).competitions) == MOST_COMPETITIONS
    falling = np.array([1.0, 1.01 * LEAST_SHARE, 0.99 * LEAST_SHARE, 0.0])
    assert neighbourhood(falling, slugs[:4], stored, 4).competitions == ("c0", "c1")
    nothing = neighbourhood(np.zeros(4), slugs[:4], stored, 4)
    assert (nothing.solutions, nothing.weights, nothing.competitions) == ((), (), ())
