"""`memory-service db …`, `seed` and `doctor`: upgrade, check, back up, restore, copy and seed the database;
look at this machine."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from memory_service.cli.common.databases import DatabaseUrl, open_at_head, open_database
from memory_service.cli.common.output import JSON_OPTION, emit, spinning, table

_db = typer.Typer(no_args_is_help=True, help="Upgrade, check, save and restore the database.")


def register(app: typer.Typer) -> None:
    app.add_typer(_db, name="db")
    app.command("seed")(spinning(seed))
    app.command("doctor")(spinning(doctor))


@_db.command("upgrade")
def upgrade(
    revision: Annotated[str, typer.Argument(help="A revision, `head` or `base`.")] = "head",
    database: DatabaseUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Bring the tables to the revision of this program (an embedded database is saved first)."""
    from memory_service.services.operations import database as databases

    with open_database(database) as opened:
        report = databases.upgrade(opened, revision)
    saved = f"; saved before as {report.backup}" if report.backup else ""
    moved = f"{report.before or 'nothing'} → {report.after or 'nothing'}{saved}"
    line = f"at {report.after} already" if report.before == report.after else moved
    emit(_plain(asdict(report)), json, lambda _: line)


@_db.command("check")
def check(database: DatabaseUrl = None, json: bool = JSON_OPTION) -> None:
    """Compare the database with what this program needs; exit 1 when anything is wrong."""
    from memory_service.services.operations import database as databases

    with open_database(database) as opened:
        report = databases.check(opened)
    lines: list[tuple[str, object]] = [
        ("database", report.url),
        ("revision", f"{report.revision} (this program: {report.head})"),
        ("knowledge revision", report.knowledge_revision),
        ("seeds as shipped", "yes" if report.seeded else "no"),
        ("passages without vector", report.passages_without_vector),
        *([("problem", problem) for problem in report.problems] or [("problems", "none")]),
    ]
    emit(_plain(asdict(report)) | {"sound": report.sound}, json, lambda _: table(None, ("what", "is"), lines))
    if not report.sound:
        raise typer.Exit(1)


@_db.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(help="The new file.")],
    database: DatabaseUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Save everything in one new file, while the server goes on."""
    from memory_service.services.operations import database as databases

    with open_database(database) as opened:
        target = databases.backup(opened, file)
    size = target.stat().st_size
    emit({"file": str(target), "bytes": size}, json, lambda _: f"{target} ({size / 2**20:.1f} MiB)")


@_db.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="A file of `db backup`.")],
    database: DatabaseUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Fill an empty database from a backup and upgrade it."""
    from memory_service.services.operations import database as databases

    with open_database(database) as opened:
        report = databases.restore(opened, file)
    emit(_plain(asdict(report)), json, lambda _: f"restored from {file}, at revision {report.after}")


@_db.command("copy")
def copy(
    to: Annotated[str, typer.Argument(metavar="URL", help="Another, empty database, of either kind.")],
    database: DatabaseUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Copy everything into another database: from SQLite to PostgreSQL, or back. Stop the server first: what
    is written meanwhile is not in the copy."""
    from memory_service.services.operations import database as databases

    with open_database(database) as old, open_database(to) as new:
        rows = databases.copy(old, new)
        line = f"{sum(rows.values())} rows of {old.url} are in {new.url}"
    emit({"rows": rows}, json, lambda _: line)


@_db.command("thin")
def thin(
    keep_days: Annotated[
        float | None,
        typer.Option(min=0.0, help="Instead of MEMORY_KEEP_RAW_DAYS; 0 thins nothing.", show_default=False),
    ] = None,
    database: DatabaseUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Thin raw samples of old runs to one an epoch now; a server does so every day."""
    from memory_service.services.runs.retention import thin as thin_raw
    from memory_service.settings import load_settings

    days = load_settings().keep_raw_days if keep_days is None else keep_days
    with open_at_head(database) as opened:
        done = thin_raw(opened, days)
    emit(done, json, lambda _: f"{done['runs']} runs thinned, {done['events']} raw samples are gone")


def seed(
    without_vectors: Annotated[
        bool, typer.Option("--without-vectors", help="Do not load the embedding model; search goes by words.")
    ] = False,
    database: DatabaseUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Load the shipped knowledge; rows that people corrected stay as they are."""
    from memory_service.services.editorial import seeding
    from memory_service.settings import load_settings

    encoder = None
    if not without_vectors:
        from memory_service.services.competitions.snapshot import encoder_at

        encoder, reason = encoder_at(load_settings().embedding_model)
        if encoder is None:
            typer.echo(f"no embedding model ({reason}); search will go by words", err=True)
    with open_at_head(database) as opened:
        report = seeding.seed(opened, encoder=encoder)
    columns = ("table", ">added", ">changed", ">removed", ">unchanged", ">kept", ">skipped")
    drawn = table(
        f"{report.encoded} passages encoded, {report.without_vector} without vector, {report.seconds:.1f} s",
        columns,
        [(name, *asdict(r).values()) for name, r in report.tables.items()],
    )
    emit(report.as_dict(), json, lambda _: drawn)


def _plain(report: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Path) else value for name, value in report.items()}


def doctor(database: DatabaseUrl = None, json: bool = JSON_OPTION) -> None:
    """Look at settings, packages, accelerator, encoder, database, disk and port; exit 1 for a problem."""
    from memory_service.services.operations.readiness import examine
    from memory_service.settings import load_settings

    findings = examine(load_settings(database_url=database))
    rows = [(f.part, f.status, f.found, f.advice) for f in findings]
    drawn = table(None, ("part", "status", "found", "advice"), rows)
    emit([asdict(f) for f in findings], json, lambda _: drawn)
    if any(f.status == "problem" for f in findings):
        raise typer.Exit(1)
