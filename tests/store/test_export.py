"""A whole table leaves as CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memory_service.errors import InvalidInput, NotFound
from memory_service.schemas.rows import validate
from memory_service.services.database.transactions import Database
from memory_service.services.operations.export import EXPORTS, stream_rows
from memory_service.services.tables import file_formats
from memory_service.services.tables import table_rows as catalogue
from memory_service.services.tables.file_formats import TableExport, defused, in_format
from memory_service.store.queries import rows
from tests.registered import calibrate, register
from tests.store.fakes import competition, model
from tests.telling import case, epochs, told


def _read(database: Database, table: str, format: str, **question: object) -> str:  # noqa: A002
    pieces = stream_rows(database, table, format=format, **question)  # type: ignore[arg-type]
    return b"".join(pieces).decode()


def test_every_row_leaves_once_in_both_formats(seeded_database: Database) -> None:
    for table, count in (("competitions", 244), ("claims", 73)):
        lines = [json.loads(line) for line in _read(seeded_database, table, "jsonl").splitlines()]
        cells = list(csv.DictReader(io.StringIO(_read(seeded_database, table, "csv"), newline="")))
        assert len(lines) == len(cells) == count
        key = "slug" if table == "competitions" else "id"
        assert [line[key] for line in lines] == [cell[key] for cell in cells] == sorted(c[key] for c in cells)


def test_more_than_a_page_leaves_and_filters_hold(seeded_database: Database) -> None:
    with seeded_database.read() as unit:
        first = catalogue.list_rows(unit, "models", limit=500)
    assert first.next is not None, "the catalogue has more than one page"
    lines = _read(seeded_database, "models", "jsonl").splitlines()
    assert len(lines) > 500
    assert len({json.loads(line)["name"] for line in lines}) == len(lines)
    text = _read(seeded_database, "models", "jsonl", filters={"task": "text"}, sort="-quality_score")
    scores = [json.loads(line)["quality_score"] for line in text.splitlines()]
    assert 0 < len(scores) < len(lines)
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=x", "=cmd|' /C calc'!A0"])
def test_formulas_are_defused_in_csv_only(cell: str) -> None:
    assert defused(cell) == "'" + cell
    assert defused("a=1") == "a=1"
    assert defused(-1.5) == -1.5


def test_a_formula_in_a_title_is_text_in_csv_and_itself_in_json(database: Database) -> None:
    title = '=HYPERLINK("http://x","click")'
    with database.write() as unit:
        values = competition(title=title, description='"quoted", with\nlines', n_train=None)
        catalogue.create_row(unit, "competitions", values, who="ada")
    (row,) = csv.DictReader(io.StringIO(_read(database, "competitions", "csv"), newline=""))
    assert row["title"] == "'" + title
    assert row["description"] == '"quoted", with\nlines'
    assert row["n_train"] == ""
    assert json.loads(_read(database, "competitions", "jsonl"))["title"] == title


def test_an_empty_table_has_its_header(database: Database) -> None:
    assert _read(database, "gpus", "csv").startswith("slug,name,kind,")
    assert _read(database, "gpus", "jsonl") == ""


def test_what_is_wrong_is_said_before_the_first_piece(database: Database) -> None:
    for table, format_, question in (
        ("nonsense", "csv", {}),
        ("gpus", "xml", {}),
        ("gpus", "csv", {"sort": "colour"}),
        ("gpus", "csv", {"filters": {"colour": 1}}),
    ):
        with pytest.raises(InvalidInput):
            stream_rows(database, table, format=format_, **question)


def test_rows_that_come_and_go_meanwhile_break_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats, "PIECE_BYTES", 1)
    with database.write() as unit:
        about = rows.bookkeeping("user", unit.now)
        many = [validate("models", model(f"m-{number:04d}")) | about for number in range(1_100)]
        rows.insert_all(unit.session, "models", many)
    pieces = iter(stream_rows(database, "models", format="jsonl"))
    text = next(pieces).decode()
    with database.write() as unit:
        catalogue.delete_row(unit, "models", "m-0499", who="ada", why="t")
        catalogue.create_row(unit, "models", model("m-0700-b"), who="ada")
    names = [json.loads(line)["name"] for line in (text + b"".join(pieces).decode()).splitlines()]
    assert len(names) == len(set(names)) == 1_101
    assert names == sorted(names)


def test_a_file_that_was_made_before_leaves_until_a_row_changes(
    seeded_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"filters": {"task": "text"}, "sort": "-quality_score"}
    first = _read(seeded_database, "models", "csv", **asked)
    with monkeypatch.context() as patched:
        patched.setattr("memory_service.services.operations.export.one_page", None)  # reads no row again
        assert _read(seeded_database, "models", "csv", **asked) == first
    assert _read(seeded_database, "models", "csv") != first
    key = json.loads(_read(seeded_database, "models", "jsonl", **asked).splitlines()[0])["name"]
    for source in ("corrected", "and again"):
        with seeded_database.write() as unit:
            catalogue.update_row(unit, "models", key, {"source": source}, who="ada", why="t")
        cells = csv.DictReader(io.StringIO(_read(seeded_database, "models", "csv", **asked), newline=""))
        assert {row["source"] for row in cells if row["name"] == key} == {source}
    with seeded_database.write() as unit:
        catalogue.delete_row(unit, "models", key, who="ada", why="t")
    assert key not in _read(seeded_database, "models", "csv", **asked)


def test_of_rows_that_changed_meanwhile_no_file_is_kept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats, "PIECE_BYTES", 1)
    for number in range(3):
        with database.write() as unit:
            catalogue.create_row(unit, "models", model(f"m-{number}"), who="ada")
    pieces = iter(stream_rows(database, "models", format="csv"))
    next(pieces)
    with database.write() as unit:
        catalogue.delete_row(unit, "models", "m-1", who="ada", why="t")
    list(pieces)
    assert "m-1" not in _read(database, "models", "csv")


def test_parquet_has_types_and_every_row(seeded_database: Database) -> None:
    table = _parquet(stream_rows(seeded_database, "models", format="parquet"))
    assert table.num_rows > 500
    types = {field.name: str(field.type) for field in table.schema}
    assert (types["params_m"], types["pretrained"]) == ("double", "bool")
    assert types["updated_at"] == "timestamp[us, tz=UTC]"
    assert json.loads(table.column("tasks")[0].as_py())


def test_every_table_leaves_alike_in_every_format(seeded_database: Database) -> None:
    register(seeded_database, "box", "a100")
    calibrate(seeded_database, "box", "a100", {"matmul_4096_fp16": 200.0})
    plan = {"events": epochs(0.2, train_loss="nan", peak_allocated_gib=9.5, peak_reserved_gib=10.5)}
    run_id = told(seeded_database, case(gpu="box"), plan["events"], submission=True)["id"]
    empty = []
    for name in EXPORTS:
        filters = {"run_id": run_id} if name == "run-events" else {}
        lines = [
            json.loads(line) for line in _read(seeded_database, name, "jsonl", filters=filters).splitlines()
        ]
        cells = list(
            csv.DictReader(io.StringIO(_read(seeded_database, name, "csv", filters=filters), newline=""))
        )
        table = _parquet(stream_rows(seeded_database, name, filters, format="parquet"))
        assert len(lines) == len(cells) == table.num_rows, name
        assert all(line.keys() <= set(table.column_names) for line in lines), name
        assert all(list(row) == table.column_names for row in cells), name
        empty += [] if lines else [name]
    assert not empty
    told_it = _parquet(stream_rows(seeded_database, "run-events", {"run_id": run_id}, format="parquet"))
    assert math.isnan(told_it.column("train_loss")[0].as_py())
    lines = _read(seeded_database, "run-events", "jsonl", filters={"run_id": run_id}).splitlines()
    assert json.loads(lines[0])["train_loss"] == "nan"


def test_patterns_leave_with_how_often_they_were_served_and_followed(seeded_database: Database) -> None:
    first = next(csv.DictReader(io.StringIO(_read(seeded_database, "patterns", "csv"), newline="")))
    assert (first["served"], first["followed"], first["better"], first["worse"]) == ("0", "0", "0", "0")
    assert "outcomes" not in first


def test_filters_and_sorts_hold_for_what_is_computed(seeded_database: Database) -> None:
    for gpu in ("a100", "t4", "t4"):
        told(seeded_database, case(gpu=gpu, precision="fp16", batch_size=32), epochs(0.2))
    pairs = [
        json.loads(line)
        for line in _read(seeded_database, "accuracy", "jsonl", filters={"gpu": "t4"}).splitlines()
    ]
    assert len({pair["run_id"] for pair in pairs}) == 2
    assert {pair["gpu"] for pair in pairs} == {"t4"}
    assert all(pair["error_percent"] == 100 * (pair["predicted"] / pair["actual"] - 1) for pair in pairs)
    assert _read(seeded_database, "observations", "jsonl", filters={"gpu": "a100"}).count("\n") == 1
    for table, filters in (("accuracy", {"gpo": "t4"}), ("run-events", {}), ("conflicts", {"colour": "red"})):
        with pytest.raises(InvalidInput):
            stream_rows(seeded_database, table, filters)
    with pytest.raises(NotFound):
        stream_rows(seeded_database, "run-events", {"run_id": "0" * 32})


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_memory_stays_flat_however_many_rows_leave(form: str) -> None:
    def pages(count: int) -> Iterator[list[dict[str, object]]]:
        for start in range(0, count, 500):
            yield [
                {"id": f"{n:040d}", "figure": n / 7.0, "nested": {"n": n}} for n in range(start, start + 500)
            ]

    def peak(count: int) -> int:
        table = TableExport({"id": str, "figure": float, "nested": object}, lambda: pages(count))
        tracemalloc.start()
        for _ in in_format(table, form):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(500)
    assert peak(90_000) < 1.5 * peak(30_000)


def test_a_row_group_of_parquet_is_bounded_by_its_characters() -> None:
    table = TableExport({"text": str}, lambda: iter([[{"text": "x" * 1_000_000}]] * 20))
    file = pq.ParquetFile(pa.BufferReader(b"".join(in_format(table, "parquet"))))
    rows_of_groups = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
    assert rows_of_groups == [8, 8, 4]


def _parquet(pieces: Iterable[bytes]) -> Any:
    return pq.read_table(pa.BufferReader(b"".join(pieces)))
