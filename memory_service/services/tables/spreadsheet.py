"""Spreadsheets (XLSX) with the standard library alone: one sheet written row by row, the first sheet read."""

import codecs
import csv
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from memory_service.errors import wrong_value

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

MOST_CHARACTERS = 32_767
"""Of a cell: spreadsheets cut what is longer, or refuse the file."""

MOST_BYTES = 64 * 2**20
"""Of a file that is read, unpacked."""

MOST_TIMES = 100
"""Bytes unpacked of one packed, of more than a mebibyte: a file that says much has not little to send."""

MOST_WRITTEN = 16 * 2**20
"""Characters of the table that a file becomes."""

MOST_NODES = 1_000_000
MOST_COLUMNS = 1_000

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_SHEET = "xl/worksheets/sheet1.xml"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
    f'<Override PartName="/{_SHEET}" ContentType="{_TYPE}.worksheet+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">'
    '<sheets><sheet name="rows" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
}
_AT_ONCE = 2**16
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_ESCAPED = re.compile("_x((?!0000|[dD][89A-Fa-f])[0-9A-Fa-f]{4})_")
_LONGEST_TOKEN = 1 << 18


def written(rows: Iterable[Sequence[Sequence[Any]]], sink: Any) -> Iterator[None]:
    """A workbook of one sheet, written to a sink that need not seek; yields after each part of the rows.
    Numbers and truth values as such, all else as text: no cell is a formula."""
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in _PARTS.items():
            file.writestr(name, _HEAD + text)
        with file.open(_SHEET, "w") as sheet:
            sheet.write(f'{_HEAD}<worksheet xmlns="{_MAIN}"><sheetData>'.encode())
            for part in rows:
                sheet.write("".join(f"<row>{''.join(map(_cell, row))}</row>" for row in part).encode())
                yield
            sheet.write(b"</sheetData></worksheet>")
    yield


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{value:d}</v></c>'
    if isinstance(value, int | float):
        return f"<c><v>{value!r}</v></c>"
    text = _FORBIDDEN.sub(lambda found: f"_x{ord(found[0]):04X}_", str(value)[:MOST_CHARACTERS])
    return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is></c>'


def is_spreadsheet(raw: bytes) -> bool:
    return raw.startswith(b"PK\x03\x04")


def as_csv(raw: bytes) -> str:
    """The first sheet of a workbook as CSV, each row at least as wide as the first; InvalidInput for what is
    none, or too large."""
    out = io.StringIO(newline="")
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as file:
            if sum(one.file_size for one in file.infolist()) > min(
                MOST_BYTES, max(2**20, MOST_TIMES * len(raw))
            ):
                raise wrong_value("file", "is too large unpacked; send it in parts")
            shared = "xl/sharedStrings.xml"
            texts = [_text(node) for node in _each(file, shared, "si")] if shared in file.namelist() else []
            writer, width = csv.writer(out), 0
            for row in _each(file, _first(file), "row"):
                shown = _cells(row, texts)
                width = width or len(shown)
                writer.writerow(shown + [""] * (width - len(shown)) if shown else shown)
                if out.tell() > MOST_WRITTEN:
                    raise wrong_value("file", f"holds over {MOST_WRITTEN:,} characters; send it in parts")
    except (
        zipfile.BadZipFile,
        zlib.error,
        ET.ParseError,
        LookupError,
        RuntimeError,  # encrypted, or packed in another way
        ValueError,
        EOFError,
        OSError,
        StopIteration,
    ) as error:
        raise wrong_value("file", f"cannot be read as a spreadsheet (XLSX): {error}") from error
    return out.getvalue()


def _each(file: zipfile.ZipFile, name: str, tag: str) -> Iterator[ET.Element]:
    """Elements of a part one after the other; ValueError for a part that defines entities, or never ends."""
    about = file.getinfo(name)
    if about.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is neither stored nor deflated")
    with file.open(about) as packed:
        raw = packed.read(about.file_size + 1)  # a size: without one, all is unpacked whatever the file says
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = raw.decode("utf-16" if wide else "utf-8-sig")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError(f"{name} defines entities")
    if any(len(each) > _LONGEST_TOKEN for each in text.split(">")):
        raise ValueError(f"{name} has a name, a comment or a text of over {_LONGEST_TOKEN} characters")
    parser: Any = ET.XMLPullParser(("start", "end"))
    n = 0
    for start in range(0, len(text), _AT_ONCE):
        parser.feed(text[start : start + _AT_ONCE])  # text, not bytes: no encoding that it names counts
        for event, node in parser.read_events():
            n += event == "start"
            if n > MOST_NODES:
                raise ValueError("it has too many cells")
            if event == "end" and node.tag.rpartition("}")[2] == tag:
                yield node
                node.clear()
    parser.close()


def _first(file: zipfile.ZipFile) -> str:
    """The path of the first sheet."""
    sheets = [dict(sheet.attrib) for sheet in _each(file, "xl/workbook.xml", "sheet")]
    wanted = next(value for name, value in sheets[0].items() if name.endswith("}id"))
    links = [dict(link.attrib) for link in _each(file, "xl/_rels/workbook.xml.rels", "Relationship")]
    to = {link["Id"]: link["Target"] for link in links}[wanted]
    return to.lstrip("/") if to.startswith("/") else f"xl/{to}"


def _text(node: ET.Element) -> str:
    """All its runs, without how they are spoken."""
    parts = [*node.findall("{*}t"), *node.findall("{*}r/{*}t")]
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), "".join(part.text or "" for part in parts))


def _cells(row: ET.Element, texts: Sequence[str]) -> list[str]:
    """Up to the last cell that says something."""
    shown: list[str] = []
    place = 0
    for cell in row.findall("{*}c"):
        place = _column(cell.attrib.get("r", "")) or place + 1
        if text := _shown(cell, texts):
            if place > MOST_COLUMNS:
                raise ValueError(f"it has over {MOST_COLUMNS} columns")
            shown += [""] * (place - len(shown))
            shown[place - 1] = text
    return shown


def _column(place: str) -> int:
    """`AB12` -> 28; 0 where none is said."""
    number = 0
    for letter in place[:3]:
        if not "A" <= letter <= "Z":
            break
        number = 26 * number + ord(letter) - 64
    return number


def _shown(cell: ET.Element, texts: Sequence[str]) -> str:
    kind, held = cell.attrib.get("t", "n"), cell.find("{*}v")
    value = (held.text or "") if held is not None else ""
    if kind == "inlineStr":
        inline = cell.find("{*}is")
        return "" if inline is None else _text(inline)
    if kind == "s":
        return texts[int(value)] if value else ""
    if kind == "b" and value:
        return str(value in ("1", "true"))
    if kind == "n" and value:
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    return value
