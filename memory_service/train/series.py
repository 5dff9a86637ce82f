"""Members that forecast: series of a table, their seasons, smoothing, holidays by the years before (or by the
package `holidays`, of the country that explains the training rows best), and lags from an origin.

A row is predicted from an origin, the last period whose targets are known. For training rows origins are
drawn 1 to `horizon` periods before, so that a model learns what it will be asked: near and far periods alike.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.problem import Fit, Member, Prediction, Problem, installed
from memory_service.train.tables import grow

WEEKS = 4  # to each side, of the usual
COUNTRIES = (
    "US", "CN", "IN", "JP", "DE", "GB", "FR", "BR", "IT", "CA", "RU", "KR", "AU", "MX", "ES", "TR", "NL",
    "PL",
)  # fmt: skip
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
    left = dates.days_in_month - dates.day
    ways = {
        "date": dates.month * 100 + dates.day,
        "weekday of month": dates.month * 100 + 10 * ((dates.day - 1) // 7) + dates.day_of_week,
        "last weekdays": dates.month * 100 + 10 * (left // 7) + dates.day_of_week,
        "easter": from_easter(dates),
    }
    named = holidays_of(dates, apart, last)
    keys = {name: np.asarray(values) for name, values in ways.items()}
    keys |= {} if named is None else {"holiday": named}
    places = {name: places_of(values) for name, values in keys.items()}

    def features(period: np.ndarray, origin: np.ndarray) -> pd.DataFrame:
        found: dict[str, Any] = {}
        for name, before in places.items():
            chosen = before[period]
            known = (chosen >= 0) & (chosen + 7 * WEEKS <= origin[:, None])
            values = np.where(known, apart[np.clip(chosen, 0, None)], np.nan)
            found[f"effect by {name}"] = mean_of_known(values)
        if named is not None:
            found["holiday"] = np.where(named[period] >= 0, named[period] // 3, -1)
        return pd.DataFrame(found)

    return features


def effects_of(grid: np.ndarray, last: int) -> np.ndarray:
    """Of each day, how far the mean series lies from the median of the same weekday around, as a share."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        total = np.nanmean(grid / np.nanmean(np.abs(grid[: last + 1]), axis=0), axis=1)
        weeks = np.arange(-WEEKS, WEEKS + 1) * 7
        around = np.arange(len(total))[:, None] + weeks
        inside = (around >= 0) & (around < len(total))
        usual = np.nanmedian(np.where(inside, total[np.clip(around, 0, len(total) - 1)], np.nan), axis=1)
        return np.asarray(total - usual)


