"""Reads train.csv and test.csv as they stand: the kind of each column, what is predicted, and from what."""

import re

import numpy as np
import pandas as pd

from memory_service.train.answers import learn_grades_as_values, use_usual
from memory_service.train.budget import plan
from memory_service.train.reading import (
    Data,
    as_days,
    as_numbers,
    group_column,
    is_dates,
    keep_first,
    read_answers,
    read_tables,
    table_data,
    target_columns,
    times_of,
)
from memory_service.train.side_tables import join_side_tables

MOST_CODES = 1_000  # distinct whole numbers: above them a column of whole numbers is a measurement
TEXT_WORDS, TEXT_UNIQUE = 3.0, 0.3  # a text has as many words in the mean, and repeats in fewer rows
CODED = r"[0-9a-fA-F]{6,}|[0-9a-fA-F]{2,}(?:-[0-9a-fA-F]+)+|[A-Za-z]*[-_]?\d+"  # of rows, as a hash: no words
LATER = re.compile(r"(?i)year|season|month|week|day|date|time|round|period|quarter|hour|step|block")
IDS = re.compile(r"(?:^id|[_ ]id|Id|ID)$")  # user_id, movieId: such numbers are names
NAMES_UNIQUE = 0.6  # names repeat in fewer rows yet: their characters say more than they do as categories


