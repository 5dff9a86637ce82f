"""Finds the tables of a folder by their names and contents: rows to learn from, rows to predict, the form of
a submission."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import pandas as pd

from memory_service.train.table_files import (
    MOST_UNPACKED,
    PEEK_ROWS,
    TEXT_TABLES,
    UNREAD,
    WHOLE_TABLES,
    Source,
    columns_in,
    ending_of,
    files_below,
    form_of,
    is_no_text,
    parts_of,
    whole_table,
)

STEP_FILES = (".csv", ".tsv", ".npy", ".parquet")  # that may be of one sample each, a row a step
ROLES = {"train.csv": "train", "test.csv": "test", "sample_submission.csv": "sample"}

TRAIN = {"train", "training", "trn", "learn", "learning", "labelled", "labeled", "lernen", "lerndaten",
    "trainingsdaten", "apprentissage", "entrainement", "entraînement", "entrenamiento", "treino",
    "treinamento", "addestramento", "обучение", "обучающая", "训练", "训练集", "学習", "学習用"}  # fmt: skip
TEST = {"test", "testing", "tst", "eval", "evaluation", "hidden", "holdout", "unseen", "scoring",
    "unlabelled", "unlabeled", "testdaten", "teste", "prueba", "тест", "тестовая", "测试", "测试集", "テスト",
    "評価用"}  # fmt: skip
VALID = {"valid", "validation", "vali", "val", "dev"}
SUBMISSION = {"submission", "submissions", "submit", "sub", "abgabe", "soumission", "entrega", "envio",
    "решение", "решения", "提交", "提出"}  # fmt: skip
SAMPLE = {"sample", "samples", "example", "examples", "format", "entry", "template", "beispiel", "muster",
    "exemple", "ejemplo", "exemplo", "пример", "样例", "示例", "サンプル"} | SUBMISSION  # fmt: skip
LABELS = {"label", "labels", "target", "targets", "y", "solution", "answers", "truth", "events"}
LABELS |= {"meta", "metadata"}
PLAIN = TRAIN | TEST | {"set", "data", "dataset", "features", "values", "x", "csv", "df"}  # of a main table
NEVER = {"oof", "baseline", "predictions", "names", "description", "dictionary", "readme"}
OWN_FILES = re.compile(  # of a run: OUT_DIR may be this folder
    r"(?:submission|oof|test_predictions)\.csv|run\.json|(?:fold|answers)_.{1,80}\.(?:npz|json)"
)
SPLITS = {"split", "set", "subset", "part", "partition", "is_test", "istest", "is_train", "istrain"}
MOST_PARTS = 60  # tables of a folder: more are of a sample each
UNNAMED = re.compile(r"column_\d{1,6}")


@dataclass
class Roles:
    """train, test, sample and labels are parts of one table each; labels, of the rows of train, lie apart.

    split   a column that tells the rows of one table to predict from the others
    key     a column that labels have once and train in several rows, a row a step
    index   whether a column without a name is counted among the others
    ids     whether the first column names rows
    """

    train: list[Source] = field(default_factory=list)
    test: list[Source] = field(default_factory=list)
    sample: list[Source] = field(default_factory=list)
    labels: list[Source] = field(default_factory=list)
    beside: dict[str, list[Source]] = field(default_factory=dict)
    split: str = ""
    key: str = ""
    index: bool = True
    ids: bool = True


def name_words(name: str) -> list[str]:
    """Of a file's name: "sampleSubmission_1.csv" is sample, submission, 1, csv; "trainloans" train, loans."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    spaced = re.sub(r"\b(train|test)(?!i|e|am|data\b)(?=[a-z]{3})", r"\1_", spaced)
    return re.findall(r"[^\W\d_]+|\d+", spaced.replace("samplesubmission", "sample_submission"))


UNPACKED: list[tempfile.TemporaryDirectory[str]] = []  # they go with the process


