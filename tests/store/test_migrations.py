"""Migrations go up and down and match the tables; a wrong revision is refused, or upgraded after a backup."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, inspect, text

from memory_service import resources
from memory_service.domain.runs.pattern_effect import EXACT, Tally
from memory_service.errors import Conflict, InvalidInput, NotFound, Unavailable, WrongRevision
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.editorial.curation import add_row
from memory_service.services.operations import database as databases
from memory_service.services.runs.observations import count_waste
from memory_service.services.runs.runs import run_page
from memory_service.services.tables import table_rows as catalogue
from memory_service.store import migrations
from memory_service.store.queries import outcomes, passages
from tests.conftest import Servers
from tests.processes import PROCESSES
from tests.store.fakes import HashEncoder, competition

Opener = Callable[[str], Database]

ADDED: dict[str, Any] = {"who": "ada", "why": "a test"}


@pytest.fixture
def fresh(opened: Opener, empty_url: str) -> Database:
    return opened(empty_url)


def _fill(database: Database) -> None:
    add_row(database, "competitions", competition(title="Übung 🌿\\N\t"), encoder=HashEncoder, who="ada")
    add_row(database, "competitions", competition("second"), encoder=lambda: None, who="ada")
    with database.write() as unit:
        catalogue.update_row(unit, "competitions", "second", {"n_train": 5}, **ADDED)


def test_up_down_up_and_the_tables_match_the_metadata(fresh: Database) -> None:
    assert databases.upgrade(fresh).after == migrations.head()
    with fresh.read() as unit:
        assert migrations.differences(unit.session.connection()) == []
    assert databases.upgrade(fresh, "base").after is None
    with fresh.read() as unit:
        left = set(inspect(unit.session.connection()).get_table_names())
    assert left <= {"alembic_version"}
    assert databases.upgrade(fresh).after == migrations.head()
    assert databases.check(fresh).problems == ()
    assert databases.upgrade(fresh).backup is None, "nothing to do, nothing saved"


def test_a_difference_is_seen(fresh: Database) -> None:
    databases.upgrade(fresh)
    with fresh.engine.begin() as connection:
        Table("unheard_of", MetaData(), Column("id", Integer, primary_key=True)).create(connection)
        connection.execute(text("ALTER TABLE claims ADD COLUMN more INTEGER"))
        fresh.dialect.drop_search(connection)
    problems = " ".join(databases.check(fresh).problems)
    for name in ("unheard_of", "more", "passages_words"):
        assert name in problems


def test_a_database_of_a_newer_program_is_refused(fresh: Database) -> None:
    databases.upgrade(fresh)
    with fresh.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'f00d'"))
    for action in (databases.upgrade, databases.ensure_ready):
        with pytest.raises(WrongRevision, match="newer program"):
            action(fresh)
    assert "f00d" in databases.check(fresh).problems[0]


def test_an_empty_server_database_is_refused_with_the_command(opened: Opener, servers: Servers) -> None:
    url = servers.new("postgresql", None)
    database = opened(url)
    with pytest.raises(WrongRevision, match="memory-service db upgrade"):
        databases.ensure_ready(database)


def test_the_embedded_database_is_made_and_seeded_by_itself(opened: Opener, servers: Servers) -> None:
    url = servers.new("sqlite", None)
    ready = databases.ensure_ready(opened(url))
    assert ready.upgraded is not None
    assert ready.upgraded.backup is None, "there was nothing to save"
    assert ready.seeded is not None
    assert ready.seeded.tables["competitions"].added == 244
    again = databases.ensure_ready(opened(url))
    assert (again.upgraded, again.seeded) == (None, None)


def test_the_embedded_database_is_saved_before_it_is_migrated(opened: Opener, servers: Servers) -> None:
    database = opened(servers.new("sqlite"))
    _fill(database)
    report = databases.upgrade(database, "base")
    assert report.backup is not None
    restored = opened(servers.new("sqlite", None))
    databases.restore(restored, report.backup)
    with restored.read() as unit:
        assert len(catalogue.list_rows(unit, "competitions").items) == 2


def test_a_file_that_is_no_database_is_refused(opened: Opener, tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    path.write_bytes(b"this is a letter, not a database" * 100)
    with pytest.raises(Unavailable):
        databases.ensure_ready(opened(f"sqlite:///{path}"))
    assert path.read_bytes().startswith(b"this is a letter")


@pytest.mark.parametrize(
    "url", ["mysql://x", "", "sqlite://", "sqlite:///:memory:", "nonsense", "postgresql+asyncpg//"]
)
def test_a_url_of_no_use_is_refused(opened: Opener, url: str) -> None:
    with pytest.raises(InvalidInput, match="database"):
        opened(url)


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Unavailable, match="cannot be made"):
        Database(f"sqlite:///{tmp_path}/file/memory.sqlite3")
    with pytest.raises(Unavailable):
        databases.ensure_ready(Database(f"sqlite:///{tmp_path}"))


def test_a_server_that_does_not_answer_is_unavailable(opened: Opener) -> None:
    with pytest.raises(Unavailable):
        databases.ensure_ready(opened("postgresql://nobody@127.0.0.1:1/nothing"))


def test_backup_and_restore_bring_everything_back(
    opened: Opener, database: Database, servers: Servers, kind: str, tmp_path: Path
) -> None:
    _fill(database)
    target = tmp_path / "saved"
    databases.backup(database, target)
    with pytest.raises(Conflict, match="exists"):
        databases.backup(database, target)
    copy = opened(servers.new(kind, None))
    databases.restore(copy, target)
    assert databases.check(copy).problems == ()
    with database.read() as old, copy.read() as new:
        for table in ("competitions", "patterns"):
            assert catalogue.list_rows(new, table) == catalogue.list_rows(old, table)
        key = "leaf-counting"
        assert catalogue.history_of(new, "competitions", key) == catalogue.history_of(
            old, "competitions", key
        )
        vectors = passages.all_vectors(old.session).vectors
        assert (passages.all_vectors(new.session).vectors == vectors).all()
        assert passages.search_words(new.session, "leaves potted", 5)
    assert copy.knowledge_revision() == database.knowledge_revision()
    add_row(copy, "competitions", competition("after"), encoder=lambda: None, who="ada")
    with pytest.raises(Conflict, match="not empty"):
        databases.restore(copy, target)


def test_a_backup_is_taken_while_others_write(
    opened: Opener, database: Database, tmp_path: Path, servers: Servers, kind: str
) -> None:
    _fill(database)
    with database.write() as unit:
        catalogue.create_row(unit, "competitions", competition("not-yet-there"), **ADDED)
        databases.backup(database, tmp_path / "saved")
    copy = opened(servers.new(kind, None))
    databases.restore(copy, tmp_path / "saved")
    with copy.read() as other:
        assert len(catalogue.list_rows(other, "competitions").items) == 2


def test_what_is_no_backup_is_refused(fresh: Database, tmp_path: Path) -> None:
    for name, content in (("letter", b"dear all"), ("nothing", b"")):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput):
        databases.restore(fresh, tmp_path / "letter")
    with pytest.raises(InvalidInput, match="does not exist"):
        databases.restore(fresh, tmp_path / "absent")
    with pytest.raises(Unavailable, match="nothing to save"):
        databases.backup(fresh, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_cut_backup_is_refused(
    opened: Opener, database: Database, servers: Servers, kind: str, tmp_path: Path
) -> None:
    _fill(database)
    whole = databases.backup(database, tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: len(whole) * 2 // 3])
    copy = opened(servers.new(kind, None))
    with pytest.raises(InvalidInput):
        databases.restore(copy, tmp_path / "cut")


def _upgrade(url: str) -> None:
    databases.upgrade(Database(url))


def test_processes_that_upgrade_at_once_all_succeed(opened: Opener, empty_url: str) -> None:
    processes = [PROCESSES.Process(target=_upgrade, args=(empty_url,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert databases.check(opened(empty_url)).problems == ()


def test_the_embedded_database_runs_in_wal_mode_with_foreign_keys(opened: Opener, servers: Servers) -> None:
    url = servers.new("sqlite")
    with opened(url).read() as unit:
        read = unit.session.connection().exec_driver_sql
        pragmas = {
            name: read(f"PRAGMA {name}").scalar() for name in ("journal_mode", "foreign_keys", "synchronous")
        }
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2}
    with sqlite3.connect(url.removeprefix("sqlite:///")) as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    plain.close()


HEAD = migrations.head()

NEXT = """
from alembic import op
import sqlalchemy as sa

