"""Reads tables: ids, targets, groups and times of the three of them, and where files lie."""

import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.folder import (
    ROLES,
    SPLITS,
    STEP_FILES,
    UNNAMED,
    Roles,
    find_roles,
    in_split,
    masked,
    not_understood,
)
from memory_service.train.metrics import score_quantile
from memory_service.train.submission_form import (
    as_asked,
    as_numbers_or_texts,
    as_told,
    id_pairs,
    is_fraction,
    told_form,
)
from memory_service.train.table_files import (
    IMAGE_FILES,
    MEDIA_FILES,
    MISSING,
    PEEK_ROWS,
    SOUND_FILES,
    Source,
    amounts_in,
    columns_in,
    drawn_file,
    form_of,
    is_no_text,
    step_columns,
    whole_table,
)

ANSWERS = re.compile(r"(?:.{1,40}[_ ])?(?:labels?|targets?)|class", re.IGNORECASE)
SPOKEN = re.compile(r"sentence|transcript(?:ion)?", re.IGNORECASE)  # an answer where files are sounds
MOMENTS = re.compile(r"time|date|stamp|_at$", re.IGNORECASE)
MOST_ANSWERS = 100  # classes of a last column that may be the answers
MOST_NUMBERS = 0.7  # of the columns of steps: more are a signal
MOST_EMPTY = 0.2  # of a column that is no target: more in test rows than in others
ROW_WEIGHTS = r"(?:sample|row|eval(?:uation)?)?[ _]?weights?|wts?"  # columns, of a weighted metric
RUNS = re.compile(r"\d{1,9} \d{1,9}(?: \d{1,9} \d{1,9})*")  # of a mask
WARNED: set[Path | str] = set()
YES = {"yes", "y", "true", "t", "positive", "oui", "si", "sí", "sim", "ja", "да", "evet", "是", "有"}
FILES: dict[tuple[Path, str], dict[str, Path]] = {}  # of `media_files`


@dataclass
class Data:
    """What is learned from and what is predicted. Row i of `inputs` belongs to row i of `targets`."""

    id_column: str
    ids: list[str]
    target_columns: list[str]
    inputs: Any  # a DataFrame, texts, or paths of files
    targets: np.ndarray  # class numbers, a 0/1 matrix of labels, a column for each value, or paths of masks
    outputs: list  # names of the classes or of the targets
    test_ids: list[str]
    test_inputs: Any
    sample: pd.DataFrame | None = None  # sample_submission.csv: its columns and order are the submission's
    groups: np.ndarray | None = None  # one value a row: rows of a group stay on one side of every split
    times: np.ndarray | None = None  # one value a row: later rows validate
    test_times: np.ndarray | None = None  # the same of the test rows: for as long a time is validated
    samples: int | None = None  # how many there are, where each has several rows
    strata: np.ndarray | None = None  # numbers a row, where targets are no classes: splits share them alike
    thresholds: list = field(default_factory=list)  # of each fold that is averaged, where classes are cut
    columns: dict[str, str] = field(default_factory=dict)  # of a table: column -> number, code, date ...
    weights: np.ndarray | None = None  # of each row, where the metric weighs rows by a column
    beside: pd.DataFrame | None = None  # of files: further columns of all rows, then of the test rows
    media: dict[str, list[Any]] = field(default_factory=dict)  # of a table: what all rows and test rows name

    def __post_init__(self) -> None:
        plan.TEST_ROWS = len(self.test_ids)
        if self.times is not None and len(np.unique(self.times)) < 2:  # none is later
            self.times = None

    @cached_property
    def test_set(self) -> int:
        """A checksum of what is predicted: answers are of one test set."""
        rows = self.test_inputs
        if isinstance(rows, pd.DataFrame):
            rows = pd.util.hash_pandas_object(rows, index=False)
        names = [row.name if isinstance(row, Path) else row for row in rows]
        return zlib.crc32("\n".join(map(str, [*self.test_ids, *names])).encode(errors="replace"))


def read_tables(needed: str) -> list[pd.DataFrame | None]:
    """train.csv, test.csv and sample_submission.csv; None for one of the last two that is not `needed`."""
    train, test, sample = three_tables()
    if train is None or (test is None and (sample is None or "sample" not in needed)):
        missing = f"train.csv and {needed} must be in {plan.DATA_DIR.resolve()}"
        seen = f"; {not_understood(plan.DATA_DIR)}" if train is None and plan.DATA_DIR.is_dir() else ""
        raise FileNotFoundError(f"{missing}: set DATA_DIR or change read_data{seen}")
    return [train, test, sample]


def three_tables(files: int = 0) -> tuple[Any, Any, Any]:
    """The three tables, ids first, None for what is not there; of files of a sample each so many, 0: all."""
    plan.STEPS = False
    sample = read_table("sample_submission.csv")
    ids = str(next(iter(told_form()[0] if sample is None else sample.columns), ""))
    test = read_table("test.csv", ids)
    test = None if test is None or not len(test) else test  # a split of which there is no row
    if test is None or test.columns[0] != ids:
        ids = ""
    elif not (test[ids].is_unique and (sample is None or test[ids].isin(sample[ids]).mean() > 0.5)):
        ids, test = "", read_table("test.csv")  # it names groups or files
    test, sample = as_told(test, sample)
    train = read_table("train.csv", ids)
    if train is not None:
        if test is None and sample is not None and sample.columns[0] in train and is_dates(sample.iloc[:, 0]):
            test = sample.iloc[:, :1]  # the days that are asked for are all that is known of them
        if test is not None and {"names"} == {one.part for one in find_roles(plan.DATA_DIR).test}:
            test = test.rename(columns={"id": train.columns[0]})
        test = without_withheld(train, test)
        train = with_sample_classes(train, sample)
        train, test = with_steps(train, test, sample, files)
        train, test, sample = as_asked(train, test, sample, further_tables)
    return train, test, sample