@lru_cache(maxsize=8)
def opened(folder: Path) -> Path:
    """The folder that has the data: the only one in it, such as data/; where it has archives of several files
    of up to a gibibyte a temporary one, with what they hold and what lies beside them."""
    if not folder.is_dir():
        return folder
    inside = [path for path in sorted(folder.iterdir()) if path.name[0] not in "._"]
    archives = [path for path in inside if path.suffix.lower() == ".zip" and not ending_of(path)]
    archives = [path for path in archives if path.with_suffix("") not in inside]  # else they are unpacked
    if archives:
        UNPACKED.append(tempfile.TemporaryDirectory(prefix="memory-data-"))
        place = Path(UNPACKED[-1].name)
        for path in inside:
            if path not in archives:
                (place / path.name).symlink_to(path.resolve())
                continue
            with suppress(BadZipFile, RuntimeError), ZipFile(path) as packed:  # broken, or with a password
                size = sum(each.file_size for each in packed.infolist())
                if size > MOST_UNPACKED:
                    print(
                        f"NOTE: {path.name} holds {size >> 20} MiB: unpack it, where it is needed", flush=True
                    )
                    continue
                packed.extractall(place / path.stem)
        return opened(place)
    notes = [path for path in inside if not ending_of(path) or NEVER & {*name_words(path.name)}]
    told = [path for path in inside if path.is_dir() or path not in notes]
    alone = len(told) == 1 and told[0].is_dir() and not (TRAIN | TEST) & {*name_words(told[0].name)}
    return opened(told[0]) if alone else folder


def tables_in(folder: Path, deep: bool = False) -> list[Source]:
    """Those of a folder; `deep` those of folders in it instead, where these hold no file a sample."""
    places = [path for depth in ("*", "*/*") for path in sorted(folder.glob(depth))] if deep else [folder]
    found: list[Source] = []
    for place in (path for path in places if path.is_dir()):
        files = [path for path in sorted(place.iterdir()) if not OWN_FILES.fullmatch(path.name)]
        files = [each for each in files if ending_of(each) and each.name[0] != "." and each.is_file()]
        small = [{*name_words(path.name)} for path in files if path.suffix in (".txt", ".npy")]
        named = all(words & (TRAIN | TEST | VALID | LABELS | NEVER) for words in small)
        samples = len(files) > MOST_PARTS or not named  # a file is a sample
        found += [Source(path, part) for path in files for part in parts_of(path) if not (deep and samples)]
    return found


@dataclass
class Table:
    """Parts of one table with their columns and the words of their names."""

    parts: list[Source]
    columns: list[str]
    words: set[str]

    @property
    def extra(self) -> int:
        """Words that say more than what it is for."""
        ends = {end[1:] for end in TEXT_TABLES + WHOLE_TABLES}
        return sum(not word.isdigit() for word in self.words - PLAIN - (ends - LABELS))


def grouped_tables(folder: Path, sources: list[Source]) -> list[Table]:
    """Tables of the same columns are one, where their names differ in numbers only and these are years or
    count parts, or where they lie in a folder below."""
    found: dict[tuple[str, ...], Table] = {}
    for source in sources:
        name = f"{source.path.relative_to(folder).as_posix()} {source.part}".strip()
        words, columns = {*name_words(name)}, columns_in(source)
        if not columns or NEVER & words:
            continue
        parts = re.search(r"/|-of-|part|(?:19|20)\d\d", name) and "fold" not in name.lower()
        key = (re.sub(r"\d+", "#", name) if parts else name, *columns)
        found.setdefault(key, Table([], columns, words)).parts.append(source)
    return list(found.values())


def find_roles(folder: Path) -> Roles:
    """What the tables of a folder, else those of folders in it, else its folders of files are for. Folders of
    classes go before a table that only its columns make one to learn from."""
    UNREAD.clear()
    if not folder.is_dir():
        return Roles()
    above = tables_in(folder)
    tables = grouped_tables(folder, above)
    roles, named = _roles(tables), any(TRAIN & one.words for one in tables)
    if not named and (deep := tables_in(folder, deep=True)):
        tables = grouped_tables(folder, above + deep)
        named = any(TRAIN & one.words for one in tables)
        roles = roles if roles.train and not named else _roles(tables)
    return roles if named and roles.train else _find_files(folder) or roles


