"""Finds the tables of a folder by their names and contents: rows to learn from, rows to predict, the form of
a submission; and tells how their files are written."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import re
import sqlite3
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
import pandas as pd

TEXT_TABLES = (".csv", ".tsv", ".txt", ".data", ".dat", ".test", ".train", ".solution", ".labels",
               ".arff", ".svm", ".libsvm")  # fmt: skip
DATABASES = (".db", ".sqlite", ".sqlite3")
WHOLE_TABLES = (".parquet", ".feather", ".json", ".jsonl", ".jsonlines", ".ndjson", ".xlsx", ".xls", ".npy",
                ".npz", *DATABASES)  # fmt: skip
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SOUND_FILES = (".wav", ".flac", ".ogg", ".mp3", ".aif", ".aiff", ".opus", ".m4a")
IMAGE_FILES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
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

PEEK_BYTES, PEEK_ROWS = 1 << 16, 40
LONGEST_LINE, MOST_UNPACKED, MOST_TIMES = 8 << 20, 1 << 30, 500  # packed by others
MOST_PARTS = 60  # tables of a folder: more are of a sample each
MOST_SPREAD = 500  # numbers of an array that become columns
NUMBER = re.compile(r"[-+]?(?:\d{1,20}(?:[.,]\d{0,20})?|[.,]\d{1,20})(?:[eE][-+]?\d{1,3})?")
SPARSE = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?(?: qid:\d{1,18})?(?: \d{1,9}:\S{1,40}){1,9}(?: |$)")
MISSING = ["", "#N/A", "<NA>", "N/A", "n/a", "NA", "NULL", "null", "NaN", "nan", "-NaN", "-nan",
           "?", " ?", "k.A.", "k. A.", "n.a."]  # not None  # fmt: skip
UNNAMED = re.compile(r"column_\d{1,6}")
AMOUNT = re.compile(
    r"[$€£]\s?-?\d[\d,]*(?:\.\d+)?|(?<![\d,.])-?\d[\d,]*(?:\.\d+)?\s?[%€$£]"
    r"|(?<![\d,.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?"
)
COMMA_AMOUNT = r"-?(?:\d{1,15}|\d{1,3}(?:\.\d{3}){1,5})(?:,\d{1,15})?"  # 41.234,5


@dataclass(frozen=True)
class Source:
    """A table: a file, or an array or a sheet of it; of a folder the files in it, or those of its classes."""

    path: Path
    part: str = ""


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


def ending_of(path: Path) -> str:
    """ ".csv" of train.csv, train.csv.gz and of train.zip that holds one; "" where it is no table."""
    *ends, end = "", *(each.lower() for each in path.suffixes[-2:])
    if end in (*OPENERS, ".zip"):
        end = ends[-1]
        if end not in TEXT_TABLES + WHOLE_TABLES and path.suffix.lower() == ".zip":
            with suppress(OSError, BadZipFile), ZipFile(path) as packed:
                names = packed.namelist()
                end = Path(names[0]).suffix.lower() if len(names) == 1 else ""
        return end if end in (".json", ".jsonl", *TEXT_TABLES) else ""
    return end if end in TEXT_TABLES + WHOLE_TABLES else ""


def check_size(path: Path, file: ZipInfo) -> None:
    if file.file_size > MOST_UNPACKED and file.file_size > MOST_TIMES * file.compress_size:
        raise ValueError(f"{path.name} would unpack to {file.file_size >> 20} MiB")


def read_bytes(path: Path, most: int = -1) -> bytes:
    if path.suffix.lower() == ".zip":
        with ZipFile(path) as packed, packed.open(packed.namelist()[0]) as file:
            check_size(path, packed.infolist()[0])
            return file.read(most)
    with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
        return bytes(file.read(most))


def encoding_of(raw: bytes) -> str:
    """By the mark at its beginning, else the first of UTF-8, UTF-16 and what its bytes over 127 look like:
    Chinese and Japanese have pairs of them, Cyrillic has words, others single ones."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if raw.startswith(mark):
            return name
    if raw[:2000].count(0) > len(raw[:2000]) / 4:
        return "utf-16-le" if raw[:2000][1::2].count(0) > raw[:2000][::2].count(0) else "utf-16-be"
    try:
        raw[: len(raw) - 4 if len(raw) > 8 else None].decode("utf-8")  # the last letter may be cut
        return "utf-8"
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return "utf-8"
    runs = re.findall(rb"[\x80-\xff]{1,400}", raw)
    high = sum(map(len, runs))
    pairs = sum(len(run) for run in runs if len(run) % 2 == 0)
    if high > 3 * len(runs) and sum(byte >= 0xC0 for run in runs for byte in run) > 0.95 * high:
        return "cp1251"
    if raw.count(b"\x82") + raw.count(b"\x83") > high / 5:
        return "shift_jis"
    if pairs > 0.9 * high:
        return "gb18030"
    return "latin-1" if any(byte in raw for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)) else "cp1252"


