"""What all training scripts share: the budget, reading tables, folds, resuming, reports, the submission.

The same text for every plan. train.py beside it says what is learned: its settings and functions are `plan`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import math
import os
import random
import signal
import sys
import threading
import time
import traceback
import zlib
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

try:
    from memory_service.client import watch  # reports the run to the service, and brings its advice
except ImportError:
    watch = None  # type: ignore[assignment]


class Plan(SimpleNamespace):
    """The settings and functions of train.py: `begin` fills it in. Here is what holds where a script has none
    of its own."""

    BATCH_SIZE, GRAD_ACCUMULATION, EPOCHS, NUM_WORKERS = 0, 1, 1, 0
    PRETRAINED, HUB_NAME, LORA_RANK, LAYER_DECAY, EMA = False, "", 0, 1.0, 0.0
    MOMENTUM, PAGED_OPTIMIZER, GRADIENT_NORM, TTA = 0.0, False, 1.0, False
    SPLIT, GROUP_BY, GAP, FOLDS, SEEDS, SEED = "random", None, 0, 5, 1, 42
    RANK, WORLD = 0, 1  # this process among those of several cards
    SERVER, BASELINE, __file__ = None, "", None
    ANSWER, FORM, SCORE, K, LOGS, ABSOLUTE = "labels", "", "", 0, "", False  # see `answers`

    # Functions: None where a kind of script does without.
    print_devices = start_together = first_says = build_sharded = collate = None  # networks
    training_order = None  # random, if rows are as dear as each other
    default_thresholds = best_thresholds = None  # where probabilities are cut into classes
    score_of = None  # the loss judges
    predict_masks = None  # masks are too large to keep: predicted and written at once
    fuse = None  # boxes have no plain mean
    neighbors = None  # embeddings, which are matched
    between = None  # the model's own mark between two texts
    write_held_out = None  # another oof.csv
    file_members = ()  # of files, for `engine`
    train = None  # another way to train than fold after fold: see `engine`


plan: Any = Plan()


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

    def __post_init__(self) -> None:
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


# Budget


def process_age() -> float:
    """Seconds since this process, or torchrun, began, by the wall clock: imports and a slow disk count."""
    if "ipykernel" in sys.modules:  # a notebook's process is older than the run
        return 0.0
    process = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else "self"  # of torchrun, who begins it
    try:
        ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return max(age, time.process_time())
    except (OSError, AttributeError, ValueError, IndexError):  # no Linux
        return time.process_time()


START = time.monotonic() - process_age()


def minutes_until(moment: str) -> float:
    """From START to a moment: seconds since 1970, or ISO 8601 (UTC where it names no zone)."""
    try:
        timestamp = float(moment)
    except ValueError:
        parsed = dt.datetime.fromisoformat(moment)
        timestamp = (parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)).timestamp()
    return (timestamp - time.time() + time.monotonic() - START) / 60


def usable_cores() -> int:
    """By the process's affinity and its container's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for files in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):  # version 2, version 1
        with suppress(OSError, ValueError):  # no quota, or "max"
            text = " ".join((Path("/sys/fs/cgroup") / name).read_text() for name in files)
            quota, period = map(int, text.split())
            cores = min(cores, math.ceil(quota / period)) if quota > 0 else cores
    return cores


