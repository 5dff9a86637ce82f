"""Tables beside train.csv and test.csv, such as customers.csv or history.csv: what they say of a row's keys.

A table with one row a key is joined as it is; of several rows a key there are counts, means, ranges and
shares. Where rows of the table are later than a row of train.csv that has their key, earlier ones alone
count. A column to predict is taken from no table; tables of training rows alone are left out.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from memory_service.train.budget import plan, state
from memory_service.train.folder import find_roles
from memory_service.train.reading import as_days, as_numbers, is_dates, read_parts
from memory_service.train.table_files import UNREAD, Source

MOST_BYTES = 500_000_000
MOST_TABLE_ROWS = 1_000_000  # the latest ones of a larger table are read
MOST_COLUMNS = 40  # of a table, that are summarised
FEW_VALUES = 12  # of a category, of which each has its share
RANGES = ("min", "max", "std", "last")
MOST_KEYS = 2  # by each of which the rows of a table are summarised
FEW_NAMES = 3  # yes and no name no rows of another table
ONCE = 0.995  # of the rows, whose keys are different: an hour comes twice when clocks are set back
NAMED = 0.8  # of the rows, whose names a column of another name must have
LEAST_MATCHED = 0.3  # of the rows, that have a row in the table
JOIN_SHARE = 0.1  # of the minutes: then no further table is joined


def side_files(folder: Path) -> dict[str, list[Source]]:
    """Each further table of the folder that is not too large; of training and test rows those of both."""
    found = find_roles(folder).beside
    sizes = {name: sum(one.path.stat().st_size for one in parts) for name, parts in found.items()}
    return {name: parts for name, parts in found.items() if sizes[name] <= MOST_BYTES}


def join_side_tables(
    train: pd.DataFrame, test: pd.DataFrame, targets: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both with further columns, "table: column"; what was joined may join a next table."""
    left: dict[str, pd.DataFrame] = {}
    end = state.elapsed() + JOIN_SHARE * 60 * state.minutes
    tables = side_files(plan.DATA_DIR)
    for name, why in UNREAD.items():
        print(f"NOTE: {name} cannot be read: {why}", flush=True)
    for name, parts in tables.items():
        try:
            table = read_parts(parts)
            if len(table):
                left[name] = table.drop(columns=[one for one in targets if one in table.columns])
        except Exception as error:
            print(f"NOTE: {name} cannot be read: {error!r:.200}", flush=True)
    joined = True
    while left and joined:
        joined = False
        for name, table in list(left.items()):
            if state.elapsed() > end:
                break
            try:
                found = columns_by_key(train, test, name, table)
            except Exception as error:
                del left[name]
                print(f"NOTE: {name}.csv cannot be joined: {error!r:.200}", flush=True)
                continue
            if found is not None:
                told, columns = found
                columns = columns[[each for each in columns.columns if each not in train.columns]]
                train = pd.concat([train, columns.iloc[: len(train)].set_axis(train.index)], axis=1)
                test = pd.concat([test, columns.iloc[len(train) :].set_axis(test.index)], axis=1)
                print(f"NOTE: {name}.csv is joined by {told}: {columns.shape[1]} columns", flush=True)
                del left[name]
                joined = True
    why = "there is no time" if state.elapsed() > end else "no column names rows of both tables"
    for name in left:
        print(f"NOTE: {name}.csv is not read: {why}", flush=True)
    return train, test


def columns_by_key(
    train: pd.DataFrame, test: pd.DataFrame, name: str, table: pd.DataFrame
) -> tuple[str, pd.DataFrame] | None:
    """(the key, columns of all rows of both tables); None where no column names rows of both."""
    shared = shared_columns(train, test, table)
    both = pd.concat([train[[*shared.values()]], test[[*shared.values()]]], ignore_index=True)
    keys = [[*shared]] if len(shared) > 1 else []
    keys += [[name] for name in sorted(shared, key=lambda each: -table[each].nunique())]
    found: list[tuple[bool, list[str], np.ndarray, np.ndarray]] = []
    for key in keys:
        rows, asked = codes_of(table, both, {column: shared[column] for column in key})
        known = rows[rows >= 0]
        once = len(np.unique(known)) >= ONCE * len(known)
        if not once and (len(key) != 1 or is_dates(table[key[0]]) or not names_rows(table[key[0]])):
            continue
        there = np.isin(asked, known) & (asked >= 0)
        in_train, in_test = there[: len(train)].mean(), there[len(train) :].mean()
        if in_test >= max(LEAST_MATCHED, in_train / 2):
            found.append((once, key, rows, asked))
    several = len({column for _, key, *_ in found for column in key}) > 1
    if several:  # a table's own id names no row of ours
        found = [each for each in found if shared[each[1][0]] != train.columns[0] or len(each[1]) > 1]
    found = [each for each in found if each[0]][:1] or found[:MOST_KEYS]
    parts = []
    for once, key, rows, asked in found:
        left = table.drop(columns=key)
        if once:
            part = left[rows >= 0].set_index(rows[rows >= 0])
            part = part[~part.index.duplicated()].reindex(asked).add_prefix(f"{name}: ")
        else:
            before = f"{name}: " if len(found) == 1 else f"{name} of {key[0]}: "
            part = summaries(left, rows, asked, moments_of(train, test), len(train)).add_prefix(before)
        parts.append(part.reset_index(drop=True))
    if not parts and not shared:
        for mine, own in named_otherwise(train, test, table):
            asked = pd.concat([train[own], test[own]], ignore_index=True)
            there = table[table[mine].notna()]
            part = there.drop(columns=mine).set_index(there[mine].astype(str)).reindex(asked.astype(str))
            parts.append(part.add_prefix(f"{name} of {own}: ").reset_index(drop=True))
            found.append((True, [own], asked, asked))
    joined = pd.concat(parts, axis=1) if parts else pd.DataFrame()
    return (", ".join(" and ".join(key) for _, key, *_ in found), joined) if joined.shape[1] else None


