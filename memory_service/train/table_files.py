"""Files as tables: lines, arrays, sheets, databases and folders; pictures that are written as numbers."""

import bz2
import csv
import gzip
import json
import lzma
import re
import sqlite3
import tempfile
import zlib
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from math import isqrt
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd

PIXELS = re.compile(r"(?:pixels?|pix|px|p)?[_ .-]?\d{1,6}(?:x\d{1,6})?", re.IGNORECASE)  # a column
LEAST_SIDE = 8
LIGHT = 100  # the lightest pixel of bytes that are pictures: others are counts or bits
DRAWN: dict[str, np.ndarray] = {}  # name -> height, width and perhaps colours


@lru_cache(maxsize=1)
def drawn_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="memory-pictures-")  # it goes with the process


def drawn_file(name: str) -> Path | None:
    """Of one of `drawn_names`."""
    if (pixels := DRAWN.get(name)) is None:
        return None
    path = Path(drawn_folder().name) / name
    if not path.exists():
        from PIL import Image

        Image.fromarray(pixels).save(path, compress_level=1)
    return path


def as_pictures(array: np.ndarray) -> np.ndarray | None:
    """uint8 (pictures, height, width[, 3]) of an array of them or of their pixels; None of something else."""
    if array.ndim == 2 and array.dtype == np.uint8 and array.size and array.max() > LIGHT:
        side, colours = isqrt(array.shape[1]), isqrt(array.shape[1] // 3)
        if side**2 == array.shape[1]:
            array = array.reshape(-1, side, side)
        elif 3 * colours**2 == array.shape[1]:
            array = array.reshape(-1, colours, colours, 3)
    if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[3] > 4:
        array = np.moveaxis(array, 1, 3)
    several = array.ndim == 4 and array.shape[3] in (1, 3, 4)
    if not (several or (array.ndim == 3 and array.dtype == np.uint8)) or min(array.shape[1:3]) < LEAST_SIDE:
        return None
    if array.dtype != np.uint8:
        low, high = float(np.nanmin(array)), float(np.nanmax(array))
        usual = [(a, b) for a, b in ((0, 1), (0, 255), (-1, 1)) if a <= low and b / 4 < high <= b]
        if usual:  # else one pixel far off would make training and test pictures of different light
            low, high = usual[0]
        else:
            low, high = np.nanquantile(array[:: 1 + len(array) // 1000], (0.001, 0.999))
        array = (np.nan_to_num(array) - low) / max(high - low, 1e-9)
        array = (array.clip(0, 1) * 255).astype(np.uint8)
    return array[..., 0] if several and array.shape[3] == 1 else array[..., :3] if several else array


def drawn_names(pictures: np.ndarray, name: str) -> list[str]:
    """By what they show, too: other arrays of this name have other pictures."""
    mark = zlib.crc32(np.ascontiguousarray(pictures).data)
    names = [f"{re.sub(r'[^0-9A-Za-z]', '_', name)}_{mark:08x}_{row}.png" for row in range(len(pictures))]
    DRAWN.update(zip(names, pictures, strict=True))
    return names


def whole_bytes(numbers: np.ndarray) -> np.ndarray | None:
    """As uint8, where they are whole and as dark and light as those of pictures are."""
    light = len(numbers) and np.isfinite(numbers).all() and numbers.min() >= 0
    light = light and LIGHT < numbers.max() <= 255
    return numbers.astype(np.uint8) if light and (numbers % 1 == 0).all() else None


def with_pixels(
    train: pd.DataFrame, test: pd.DataFrame, names: list[str], image: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Columns of whole numbers that make a square, such as pixel0, pixel1 ..., as one of pictures."""
    if len(names) < LEAST_SIDE**2:
        return train, test
    found = [whole_bytes(table[names].to_numpy(float, na_value=np.nan)) for table in (train, test)]
    pictures = [each for one in found if one is not None and (each := as_pictures(one)) is not None]
    if len(pictures) < 2:
        return train, test
    print(f"NOTE: {len(names)} numbers of a row are read as pixels of a picture", flush=True)
    known, asked = drawn_names(pictures[0], f"train_{image}"), drawn_names(pictures[1], f"test_{image}")
    train, test = train.drop(columns=names), test.drop(columns=names)
    return train.assign(**{image: known}), test.assign(**{image: asked})


TEXT_TABLES = (".csv", ".tsv", ".txt", ".data", ".dat", ".test", ".train", ".solution", ".labels",
               ".arff", ".svm", ".libsvm")  # fmt: skip
DATABASES = (".db", ".sqlite", ".sqlite3")
WHOLE_TABLES = (".parquet", ".feather", ".json", ".jsonl", ".jsonlines", ".ndjson", ".xlsx", ".xls", ".npy",
                ".npz", *DATABASES)  # fmt: skip
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SOUND_FILES = (".wav", ".flac", ".ogg", ".mp3", ".aif", ".aiff", ".opus", ".m4a")
IMAGE_FILES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
MEDIA_FILES = IMAGE_FILES + SOUND_FILES

PEEK_BYTES, PEEK_ROWS = 1 << 16, 40
LONGEST_LINE, MOST_UNPACKED, MOST_TIMES = 8 << 20, 1 << 30, 500  # packed by others
MOST_SPREAD = 500  # numbers of an array that become columns
NUMBER = re.compile(r"[-+]?(?:\d{1,20}(?:[.,]\d{0,20})?|[.,]\d{1,20})(?:[eE][-+]?\d{1,3})?")
SPARSE = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?(?: qid:\d{1,18})?(?: \d{1,9}:\S{1,40}){1,9}(?: |$)")
MISSING = ["", "#N/A", "<NA>", "N/A", "n/a", "NA", "NULL", "null", "NaN", "nan", "-NaN", "-nan",
           "?", " ?", "k.A.", "k. A.", "n.a."]  # not None  # fmt: skip
OF_NAMES = re.compile(r"column|field|feature|attribute|header|variable", re.IGNORECASE)  # a file
NAME_LINES = [re.compile(each) for each in (
    r"([\w.\- ()/]{1,60}):.{0,2000}", r"\d{1,4}[.,:)\s]\s{0,3}(\S.{0,60})", r"([^\s|#].{0,60})")]  # fmt: skip
BEFORE_NUMBER = re.compile(r"([^\W\d_]{2,40})[._-]?\d{1,12}")
LEAST_FILES = 5  # of a class, in the mean
COCO = ("info", "licenses", "images", "annotations", "categories")
OF_COCO_FILES = ("width", "height", "license", "flickr_url", "coco_url", "date_captured")
AMOUNT = re.compile(
    r"[$€£]\s?-?\d[\d,]*(?:\.\d+)?|(?<![\d,.])-?\d[\d,]*(?:\.\d+)?\s?[%€$£]"
    r"|(?<![\d,.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?"
)
AMOUNT_OF = re.compile(r"-?\d[\d.,\s]{0,30}?(?P<unit>\s[^\W\d_].{0,30}|\s?(?:[^\W\d_]|[%€$£°])\D{0,30})")
COMMA_AMOUNT = r"-?(?:\d{1,15}|\d{1,3}(?:\.\d{3}){1,5})(?:,\d{1,15})?"  # 41.234,5

STRING = r"'(?:[^'\\]|\\.|'')*+'"
STATEMENT = re.compile(  # of a dump of SQL
    r"^[ \t]*+(?:CREATE\s+TABLE|(?:INSERT|REPLACE)(?:\s+IGNORE)?\s+INTO|COPY)\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"(?P<name>(?:[`\"\[][^`\"\]\n]{1,99}[`\"\]]|[\w$.])++)\s*+"
    rf"(?:(?:\((?P<order>[^()]*+)\)\s*+)?(?:VALUES\s*+(?P<values>(?:{STRING}|[^';])++);"
    r"|FROM\s+stdin[^;]{0,99};\r?\n(?P<rows>(?:(?!\\\.).*\n)*+))"
    rf"|(?P<fields>\((?:{STRING}|[^';])++);)",
    re.IGNORECASE | re.MULTILINE,
)
BARE_NAME = re.compile(r"[^`\"\[\].,\s](?:[^`\"\[\].,\n]*[^`\"\[\].,\s])?")
NOTE_OR_TEXT = re.compile(rf"--.*|/\*.*?\*/|{STRING}")
FIELD = re.compile(
    r"(?!(?:(?:PRIMARY|FOREIGN|UNIQUE|FULLTEXT|SPATIAL)\s+)?(?:KEY|INDEX)\b|(?:CONSTRAINT|CHECK|UNIQUE)\b)"
    r"[`\"\[]?(?P<name>(?<=[`\"\[])[^`\"\]]+|\w+)[`\"\]]?(?:\s+(?P<kind>\w+))?",
    re.IGNORECASE,
)
ESCAPED, WRITTEN = re.compile(r"\\(.)"), {"'": "''", "n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class Source:
    """A table: a file, or an array or a sheet of it; of a folder the files in it, or those of its classes."""

    path: Path
    part: str = ""


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


def read_bytes(path: Path, most: int = -1) -> bytes:
    if path.suffix.lower() == ".zip":
        with ZipFile(path) as packed, packed.open(packed.namelist()[0]) as file:
            size, packed_size = packed.infolist()[0].file_size, packed.infolist()[0].compress_size
            if size > MOST_UNPACKED and size > MOST_TIMES * packed_size:
                raise ValueError(f"{path.name} would unpack to {size >> 20} MiB")
            return file.read(most)
    with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
        return bytes(file.read(most))


def encoding_of(raw: bytes) -> str:
    """By the mark at its beginning, else UTF-8, UTF-16 or what its bytes over 127 look like."""
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
    """Whether the first row names the columns: it has no number where they have, or numbers that count up."""
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
    return len(given) < sum(head[n].strip() not in MISSING for n in numeric)


def form_of(path: Path) -> dict[str, Any]:
    """How a file of lines is written, as pandas takes it, with names where it has none."""
    raw = read_bytes(path, PEEK_BYTES)
    whole = len(raw) < PEEK_BYTES or re.search(rb"[\r\n]", raw)
    more = b"" if whole else read_bytes(path, LONGEST_LINE)
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
    if above := heading_of(lines):
        form["skiprows"] = text.splitlines().index(lines[above])
        lines = lines[above:]
    head, mark = lines[0], ","
    rows = {each: list(islice(csv.reader(lines, delimiter=each), PEEK_ROWS)) for each in ",;\t|"}
    even = [each for each in rows if len({len(row) for row in rows[each]}) == 1 < len(rows[each][0])]
    if "," not in head or ("," not in even and even):
        mark = max(even or ";\t|", key=lambda each: (head.count(each), each == ","))
    if all("::" in line for line in lines):
        form |= {"sep": "::", "engine": "python"}
        table = [line.split("::") for line in lines]
    elif mark not in head:
        cells = [line.split() for line in lines]
        alike = len({len(row) for row in cells}) == 1 < len(cells[0])
        shown = cells[-1 if ending_of(path) != ".csv" else 0]
        legend = len(shown) == 2 and len({row[0] for row in cells if is_number(row[0])}) == len(cells)
        blanks = [line.split(" ") for line in lines]  # between two of them a cell is empty
        width, known = len(blanks[0]), sum(is_number(cell) for row in blanks[1:] for cell in row)
        if alike and (legend or all(is_number(cell) or cell in MISSING for cell in shown)):
            form["sep"], table = r"\s+", cells
        elif {len(row) for row in blanks} == {width} != {1} and 2 * known > len(blanks) * width > 20:
            form["sep"], table = " ", blanks
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
        form |= {"header": None, "names": names_beside(path, len(table[0]))}
    return form


def heading_of(lines: list[str]) -> int:
    """How many lines of fewer cells stand above those of a table, all of as many."""
    found = 0
    for mark in ",;\t|":
        widths = [len(row) for row in csv.reader(lines, delimiter=mark)]
        first = max((n + 1 for n, width in enumerate(widths) if width != widths[-1]), default=0)
        if first == 0 and widths[-1] > 1:
            return 0
        if not found and 0 < first < len(widths) - 2 and widths[-1] > max(2, *widths[:first]):
            found = first
    return found


@lru_cache(maxsize=8)
def files_of_names(folder: Path, _: int) -> list[Path]:
    files = [each for each in sorted(folder.iterdir()) if each.suffix in (".names", ".txt", ".csv")]
    return [each for each in files if each.suffix == ".names" or OF_NAMES.search(each.stem)]


def names_beside(path: Path, width: int) -> list[str]:
    """Names that a file beside a table without names lists, with or without that of the target, the last."""
    for other in files_of_names(path.parent, path.parent.stat().st_mtime_ns):
        if other == path or not other.is_file():
            continue
        lines = read_bytes(other, PEEK_BYTES).decode("utf-8", "replace").splitlines()
        for form in NAME_LINES:
            found = [name[1].strip() for line in lines if (name := form.fullmatch(line.strip()))]
            if found and len({*found}) == len(found) and len(found) in (width, width - 1):
                return [*found, "target"][:width]
    return [f"column_{n + 1}" for n in range(width)]


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
    found = pd.DataFrame([dict(each.split(":") for each in row[1:]) for row in cells]).astype(float).fillna(0)
    numbers = sorted((name for name in found if name.isdigit()), key=int)
    table = found[numbers].set_axis([f"column_{n + 1}" for n in range(len(numbers))], axis=1)
    return table.join(found.drop(columns=numbers)).assign(target=[float(row[0]) for row in cells])


def flat(data: Any) -> pd.DataFrame:
    """Objects as rows, those in them as columns with dots; arrays as columns, usual values or texts."""
    if isinstance(data, dict) and is_coco(data):
        return of_coco(data)
    if isinstance(data, dict):
        lists = [each for each in data.values() if isinstance(each, list) and isinstance([*each, 0][0], dict)]
        data = max(lists, key=len) if lists else pd.DataFrame(data).to_dict("records")
    table = pd.json_normalize(data)
    shown = data[:PEEK_ROWS] if isinstance(data, list) else []
    order = {name: place for one in shown for place, name in enumerate(one)}
    table = table[sorted(table, key=lambda name: order.get(str(name).split(".")[0], len(order)))]
    parts: list[pd.Series | pd.DataFrame] = []
    for name in table.columns:
        cells = table[name]
        arrays = [cell if isinstance(cell, list) else [] for cell in cells]
        if not any(arrays):
            parts.append(cells)
            continue
        if not all(isinstance(each, int | float) for cell in arrays for each in cell):
            words = [str(each).lower() for cell in arrays for each in cell]
            files = all(word.endswith(MEDIA_FILES) for word in words)
            cut = slice(1 if files else None)  # of several files the first
            parts.append(pd.Series([", ".join(map(str, cell[cut])) for cell in arrays], name=name))
            continue
        lengths = {len(cell) for cell in arrays}
        if len(lengths) == 1 and max(lengths) <= MOST_SPREAD:
            parts.append(pd.DataFrame(arrays).add_prefix(f"{name}."))
            continue
        key = np.repeat(np.arange(len(arrays)), [len(cell) for cell in arrays])
        steps = pd.DataFrame({name: np.concatenate([np.asarray(cell, float) for cell in arrays])})
        parts.append(step_columns(steps, key).reindex(range(len(arrays))))
    return pd.concat(parts, axis=1)


def is_coco(data: dict[str, Any]) -> bool:
    images = data.get("images")
    named = isinstance(images, list) and images and isinstance(images[0], dict) and "id" in images[0]
    return bool(named) and (isinstance(data.get("annotations"), list) or {*data} <= {*COCO})


def of_coco(data: dict[str, Any]) -> pd.DataFrame:
    """A row for each annotation of the images, and for each image without one."""
    images = pd.json_normalize(data["images"]).rename(columns={"id": "image_id"})
    first = [name for name in ("file_name", "image_id") if name in images]
    images = images[[*first, *(name for name in images if name not in (*first, *OF_COCO_FILES))]]
    found = pd.DataFrame(data.get("annotations") or [], dtype=object)
    if "image_id" not in found or "image_id" not in images:
        return images
    points = "keypoints" in found and found["image_id"].is_unique and found["keypoints"].str.len().min() > 0
    wanted = ("image_id", "keypoints") if points else ("image_id", "bbox", "caption", "category_id")
    kept = [name for name in wanted if name in found]
    names = {one.get("id"): one.get("name") for one in data.get("categories", [])}
    found = found[kept].astype({"image_id": images["image_id"].dtype})
    table = images.merge(found, on="image_id", how="left")
    if names and "category_id" in table:
        table["category"] = table.pop("category_id").map(names)
    lists = [name for name in ("bbox", "keypoints") if name in table]
    texts = {name: table[name].where(table[name].isna(), table[name].astype(str)) for name in lists}
    return table.assign(**texts)


UNREAD: dict[str, str] = {}  # table that cannot be read -> why


@lru_cache(maxsize=8)
def _whole(path: Path, part: str, _: int) -> pd.DataFrame:
    """A table of a file that is no file of lines; of one of lines its first rows."""
    ending = ending_of(path)
    if not is_no_text(Source(path)):
        settings = {"nrows": PEEK_ROWS, "on_bad_lines": "skip", "dtype": str, "engine": "python"}
        return pd.read_csv(path, **form_of(path) | settings)
    if ending in (".parquet", ".feather"):
        return pd.read_parquet(path) if ending == ".parquet" else pd.read_feather(path)
    if ending in (".npy", ".npz"):
        array = np.load(path, allow_pickle=False)
        array = array[part] if ending == ".npz" else array
        if (pictures := as_pictures(array)) is not None:
            return pd.DataFrame({"image": drawn_names(pictures, f"{path.stem} {part}")})
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
            table = pd.read_excel(path, sheet_name=part or 0)
            full = table.head(PEEK_ROWS).notna().sum(axis=1)
            above = table.columns.astype(str).str.startswith("Unnamed").sum() >= len(table.columns) - 1 > 1
            if above and full.max() > 1:  # a heading
                table = pd.read_excel(path, sheet_name=part or 0, header=int(full.argmax()) + 1)
            return table
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
    table = _whole(source.path, source.part, source.path.stat().st_mtime_ns).copy()
    table.columns = table.columns.astype(str)  # of a sheet they may be years or dates
    return table


def database_of(dump: Path, base: Path) -> None:
    """A file of SQLite with the tables that a dump of SQL makes and fills, by INSERT or, as PostgreSQL does,
    by COPY. It obeys no other statement."""
    raw = read_bytes(dump)
    text = raw.decode(encoding_of(raw[:PEEK_BYTES]), "replace")
    escaped = "\\'" in text  # as MySQL writes them
    with closing(sqlite3.connect(base)) as made, made:
        for found in STATEMENT.finditer(text):
            table = BARE_NAME.findall(found["name"])[-1]
            order = ", ".join(f'"{name}"' for name in BARE_NAME.findall(found["order"] or ""))
            into = f'INSERT INTO "{table}" {order and f"({order})"} VALUES'
            with suppress(sqlite3.Error):  # of a statement that SQLite does not know
                if found["fields"]:
                    made.execute(f'CREATE TABLE "{table}" ({", ".join(fields_of(found["fields"]))})')
                elif given := found["values"]:
                    given = ESCAPED.sub(lambda m: WRITTEN.get(m[1], m[1]), given) if escaped else given
                    made.execute(f"{into} {given}")
                for line in (found["rows"] or "").splitlines():
                    cells = [None if cell == r"\N" else cell for cell in line.split("\t")]
                    made.execute(f"{into} ({', '.join('?' * len(cells))})", cells)


def fields_of(body: str) -> list[str]:
    """Name and type of each column between the brackets of CREATE TABLE, without keys and constraints."""
    parts, deep = [""], 0
    for letter in NOTE_OR_TEXT.sub("", body):
        deep += (letter == "(") - (letter == ")")
        if deep == 1 and letter == ",":
            parts.append("")
        elif deep:
            parts[-1] += letter
    found = [FIELD.match(part.strip(" \t\r\n(")) for part in parts]
    return [f'"{field["name"]}" {field["kind"] or ""}' for field in found if field]


def is_no_text(source: Source) -> bool:
    return source.path.is_dir() or ending_of(source.path) not in TEXT_TABLES or is_sparse(source.path)


def has_no_names(source: Source) -> bool:
    """Whether its rows have no ids as its columns have no names of their own."""
    if source.path.is_dir() or is_sparse(source.path):
        return False
    ending = ending_of(source.path)
    text = ending in TEXT_TABLES and ending != ".arff"
    return ending in (".npy", ".npz") or (text and "header" in form_of(source.path))


def columns_in(source: Source) -> list[str]:
    """Names of its columns; none where it cannot be read."""
    try:
        return [str(name) for name in whole_table(source).columns]
    except Exception as error:
        UNREAD[source.path.name] = str(error)[:200]
        return []


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


def files_below(folder: Path) -> list[Path]:
    ends = (*IMAGE_FILES, *SOUND_FILES, ".txt", "")
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in ends and path.is_file()]
    return [path for path in paths if path.name[0] != "."]


def file_classes(folder: Path) -> dict[Path, str]:
    """The class or value of each file: its folder's name, what stands before a number, as in cat.12.jpg, or a
    part of its name, as in 7_ada_2.wav."""
    paths = files_below(folder)
    if found := {path: path.parent.name for path in paths if path.parent != folder}:
        return found
    found = {path: kind[1] for path in paths if (kind := BEFORE_NUMBER.fullmatch(path.stem))}
    if len(found) == len(paths) > LEAST_FILES * len({*found.values()}):
        return found
    return dict(zip(paths, part_of_names([path.stem for path in paths]), strict=False))


def part_of_names(stems: list[str]) -> list[str]:
    """Of names of as many parts between "_" or "-" the last fractions, else the first classes."""
    mark = "_" if stems and "_" in stems[0] else "-"
    parts = pd.DataFrame([stem.split(mark) for stem in stems], dtype=object)
    if parts.isna().any(axis=None) or len(parts.columns) < 2:
        return []
    numbers = parts.apply(pd.to_numeric, errors="coerce")
    values = [n for n in parts if numbers[n].notna().all() and (numbers[n] % 1 > 0).any()]
    classes = [n for n in parts if 1 < parts[n].nunique() < len(parts) / LEAST_FILES]
    chosen = values[-1:] or classes[:1]
    if not chosen:
        return []
    print(f"NOTE: part {chosen[0] + 1} of the names of files, as in {stems[0]}, is the answer", flush=True)
    return parts[chosen[0]].tolist()


def files_in(folder: Path, part: str) -> pd.DataFrame:
    """A row for each picture, sound or text: its path, its class, its words."""
    classes = part == "classes"
    kinds = file_classes(folder) if classes else {}
    paths = list(kinds) if classes else files_below(folder)
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
        label = pd.to_numeric(pd.Series([*kinds.values()], dtype=object), errors="coerce")
        fractions = label.notna().all() and (label % 1 > 0).any()
        table["label"] = label if fractions else list(kinds.values())
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
    """The numbers of texts such as "$1,234.50", with `commas` "41.234,5"; None where they are others."""
    if pd.api.types.is_numeric_dtype(column):
        return None
    known = column.dropna()
    form, decimal = (COMMA_AMOUNT, ",") if commas else (AMOUNT, ".")
    for some in (known.head(200), known):  # of long texts few are read
        if not len(some) or not some.astype(str).str.strip().str.fullmatch(form).all():
            return None
    plain = known.astype(str).str.replace(rf"[^\d{decimal}-]", "", regex=True).str.replace(",", ".")
    return pd.to_numeric(plain, errors="coerce").reindex(column.index)


def amounts_in(column: pd.Series, commas: bool = False) -> pd.Series | None:
    """The numbers of texts such as "315,95 EUR", where the same stands behind each, and `written_amounts`."""
    known = column.dropna()
    found = AMOUNT_OF.fullmatch(str(known.iloc[0]).strip()) if len(known) else None
    end = re.escape(found["unit"].removesuffix("s")) + r"s?\s?" if found else ""  # 1 review, 2 reviews
    if not found or not known.astype(str).str.fullmatch(rf"\s?-?[\d.,\s]{{1,30}}{end}").all():
        return written_amounts(column, commas)
    plain = known.astype(str).str.replace(rf"{end}$", "", regex=True).str.strip()
    plain = plain.str.replace(r"(?<=\d)\s(?=\d{3})", "", regex=True)
    commas = commas or plain.str.contains(r",(?:\d{1,2}|\d{4,9})$").any()
    amounts = written_amounts(plain if commas else plain + "%", commas)  # a mark needs no thousands
    return None if amounts is None else amounts.reindex(column.index)
