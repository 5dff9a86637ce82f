"""`memory-service predict MODEL --gpu CARD`: largest batch, peak memory and speed, as a table or as JSON."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.options import takes_fields_of
from memory_service.cli.common.output import JSON_OPTION, emit, graded, table
from memory_service.cli.common.remote import ServerUrl, get, server_asked
from memory_service.schemas.predict import PredictRequest


@takes_fields_of(PredictRequest, arguments=("model",))
def predict(
    given: dict[str, str], database: AnotherUrl = None, server: ServerUrl = None, json: bool = JSON_OPTION
) -> None:
    """What a model needs and does on a card: the largest batch that fits, its memory, its speed."""
    asked = server_asked(server, database)
    if asked is None:
        from memory_service.services.prediction.predict import predict as ask

        answer = ask(open_ready(database), given)
    else:
        answer = get(asked, "/predict", given)
    emit(answer, json, render_prediction)


def render_prediction(answer: Mapping[str, Any]) -> RenderableType:
    """The figures at the batch, then the curve over batches."""
    size = next((f"{k} {answer[k]}" for k in ("image_size", "seq_len", "n_features") if k in answer), "")
    cards, of_each = (f"{answer['n_gpus']} x ", " a card") if answer.get("n_gpus") else ("", "")
    title = Text(f"{answer['model']} at {size} on {cards}{answer.get('gpu', 'cpu')}", style="bold")
    figures = [
        (label, *graded(answer[name], unit))
        for label, name, unit in (
            (f"largest batch{of_each}", "max_batch_size", ""),
            ("peak memory", "peak_memory_gib", "GiB"),
            ("memory of the host", "host_memory_gib", "GiB"),
            ("speed", "samples_per_second", "samples/s"),
            ("a step", "step_seconds", "s"),
            ("an epoch", "epoch_seconds", "s"),
            ("a fit", "fit_seconds", "s"),
            ("a fit on the card", "card_fit_seconds", "s"),
        )
        if answer.get(name) and answer[name]["value"]
    ]
    batches = (("knee of throughput", "knee_batch_size"), (f"answered at batch{of_each}", "batch_size"))
    for label, name in batches:
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