def shared_columns(train: pd.DataFrame, test: pd.DataFrame, table: pd.DataFrame) -> dict[str, str]:
    """Column of the table -> that of both tables with the same names; own ones go before joined ones."""
    first, own = train.columns[0], [name for name in train.columns if name in test.columns]
    if first in own and train[first].is_unique and train[first].isin(test[first]).any():
        own.remove(first)
    names = {str(name): name for name in own}
    for name in own:
        names.setdefault(str(name).partition(": ")[2], name)
    shared = {column: names[str(column)] for column in table.columns if str(column) in names}
    return {mine: name for mine, name in shared.items() if train[name].nunique() > 1}


def named_otherwise(train: pd.DataFrame, test: pd.DataFrame, table: pd.DataFrame) -> list[tuple[str, str]]:
    """Columns of names that another one has once each: airports by code, for origin and destination."""
    named = table.iloc[:, :MOST_COLUMNS]
    names = [name for name in named if named[name].dropna().is_unique and is_names(named[name])]
    known = {name: set(named[name].dropna().astype(str)) for name in names}
    own = [name for name in train.columns[1:] if name in test.columns and is_names(train[name])]
    matched: list[tuple[str, str]] = []
    for name in own:
        asked = pd.concat([train[name], test[name]]).dropna().astype(str).value_counts(normalize=True)
        shares = {mine: float(asked[[each in known[mine] for each in asked.index]].sum()) for mine in names}
        best = max(shares, key=lambda mine: shares[mine], default=None)
        if best is not None and shares[best] >= NAMED and len(asked) >= FEW_NAMES:
            matched.append((best, name))
    return matched[:MOST_KEYS]


def is_names(column: pd.Series) -> bool:
    """Whether it holds words or codes, no numbers and no dates."""
    return bool(as_numbers(column).notna().mean() < 0.5 and not is_dates(column))


def names_rows(column: pd.Series) -> bool:
    """Whether its values are names, of several rows: no fractions, and not a handful."""
    numbers = as_numbers(column)
    whole = numbers.isna().mean() > 0.5 or (numbers.dropna() % 1 == 0).all()
    return bool(whole and column.nunique() >= 5)


