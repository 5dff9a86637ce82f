"""Columns of a table as inputs of a model, and which of the possible ones gain on held-out rows."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from memory_service.train.problem import Problem
from memory_service.train.words import out_of_fold, text_columns, written

KINDS = ("number", "code", "category", "date", "group", "text")
AROUND = (3, 15)  # rows that learn on each side
BETWEEN = 0.8  # of its share of training rows, that training rows stand next to test rows
MOST_SAID = 30  # outputs of linear models of words, as inputs
MEAN_ROWS = 20.0  # a category's mean target is drawn to the mean of all as if it had so many rows more


@dataclass(frozen=True)
class Choice:
    """Which inputs there are beside numbers and categories as they stand.

    dates    month, weekday, day of the year and hour of dates
    time     the dates themselves, as days
    codes    whole numbers that may be names are categories
    counts   how often each category occurs
    means    the mean target of each category, out of fold
    group    the number of a row's group, of which the test set has others
    ratios   ratios and differences of the strongest numbers
    group_means  (a group or category, a number): the number's mean over its rows, and how far a row is off
    history  categories of which the earlier targets are told: how many, their mean, that of the last ones
    rate     a number of which the target may be a share: history tells this share, too
    neighbors  numbers of the row before and behind in a row's series, less its own
    reach      how many rows before and behind, at most: 1, 2, 4 ... away
    place      where a row stands among those of its series, from both ends
    around     the mean targets of the rows that are next in a row's series
    texts      1: lengths, marks and likeness of texts; 2: also what linear models of their words say
    """

    dates: bool = True
    time: bool = True
    codes: bool = False
    counts: bool = False
    means: bool = False
    group: bool = False
    ratios: tuple[tuple[str, str], ...] = ()
    group_means: tuple[tuple[str, str], ...] = ()
    history: tuple[str, ...] = ()
    rate: str = ""
    neighbors: tuple[str, ...] = ()
    reach: int = 1
    place: bool = False
    around: bool = False
    texts: int = 0

    def changed(self, change: dict[str, Any]) -> Self:
        """With these fields in place of its own; those of several entries are added to those that it has."""
        several = [name for name in ("group_means", "history") if name in change]
        more = {name: getattr(self, name) + change[name] for name in several}
        return replace(self, **change | more)


def names_of(problem: Problem, choice: Choice) -> tuple[list[str], list[str], list[str]]:
    """Columns that are (numbers, categories, dates)."""
    by_kind: dict[str, list[str]] = {}
    for name, kind in problem.columns.items():
        by_kind.setdefault(kind, []).append(name)
    codes = by_kind.get("code", [])
    numbers = by_kind.get("number", []) + ([] if choice.codes else codes)
    numbers += by_kind.get("group", []) if choice.group else []
    categories = by_kind.get("category", []) + (codes if choice.codes else [])
    return numbers, categories, by_kind.get("date", [])


def as_text(column: pd.Series) -> pd.Series:
    return column.astype(object).where(column.notna(), "missing").astype(str)


def date_parts(days: pd.Series) -> dict[str, pd.Series]:
    """Calendar parts of days since 1970."""
    moments = pd.to_datetime(days.to_numpy() * 86_400, unit="s", errors="coerce")
    parts = {"weekday": moments.day_of_week, "month": moments.month, "day": moments.day}
    parts["day of the year"] = moments.day_of_year
    if (days.dropna() % 1 > 0).any():
        parts["hour"] = moments.hour + moments.minute / 60
    return {name: pd.Series(np.asarray(part, dtype=float), index=days.index) for name, part in parts.items()}


def features_of(
    problem: Problem, choice: Choice, train_rows: np.ndarray, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """(inputs of all rows of the training table, those of the test table, names of the categories).

    What depends on targets is learned from `train_rows` alone, and for each of these from others of them.
    """
    numbers, categories, dates = names_of(problem, choice)
    rows = len(problem.inputs)
    both = pd.concat([problem.inputs, problem.test_inputs], ignore_index=True)
    columns: dict[str, Any] = {name: both[name] for name in numbers}
    for name in dates:
        if choice.time:
            columns[name] = both[name]
        if choice.dates:
            columns |= {f"{name}: {part}": values for part, values in date_parts(both[name]).items()}
    for one, other in choice.ratios:
        columns[f"{one} / {other}"] = both[one] / both[other].where(both[other] != 0)
        columns[f"{one} - {other}"] = both[one] - both[other]
    for key, name in choice.group_means:
        mean = both.groupby(as_text(both[key]))[name].transform("mean")
        columns |= {f"{name}: mean of {key}": mean, f"{name}: off {key}": both[name] - mean}
    for key in dict.fromkeys(key for key, _ in choice.group_means):
        columns[f"rows of {key}"] = both.groupby(as_text(both[key])).transform("size").astype(float)
    for key in choice.history:
        columns |= history_columns(problem, both, key, choice.rate, train_rows, seed)
    if choice.neighbors or choice.place:
        columns |= neighbor_columns(problem, both, choice)
    if choice.around:
        columns |= around_columns(problem, both, train_rows)
    if choice.texts:
        columns |= written(problem)
    if choice.texts > 1:
        columns |= {f"texts: {n}": each for n, each in enumerate(out_of_fold(problem, train_rows).T)}
    for name in categories:
        text = as_text(both[name])
        known = text.iloc[train_rows].value_counts()
        columns[name] = pd.Categorical(text.where(text.isin(known.index)), categories=sorted(known.index))
        if choice.counts:
            columns[f"{name}: count"] = text.map(text.value_counts()).astype(float)
        if choice.means and len(known) > 2:
            columns |= mean_columns(problem, name, text, train_rows, seed)
    table = pd.DataFrame(columns)
    return table.iloc[:rows], table.iloc[rows:].reset_index(drop=True), categories


def series_of(problem: Problem, both: pd.DataFrame) -> tuple[pd.Series, pd.Series] | None:
    """(the series of each row, its place there): by a date, or of groups that are new in the test set by the
    number that tells a group's rows apart, such as a year. None where there is no order."""
    of = {kind: [name for name, each in problem.columns.items() if each == kind] for kind in KINDS}
    for place in of["date"] or (of["code"] + of["number"] if of["group"] else []):
        keys = sorted(of["category"] + of["code"], key=lambda name: both[name].nunique())
        for key in (*of["group"], *([None, *keys] if of["date"] else [])):
            if key == place:
                continue
            series = pd.Series("", index=both.index) if key is None else as_text(both[key])
            twice = pd.DataFrame({"series": series, "place": both[place]}).duplicated().mean()
            if twice < 0.05 and both[place].notna().mean() > 0.95:
                return series, both[place]
    return None


