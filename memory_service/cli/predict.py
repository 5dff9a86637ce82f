"""`memory-service predict MODEL --gpu CARD`: largest batch, peak memory and speed, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from memory_service.cli.output import JSON_OPTION, emit, graded, table

__all__ = ["register", "render_prediction"]


def register(app: typer.Typer) -> None:
    app.command("predict")(predict)


def predict(
    model: Annotated[str, typer.Argument(help="Catalogue or timm name, e.g. resnet50.")],
    gpu: Annotated[str, typer.Option(help="Card, e.g. a100, rtx3090, t4, cpu.")],
    image_size: Annotated[str | None, typer.Option(help="Pixels a side.")] = None,
    seq_len: Annotated[str | None, typer.Option(help="Tokens or steps.")] = None,
    n_features: Annotated[str | None, typer.Option(help="Columns.")] = None,
    batch_size: Annotated[str | None, typer.Option(help="Answer at this batch; default: the knee.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32, tf32, fp16 or bf16; default: the card's.")
    ] = None,
    layout: Annotated[str | None, typer.Option(help="nhwc or nchw; default: as a plan sets it.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adamw (default), sgd-momentum, ...")] = None,
    mode: Annotated[str | None, typer.Option(help="train (default) or infer.")] = None,
    n_train: Annotated[str | None, typer.Option(help="Rows of training: tells an epoch.")] = None,
    n_classes: Annotated[str | None, typer.Option(help="Classes, for boosted trees and the like.")] = None,
    cpu_count: Annotated[str | None, typer.Option(help="Cores, for boosted trees and the like.")] = None,
    rounds: Annotated[str | None, typer.Option(help="Boosting rounds, or trees of a forest.")] = None,
    database: Annotated[str | None, typer.Option(metavar="URL", help="Another database.")] = None,
    json: bool = JSON_OPTION,
) -> None:
    """What a model needs and does on a card: the largest batch that fits, its memory, its speed."""
    from memory_service.services.database.transactions import Database
    from memory_service.services.operations.database import ensure_ready
    from memory_service.services.prediction.predict import PREDICT_FIELDS
    from memory_service.services.prediction.predict import predict as ask
    from memory_service.settings import load_settings

    given = {name: value for name, value in locals().items() if name in PREDICT_FIELDS and value is not None}
    store = Database(load_settings(database_url=database).database_url)
    ensure_ready(store)
    emit(ask(store, given), json, render_prediction)


def render_prediction(answer: Mapping[str, Any]) -> RenderableType:
    """The figures at the batch, then the curve over batches."""
    size = next((f"{k} {answer[k]}" for k in ("image_size", "seq_len", "n_features") if k in answer), "")
    title = Text(f"{answer['model']} at {size} on {answer.get('gpu', 'cpu')}", style="bold")
    figures = [
        (label, *graded(answer[name], unit))
        for label, name, unit in (
            ("largest batch", "max_batch_size", ""),
            ("peak memory", "peak_memory_gib", "GiB"),
            ("speed", "samples_per_second", "samples/s"),
            ("a step", "step_seconds", "s"),
            ("an epoch", "epoch_seconds", "s"),
            ("a fit", "fit_seconds", "s"),
        )
        if answer.get(name)
    ]
    for label, name in (("knee of throughput", "knee_batch_size"), ("answered at batch", "batch_size")):
        if answer.get(name):
            figures.append((label, str(answer[name]), ""))
    if not answer["fits"]:
        figures.append(("does not fit", str(answer.get("would_fit", {}).get("why", "")), ""))
    heads = ("figure", "median (80 % interval)", "grade")
    parts: list[RenderableType] = [title, table(None, heads, figures)]
    if answer["curve"]:
        rows = [
            (
                str(point["batch_size"]),
                *graded(point["peak_memory_gib"]),
                *graded(point["samples_per_second"]),
                "yes" if point["fits"] else "no",
            )
            for point in answer["curve"]
        ]
        parts.append(table(None, [">batch", ">peak GiB", "grade", ">samples/s", "grade", "fits"], rows))
    return Group(*parts)
