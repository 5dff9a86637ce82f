"""How far single days lie from their weekday's usual: holidays, learned from the years before.

A day is compared with earlier years' at its date, at its weekday's place in the month, at its distance from
Easter, and, where the package `holidays` is installed, at the holiday's name in the country that explains the
training rows best.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

WEEKS = 4  # to each side, of the usual
COUNTRIES = (
    "US",
    "CN",
    "IN",
    "JP",
    "DE",
    "GB",
    "FR",
    "BR",
    "IT",
    "CA",
    "RU",
    "KR",
    "AU",
    "MX",
    "ES",
    "TR",
    "NL",
    "PL",
)
LEAST_EXPLAINED = 0.05  # of the days' variance, by a country's holidays


def day_effects(
    grid: np.ndarray, dates: pd.DatetimeIndex | None, step: float, last: int
) -> Callable[[np.ndarray, np.ndarray], pd.DataFrame] | None:
    """A function of (period, origin) to features, for series of days; None of less than 13 months.

    grid   (periods, series); only what lies before an origin goes into its features
    last   the last period that scales of series and a country's holidays are learned from
    """
    if dates is None or abs(step - 1) > 0.01 or last < 395:
        return None
    apart = effects_of(grid, last)
    ways = {
        "date": dates.month * 100 + dates.day,
        "weekday of month": dates.month * 100 + 10 * ((dates.day - 1) // 7) + dates.day_of_week,
        "last weekdays": dates.month * 100
        + 10 * ((dates.days_in_month - dates.day) // 7)
        + dates.day_of_week,
        "easter": from_easter(dates),
    }
    named = holidays_of(dates, apart, last)
    keys = {name: np.asarray(values) for name, values in ways.items()} | (
        {} if named is None else {"holiday": named}
    )
    places = {name: places_of(values) for name, values in keys.items()}

    def features(period: np.ndarray, origin: np.ndarray) -> pd.DataFrame:
        found: dict[str, Any] = {}
        for name, before in places.items():
            chosen = before[period]
            known = (chosen >= 0) & (chosen + 7 * WEEKS <= origin[:, None])
            values = np.where(known, apart[np.clip(chosen, 0, None)], np.nan)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                found[f"effect by {name}"] = np.nanmean(values, axis=1)
        if named is not None:
            found["holiday"] = np.where(named[period] >= 0, named[period] // 3, -1)
        return pd.DataFrame(found)

    return features


def effects_of(grid: np.ndarray, last: int) -> np.ndarray:
    """Of each day, how far the mean series lies from the median of the same weekday around, as a share."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        total = np.nanmean(grid / np.nanmean(np.abs(grid[: last + 1]), axis=0), axis=1)
        weeks = np.arange(-WEEKS, WEEKS + 1) * 7
        around = np.arange(len(total))[:, None] + weeks
        inside = (around >= 0) & (around < len(total))
        usual = np.nanmedian(np.where(inside, total[np.clip(around, 0, len(total) - 1)], np.nan), axis=1)
        return np.asarray(total - usual)


def easter(year: int) -> pd.Timestamp:
    """Easter Sunday of the Gregorian calendar (Meeus, Jones, Butcher)."""
    century, place = divmod(year, 100)
    moon = (19 * (year % 19) + century - century // 4 - (8 * century + 13) // 25 + 15) % 30
    full = moon - (year % 19 + 11 * moon) // 319
    sunday = (2 * (century % 4) + 2 * (place // 4) - place % 4 - full + 32) % 7
    month = (full + sunday + 90) // 25
    day = (full + sunday + month + 19) % 32
    return pd.Timestamp(year, month, day)


def from_easter(dates: pd.DatetimeIndex) -> np.ndarray:
    """Days from Easter, -1000 where that is far."""
    days = {year: easter(year) for year in dates.year.unique()}
    found = (dates.normalize() - pd.DatetimeIndex([days[year] for year in dates.year])).days.to_numpy()
    return np.where((found >= -50) & (found <= 60), found, -1000)


def places_of(keys: np.ndarray, most: int = 4) -> np.ndarray:
    """(days, most): the last days before that have the same key, at least 300 days before; -1 of none."""
    found = np.full((len(keys), most), -1)
    seen: dict[int, list[int]] = {}
    for day, key in enumerate(keys.tolist()):
        if key > -1000:
            before = [each for each in seen.get(key, []) if each <= day - 300][-most:]
            found[day, : len(before)] = before
            seen.setdefault(key, []).append(day)
    return found


def holidays_of(dates: pd.DatetimeIndex, apart: np.ndarray, last: int) -> np.ndarray | None:
    """Of each day a number of the holiday that it is, follows or precedes, in the country that fits best."""
    if importlib.util.find_spec("holidays") is None:
        return None
    import holidays

    best, found = LEAST_EXPLAINED, None
    for country in COUNTRIES:
        days = holidays.country_holidays(country, years=[int(year) for year in dates.year.unique()])
        names = {pd.Timestamp(day): name for day, name in days.items()}
        numbers = {name: place for place, name in enumerate(sorted(set(names.values())))}
        keys = np.full(len(dates), -1000)
        for place in (1, 2, 0):  # the day after, the day before, the day
            shifted = dates.normalize() + pd.Timedelta(days=(0, -1, 1)[place])
            known = [numbers.get(names.get(day, ""), -1) for day in shifted]
            keys = np.where(np.array(known) >= 0, 3 * np.array(known) + place, keys)
        gain = explained(apart[: last + 1], keys[: last + 1])
        if gain > best:
            best, found = gain, keys
    return found


def explained(apart: np.ndarray, keys: np.ndarray) -> float:
    """The share of variance that means by key explain, less what as many keys at random would."""
    known = np.isfinite(apart)
    apart, keys = apart[known], keys[known]
    means = pd.Series(apart).groupby(keys).transform("mean").to_numpy()
    kinds = len(np.unique(keys))
    total = float(((apart - apart.mean()) ** 2).sum())
    left = float(((apart - means) ** 2).sum()) / max(len(apart) - kinds, 1) * len(apart)
    return 1 - left / total if total > 0 else 0.0
