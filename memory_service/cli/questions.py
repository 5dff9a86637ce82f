"""Commands that ask one question and print the answer: `predict`, `similar`, `rank`, `choose`, `compare`,
`conflicts`, and `evaluate` (predictions beside measurements made by others, or beside own runs)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from memory_service.api.answer_text import (
    accuracy_text,
    choice_text,
    comparison_text,
    fit_text,
    score_text,
    similar_text,
)
from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.options import takes_fields_of
from memory_service.cli.common.output import JSON_OPTION, emit, spinning, stderr, table
from memory_service.cli.common.remote import ServerUrl, get, post, server_asked
from memory_service.domain.common.units import figures, percent, spread
from memory_service.errors import wrong_value
from memory_service.schemas.choose import OF_OFFERS, ChooseRequest, ChooseTexts, CompareRequest
from memory_service.schemas.predict import PredictRequest
from memory_service.schemas.similar import SimilarQuery, SimilarRequest
from memory_service.schemas.validation_errors import checked


def register(app: typer.Typer) -> None:
    silent: dict[str, Callable[..., Any]]
    silent = {"choose": choose, "compare": compare, "predict": predict, "rank": rank, "similar": similar}
    for name, command in silent.items():
        app.command(name)(spinning(command))
    app.command("conflicts")(conflicts)
    app.command("evaluate")(evaluate)


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
    emit(answer, json, lambda shown: Text(fit_text(shown, curve=True)))


@takes_fields_of(SimilarRequest, arguments=("text",))
def similar(
    given: dict[str, str], database: AnotherUrl = None, server: ServerUrl = None, json: bool = JSON_OPTION
) -> None:
    """Past competitions like this one, best first, each with the reason. The text `-` is read from stdin."""
    if given.get("text") == "-":
        given["text"] = typer.get_text_stream("stdin").read()
    asked = server_asked(server, database)
    if asked is None:
        from memory_service.recall.encoder import load_encoder
        from memory_service.services.competitions.similar import similar as ask
        from memory_service.settings import load_settings

        encoder = load_encoder(load_settings().embedding_model or None)
        answer = ask(open_ready(database), checked(SimilarQuery, given), encoder).as_dict()
    else:
        answer = get(asked, "/similar", given)
    emit(answer, json, lambda shown: Text(similar_text(shown)))


@takes_fields_of(ChooseRequest, without=(*OF_OFFERS, "offers"))
def choose(
    given: dict[str, str],
    offers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your boxes: a JSON list of the offers of POST /choose."),
    ] = None,
    database: AnotherUrl = None,
    server: ServerUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """The box to take among yours or common ones, with its plan, its time limit and its cost."""
    request = checked(ChooseTexts, {**given, **({} if offers is None else {"offers": _read_json(offers)})})

    def here() -> dict[str, Any]:
        from memory_service.services.choice.choose import choose_offer

        return choose_offer(open_ready(database), request)

    emit(_posted("choose", request, server, database, here), json, lambda shown: Text(choice_text(shown)))


def compare(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            exists=True,
            dir_okay=False,
            help="Answers of recommend --json (.json), or scripts (.py).",
        ),
    ],
    task: Annotated[str | None, typer.Option(help="Of scripts.")] = None,
    gpu: Annotated[str | None, typer.Option(help="Of scripts: their time is told with it.")] = None,
    n_train: Annotated[int | None, typer.Option(help="Training samples, of scripts.")] = None,
    database: AnotherUrl = None,
    server: ServerUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Compare two trainings or more before they run."""
    given: dict[str, Any] = {"task": task, "gpu": gpu, "n_train": n_train}
    given["plans"] = [_read_json(file) for file in files if file.suffix == ".json"]
    given["scripts"] = [file.read_text("utf-8", "replace") for file in files if file.suffix != ".json"]
    request = checked(CompareRequest, {name: value for name, value in given.items() if value})

    def here() -> dict[str, Any]:
        from memory_service.services.choice.compare import compare_trainings

        return compare_trainings(open_ready(database), request)

    answer = _posted("compare", request, server, database, here)
    emit(answer, json, lambda shown: Text(comparison_text(shown)))


def _posted(
    path: str, request: Any, server: str | None, database: str | None, here: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The answer of a server, else that of a database here."""
    asked = server_asked(server, database)
    return here() if asked is None else post(f"{asked}/{path}", request.explicit())


def _read_json(file: Path) -> Any:
    """What a JSON file holds. InvalidInput for one that cannot be read."""
    try:
        return orjson.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise wrong_value("file", f"is no JSON file: {error}", str(file)) from None


def rank(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV with the columns of POST /rank; others are left.")
    ],
    database: AnotherUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """Rank candidates by expected quality; rows of one `dataset` compete."""
    from memory_service.services.planning.rank import rank as ask
    from memory_service.services.prediction.evaluate import read_rows

    emit({"rows": ask(open_ready(database), read_rows(file))}, json, _ranked)


def _ranked(answer: Mapping[str, Any]) -> Any:
    rows = sorted(answer["rows"], key=lambda row: (str(row.get("dataset") or ""), row["rank"] or 10**9))
    lines = [
        (row.get("dataset"), row.get("model"), row["rank"], spread(row["quality"]), percent(row["p_best"]))
        if row["quality"]
        else (row.get("dataset"), row.get("model"), "", row["why"], "")
        for row in rows
    ]
    return table(None, ("data set", "model", "rank", "expected quality", "best"), lines)


def conflicts(database: AnotherUrl = None, json: bool = JSON_OPTION) -> None:
    """Claims, estimates and measurements of one thing whose intervals do not meet, the widest apart first."""
    from memory_service.services.conflicts.conflicts import conflicts as find

    emit({"items": find(open_ready(database))}, json, _disagreements)


def _disagreements(answer: Mapping[str, Any]) -> Any:
    from memory_service.services.pages.conflicts import row_of

    rows = []
    for item in answer["items"]:
        batch = f", batch {item['batch_size']}" if item["batch_size"] else ""
        named = (item["model"], item["device"] or item["gpu"])
        about = " on ".join(str(part) for part in named if part) + batch
        said, apart = row_of(item)["said"], figures(item["apart"], 2)
        rows.append((item["id"], about, item["quantity"], said, item["used"], f"{apart}x"))
    columns = ("id", "about", "quantity", "sides", "used", ">apart")
    return table("Claims, estimates and measurements that disagree", columns, rows)


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
