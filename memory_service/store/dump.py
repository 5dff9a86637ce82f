"""Backup of a PostgreSQL database: a zip of one COPY stream per table from one snapshot.

pg_dump must be at least as new as the server and is often not installed; COPY needs only the driver. The
caller's transaction is the snapshot (REPEATABLE READ). `manifest.json` holds the revision, the columns of
each table, its row count and the CRC that zip checks on reading.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, text
from sqlalchemy import column as sql_column
from sqlalchemy import table as sql_table

from memory_service.errors import InvalidInput
from memory_service.store.backend import make_private

FORMAT = "memory-service-postgresql-1"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cursor(connection: Connection) -> Any:
    return connection.connection.cursor()


def _tables(connection: Connection) -> dict[str, list[str]]:
    """Table name -> its stored (not generated) columns, parents before children."""
    columns: dict[str, list[str]] = {}
    for table, column in connection.execute(
        text(
            "SELECT c.table_name, c.column_name FROM information_schema.columns c "
            "JOIN information_schema.tables t USING (table_schema, table_name) "
            "WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' "
            "AND c.is_generated = 'NEVER' ORDER BY c.table_name, c.ordinal_position"
        )
    ):
        columns.setdefault(table, []).append(column)
    needs: dict[str, set[str]] = {table: set() for table in columns}
    for child, parent in connection.execute(
        text(
            "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint "
            "WHERE contype = 'f' AND connamespace = current_schema()::regnamespace AND conrelid <> confrelid"
        )
    ):
        needs[child.strip('"')].add(parent.strip('"'))
    ordered: dict[str, list[str]] = {}
    while len(ordered) < len(columns):
        ordered |= {t: columns[t] for t in sorted(columns) if t not in ordered and needs[t] <= ordered.keys()}
    return ordered


def write(connection: Connection, target: Path) -> None:
    """Write every table to a new file `target`; it appears only when complete."""
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    make_private(part)
    tables = _tables(connection)
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    about: dict[str, Any] = {"format": FORMAT, "revision": revision, "tables": []}
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for table, columns in tables.items():
                names = ", ".join(map(_quoted, columns))
                entry = f"{table}.copy"
                with archive.open(entry, "w", force_zip64=True) as out, _cursor(connection) as cursor:
                    with cursor.copy(f"COPY {_quoted(table)} ({names}) TO STDOUT") as stream:
                        for block in stream:
                            out.write(block)
                    rows = cursor.rowcount
                about["tables"].append({"name": table, "columns": columns, "rows": rows})
            archive.writestr("manifest.json", json.dumps(about, indent=1))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def manifest(source: Path) -> dict[str, Any]:
    """The manifest of a dump; InvalidInput when the file is not one, or is damaged."""
    try:
        with zipfile.ZipFile(source) as archive:
            damaged = archive.testzip()
            about = json.loads(archive.read("manifest.json"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{source} is not a backup of a PostgreSQL database: {error}") from error
    if damaged or not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InvalidInput(f"{source} is not a whole backup of the format {FORMAT}")
    return about


def read(connection: Connection, source: Path) -> None:
    """Replace the rows of every table by those of the file; the database stands at the file's revision."""
    about = manifest(source)
    tables = _tables(connection)
    for table in about["tables"]:
        if set(table["columns"]) - set(tables.get(table["name"], ())):
            raise InvalidInput(f"{source}: table {table['name']} does not fit this database")
    connection.execute(text("TRUNCATE " + ", ".join(map(_quoted, tables))))
    with zipfile.ZipFile(source) as archive:
        for table in about["tables"]:
            names = ", ".join(map(_quoted, table["columns"]))
            into = f"COPY {_quoted(table['name'])} ({names}) FROM STDIN"
            entry = f"{table['name']}.copy"
            with archive.open(entry) as rows, _cursor(connection) as cursor, cursor.copy(into) as stream:
                while block := rows.read(1 << 16):
                    stream.write(block)
    advance_sequences(connection)


def advance_sequences(connection: Connection) -> None:
    """The next row that gets its number here follows those that came with theirs."""
    for table, column in connection.execute(
        text(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND is_identity = 'YES'"
        )
    ):
        following: ColumnElement[int] = func.coalesce(func.max(sql_column(column)), 0) + 1
        sequence = func.pg_get_serial_sequence(_quoted(table), column)
        used = False
        connection.execute(select(func.setval(sequence, following, used)).select_from(sql_table(table)))
