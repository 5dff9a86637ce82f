"""Are the quality model's figures those of its evidence, and are its choices and probabilities good on data
sets that it has not seen?"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.quality import as_text, families, fitted
from benchmarks.quality_check import Regrets, pairs_of, regrets_of, reliability
from benchmarks.quality_evidence import SHARED, SHIPPED, gather
from benchmarks.quality_fit import Fit
from memory_service import resources


@cache
def fits() -> tuple[dict[str, Fit], dict[str, Any]]:
    return fitted()


@cache
def regrets(table: str) -> dict[str, Regrets]:
    fit, figures = fits()[0][table], fits()[1][table]
    return regrets_of(fit, figures["difference_sd"], families())


def test_the_figures_that_ship_are_those_of_the_evidence_to_the_digit() -> None:
    assert as_text(fits()[1]) == resources.path("seeds", "quality.json").read_text()


@pytest.mark.skipif(not SHARED.exists(), reason="no ../shared/evidence beside the checkout")
def test_the_evidence_that_ships_is_that_of_its_sources(tmp_path: Any) -> None:
    gather(SHARED, tmp_path / "evidence.csv.gz")
    assert (tmp_path / "evidence.csv.gz").read_bytes() == SHIPPED.read_bytes()


@pytest.mark.parametrize(
    ("table", "group", "most"),
    [
        ("text", "EuroEval, other languages", 28),
        ("text", "EuroEval, English", 10),
        ("tabular", "TALENT multiclass", 53),
        ("tabular", "TALENT binary", 80),
        ("tabular", "TALENT regression", 65),
        ("tabular", "yandex-research/tabred", 60),
        ("image", "image transfer sets", 18),
        ("image-dense", "geo-bench segmentation", 70),
    ],
)
def test_regret_on_data_sets_left_out(table: str, group: str, most: float) -> None:
    """In %: 0 the best model, 100 the median one. docs/methods/quality.md has all beside their aims."""
    found = regrets(table)[group]
    assert found.mean("model") <= most
    assert found.mean("model") < found.mean("random")


def test_a_second_run_of_another_model_halves_the_regret_on_tables() -> None:
    for group in ("TALENT binary", "TALENT multiclass", "TALENT regression", "yandex"):
        found = regrets("tabular")[group]
        assert found.mean("two") < 0.6 * found.mean("model")


@pytest.mark.parametrize("table", ["tabular", "text"])
def test_probabilities_come_true_within_six_points(table: str) -> None:
    fit, figures = fits()[0][table], fits()[1][table]
    pairs = list(pairs_of(fit, figures["difference_sd"], families()))
    for said, won, count in reliability(pairs):
        assert count < 200 or abs(said - won) <= 0.06
    assert 0.75 <= np.mean([pair[2] for pair in pairs]) <= 0.85