revision = "9999"
down_revision = "{head}"


def upgrade():
    with op.batch_alter_table("competitions") as table:
        table.add_column(sa.Column("language", sa.String(), nullable=True))
    op.execute("UPDATE competitions SET language = 'en'")
    {then}


def downgrade():
    with op.batch_alter_table("competitions") as table:
        table.drop_column("language")
"""


@pytest.fixture
def newer_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives this program one more migration, which ends with the given statement."""

    def install(then: str = "pass") -> None:
        folder = tmp_path / "migrations"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(resources.path("migrations"), folder, dirs_exist_ok=True, ignore=ignored)
        (folder / "versions" / "9999_next.py").write_text(NEXT.format(then=then, head=HEAD))
        monkeypatch.setattr(resources, "path", tmp_path.joinpath)

    return install


def _languages(database: Database) -> list[str]:
    with database.read() as unit:
        return list(unit.session.scalars(text("SELECT language FROM competitions")))


def test_an_older_database_is_upgraded_after_a_backup_or_refused(
    opened: Opener, database: Database, servers: Servers, newer_program: Callable[[], None], kind: str
) -> None:
    _fill(database)
    newer_program()
    if kind == "postgresql":
        with pytest.raises(WrongRevision, match="memory-service db upgrade"):
            databases.require_head(database)
        assert HEAD in databases.check(database).problems[0]
        report = databases.upgrade(database)
    else:
        made = databases.require_head(database)
        assert made is not None
        report = made
        assert report.backup is not None
        saved = opened(f"sqlite:///{report.backup}")
        with saved.read() as unit:
            assert migrations.current(unit.session.connection()) == HEAD
            assert len(catalogue.list_rows(unit, "competitions").items) == 2
    assert (report.before, report.after) == (HEAD, "9999")
    assert _languages(database) == ["en", "en"]
    with database.read() as unit:
        assert len(passages.all_vectors(unit.session).ids) > 0, "rebuilding a table cascades to no other"
    assert databases.upgrade(database, HEAD).after == HEAD
    with database.read() as unit:
        assert migrations.differences(unit.session.connection()) == []
        assert len(passages.all_vectors(unit.session).ids) > 0


