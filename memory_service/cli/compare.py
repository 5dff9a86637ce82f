"""`memory-service compare FILE…`: which of these plans or scripts scores higher, which is done sooner?"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from memory_service.api.answer_text import comparison_text
from memory_service.cli.choose import read_json
from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.output import JSON_OPTION, emit
from memory_service.cli.common.remote import ServerUrl, post, server_asked
from memory_service.schemas.choose import CompareRequest
from memory_service.schemas.validation_errors import checked


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
    given["plans"] = [read_json(file) for file in files if file.suffix == ".json"]
    given["scripts"] = [file.read_text("utf-8", "replace") for file in files if file.suffix != ".json"]
    request = checked(CompareRequest, {name: value for name, value in given.items() if value})
    asked = server_asked(server, database)
    if asked is None:
        from memory_service.services.choice.compare import compare_trainings

        answer = compare_trainings(open_ready(database), request)
    else:
        answer = post(f"{asked}/compare", request.explicit())
    emit(answer, json, lambda shown: Text(comparison_text(shown)))
