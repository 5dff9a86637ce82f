"""An exported table comes back from a spreadsheet: what was edited is one change, undone as one."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from memory_service.errors import InvalidInput, Moved, NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.editorial.curation import correct_row, undo_together
from memory_service.services.editorial.import_file import apply, import_file, look, stamp
from memory_service.services.operations.export import stream_rows
from memory_service.services.tables.spreadsheet import as_csv
from memory_service.services.tables.table_rows import CORRECTABLE, get_row, history_of
from tests.store.fakes import HashEncoder

Cells = list[dict[str, str]]


def exported(database: Database, table: str, form: str = "csv") -> str:
    return b"".join(stream_rows(database, table, format=form)).decode()


def cells_of(text: str) -> Cells:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def written(cells: Cells, delimiter: str = ",") -> str:
    """As a spreadsheet writes it: a byte order mark, quotes where they are needed."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(cells[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(cells)
    return "\ufeff" + out.getvalue()


def row_of(database: Database, table: str, key: str) -> dict[str, Any]:
    with database.read() as transaction:
        row = get_row(transaction, table, key)
    return {n: v for n, v in row.items() if n not in ("version", "updated_at", "corrected")}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_every_exported_row_of_every_table_is_known_again(seeded_database: Database, form: str) -> None:
    for table in CORRECTABLE:
        lines = look(seeded_database, exported(seeded_database, table, form))
        assert {one.table for one in lines} == {table}
        assert [one for one in lines if one.outcome != "there"] == []


def test_decimal_commas_are_read_and_what_may_be_a_thousand_is_not(seeded_database: Database) -> None:
    cells = cells_of(exported(seeded_database, "strategies"))
    name = "value.speedup_factor_max"
    row = next(row for row in cells if row["id"] == "R08-zero-workers")
    assert json.loads(row.pop("value"))["speedup_factor_max"] == 1.7
    for cell, outcome in (("1,7", "there"), ("1,85", "changed"), ("1,024", "refused")):
        (line,) = look(seeded_database, written([row | {name: cell}], ";"))
        assert (cell, line.outcome) == (cell, outcome)
        told = [(change["field"], change["after"]) for change in line.changes]
        assert told == ([(name, 1.85)] if outcome == "changed" else [])


def test_edited_cells_are_one_change_with_one_reason_and_undone_as_one(seeded_database: Database) -> None:
    database = seeded_database
    cells = cells_of(exported(database, "strategies"))
    for row in cells:
        row.update({n: v.upper() for n, v in row.items() if v in ("True", "False")})  # as spreadsheets do
    edited = {row["id"]: row for row in cells}
    edited["R14-reserve"]["value"] = '{"reserve_percent": 20}'
    edited["R02-start"]["statement"] = "=1+1 is no formula here"
    edited["R03-a100-image-224"]["value"] = '{"batch_size": "many"}'
    edited["R03-a100-image-384"]["followed"] = "maybe"
    cells.append(dict.fromkeys(cells[0], "") | {"id": "R99-own", "rule": "R99", "table": "review"})
    cells[-1] |= {"key": "{}", "value": "{}", "statement": "A rule of our own.", "followed": "FALSE"}
    before = {key: row_of(database, "strategies", key) for key in ("R14-reserve", "R02-start")}
    lines = look(database, written(cells, ";"), "strategies")
    found = {str(one.key): one for one in lines if one.outcome != "there"}
    assert {key: one.outcome for key, one in found.items()} == {
        "R14-reserve": "changed", "R02-start": "changed", "R99-own": "taken",
        "R03-a100-image-224": "refused", "R03-a100-image-384": "refused",
    }  # fmt: skip
    (change,) = found["R14-reserve"].changes
    assert (change["field"], change["before"], change["after"]) == ("value.reserve_percent", 15, 20)
    assert "batch_size" in str(found["R03-a100-image-224"].why)
    assert "followed" in str(found["R03-a100-image-384"].why)
    number = apply(database, lines, encoder=HashEncoder, who="ada", why="from our table")
    assert number is not None
    assert row_of(database, "strategies", "R14-reserve")["value"] == {"reserve_percent": 20}
    assert row_of(database, "strategies", "R02-start")["statement"] == "=1+1 is no formula here"
    assert row_of(database, "strategies", "R99-own")["origin"] == "user"
    again = look(database, exported(database, "strategies"))
    assert {one.outcome for one in again} == {"there"}
    undo_together(database, number, encoder=HashEncoder, who="ben")
    assert {key: row_of(database, "strategies", key) for key in before} == before
    with pytest.raises(NotFound):
        row_of(database, "strategies", "R99-own")
    with database.read() as transaction:
        entry, told, *_ = history_of(transaction, "strategies", "R14-reserve")
    assert (told["who"], told["why"], entry["who"]) == ("ada", "from our table", "ben")