def column_kind(column: pd.Series) -> str:
    """number, code (whole numbers that may be names), date, text or category."""
    if is_dates(column):
        return "date"
    known = column.dropna()
    numbers = as_numbers(column)
    slips = int(known.size - (known.astype(str) == "None").sum())
    if pd.api.types.is_numeric_dtype(column) or numbers.notna().sum() > 0.9 * slips > 0:
        whole = numbers.dropna()
        named = IDS.search(str(column.name).strip()) and 2 < whole.nunique() <= len(whole) / 2
        if named and (whole % 1 == 0).all():
            return "code"
        if dense(whole) and not LATER.search(str(column.name)):
            return "code"
        few = 2 < whole.nunique() <= min(MOST_CODES, max(20, len(whole) // 10))
        return "code" if few and (whole % 1 == 0).all() else "number"
    shown = known.head(5_000).astype(str)
    if len(shown) and shown.str.fullmatch(CODED).mean() > 0.9:
        return "category"
    words = shown.str.split().str.len().mean()
    unique = known.nunique() / max(len(known), 1)
    return "text" if unique > (TEXT_UNIQUE if words >= TEXT_WORDS else NAMES_UNIQUE) else "category"


def dense(numbers: pd.Series) -> bool:
    """Whether whole numbers repeat, are many and lie evenly in their range: names more often than amounts."""
    values, spread = numbers.nunique(), np.ptp(numbers) + 1 if len(numbers) else 1.0
    even = values > MOST_CODES and 2 * values <= len(numbers) and values > spread / 2
    return bool(even and (numbers % 1 == 0).all() and 0.2 < numbers.std() / spread < 0.36)


def typed(column: pd.Series, kind: str) -> pd.Series:
    """Numbers as float, dates as days since 1970, texts and categories as text; what is missing stays so."""
    if kind in ("number", "code", "group"):
        return as_numbers(column)
    if kind == "date":
        return as_days(column)
    texts = column.astype(str)
    if pd.api.types.is_numeric_dtype(column):  # 5 and 5.0: one missing value makes whole numbers fractions
        texts = texts.str.replace(r"\.0$", "", regex=True)
    return column.astype(object).where(column.isna(), texts).astype(object)


def predicts_values(train: pd.DataFrame, targets: list[str]) -> bool:
    """Whether the targets are values: as the plan says, unless the data contradict it."""
    columns = train[targets].apply(pd.to_numeric, errors="coerce")
    numeric = bool((columns.notna().sum() > 0.99 * train[targets].notna().sum()).all())  # some may be missing
    if plan.ANSWER == "values":
        return numeric
    several = len(targets) == 1 and numeric and columns[targets[0]].nunique() > 100
    return several and not bool((columns.dropna() % 1 == 0).all(axis=None))


def new_groups(train: pd.DataFrame, test: pd.DataFrame, kinds: dict[str, str]) -> list[str]:
    """Columns of several rows a value, of whose values the test set has none: their rows belong together."""
    found = []
    for name, kind in kinds.items():
        values, known = train[name].nunique(), test[name].dropna().astype(object).unique()
        several = values >= 5 and train[name].count() >= 2 * values and len(known)
        if kind == "number":  # measurements are not whole; of a few test rows each may have a new one
            several = several and len(known) >= 10 and not LATER.search(str(name))
            several = several and bool((as_numbers(train[name]).dropna() % 1 == 0).all())
        elif kind == "date":
            continue
        asked = test[name].dropna().astype(object)
        if several and asked.isin(train[name].astype(object).unique()).mean() < 0.05:
            found.append(name)
    return found


def is_later(train: pd.DataFrame, test: pd.DataFrame, name: str, kind: str) -> bool:
    """Whether a column of the test set has dates, years, rounds, weeks or seconds later than any in train."""
    if kind == "date":
        return bool(as_days(test[name]).min() > as_days(train[name]).quantile(0.999))
    several = kind in ("code", "number") and LATER.search(str(name)) and train[name].nunique() >= 5
    return bool(several and as_numbers(test[name]).min() > as_numbers(train[name]).max())


def see_split(train: pd.DataFrame, test: pd.DataFrame, kinds: dict[str, str]) -> None:
    """Rows are split by time or groups that the test set shows, where the plan names none that is there."""
    if plan.SPLIT == "time" and times_of(train) is not None:
        return
    if "group" in plan.SPLIT and group_column(train) is not None:
        return
    for name, kind in sorted(kinds.items(), key=lambda each: each[1] != "date"):
        if (kind == "date" or "group" not in plan.SPLIT) and is_later(train, test, name, kind):
            plan.SPLIT, plan.GROUP_BY = "time", name
            print(f"NOTE: the test rows are later by {name}: later rows validate", flush=True)
            return
    if groups := new_groups(train, test, kinds):
        plan.SPLIT, plan.GROUP_BY = "group", min(groups, key=lambda name: train[name].nunique())
        print(f"NOTE: the test set has other values of {plan.GROUP_BY}: whole groups validate", flush=True)


def groups_without_test_rows(train: pd.DataFrame, test: pd.DataFrame, kinds: dict[str, str]) -> list[str]:
    """Columns that are no inputs as they stand: the groups of the split, or by time the moments, where the
    test set has others; and all others of which it has no value. Where one of these holds whole groups of the
    split, as a school holds pupils, it is that by which is split."""
    if plan.SPLIT == "time":
        group, fresh = plan.GROUP_BY if kinds.get(plan.GROUP_BY) == "code" else None, list[str]()
    elif "group" in plan.SPLIT:
        group, fresh = group_column(train), new_groups(train, test, kinds)
    else:
        return []
    others = group in kinds and not test[group].isin(train[group]).mean() > 0.5
    if others:
        for name in sorted(fresh, key=lambda each: train[each].nunique()):
            if name != group and train.groupby(group)[name].nunique().mean() <= 1.1:
                told = f"the test set has other values of {name}, too"
                print(f"NOTE: {told}, each of whole {group}s", flush=True)
                plan.GROUP_BY = name
                break
    found = [name for name in fresh if kinds[name] != "text"]
    return [*found, group] if others and group is not None and group not in found else found


def read_frames(train: pd.DataFrame, test: pd.DataFrame, sample: pd.DataFrame | None) -> Data:
    """The data of a problem of rows: `inputs` and `test_inputs` with the columns that both tables have."""
    values = predicts_values(train, target_columns(train, test, sample))
    if values != (plan.ANSWER == "values"):
        told = "values" if values else "classes"
        print(f"WARNING: the plan was made for {plan.ANSWER}, but the target has {told}", flush=True)
        use_usual("values" if values else "labels")
    target = target_columns(train, test, sample)
    a_column = len(target) == 1 and (sample is None or sample.shape[1] == 2)
    if plan.FORM == "grades" and not values and a_column and as_numbers(train[target[0]]).notna().all():
        learn_grades_as_values()
    train, columns, targets, outputs = read_answers(train, test, sample)
    train, test = join_side_tables(train, test, [*target, *columns])
    keep_first(train, test)
    given = [name for name in train.columns[1:] if name in test.columns and name not in columns]
    kinds = {name: column_kind(train[name]) for name in given}
    see_split(train, test, kinds)
    for group in groups_without_test_rows(train, test, kinds):
        numbers = as_numbers(pd.concat([train[group], test[group]]))
        if numbers.isna().any():
            names = sorted({*train[group].dropna().astype(str), *test[group].dropna().astype(str)})
            for table in (train, test):  # its rows and its order may say something: that is tried
                table[group] = table[group].astype(str).map({name: place for place, name in enumerate(names)})
        kinds[group] = "group"
        print(f"NOTE: {group} is no input as it stands: the test set has other groups", flush=True)
    given = [name for name in given if train[name].notna().any()]
    more = {"targets": targets, "outputs": outputs, "columns": {name: kinds[name] for name in given}}
    inputs, test_inputs = (
        pd.DataFrame({name: typed(table[name], kinds[name]) for name in given}, index=table.index)
        for table in (train, test)
    )
    more |= {"target_columns": columns, "inputs": inputs, "test_inputs": test_inputs}
    return table_data(train, test, sample, **more)


def other_data() -> Data | None:
    """The rows of a table, where the plan was made for files that are not there; else None."""
    from memory_service.train.engine import train_members

    there = any((plan.DATA_DIR / name).is_dir() for name in ("train", "test"))
    if plan.ANSWER not in ("labels", "values") or there:
        return None
    try:
        train, test, sample = read_tables("test.csv")
        data = read_frames(train, test, sample)
    except (FileNotFoundError, KeyError, ValueError):
        return None
    if not data.columns:
        return None
    plan.train = train_members
    return data