def neighbor_columns(problem: Problem, both: pd.DataFrame, choice: Choice) -> dict[str, pd.Series]:
    """Numbers of the rows before and behind in a row's series, less its own; where it stands there."""
    found: dict[str, pd.Series] = {}
    names = choice.neighbors
    if (known := series_of(problem, both)) is None:
        return found
    series, place = known
    order = pd.DataFrame({"series": series, "place": place}).sort_values(["series", "place"]).index
    grouped = both.loc[order, list(names)].groupby(series.loc[order].to_numpy())
    away = [step for step in (1, 2, 4, 8, 16) if names and step <= choice.reach]
    for step in (sign * step for step in away for sign in (1, -1)):
        shifted = grouped.shift(step).reindex(both.index)
        side = f"{abs(step)} {'before' if step > 0 else 'behind'}"
        found |= {f"{name}: {side}": shifted[name] - both[name] for name in names}
    if choice.place:
        by = place.groupby(series)
        first, last = by.transform("min"), by.transform("max")
        length = (last - first).where(last > first, np.nan)
        found |= {"since the first": place - first, "until the last": last - place}
        found |= {"from first to last": length, "share of the way": (place - first) / length}
        found |= {"rows of the series": by.transform("size") * 1.0}
        beside = place.loc[order].groupby(series.loc[order].to_numpy())
        found["since the one before"] = place - beside.shift(1).reindex(both.index)
    return found


def around_columns(problem: Problem, both: pd.DataFrame, train_rows: np.ndarray) -> dict[str, np.ndarray]:
    """The mean targets of the nearest training rows before and behind in a row's series, less its own."""
    if (known := in_order(problem, both)) is None:
        return {}
    order, series = known
    learns, own = np.isin(order, train_rows).astype(int), np.zeros((len(both), learned(problem).shape[1]))
    own[train_rows] = learned(problem)[train_rows]
    own = own[order]
    behind, totals = learns.cumsum(), np.vstack([0 * own[:1], own[learns > 0].cumsum(axis=0)])
    counts = np.append(0, behind)
    first, last = (counts[np.searchsorted(series, series, side)] for side in ("left", "right"))
    found: dict[str, np.ndarray] = {}
    for most in AROUND:
        low, high = np.maximum(behind - learns - most, first), np.minimum(behind + most, last)
        rows = (high - low - learns)[:, None]
        means = np.empty_like(own)
        means[order] = (totals[high] - totals[low] - own) / np.where(rows > 0, rows, np.nan)
        found |= {f"{most} around: mean {place}": column for place, column in enumerate(means.T)}
    return found