@dataclass
class RunState:
    """The plan's settings as they hold now: changed when memory or time run short."""

    out_dir: Path = Path()
    minutes: float = 0.0
    reserve_minutes: float = 0.0  # kept for predicting and writing
    train_minutes: float = 0.0  # from here on a fold begins only if it fits
    batch_size: int = 0
    accumulation: int = 1
    epochs: int = 0
    num_workers: int = 0
    row_seconds: float = 0.0  # that training took for a sample, where the time cut an epoch
    start_seconds: float = 0.0  # that an epoch's first step took beyond another
    share: float = 0.0  # of the present epoch, that is trained already
    predict_seconds: float = 0.0  # expected for the test set, by the speed of validating
    table_seconds: float = 0.0  # most that the disk took for a table such as submission.csv
    save_seconds: float = 0.0  # and the last time for a network's checkpoint
    fold_seconds: list[float] = field(default_factory=list)  # what training each fold took
    unfinished: dict[str, dict] = field(default_factory=dict)  # folds of whose test rows some were predicted
    interim: bool = False  # whether submission.csv is of an epoch within the first fold
    predicted: bool = False  # whether this start wrote submission.csv by its folds
    stop: bool = False  # end now with what there is
    run: Any = None  # what reports to the service, while it does
    verdict: Any = None  # the service's last advice
    repeats: int = 0  # how often in a row it gave the same

    def elapsed(self) -> float:
        return time.monotonic() - START

    def seconds_left(self) -> float:
        """To the end of training: all but the reserve, or what predicting and writing take; at most to
        `train_minutes` until a first epoch or fold has shown that."""
        writing = self.save_seconds + 4 * self.table_seconds  # a fold writes four tables
        ending = self.predict_seconds + writing
        end = 60 * self.minutes - max(60 * self.reserve_minutes, ending)
        if self.is_unseen():
            end = min(end, 60 * self.train_minutes)
        return 0.0 if self.stop else max(end - self.elapsed(), 0.0)

    def is_unseen(self) -> bool:
        """Whether nothing has shown yet what predicting takes."""
        return not self.fold_seconds and self.predict_seconds == 0

    def fold_fits(self) -> bool:
        """Whether one more fold ends in time, if it takes as long as the quickest so far. Before
        `train_minutes` are over half of a last fold is enough: cut there, it helps, too."""
        share = 0.5 if self.elapsed() < 60 * self.train_minutes else 1.0
        return self.seconds_left() > share * min(self.fold_seconds, default=0.0)

    def set_batch_size(self, batch_size: int) -> None:
        """Another batch size with the same effective batch size."""
        self.accumulation = max(1, -(-self.batch_size * self.accumulation // batch_size))
        self.batch_size = batch_size

    def follow(self, verdict) -> None:
        """Of the service's advice what saves the deadline: a smaller batch at once, an end once its rule
        of the time for predicting (R14) asks for it at three moments in a row and that was not seen
        here yet. The rest is printed: how many folds and epochs fit is seen here."""
        if verdict is None or verdict is self.verdict:
            return
        last, self.verdict = self.verdict, verdict
        new = last is None or last.action != verdict.action
        if new:
            self.repeats = 1
        elif last.raw.get("at_seconds") != verdict.raw.get("at_seconds"):  # not the same answer once more
            self.repeats += 1
        if verdict.action != "continue" and new:
            print(f"VERDICT: {verdict}", flush=True)
        over = verdict.action == "stop_and_predict" and verdict.rule == "R14" and self.repeats >= 3
        if over and self.is_unseen():
            self.stop = True
        if verdict.action == "lower_batch" and verdict.set.get("batch_size", math.inf) < self.batch_size:
            self.set_batch_size(verdict.set["batch_size"])


state = RunState()


def begin(module, deadline: str | None = None) -> None:
    """Take the settings and functions of train.py; the budget ends at the deadline or MEMORY_DEADLINE, where
    one is given, else MINUTES after the start of the process."""
    plan.__dict__.update(vars(module))
    deadline = deadline or os.environ.get("MEMORY_DEADLINE")
    state.out_dir = plan.OUT_DIR
    state.minutes = minutes_until(deadline) if deadline else plan.MINUTES
    state.reserve_minutes = plan.RESERVE_SHARE * state.minutes
    state.train_minutes = plan.TRAIN_SHARE * state.minutes
    state.batch_size, state.accumulation, state.epochs = plan.BATCH_SIZE, plan.GRAD_ACCUMULATION, plan.EPOCHS
    state.num_workers = min(plan.NUM_WORKERS, usable_cores() // plan.WORLD)


def agreed(value):
    """What the first of several cards' processes says; the value where there is one."""
    return plan.first_says(value) if plan.first_says else value


def arguments_of(module) -> argparse.Namespace:
    """What the command line says; --help prints what train.py says of itself, and a word that is not known
    ends the run with status 2. A notebook has none."""
    form: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    parser = argparse.ArgumentParser(description=module.__doc__, **form)
    parser.add_argument("command", nargs="?", choices=["predict"], help="nothing: train, then predict")
    parser.add_argument("--deadline", help="when the budget ends, in place of MINUTES: see MEMORY_DEADLINE")
    parser.add_argument("--run", metavar="N", help="start run_N.py, which lies beside this file")
    return parser.parse_args([] if "ipykernel" in sys.modules else None)


def end_in_time() -> threading.Timer:
    """SIGTERM ends training; at the end of the budget, unless cancelled, the process ends whatever it does.
    What is written is whole at any moment."""

    def at_deadline() -> None:
        while not (state.out_dir / "submission.csv").exists():
            time.sleep(0.1)
        print("NOTE: the budget is over: ending with the submission that is there", flush=True)
        end: dict[str, Any] = {
            "target": report,
            "args": (state.run, "finish", "timed_out"),
            "kwargs": {"submission": True},
        }
        told = threading.Thread(**end, daemon=True)
        told.start()
        told.join(min(max(0.2, 0.2 * state.minutes), 2.0))
        os._exit(0)

    def at_sigterm(*_) -> None:
        state.stop = True

    signal.signal(signal.SIGTERM, at_sigterm)
    timer = threading.Timer(max(0.99 * 60 * state.minutes - state.elapsed(), 0.0), at_deadline)
    timer.daemon = True
    timer.start()
    return timer


def prediction_deadline() -> float:
    """When predictions of the test set must be there, by time.monotonic()."""
    return START + 0.97 * 60 * state.minutes


def usual_seconds(work) -> float:
    """The median of three."""
    found = []
    for _ in range(3):
        began = time.monotonic()
        work()
        found.append(time.monotonic() - began)
    return sorted(found)[1]


def report(run, method: str, *values, **facts):
    """One call of the client, such as run.fold(...); nothing where it is not installed."""
    return getattr(run, method)(*values, **facts) if run is not None else None


# Reading

MISSING = ["", "#N/A", "<NA>", "N/A", "n/a", "NA", "NULL", "null", "NaN", "nan", "-NaN", "-nan"]  # not None
WARNED: set[Path | str] = set()
IMAGE_FILES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


def read_tables(needed: str) -> list[pd.DataFrame | None]:
    """train.csv, test.csv and sample_submission.csv; None for one of the last two that is not `needed`."""
    train, test, sample = (read_table(f"{name}.csv") for name in ("train", "test", "sample_submission"))
    if train is None or (test is None and (sample is None or "sample" not in needed)):
        missing = f"train.csv and {needed} must be in {plan.DATA_DIR.resolve()}"
        raise FileNotFoundError(f"{missing}: set DATA_DIR or change read_data")
    first = train.columns[0]
    if test is not None and first in test.columns[1:] and test.columns[0] not in train.columns:
        print(f"NOTE: train.csv has no ids; its first column {first} is learned from", flush=True)
        with suppress(ValueError):  # it was read as text
            train[first] = pd.to_numeric(train[first])
        train.insert(0, test.columns[0], [str(row) for row in range(len(train))])
    return [train, test, sample]


def read_table(name: str) -> pd.DataFrame | None:
    """A table of DATA_DIR, ids as text; None where there is none. A malformed line costs no other."""
    path = plan.DATA_DIR / name
    if not path.exists():
        return None
    columns = pd.read_csv(path, nrows=0, encoding_errors="replace").columns
    settings: dict[str, Any] = {"dtype": {columns[0]: str}, "encoding_errors": "replace"}
    settings |= {"keep_default_na": False, "na_values": MISSING}  # "None" is often a class
    try:
        return pd.read_csv(path, low_memory=False, **settings)
    except pd.errors.ParserError as error:
        print(f"WARNING: {name}: {str(error).strip()}; longer lines are cut", flush=True)
        return pd.read_csv(path, engine="python", on_bad_lines=lambda line: line[: len(columns)], **settings)


def as_numbers(column: pd.Series) -> pd.Series:
    """What is no finite number is missing."""
    return pd.to_numeric(column, errors="coerce").astype(float).replace([np.inf, -np.inf], np.nan)


def as_days(column: pd.Series) -> pd.Series:
    """Dates such as 2026-01-31 12:00, 31.1.2026 or 1/31/2026 as days since 1970; what is none is missing."""
    text = column.astype(object).astype(str).str.replace(r"^(\d+)/(\d+)/(\d{4})", r"\3-\1-\2", regex=True)
    text = text.str.replace(r"^(\d+)\.(\d+)\.(\d{4})", r"\3-\2-\1", regex=True)
    days = pd.to_datetime(text.astype(object), errors="coerce", format="ISO8601", utc=True)
    return (days - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)


def is_dates(column: pd.Series) -> bool:
    """Whether nearly all that is there is a date; of numbers none is."""
    some = column.dropna().head(1000)
    return bool(as_numbers(some).isna().mean() > 0.9 and as_days(some).notna().mean() > 0.9)


def keep_first(train: pd.DataFrame, test: pd.DataFrame) -> None:
    """A first column of dates, or of values that repeat, is more than an id: it is an input, too."""
    first = train.columns[0]
    if first in test.columns and (is_dates(train[first]) or train[first].duplicated().mean() > 0.5):
        for table in (train, test):
            table.insert(1, f"{first} ", table[first])


def look_up(folder: str, ids) -> tuple[Path, list[Path | None]]:
    """(the folder, of each id the file with or without its ending or another's, or `<id>_mask`)."""
    places, known = [plan.DATA_DIR / f"{folder}{end}" for end in ("", "_images", "_audio")], {}
    place = next((path for path in places if path.is_dir()), None)
    if place is None:
        there = ", ".join(sorted(path.name for path in plan.DATA_DIR.iterdir() if path.is_dir()))
        raise FileNotFoundError(f"{places[0]} is not there, but {there or 'no folder'}: change read_data")
    for path in sorted(place.iterdir()):
        known[path.name] = known[path.stem] = path
        known.setdefault(path.stem.removesuffix("_mask"), path)
    return place, [known.get(name) or known.get(Path(str(name)).stem) for name in ids]


def find_files(folder: str, ids, *others) -> list[Path]:
    """The file of each id; where these name none, of the first of the other columns that does. A missing one
    is a file that cannot be read."""
    place, found = look_up(folder, ids)
    for column in others:
        if not any(found):
            ids, (place, found) = column, look_up(folder, column)
    if folder == "test" and None in found:
        told = f"{found.count(None)} of {len(found)} files of the test set are not in {place}"
        if not any(found):
            raise FileNotFoundError(f"{told}: change read_data")
        print(f"WARNING: {told}", flush=True)
    return [path or place / str(name) for path, name in zip(found, ids, strict=True)]


def files_of(folder: str, table: pd.DataFrame) -> list[Path]:
    """The file of each row: its id's, or where ids name none that of a column such as image or file_name."""
    marks = ("image", "img", "file", "path")
    named = [name for name in table.columns[1:] if any(mark in str(name).lower() for mark in marks)]
    return find_files(folder, table.iloc[:, 0], *(table[name] for name in named))


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
    """The columns to predict: those that the sample submission shares, else those that test.csv has not, and
    of these the one with the classes that the sample's columns name. Never the one that GROUP_BY names."""
    asked = pd.Index([]) if sample is None else sample.columns[1:]
    if shared := [name for name in asked if name in train.columns]:
        return [name for name in shared if test is None or name not in test.columns] or shared
    given = {train.columns[0], group_column(train), *([] if test is None else test.columns)}
    left = [name for name in train.columns if name not in given]
    named = [name for name in left if len(asked) > 1 and asked.isin(train[name].astype(str)).all()]
    return named or left


def read_labels(train: pd.DataFrame, test, sample) -> tuple[pd.DataFrame, list[str], np.ndarray, list]:
    """(rows whose class is known, target columns, class numbers, class names). Several columns of 0 and 1
    are multi-label, and so is one of labels between spaces: a 0/1 matrix and their names. Where each row has
    one 1 they are classes."""
    columns = target_columns(train, test, sample)
    several = len(columns) > 1 and train[columns].dropna().isin([0, 1]).all(axis=None)
    if len(columns) > 1 and not several:
        print(f"WARNING: {columns[0]} is predicted, not {', '.join(columns[1:])}: see read_data", flush=True)
        columns = columns[:1]
    known = without_missing(train, train[columns].notna().all(axis=1), columns)
    if several:
        targets = of_one_hot(known[columns].to_numpy(dtype=np.float32))
        if targets.ndim == 1:
            print(f"NOTE: each row is of one of {', '.join(columns)}: classes, not labels", flush=True)
        return known, columns, targets, columns
    classes = known[columns[0]]
    if (labels := labels_between_spaces(classes)) is not None:
        print(f"NOTE: {columns[0]} has one label or several of {len(labels.columns)} in a row", flush=True)
        return known, list(labels.columns), labels.to_numpy(), list(labels.columns)
    if pd.api.types.is_float_dtype(classes) and (classes % 1 == 0).all():
        classes = classes.astype(int)
    numbers, names = pd.factorize(classes, sort=True)
    in_steps = pd.api.types.is_numeric_dtype(classes) and len(set(np.diff(names))) == 1
    if plan.METRIC == "quadratic weighted kappa" and not in_steps:
        print(f"WARNING: grades count as equally far apart, in this order: {names.tolist()}", flush=True)
    return known, columns, numbers.astype(np.int64), names.tolist()


def of_one_hot(labels: np.ndarray) -> np.ndarray:
    """Class numbers where each row has one label, else the labels."""
    return labels.argmax(axis=1) if (labels.sum(axis=1) == 1).all() else labels


def labels_between_spaces(classes: pd.Series) -> pd.DataFrame | None:
    """A column of 0 and 1 for each label; None where a cell is one class: then its words are not fewer than
    the classes, as many in each, or, of few classes, none of several words that also stand alone."""
    if pd.api.types.is_numeric_dtype(classes) or plan.TASK == "image-retrieval":
        return None
    cells = [str(cell).split() for cell in classes]
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
    return known, columns, known[columns].to_numpy(dtype=np.float32), columns


def read_answers(train: pd.DataFrame, test, sample) -> tuple[pd.DataFrame, list[str], np.ndarray, list]:
    """What `read_labels` or `read_values` says; values as they are learned."""
    reads = read_values if plan.ANSWER == "values" else read_labels
    known, columns, targets, outputs = reads(train, test, sample)
    if plan.ANSWER == "values" and plan.LOGS:
        targets = np.log1p(targets.clip(min=0)) if plan.LOGS == "log1p" else np.log(targets.clip(min=1e-6))
    return known, columns, targets, outputs


def table_data(train: pd.DataFrame, test, sample, **more) -> Data:
    """Ids, groups and times of these tables; `more` is what else Data has, and goes before them."""
    more.setdefault("test_ids", (sample if test is None else test).iloc[:, 0].tolist())
    if "groups" not in more:
        more |= {"groups": groups_of(train), "times": times_of(train), "test_times": times_of(test)}
    name = str(train.columns[0] if sample is None else sample.columns[0])
    return Data(**({"id_column": name, "ids": train.iloc[:, 0].tolist(), "sample": sample} | more))


def without_missing(train: pd.DataFrame, known: pd.Series, columns: list[str]) -> pd.DataFrame:
    if not known.all():
        print(f"NOTE: {(~known).sum()} rows without {', '.join(columns)} are left out", flush=True)
    return train[known].reset_index(drop=True)


# Folds


def group_column(train: pd.DataFrame) -> str | None:
    """The column that GROUP_BY names: `patient` or `patient_id`."""
    names = {f"{plan.GROUP_BY}{end}".lower() for end in ("", "_id", "id")}
    return next((name for name in train.columns[1:] if str(name).lower() in names), None)


def groups_of(train: pd.DataFrame) -> np.ndarray | None:
    """Of each row, where rows are to be split by groups: the column that GROUP_BY names, else the part of the
    id before _ or - where many ids share it (10_left and 10_right). Elsewhere a warning, where many do."""
    if plan.SPLIT == "time":
        return None
    column = group_column(train) if "group" in plan.SPLIT else None
    if column is not None:
        return train[column].astype(str).to_numpy() if train[column].nunique() > 1 else None
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
    for name in [plan.GROUP_BY, *table.columns[1:]]:
        if name in table.columns and is_dates(table[name]):
            days = as_days(table[name])
            return days.fillna(days.min()).to_numpy()  # a row without a date validates no later one
    return table[plan.GROUP_BY].to_numpy() if plan.GROUP_BY in table.columns else None


def split(data: Data) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows to train on, rows that validate) of each fold, once for each seed; by time only the latest is
    repeated, for older ones are not submitted."""
    if data.times is not None:
        latest, *older = split_by_time(data)
        return [latest] * plan.SEEDS + older
    seeds = range(plan.SEED, plan.SEED + plan.SEEDS)
    return [fold for seed in seeds for fold in split_once(data, seed)[: plan.FOLDS]]


def split_by_time(data: Data) -> list[tuple[np.ndarray, np.ndarray]]:
    """The latest fold first. As many periods validate as the test has, a tenth where it has no dates, but a
    fiftieth to a fifth of them; rows of a period are on one side."""
    moments, periods = np.unique(np.asarray(data.times), return_inverse=True)
    asked = len(moments) / 10 if data.test_times is None else len(np.unique(data.test_times))
    most = len(moments) // (max(plan.FOLDS, 4) + 1)
    length = max(1, int(min(max(asked, len(moments) / 50), most)))
    order, folds = np.argsort(periods, kind="stable"), []
    for end in range(len(moments), length, -length)[: plan.FOLDS]:
        train = order[periods[order] < end - length]
        valid = np.flatnonzero((periods >= end - length) & (periods < end))
        folds.append((train[: max(1, len(train) - plan.GAP)], valid))
    return folds


def split_once(data: Data, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows to train on, rows that validate) of each fold; a single fold holds out a fifth."""
    rows, folds = np.arange(len(data.targets)), plan.FOLDS if plan.FOLDS > 1 else 5
    folds = min(folds, len(rows) if data.groups is None else len(set(data.groups)))
    if ("group" in plan.SPLIT and data.groups is None) or plan.SPLIT == "time":
        column = plan.GROUP_BY or "see the settings"
        told = f"no column says {plan.SPLIT} ({column}), so rows that belong together may be on both sides"
        print(f"WARNING: {told} and scores too good: name it in read_data", flush=True)
    strata = strata_of(data, folds)
    stratified = strata is not None and np.bincount(strata).max() >= folds
    if data.groups is not None:
        stratified = stratified and data.groups is not data.targets
        splitter = StratifiedGroupKFold(folds) if stratified else GroupKFold(folds)
        return list(splitter.split(rows, strata, data.groups))
    splitter = StratifiedKFold if stratified else KFold
    return list(splitter(folds, shuffle=True, random_state=seed).split(rows, strata))


def strata_of(data: Data, folds: int) -> np.ndarray | None:
    """What each fold has its share of: classes; where SPLIT says so, fifths of values and combinations of
    labels, rare ones with the most frequent. None: nothing."""
    targets = data.targets if data.strata is None else data.strata
    if targets.ndim == 1:
        return targets if np.issubdtype(targets.dtype, np.integer) else None
    if "stratified" not in plan.SPLIT:
        return None
    fifths = np.ceil(5 * pd.DataFrame(targets).rank(pct=True).to_numpy())
    _, numbers, counts = np.unique(fifths, axis=0, return_inverse=True, return_counts=True)
    return np.where(counts[numbers.ravel()] < folds, counts.argmax(), numbers.ravel())


def train_folds(data: Data, run) -> list[float]:
    """Fold after fold, as many as the time allows; each is predicted with as it ends. Their scores. What an
    earlier start cut off comes last, if there is more time now than it had."""
    scores, found, first = [], split(data), plan.RANK == 0
    folds = len(found)
    if folds != plan.FOLDS:
        report(run, "set", folds=folds)
    there = {path.name for path in checkpoints()}
    names = {fold: plan.CHECKPOINT.format(fold) for fold in range(1, folds + 1)}
    known: list[Any] = [load_result(fold) if name in there else None for fold, name in names.items()]
    cut = [result is not None and not result["done"] for result in known]
    for place in sorted(range(folds), key=lambda place: cut[place]):
        fold, (train_rows, valid_rows) = place + 1, found[place]
        if known[place] is not None and not cut[place]:
            print(f"Fold {fold} is done already: {plan.METRIC}={known[place]['score']:.4f}", flush=True)
            scores.append(float(known[place]["score"]))
            continue
        more = not cut[place] or state.seconds_left() > known[place].get("seconds", 0.0)
        if not agreed(more and state.fold_fits()):
            print(f"NOTE: no time for fold {fold}{' but what it had' if cut[place] else ''}", flush=True)
            if cut[place]:
                continue
            break
        fold_start = time.monotonic()
        print(f"=== Fold {fold}/{folds} ===", flush=True)
        report(run, "fold", fold, folds)
        try:
            result = plan.train_fold(fold, data, train_rows, valid_rows, run)
            state.fold_seconds.append(time.monotonic() - fold_start)
            if result is not None and first:
                result["seconds"] = state.fold_seconds[-1]
                finish_fold(fold, data, {"rows": valid_rows, **result}, run)
        except Exception as error:  # it must not cost what other folds have learned
            if not checkpoints() or plan.WORLD > 1:  # other cards would wait for this one
                raise
            print(f"WARNING: fold {fold} failed", flush=True)
            traceback.print_exc()
            report(run, "note", f"fold {fold} failed: {error!r:.300}", error=True)
            continue
        if result is not None:
            scores.append(result["score"])
            report(run, "fold", fold, folds, done=True, **metric_of(result["score"]))
    return scores


def metric_of(score: float) -> dict[str, float]:
    """The score as the service is told of it; nothing where it is not the plan's metric."""
    return {} if plan.METRIC == "validation loss" else {"metric": score}


# Scores and predictions of a fold


def mean_of(parts) -> np.ndarray:
    """The mean of several predictions, (parts, rows, outputs); boxes are fused."""
    return plan.fuse(parts) if plan.fuse else sum(parts) / len(parts)


def score_predictions(data: Data, truth: np.ndarray, predictions: np.ndarray) -> tuple[float, dict]:
    """The metric of held-out predictions; with the best thresholds, where it judges classes."""
    if not plan.best_thresholds:
        return plan.score_of(truth, predictions), {}
    thresholds = plan.best_thresholds(data, truth, predictions)
    return plan.score_of(truth, plan.classes_of(predictions, thresholds)), {"thresholds": thresholds}


def baseline_score(data: Data, train_rows: np.ndarray, valid_rows: np.ndarray) -> float:
    """What one answer for all scores on the rows that validate."""
    constant = np.tile(plan.prior_of(data.targets[train_rows], len(data.outputs)), (len(valid_rows), 1))
    if plan.default_thresholds:
        constant = plan.classes_of(constant, plan.default_thresholds(data))
    return plan.score_of(data.targets[valid_rows], constant)


def is_worse(result: dict) -> bool:
    """Than the best baseline, on validation; a score that is no number is."""
    score, constant = float(result["score"]), float(result["constant"])
    return not (score >= constant if plan.HIGHER_IS_BETTER else score <= constant)


def why_left_out(result: dict, others) -> str:
    """Of the mean with these: a fold that the time cut off counts only if it gains nearly what whole ones do
    over the best baseline, for a model that is half trained spoils the mean. Empty: it counts."""
    if is_worse(result):
        return "worse than the baseline on validation"
    whole = [one for one in others if one is not None and one.get("done") and not is_worse(one)]
    gain, *gains = (abs(float(one["score"]) - float(one["constant"])) for one in (result, *whole))
    short = not result.get("done") and gains and gain < 0.9 * np.mean(gains)
    return "cut off by the time, and it gains less than 0.9 of what whole folds gain" if short else ""


def checkpoints() -> list[Path]:
    return sorted(state.out_dir.glob(plan.CHECKPOINT.format("*")))


def by_recency(data: Data, names) -> list[list[str]]:
    """Folds whose mean is submitted, all. By time the first of these groups that has a good one: fits to all
    rows, the latest folds, each older one; but none behind one that the baseline beats."""
    groups: dict[int, list[str]] = {}
    for name in sorted(names):
        recency = 0
        if data.times is not None:
            recency = max(1, int(name) - plan.SEEDS + 1)
        groups.setdefault(recency, []).append(name)
    return [groups[recency] for recency in sorted(groups)]


def latest_checkpoints(data: Data) -> list[Path]:
    """Of the first group of which not all are known to be worse than the constant."""
    paths = {path.stem.removeprefix("fold_"): path for path in checkpoints()}
    for names in by_recency(data, paths):
        results = [load_result(name) for name in names]
        if not all(result is not None and is_worse(result) for result in results):
            return [paths[name] for name in names]
    return checkpoints()


def finish_fold(fold: int | str, data: Data, result: dict, run) -> None:
    """Predict with the fold, keep its predictions in answers_K.npz, and write the submission so far."""
    if plan.predict_masks:  # too large to be kept but as run lengths
        save_result(fold, result)
        predict(data, run)
        plan.write_held_out(fold, data, result["rows"], run)
        return
    path = state.out_dir / plan.CHECKPOINT.format(fold)
    result |= {**plan.predict_fold(data, path, prediction_deadline(), run), "test_set": data.test_set}
    if result["complete"]:
        save_result(fold, result)
    else:
        state.unfinished[str(fold)] = result
    predict(data, run)
    if result["complete"] and not plan.neighbors:  # embeddings are no answers
        (plan.write_held_out or write_out_of_fold)(data)


def save_result(fold: int | str, result: dict) -> None:
    """answers_K.npz: what `train_fold` and `predict_fold` returned for a fold that has ended."""
    temporary = state.out_dir / "answers.tmp"
    with open(temporary, "wb") as file:
        np.savez(file, **result)
    os.replace(temporary, state.out_dir / f"answers_{fold}.npz")


def load_result(fold: int | str) -> Any:
    """What `save_result` wrote, a dictionary. None where there is none, or half of a file."""
    try:
        with open(state.out_dir / f"answers_{fold}.npz", "rb") as file, np.load(file) as result:
            return dict(result)
    except (OSError, ValueError, EOFError, BadZipFile):
        return None


def predict(data: Data, run) -> int:
    """Write the mean of the folds there are, less those that `why_left_out` names. How many were used."""
    state.predicted = True
    if plan.predict_masks:
        used = plan.predict_masks(data, prediction_deadline(), run)
        tell_unread(data, [row for row, path in enumerate(data.test_inputs) if path in WARNED])
    else:
        used = average_folds(data, run)
    if not used and state.interim:
        print("NOTE: the submission stays that of an earlier epoch of the first fold", flush=True)
    elif not used:
        print("WARNING: NO FOLD CAN BE USED: the submission is only the BASELINE", flush=True)
        if not (state.out_dir / "submission.csv").exists():
            write_baseline(data)
    return used


def average_folds(data: Data, run) -> int:
    paths = {path.stem.removeprefix("fold_"): path for path in checkpoints()}
    for names in by_recency(data, paths):
        if used := average([paths[name] for name in names], data, run):
            return used
        if any((result := load_result(name)) and is_worse(result) for name in names):
            break  # what older rows taught is no better on the latest
    return 0


def average(paths: list[Path], data: Data, run) -> int:
    """Write the mean of those that can be used. How many."""
    results: dict[Path, dict] = {}
    found: list[Any] = []
    data.thresholds = []
    for path in paths:
        try:
            name = path.stem.removeprefix("fold_")
            known = load_result(name) or state.unfinished.get(name)
            stale = known is not None and known.get("test_set", data.test_set) != data.test_set
            if stale:
                print(f"NOTE: {path.name} predicts again: its answers are of another test set", flush=True)
            if known is None or stale:
                predicted = plan.predict_fold(data, path, prediction_deadline(), run)
                known = {**(known or {}), **predicted, "test_set": data.test_set}
            if stale and known["complete"]:
                save_result(name, known)
            results[path] = known
        except Exception as error:  # one bad checkpoint must not cost the others
            print(f"WARNING: {path.name} cannot be used: {error!r:.300}", flush=True)
    for path, result in results.items():
        if why := why_left_out(result, results.values()):
            print(f"WARNING: {path.name} is left out: {why}", flush=True)
            continue
        if not result["complete"]:
            print(f"NOTE: no time to predict all rows with {path.name}", flush=True)
            if found or state.interim:
                continue
        tell_unread(data, result.get("unread", ()))
        found.append(result["test"])
        if "thresholds" in result:
            data.thresholds.append(result["thresholds"])
    if found:
        write_submission(data, plan.submission_of(data, mean_of(found)), state.out_dir)
        print(f"Submission written from {len(found)} folds", flush=True)
    return len(found)


# Writing


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Whole or not at all."""
    began, temporary = time.monotonic(), path.with_name(f"{path.name}.tmp")
    table.to_csv(temporary, index=False)
    os.replace(temporary, path)
    state.table_seconds = max(state.table_seconds, time.monotonic() - began)


def write_submission(data: Data, table: pd.DataFrame, folder: Path) -> None:
    """submission.csv, in the order of the sample, where that has its ids, each as often."""
    if data.sample is not None:
        asked, given = occurrences(data.sample.iloc[:, 0]), occurrences(table.iloc[:, 0])
        place = given.get_indexer(asked)
        if len(asked) == len(given) and (place >= 0).all():
            table = table.iloc[place]
        elif not plan.fuse and "sample" not in WARNED:  # each box may have a row
            WARNED.add("sample")
            shared = f"{(place >= 0).sum()} of the {len(asked)} rows of sample_submission.csv are predicted"
            print(f"WARNING: {shared}: submission.csv has the {len(given)} of the test set, in its order")
    write_table(table, folder / "submission.csv")


def occurrences(ids) -> pd.MultiIndex:
    """Of each row its id, and how many rows before have the same."""
    names = pd.Series([str(name) for name in ids], dtype=object)
    return pd.MultiIndex.from_arrays([names, names.groupby(names).cumcount()])


def columns_of(classes: list[str], columns: list[str]) -> dict[str, str]:
    """Class -> the sample's column, where it has not the class's name: the one that begins or ends with it,
    of several names the longest (prob_cat); where that is not one to one they are taken in their order."""
    if set(classes) <= set(columns):
        return {}
    found: dict[str, list[str]] = {name: [] for name in classes}
    for column in columns:
        written = column.lower()
        alike = [n for n in classes if written.startswith(n.lower()) or written.endswith(n.lower())]
        if alike:
            found[max(alike, key=len)].append(column)
    taken, how = {name: each[0] for name, each in found.items() if len(each) == 1}, "NOTE: taken by name"
    if len(taken) < len(classes):
        if len(classes) != len(columns):
            told = f"the sample has the columns {columns[:9]}, the classes are {classes[:9]}"
            raise ValueError(f"{told}: change read_data or submission_of")
        taken = dict(zip(classes, columns, strict=True))
        how = "WARNING: the sample names other classes, taken in this order"
    if "classes" not in WARNED:
        WARNED.add("classes")
        print(f"{how}: {taken}", flush=True)
    return taken


def write_baseline(data: Data) -> None:
    """A submission that needs no model, so that there is one whatever happens."""
    if plan.ANSWER == "masks":  # no object on any
        table = pd.DataFrame({data.id_column: data.test_ids, data.target_columns[0]: ""})
    else:
        constant = np.tile(plan.prior_of(data.targets, len(data.outputs)), (len(data.test_ids), 1))
        table = plan.submission_of(data, constant)
    write_submission(data, table, state.out_dir)
    print(f"Baseline submission written{plan.BASELINE}", flush=True)


def write_out_of_fold(data: Data) -> None:
    """Held-out means over the folds, and test means over those that are submitted."""
    names = [path.stem.removeprefix("answers_") for path in state.out_dir.glob("answers_*.npz")]
    known = {name: load_result(name) for name in names}
    groups = [[known[name] for name in group] for group in by_recency(data, names)]
    good = [[result for result in group if not why_left_out(result, group)] for group in groups]
    folds = [result for result in known.values() if "rows" in result]
    submitted = next(filter(None, good), folds)
    total, counts = np.zeros((len(data.targets), len(data.outputs))), np.zeros(len(data.targets))
    for result in folds:
        total[result["rows"]] += result["valid"]
        counts[result["rows"]] += 1
    rows = np.flatnonzero(counts)
    test = np.mean([result["test"] for result in submitted], axis=0)
    write_answers(data, rows, total[rows] / counts[rows, None], test)


def write_answers(data: Data, rows: np.ndarray, held_out: np.ndarray, test: np.ndarray) -> None:
    """oof.csv, of these rows, and test_predictions.csv: blend.py joins them with other runs'."""
    names, order = [f"p_{name}" for name in data.outputs], np.argsort(rows, kind="stable")
    oof, truth = pd.DataFrame(held_out[order], columns=names), data.targets[rows[order]]
    if truth.ndim == 1 and len(data.target_columns) > 1:
        truth = np.eye(len(data.outputs), dtype=int)[truth]
    elif truth.ndim == 1:
        truth = np.array(data.outputs, dtype=object)[truth][:, None]
    for place, name in enumerate(data.target_columns):
        oof.insert(place, f"true_{name}", truth[:, place])
    oof.insert(0, data.id_column, [data.ids[row] for row in rows[order]])
    asked = pd.DataFrame(test, columns=names)
    asked.insert(0, data.id_column, data.test_ids)
    write_table(oof, state.out_dir / "oof.csv")
    write_table(asked, state.out_dir / "test_predictions.csv")


def run_lengths(mask: np.ndarray) -> str:
    """`start length` pairs down the columns, counted from 1."""
    pixels = np.concatenate([[False], mask.T.flatten(), [False]])
    changes = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
    changes[1::2] -= changes[::2]
    return " ".join(map(str, changes))


def with_earlier(data: Data, encoded: list[str | None]) -> list[str]:
    """Run lengths of the test masks; of None, which the time did not allow, those that submission.csv has."""
    path, known = state.out_dir / "submission.csv", {}
    if None in encoded and path.exists():
        known = dict(pd.read_csv(path, dtype=str, keep_default_na=False).itertuples(index=False, name=None))
    answers = zip(data.test_ids, encoded, strict=True)
    return [known.get(name, "") if text is None else text for name, text in answers]


def add_out_of_fold(data: Data, found: dict[str, list[str]]) -> None:
    """The same of masks: (true, predicted) texts by id, beside those that oof.csv has of other folds."""
    path, name = state.out_dir / "oof.csv", data.target_columns[0]
    if path.exists():
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        found = {one: texts for one, *texts in table.itertuples(index=False)} | found
    ids = [one for one in data.ids if one in found]
    oof = pd.DataFrame([found[one] for one in ids], columns=[f"true_{name}", f"p_{name}"])
    oof.insert(0, data.id_column, ids)
    write_table(oof, path)


# A run

WRITTEN = ("submission.csv", "oof.csv", "test_predictions.csv")  # OUT_DIR may be where the data are


def own_settings() -> dict[str, Any]:
    """What a folder's run must have in common with this one to be gone on with: settings, text, tables."""
    code = zlib.crc32(Path(plan.__file__).read_bytes()) if plan.__file__ else 0
    read = [path for path in sorted(plan.DATA_DIR.glob("*.csv")) if path.name not in WRITTEN]
    tables = {path.name: digest_of(path) for path in read}
    facts = {"the script's text": code, "the tables": tables, **plan.SETTINGS}
    return json.loads(json.dumps(facts, default=str))


def digest_of(path: Path, piece: int = 2**25) -> list[int]:
    """Size and checksum, of a large file that of its beginning and end."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        code = zlib.crc32(file.read(piece))
        file.seek(max(piece, size - piece))
        return [size, zlib.crc32(file.read(piece), code)]


def settings_of(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    return json.loads(path.read_text()) if path.exists() else {}


def folder_of_run() -> Path:
    """Where `predict` finds the run: of OUT_DIR, OUT_DIR-2, -3 ... the one whose settings differ least."""
    folders = [plan.OUT_DIR, *sorted(plan.OUT_DIR.parent.glob(f"{plan.OUT_DIR.name}-*"))]
    own, found = own_settings(), {folder: settings_of(folder) for folder in folders}
    differ = {one: [name for name in own if own[name] != found[one].get(name)] for one in folders}
    best = min(folders, key=lambda one: len(differ[one]))
    if found[best] and differ[best]:
        print(f"NOTE: {best} is of other settings ({', '.join(differ[best][:5])})", flush=True)
    return best


def choose_folder() -> Path:
    """OUT_DIR; where that holds checkpoints of other settings, the next of OUT_DIR-2, OUT_DIR-3 ... that does
    not. What is there of the same settings is resumed."""
    own, number, folder = own_settings(), 1, plan.OUT_DIR
    while True:
        path, other = folder / "run.json", settings_of(folder)
        kept = [*folder.glob("fold_*"), *folder.glob("answers_*")]
        files = sorted(file.name for file in kept if file.suffix != ".tmp")
        if other == own or not files:
            break
        differ = [name for name in own if own[name] != other.get(name)]
        print(f"NOTE: {folder} is of other settings ({', '.join(differ[:5])}); not touched there:", end=" ")
        print(", ".join(["submission.csv", *files]), flush=True)
        number += 1
        folder = plan.OUT_DIR.with_name(f"{plan.OUT_DIR.name}-{number}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.tmp").write_text(json.dumps(own))
    os.replace(folder / "run.tmp", path)
    if number > 1:
        print(f"NOTE: this run writes to {folder}", flush=True)
    return folder


def print_resources() -> None:
    print(f"RESOURCES: {usable_cores()} CPU cores, GPU=none, Mixed Precision=OFF", flush=True)


def run_facts(data: Data) -> dict[str, Any]:
    """What the service is told of this run."""
    facts = {"plan_id": plan.PLAN_ID, "task": plan.TASK, "model": plan.MODEL, "folds": plan.FOLDS}
    facts |= {"seeds": plan.SEEDS, "epochs": plan.EPOCHS, "minutes": state.minutes}
    facts |= {"n_train": data.samples or len(data.targets), "n_test": len(data.test_ids)}
    facts |= {"server": plan.SERVER}
    names = ("BATCH_SIZE", "PRECISION", "IMAGE_SIZE", "SEQ_LEN")
    return facts | {name.lower(): vars(plan)[name] for name in names if name in vars(plan)}


def main(module) -> None:
    """Train and predict as train.py says, which is `module`; with --run N as run_N.py beside it does."""
    asked, own = arguments_of(module), Path(sys.argv[0])
    other = own.with_name(f"run_{asked.run}.py")
    if asked.run is not None and other.name != own.name:
        if not other.exists():
            raise SystemExit(f"there is no script for run {asked.run}: {other.name} is missing here")
        os.execv(sys.executable, [sys.executable, str(other), *sys.argv[1:]])
    begin(module, asked.deadline)
    random.seed(plan.SEED)
    np.random.seed(plan.SEED)
    if asked.command == "predict":
        state.out_dir = folder_of_run()
        state.out_dir.mkdir(parents=True, exist_ok=True)
        state.stop = True  # what there is is blended
        data = read_or_other()
        (plan.train or predict)(data, None)
        return
    if plan.start_together:
        plan.start_together()
    first = plan.RANK == 0
    state.out_dir = agreed(choose_folder() if first else None)
    timer = end_in_time()
    try:
        train_and_predict(first)
    finally:
        timer.cancel()  # in a notebook the process goes on


def read_or_other() -> Data:
    """What the script reads; where DATA_DIR holds rows of a table in place of the files that the plan was
    made for, these: they are learned by `memory_service.train`, if it is installed."""
    try:
        return plan.read_data()
    except (FileNotFoundError, KeyError, ValueError) as error:
        with suppress(ImportError):
            package = importlib.import_module("memory_service.train.runtime")
            vars(package).update(plan=plan, state=state)  # this text may be in a script of one file
        try:  # by name: it is no part of a script in one file
            other_data = import_module("memory_service.train" + ".columns").other_data
        except ImportError:
            raise error from None
        if (data := other_data()) is None:
            raise
        print(f"WARNING: the plan was made for other data ({error}): learning the table", flush=True)
        report(state.run, "note", f"other data than the plan was made for: {error!r:.200}")
        return data


def train_and_predict(first: bool) -> None:
    """first: of several cards' processes the one that writes and reports; the others help to train."""
    data = read_or_other()
    if not first:
        train_folds(data, None)
        return
    counts = f"n_train={len(data.targets)}, n_test={len(data.test_ids)}, outputs={len(data.outputs)}"
    print(f"Data: {counts}, to predict: {', '.join(data.target_columns)}", flush=True)
    if not checkpoints() and not (plan.train and (state.out_dir / "submission.csv").exists()):
        write_baseline(data)
    (plan.print_devices or print_resources)()
    with watch(**run_facts(data)) if watch is not None else nullcontext() as run:  # type: ignore[redundant-expr]
        state.run = run
        scores = (plan.train or train_folds)(data, run)
        if not plan.train and (not state.predicted or len(scores) < len(checkpoints())):
            predict(data, run)
        report(run, "note", f"submission.csv written behind {len(scores)} folds", submission=True)
        best = float(np.mean(scores)) if scores else None
        facts = {"best_metric": best} if metric_of(0.0) else {}
        report(run, "result", submission=True, **facts)
        if state.stop:
            report(run, "finish", "stopped")
    print(f"VALIDATION: {plan.METRIC}={best} over {len(scores)} folds; {state.elapsed() / 60:.1f} min")
