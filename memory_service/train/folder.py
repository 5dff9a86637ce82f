"""Finds the tables of a folder: rows to learn from, rows to predict, the form of a submission."""

import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.table_files import (
    IMAGE_FILES,
    MISSING,
    MOST_UNPACKED,
    PEEK_ROWS,
    SOUND_FILES,
    TEXT_TABLES,
    UNREAD,
    WHOLE_TABLES,
    Source,
    columns_in,
    database_of,
    ending_of,
    file_classes,
    files_below,
    form_of,
    has_no_names,
    is_no_text,
    parts_of,
    whole_table,
)

STEP_FILES = (".csv", ".tsv", ".npy", ".parquet")  # that may be of one sample each, a row a step
ROLES = {"train.csv": "train", "test.csv": "test", "sample_submission.csv": "sample"}

TRAIN = {"train", "training", "trn", "learn", "learning", "labelled", "labeled", "lernen", "lerndaten",
    "trainingsdaten", "apprentissage", "entrainement", "entraînement", "entrenamiento", "treino",
    "treinamento", "addestramento", "обучение", "обучающая", "训练", "训练集", "学習", "学習用",
    "fit"}  # fmt: skip
TEST = {"test", "testing", "tst", "eval", "evaluation", "hidden", "holdout", "unseen", "scoring",
    "unlabelled", "unlabeled", "testdaten", "teste", "prueba", "тест", "тестовая", "测试", "测试集", "テスト",
    "評価用"}  # fmt: skip
VALID = {"valid", "validation", "vali", "val", "dev"}
SUBMISSION = {"submission", "submissions", "submit", "sub", "abgabe", "soumission", "entrega", "envio",
    "решение", "решения", "提交", "提出", "benchmark", "baseline", "predictions", "random"}  # fmt: skip
SAMPLE = {"sample", "samples", "example", "examples", "format", "entry", "template", "beispiel", "muster",
    "exemple", "ejemplo", "exemplo", "пример", "样例", "示例", "サンプル"} | SUBMISSION  # fmt: skip
LABELS = {"label", "labels", "target", "targets", "y", "solution", "answers", "truth", "events"}
LABELS |= {"meta", "metadata"}
OF_MASKS = {"mask", "masks", "label", "labels", "annotation", "annotations", "gt", "truth", "segmentation"}
PLAIN = TRAIN | TEST | {"set", "data", "dataset", "features", "values", "x", "csv", "df"}  # of a main table
NEVER = {"oof", "names", "description", "dictionary", "readme"}
OWN_FILES = re.compile(  # of a run: OUT_DIR may be this folder
    r"(?:submission|oof|test_predictions)\.csv|run\.json|(?:fold|answers)_.{1,80}\.(?:npz|json)"
)
SPLITS = {"split", "set", "subset", "part", "partition", "is_test", "istest", "is_train", "istrain"}
MOST_PARTS = 60  # tables of a folder: more are of a sample each
MOST_TABLES = 12  # that may be rows to learn from, to predict, or a sample
MOST_COMPARED_CELLS = 20_000  # of a column, that are compared
DOUBTFUL = -5.0  # points of roles that no name tells: below them is asked
CLEAR = 7.0  # points of roles that are taken before folders of classes
UNNAMED = re.compile(r"column_\d{1,6}")


@dataclass
class Roles:
    """train, test, sample and labels are parts of one table each; labels, of the rows of train, lie apart.

    split   a column that tells the rows of one table to predict from the others
    key     a column that labels have once and train in several rows, a row a step
    ids     whether the first column names rows
    answered  whether test rows may have all columns, that to be predicted, too
    """

    train: list[Source] = field(default_factory=list)
    test: list[Source] = field(default_factory=list)
    sample: list[Source] = field(default_factory=list)
    labels: list[Source] = field(default_factory=list)
    beside: dict[str, list[Source]] = field(default_factory=dict)
    split: str = ""
    key: str = ""
    ids: bool = True
    answered: bool = False


