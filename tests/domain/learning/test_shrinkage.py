"""Few observations move a prediction part of the way, many settle it; their order means nothing."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.learning.shrinkage import Loadings, Posterior

sds = st.floats(0.01, 1.0)
values = st.floats(-1.0, 1.0)


def sd(posterior: Posterior, row: Loadings) -> float:
    """Standard deviation of what is expected of the row, noise not counted."""
    weights, unseen = posterior.weights([row])
    return sqrt((posterior.many_explained(weights)[0] + unseen).item())


@given(st.lists(values, min_size=1, max_size=12), sds, sds)
def test_one_level_is_the_closed_form(seen: list[float], level: float, noise: float) -> None:
    posterior = Posterior([{"card": level}] * len(seen), seen, [noise] * len(seen))
    n, mean = len(seen), sum(seen) / len(seen)
    weight = level**2 / (level**2 + noise**2 / n)
    assert posterior.mean({"card": level}) == pytest.approx(weight * mean, abs=1e-9)
    assert sd(posterior, {"card": level}) == pytest.approx(level * sqrt(1 - weight), abs=1e-6)


@given(values, sds, sds, sds)
def test_two_levels_share_an_observation_by_their_variances(
    seen: float, parent: float, child: float, noise: float
) -> None:
    posterior = Posterior([{"card": parent, "family": child}], [seen], [noise])
    total = parent**2 + child**2 + noise**2
    assert posterior.mean({"card": parent}) == pytest.approx(seen * parent**2 / total, abs=1e-9)
    both = posterior.mean({"card": parent, "other family": child})
    assert both == pytest.approx(posterior.mean({"card": parent}))
    assert sd(posterior, {"other family": child}) == pytest.approx(child)


@given(values, sds, sds, st.integers(1, 10), st.sampled_from([2.0, float("inf")]))
def test_each_repetition_brings_the_prediction_nearer(
    seen: float, level: float, noise: float, n: int, freedom: float
) -> None:
    def left(times: int) -> float:
        posterior = Posterior([{"card": level}] * times, [seen] * times, [noise] * times, freedom)
        return abs(seen - posterior.mean({"card": level}))

    assert left(n + 1) <= left(n) + 1e-9
    assert left(n) <= abs(seen) + 1e-9


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), values), min_size=2, max_size=10
    ).flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows)))
)
def test_order_means_nothing(pair: tuple[list[tuple[str, str, float]], list[tuple[str, str, float]]]) -> None:
    def expected(rows: list[tuple[str, str, float]]) -> list[float]:
        loadings = [{"all": 0.1, card: 0.2, (card, family): 0.1} for card, family, _ in rows]
        posterior = Posterior(loadings, [value for *_, value in rows], [0.05] * len(rows), 2.0)
        asked = [{"all": 0.1, card: 0.2, (card, family): 0.1} for card in "abcd" for family in "xy"]
        return [figure for row in asked for figure in (posterior.mean(row), sd(posterior, row))]

    one, other = pair
    assert expected(one) == pytest.approx(expected(other), abs=1e-6)


@given(st.lists(st.tuples(st.sampled_from("abc"), values), min_size=1, max_size=10), sds)
def test_nothing_learned_goes_beyond_what_was_seen(rows: list[tuple[str, float]], noise: float) -> None:
    posterior = Posterior([{"all": 0.1, k: 0.2} for k, _ in rows], [v for _, v in rows], [noise] * len(rows))
    most = max(abs(v) for _, v in rows)
    for key in "abcd":
        assert abs(posterior.mean({"all": 0.1, key: 0.2})) <= most + 1e-9
        assert sd(posterior, {"all": 0.1, key: 0.2}) <= sqrt(0.05) + 1e-9


@given(st.lists(st.tuples(st.sampled_from("abc"), values), min_size=2, max_size=8), sds)
def test_what_the_others_expect_is_the_posterior_without_it(
    rows: list[tuple[str, float]], noise: float
) -> None:
    loadings = [{"all": 0.1, k: 0.2} for k, _ in rows]
    seen = [v for _, v in rows]
    all_of_them = Posterior(loadings, seen, [noise] * len(rows))
    rest = Posterior(loadings[1:], seen[1:], [noise] * (len(rows) - 1))
    assert all_of_them.from_others[0] == pytest.approx(rest.mean(loadings[0]), abs=1e-6)


@pytest.mark.parametrize("shift", [0.05, 0.1])
def test_heavy_tails_follow_what_is_large_and_repeated_more_than_what_is_small(shift: float) -> None:
    def moved(value: float, freedom: float) -> float:
        rows = [{"card": 0.05, f"model {i}": 0.1} for i in range(3)]
        return Posterior(rows, [value] * 3, [0.03] * 3, freedom).mean({"card": 0.05}) / value

    assert moved(0.6, 2.0) > moved(0.6, float("inf"))
    assert moved(0.6, 2.0) > moved(shift, 2.0)