def codes_of(
    table: pd.DataFrame, both: pd.DataFrame, columns: dict[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """A number for each row of the table, and for each row that asks: the same where these columns of both
    are the same, as numbers, dates or else as texts; -1 where one is missing."""
    total = np.zeros(len(table) + len(both), dtype=np.int64)
    for mine, own in columns.items():
        column = pd.concat([table[mine], both[own]], ignore_index=True)
        numbers = as_numbers(column)
        if numbers.notna().sum() == column.notna().sum():  # 0001, 1 and 1.0
            column = numbers
        elif is_dates(table[mine]) and is_dates(both[own]):
            column = as_days(column)
        else:
            column = column.where(column.isna(), column.astype(str).str.strip())
        codes = pd.factorize(column)[0].astype(np.int64)
        total = np.where((total < 0) | (codes < 0), -1, total * (codes.max() + 2) + codes)
    return total[: len(table)], total[len(table) :]


def moments_of(train: pd.DataFrame, test: pd.DataFrame) -> pd.Series | None:
    """Days since 1970 of all rows, by the first column of dates of both tables."""
    for name in train.columns:
        if name in test.columns and is_dates(train[name]):
            return as_days(pd.concat([train[name], test[name]], ignore_index=True))
    return None


def summaries(
    rows: pd.DataFrame, codes: np.ndarray, asked: np.ndarray, then: pd.Series | None, known: int
) -> pd.DataFrame:
    """What the rows of each key say together; only of earlier rows where one is later than a row of train.csv
    that has its key.

    codes, asked   the key of each row of the table, and of each row that asks
    then           days of the rows that ask; the first `known` of them are those of train.csv
    """
    dates = [name for name in rows.columns[:MOST_COLUMNS] if is_dates(rows[name])]
    when = as_days(rows[dates[0]]) if dates and then is not None else None
    if len(rows) > MOST_TABLE_ROWS:
        order = np.arange(len(rows)) if when is None else np.argsort(when.to_numpy(), kind="stable")
        latest = np.sort(order[-MOST_TABLE_ROWS:])
        rows, codes = rows.iloc[latest].reset_index(drop=True), codes[latest]
        when = None if when is None else when.iloc[latest].reset_index(drop=True)
        print(f"NOTE: the latest {MOST_TABLE_ROWS} rows of it are read", flush=True)
    parts: dict[str, pd.Series] = {}
    for name in rows.columns[:MOST_COLUMNS]:
        column = rows[name]
        if name in dates:
            parts[name] = as_days(column)
        elif as_numbers(column).notna().sum() > 0.9 * column.notna().sum() > 0:
            parts[name] = as_numbers(column)
        elif 1 < column.nunique() <= FEW_VALUES:
            values = column.dropna().unique()
            parts |= {f"{name} {value}": (column == value).astype(float) for value in values}
    numbers = pd.DataFrame(parts, index=rows.index)[codes >= 0]
    keys, codes_known = codes[codes >= 0], codes >= 0
    if when is not None and then is not None:
        last = when[codes_known].groupby(keys).max().reindex(asked[:known]).to_numpy()
        if (last > then.iloc[:known].to_numpy()).any():
            moments = when[codes_known]
            until = lagged(then, moments, known)
            return before(numbers.drop(columns=dates), keys, moments, asked, then, until)
    grouped = numbers.groupby(keys)
    found = {"rows": pd.Series(keys).value_counts()}
    found |= {f"{name} mean": column for name, column in grouped.mean().items()}
    whole = [name for name in numbers if name in rows.columns]
    for what in RANGES:
        found |= {f"{name} {what}": column for name, column in getattr(grouped[whole], what)().items()}
    amounts = [name for name in whole if name not in dates]
    found |= {f"{name} sum": column for name, column in grouped[amounts].sum().items()} if amounts else {}
    for name in rows.columns[:MOST_COLUMNS]:
        if name not in parts and rows[name].nunique() > FEW_VALUES:
            found[f"different {name}"] = rows[name][codes_known].groupby(keys).nunique()
    summary = pd.DataFrame(found).reindex(asked)
    summary["rows"] = summary["rows"].fillna(0)
    for name in dates:
        if then is not None:
            summary[f"days since {name}"] = then.to_numpy() - summary[f"{name} max"].to_numpy()
        summary = summary.drop(columns=[f"{name} {what}" for what in ("mean", *RANGES)])
    return summary


def lagged(then: pd.Series, when: pd.Series, known: int) -> pd.Series:
    """The moments until which rows of the table are known: where test rows lie behind its end and the last
    row of train.csv, those of train.csv look back as far as these must, each as far as one drawn of them."""
    off = then.iloc[known:] - max(when.max(), then.iloc[:known].max())
    behind = off.dropna().clip(lower=0.0).to_numpy()
    if not len(behind) or not behind.any():
        return then
    drawn = np.random.default_rng(len(then)).choice(behind, known)
    until = then - np.concatenate([drawn, np.zeros(len(then) - known)])
    return until.where(until == then, until + 1e-6)  # what happened at that moment is known


def before(
    numbers: pd.DataFrame,
    keys: np.ndarray,
    when: pd.Series,
    asked: np.ndarray,
    then: pd.Series,
    until: pd.Series,
) -> pd.DataFrame:
    """How many rows of a key are earlier than `until`, their means, the last, and how long ago that was."""
    dated = when.notna().to_numpy()
    order = np.flatnonzero(dated)[np.argsort(when.to_numpy()[dated], kind="stable")]
    codes, ordered = keys[order], numbers.iloc[order]
    grouped = ordered.groupby(codes)
    told: dict[str, object] = {"rows": grouped.cumcount().to_numpy() + 1.0, "when": when.to_numpy()[order]}
    sums, counts = ordered.fillna(0).groupby(codes).cumsum(), ordered.notna().groupby(codes).cumsum()
    last = grouped.ffill()
    for name in numbers:
        with np.errstate(divide="ignore", invalid="ignore"):
            told[f"{name} mean"] = sums[name].to_numpy(float) / counts[name].to_numpy(float)
        told[f"{name} last"] = last[name].to_numpy()
    right = pd.DataFrame(told).assign(key=codes, then=when.to_numpy()[order])
    left = pd.DataFrame({"key": asked, "then": until.to_numpy()}).dropna()
    left = left[left["key"] >= 0].sort_values("then", kind="stable")
    found = pd.merge_asof(left, right, on="then", by="key", allow_exact_matches=False).set_index(left.index)
    found = found.reindex(range(len(asked)))
    found["since the last"] = then.to_numpy() - found["when"].to_numpy()
    found = found.drop(columns=["key", "then", "when"])
    found["rows"] = found["rows"].fillna(0.0)
    return found