def is_sample(table: Table) -> bool:
    words = {*name_words(table.parts[0].path.name)}
    return not TRAIN & words and bool(SUBMISSION & words or (SAMPLE & words and not TEST & words))


def _learns_for(known: Table, asked: Table) -> bool:
    """Whether a table has the columns of another one, but for an id, and more; of ids alone, their labels."""
    shared = {*known.columns} & {*asked.columns}
    if not {*asked.columns} - shared <= {asked.columns[0]} or len(shared) == len(known.columns):
        return False
    return len(shared) > len(known.columns) / 2 or (len(shared) == 1 and bool(LABELS & known.words))


def _roles(tables: list[Table]) -> Roles:
    sample = min((one for one in tables if is_sample(one)), key=lambda one: one.extra, default=None)
    asked = {*sample.columns[1:]} if sample else set()
    tables = [one for one in tables if not is_sample(one)]
    trains = [one for one in tables if TRAIN & one.words]
    tests = [one for one in tables if TEST & one.words and one not in trains]
    valid = [one for one in tables if VALID & one.words and one not in trains + tests]
    answered = any(asked & {*one.columns} for one in trains)  # then the sample has the ids, and these targets
    tests = tests or ([] if answered else valid)
    others = [one for one in tables if one not in trains + tests]
    if not trains or not tests:
        pairs = [(a, b) for a in trains or others for b in tests or others if _learns_for(a, b)]
        if trains and not pairs:  # what is to be predicted may be empty in it
            pairs = [(a, b) for a in trains for b in others if a.columns == b.columns and b not in valid]
        named = [one for one in others if asked & {*one.columns} or LABELS & one.words]
        named.sort(key=lambda one: -len(asked & {*one.columns}))
        alone = others if len(others) == 1 and not tests else []
        trains = trains or [a for a, _ in pairs] or named[:1] or alone
        tests = tests or [b for _, b in pairs]
    if not trains:
        return Roles(beside=_beside(tables))

    def fit(pair: tuple[Table, Table | None]) -> tuple[Any, ...]:
        a, b = pair
        shared = len({*a.columns} & {*b.columns}) / len(b.columns) if b else 1.0
        extra = a.extra + (b.extra if b else 0)
        return (
            shared >= 0.5,
            not a.extra,
            not extra,
            bool(asked & {*a.columns}),
            shared,
            -extra,
            len(a.columns),
        )

    asked_of: list[Table | None] = [*tests] or [None]
    train, test = max(((a, b) for a in trains for b in asked_of), key=fit)
    known = {*train.columns} - ({*test.columns} if test else {*train.columns} - asked)
    more = [one for one in valid if known and one is not test and {*one.columns} == {*train.columns}]
    parts = [*train.parts, *(part for one in more if one is not train for part in one.parts)]
    roles = Roles(parts, test.parts if test else [], sample.parts if sample else [])
    if test and {*train.columns} <= {*test.columns}:
        _find_labels(roles, train, [one for one in tables if one not in (train, test)], asked)
    elif not test:
        roles.split = next((name for name in train.columns if name.lower().strip() in SPLITS), "")
        if not roles.split and sample is not None and asked and asked <= {*train.columns}:
            roles.split = _withheld(train.parts[0], sample.parts[0])
        roles.test = train.parts if roles.split else []
    roles.index = sample is not None and sample.columns[0] not in train.columns[1:]
    taken = {*roles.train, *roles.test, *roles.labels}
    roles.beside = _beside([one for one in tables if not taken & {*one.parts}])
    _find_ids(roles, train, test, sample)
    return roles


def _withheld(source: Source, sample: Source) -> str:
    """The column whose empty cells are to be predicted, where the table has the rows of the sample, too."""
    shown = whole_table(sample)
    known = whole_table(source) if is_no_text(source) else pd.read_csv(source.path, **form_of(source.path))
    first, column = shown.columns[:2]
    same = first in known.columns and shown[first].astype(str).isin(known[first].astype(str)).all()
    return str(column) if same and known[column].isna().any() else ""


