"""Does a spreadsheet leave and come back with every cell as it was, whoever wrote it, and hurt nobody?"""

from __future__ import annotations

import csv
import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.errors import InvalidInput
from memory_service.services.tables.file_formats import TableExport, in_format
from memory_service.services.tables.spreadsheet import MOST_CHARACTERS, MOST_NODES, MOST_ROWS, as_csv, written

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def book(*rows: dict[str, Any]) -> bytes:
    """The file of a table."""
    columns: dict[str, type[Any]] = dict.fromkeys((name for row in rows for name in row), str)
    return b"".join(in_format(TableExport(columns, lambda: iter([list(rows)])), "xlsx"))


def cells(raw: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(as_csv(raw), newline="")))


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
        min_size=1,
        max_size=6,
    )
)
def test_texts_come_back_as_they_were(texts: list[str]):
    """Without NUL, which no row holds: PostgreSQL refuses it, and so does the reader of rows."""
    raw = book(*({"text": "x" + text + "x"} for text in texts))
    assert [row[0] for row in cells(raw)[1:]] == ["x" + text + "x" for text in texts]


def test_numbers_are_numbers_lists_are_text_and_no_cell_is_a_formula():
    raw = book({"a": 0.1, "b": 128, "c": True, "d": None, "e": ["x", 1], "f": "=1+1", "g": "y" * 40_000})
    sheet = zipfile.ZipFile(io.BytesIO(raw)).read("xl/worksheets/sheet1.xml").decode()
    assert "<v>128</v>" in sheet
    assert "<f>" not in sheet
    assert cells(raw)[1] == ["0.1", "128", "True", "", '["x",1]', "'=1+1", "y" * MOST_CHARACTERS]


def test_a_file_that_nobody_waits_for_leaves_nothing_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pieces = written([[["a", n]] * 100 for n in range(3)])
    next(pieces)
    assert any(tmp_path.iterdir())
    pieces.close()
    assert b"".join(written([[["whole"]]]))
    assert not any(tmp_path.iterdir())


def other(
    sheet: str, shared: str = "", name: str = "sheets/first.xml", packed: int = zipfile.ZIP_STORED
) -> bytes:
    """A workbook as other programs write one: texts shared, places said, gaps left out."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packed) as file:
        kinds = {"workbook.xml": "sheet.main", name: "worksheet"}
        kinds |= {"sharedStrings.xml": "sharedStrings"} if shared else {}
        parts = "".join(f'<Override PartName="/xl/{part}" ContentType="{TYPE}.{kind}+xml"/>'
                        for part, kind in kinds.items())  # fmt: skip
        file.writestr("[Content_Types].xml", f'<Types xmlns="{PACKAGE}/content-types">{parts}</Types>')
        file.writestr("xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>'
                      '<sheet name="A" sheetId="7" r:id="rId9"/></sheets></workbook>')  # fmt: skip
        file.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{PACKAGE}/relationships">'
                      f'<Relationship Id="rId9" Type="{OFFICE}/worksheet" Target="{name}"/>'
                      "</Relationships>")  # fmt: skip
        file.writestr(f"xl/{name}", f'<worksheet xmlns="{MAIN}"><sheetData>{sheet}</sheetData></worksheet>')
        if shared:
            file.writestr("xl/sharedStrings.xml", f'<sst xmlns="{MAIN}">{shared}</sst>')
    return out.getvalue()


def test_what_other_programs_write_is_read():
    shared = "<si><t>id</t></si><si><r><t>ba</t></r><r><t>tch</t></r><rPh sb='0' eb='1'><t>no</t></rPh></si>"
    sheet = (
        '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>'
        '<row r="2"><c r="A2" t="str"><f>1</f><v>R1</v></c><c r="C2"><v>9.6000000000000002E1</v></c>'
        '<c r="D2" t="b"><v>0</v></c></row>'
        '<row r="3"><c r="A3" t="b"><v>1</v></c><c t="s"/><c r="XFD3" s="1"/></row>'
    )
    read = cells(other(sheet, shared))
    assert read == [["id", "", "batch"], ["R1", "", "96", "False"], ["True", "", ""]]


def marked(raw: bytes, local: int, central: int, value: int) -> bytes:
    """A workbook with one byte of each member's heads as another."""
    out = bytearray(raw)
    for sign, place in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        start = 0
        while (start := out.find(sign, start)) >= 0:
            out[start + place] = value
            start += 4
    return bytes(out)


def broken(raw: bytes) -> bytes:
    out = bytearray(raw)
    start = out.find(b"xl/workbook.xml") + len("xl/workbook.xml")
    out[start : start + 4] = b"\xff\xff\xff\xff"
    return bytes(out)


WIDE = "<row>" + "<c><v>1</v></c>" * 1_000 + "</row>"
DEFLATED = other("<row><c><v>1</v></c></row>", packed=zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize(
    "raw",
    [
        b"PK\x03\x04 and nothing more",
        other("<row><c><v>1</row>"),
        other('<row><c r="ZZZ1"><v>1</v></c></row>'),
        other('<row><c t="s"><v>5</v></c></row>'),
        other("</sheetData></worksheet><!DOCTYPE x [<!ENTITY a 'b'>]>"),
        book({"a": "b"}).replace(b"worksheets", b"workshells"),
        broken(DEFLATED),
        marked(DEFLATED, 6, 8, 1),  # encrypted
        marked(DEFLATED, 8, 10, 99),  # of no known method
        other("<row><c><v>1</v></c></row>", packed=zipfile.ZIP_BZIP2),
        other("<row/>" * (MOST_ROWS + 1)),
        other("<row>" + "<c/>" * MOST_NODES + "</row>"),
        other('<row r="1000000000"/>'),
    ],
)
def test_what_is_no_spreadsheet_is_refused(raw: bytes):
    with pytest.raises(InvalidInput, match="spreadsheet"):
        as_csv(raw)


def test_a_bomb_is_refused_before_it_is_unpacked():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/worksheets/sheet1.xml", b" " * (65 * 2**20))
    with pytest.raises(InvalidInput, match="unpacked"):
        as_csv(out.getvalue())


@pytest.mark.parametrize("sheet", ["<row/>" * 200_000, WIDE + '<row><c r="ALL1"><v>1</v></c></row>' * 30_000])
def test_a_small_file_becomes_no_large_table(sheet: str):
    with pytest.raises(InvalidInput, match="in parts"):
        as_csv(other(sheet, packed=zipfile.ZIP_DEFLATED))


def test_a_file_that_says_less_than_it_holds_is_not_unpacked_further():
    raw = other("<row><c><v>1</v></c></row>" + " " * 2**20, packed=zipfile.ZIP_DEFLATED)
    start = raw.rfind(b"PK\x01\x02", 0, raw.rfind(b"PK\x01\x02") + 4)
    lying = raw[: start + 24] + (300).to_bytes(4, "little") + raw[start + 28 :]
    with pytest.raises(InvalidInput, match="spreadsheet"):
        as_csv(lying)
