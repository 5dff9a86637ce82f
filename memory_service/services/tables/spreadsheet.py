"""Spreadsheets (XLSX) through openpyxl: one sheet is written, the first is read, within bounds."""

import csv
import io
import re
import zipfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any

from memory_service.errors import InvalidInput, wrong_value

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MOST_CHARACTERS = 32_767
"""Of a cell: spreadsheets cut what is longer, or refuse the file."""

MOST_BYTES, MOST_TIMES = 64 * 2**20, 100
"""Of a file unpacked, and for one packed byte where it is over a mebibyte."""

MOST_WRITTEN = 16 * 2**20
"""Characters of the table that a file becomes."""

MOST_NODES, MOST_CELLS, MOST_ROWS, MOST_COLUMNS = 2_000_000, 5_000_000, 2**18, 1_000
"""Of the elements of all its parts, and of its first sheet with empty cells counted."""

_LONGEST_TOKEN = 1 << 18
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_ESCAPED = re.compile("_x((?!0000|[dD][89A-Fa-f])[0-9A-Fa-f]{4})_")
_DECLARATION = re.compile(r"\s{0,100}<\?xml[^>]{0,200}>")
_UNREAD = re.compile(r"docProps/|xl/(styles|theme|drawings|charts|externalLinks)")


def written(rows: Iterable[Sequence[Sequence[Any]]]) -> Generator[bytes]:
    """The pieces of a workbook of one sheet; an empty piece after each part of the rows. Numbers and truth
    values as such, all else as text: no cell is a formula."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.utils.exceptions import WorkbookAlreadySaved
    from openpyxl.worksheet._writer import ALL_TEMP_FILES

    book = Workbook(write_only=True)
    sheet = book.create_sheet("rows")

    def cell(value: Any) -> Any:
        if value is None or value == "":
            return None
        kind, text = {bool: "b", int: "n", float: "n"}.get(type(value), "s"), repr(value)
        if kind == "s":
            text = _FORBIDDEN.sub(lambda found: f"_x{ord(found[0]):04X}_", str(value)[:MOST_CHARACTERS])
        out = WriteOnlyCell(sheet)  # setting its `value` would round a number and take "=" for a formula
        out.data_type, out._value = kind, str(int(value)) if kind == "b" else text
        return out

    try:
        for part in rows:
            for row in part:
                sheet.append([cell(value) for value in row])
            yield b""
        with TemporaryFile() as file:
            book.save(file)
            file.seek(0)
            yield from iter(lambda: file.read(2**20), b"")
    finally:
        if (writer := sheet._writer) is not None and writer.out in ALL_TEMP_FILES:
            with suppress(WorkbookAlreadySaved):
                sheet.close()
            writer.cleanup()  # openpyxl does so where it saves: nobody may have waited for it


def as_csv(raw: bytes) -> str:
    """The first sheet of a workbook as CSV, each row at least as wide as the first; InvalidInput for what is
    none, or too large."""
    try:
        return _first_sheet(raw)
    except InvalidInput:
        raise
    except Exception as error:
        raise wrong_value("file", f"cannot be read as a spreadsheet (XLSX): {error}") from error


def _first_sheet(raw: bytes) -> str:
    from openpyxl import load_workbook

    sheet = load_workbook(_unpacked(raw), read_only=True, data_only=True, keep_links=False).worksheets[0]
    sheet.reset_dimensions()  # a file may state any
    out = io.StringIO(newline="")
    writer, width, n_cells = csv.writer(out), 0, 0
    for n_rows, row in enumerate(sheet.iter_rows(values_only=True), 1):
        n_cells += len(row)
        used = next((n for n in range(len(row), 0, -1) if row[n - 1] not in (None, "")), 0)
        if n_rows > MOST_ROWS or used > MOST_COLUMNS or n_cells > MOST_CELLS:
            raise ValueError("it has too many rows, columns or cells")
        width = width or used
        writer.writerow([_shown(value) for value in row[:used]] + [""] * (width - used if used else 0))
        if out.tell() > MOST_WRITTEN:
            raise wrong_value("file", f"holds over {MOST_WRITTEN:,} characters; send it in parts")
    return out.getvalue()


def _unpacked(raw: bytes) -> io.BytesIO:
    """The parts of a workbook that are read, within bounds, as UTF-8 that defines no entities."""
    out, nodes = io.BytesIO(), 0
    with zipfile.ZipFile(io.BytesIO(raw)) as packed, zipfile.ZipFile(out, "w") as plain:
        if sum(one.file_size for one in packed.infolist()) > min(
            MOST_BYTES, max(2**20, MOST_TIMES * len(raw))
        ):
            raise wrong_value("file", "is too large unpacked; send it in parts")
        for name in dict.fromkeys(packed.namelist()):
            if not name.endswith((".xml", ".rels")) or _UNREAD.match(name):
                continue
            about = packed.getinfo(name)
            if about.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{name} is neither stored nor deflated")
            with packed.open(about) as file:  # with a size: without one, all is unpacked whatever it says
                text = _DECLARATION.sub("", file.read(about.file_size + 1).decode("utf-8-sig"), count=1)
            nodes += text.count("<") - text.count("</")
            long = any(len(token) > _LONGEST_TOKEN for token in text.split(">"))
            if "<!DOCTYPE" in text or "<!ENTITY" in text or long or nodes > MOST_NODES:
                raise ValueError(f"{name} defines entities, or has over-long texts or too many cells")
            plain.writestr(name, text.replace("_x005F_", "_x005f_"))  # openpyxl would drop the former
    return out


def _shown(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return "" if value is None else _ESCAPED.sub(lambda found: chr(int(found[1], 16)), str(value))