def name_words(name: str) -> list[str]:
    """Of a file's name: "sampleSubmission_1.csv" is sample, submission, 1, csv; "trainloans" train, loans."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    spaced = re.sub(r"\b(train|test)(?!i|e|am|data\b)(?=[a-z]{3})", r"\1_", spaced)
    return re.findall(r"[^\W\d_]+|\d+", spaced.replace("samplesubmission", "sample_submission"))


UNPACKED: list[tempfile.TemporaryDirectory[str]] = []  # they go with the process


@lru_cache(maxsize=8)
def opened(folder: Path) -> Path:
    """The folder that has the data: the only one in it, or a temporary one with what archives hold."""
    if not folder.is_dir():
        return folder
    inside = [path for path in sorted(folder.iterdir()) if path.name[0] not in "._"]
    archives = [path for path in inside if path.suffix.lower() in (".zip", ".sql") and not ending_of(path)]
    archives = [path for path in archives if path.with_suffix("") not in inside]  # else they are unpacked
    if archives:
        UNPACKED.append(tempfile.TemporaryDirectory(prefix="memory-data-"))
        place = Path(UNPACKED[-1].name)
        for path in inside:
            if path in archives and path.suffix.lower() == ".sql":
                database_of(path, place / f"{path.stem}.sqlite")
            elif path in archives:
                unpack(path, place / path.stem)
            else:
                (place / path.name).symlink_to(path.resolve())
        return opened(place)
    notes = [path for path in inside if not ending_of(path) or NEVER & {*name_words(path.name)}]
    told = [path for path in inside if path.is_dir() or path not in notes]
    alone = len(told) == 1 and told[0].is_dir() and not (TRAIN | TEST) & {*name_words(told[0].name)}
    return opened(told[0]) if alone else folder


def unpack(path: Path, place: Path, deep: int = 2) -> None:
    """With archives in it, `deep` levels of them."""
    with suppress(BadZipFile, RuntimeError), ZipFile(path) as packed:  # broken, or with a password
        size = sum(each.file_size for each in packed.infolist())
        if size <= MOST_UNPACKED:
            packed.extractall(place)
            for inner in sorted(place.rglob("*.zip")) if deep else ():
                if not ending_of(inner) and not inner.with_suffix("").exists():
                    unpack(inner, inner.with_suffix(""), deep - 1)
        else:
            print(f"NOTE: {path.name} holds {size >> 20} MiB: unpack it, where it is needed", flush=True)


def folders_in(folder: Path) -> list[Path]:
    return [path for depth in ("*", "*/*") for path in sorted(folder.glob(depth)) if path.is_dir()]


def tables_in(folder: Path, deep: bool = False) -> list[Source]:
    """Those of a folder; `deep` those of folders in it instead, where these hold no file a sample."""
    found: list[Source] = []
    for place in folders_in(folder) if deep else [folder]:
        files = [path for path in sorted(place.iterdir()) if not OWN_FILES.fullmatch(path.name)]
        files = [each for each in files if ending_of(each) and each.name[0] != "." and each.is_file()]
        small = [{*name_words(path.name)} for path in files if path.suffix in (".txt", ".npy")]
        named = all(words & (TRAIN | TEST | VALID | LABELS | NEVER) for words in small)
        if not deep or (named and len(files) <= MOST_PARTS):  # else a file is a sample
            found += [Source(path, part) for path in files for part in parts_of(path)]
    return found


@dataclass(eq=False)
class Table:
    """Parts of one table with their columns and the words of their names."""

    parts: list[Source]
    columns: list[str]
    words: set[str]

    def __post_init__(self) -> None:
        self.plain = {plain_name(name): name for name in self.columns}
        self.keys = {*self.plain}
        ends = {end[1:] for end in TEXT_TABLES + WHOLE_TABLES}
        more = sum(not word.isdigit() for word in self.words - PLAIN - (ends - LABELS))
        self.extra = min(more, 4)  # words that say more than what it is for
        self.known: dict[str, pd.Series] = {}
        self.shares: dict[tuple[Table, str], float] = {}
        self.numbers: dict[str, bool] = {}

    @cached_property
    def rows(self) -> int:
        return len(self.cells(self.columns[0]))

    @cached_property
    def head(self) -> pd.DataFrame:
        return whole_table(self.parts[0]).head(PEEK_ROWS)

    @cached_property
    def different(self) -> pd.Series:
        """How many values each column has."""
        return self.head.nunique()

    @cached_property
    def silent(self) -> bool:
        """Whether its rows say the same but for the first column, as those of a sample may."""
        return min(self.head.shape) > 1 and bool((self.head.iloc[:, 1:].nunique(dropna=False) < 2).all())

    @cached_property
    def unnamed(self) -> bool:
        return UNNAMED.fullmatch(self.columns[0]) is not None

    def cells(self, name: str) -> pd.Series:
        """Of this column, as texts without zeros behind the point: the first ones of each part."""
        if name not in self.known:
            found = []
            for part in self.parts[:MOST_PARTS]:
                with suppress(Exception):  # it is no table after all
                    found.append(self._column(part, name).head(MOST_COMPARED_CELLS))
            cells = pd.concat([pd.Series(dtype=object), *found])
            texts = cells.astype(str).str.replace(r"\.0$", "", regex=True)
            self.known[name] = texts.where(cells.notna())
        return self.known[name]

    def _column(self, part: Source, name: str) -> pd.Series:
        if is_no_text(part):
            return whole_table(part)[name]
        form = {"usecols": [name], "nrows": MOST_COMPARED_CELLS, "on_bad_lines": "skip", "dtype": str}
        form |= {"keep_default_na": False, "na_values": MISSING}
        return pd.read_csv(part.path, **form_of(part.path), **form)[name]

    def is_number(self, name: str) -> bool:
        if name not in self.numbers:
            numbers = pd.to_numeric(self.cells(name), errors="coerce")
            self.numbers[name] = bool(numbers.notna().mean() > 0.8)
        return self.numbers[name]

    def says(self, *words: set[str]) -> float:
        """How far names go: 2 for a word of the first set, -2 for one of the others."""
        found = [bool(self.words & each) for each in words]
        return 2.0 * found[0] - 2.0 * any(found[1:]) - 0.2 * self.extra

    def has_ids_of(self, other: Self, name: str = "") -> float:
        """The share of the other's ids, or of its column of that name, that are here; 0 without names."""
        name = name or other.columns[0]
        if (other, name) not in self.shares:
            mine, ids = self.plain.get(plain_name(name), self.columns[0]), other.cells(name).dropna()
            told = len(ids) and not (self.unnamed or other.unnamed)
            self.shares[other, name] = float(ids.isin({*self.cells(mine).dropna()}).mean()) if told else 0.0
        return self.shares[other, name]


