"""`memory-service evaluate FILE...`: predictions beside measurements made by others, or beside own runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.output import JSON_OPTION, emit, stderr, table


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

        emit(accuracy(open_ready(database)), json, _of_runs)
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


def _of_tables(parts: list[dict[str, Any]]) -> Any:
    """The errors of each figure that was both predicted and measured, by file; how many rows were refused."""
    from dataclasses import asdict

    from memory_service.domain.learning.scoring import Pair, score

    rows = []
    for part in parts:
        pairs = [
            Pair(name, row["predicted"][name], actual)
            for row in part["rows"]
            for name, actual in row["measured"].items()
            if row["predicted"] and name in row["predicted"]
        ]
        rows += [(part["file"], *_score(asdict(each))) for each in score(pairs)]
    every = [row for part in parts for row in part["rows"]]
    predicted = sum(row["predicted"] is not None for row in every)
    title = f"{predicted} of {len(every)} rows predicted; --json says why the others were not"
    return table(title, ("of", *_COLUMNS), rows)


def _of_runs(answer: dict[str, Any]) -> Any:
    """The errors of frozen predictions as a table, or a sentence."""
    counted = answer["runs"]
    if not counted["scored"]:
        return (
            f"Nothing to score yet: {counted['ended']} runs have ended, {counted['without_prediction']} of "
            "them without a prediction. Report runs with POST /runs or the client."
        )
    kinds = ("device", "family", "age")
    groups = [(f"{kind} {g['name']}", g["scores"]) for kind in kinds for g in answer[f"by_{kind}"]]
    rows = [
        (name, *_score(score)) for name, scores in (("all", answer["overall"]), *groups) for score in scores
    ]
    title = (
        f"Predictions of {counted['scored']} runs against what happened: errors, their bias, the share "
        "inside the 80 % interval, and a naive guess's median"
    )
    return table(title, ("of", *_COLUMNS), rows)


_COLUMNS = ("figure", ">n", ">median", ">p90", ">bias", ">inside", ">naive")


def _score(score: dict[str, Any]) -> tuple[str, ...]:
    naive = score["naive"]
    return (
        score["quantity"],
        str(score["n"]),
        f"{score['median_percent']:.1f} %",
        f"{score['p90_percent']:.1f} %",
        f"{score['bias_percent']:+.1f} %",
        f"{score['inside_percent']:.0f} %",
        f"{naive['median_percent']:.1f} %" if naive else "",
    )
