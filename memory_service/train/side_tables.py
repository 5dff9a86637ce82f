"""Tables beside train.csv and test.csv, such as customers.csv or history.csv: what they say of a row's keys.

A table with one row a key is joined as it is; of several rows a key there are counts, means, ranges and
shares. Of dated rows only those that are earlier than the row's own date count, where some are later.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.reading import as_days, as_numbers, is_dates, read_table

MOST_BYTES = 500_000_000
MOST_COLUMNS = 40  # of a table, that are summarised
FEW_VALUES = 12  # of a category, of which each has its share
RANGES = ("min", "max", "std", "last")
MOST_KEYS = 2  # by each of which the rows of a table are summarised
LEAST_KNOWN = 0.3  # of the rows, that have a row in the table
NOT_DATA = ("train", "test", "sample_submission", "submission", "oof", "test_predictions")


def side_files(folder: Path) -> list[Path]:
    """Each further CSV of the folder that is not too large."""
    files = [path for path in sorted(folder.glob("*.csv")) if path.stem not in NOT_DATA]
    files = [path for path in files if not path.stem.lower().startswith(("sample", "submission"))]
    return [path for path in files if path.stat().st_size <= MOST_BYTES]


def join_side_tables(
    train: pd.DataFrame, test: pd.DataFrame, targets: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables with further columns, named "table: column". A table that has a column of another one that
    was joined is joined by it: items.csv, and by its category categories.csv."""
    read = {path.stem: read_table(path.name) for path in side_files(plan.DATA_DIR)}
    left = {name: table for name, table in read.items() if table is not None and len(table)}
    joined = True
    while left and joined:
        joined = False
        for name, table in list(left.items()):
            if (found := columns_by_key(train, test, name, table, targets)) is None:
                continue
            told, columns = found
            train = pd.concat([train, columns.iloc[: len(train)].set_axis(train.index)], axis=1)
            test = pd.concat([test, columns.iloc[len(train) :].set_axis(test.index)], axis=1)
            print(f"NOTE: {name}.csv is joined by {told}: {columns.shape[1]} columns", flush=True)
            del left[name]
            joined = True
    for name in left:
        print(
            f"NOTE: {name}.csv is not read: no column of it names rows of train.csv and test.csv", flush=True
        )
    return train, test


def columns_by_key(
    train: pd.DataFrame, test: pd.DataFrame, name: str, table: pd.DataFrame, targets: list[str]
) -> tuple[str, pd.DataFrame] | None:
    """(the key, columns of all rows of both tables); None where no column names rows of both."""
    both = pd.concat([train, test], ignore_index=True)
    names = {str(column).partition(": ")[2] or str(column): column for column in both.columns}
    shared = {
        column: names[column] for column in table.columns
        if column in names and names[column] in train.columns and names[column] in test.columns
        and column not in targets
    }  # fmt: skip
    shared = {mine: own for mine, own in shared.items() if both[own].nunique() > 1}
    others = sorted(shared, key=lambda each: -table[each].nunique())
    found: list[tuple[bool, list[str]]] = []
    for key in [*([list(shared)] if len(shared) > 1 else []), *([column] for column in others)]:
        once = not table.duplicated(key).any()
        if not once and (len(key) != 1 or is_dates(table[key[0]]) or not names_rows(table[key[0]])):
            continue
        there = key_of(both, [shared[each] for each in key]).isin(set(key_of(table, key)))
        in_train, in_test = there.iloc[: len(train)].mean(), there.iloc[len(train) :].mean()
        if in_test >= max(LEAST_KNOWN, in_train / 2):
            found.append((once, key))
    found = [each for each in found if each[0]][:1] or found[:MOST_KEYS]
    parts = []
    for once, key in found:
        asked = key_of(both, [shared[each] for each in key])
        if once:
            columns = [each for each in table.columns if each not in key]
            part = table.set_index(key_of(table, key))[columns].reindex(asked).add_prefix(f"{name}: ")
        else:
            before = f"{name}: " if len(found) == 1 else f"{name} of {key[0]}: "
            part = summaries(table, key[0], asked, both).add_prefix(before)
        parts.append(part.reset_index(drop=True))
    joined = pd.concat(parts, axis=1) if parts else pd.DataFrame()
    return (", ".join(" and ".join(key) for _, key in found), joined) if joined.shape[1] else None