def plain_name(name: str) -> str:
    return re.sub(r"\W", "_", name.strip().lower())


def grouped_tables(folder: Path, sources: list[Source]) -> list[Table]:
    """Tables of the same columns are one, where their names count parts or years, or folders differ."""
    found: dict[tuple[str, ...], Table] = {}
    for source in sources:
        name = f"{source.path.relative_to(folder).as_posix()} {source.part}".strip()
        words, columns = {*name_words(name)}, columns_in(source)
        parts = re.search(r"/|-of-|part|(?:19|20)\d\d", name) and "fold" not in name.lower()
        key = (re.sub(r"\d+", "#", name) if parts else name, *columns)
        if columns and not NEVER & words:
            found.setdefault(key, Table([], columns, words)).parts.append(source)
    return list(found.values())


def find_roles(folder: Path) -> Roles:
    """What its tables, those of folders in it or its folders of files are for."""
    if not folder.is_dir():
        return Roles()
    stamp = tuple((path.name, path.stat().st_mtime_ns) for path in sorted(folder.iterdir()))
    return _found_roles(folder, plan.TARGET, stamp)


@lru_cache(maxsize=4)
def _found_roles(folder: Path, *_: Any) -> Roles:
    UNREAD.clear()
    above = tables_in(folder)
    points, roles = _roles(grouped_tables(folder, above))
    if points < CLEAR and (deep := tables_in(folder, deep=True)):
        points, roles = max((points, roles), _roles(grouped_tables(folder, above + deep)), key=itemgetter(0))
    roles = roles if points >= CLEAR else _find_files(folder) or roles
    if roles.train and not (roles.test or roles.sample):  # files of a folder are all that is asked
        places = [path for path in folders_in(folder) if TEST & {*name_words(path.name)}]
        places = [path for path in places if not classes_in(path)]
        roles.test = [Source(place, "names") for place in places if len(files_below(place)) > 1][:1]
    return roles


