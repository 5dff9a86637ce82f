"""What a second model adds: the expected best of several plans whose errors are only partly shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def expected_best(first: Any, second: Any, difference_sd: Any) -> Array:
    """Expected maximum of two correlated normal qualities; arguments broadcast, all in the same unit.

    difference_sd   standard deviation of their difference on one data set: small for two models that err
                    alike, so that the second adds little
    E max = a * Phi(d/s) + b * Phi(-d/s) + s * phi(d/s) with d = a - b (Clark 1961, "The greatest of a finite
    set of random variables").
    """
    a, b, s = (np.asarray(value, dtype=np.float64) for value in (first, second, difference_sd))
    d = (a - b) / np.maximum(s, 1e-9)
    phi = np.exp(-0.5 * d * d) / np.sqrt(2 * np.pi)
    share = probability_better(a, b, s)
    return np.asarray(a * share + b * (1 - share) + s * phi, dtype=np.float64)


def probability_better(first: Any, second: Any, difference_sd: Any) -> Array:
    """Probability that the first of two normal qualities is the higher one; arguments broadcast."""
    a, b, s = (np.asarray(value, dtype=np.float64) for value in (first, second, difference_sd))
    return _normal_cdf((a - b) / np.maximum(s, 1e-9))


def _normal_cdf(x: Array) -> Array:
    """Standard normal distribution function, absolute error under 1e-7 (Abramowitz and Stegun 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    upper = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) * poly
    return np.asarray(np.where(x >= 0, 1.0 - upper, upper), dtype=np.float64)