def test_a_migration_that_fails_changes_nothing(
    database: Database, newer_program: Callable[[str], None]
) -> None:
    _fill(database)
    newer_program("raise RuntimeError('half way')")
    with pytest.raises(RuntimeError, match="half way"):
        databases.upgrade(database)
    with database.read() as unit:
        connection = unit.session.connection()
        assert migrations.current(connection) == HEAD
        assert migrations.differences(connection) == []
        assert len(catalogue.list_rows(unit, "competitions").items) == 2
    add_row(database, "competitions", competition("after"), encoder=lambda: None, who="ada")


def _kept_before(database: Database, revision: str) -> dict[str, list[dict[str, Any]]]:
    """A database at a revision, with what the program of that time kept in it."""
    kept = json.loads((Path(__file__).parent / "before" / f"{revision}.json").read_text(encoding="utf-8"))
    databases.upgrade(database, revision)
    with database.write() as unit:
        connection = unit.session.connection()
        for table, rows in kept.items():
            names = ", ".join(f'"{name}"' for name in rows[0])
            values = ", ".join([database.dialect.mark] * len(rows[0]))
            into = f'INSERT INTO "{table}" ({names}) VALUES ({values})'
            for row in rows:
                connection.exec_driver_sql(into, tuple(row.values()))
    return dict(kept)