@dataclass(eq=False)
class Cast:
    """Tables in their roles; `test` is `train` where one table has both, by the column `split`."""

    train: Table
    test: Table | None
    sample: Table | None
    labels: Table | None = None
    split: str = ""

    def __post_init__(self) -> None:
        names = self.sample.columns[1:] or self.sample.columns if self.sample else []
        self.asked = {plain_name(name) for name in names}
        self.given = self.test.keys if self.test and not self.split else set[str]()
        self.known = self.train.keys
        if self.labels:  # those without names are further columns
            self.known = self.known | ({"label"} if self.labels.unnamed else self.labels.keys)
        told = {name: self.train.plain[name] for name in self.asked & self.train.keys}
        empty = {name for name in told if not self.train.different[told[name]]}
        self.empty = {name for name in empty if self.train.cells(told[name]).isna().all()}
        self.known = self.known - self.empty

    def points(self) -> float:
        """How well columns, ids, what is known and what the sample asks fit; names of files count less."""
        train, test, sample = self.train, self.test, self.sample
        total = train.says(TRAIN, TEST, SAMPLE) - bool(VALID & train.words) - 2.0 * train.silent
        if self.split:
            total += 3.0 if tells_split(train, self.split) or sample else -2.0
        elif test is not None:
            shared = self.given & train.keys
            if train.unnamed and test.unnamed:
                shared = {name for name in shared if train.is_number(name) == test.is_number(name)}
            own = self.given - shared - {plain_name(test.columns[0])}
            total += test.says(TEST, TRAIN, SAMPLE) + bool(VALID & test.words) - 3.0 * test.silent
            total += 4.0 * (len(shared) - len(own)) / len(test.keys) + 2.0 * len(shared) / len(train.keys)
            total += 0.5 * (train.rows > test.rows) - 3.0 * (len(shared) == 1 < len(test.keys))
            if (first := train.plain.get(plain_name(test.columns[0]))) and train.has_ids_of(test) > 0.5:
                total -= 6.0 * (train.cells(first).is_unique or len(test.keys) == 1)  # about the same rows
            total += self.twins() - 14.0 * bool(own - train.keys and not TEST & test.words)
        else:
            total -= 2.0 if sample else 12.0
        return total + self._target() + self._sample() + self._labels()

    def twins(self) -> bool:
        """Whether names of both files differ in what says which rows they have: wages.data, wages.test."""
        train, test = self.train.words, self.test.words if self.test else set[str]()
        asked, known = test & (TEST | VALID), train & (TEST | VALID)
        return bool(asked and not (known or LABELS & train) and train - PLAIN == test - asked - PLAIN)

    def _target(self) -> float:
        """By what is known of training rows alone."""
        left = self.known - (self.given or {plain_name(self.train.columns[0])})
        total, told = -6.0 * bool(self.empty), self.asked & left
        if self.asked and self.asked <= self.given and not self.withheld():
            total -= 6.0  # it is known of rows to predict
        if plan.TARGET:
            name = plain_name(plan.TARGET)
            total += 2.0 * (name in left) - 8.0 * (name not in self.known)
        if told:
            return total + 3.0 + len(told) / len(self.asked)
        table = self.labels if self.labels and left <= self.labels.keys else self.train
        if len(left) == 1 < len(self.asked) and left <= table.keys:  # a column for each class
            (name,) = left
            values = {plain_name(cell) for cell in table.cells(table.plain[name]).dropna().unique()}
            total += 3.0 * (len(values & self.asked) > len(self.asked) / 2)
        if left and self.test is None:  # series, or items of users
            return total + 1.0
        if left:
            return total + 2.0 - 0.2 * min(len(left) - 1, 40)
        # or answers of the test rows are there to score by
        both = self.withheld() or (self.sample is None and self.twins())
        return total + (1.0 if both else -5.0)

    def withheld(self) -> list[str]:
        """Columns of training rows that say nothing of the rows to predict."""
        if self.test is None or {*self.train.columns} != {*self.test.columns}:
            return []
        known, asked = self.train.different, self.test.different
        return [name for name in self.train.columns[1:] if asked[name] < 2 <= known[name]]

    def _sample(self) -> float:
        """By its ids, which are those of the rows to predict, once each, and by what it has of others."""
        sample, rows = self.sample, self.test or self.train
        if sample is None:
            return 0.0
        there = rows.has_ids_of(sample) if len(sample.columns) > 1 else 0.0
        total = 3.0 * is_sample(sample) + sample.silent - 0.2 * sample.extra
        if rows is not self.train:
            total += 3.0 * there - 3.0 * (0.0 < there < self.train.has_ids_of(sample))
            first = rows.plain.get(plain_name(sample.columns[0]))
            total += bool(first and rows.cells(first).is_unique)
            known = {*rows.columns} == {*self.train.columns} and VALID & rows.words and not TEST & rows.words
            total -= 9.0 * (there == 0.0 and bool(known))  # rows to validate by: others are asked for
        elif not self.split:
            total += 2.0 * there
        same = sample.silent or (there > 0.9 and rows is not self.train and self.asked <= self.known)
        same &= rows is self.train or sample.rows == rows.rows
        found = is_sample(sample) or (self.asked and not self.asked & self.given and same)
        return total if found else -9.0

    def _labels(self) -> float:
        """By a column of both tables, else as many rows."""
        labels, train = self.labels, self.train
        if labels is None:
            return 0.0
        total = labels.says(LABELS, TEST, SAMPLE) / 2 + 0.5 * bool(TRAIN & labels.words) - 1.5
        if not labels.unnamed and (shared := [name for name in labels.columns if name in train.columns]):
            total -= len(labels.columns) > len(train.columns)
            return total - 3.0 * labels.silent - 2.0 * (labels.has_ids_of(train, shared[0]) < 0.5)
        alone = labels.unnamed or len(labels.columns) == 1
        return total if alone and labels.rows == train.rows else -9.0