def names_rows(column: pd.Series) -> bool:
    """Whether its values are names, of several rows: no fractions, and not a handful."""
    numbers = as_numbers(column)
    whole = numbers.isna().mean() > 0.5 or (numbers.dropna() % 1 == 0).all()
    return bool(whole and column.nunique() >= 5)


def key_of(table: pd.DataFrame, columns: list[str]) -> pd.Series:
    """One text a row: numbers are the same with and without .0."""
    parts = [
        table[column].astype(object).astype(str).str.replace(r"\.0$", "", regex=True) for column in columns
    ]
    found = parts[0]
    for part in parts[1:]:
        found = found + "\0" + part
    return found


def summaries(table: pd.DataFrame, key: str, asked: pd.Series, both: pd.DataFrame) -> pd.DataFrame:
    """What the rows of each key say together; only of earlier rows where rows of the table are later than
    those that ask, by the first column of dates of both."""
    rows, groups = table.drop(columns=key), key_of(table, [key])
    dates = [name for name in rows.columns if is_dates(rows[name])]
    own = [name for name in both.columns if is_dates(both[name])]
    parts: dict[str, pd.Series] = {}
    for name in rows.columns[:MOST_COLUMNS]:
        column = rows[name]
        if name in dates:
            parts[name] = as_days(column)
        elif as_numbers(column).notna().sum() > 0.9 * column.notna().sum() > 0:
            parts[name] = as_numbers(column)
        elif 1 < column.nunique() <= FEW_VALUES:
            parts |= {
                f"{name} {value}": (column == value).astype(float) for value in column.dropna().unique()
            }
    numbers = pd.DataFrame(parts, index=rows.index)
    if dates and own:
        when, then = as_days(rows[dates[0]]), as_days(both[own[0]])
        last = when.groupby(groups).max()
        if (asked.map(last) > then).mean() > 0.05:
            return before(numbers.drop(columns=dates), groups, when, asked, then)
    grouped = numbers.groupby(groups)
    found = {"rows": groups.value_counts()}
    for name in numbers:
        found[f"{name} mean"] = grouped[name].mean()
        if name in rows.columns:
            found |= {
                f"{name} {what}": getattr(grouped[name], what)() for what in ("min", "max", "std", "last")
            }
            if name not in dates:
                found[f"{name} sum"] = grouped[name].sum()
    for name in rows.columns:
        if name not in parts and rows[name].nunique() > FEW_VALUES:
            found[f"different {name}"] = rows[name].groupby(groups).nunique()
    summary = pd.DataFrame(found).reindex(asked)
    summary["rows"] = summary["rows"].fillna(0)
    if dates and own:
        for name in dates:
            summary[f"days since {name}"] = then.to_numpy() - summary[f"{name} max"].to_numpy()
            summary = summary.drop(
                columns=[f"{name} {what}" for what in ("mean", "min", "max", "std", "last")]
            )
    return summary


def before(
    numbers: pd.DataFrame, groups: pd.Series, when: pd.Series, asked: pd.Series, then: pd.Series
) -> pd.DataFrame:
    """Of the rows of a key that are earlier than the one that asks: how many, their means, the last one."""
    known = when.notna()
    order = when[known].sort_values(kind="stable").index
    grouped, counts = numbers.loc[order].groupby(groups.loc[order]), numbers.loc[order].notna()
    told = {"rows": grouped.cumcount() + 1.0, "when": when.loc[order]}
    for name in numbers:
        amount = counts[name].groupby(groups.loc[order]).cumsum()
        told[f"{name} mean"] = numbers[name].loc[order].fillna(0).groupby(groups.loc[order]).cumsum() / amount
        told[f"{name} last"] = grouped[name].ffill()
    left = pd.DataFrame({"key": asked.to_numpy(), "then": then.to_numpy()}).dropna().sort_values("then")
    right = pd.DataFrame(told).assign(key=groups.loc[order], then=when.loc[order])
    found = pd.merge_asof(left, right, on="then", by="key", allow_exact_matches=False).set_index(left.index)
    found["since the last"] = found["then"] - found["when"]
    found = found.drop(columns=["key", "then", "when"]).reindex(range(len(asked)))
    found["rows"] = found["rows"].fillna(0.0)
    return found.replace([np.inf, -np.inf], np.nan)