def without_withheld(train: pd.DataFrame, test):
    """test.csv without the column that says nothing there, or, where it may have answers, without these."""
    if test is None or not {*train.columns[1:]} <= {*test.columns} or not len(test):
        return test
    values = {name: test[name].nunique() for name in train.columns[1:] if train[name].nunique() > 1}
    same = [name for name, count in values.items() if count == min(values.values()) < 2]
    if not same:  # of some rows it is known
        empty = test.isna().mean() - train.isna().mean()
        same = [name for name in train.columns[1:] if empty[name] > MOST_EMPTY]
    if not same and not plan.TARGET and find_roles(plan.DATA_DIR).answered:
        few = train.iloc[:, -1].nunique() <= MOST_ANSWERS and not is_fraction(train.iloc[:, -1])
        last = [*train.columns[-1:]] if few or train.columns[-1].lower() == "y" else []
        heard = any(str(cell).lower().endswith(SOUND_FILES) for cell in train.head(1).to_numpy().ravel())
        named, spoken = ([*filter(each.fullmatch, train.columns[1:])] for each in (ANSWERS, SPOKEN))
        same = [*spoken, *last, *named, *(spoken if heard else [])][-1:]
        for name in same:
            print(f"NOTE: {name} of the test rows is known, too: it is no input", flush=True)
    return test.drop(columns=same) if len(same) == 1 else test


def further_tables() -> dict[str, Any]:
    """What else the folder has of tables, by name."""
    found: dict[str, Any] = {}
    for name, parts in find_roles(plan.DATA_DIR).beside.items():
        with suppress(Exception):  # it is no table
            found[name] = read_parts(parts)
    return found


def with_sample_classes(train: pd.DataFrame, sample) -> pd.DataFrame:
    """Folders of classes as the sample names them, or numbered in their order where it has numbers."""
    if "classes" not in {one.part for one in find_roles(plan.DATA_DIR).train} or sample is None:
        return train
    names = sorted(train["label"].unique())
    alike = {re.sub(r"[\W_]", "", str(name).lower()): name for name in sample.columns[1:]}
    taken = {name: alike[key] for name in names if (key := re.sub(r"[\W_]", "", name.lower())) in alike}
    if sample.shape[1] == 2:
        train = train.rename(columns={"label": sample.columns[1]})
        numbers = pd.api.types.is_numeric_dtype(sample.iloc[:, 1])
        if numbers and not all(str(name).isdigit() for name in names):
            taken = {name: number for number, name in enumerate(names)}
            print(f"NOTE: folders are numbered as the sample has numbers: {taken}", flush=True)
    column = train.columns[-1]
    return train.assign(**{column: train[column].map(lambda name: taken.get(name, name))})


def with_steps(train: pd.DataFrame, test, sample, most: int = 0) -> tuple[pd.DataFrame, Any]:
    """What is usual in the file of each id, such as train/<id>.csv with a row a step, as columns."""
    if plan.BANDS or (test is None and sample is None):
        return train, test
    parts = []
    for folder, table in (("train", train), ("test", sample.iloc[:, :1] if test is None else test)):
        files: dict[int, Path] = {}
        with suppress(FileNotFoundError):
            found = enumerate(files_of(folder, table))
            files = {row: path for row, path in found if path.suffix in STEP_FILES and path.is_file()}
        if 2 * len(files) < len(table):
            return train, test
        steps = [steps_of(path, row) for row, path in list(files.items())[: most or None]]
        parts.append(pd.concat([table.reset_index(drop=True), pd.concat(steps)], axis=1))
    plan.STEPS = True
    told = f"{parts[0].shape[1] - train.shape[1]} columns say what is usual in the file of each id"
    print(f"NOTE: {told}", flush=True)
    return parts[0], parts[1]


def steps_of(path: Path, row: int) -> pd.DataFrame:
    """One row; none of a file that cannot be read."""
    with suppress(Exception):
        source = Source(path)
        whole = whole_table(source) if is_no_text(source) else pd.read_csv(path, **form_of(path))
        return step_columns(whole, np.full(len(whole), row))
    return pd.DataFrame()


def read_table(name: str, ids: str = "") -> pd.DataFrame | None:
    """A table of DATA_DIR, ids as text and first; None where there is none."""
    roles = find_roles(plan.DATA_DIR) if name in ROLES else None
    path = plan.DATA_DIR / name
    sources = getattr(roles, ROLES[name]) if roles else [Source(path)] if path.is_file() else []
    most = plan.SAMPLE_ROWS if roles and name == "train.csv" and not roles.labels else 0
    if not sources:
        return None
    table = read_parts(sources, ids, most)
    return table if roles is None else completed(table, name, roles)