def is_sample(table: Table) -> bool:
    words = {*name_words(table.parts[0].path.name)}
    return not TRAIN & words and bool(SUBMISSION & words or (SAMPLE & words and not TEST & words))


def tells_split(table: Table, name: str) -> bool:
    """By its name, or by its values: fit, holdout."""
    if plain_name(name) in SPLITS or table.different[name] > 4 or len(table.parts) > 1:
        return plain_name(name) in SPLITS
    shown = {*table.head[name].astype(str).str.lower()}
    if name == table.columns[0] or not shown <= TRAIN | TEST | VALID:
        return False
    values = {*table.cells(name).dropna().str.strip().str.lower()}
    return bool(values & TEST and values - TEST) and values <= TRAIN | TEST | VALID


def _split_of(table: Table, sample: Table | None) -> str:
    """The column that marks rows to predict, or is empty there."""
    if named := [name for name in table.columns if tells_split(table, name)]:
        return named[0]
    if sample is None:
        asked, there = [plan.TARGET or table.columns[-1]], not TRAIN & table.words
    else:
        asked, first = sample.columns[1:2] or [""], sample.columns[0]
        there = first in table.columns and table.has_ids_of(sample) > 0.99
    empty = there and asked[0] in table.columns[1:] and table.cells(asked[0]).isna()
    return asked[0] if there and np.any(empty) and not np.all(empty) else ""