def test_a_row_that_moved_since_the_export_is_refused_where_both_changed_it(
    seeded_database: Database,
) -> None:
    database = seeded_database
    cells = cells_of(exported(database, "gpus"))
    mine, other = (next(row for row in cells if row["slug"] == slug) for slug in ("a100", "t4"))
    for row in (mine, other):
        row["tdp_w"] = "111.5"
    for slug, field, value in (("a100", "tdp_w", 222.0), ("t4", "year", 2001)):
        correct_row(database, "gpus", slug, {field: value}, encoder=HashEncoder)
    found = {one.key: one for one in look(database, written(cells)) if one.outcome != "there"}
    assert (found["a100"].outcome, found["t4"].outcome) == ("refused", "changed")
    assert "tdp_w" in str(found["a100"].why)
    assert found["t4"].values == {"tdp_w": 111.5}
    shown = stamp(look(database, written(cells)))
    correct_row(database, "gpus", "t4", {"year": 2002}, encoder=HashEncoder)
    assert stamp(look(database, written(cells))) != shown


def test_a_cell_that_a_spreadsheet_cut_is_not_taken_as_the_whole(seeded_sqlite: Database) -> None:
    text = "begin " + " ".join(f"word{n}" for n in range(5_000)) + " THE END"
    correct_row(seeded_sqlite, "competitions", "AI4Code", {"description": text}, encoder=HashEncoder)
    sheet = as_csv(b"".join(stream_rows(seeded_sqlite, "competitions", format="xlsx")))
    cells = [row for row in cells_of(sheet) if row["slug"] == "AI4Code"]
    cut = cells[0]["description"]
    assert len(cut) < len(text)

    def outcome(description: str) -> str:
        cells[0]["description"] = description
        (line,) = look(seeded_sqlite, written(cells))
        return line.outcome

    assert outcome(cut) == "there"
    assert outcome(cut.replace("begin", "BEGIN")) == "refused"
    assert outcome(cut.replace("begin ", "")[2_000:]) == "refused"
    assert outcome("A short one.") == "changed"
    assert outcome(text.replace("begin", "BEGIN")) == "changed"


def test_competitions_with_their_solutions_come_in_one_file_and_nothing_is_kept_of_half(
    database: Database, tmp_path: Path
) -> None:
    rows = [
        {"slug": "bat-calls", "title": "Bats", "description": "Count bats in recordings of caves."},
        {"id": "p1", "scope": "competition", "competition": "bat-calls", "kind": "loss", "statement": "Yes."},
    ]
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join(map(json.dumps, reversed(rows))), "utf-8")
    lines = import_file(database, file, encoder=HashEncoder, who="ada")
    assert [one.outcome for one in lines] == ["taken", "taken"]
    with database.read() as transaction:
        number = history_of(transaction, "patterns", "p1")[0]["id"]
    correct_row(database, "patterns", "p1", {"statement": "No."}, encoder=HashEncoder)
    with pytest.raises(Moved):
        undo_together(database, number, encoder=HashEncoder)
    assert row_of(database, "competitions", "bat-calls")["title"] == "Bats"
    cells = cells_of(exported(database, "competitions"))
    cells[0]["teams"] = "12"
    file.write_text(written(cells), "utf-8")
    (line,) = import_file(database, file, encoder=HashEncoder, who="ada")
    assert (line.outcome, "say why" in str(line.why)) == ("refused", True)
    (line,) = import_file(database, file, encoder=HashEncoder, who="ada", why="counted")
    assert line.outcome == "changed"
    assert row_of(database, "competitions", "bat-calls")["teams"] == 12


def test_what_is_no_table_is_refused_whole(database: Database) -> None:
    for text in ("", "colour,shape\nred,round\n", "slug,title,slug\na,b,c\n"):
        with pytest.raises(InvalidInput):
            look(database, text, "competitions")
    (line,) = look(database, "slug\ttitle\na\tb\tc\n", "competitions")
    assert (line.outcome, "3 cells" in str(line.why)) == ("refused", True)
