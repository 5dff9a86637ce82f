"""A restore takes only what this service wrote, and refuses the rest before anything is written."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memory_service.errors import InvalidInput, WrongRevision
from memory_service.services.database.transactions import Database
from memory_service.services.operations import database as databases
from memory_service.store import postgresql
from tests.conftest import Servers

EVIL = "CREATE TRIGGER evil AFTER INSERT ON api_keys BEGIN UPDATE api_keys SET scopes = '[\"admin\"]'; END"


def spoiled(tmp_path: Path, database: Database, *statements: str) -> Path:
    """A backup to which somebody did something."""
    file = databases.backup(database, tmp_path / "saved.sqlite3")
    with closing(sqlite3.connect(file)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return file


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (EVIL, "trigger evil"),
        ("CREATE VIEW keys AS SELECT * FROM api_keys", "view keys"),
        ("CREATE TABLE invoices (id INTEGER)", "table invoices"),
        ("PRAGMA application_id = 252006674", "the mark 0xf055112"),
        ("DROP TABLE knowledge", "no backup of this service"),
        ("DROP TABLE alembic_version", "no backup of this service"),
    ],
)
def test_a_backup_with_what_is_not_ours_is_refused(
    servers: Servers, opened: Callable[[str], Database], tmp_path: Path, statement: str, why: str
):
    file = spoiled(tmp_path, opened(servers.new("sqlite")), statement)
    fresh = opened(servers.new("sqlite", None))
    with pytest.raises(InvalidInput, match=why):
        databases.restore(fresh, file)
    assert databases._standing(fresh) == (None, True)


def test_a_trigger_of_ours_that_does_something_else_is_refused(
    servers: Servers, opened: Callable[[str], Database], tmp_path: Path
):
    other = "CREATE TRIGGER passages_words_delete AFTER DELETE ON passages BEGIN DELETE FROM api_keys; END"
    file = spoiled(tmp_path, opened(servers.new("sqlite")), "DROP TRIGGER passages_words_delete", other)
    with pytest.raises(InvalidInput, match="trigger passages_words_delete"):
        databases.restore(opened(servers.new("sqlite", None)), file)


def test_the_file_of_another_program_is_refused(
    servers: Servers, opened: Callable[[str], Database], tmp_path: Path
):
    file = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    fresh = opened(servers.new("sqlite", None))
    with pytest.raises(InvalidInput, match="table bookmarks"):
        databases.restore(fresh, file)
    assert databases._standing(fresh) == (None, True)


def test_a_backup_of_a_newer_program_is_refused_before_anything_is_written(
    servers: Servers, opened: Callable[[str], Database], tmp_path: Path
):
    file = spoiled(tmp_path, opened(servers.new("sqlite")), "UPDATE alembic_version SET version_num = '9999'")
    fresh = opened(servers.new("sqlite", None))
    with pytest.raises(WrongRevision, match="9999"):
        databases.restore(fresh, file)
    assert databases._standing(fresh) == (None, True)


def test_a_dump_with_a_foreign_table_is_refused(
    servers: Servers, opened: Callable[[str], Database], tmp_path: Path
):
    file = databases.backup(opened(servers.new("postgresql")), tmp_path / "saved.zip")
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    about = json.loads(parts["manifest.json"])
    about["tables"].append({"name": "invoices", "columns": ["id"], "rows": 0})
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in {**parts, "manifest.json": json.dumps(about).encode()}.items():
            archive.writestr(name, part)
    with pytest.raises(InvalidInput, match="table invoices"):
        databases.restore(opened(servers.new("postgresql", None)), file)


def test_a_restore_that_is_cut_off_leaves_nothing_and_can_be_given_again(
    servers: Servers,
    opened: Callable[[str], Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """The tables were made in a transaction of their own: killed after it, a restore left a database without
    rows that a check found sound and that no restore would fill."""
    file = databases.backup(opened(servers.new("postgresql")), tmp_path / "saved")
    fresh = opened(servers.new("postgresql", None))
    with monkeypatch.context() as patch:
        patch.setattr(postgresql, "advance_sequences", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            databases.restore(fresh, file)
    assert databases._standing(fresh) == (None, True)
    databases.restore(fresh, file)
    assert databases.check(fresh).problems == ()


def test_a_check_names_triggers_and_views_that_are_not_ours(database: Database, kind: str):
    assert databases.check(database).problems == ()
    trigger = EVIL
    if kind == "postgresql":
        trigger = (
            "CREATE TRIGGER evil BEFORE UPDATE ON api_keys FOR EACH ROW "
            "EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        )
    with database.engine.begin() as connection:
        connection.exec_driver_sql(trigger)
        connection.exec_driver_sql("CREATE VIEW names AS SELECT name FROM models")
    problems = " ".join(databases.check(database).problems)
    assert "trigger evil is not this service's" in problems
    assert "view names is not this service's" in problems


def test_the_file_says_whose_it_is(servers: Servers, opened: Callable[[str], Database]):
    with opened(servers.new("sqlite")).read() as transaction:
        mark = transaction.session.connection().exec_driver_sql("PRAGMA application_id").scalar()
    assert mark == int.from_bytes(b"mems")