def _roles(tables: list[Table]) -> tuple[float, Roles]:
    """(points, roles) of the best cast; enough points where a name says that rows are to learn from."""
    tables = sorted(tables, key=lambda one: -max(one.says(TRAIN), one.says(TEST), one.says(SAMPLE)))
    samples = [one for one in tables if is_sample(one)]
    few = [one for one in tables if one not in samples][:MOST_TABLES]
    casts: list[Cast] = []
    either: list[Table | None] = [*samples] or [None, *few]
    for train, sample in product(few, either):
        if train is sample:
            continue
        rest = [one for one in few if one not in (train, sample)]
        casts.append(Cast(train, None, sample))
        if split := _split_of(train, sample):
            others = [None, *rest] if tells_split(train, split) else [None]
            casts += [Cast(train, train, sample, each, split) for each in others]
        for test in (one for one in rest if 2 * len(train.keys & one.keys) >= len(one.keys)):
            casts.append(Cast(train, test, sample))
            if train.keys <= test.keys:
                labels = [
                    one for one in rest if one is not test and (one.rows == train.rows or not one.unnamed)
                ]
                labels = [one for one in labels if one.rows == train.rows or one.keys & train.keys]
                casts += [Cast(train, test, sample, each) for each in labels]
    if not casts:
        return -9.0, Roles(beside=_beside(tables))
    best = max(casts, key=Cast.points)
    alone = len(tables) == 1 and not TEST & best.train.words
    told = TRAIN & best.train.words or alone
    if not told and (best.points() < DOUBTFUL or not (best.test or best.sample)):
        return -9.0, Roles(beside=_beside(tables))
    named = CLEAR * bool(TRAIN & best.train.words)
    return max(best.points(), named), _told(best, tables)


def _told(cast: Cast, tables: list[Table]) -> Roles:
    """The cast with further parts and tables, and how rows are named."""
    train, test, sample, labels = cast.train, cast.test, cast.sample, cast.labels
    more = [one for one in tables if one not in (train, test) and VALID & one.words]

    def parts(table: Table) -> list[Source]:
        again = [one for one in more if {*one.columns} == {*table.columns}]
        again = [one for one in again if one.words - VALID == table.words - TRAIN] or again  # of its fold
        return [*table.parts, *(part for one in again for part in one.parts)]

    known = labels or train  # where answers are: of a set without them nothing is learned
    again = {*known.columns} != {*(test.columns if test else ())} or cast.twins()
    again = again and (not labels or len(parts(labels)) > len(labels.parts))
    of = parts if again else attrgetter("parts")
    sets = [(train, test)] if labels or test is None else sets_like(train, test, tables)
    roles = Roles([*dict.fromkeys(part for one, _ in sets for part in of(one))], split=cast.split)
    roles.test = [part for _, one in sets if one for part in one.parts]
    roles.sample = sample.parts if sample else []
    if labels:
        roles.labels = of(labels)
        shared = [name for name in labels.columns if name in train.columns and not labels.unnamed]
        if shared and labels.cells(shared[0]).is_unique:
            rows = train.head[shared[0]]
            roles.key = shared[0] if rows.nunique() < len(rows) / 2 else ""
    taken = {*roles.train, *roles.test, *roles.labels, *roles.sample}
    roles.beside = _beside([one for one in tables if not taken & {*one.parts} and not SAMPLE & one.words])
    _find_ids(roles, train, test, sample)
    roles.answered = sample is None and (cast.twins() or bool(cast.split))
    return roles


def sets_like(train: Table, test: Table, tables: list[Table]) -> list[tuple[Table, Table]]:
    """Pairs such as fear-train, fear-test; that one alone where sets share ids, as folds do."""
    pairs = [
        (one, other)
        for one, other in product(tables, tables)
        if {*one.columns} == {*train.columns} and {*other.columns} == {*test.columns}
        and TRAIN & one.words and TEST & other.words and one.words - TRAIN == other.words - TEST
    ]  # fmt: skip
    first = [pd.Series(one.cells(one.columns[0]).dropna().unique()) for pair in pairs for one in pair]
    alone = len(pairs) < 2 or (train, test) not in pairs or pd.concat(first).duplicated().any()
    return [(train, test)] if alone else pairs


def _beside(tables: list[Table]) -> dict[str, list[Source]]:
    """Further tables by their names, of training and of test rows as one; none of training rows alone."""
    found: dict[str, list[Table]] = {}
    for one in tables:
        twin = " ".join(sorted(one.words - TRAIN - TEST - {"csv"})) if (TRAIN | TEST) & one.words else ""
        found.setdefault(twin or one.parts[0].part or one.parts[0].path.name.split(".")[0], []).append(one)
    words = {name: {word for one in several for word in one.words} for name, several in found.items()}
    both = {name: several for name, several in found.items() if not TRAIN & words[name] or TEST & words[name]}
    return {name: [part for one in several for part in one.parts] for name, several in both.items()}


