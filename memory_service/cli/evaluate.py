"""`memory-service evaluate FILE...`: predictions beside measurements made by others, or beside own runs."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from memory_service.api.answer_text import accuracy_text, score_text
from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.output import JSON_OPTION, emit, stderr


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
    database: AnotherUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Predict every row of public measurements; print the errors. Without FILE: score what was predicted for
    runs when they began on what happened.

    Models without a profile are traced (about a second each) and kept in the database. What is learned from
    --observe is not.
    """
    if not files:
        if observe:
            raise typer.BadParameter("--observe goes with a FILE")
        from memory_service.services.runs.scored_runs import accuracy

        emit(accuracy(open_ready(database)), json, lambda shown: Text(accuracy_text(shown, groups=True)))
        return
    from rich.progress import track

    from memory_service.services.operations.database import open_database
    from memory_service.services.prediction import evaluate as public_tables
    from memory_service.settings import load_settings

    tables = [(file.name, public_tables.read_rows(file)) for file in files]
    first = [row for file in observe or () for row in public_tables.read_rows(file)]
    settings = load_settings(database_url=database)
    profile_store, gpus = public_tables.open_profile_store(
        open_database(settings.database_url, settings.embedding_model)
    )
    observed = 0
    if first:
        gpus, observed = public_tables.learn_from_rows(first, profile_store, gpus)
    parts = []
    for name, rows in tables:
        results = public_tables.evaluate_rows(track(rows, name, console=stderr), profile_store, gpus)
        parts.append({"file": name, "rows": [row.as_dict() for row in results]})
    data: dict[str, Any] = parts[0] if len(parts) == 1 else {"files": parts}
    data |= {"traced": profile_store.traced, "observed": observed}
    emit(data, json, lambda _: _of_tables(parts))


def _of_tables(parts: list[dict[str, Any]]) -> Text:
    """The errors of each figure that was both predicted and measured, by file; how many rows were refused."""
    from dataclasses import asdict

    from memory_service.domain.learning.scoring import Pair, score

    lines: list[str] = []
    for part in parts:
        pairs = [
            Pair(name, row["predicted"][name], actual)
            for row in part["rows"]
            for name, actual in row["measured"].items()
            if row["predicted"] and name in row["predicted"]
        ]
        lines += [score_text(asdict(each), f"{part['file']}, ") for each in score(pairs)]
    every = [row for part in parts for row in part["rows"]]
    predicted = sum(row["predicted"] is not None for row in every)
    head = f"{predicted} of {len(every)} rows predicted; --json says why the others were not"
    return Text("\n".join([head, *lines]))
