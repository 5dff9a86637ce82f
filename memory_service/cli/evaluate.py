"""`memory-service evaluate FILE...`: compare predictions with measurements made by others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.output import JSON_OPTION, emit, stderr

if TYPE_CHECKING:
    from memory_service.services.prediction.evaluate import Evaluated


def evaluate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...",
            help="CSV files of measurements (docs/methods/accuracy.md); without one, the reported runs.",
            show_default=False,
        ),
    ] = None,
    observe: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE2",
            help="Learn from these rows first, as if each had been a run.",
            show_default=False,
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Also write the report to this file.", show_default=False)
    ] = None,
    profiles: Annotated[
        list[Path] | None, typer.Option(help="Further profiles (.jsonl.gz) to use.", show_default=False)
    ] = None,
    database: AnotherUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Predict every row of public measurements; print errors beside naive baselines. Without FILE: score what
    was predicted for runs when they began on what happened.

    Models without a profile are traced (about a second each) and kept in the database. What is learned from
    --observe is not.
    """
    if not files:
        if observe or write or profiles:
            raise typer.BadParameter("--observe, --write and --profiles go with a FILE")
        from memory_service.cli.runs import accuracy_report
        from memory_service.services.accuracy.scored_runs import accuracy

        emit(accuracy(open_ready(database)), json, accuracy_report)
        return
    from rich.markdown import Markdown
    from rich.progress import Progress

    from memory_service.services.accuracy.accuracy import markdown, summarise, summary_as_dict, with_sections
    from memory_service.services.operations.database import open_database
    from memory_service.services.prediction import evaluate as public_tables
    from memory_service.settings import load_settings

    tables = [(file.name, public_tables.read_rows(file)) for file in files]
    first = [row for file in observe or () for row in public_tables.read_rows(file)]
    settings = load_settings(database_url=database)
    profile_store, gpus = public_tables.open_profile_store(
        open_database(settings.database_url, settings.embedding_model), profiles or ()
    )
    observed = 0
    if first:
        gpus, observed = public_tables.learn_from_rows(first, profile_store, gpus)
    results: dict[str, list[Evaluated]] = {}
    with Progress(console=stderr) as bar:
        for name, rows in tables:
            task = bar.add_task(name, total=len(rows))

            def advance(_row: Any, task: Any = task) -> None:
                bar.advance(task)

            results[name] = list(public_tables.evaluate_rows(rows, profile_store, gpus, advance))
    summaries = [(name, summarise(rows)) for name, rows in results.items()]
    report = markdown(summaries, observed)
    if write is not None:
        before = write.read_text(encoding="utf-8") if write.exists() else ""
        write.write_text(with_sections(report, before), encoding="utf-8")
    parts = [
        {"file": name, "summary": summary_as_dict(summary), "rows": [row.as_dict() for row in results[name]]}
        for name, summary in summaries
    ]
    data: dict[str, Any] = parts[0] if len(parts) == 1 else {"files": parts}
    data |= {"traced": profile_store.traced, "observed": observed}
    emit(data, json, lambda _: Markdown(report))