def _find_ids(roles: Roles, train: Table, test: Table | None, sample: Table | None) -> None:
    """Rows are counted where the first column is no id: texts, fractions, or what is to be predicted."""
    shown = test or train
    first = shown.columns[0]
    only = sample is not None and test is not None
    only = only and {*sample.columns} <= {*train.columns} - {*test.columns}  # type: ignore[union-attr]
    cells = whole_table(shown.parts[0])[first].dropna().astype(str).head(PEEK_ROWS)
    long = len(cells) > 0 and cells.str.count(" ").mean() > 5
    again = sample is None and test is not None and shown.cells(first).duplicated().mean() > 0.1
    again = again and not first.startswith("Unnamed: 0")
    roles.ids = not (first == "column_1" or only or long or again or has_no_names(shown.parts[0]))


def in_split(table: pd.DataFrame, name: str) -> pd.Series:
    """Whether each row is to be predicted, by a column such as split or is_test."""
    cells = table[name].astype(str).str.strip().str.lower()
    told = {*cells[table[name].notna()]}
    if name.lower().strip() not in SPLITS and not told <= TRAIN | TEST | VALID:  # it is withheld
        return table[name].isna()
    yes = cells.isin(["1", "1.0", "true", "yes", "y", "t"])
    if "test" in name.lower():
        return yes
    last = [word for word in (*TEST, *VALID) if word in told]
    return ~yes if "train" in name.lower() else cells == (last[0] if last else "test")


def _find_files(folder: Path) -> Roles | None:
    """A folder of classes, train/<class>/<file>, or of masks, and the files of a folder to predict."""
    places = folders_in(folder)
    trains = [path for path in places if TRAIN & {*name_words(path.name)}]
    tests = [path for path in places if (TEST | VALID) & {*name_words(path.name)} and path not in trains]
    trains = trains or ([path for path in places if path not in tests] if tests else [])
    trains = [path for path in trains if len(classes_in(path)) > 1]
    samples = [one for one in tables_in(folder) if {*name_words(one.path.name)} & SUBMISSION]
    masks = masked(folder)
    known = [Source(masks[0], "names")] if masks else [Source(path, "classes") for path in trains[:1]]
    if not known or not (samples or tests):
        return None
    asked = tests and (not samples or next(tests[0].glob("*.txt"), None))
    part = "files" if samples else "names"
    return Roles(known, [Source(tests[0], part)] if asked else [], samples[:1])


def masked(folder: Path) -> tuple[Path, Path] | None:
    """(pictures, masks) to learn from: two folders beside each other that share names; None without them."""
    places = [path for path in folders_in(folder) if not TEST & {*name_words(str(path.relative_to(folder)))}]
    for masks in (path for path in places if OF_MASKS & {*name_words(path.name)}):
        drawn = {each.stem.removesuffix("_mask") for each in masks.iterdir() if each.suffix in IMAGE_FILES}
        for place in (path for path in places if path.parent == masks.parent and path != masks):
            if drawn and 2 * len(drawn & {each.stem for each in place.iterdir()}) > len(drawn):
                return place, masks
    return None


def classes_in(folder: Path) -> set[str]:
    """Names of its classes; none of folders of pictures and their masks, or of sounds and their texts."""
    found = file_classes(folder)
    names, ends = {*found.values()}, {path.suffix.lower() for path in found}
    written = ends & {*SOUND_FILES} and names == {found[path] for path in found if path.suffix == ".txt"}
    return set() if written or any(re.match("(?i)masks?|images?|labels?", one) for one in names) else names


def not_understood(folder: Path) -> str:
    """One sentence: what is there, and what would make it readable."""
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    told = [f"{name}: {UNREAD[name]}" for name in names if name in UNREAD]
    why = f" ({'; '.join(told[:3])})" if told else ""
    return (
        f"there is no train.csv, or what may be one, in {folder}, which holds {shown or 'nothing'}{why}: "
        "call the tables train.csv, test.csv and sample_submission.csv, or sort files into train/<class>/"
    )