def read_parts(sources: Sequence[Source], ids: str = "", most: int = 0) -> pd.DataFrame:
    """Parts of one table; of a long one about `most` rows."""
    if len(sources) > 1:
        print(f"NOTE: {sources[0].path.name} and {len(sources) - 1} more are one table", flush=True)
    tables = [read_source(one, ids, most // len(sources)) for one in sources]
    plain = {re.sub(r"\W", "_", str(name)): name for name in tables[0].columns}  # id-01 is id_01
    names = [{each: plain.get(re.sub(r"\W", "_", str(each)), each) for each in one} for one in tables]
    tables = [one.rename(columns=each) for one, each in zip(tables, names, strict=True)]
    return pd.concat(tables, ignore_index=True)


def read_source(source: Source, ids: str, most: int = 0) -> pd.DataFrame:
    if is_no_text(source):
        whole = whole_table(source)
        first = ids if ids in whole.columns else whole.columns[0]
        table = whole[[first, *(each for each in whole.columns if each != first)]].astype({first: str})
        return table.assign(**{name: found for name in table.columns[1:]
                               if (found := amounts_in(table[name])) is not None})  # fmt: skip
    settings = form_of(source.path)
    columns = pd.read_csv(source.path, nrows=0, **settings).columns
    first = ids if ids in columns else columns[0]
    settings |= {"keep_default_na": False, "na_values": MISSING}  # "None" is often a class
    settings |= {"dtype": {first: str}}
    if plan.ANSWER == "items":  # codes of items, with zeros in front: no numbers
        head = pd.read_csv(source.path, nrows=1000, **settings | {"dtype": str, "on_bad_lines": "skip"})
        settings["dtype"] |= {name: str for name in columns if head[name].dropna().str.isdigit().all()}
    at_once = {} if "engine" in settings else {"low_memory": False}
    try:
        if most:
            table = sampled_table(source.path, settings, most)
        else:
            table = pd.read_csv(source.path, **at_once | settings)
    except pd.errors.ParserError as error:
        print(f"WARNING: {source.path.name}: {str(error).strip()}; longer lines are cut", flush=True)
        settings |= {"engine": "python", "on_bad_lines": lambda line: line[: len(columns)]}
        table = pd.read_csv(source.path, **settings)
    table = table if columns[0] == first else table[[first, *(each for each in columns if each != first)]]
    for column in table.columns[1:]:
        if column in settings["dtype"]:
            continue
        if (amounts := amounts_in(table[column], settings.get("decimal") == ",")) is not None:
            table[column] = amounts
    return table


def completed(table: pd.DataFrame, name: str, roles: Roles) -> pd.DataFrame:
    """The rows of this role with ids, with what lies apart, a row for each id of labels."""
    train, test = name == "train.csv", name == "test.csv"
    ids = columns_in(roles.sample[0])[0] if roles.sample else str(table.columns[-1])
    if str(table.columns[0]).startswith("Unnamed: 0") and ids in table.columns[1:]:
        table = table.iloc[:, 1:].astype({table.columns[1]: str})
    if roles.split and (train or test):
        asked, marks = in_split(table, roles.split), table[roles.split].notna().all()
        table = table[asked == test].reset_index(drop=True)
        if marks or roles.split.lower().strip() in SPLITS:
            table = table.drop(columns=roles.split)
        if test:  # what is withheld is empty
            table = table.dropna(axis=1, how="all")
    if roles.key and (train or test):
        numbers = table.select_dtypes("number").shape[1]
        plan.STEPS = numbers > MOST_NUMBERS * (table.shape[1] - 2)
        print(f"NOTE: rows of one {roles.key} are steps: what is usual in them is learned from", flush=True)
        steps = step_columns(table.drop(columns=roles.key), table[roles.key].astype(str))
        table = steps.rename_axis(roles.key).reset_index()
        if asked := roles.labels if train else roles.sample:
            table = by_beginnings(table, read_parts(asked, roles.key)[roles.key].astype(str))
    if train and roles.labels:
        labels = read_parts(roles.labels, roles.key)
        shared = [
            each for each in labels.columns if each in table.columns and not UNNAMED.fullmatch(str(each))
        ]
        told = ", ".join(str(each) for each in labels.columns if each not in shared)[:100]
        print(f"NOTE: {told}: read from {roles.labels[0].path.name}", flush=True)
        if shared:
            labels = labels.astype({shared[0]: str}).drop_duplicates(shared[0]).drop(columns=shared[1:])
            table = table.astype({shared[0]: str}).merge(labels, on=shared[0], how="inner")
        elif len(labels) == len(table):
            asked = columns_in(roles.sample[0])[1:] if roles.sample else []
            names = [roles.labels[0].part or "target", *(f"target_{n}" for n in range(1, labels.shape[1]))]
            names = asked if len(asked) == len(names) else names
            labels = labels.replace(class_names(roles)).apply(as_numbers_or_texts)
            table = pd.concat(
                [table.drop(columns=names, errors="ignore"), labels.set_axis(names, axis=1)], axis=1
            )
        else:
            raise ValueError(f"{roles.labels[0].path.name} has {len(labels)} rows, train has {len(table)}")
    if train and str(table.columns[-1]).startswith("column_") and roles.test:
        table = with_target_last(table, whole_table(roles.test[0]))
    named = name not in ("train.csv", "test.csv") and table.shape[1] > 1 and table.iloc[:, 0].is_unique
    if not (roles.ids or (named and not is_fraction(as_numbers_or_texts(table.iloc[:, 0])))):
        table[table.columns[0]] = as_numbers_or_texts(table.iloc[:, 0])
        table = table.rename(columns={"id": "id "})
        table.insert(0, "id", [str(row) for row in range(len(table))])
    return table


def with_target_last(table: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Where columns have no names, training rows have one more, the first or the last: the target."""
    if table.shape[1] != test.shape[1] + 1:
        return table
    alike = [
        sum(likeness_of_cells(*pair) for pair in zip(train, test.to_numpy().T, strict=True))
        for train in (table.to_numpy().T[1:], table.to_numpy().T[:-1])
    ]
    names = [str(name) for name in test.columns]
    table = table.set_axis(["target", *names] if alike[0] > alike[1] else [*names, "target"], axis=1)
    table = table[[*names, "target"]]
    if table["target"].astype(str).str.fullmatch(r"[^\W\d]\S{0,60}\.").all():  # negative.
        table["target"] = table["target"].str.rstrip(".")
    return table


def likeness_of_cells(one: Any, other: Any) -> float:
    """The share of the other's values that are in one, and how alike their shares of numbers are."""
    known, asked = ({*map(str, cells[:PEEK_ROWS])} for cells in (one, other))
    shares = [as_numbers(pd.Series([*each], dtype=object)).notna().mean() for each in (known, asked)]
    return float(len(known & asked) / max(1, len(asked)) + 1 - abs(shares[0] - shares[1]))


def class_names(roles: Roles) -> dict[str, str]:
    """Of numbers, as a table beside has them, where the sample has names."""
    shown = {*read_parts(roles.sample).iloc[:, -1]} if roles.sample else set()
    for parts in roles.beside.values():
        if len(columns_in(parts[0])) == 2 and shown <= {*(pairs := read_parts(parts)).iloc[:, 1]} and shown:
            return dict(zip(pairs.iloc[:, 0], pairs.iloc[:, 1], strict=True))
    return {}


def by_beginnings(table: pd.DataFrame, ids: pd.Series) -> pd.DataFrame:
    """A row for each id, where ids are those of the table with a part behind, as in 1234_q2."""
    first = str(table.columns[0])
    found = None if ids.isin(table[first]).any() else id_pairs(ids.to_frame(), table[[first]])
    if found is None:
        return table
    made = table.set_index(first).reindex(found[1]).reset_index(names=f"{first} begins")
    made.insert(0, first, ids.to_numpy())
    return made.assign(**{f"{first} ends": found[2].to_numpy()})


def sampled_table(
    path: Path, settings: Mapping[str, Any], most: int, at_once: int = 1_000_000
) -> pd.DataFrame:
    """About so many rows of a long table: the latest, whole groups or drawn at random, as SPLIT says."""
    settings = {**settings, "on_bad_lines": "skip"}
    head = pd.read_csv(path, nrows=1000, **settings)
    if not len(head):
        return head
    group = plan.GROUP_BY if plan.SPLIT == "group" and plan.GROUP_BY in head.columns else None
    dates = [name for name in head.columns if is_dates(head[name])] if plan.SPLIT == "time" else []
    rows, some = 0, list[pd.Series]()
    first = {**settings, "usecols": [dates[0] if dates else head.columns[0]], "dtype": str}
    for part in pd.read_csv(path, chunksize=at_once, **first):
        rows += len(part)
        some.append(part.iloc[::100, 0] if dates else part.iloc[:0, 0])
    share = min(1.0, most / max(rows, 1))
    since = as_days(pd.concat(some)).quantile(1 - share) if dates else 0.0
    parts = []
    for part in pd.read_csv(path, chunksize=at_once, **settings):
        if dates:
            codes, moments = pd.factorize(part[dates[0]])
            days = as_days(pd.Series(moments, name=dates[0])).to_numpy()
            parts.append(part[np.where(codes < 0, -np.inf, days[codes]) >= since])
        elif group:
            drawn = pd.util.hash_array(part[group].astype(str).to_numpy(object)) % 10_000
            parts.append(part[drawn < 10_000 * share])
        else:
            parts.append(part.sample(round(share * len(part)), random_state=plan.SEED))
    table = pd.concat(parts).sort_index().reset_index(drop=True)
    if share < 1:
        print(f"NOTE: {len(table)} of {rows} rows of {path.name} are read", flush=True)
    return table


def drawn_runs(given: str, size: tuple[int, int]) -> np.ndarray | None:
    """(height, width) of 0 and 255, of run lengths down the columns; None where it is no such text."""
    if not RUNS.fullmatch(given.strip()):
        return None
    flat = np.zeros(size[0] * size[1], np.uint8)
    numbers = [int(each) for each in given.split()]
    for start, length in zip(numbers[::2], numbers[1::2], strict=True):
        flat[start - 1 : start - 1 + length] = 255
    return flat.reshape(size).T.copy()


def as_numbers(column: pd.Series) -> pd.Series:
    """What is no finite number is missing."""
    return pd.to_numeric(column, errors="coerce").astype(float).replace([np.inf, -np.inf], np.nan)


NUMBERED_DAY = r"\d{1,2}[/-]\d{1,2}[/-]\d{4}"
DAY_FIRST, DAY_SECOND = r"(?:1[3-9]|2\d|3[01])[/-]\d+[/-]", r"\d+[/-](?:1[3-9]|2\d|3[01])[/-]"


def shows_days_first(text: pd.Series) -> bool | None:
    """Whether days come before months; None where all would do as both, or some as the other alone."""
    first, second = text.str.match(DAY_FIRST).any(), text.str.match(DAY_SECOND).any()
    return None if first == second else bool(first)


@lru_cache(maxsize=4)
def day_orders(folder: Path) -> dict[str, bool]:
    """Column -> whether its days come before months, by its rows in all tables; "": as all others have it."""
    roles, cells = find_roles(folder), dict[str, list[pd.Series]]()
    for source in chain(roles.train, roles.test, roles.sample, roles.labels, *roles.beside.values()):
        with suppress(Exception):  # it is no table
            parts = [whole_table(source)]
            names = [each for each in parts[0] if parts[0][each].astype(str).str.match(NUMBERED_DAY).any()]
            if names and not is_no_text(source):
                form = form_of(source.path) | {"dtype": str, "usecols": names, "on_bad_lines": "skip"}
                parts = pd.read_csv(source.path, chunksize=1_000_000, **form)
            for part in parts:
                for name in names:
                    cells.setdefault(name, []).append(pd.Series(part[name].dropna().astype(str).unique()))
    shown = {name: shows_days_first(pd.concat(texts)) for name, texts in cells.items()}
    found = {name: first for name, first in shown.items() if first is not None}
    if len({*found.values()}) == 1:
        found[""] = next(iter(found.values()))
    if shown:
        order = {True: "days", False: "months", None: "months, if a table does not show days,"}[found.get("")]
        print(f"NOTE: of dates in {', '.join(shown)} {order} come first", flush=True)
    return found


def as_days(column: pd.Series) -> pd.Series:
    """Dates such as 2026-01-31 12:00, 31.1.2026, 1/31/2026, or 31/1/2026 where no month would do, as days
    since 1970; what is none is missing."""
    text = column.astype(object).astype(str)
    if text.str.match(NUMBERED_DAY).any():
        orders = day_orders(plan.DATA_DIR)
        days_first = orders.get(str(column.name).strip().rpartition(": ")[2])  # also of a table beside
        days_first = shows_days_first(text) if days_first is None else days_first
        order = r"\3-\2-\1" if (orders.get("") if days_first is None else days_first) else r"\3-\1-\2"
        text = text.str.replace(r"^(\d+)[/-](\d+)[/-](\d{4})", order, regex=True)
    text = text.str.replace(r"^(\d+)\.(\d+)\.(\d{4})", r"\3-\2-\1", regex=True)
    text = text.str.replace(r"^(\d{8})\.0$", r"\1", regex=True)
    days = pd.to_datetime(text.astype(object), errors="coerce", format="ISO8601", utc=True)
    days = days.where(days.dt.year.between(1678, 2261))  # numbers such as 7337 look like years, too
    return (days - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)


SHORTEST_SERIES = 50  # rows, of numbered moments


def is_dates(column: pd.Series) -> bool:
    """Whether nearly all that is there is a date; of numbers none is."""
    some = column.dropna().head(1000)
    numbers = as_numbers(some)
    if len(some) and numbers.between(19000101, 21001231).all() and (numbers % 1 == 0).all():  # 20260131
        return bool(as_days(some).notna().all() and some.nunique() > 5)
    return bool(numbers.isna().mean() > 0.9 and as_days(some).notna().mean() > 0.9)


def keep_first(train: pd.DataFrame, test: pd.DataFrame) -> None:
    """A first column of dates, or of values that repeat or go on, is an input, too."""
    first = train.columns[0]
    if first not in test.columns:
        return
    known, asked = as_numbers(train[first]), as_numbers(test[first])
    goes_on = known.is_monotonic_increasing and asked.min() > known.max() and len(known) > SHORTEST_SERIES
    alone = goes_on and not {*train.columns[1:]} & {*test.columns}
    if alone or is_dates(train[first]) or train[first].duplicated().mean() > 0.5:
        for table in (train, test):
            table.insert(1, f"{first} ", table[first])


def look_up(folder: str, ids) -> tuple[Path, list[Path | None]]:
    """(the folder, of each id the file with or without its ending or another's, or `<id>_mask`)."""
    places = [plan.DATA_DIR / f"{folder}{end}" for end in ("", "_images", "_audio", "_videos")]
    place = next((path for path in places if path.is_dir()), None)
    if place is None and folder == "train_masks" and (pair := masked(plan.DATA_DIR)):
        place = pair[1]
    paths = sorted(place.iterdir()) if place is not None else []
    known = {path.stem.removesuffix("_mask"): path for path in paths}
    known |= {name: path for path in paths for name in (path.stem, path.name)}
    found = [known.get(name) or known.get(Path(str(name)).stem) for name in ids]
    if not any(found):
        found = [drawn_file(str(name)) for name in ids]
    if not any(found) and folder in ("train", "test"):
        known = media_files(plan.DATA_DIR, folder)
        found = [next((known[end] for end in endings(str(name)) if end in known), None) for name in ids]
    if place is None and not any(found):
        there = ", ".join(sorted(path.name for path in plan.DATA_DIR.iterdir() if path.is_dir()))
        raise FileNotFoundError(f"{places[0]} is not there, but {there or 'no folder'}: change read_data")
    return place or plan.DATA_DIR, found


def media_files(root: Path, folder: str) -> dict[str, Path]:
    """Pictures and sounds, then files of steps, by the ends of their paths: first those of this folder."""
    if (root, folder) not in FILES:
        masks = (masked(root) or (root, None))[1]
        paths = [path for path in sorted(root.rglob("*")) if path.suffix.lower() in MEDIA_FILES]
        paths = [path for path in paths if path.parent != masks]
        paths += [path for path in sorted(root.glob("*/**/*")) if path.suffix.lower() in STEP_FILES]
        paths.sort(
            key=lambda path: (path.suffix in STEP_FILES, folder not in str(path.parent.relative_to(root)))
        )
        known = FILES.setdefault((root, folder), {})
        for path in paths:
            for name in endings(path.relative_to(root).as_posix()):
                known.setdefault(name, path)
                known.setdefault(name.removesuffix(path.suffix), path)
        for place in dict.fromkeys(path.parent for path in paths if path.suffix.lower() in IMAGE_FILES):
            for name in endings(place.relative_to(root).as_posix()):  # of frames
                known.setdefault(name, place)
    return FILES[root, folder]


def endings(path: str) -> list[str]:
    """ "a/b/c.png", "b/c.png" and "c.png" of the first."""
    parts = Path(path).parts
    return ["/".join(parts[start:]) for start in range(len(parts))]


def find_files(folder: str, ids, *others) -> list[Path]:
    """The file of each id, or of that of the other columns that names the most files."""
    tried: list[tuple[int, Any, Path, list[Path | None]]] = []
    missing: FileNotFoundError | None = None
    for column in (ids, *others):
        try:
            place, found = look_up(folder, column)
        except FileNotFoundError as error:
            missing = missing or error
            continue
        tried.append((len(found) - found.count(None), column, place, found))
        if 2 * tried[-1][0] >= len(found):
            break
    if missing is not None and not tried:
        raise missing
    _, ids, place, found = max(tried, key=itemgetter(0))
    if folder == "test" and None in found:
        told = f"{found.count(None)} of {len(found)} files of the test set are not in {place}"
        if not any(found):
            raise FileNotFoundError(f"{told}: change read_data")
        print(f"WARNING: {told}", flush=True)
    return [path or place / str(name) for path, name in zip(found, ids, strict=True)]


def files_of(folder: str, table: pd.DataFrame) -> list[Path]:
    """The file of each row: its id's, or where ids name none that of a column such as image or file_name."""
    return find_files(folder, table.iloc[:, 0], *(table[name] for name in naming_columns(table)))


def naming_columns(table: pd.DataFrame) -> list[str]:
    """Columns that may name files, by their name or their values."""
    marks, ends = ("image", "img", "file", "path"), MEDIA_FILES
    shown = {name: str(table[name].iloc[0]).lower() if len(table) else "" for name in table.columns[1:]}
    return [
        name for name, first in shown.items()
        if first.endswith(ends) or any(mark in str(name).lower() for mark in marks)
    ]  # fmt: skip


def unnamed(folder: str, ids) -> list[str]:
    """Its images that no id names, each as those are written: with an ending or without."""
    place, paths = look_up(folder, ids)
    files = {path.stem: path for path in place.iterdir() if path.suffix.lower() in IMAGE_FILES}
    more = [files[name] for name in sorted(files.keys() - {path.stem for path in paths if path})]
    if more:
        print(f"NOTE: {len(more)} images of {place.name} are in no table: taken all the same", flush=True)
    ended = any(str(name).lower().endswith(IMAGE_FILES) for name in ids)
    return [path.name if ended else path.stem for path in more]


def warn_unreadable(path: Path, error: Exception) -> None:
    """Says which file cannot be read: once in a process, and of so many files only."""
    if path not in WARNED and len(WARNED) < 20:
        WARNED.add(path)
        print(f"WARNING: {path} cannot be read: {error!r:.200}", flush=True)


def tell_unread(data: Data, rows) -> None:
    """How many test files could not be read, or words that have no token, and the first: once."""
    if len(rows) and "test files" not in WARNED:
        WARNED.add("test files")
        first = [data.test_ids[row] if data.samples else Path(data.test_inputs[row]).name for row in rows[:5]]
        what = f"{len(data.test_ids)} test {'words' if data.samples else 'files'}"
        told = f"{len(rows)} of {what} cannot be read ({', '.join(first)})"
        print(f"WARNING: {told}: what is predicted without them, the constant, is submitted", flush=True)


def target_columns(train: pd.DataFrame, test: pd.DataFrame | None, sample: pd.DataFrame | None) -> list[str]:
    """Those that the sample shares, else those that test.csv has not; of these the one with its classes."""
    if plan.TARGET in train.columns:
        return [plan.TARGET]
    asked = pd.Index([]) if sample is None else sample.columns[1:]
    shared = [name for name in asked if name in train.columns]
    if only := [name for name in shared if test is None or name not in test.columns]:
        return only
    given = {train.columns[0], group_column(train), *([] if test is None else test.columns)}
    left = [name for name in train.columns if name not in given]
    if len(left) > 1:  # of what was known later the moment is not asked for
        some = {name: as_numbers(train[name].head(1000)) for name in left}
        told = [name for name in left if MOMENTS.search(str(name)) or UNNAMED.fullmatch(str(name))]
        moments = [name for name in told if some[name].between(5e8, 5e9).all()]
        if moments and (others := [name for name in left if name not in moments]):
            print(f"NOTE: {', '.join(moments)}: a moment, not asked for", flush=True)
            left = others
    named = [name for name in left if len(asked) > 1 and asked.isin(train[name].astype(str)).all()]
    return named or shared or left


def read_labels(train: pd.DataFrame, test, sample) -> tuple[pd.DataFrame, list[str], np.ndarray, list]:
    """(rows whose class is known, target columns, class numbers or 0/1 matrix of labels, their names)."""
    columns = target_columns(train, test, sample)
    several = len(columns) > 1 and train[columns].dropna().isin([0, 1]).all(axis=None)
    if len(columns) > 1 and not several:
        print(f"WARNING: {columns[0]} is predicted, not {', '.join(columns[1:])}: see read_data", flush=True)
        columns = columns[:1]
    known = without_missing(train, train[columns].notna().all(axis=1), columns)
    if several:
        targets = known[columns].to_numpy(dtype=np.float32)
        if (targets.sum(axis=1) == 1).all():
            targets = targets.argmax(axis=1)
            print(f"NOTE: each row is of one of {', '.join(columns)}: classes, not labels", flush=True)
        return known, columns, targets, columns
    classes = known[columns[0]]
    if (labels := labels_in_cells(classes)) is not None:
        plan.MARK = mark_between(classes.astype(str))
        print(f"NOTE: {columns[0]} has one label or several of {len(labels.columns)} in a row", flush=True)
        return known, list(labels.columns), labels.to_numpy(), list(labels.columns)
    if pd.api.types.is_float_dtype(classes) and (classes % 1 == 0).all():
        classes = classes.astype(int)
    numbers, names = pd.factorize(classes, sort=True)
    in_steps = pd.api.types.is_numeric_dtype(classes) and len(set(np.diff(names))) == 1
    if plan.METRIC == "quadratic weighted kappa" and not in_steps:
        print(f"WARNING: grades count as equally far apart, in this order: {names.tolist()}", flush=True)
    if len(names) == 2 and is_positive(names, columns if sample is None else sample.columns[1:]):
        numbers, names = 1 - numbers, names[::-1]
    return known, columns, numbers.astype(np.int64), names.tolist()


def is_positive(names: Any, columns: Any) -> bool:
    """Whether a probability is asked of the first of two classes: p_bad names it alone, or it says yes."""
    words = [word for name in columns for word in re.split(r"[\W_]+", str(name).lower()) if len(word) > 2]
    texts = [str(name).strip().lower() for name in names]
    named = [any(text.startswith(word) or word == text for word in words) for text in texts]
    return named[0] if named[0] != named[1] else texts[0] in YES and texts[1] not in YES


def mark_between(classes: pd.Series) -> str:
    """What stands between labels of one cell: a bar, a semicolon or a comma, else a blank."""
    return next((mark for mark in ("|", "; ", ";", ", ", ",") if mark in classes.str.cat()), " ")


def labels_in_cells(classes: pd.Series) -> pd.DataFrame | None:
    """A column of 0 and 1 for each label of cells of several; None where a cell is one class."""
    if pd.api.types.is_numeric_dtype(classes) or plan.TASK == "image-retrieval":
        return None
    mark = mark_between(classes := classes.astype(str)).strip() or None
    cells = [[name.strip() for name in cell.split(mark) if name.strip()] for cell in classes]
    names = sorted({name for cell in cells for name in cell})
    counts = {len(cell) for cell in cells}
    if min(counts, default=0) != 1 or max(counts) < 2 or len(names) >= classes.nunique():
        return None
    alone = {cell[0] for cell in cells if len(cell) == 1}
    together = any(len(cell) > 1 and alone.issuperset(cell) for cell in cells)
    if not together and classes.nunique() < 2 * len(names):
        return None
    labels, places = np.zeros((len(cells), len(names)), np.float32), {name: n for n, name in enumerate(names)}
    for row, cell in enumerate(cells):
        labels[row, [places[name] for name in cell]] = 1
    return pd.DataFrame(labels, columns=names)


def read_values(train: pd.DataFrame, test, sample) -> tuple[pd.DataFrame, list[str], np.ndarray, list]:
    """(rows whose targets are finite numbers, target columns, one column a target, their names)."""
    columns = target_columns(train, test, sample)
    numbers = train[columns].apply(pd.to_numeric, errors="coerce")
    known = without_missing(train.assign(**numbers), np.isfinite(numbers).all(axis=1), columns)
    values, outputs = known[columns].to_numpy(dtype=np.float32), columns
    if plan.ranks is not None and plan.ranks.name in known:  # only the order inside of a group counts
        values = values - pd.DataFrame(values).groupby(known[plan.ranks.name].to_numpy()).transform("mean")
        values = values.to_numpy(np.float32)
    asked = [] if sample is None else [str(name) for name in sample.columns[1:]]
    several = len(columns) == 1 < len(asked)  # a column for each quantile of one target
    if several and plan.SCORE != "quantile":
        plan.SCORE, plan.METRIC, plan.score_of = "quantile", "quantile loss", score_quantile
        plan.HIGHER_IS_BETTER, plan.FORM, plan.LOGS = False, "", ""
        print(f"NOTE: {', '.join(asked[:9])} are quantiles of {columns[0]}", flush=True)
    if plan.SCORE == "quantile":
        outputs = asked if several else columns
        values = np.repeat(values, len(outputs), axis=1) if several else values
        plan.LEVELS = levels_of(outputs, several)
    return known, columns, values, outputs


def levels_of(outputs: list, several: bool) -> list[float]:
    """The quantile of each by its name (q0.1, p90, q025), else that of the plan, else evenly spread ones."""
    if several:
        found = [level_in(str(name)) for name in outputs]
        if all(0 < level < 1 for level in found) and len(set(found)) == len(found):
            print(f"NOTE: the quantiles are {', '.join(f'{level:g}' for level in found)}", flush=True)
            plan.METRIC = "mean quantile loss"  # the page may name one of them
            return found
    if plan.K or not several:
        return [plan.K / 1000 if plan.K else 0.5] * len(outputs)
    return [(place + 1) / (len(outputs) + 1) for place in range(len(outputs))]


def level_in(name: str) -> float:
    """The share that the last number of a name tells: 0.1, 90, 97.5 or 025; 0 where there is none."""
    found = re.search(r"(?<!\d)(?:0[._]\d+|\d+(?:\.\d+)?)$", re.sub(r"[^\d]+$", "", name))
    text = found[0].replace("_", ".") if found else "0"
    share = 1 if "." in text and float(text) < 1 else 1000 if "." not in text and len(text) >= 3 else 100
    return float(text) / share


def read_answers(train: pd.DataFrame, test, sample) -> tuple[pd.DataFrame, list[str], np.ndarray, list]:
    """What `read_labels` or `read_values` says; values as they are learned."""
    reads = read_values if plan.ANSWER == "values" else read_labels
    known, columns, targets, outputs = reads(train, test, sample)
    if plan.LOGS and plan.SCORE in ("mape", "smape", "rmspe"):  # of values near 0 log1p is hardly one
        plan.LOGS = "log" if targets.min() > 0 else "log1p" if targets.min() == 0 else ""
    if plan.ANSWER == "values" and plan.LOGS:
        targets = np.log1p(targets.clip(min=0)) if plan.LOGS == "log1p" else np.log(targets.clip(min=1e-6))
    return known, columns, targets, outputs


def table_data(train: pd.DataFrame, test, sample, **more) -> Data:
    """Ids, groups and times of these tables; `more` is what else Data has, and goes before them."""
    if plan.learn_pictures:
        plan.learn_pictures(more["inputs"])
    more.setdefault("test_ids", (sample if test is None else test).iloc[:, 0].tolist())
    if "groups" not in more:
        more |= {"groups": groups_of(train), "times": times_of(train), "test_times": times_of(test)}
    more.setdefault("weights", weights_of(train))
    name = str(train.columns[0] if sample is None else sample.columns[0])
    return Data(**({"id_column": name, "ids": train.iloc[:, 0].tolist(), "sample": sample} | more))


def weights_of(train: pd.DataFrame) -> np.ndarray | None:
    """The column of weights, 1 in the mean, where the metric weighs rows."""
    named = [name for name in train.columns if re.fullmatch(ROW_WEIGHTS, str(name), re.IGNORECASE)]
    if not plan.WEIGHTED or not named:
        return None
    weights = as_numbers(train[named[0]]).fillna(0.0).to_numpy()
    if weights.min() < 0 or weights.sum() <= 0:
        return None
    print(f"NOTE: rows count by their {named[0]}", flush=True)
    return np.asarray(weights / weights.mean())


def without_missing(train: pd.DataFrame, known: pd.Series, columns: list[str]) -> pd.DataFrame:
    if not known.all():
        print(f"NOTE: {(~known).sum()} rows without {', '.join(columns)} are left out", flush=True)
    return train[known].reset_index(drop=True)


def group_column(train: pd.DataFrame) -> str | None:
    """The column that GROUP_BY names: `patient` or `patient_id`."""
    names = {f"{plan.GROUP_BY}{end}".lower() for end in ("", "_id", "id")}
    return next((name for name in train.columns[1:] if str(name).lower() in names), None)


def groups_of(train: pd.DataFrame) -> np.ndarray | None:
    """Groups of rows: the column that GROUP_BY names, else the beginning of ids where many share it."""
    if plan.SPLIT == "time":
        return None
    column = group_column(train) if "group" in plan.SPLIT else None
    if column is not None:
        return train[column].astype(str).fillna("").to_numpy() if train[column].nunique() > 1 else None
    begins = train.iloc[:, 0].astype(str).str.extract(r"^([^_-]+)[_-]", expand=False)
    sizes = begins.value_counts()
    if begins.isna().any() or sizes.mean() < 1.5 or len(sizes) < 20 or sizes.max() > len(train) / 10:
        return None
    if "group" not in plan.SPLIT:
        told = f"ids have {len(sizes)} beginnings, such as {begins.iloc[0]}, each on both sides of splits"
        print(f'WARNING: {told}: if such rows belong together, set SPLIT = "group"', flush=True)
        return None
    print(f"NOTE: no column {plan.GROUP_BY}; grouped by the id's beginning: {len(sizes)} groups", flush=True)
    return begins.to_numpy()


def times_of(table: pd.DataFrame | None) -> np.ndarray | None:
    """The column that GROUP_BY names, else the first of dates, where later rows validate."""
    if plan.SPLIT != "time" or table is None:
        return None
    if plan.GROUP_BY in table.columns and not is_dates(table[plan.GROUP_BY]):
        numbers = as_numbers(table[plan.GROUP_BY])  # years, rounds, weeks
        if numbers.notna().mean() > 0.9:
            return numbers.fillna(numbers.min()).to_numpy()
    for name in [plan.GROUP_BY, *table.columns[1:]]:
        if name in table.columns and is_dates(table[name]):
            days = as_days(table[name])
            return days.fillna(days.min()).to_numpy()  # a row without a date validates no later one
    return table[plan.GROUP_BY].to_numpy() if plan.GROUP_BY in table.columns else None