def from_easter(dates: pd.DatetimeIndex) -> np.ndarray:
    """Days from Easter, -1000 where that is far."""
    days = {year: pd.Timestamp(year, 1, 1) + pd.offsets.Easter() for year in dates.year.unique()}
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
    if not installed("holidays"):
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
    begins = [column[np.isfinite(column)][:8] for column in plain.T]
    start = np.array([each.mean() if len(each) else np.nan for each in begins])
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
    start = np.clip(places - season // 2, 0, None)
    end = np.clip(places - season // 2 + season, None, len(known))
    whole = end - start == season
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        around = (sums[end] - sums[start]) / (sizes[end] - sizes[start])
        apart = np.where(whole[:, None], known - around, np.nan)
        last = 5 if season > 60 else 12
        found = np.zeros((season, known.shape[1]))
        for place in range(season):
            found[place] = np.nanmean(apart[place::season][-last:], axis=0)
    found = np.nan_to_num(found)
    return np.asarray(found - found.mean(axis=0))


MOST_CELLS = 40_000_000  # periods times series
MONTH = 365.25 / 12


@dataclass(frozen=True)
class Series:
    """The rows of a table as series over periods of one length; training rows, then test rows.

    keys      the columns that name a series
    period    of each row, from 0
    number    of each row's series
    horizon   how many periods the test rows reach past the training rows
    seasons   their lengths in periods, shortest first
    dates     of each period; none where the table has no dates
    """

    keys: list[str]
    period: np.ndarray
    number: np.ndarray
    horizon: int
    seasons: list[int]
    dates: pd.DatetimeIndex | None
    step: float


def recognise(problem: Problem) -> Series | None:
    """The series of a table whose test rows lie behind its training rows; None where it has none."""
    if problem.kind != "values" or problem.times is None or problem.test_times is None or not problem.columns:
        return None
    rows = len(problem.inputs)
    times = np.concatenate([problem.times, problem.test_times]).astype(float)
    moments = np.unique(times[np.isfinite(times)])
    if len(moments) < 8 or not np.isfinite(times).all():
        return None
    dates = dates_of(problem)
    period, step = periods_of(times, moments, dates)
    horizon = int(period[rows:].max() - period[:rows].max())
    keys = keys_of(problem, period)
    together = pd.concat([problem.inputs[keys], problem.test_inputs[keys]], ignore_index=True).astype(str)
    number = together.groupby(keys, dropna=False).ngroup().to_numpy() if keys else np.zeros(len(times), int)
    if horizon < 1 or (period.max() + 1) * (number.max() + 1) > MOST_CELLS:
        return None
    cells = pd.DataFrame({"number": number[:rows], "period": period[:rows]}).drop_duplicates()
    spans = cells.groupby("number")["period"].agg(["min", "max", "size"])
    moments_before = np.cumsum(np.bincount(cells["period"], minlength=int(period.max()) + 1) > 0)
    possible = (moments_before[spans["max"]] - moments_before[spans["min"]] + 1).sum()
    known = np.isin(number[rows:], number[:rows]).mean()
    if rows > 3 * len(cells) or len(cells) < 0.3 * possible or spans["size"].median() < 6 or known < 0.5:
        return None
    of_period = None
    if dates is not None:
        first = pd.Series(dates).groupby(period).first().reindex(range(period.max() + 1))
        of_period = pd.DatetimeIndex(first.interpolate() if step < 27 else first.ffill())
    # Periods of a day, a week and a year, where they are whole and the training rows have one and a half
    days = (1.0, 7.0, 364.0) if step <= 1.01 else (364.0,) if step < 27 else (365.25,)
    lengths = {round(each / step) for each in days}
    seasons = sorted(each for each in lengths if each > 1 and 1.5 * each <= period[:rows].max() + 1)
    return Series(keys, period, number, horizon, seasons, of_period, step)


def dates_of(problem: Problem) -> pd.DatetimeIndex | None:
    """The dates of all rows, by the first column of dates."""
    for name in (name for name, kind in problem.columns.items() if kind == "date"):
        column = pd.concat([problem.inputs[name], problem.test_inputs[name]], ignore_index=True)
        if pd.api.types.is_numeric_dtype(column):  # days since 1970
            parsed = pd.to_datetime(column * 86_400, errors="coerce", unit="s", utc=True)
        else:
            parsed = pd.to_datetime(column, errors="coerce", format="mixed", utc=True)
        if parsed.notna().all():
            return pd.DatetimeIndex(parsed).tz_localize(None)
    return None


def periods_of(
    times: np.ndarray, moments: np.ndarray, dates: pd.DatetimeIndex | None
) -> tuple[np.ndarray, float]:
    """(the period of each row, days from one to the next). Months and years count as the calendar does."""
    gaps, sizes = np.unique(np.round(np.diff(moments) * 86_400), return_counts=True)
    step, start = max(float(gaps[sizes.argmax()]), 1.0) / 86_400, moments[0]  # whole seconds do not drift
    if step < 1 and sizes.max() < 0.3 * sizes.sum():  # at any moment
        step, start = 1.0, np.floor(start)
    if step > 27 and dates is not None:
        months = max(1, round(step / MONTH))
        found = (dates.year * 12 + dates.month - 1).to_numpy() // months
        return found - found.min(), months * MONTH
    return np.floor((times - start) / step + 1e-3).astype(int), step


def keys_of(problem: Problem, period: np.ndarray) -> list[str]:
    """As few columns as tell the rows of one period apart."""
    train = problem.inputs
    names = [name for name, kind in problem.columns.items() if kind in ("category", "code", "text")]
    names = [name for name in names if 1 < train[name].nunique() <= len(train) / 3]
    codes = {name: pd.factorize(train[name].astype(str), use_na_sentinel=False)[0] for name in names}
    now, keys = period[: len(train)].astype(np.int64), list[str]()

    def cells(of: np.ndarray, name: str) -> np.ndarray:
        return np.unique(of * (codes[name].max() + 1) + codes[name], return_inverse=True)[1]

    distinct = len(np.unique(now))
    while names and distinct < 0.98 * len(train) and len(keys) < 5:
        tried = {name: cells(now, name) for name in names}
        best = max(names, key=lambda name: tried[name].max())
        if tried[best].max() + 1 < 1.05 * distinct:
            break
        now, distinct = tried[best], tried[best].max() + 1
        keys.append(best)
        names.remove(best)
    return keys


def grid_of(series: Series, rows: np.ndarray, values: np.ndarray, test_rows: int) -> np.ndarray:
    """(periods, series) means of the targets of `rows`, NaN where there are none.

    Absent rows count as 0 where targets are counts that are never 0 and the test rows have fewer gaps.
    """
    shape = (int(series.period.max()) + 1, int(series.number.max()) + 1)
    place = series.period[rows] * shape[1] + series.number[rows]
    sizes = np.bincount(place, minlength=shape[0] * shape[1])
    sums = np.bincount(place, weights=values, minlength=shape[0] * shape[1])
    with np.errstate(invalid="ignore"):
        grid = (sums / np.where(sizes, sizes, np.nan)).reshape(shape)
    if values.min() > 0 and np.array_equal(values, values.round()):
        last = series.period[rows].max()
        seen: np.ndarray = np.isfinite(grid[: last + 1])
        begun: np.ndarray = np.logical_or.accumulate(seen)
        alive = begun & np.any(seen, axis=1, keepdims=True)
        asked = pd.DataFrame({"p": series.period[-test_rows:], "s": series.number[-test_rows:]})
        full = len(asked.drop_duplicates()) / max(asked["p"].nunique() * asked["s"].nunique(), 1)
        if seen.sum() / alive.sum() < full - 0.1:
            grid[: last + 1][alive & ~seen] = 0.0
    return grid


class Past:
    """What a grid knows: values before, means of windows, of seasons. Periods and origins: one a row."""

    def __init__(self, grid: np.ndarray) -> None:
        self.grid = grid
        seen = np.isfinite(grid)
        zeros = np.zeros((1, grid.shape[1]))
        self.sums = np.vstack([zeros, np.cumsum(np.where(seen, grid, 0.0), axis=0)])
        self.sizes = np.vstack([zeros, np.cumsum(seen, axis=0)])

    def value(self, period: np.ndarray, number: np.ndarray) -> np.ndarray:
        found = self.grid[np.clip(period, 0, None), number]
        return np.where(period >= 0, found, np.nan)

    def mean(self, first: np.ndarray, last: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Of the periods `first` to `last`."""
        start, end = np.clip(first, 0, len(self.grid)), np.clip(last + 1, 0, len(self.grid))
        size = self.sizes[end, number] - self.sizes[start, number]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(size > 0, (self.sums[end, number] - self.sums[start, number]) / size, np.nan)

    def seasonal(
        self, period: np.ndarray, origin: np.ndarray, number: np.ndarray, season: int, most: int
    ) -> np.ndarray:
        """(rows, most): the last values at or before the origin that are whole seasons before the period."""
        back = np.ceil((period - origin) / season).astype(int)
        return np.column_stack([self.value(period - (back + k) * season, number) for k in range(most)])


def mean_of_known(values: np.ndarray, median: bool = False) -> np.ndarray:
    """Of each row, NaN of none."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return np.asarray(np.nanmedian(values, axis=1) if median else np.nanmean(values, axis=1))


def proportional(grid: np.ndarray) -> bool:
    """Whether series vary as much as they are large, so that ratios are alike and differences are not."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        means, spreads = np.nanmean(grid, axis=0), np.nanstd(grid, axis=0)
    fine = np.isfinite(means) & (spreads > 0) & (means > 0)
    if np.nanmin(grid) < 0 or fine.sum() < 5 or means[fine].max() < 3 * means[fine].min():
        return False
    return bool(np.corrcoef(np.log(means[fine]), np.log(spreads[fine]))[0, 1] > 0.6)


def parts(problem: Problem, series: Series, train_rows: np.ndarray, valid_rows: np.ndarray) -> dict[str, Any]:
    """The rows that are asked for, and the origins from which they are."""
    last = int(series.period[train_rows].max())
    newest = int(series.period[np.concatenate([train_rows, valid_rows])].max())
    test_rows = np.arange(len(problem.inputs), len(series.period))
    return {"valid": (valid_rows, last), "test": (test_rows, newest)}


class Forecaster(Member):
    """What members have in common: series of a problem are looked for once."""

    _found: tuple[Any, Series | None] = (None, None)

    def series(self, problem: Problem) -> Series | None:
        if Forecaster._found[0] is not problem.inputs:
            Forecaster._found = (problem.inputs, recognise(problem))
        return Forecaster._found[1]

    def applies(self, problem: Problem) -> bool:
        return self.series(problem) is not None

    def grids(self, problem: Problem, rows: np.ndarray) -> tuple[Series, list[np.ndarray]]:
        series = self.series(problem)
        if series is None:
            raise ValueError("the table has no series")
        columns = problem.targets.reshape(len(problem.targets), -1)[rows]
        tests = len(problem.test_inputs)
        return series, [grid_of(series, rows, column.astype(float), tests) for column in columns.T]

    def learn(self, fit: Fit) -> Prediction:
        """The forecast of the best choice for the validation rows; without them, of the memo's."""
        problem, train_rows, valid_rows = fit.problem, fit.train_rows, fit.valid_rows
        chosen, found, complete, best = fit.memo, fit.nothing, True, np.inf
        series, grids = self.grids(problem, np.concatenate([train_rows, valid_rows]).astype(int))
        choices = self.choices(fit, [*series.seasons, 1])
        asked = parts(problem, series, train_rows, valid_rows)
        if len(valid_rows):
            known, (rows, origin) = self.grids(problem, train_rows)[1], asked["valid"]
            for choice in choices:
                began = time.monotonic()
                tried = np.column_stack([self.forecast(series, grid, rows, origin, choice) for grid in known])
                loss = fit.loss(tried)
                if loss < best:
                    best, chosen, found = loss, choice, tried
                if fit.clock.left() < 3 * (time.monotonic() - began):
                    complete = False
                    break
        choice = {name: int(chosen.get(name, choices[0][name])) for name in choices[0]}
        rows, origin = asked["test"]
        test = np.column_stack([self.forecast(series, grid, rows, origin, choice) for grid in grids])
        return Prediction(found, test, dict(choice), complete)

    def choices(self, fit: Fit, seasons: list[int]) -> list[dict[str, int]]:
        """What is tried, for seasons of these lengths."""
        raise NotImplementedError

    def forecast(
        self, series: Series, grid: np.ndarray, rows: np.ndarray, origin: int, choice: dict[str, int]
    ) -> np.ndarray:
        raise NotImplementedError


def filled(found: np.ndarray, series: Series, grid: np.ndarray, rows: np.ndarray, origin: int) -> np.ndarray:
    """NaN as the mean of the series' last values, or of all series'."""
    past, number = Past(grid), series.number[rows]
    means = past.mean(np.full(len(rows), origin - 60), np.full(len(rows), origin), number)
    found = np.where(np.isfinite(found), found, means)
    return np.where(np.isfinite(found), found, np.nanmean(grid[: origin + 1]))


class SeasonalNaive(Forecaster):
    """The mean or median of a series' last values one, two ... seasons before."""

    name = "seasonal naive"

    def price(self, problem: Problem) -> float:
        return 1 + 1e-5 * len(problem.inputs)

    def choices(self, fit: Fit, seasons: list[int]) -> list[dict[str, int]]:
        kinds = [(1, 0), (2, 0), *((values, median) for values in (4, 8, 16) for median in (0, 1))]
        return [{"season": each, "values": n, "median": m} for each in seasons for n, m in kinds]

    def forecast(
        self, series: Series, grid: np.ndarray, rows: np.ndarray, origin: int, choice: dict[str, int]
    ) -> np.ndarray:
        period, number = series.period[rows], series.number[rows]
        origins = np.full(len(rows), origin)
        values = Past(grid).seasonal(period, origins, number, choice["season"], choice["values"])
        return filled(mean_of_known(values, bool(choice["median"])), series, grid, rows, origin)


class Smoothing(Forecaster):
    """Exponential smoothing with a damped trend and Theta of each series, their mean, less its season."""

    name = "exponential smoothing and Theta"

    def price(self, problem: Problem) -> float:
        return 2 + 2e-4 * len(problem.inputs)

    def choices(self, fit: Fit, seasons: list[int]) -> list[dict[str, int]]:
        positive = [1, 0] if fit.problem.targets.min() >= 0 else [0]
        return [{"season": season, "log": log} for season in seasons for log in positive]

    def forecast(
        self, series: Series, grid: np.ndarray, rows: np.ndarray, origin: int, choice: dict[str, int]
    ) -> np.ndarray:
        known = np.log1p(grid[: origin + 1]) if choice["log"] else grid[: origin + 1]
        period = series.period[rows]
        ahead = smooth(known, int(max(period.max() - origin, 1)), choice["season"])
        found = ahead[np.clip(period - origin - 1, 0, len(ahead) - 1), series.number[rows]]
        return filled(np.expm1(found) if choice["log"] else found, series, grid, rows, origin)


class BoostedLags(Forecaster):
    """LightGBM of all series: values at seasons before the origin, means, calendar, day effects, columns.

    relative   targets and values as ratios to the series' level, or differences from it: trends go on
    """

    def __init__(self, name: str, relative: bool, objective: str = "") -> None:
        self.name, self.relative, self.objective = name, relative, objective

    def applies(self, problem: Problem) -> bool:
        if not installed("lightgbm") or self.series(problem) is None:
            return False
        targets = problem.targets
        return not self.objective or bool(targets.min() >= 0 and np.array_equal(targets, targets.round()))

    def price(self, problem: Problem) -> float:
        return 8 + 4e-4 * max(len(problem.inputs), 20_000)

    def learn(self, fit: Fit) -> Prediction:
        problem, train_rows, valid_rows, clock = fit.problem, fit.train_rows, fit.valid_rows, fit.clock
        everything = np.concatenate([train_rows, valid_rows]).astype(int)
        series, grids = self.grids(problem, everything)
        columns = problem.targets.reshape(len(problem.targets), -1).astype(float)
        asked = parts(problem, series, train_rows, valid_rows)
        rows, origins = drawn(series, train_rows, fit.seed)
        found: dict[str, list[np.ndarray]] = {"valid": [], "test": []}
        rounds, complete, began = [], True, clock.left()
        for place, grid in enumerate(grids):
            ratios = self.relative and proportional(grid)
            effects = day_effects(grid, series.dates, series.step, int(series.period[train_rows].max()))

            def side(
                rows: np.ndarray,
                origin: np.ndarray,
                grid: np.ndarray = grid,
                effects: Any = effects,
                ratios: bool = ratios,
            ) -> Any:
                table = table_of(problem, series, Past(grid), rows, origin, effects)
                base = table["level"].fillna(np.nanmean(grid)).to_numpy()
                base = np.maximum(base, 0.02 * np.nanmean(grid)) if ratios else base
                if self.relative:
                    values = [name for name in table.columns if name.startswith(("lag", "mean", "level"))]
                    change = table[values].div if ratios else table[values].sub
                    table[values] = change(base, axis=0)
                return table, base if self.relative else np.zeros(len(rows)), ratios

            def turned(rows: np.ndarray, made: Any, column: np.ndarray) -> Any:
                table, base, ratios = made
                weight = (base if problem.loss == "absolute" else base**2) if ratios else None
                if problem.weights is not None:
                    weight = problem.weights[rows] * (1.0 if weight is None else weight)
                return table, column[rows] / base if ratios else column[rows] - base, weight

            learned = turned(rows, side(rows, origins), columns[:, place])
            valid = side(valid_rows, np.full(len(valid_rows), asked["valid"][1])) if len(valid_rows) else None
            held = turned(valid_rows, valid, columns[:, place]) if valid else None
            share = max(0.85 * clock.left() - 0.1 * began, 0.5) / (len(grids) - place)
            wanted = 4000 if held else int(1.05 * fit.memo.get("rounds", 300)) + 1
            settings = self._settings(problem, fit.seed)
            model, best, whole = grow(settings, learned, held, wanted, clock, clock.left() - share)
            complete &= whole
            rounds.append(best)
            test = side(asked["test"][0], np.full(len(asked["test"][0]), asked["test"][1]))
            for name, made in (("valid", valid), ("test", test)):
                if made:
                    raw = model.predict(made[0], num_iteration=best)
                    raw = raw * made[1] if made[2] else raw + made[1]
                    least = 0 if columns[train_rows, place].min() >= 0 else None
                    found[name].append(raw if least is None else np.clip(raw, least, None))
        held_out = np.column_stack(found["valid"]) if found["valid"] else fit.nothing
        memo = {"rounds": int(np.median(rounds))}
        return Prediction(held_out, np.column_stack(found["test"]), memo, complete)

    def _settings(self, problem: Problem, seed: int) -> dict[str, Any]:
        loss = "l1" if problem.loss == "absolute" else "l2"
        return {
            "objective": self.objective or loss, "metric": loss, "learning_rate": 0.03, "num_leaves": 31,
            "min_child_samples": 20, "feature_fraction": 0.6, "bagging_fraction": 0.8, "bagging_freq": 1,
            "cat_smooth": 20, "seed": seed, "num_threads": problem.cores, "deterministic": True,
            "force_row_wise": True,
        }  # fmt: skip


def drawn(series: Series, rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(training rows, an origin for each): few rows several times, without the first periods of many."""
    rng = np.random.default_rng(seed)
    period = series.period[rows]
    first, last = period.min(), period.max()
    warm = first + min(series.horizon + 2 * (series.seasons or [4])[0], (last - first) // 3)
    rows = rows[period >= warm]
    if len(rows) > 400_000:
        rows = rng.choice(rows, 400_000, replace=False)
    rows = np.tile(rows, int(np.clip(80_000 // len(rows), 1, 4)))
    return rows, series.period[rows] - rng.integers(1, series.horizon + 1, len(rows))


def table_of(
    problem: Problem, series: Series, past: Past, rows: np.ndarray, origin: np.ndarray, effects: Any
) -> pd.DataFrame:
    """The features of rows, each from its origin; values of the series are named lag, mean or level."""
    period, number = series.period[rows], series.number[rows]
    found: dict[str, Any] = {"ahead": period - origin}
    seasons = series.seasons or [1]
    short, length = seasons[0], len(past.grid)
    found["level"] = past.mean(origin - max(short, 3 if series.step < 300 else 1) + 1, origin, number)
    found["lag last"] = past.value(origin, number)
    for window in sorted({2 * short, 4 * short, 8 * short, 26 * short if short < 12 else 3 * short}):
        found[f"mean {window}"] = past.mean(origin - window + 1, origin, number)
    for season in seasons:
        values = past.seasonal(period, origin, number, season, 8 if 8 * season < length else 3)
        found |= {f"lag {season} {k}": values[:, k] for k in range(min(4, values.shape[1]))}
        found[f"mean of {season}"] = mean_of_known(values)
        found[f"mean median {season}"] = mean_of_known(values, median=True)
    year = seasons[-1]
    if year > 12 * max(short, 2) or (len(seasons) == 1 and year >= 12):
        back = np.ceil((period - origin) / year).astype(int) * year
        width = max(1, year // 52)
        last = np.minimum(period - back + width, origin)
        found["mean then"] = past.mean(period - back - width, last, number)
        found["mean year ago"] = past.mean(origin - year - 4 * width + 1, origin - year, number)
        found["mean now"] = past.mean(origin - 4 * width + 1, origin, number)
    if series.dates is not None:
        dates = series.dates[period]
        yearly = series.step * year > 360  # else a day of the year is one of a single past
        if series.step < 20:
            found |= {"day": dates.day, "weekday": dates.day_of_week}
            found["to month's end"] = dates.days_in_month - dates.day
            found |= {"day of year": dates.day_of_year} if yearly else {}
        if series.step < 1:
            found["hour"] = dates.hour + dates.minute / 60
        if series.step < 300 and yearly:
            found["month"] = dates.month
    table = pd.DataFrame(found, index=range(len(rows)))
    if effects is not None:
        table = pd.concat([table, effects(period, origin)], axis=1)
    for name, kind in problem.columns.items():
        column = pd.concat([problem.inputs[name], problem.test_inputs[name]], ignore_index=True)
        if kind == "number":
            table[name] = pd.to_numeric(column, errors="coerce").astype(float).to_numpy()[rows]
        elif kind in ("category", "code") or name in series.keys:
            kinds = column.astype(str).astype("category")
            table[name] = kinds.iloc[rows].reset_index(drop=True)
    return table


SERIES_MEMBERS = (
    SeasonalNaive(),
    Smoothing(),
    BoostedLags("boosting with lags", relative=False),
    BoostedLags("boosting with lags, relative to the level", relative=True),
    BoostedLags("boosting with lags, counts", relative=False, objective="poisson"),
)