def test_what_an_older_program_kept_is_still_there_after_the_upgrade(opened: Opener, empty_url: str) -> None:
    """`before/0005.json` was written by the API of the program whose tables are those of revision 0005."""
    database = opened(empty_url)
    kept = _kept_before(database, "0005")
    databases.upgrade(database)
    assert databases.check(database).problems == ()
    with database.read() as unit:
        row = catalogue.get_row(unit, "competitions", kept["competitions"][0]["slug"])
        assert len(catalogue.history_of(unit, "competitions", row["slug"])) == len(kept["history"])
    assert count_waste(database) == len(kept["runs"])
    assert count_waste(database) == 0, "each once"
    with database.read() as unit:
        rows = catalogue.list_rows(unit, "runs", sort="-wasted_minutes").items
    wasted = [(row["wasted_minutes"], row["wasted_on"]) for row in rows]
    assert wasted == [(0.0, None)] * 2, "counted: a prediction without own runs makes no run slow"
    for run in kept["runs"]:
        page = run_page(database, run["id"])
        told = json.loads(run["prediction"])
        assert (page["status"], page["best_metric"]) == (run["status"], run["best_metric"])
        assert page["prediction"]["peak_memory_gib"] == told["peak_memory_gib"]
        events = [event for event in kept["run_events"] if event["run_id"] == run["id"]]
        assert page["outcome"]["epochs_done"] == len(events)


def test_runs_and_corrections_of_before_solutions_are_still_there(opened: Opener, empty_url: str) -> None:
    """`before/0009.json`: a run, a competition and a pattern of a person's, and a shipped row corrected."""
    database = opened(empty_url)
    kept = _kept_before(database, "0009")
    assert databases.upgrade(database).after == migrations.head()
    assert databases.check(database).problems == ()
    report = seeding.seed(database)
    assert (report.tables["competitions"].kept, report.tables["solutions"].added > 300) == (2, True)
    with database.read() as unit:
        for row in kept["competitions"]:
            now = catalogue.get_row(unit, "competitions", row["slug"])
            assert {name: now[name] for name in ("title", "n_train", "n_classes", "split", "version")} == {
                name: row[name] for name in ("title", "n_train", "n_classes", "split", "version")
            }
            assert (now["group_by"], now["teams"]) == (None, None)
            told = [entry for entry in kept["history"] if entry["row"] == row["slug"]]
            assert len(catalogue.history_of(unit, "competitions", row["slug"])) == len(told)
        assert catalogue.get_row(unit, "patterns", kept["patterns"][0]["id"])["origin"] == "user"
    (run,) = kept["runs"]
    assert run_page(database, run["id"])["best_metric"] == run["best_metric"] == 0.4
    with database.write() as unit:
        new = {"competition": "ops-tiles", "rank": 1, "techniques": ["tta"]}
        catalogue.create_row(unit, "solutions", new, **ADDED)
    databases.upgrade(database, "0009")
    databases.upgrade(database)
    with database.read() as unit:
        assert catalogue.list_rows(unit, "solutions").items == []
        assert catalogue.get_row(unit, "competitions", "ops-tiles")["n_train"] == 12_500
        with pytest.raises(NotFound):
            catalogue.history_of(unit, "solutions", "ops-tiles#1")


def test_runs_and_corrections_of_the_last_revision_before_1_0_are_still_there(
    opened: Opener, empty_url: str
) -> None:
    """`before/0012.json`: a competition, a solution and a run of a person's, and a shipped row corrected."""
    database = opened(empty_url)
    kept = _kept_before(database, "0012")
    assert databases.upgrade(database).after == migrations.head()
    assert databases.check(database).problems == ()
    assert seeding.seed(database).tables["competitions"].kept == 2
    with database.read() as unit:
        for row in kept["competitions"]:
            assert catalogue.get_row(unit, "competitions", row["slug"])["n_train"] == row["n_train"]
            told = [entry for entry in kept["history"] if entry["row"] == row["slug"]]
            assert len(catalogue.history_of(unit, "competitions", row["slug"])) == len(told) > 0
        assert catalogue.get_row(unit, "solutions", "own-apples#1")["techniques"] == ["tta"]
    (run,) = kept["runs"]
    page = run_page(database, run["id"])
    assert (page["best_metric"], page["outcome"]["epochs_done"]) == (0.8, 3)


