"""`memory-service runs [ID]`: list runs; predictions beside what happened."""

import datetime as dt
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from memory_service.api.answer_text import run_text
from memory_service.cli.common.databases import AnotherUrl, caller, open_ready
from memory_service.cli.common.output import JSON_OPTION, emit, stdout, table
from memory_service.domain.common.units import NOT_KNOWN, figures
from memory_service.errors import wrong_value

ALL_COLUMNS_FROM = 140
"""Characters of a window in which the list of runs shows its figures, too: less breaks words."""


def runs(
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="[exclude|restore] ID", help="Show this one; or count it nowhere, or again."),
    ] = None,
    marked: Annotated[str | None, typer.Argument(hidden=True)] = None,
    why: Annotated[str | None, typer.Option(help="Why it is excluded or restored, for its history.")] = None,
    status: Annotated[str | None, typer.Option(help="running, completed, out_of_memory …")] = None,
    gpu: Annotated[str | None, typer.Option(help="Only of this GPU model (slug).")] = None,
    model: Annotated[str | None, typer.Option(help="Only of this model.")] = None,
    competition: Annotated[str | None, typer.Option(help="Only of this competition.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many, the latest first.")] = 20,
    database: AnotherUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Runs, the latest first, what was predicted (pred.) beside what happened; or one with its epochs."""
    from memory_service.services.runs.runs import mark_run, run_page
    from memory_service.services.tables.table_rows import list_rows

    marking = run_id in ("exclude", "restore")
    if marking != (marked is not None) or marking != (why is not None):
        raise wrong_value("ID", "must be: runs [exclude|restore] ID --why REASON, or: runs ID", run_id)
    store = open_ready(database)
    if marking and marked is not None and why is not None:
        emit(mark_run(store, marked, why, excluded=run_id == "exclude", who=caller()), json, _one)
        return
    if run_id is not None:
        emit(run_page(store, run_id), json, _one)
        return
    filters = {"status": status, "gpu": gpu, "model": model, "competition": competition}
    with store.read() as unit:
        page = list_rows(unit, "runs", filters, "-started_at", limit)
    emit({"items": page.items, "next": page.next}, json, _many)


def _many(answer: dict[str, Any]) -> Any:
    if not answer["items"]:
        return "No runs. Report one with POST /runs or the client."
    from memory_service.services.pages.run_list import took_minutes

    now = dt.datetime.now(dt.UTC)
    rows = [
        (
            run["id"],
            run["started_at"][:16].replace("T", " "),
            run["status"],
            run["model"],
            run["device"] or run["gpu"],
            run["batch_size"],
            _pair(run["predicted_samples_per_second"], run["samples_per_second"]),
            _pair(run["predicted_peak_gib"], run["peak_gib"]),
            _pair(run["predicted_minutes"], took_minutes(run, now)),
            "" if run["best_metric"] is None else figures(run["best_metric"], 5),
        )
        for run in answer["items"]
    ]
    facts = ("id", "started", "status", "model", "device", ">batch")
    shown = (">samples/s (pred.)", ">peak GiB (pred.)", ">minutes (pred.)", ">best metric")
    columns = (*facts, *shown)
    if stdout.width < ALL_COLUMNS_FROM:
        return table("in a wider window: devices and figures", columns[:4], [row[:4] for row in rows])
    return table(None, columns, rows)


def _pair(predicted: float | None, actual: float | None) -> str:
    happened = NOT_KNOWN if actual is None else figures(actual, 4)
    return happened if predicted is None else f"{happened} ({figures(predicted, 4)})"


def _one(page: dict[str, Any]) -> Group:
    """The run in words, and its epochs."""
    names = ("fold", "epoch", "seconds", "train_loss", "valid_loss", "metric")
    epochs = [tuple(_number(e.get(name)) for name in names) for e in page["outcome"]["epochs"]]
    heads = (">fold", ">epoch", ">seconds", ">train loss", ">valid loss", ">metric")
    return Group(Text(run_text(page)), table(None, heads, epochs))


def _number(value: Any) -> Any:
    return figures(value, 5) if isinstance(value, float) else value
