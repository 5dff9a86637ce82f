"""What boosted trees cost on the processor: the law only rises with the work, and fits what was timed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.cost.boosted_trees import CPU_MODELS, fit_cost, forest_nodes, tree_speed
from memory_service.errors import InvalidInput

kinds = st.sampled_from(sorted(CPU_MODELS))
rows = st.integers(1, 10_000_000)
columns = st.integers(1, 2000)
classes = st.integers(1, 100)
cores = st.integers(1, 256)


@given(kinds, rows, rows, columns, classes, cores)
def test_more_rows_never_cost_less(
    kind: str, one: int, other: int, features: int, outputs: int, cpus: int
) -> None:
    few, many = (fit_cost(kind, n, features, outputs, cpu_count=cpus) for n in sorted((one, other)))
    assert few.fit_seconds.value <= many.fit_seconds.value
    assert few.memory_gib.value <= many.memory_gib.value


@given(kinds, rows, columns, columns, classes, cores)
def test_more_columns_never_cost_less(
    kind: str, n: int, one: int, other: int, outputs: int, cpus: int
) -> None:
    few, many = (fit_cost(kind, n, f, outputs, cpu_count=cpus) for f in sorted((one, other)))
    assert few.fit_seconds.value <= many.fit_seconds.value
    assert few.memory_gib.value <= many.memory_gib.value


@given(kinds, rows, columns, classes, cores, cores)
def test_more_cores_never_take_longer(
    kind: str, n: int, features: int, outputs: int, one: int, other: int
) -> None:
    few, many = (fit_cost(kind, n, features, outputs, cpu_count=c) for c in sorted((one, other)))
    assert many.fit_seconds.value <= few.fit_seconds.value
    assert many.predict_seconds_per_row.value <= few.predict_seconds_per_row.value


@given(st.sampled_from(["lightgbm", "xgboost", "catboost"]), rows, st.integers(1, 2000), st.integers(1, 2000))
def test_more_rounds_and_leaves_never_cost_less(kind: str, n: int, one: int, other: int) -> None:
    few, many = sorted((one, other))
    short, long = (fit_cost(kind, n, 50, 2, rounds=r).fit_seconds.value for r in (few, many))
    assert short <= long
    small, large = (fit_cost(kind, n, 50, 2, leaves=max(2, x)).fit_seconds.value for x in (few, many))
    assert small <= large


@given(kinds, rows, columns, classes, cores)
def test_every_figure_lies_inside_its_interval(
    kind: str, n: int, features: int, outputs: int, cpus: int
) -> None:
    cost = fit_cost(kind, n, features, outputs, cpu_count=cpus)
    for figure in (cost.fit_seconds, cost.predict_seconds_per_row, cost.memory_gib):
        assert 0 < figure.low < figure.value < figure.high
        assert figure.basis


@pytest.mark.parametrize(
    ("n", "features", "classes", "leaves", "seconds_per_round"),
    [
        (2_000, 10, 2, 31, 0.00099),
        (2_000, 200, 2, 31, 0.0147),
        (2_000, 50, 7, 31, 0.0252),
        (200_000, 10, 2, 31, 0.0167),
        (200_000, 10, 7, 31, 0.0823),
        (200_000, 200, 2, 31, 0.239),
        (200_000, 200, 2, 127, 0.457),
    ],
)
def test_one_thread_of_lightgbm_as_timed(
    n: int, features: int, classes: int, leaves: int, seconds_per_round: float
) -> None:
    """Processor seconds of one of the first boosting rounds, LightGBM 4.7 (benchmarks/fit_trees.py)."""
    many, few = (
        fit_cost("lightgbm", n, features, classes, rounds=r, leaves=leaves, cpu_count=1).fit_seconds
        for r in (3, 1)
    )
    per_round = (many.value - few.value) / 2
    assert seconds_per_round / 1.6 < per_round < seconds_per_round * 1.6


def test_an_unknown_model_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="lightgbm"):
        fit_cost("lightgbmm", 1000, 10)


MEASURED = {(10_000, 20, 1): 0.004, (10_000, 20, 0): 0.05, (100_000, 50, 1): 0.03, (100_000, 50, 0): 0.9}


def test_a_calibrated_host_is_believed_at_the_sizes_it_was_timed_at() -> None:
    speed = tree_speed(MEASURED, cores=2, leaves=31)
    assert speed is not None
    for rows, columns in ((10_000, 20), (100_000, 50)):
        long, short = (
            fit_cost("lightgbm", rows, columns, rounds=r, cpu_count=2, speed=speed).fit_seconds.value
            for r in (3, 1)
        )
        assert (long - short) / 2 == pytest.approx(MEASURED[rows, columns, 1], rel=0.03)
    first = fit_cost("lightgbm", 100_000, 50, rounds=1, cpu_count=2, speed=speed).fit_seconds.value
    assert first == pytest.approx(0.93, rel=0.01)


@given(
    st.floats(1e-4, 10.0), st.floats(1e-4, 10.0), st.integers(1, 64), rows, rows, st.integers(1, 2000),
    st.integers(1, 2000), cores,
)  # fmt: skip
def test_whatever_was_timed_more_rows_and_rounds_never_cost_less(
    quick: float, slow: float, host: int, one: int, other: int, few: int, many: int, cpus: int
) -> None:
    speed = tree_speed({(10_000, 20, 1): quick, (100_000, 50, 1): slow}, host, 31)
    small, large = (fit_cost("lightgbm", n, 50, cpu_count=cpus, speed=speed) for n in sorted((one, other)))
    assert small.fit_seconds.value <= large.fit_seconds.value
    short, long = (
        fit_cost("lightgbm", one, 50, rounds=r, cpu_count=cpus, speed=speed) for r in sorted((few, many))
    )
    assert short.fit_seconds.value <= long.fit_seconds.value
    assert 0 < short.fit_seconds.low < short.fit_seconds.high


def test_a_timed_host_narrows_the_interval_and_says_so() -> None:
    timed = fit_cost("lightgbm", 200_000, 50, speed=tree_speed(MEASURED, 2, 31)).fit_seconds
    law = fit_cost("lightgbm", 200_000, 50).fit_seconds
    assert timed.high / timed.low < law.high / law.low
    assert "measured on this host" in timed.basis


def test_without_a_time_per_tree_nothing_is_known_of_the_host() -> None:
    assert tree_speed({(10_000, 20, 0): 0.1}, 2, 31) is None


@pytest.mark.parametrize(
    ("kind", "n", "classes", "nodes_per_row"),
    [
        ("random-forest", 10_000, 1, 1.27),
        ("random-forest", 50_000, 1, 1.262),
        ("random-forest", 10_000, 2, 0.238),
        ("random-forest", 60_000, 2, 0.237),
        ("random-forest", 10_000, 7, 0.550),
        ("random-forest", 60_000, 20, 0.772),
        ("random-forest", 60_000, 100, 1.009),
        ("extra-trees", 2_000, 1, 1.9995),
        ("extra-trees", 50_000, 1, 2.0),
        ("extra-trees", 60_000, 2, 0.761),
        ("extra-trees", 50_000, 7, 1.226),
        ("extra-trees", 60_000, 100, 1.857),
    ],
)
def test_nodes_of_a_forest_are_those_that_were_counted(
    kind: str, n: int, classes: int, nodes_per_row: float
) -> None:
    """By scikit-learn 1.9, two trees each, 10 to 15 % of the labels noise."""
    nodes, _ = forest_nodes(kind, float(n), classes)
    assert nodes / n == pytest.approx(nodes_per_row, rel=0.15)


def test_a_forest_holds_its_leaves_in_memory() -> None:
    """20 extra trees on 100 000 rows took 302 MB of a process, 6 of a random forest 76."""
    for kind, trees, grown in (("extra-trees", 20, 302e6), ("random-forest", 6, 76e6)):
        taken, none = (fit_cost(kind, 100_000, 8, rounds=n).memory_gib for n in (trees, 0))
        assert taken.value - none.value == pytest.approx(grown / 2**30, rel=0.3)
        assert (taken.high - none.high) * 2**30 > grown
    assert fit_cost("random-forest", 1_000_000, 50, rounds=500).memory_gib.value > 40


@given(st.sampled_from(["random-forest", "extra-trees"]), rows, st.integers(2, 1000), st.integers(2, 1000))
def test_more_classes_never_make_a_forest_smaller(kind: str, n: int, one: int, other: int) -> None:
    few, many = (fit_cost(kind, n, 20, k).memory_gib.value for k in sorted((one, other)))
    assert few <= many