def test_the_latest_of_each_teller_are_known_after_the_upgrade(opened: Opener, empty_url: str) -> None:
    database = opened(empty_url)
    _kept_before(database, "0012")
    databases.upgrade(database, "0016")
    times = "'2026-11-28 11:04:49'"
    with database.engine.begin() as connection:
        run = connection.execute(text("SELECT run_id FROM outcomes")).scalar_one()
        connection.execute(text("UPDATE runs SET told_by = 'key ada'"))
        given = "UPDATE runs SET given = :given"
        connection.execute(text(given), {"given": '{"host": {"start_up_minutes": "3.5"}}'})
        connection.execute(text(f"UPDATE outcomes SET ended_at = {times}"))
        connection.execute(text("DELETE FROM observations"))
        for n in range(12):
            row = f"('o{n:02}', '{run}', 'g', 'd', 'm', 'one', '2026-11-28 11:04:{n:02}', '{{}}')"
            names = "id, run_id, gpu, device, model, subject, updated_at, observation"
            connection.execute(text(f"INSERT INTO observations ({names}) VALUES {row}"))
        connection.execute(
            text(f"INSERT INTO devices (name, registered_at, seen_at) VALUES ('b', {times}, NULL)")
        )
        for who in ("eve", "ada"):
            entry = f"('devices', 'b', 0, 'create', 'user', {times}, '{who}', '')"
            names = '"table", "row", version, action, origin, at, who, why'
            connection.execute(text(f"INSERT INTO history ({names}) VALUES {entry}"))
    for _ in range(2):
        databases.upgrade(database)
        with database.read() as unit:
            latest = unit.session.execute(text("SELECT id, teller FROM observations WHERE latest")).all()
            assert {tuple(row) for row in latest} == {(f"o{n:02}", "key ada") for n in range(4, 12)}
            ((who, told, since),) = unit.session.execute(
                text("SELECT told_by, told_at, registered_at FROM devices")
            ).all()
            assert (who, told) == ("ada", since)
            (start,) = outcomes.start_ups(unit.session, 5)
            assert (start.minutes, start.told_by) == (3.5, "key ada")
        databases.upgrade(database, "0016")


def test_who_told_and_what_all_places_say_are_known_after_the_upgrade(opened: Opener, empty_url: str) -> None:
    database = opened(empty_url)
    _kept_before(database, "0012")
    databases.upgrade(database, "0015")
    tally = "INSERT INTO tallies VALUES ('{}', '{}', 2, 1, 3, 4, 5, 6, 7, {}, 0.1, '2026-11-28 11:04:49')"
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE runs SET told_by = 'key ada'"))
        for subject in ("pattern:one", "family:resnet"):
            for place, weight in (("competition:own-apples", 0.1), ("kind:image/small", 0.2)):
                connection.execute(text(tally.format(subject, place, weight)))
    for _ in range(2):
        databases.upgrade(database)
        with database.read() as unit:
            assert list(unit.session.scalars(text("SELECT teller FROM outcomes"))) == ["key ada"]
            total = {"pattern:one": Tally(4, 2, 6, 8, 10, 12, 14, round(0.1 * EXACT) * 3 / EXACT, 0.2)}
            found = outcomes.tallies(unit.session)
            assert found["pattern:one"].as_dict() == total["pattern:one"].as_dict()
            assert (found.keys(), found["pattern:one"].weight * EXACT % 1) == (total.keys(), 0.0)
        databases.upgrade(database, "0015")
        with database.read() as unit:
            served = unit.session.execute(text("SELECT subject, place, followed FROM servings")).all()
        assert [tuple(row) for row in served] == [("family:resnet", "competition:own-apples", True)]