def _beside(tables: list[Table]) -> dict[str, list[Source]]:
    """Further tables by their names, of training and of test rows as one; of training rows alone they say
    nothing of others."""
    found: dict[str, list[Table]] = {}
    for one in tables:
        twin = " ".join(sorted(one.words - TRAIN - TEST - {"csv"})) if (TRAIN | TEST) & one.words else ""
        found.setdefault(twin or one.parts[0].part or one.parts[0].path.name.split(".")[0], []).append(one)
    words = {name: {word for one in several for word in one.words} for name, several in found.items()}
    both = {name: several for name, several in found.items() if not TRAIN & words[name] or TEST & words[name]}
    return {name: [part for one in several for part in one.parts] for name, several in both.items()}


def _find_labels(roles: Roles, train: Table, tables: list[Table], asked: set[str]) -> None:
    """The table with what is to be predicted of the rows of train: by a column of both, else row by row."""
    found = [one for one in tables if not TEST & one.words]
    found = [one for one in found if asked & {*one.columns} or LABELS & one.words]
    best = max(found, key=lambda one: (len(asked & set(one.columns)), bool(TRAIN & one.words)), default=None)
    if best is None:
        return
    roles.labels = best.parts
    shared = [name for name in best.columns if name in train.columns]
    if shared and not UNNAMED.fullmatch(shared[0]):
        rows = whole_table(train.parts[0])[shared[0]].head(PEEK_ROWS)
        once = whole_table(best.parts[0])[shared[0]].head(PEEK_ROWS)
        roles.key = shared[0] if once.is_unique and rows.nunique() < len(rows) / 2 else ""


def _find_ids(roles: Roles, train: Table, test: Table | None, sample: Table | None) -> None:
    """Rows are counted where the columns have no names, or the first holds texts or fractions, or the sample
    has only what is to be predicted."""
    shown = test or train
    first = shown.columns[0]
    only = sample is not None and test is not None
    only = only and {*sample.columns} <= {*train.columns} - {*test.columns}  # type: ignore[union-attr]
    cells = whole_table(shown.parts[0])[first].dropna().astype(str).head(PEEK_ROWS)
    long = len(cells) > 0 and cells.str.count(" ").mean() > 5
    roles.ids = not (first == "column_1" or only or long)


def in_split(table: pd.DataFrame, name: str) -> pd.Series:
    """Whether each row is to be predicted, by a column such as split or is_test."""
    if name.lower().strip() not in SPLITS:  # what is withheld is empty
        return table[name].isna()
    cells = table[name].astype(str).str.strip().str.lower()
    if "train" in name.lower() or "test" in name.lower():
        yes = cells.isin(["1", "1.0", "true", "yes", "y", "t"])
        return yes if "test" in name.lower() else ~yes
    last = [word for word in (*TEST, "unlabeled", "unlabelled", *VALID) if (cells == word).any()]
    return cells == (last[0] if last else "test")


def _find_files(folder: Path) -> Roles | None:
    """A folder of classes, train/<class>/<file>, and the files of a folder to predict."""
    places = [path for depth in ("*", "*/*") for path in sorted(folder.glob(depth)) if path.is_dir()]
    trains = [path for path in places if TRAIN & {*name_words(path.name)}]
    tests = [path for path in places if (TEST | VALID) & {*name_words(path.name)} and path not in trains]
    trains = [path for path in trains if len(classes_in(path)) > 1]
    samples = [one for one in tables_in(folder) if {*name_words(one.path.name)} & SUBMISSION]
    if not trains or not (samples or tests):
        return None
    asked = tests and (not samples or next(tests[0].glob("*.txt"), None))
    part = "files" if samples else "names"
    return Roles([Source(trains[0], "classes")], [Source(tests[0], part)] if asked else [], samples[:1])


def classes_in(folder: Path) -> set[str]:
    """Names of the folders that hold its files; none where these are pictures and their masks."""
    names = {path.parent.name for path in files_below(folder) if path.parent != folder}
    return set() if any(re.match("masks?|images?|labels?", name.lower()) for name in names) else names


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