def in_order(problem: Problem, both: pd.DataFrame) -> tuple[np.ndarray, np.ndarray] | None:
    """(rows in the order of their series, the series of each); None where there is no order."""
    if (known := series_of(problem, both)) is None:
        return None
    _, series = np.unique(known[0], return_inverse=True)
    order = np.lexsort((known[1], series))
    return order, series[order]


def are_between(problem: Problem) -> bool:
    """Whether training rows are next to test rows, on each side, about as often as to training rows."""
    known = in_order(problem, pd.concat([problem.inputs, problem.test_inputs], ignore_index=True))
    if known is None:
        return False
    learns = pd.Series(known[0] < len(problem.inputs))
    beside = pd.DataFrame({step: learns.groupby(known[1]).shift(step) == 1 for step in (1, -1)})
    test, train = beside.groupby(learns).mean().reindex([False, True]).to_numpy()
    return bool((test >= BETWEEN * train).all())


def learned(problem: Problem) -> np.ndarray:
    """Targets as columns: values, labels, whether it is the second, the third ... class; at most ten."""
    targets = problem.targets
    return (targets if targets.ndim == 2 else np.eye(problem.width)[targets][:, 1:])[:, :10]


def mean_columns(
    problem: Problem, name: str, text: pd.Series, train_rows: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    """The mean targets of each row's category; of training rows by the other fifths of them, whole groups."""
    targets = learned(problem)
    found = np.empty((len(text), targets.shape[1]))
    keys = text.to_numpy()

    def means(known: np.ndarray, asked: np.ndarray) -> np.ndarray:
        overall = targets[known].mean(axis=0)
        grouped = pd.DataFrame(targets[known]).groupby(keys[known])
        smooth = (grouped.sum() + MEAN_ROWS * overall) / (grouped.count() + MEAN_ROWS)
        return smooth.reindex(keys[asked]).fillna(pd.Series(overall)).to_numpy()

    others = np.setdiff1d(np.arange(len(text)), train_rows)
    found[others] = means(train_rows, others)
    units = train_rows if problem.groups is None else problem.groups[train_rows]
    _, numbers = np.unique(units, return_inverse=True)
    parts = np.random.default_rng(seed).integers(0, 5, numbers.max() + 1)[numbers]
    for part in range(5):
        if (parts == part).any() and (parts != part).any():
            found[train_rows[parts == part]] = means(train_rows[parts != part], train_rows[parts == part])
    return {f"{name}: mean {place}": found[:, place] for place in range(targets.shape[1])}


def history_columns(
    problem: Problem, both: pd.DataFrame, key: str, rate: str, train_rows: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    """What is known of a row's category from rows that are earlier by at least as long as a test row's last
    training row may be: how many there are, when the last was, the mean target, that of the last three and
    the last, and the target by `rate`, times the row's own."""
    assert problem.times is not None
    assert problem.test_times is not None
    targets, moments = learned(problem)[:, :3], np.concatenate([problem.times, problem.test_times])
    _, names = np.unique(as_text(both[key]), return_inverse=True)
    _, places = np.unique(moments, return_inverse=True)
    stride = places.max() + 2
    order = train_rows[np.lexsort((places[train_rows], names[train_rows]))]
    known = names[order] * stride + places[order]

    ahead = np.asarray(problem.test_times) - np.max(problem.times)
    asked = np.random.default_rng(seed).choice(ahead[ahead > 0] if (ahead > 0).any() else [0.0], len(moments))
    until = np.searchsorted(np.unique(moments), moments - asked, side="right")  # places before it are known
    later = np.ones(len(moments), bool)
    later[train_rows] = False
    until[later] = places[later]  # no training row is that late
    ends = np.searchsorted(known, names * stride + until, side="left")
    starts = np.searchsorted(known, names * stride, side="left")
    some = ends > starts
    last = np.where(some, order[np.maximum(ends - 1, 0)], 0)
    found = {f"{key}: earlier rows": (ends - starts).astype(float)}
    found[f"{key}: since the last"] = np.where(some, moments - moments[last], np.nan)
    overall = targets[train_rows].mean(axis=0)

    def sums(values: np.ndarray, first: np.ndarray) -> np.ndarray:
        total = np.concatenate([[0.0], np.cumsum(values[order])])
        return total[ends] - total[first]

    for place in range(targets.shape[1]):
        column, mean = targets[:, place], overall[place]
        three = np.maximum(starts, ends - 3)
        found[f"{key}: earlier mean {place}"] = (sums(column, starts) + 3 * mean) / (ends - starts + 3)
        found[f"{key}: last three {place}"] = (sums(column, three) + mean) / (ends - three + 1)
        found[f"{key}: last {place}"] = np.where(some, column[last], np.nan)
        if rate:
            weight = both[rate].fillna(0).to_numpy()
            one, usual = mean / max(weight[train_rows].mean(), 1e-9), weight[train_rows].mean()
            share = (sums(column, starts) + 2 * usual * one) / (sums(weight, starts) + 2 * usual + 1e-9)
            recent = (sums(column, three) + usual * one) / (sums(weight, three) + usual + 1e-9)
            found |= {f"{key}: by {rate} {place}": share * weight, f"{key}: lately {place}": recent * weight}
    return found


def choices(problem: Problem, choice: Choice, gains: dict[str, float]) -> list[tuple[str, dict[str, Any]]]:
    """(what it is, the fields of the choice that it changes) of everything that can be tried for this table.

    gains   of each column, of a fit with `choice`
    """
    numbers, categories, _ = names_of(problem, choice)
    kinds, groups = list(problem.columns.values()), [n for n, k in problem.columns.items() if k == "group"]

    def by_gain(names: list[str], most: int) -> list[str]:
        return sorted((n for n in names if gains.get(n, 0) > 0), key=lambda name: -gains[name])[:most]

    def means_by(keys: list[str], numbers: list[str]) -> list[tuple[bool, str, dict[str, Any]]]:
        pairs = {key: tuple((key, name) for name in numbers if name != key) for key in keys}
        return [(bool(each), f"means by {key}", {"group_means": each}) for key, each in pairs.items()]

    strongest, date, code = by_gain(numbers, 4), "date" in kinds, "code" in kinds
    beside = {"neighbors": tuple(strongest)}
    ratios = tuple((one, other) for n, one in enumerate(strongest) for other in strongest[n + 1 :])
    rates = [name for name in strongest if (problem.inputs[name].dropna() >= 0).all()]
    names = by_gain(categories + [name for name in numbers if problem.columns[name] == "code"], 3)
    names = [name for name in names if problem.inputs[name].nunique() <= len(problem.inputs) / 3]
    between = date and problem.times is None and problem.groups is None and are_between(problem)
    told = [{"history": (name,), "rate": [*rates, ""][0]} for name in names]
    earlier = [(problem.times is not None, f"earlier targets of {each['history'][0]}", each) for each in told]
    found: list[tuple[Any, str, dict[str, Any]]] = [
        (text_columns(problem) and problem.width <= MOST_SAID, "what words say", {"texts": 2}),
        (between, "targets of rows next in time", {"around": True}),
        *earlier,
        *means_by(groups, by_gain(numbers, 12)),
        (strongest and (date or groups), "neighbouring rows", beside),
        (strongest and groups, "rows further away", {**beside, "reach": 8}),
        (strongest and groups, "places in a group", {"place": True}),
        (categories, "mean targets", {"means": not choice.means}),
        (code, "codes as categories", {"codes": not choice.codes}),
        (code, "mean targets of codes", {"codes": True, "means": True}),
        (groups, "the group's number", {"group": not choice.group}),
        (date, "dates as days", {"time": not choice.time}),
        (date, "parts of dates", {"dates": not choice.dates}),
        (categories, "counts of categories", {"counts": not choice.counts}),
        *means_by(by_gain(categories, 2), strongest),
        (ratios, "ratios of the strongest numbers", {"ratios": ratios}),
    ]
    return [(what, change) for able, what, change in found if able]


def matrices_of(
    problem: Problem, choice: Choice, train_rows: np.ndarray, seed: int, most: int = 60
) -> tuple[np.ndarray, np.ndarray]:
    """(all rows of the training table, the test table) as numbers, for linear models and networks:
    standardised and smoothly held within 3, with a column where some are missing; categories as columns of 0
    and 1, the `most` frequent of each."""
    table, test, categories = features_of(problem, replace(choice, means=True), train_rows, seed)
    pieces: list[list[np.ndarray]] = [[], []]
    for name in table.columns:
        column = table[name]
        if name in categories:
            usual = column.iloc[train_rows].value_counts().index[:most]
            for place, part in enumerate((table, test)):
                pieces[place] += [(part[name] == each).to_numpy(np.float32) for each in usual]
            continue
        known = column.iloc[train_rows].astype(float)
        low, center, high = known.quantile([0.25, 0.5, 0.75])
        scale = (high - low) / 1.35 or known.std()
        center, scale = (float(each) for each in np.nan_to_num([center, scale]))
        gaps = bool(known.isna().any())
        for place, part in enumerate((table, test)):
            values = ((part[name].astype(float) - center) / (scale or 1.0)).to_numpy()
            filled = np.nan_to_num(values, posinf=0.0, neginf=0.0)
            pieces[place].append((filled / np.sqrt(1 + (filled / 3) ** 2)).astype(np.float32))
            if gaps:
                pieces[place].append(np.isnan(values).astype(np.float32))
    return tuple(np.column_stack(each).astype(np.float32) for each in pieces)  # type: ignore[return-value]
