"""Exponential smoothing with a damped trend, and Theta, of many series at once."""

from __future__ import annotations

import warnings

import numpy as np

ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.95)
BETAS = (0.0, 0.1, 0.3)  # of alpha
DAMPING = 0.95  # of a trend, each period
MOST_PERIODS = 4000  # of the past


def smooth(known: np.ndarray, ahead: int, season: int) -> np.ndarray:
    """(ahead, series): the mean of two forecasts, each the best of its kind by errors one period ahead.

    known   (periods, series), NaN where a value is unknown
    """
    known = known[-MOST_PERIODS:]
    indices = season_of(known, season)
    phase = np.arange(len(known)) % season
    plain = known - indices[phase]
    start = np.array(
        [
            column[np.isfinite(column)][:8].mean() if np.isfinite(column).any() else np.nan
            for column in plain.T
        ]
    )
    alphas, betas = np.repeat(ALPHAS, len(BETAS))[:, None], np.tile(BETAS, len(ALPHAS))[:, None]
    level = np.tile(start, (len(alphas), 1))
    trend, errors, seen = np.zeros_like(level), np.zeros_like(level), np.zeros(plain.shape[1])
    for row in plain:
        expected = level + DAMPING * trend
        there = np.isfinite(row)
        gap = np.where(there, row - expected, 0.0)
        errors, seen = 0.995 * errors + gap**2, seen + there
        level = expected + alphas * gap
        trend = DAMPING * trend + alphas * betas * gap
    series = np.arange(plain.shape[1])
    steps = np.arange(1, ahead + 1)[:, None]
    best = np.argmin(np.nan_to_num(errors, nan=np.inf), axis=0)
    damped = DAMPING * (1 - DAMPING**steps) / (1 - DAMPING)
    holt = level[best, series] + damped * trend[best, series]
    simple = np.flatnonzero(betas[:, 0] == 0)
    flat = simple[np.argmin(np.nan_to_num(errors[simple], nan=np.inf), axis=0)]
    theta = level[flat, series] + 0.5 * slope_of(plain) * steps
    coming = (len(known) + np.arange(ahead)) % season
    return np.asarray((holt + theta) / 2 + indices[coming])


def slope_of(plain: np.ndarray) -> np.ndarray:
    """The least-squares slope of each series."""
    there = np.isfinite(plain)
    size = np.maximum(there.sum(axis=0), 1)
    at = np.where(there, np.arange(len(plain))[:, None], 0.0)
    values = np.where(there, plain, 0.0)
    mean = at.sum(axis=0) / size
    spread = (np.where(there, at - mean, 0.0) ** 2).sum(axis=0)
    return np.asarray((np.where(there, at - mean, 0.0) * values).sum(axis=0) / np.maximum(spread, 1e-9))


def season_of(known: np.ndarray, season: int) -> np.ndarray:
    """(season, series): how far each place of a season lies from the mean around it, of late."""
    if season < 2:
        return np.zeros((1, known.shape[1]))
    there = np.isfinite(known)
    sums = np.cumsum(np.vstack([np.zeros(known.shape[1]), np.where(there, known, 0.0)]), axis=0)
    sizes = np.cumsum(np.vstack([np.zeros(known.shape[1]), there]), axis=0)
    places = np.arange(len(known))
    start, end = (
        np.clip(places - season // 2, 0, None),
        np.clip(places - season // 2 + season, None, len(known)),
    )
    whole = end - start == season
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        around = (sums[end] - sums[start]) / (sizes[end] - sizes[start])
        apart = np.where(whole[:, None], known - around, np.nan)
        last = 5 if season > 60 else 12
        found = np.zeros((season, known.shape[1]))
        for place in range(season):
            found[place] = np.nanmean(apart[place::season][-last:], axis=0)
    found = np.nan_to_num(found)
    return np.asarray(found - found.mean(axis=0))