def is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell.strip()) is not None


def has_names(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns: it has no number where a column has numbers, or only numbers
    that count upwards, as years and days do."""
    head, others = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if not others:
        return True
    numeric = [n for n in range(len(head)) if sum(is_number(row[n]) for row in others) > 0.8 * len(others)]
    given = [float(head[n].replace(",", ".")) for n in numeric if is_number(head[n])]
    if not given:
        again = sum(cell in {row[n] for row in others} for n, cell in enumerate(head))
        return bool(numeric) or again <= len(head) / 2
    steps = {round(b - a, 6) for a, b in pairwise(given)}
    if steps and min(steps) > 0:  # by chance values rarely do
        years = min(given) > 1900 and max(given) < 2100 and all(value % 1 == 0 for value in given)
        if years or len(given) > 5 or (len(given) > 2 and len(steps) == 1):
            return True
    return len(given) < sum(head[n].strip() not in MISSING[1:] for n in numeric)


def form_of(path: Path) -> dict[str, Any]:
    """How a file of lines is written, as pandas takes it: encoding, what stands between values (of commas,
    else semicolons, tabs, bars, blanks), decimal commas, and names of columns where it has none."""
    raw = read_bytes(path, PEEK_BYTES)
    more = (
        read_bytes(path, LONGEST_LINE) if len(raw) == PEEK_BYTES and not re.search(rb"[\r\n]", raw) else b""
    )
    if len(more) == LONGEST_LINE and not re.search(rb"[\r\n]", more):
        raise ValueError(f"{path.name} begins with a line of over {LONGEST_LINE >> 20} MiB")
    form: dict[str, Any] = {"encoding": encoding_of(raw), "encoding_errors": "replace"}
    text = raw.decode(form["encoding"], "replace")
    if ending_of(path) == ".arff":
        return form | form_of_arff(read_bytes(path, LONGEST_LINE).decode(form["encoding"], "replace"))
    lines = [line for line in text.splitlines() if line.strip()]
    lines = lines[: len(lines) - (len(raw) == PEEK_BYTES and len(lines) > 1)][:PEEK_ROWS]
    if not lines:
        return form
    head, mark = lines[0], ","
    rows = {each: list(islice(csv.reader(lines, delimiter=each), PEEK_ROWS)) for each in ",;\t|"}
    even = [each for each in rows if len({len(row) for row in rows[each]}) == 1 < len(rows[each][0])]
    if "," not in head or ("," not in even and even):
        mark = max(even or ";\t|", key=lambda each: (head.count(each), each == ","))
    if mark not in head:
        cells = [line.split() for line in lines]
        alike = len({len(row) for row in cells}) == 1 < len(cells[0])
        shown = cells[-1 if ending_of(path) != ".csv" else 0]
        legend = len(shown) == 2 and len({row[0] for row in cells if is_number(row[0])}) == len(cells)
        if alike and (legend or all(is_number(cell) or cell in MISSING for cell in shown)):
            form["sep"], table = r"\s+", cells
        else:
            table = [[line] for line in lines]
    else:
        table = rows[mark]
        if mark != ",":
            form["sep"] = mark
            number = rf"(?:^|{re.escape(mark)})-?\d{{1,15}},\d{{1,15}}(?:{re.escape(mark)}|$)"
            form |= {"decimal": ","} if any(re.search(number, line) for line in lines) else {}
        elif all(line.count(", ") == line.count(",") for line in lines):
            form["skipinitialspace"] = True
    if not has_names(table):
        form |= {"header": None, "names": [f"column_{n + 1}" for n in range(len(table[0]))]}
    return form


def form_of_arff(text: str) -> dict[str, Any]:
    """Names are behind @attribute, rows behind @data."""
    head, *_ = re.split(r"(?im)^(@data)", text, maxsplit=1)
    names = re.findall(r"(?im)^@attribute[ \t]{1,9}('[^'\n]{1,99}'|\"[^\"\n]{1,99}\"|\S{1,99})", head)
    quote = '"' if '"' in text[len(head) :] else "'"
    form = {"skiprows": head.count("\n") + 1, "comment": "%", "quotechar": quote, "skipinitialspace": True}
    return form | {"header": None, "names": [name.strip("'\"") for name in names]}


@lru_cache(maxsize=64)
def is_sparse(path: Path) -> bool:
    """Whether its lines are as SVMlight has them: 1 qid:3 1:0.2 7:4."""
    with suppress(OSError, ValueError, EOFError, BadZipFile):
        lines = read_bytes(path, 1 << 14).decode("latin-1").splitlines()[:PEEK_ROWS]
        return bool(lines) and all(map(SPARSE.match, lines[:-1] or lines))
    return False


def sparse_rows(lines: list[str]) -> pd.DataFrame:
    """Features by their numbers, the query, the target; a feature that is not there is 0."""
    cells = [line.split("#")[0].split() for line in lines]
    table = (
        pd.DataFrame([dict(each.split(":") for each in row[1:]) for row in cells]).astype(float).fillna(0.0)
    )
    names = sorted((name for name in table if name.isdigit()), key=int)
    table = table[[*names, *(name for name in table if name not in names)]]
    table = table.rename(columns={name: f"column_{n + 1}" for n, name in enumerate(names)})
    return table.assign(target=[float(row[0]) for row in cells])


def flat(data: Any) -> pd.DataFrame:
    """Objects as rows: those in them as columns with dots; arrays of numbers as columns, or of other lengths
    as what is usual in them; other arrays as texts."""
    if isinstance(data, dict):
        lists = [
            each for each in data.values() if isinstance(each, list) and each and isinstance(each[0], dict)
        ]
        data = max(lists, key=len) if lists else pd.DataFrame(data).to_dict("records")
    table = pd.json_normalize(data)
    parts: list[pd.Series | pd.DataFrame] = []
    for name in table.columns:
        cells = table[name]
        arrays = [cell if isinstance(cell, list) else [] for cell in cells]
        if not any(arrays):
            parts.append(cells)
            continue
        if not all(isinstance(each, int | float) for cell in arrays for each in cell):
            parts.append(pd.Series([", ".join(map(str, cell)) for cell in arrays], name=name))
            continue
        lengths = {len(cell) for cell in arrays}
        if len(lengths) == 1 and max(lengths) <= MOST_SPREAD:
            parts.append(pd.DataFrame(arrays).add_prefix(f"{name}."))
            continue
        key = np.repeat(np.arange(len(arrays)), [len(cell) for cell in arrays])
        steps = pd.DataFrame({name: np.concatenate([np.asarray(cell, float) for cell in arrays])})
        parts.append(step_columns(steps, key).reindex(range(len(arrays))))
    return pd.concat(parts, axis=1)


UNREAD: dict[str, str] = {}  # table that cannot be read -> why


@lru_cache(maxsize=8)
def _whole(path: Path, part: str, _: int) -> pd.DataFrame:
    """A table of a file that is no file of lines; of one of lines its first rows."""
    ending = ending_of(path)
    if not is_no_text(Source(path)):
        settings = {"nrows": PEEK_ROWS, "on_bad_lines": "skip", "dtype": str, "engine": "python"}
        return pd.read_csv(path, **form_of(path), **settings)
    if ending in (".parquet", ".feather"):
        return pd.read_parquet(path) if ending == ".parquet" else pd.read_feather(path)
    if ending in (".npy", ".npz"):
        array = np.load(path, allow_pickle=False)
        array = array[part] if ending == ".npz" else array
        steps = array if array.ndim == 3 and array.shape[1] > array.shape[2] else None  # of rows, steps, axes
        array = array.reshape(len(array), -1)
        table = pd.DataFrame(array, columns=[f"column_{n + 1}" for n in range(array.shape[1])])
        if steps is not None:
            axes = pd.DataFrame(steps.reshape(-1, steps.shape[2])).add_prefix("axis ")
            usual = step_columns(axes, np.repeat(np.arange(len(array)), steps.shape[1]))
            table = pd.concat([table, usual], axis=1)
        return table
    if ending in DATABASES:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            named = part.replace('"', '""')
            return pd.read_sql_query(f'SELECT * FROM "{named}"', base)  # noqa: S608
    if ending in (".xlsx", ".xls"):
        try:
            return pd.read_excel(path, sheet_name=part or 0)
        except ImportError as error:
            raise ValueError("it is a workbook: pip install openpyxl, or save it as .csv") from error
    raw = read_bytes(path)
    text = raw.decode(encoding_of(raw[:PEEK_BYTES]), "replace")
    if ending in TEXT_TABLES:
        return sparse_rows([line for line in text.splitlines() if line.strip()])
    try:
        return flat(json.loads(text))
    except json.JSONDecodeError:
        return flat([json.loads(line) for line in text.splitlines() if line.strip()])


def whole_table(source: Source) -> pd.DataFrame:
    """The same, a copy; of a folder a row for each file."""
    if source.path.is_dir():
        return files_in(source.path, source.part)
    return _whole(source.path, source.part, source.path.stat().st_mtime_ns).copy()


def is_no_text(source: Source) -> bool:
    return source.path.is_dir() or ending_of(source.path) not in TEXT_TABLES or is_sparse(source.path)


def columns_in(source: Source) -> list[str]:
    """Names of its columns; none where it cannot be read."""
    try:
        return [str(name) for name in whole_table(source).columns]
    except Exception as error:
        UNREAD[source.path.name] = str(error)[:200]
        return []


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


def parts_of(path: Path) -> list[str]:
    """The arrays of a file, or its sheets."""
    with suppress(ImportError, ValueError, OSError, sqlite3.Error):
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return list(arrays.files)
        if path.suffix in DATABASES:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
                return [row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        if path.suffix in (".xlsx", ".xls"):
            with pd.ExcelFile(path) as book:
                sheets = [str(name) for name in book.sheet_names]
            return sheets if len(sheets) > 1 else [""]
    return [""]


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


def files_below(folder: Path) -> list[Path]:
    ends = (*IMAGE_FILES, *SOUND_FILES, ".txt", "")
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in ends and path.is_file()]
    return [path for path in paths if path.name[0] != "."]


def files_in(folder: Path, part: str) -> pd.DataFrame:
    """A row for each picture, sound or text: its path, its class, the words of a text. Of "names" a text is
    called with its ending."""
    classes = part == "classes"
    paths = [path for path in files_below(folder) if not classes or path.parent != folder]
    texts = bool(paths) and all(path.suffix.lower() in (".txt", "") for path in paths)
    names = [path.relative_to(folder.parent).as_posix() for path in paths]
    if not classes and all(path.parent == folder for path in paths):
        names = [path.stem if texts and part != "names" else path.name for path in paths]
    table = pd.DataFrame({"id": names}, dtype=object)
    if texts:
        raw = [path.read_bytes() for path in paths]
        encoding = encoding_of(b"\n".join(raw[:200]))
        table["text"] = [each.decode(encoding, "replace") for each in raw]
    if classes:
        table["label"] = [path.parent.name for path in paths]
    return table


def step_columns(table: pd.DataFrame, key: Any) -> pd.DataFrame:
    """Of the rows of each key, a row a step, what is usual in each column, how it changes and how it ends."""
    numbers = table.select_dtypes("number").astype(float)
    key = np.asarray(key)
    grouped = numbers.groupby(key, sort=False)
    found = {what: getattr(grouped, what)() for what in ("mean", "std", "min", "max", "first", "last")}
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        found[f"q{level}"] = grouped.quantile(level)
    change = grouped.diff().abs()
    found["change"] = change.groupby(key, sort=False).mean()
    centred = numbers - grouped.transform("mean")
    lagged = centred.groupby(key, sort=False).shift() * centred
    found["autocorrelation"] = lagged.groupby(key, sort=False).mean() / (found["std"] ** 2 + 1e-9)
    parts = [part.add_suffix(f" {what}") for what, part in found.items()]
    return pd.concat([*parts, grouped.size().rename("steps")], axis=1)


def written_amounts(column: pd.Series, commas: bool = False) -> pd.Series | None:
    """The numbers of texts such as "$1,234.50" and "12.5 %", with decimal `commas` "41.234,5"; None where
    they are others."""
    if pd.api.types.is_numeric_dtype(column):
        return None
    known = column.dropna()
    form, decimal = (COMMA_AMOUNT, ",") if commas else (AMOUNT, ".")
    for some in (known.head(200), known):  # of long texts few are read
        if not len(some) or not some.astype(str).str.strip().str.fullmatch(form).all():
            return None
    plain = column.astype(object).where(column.notna()).astype(str)
    plain = plain.str.replace(rf"[^\d{decimal}-]", "", regex=True).str.replace(",", ".")
    return pd.to_numeric(plain, errors="coerce").where(column.notna())


def without_far_marks(column: pd.Series) -> pd.Series:
    """-999 and the like are missing values where they stand far off the others, all at least 0."""
    if (
        not pd.api.types.is_numeric_dtype(column)
        or not len(column)
        or column.min() not in (-999, -9999, -99999)
    ):
        return column
    others = column[column > column.min()]
    far = len(others) > 1 and others.min() >= 0 and others.max() < -column.min()
    return column.where(column != column.min()) if far else column


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
