"""`memory-service brief FILE`: a description understood and planned for, as Markdown for an agent's
instructions: `memory-service brief description.md --mode blind >> instructions.md`."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from memory_service.api.answer_text import brief_text
from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.options import takes_fields_of
from memory_service.cli.common.output import JSON_OPTION, emit
from memory_service.cli.common.remote import ServerUrl, post, server_asked
from memory_service.client.gpu_sampler import cores, driver_gpu_name
from memory_service.errors import InvalidInput, Refused, wrong_value
from memory_service.schemas.recommend import RecommendQuery, RecommendRequest, plan_request
from memory_service.schemas.validation_errors import checked


@takes_fields_of(RecommendRequest, without=("description",))
def brief(
    given: dict[str, str],
    file: Annotated[Path, typer.Argument(help="The description; - reads standard input.", allow_dash=True)],
    database: AnotherUrl = None,
    server: ServerUrl = None,
    json: bool = JSON_OPTION,
) -> None:
    """What a description says, what it leaves open, and the plan, as Markdown. Without --minutes
    TIME_LIMIT_SECS counts; without --gpu the card that the driver shows, else the description's, else cpu."""
    fields = {"description": _read(file)}
    with suppress(KeyError, ValueError):
        fields["minutes"] = str(float(os.environ["TIME_LIMIT_SECS"]) / 60.0)
    if given.get("gpu", "auto") == "auto":
        given.pop("gpu", None)
        seen = driver_gpu_name()
        fields |= {"cpu_count": str(cores()), **({"gpu": seen} if seen else {})}
    fields |= given
    ask = _asker(server_asked(server, database), database, fields)
    answer = ask("brief")
    if "gpu" in (each["name"] for each in answer["not_said"]):
        fields["gpu"] = "cpu"
        answer = ask("brief")
    try:
        answer["plan"] = ask("recommend")
    except (InvalidInput, Refused) as error:
        answer["why_no_plan"] = error.detail
    emit(answer, json, lambda shown: sys.stdout.write(brief_text(shown)) and None)


def _asker(
    server: str | None, database: str | None, fields: Mapping[str, str]
) -> Callable[[str], dict[str, Any]]:
    """What answers `brief` or `recommend` of the fields as they are then: a server, or a database here."""
    if server is not None:
        return lambda path: post(f"{server}/{path}", checked(RecommendQuery, fields).explicit())
    from memory_service.services.planning import questions
    from memory_service.services.planning import recommend as plans

    ready, answers = open_ready(database), {"brief": questions.brief, "recommend": plans.recommend}
    return lambda path: answers[path](ready, plan_request(fields))


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise wrong_value("file", f"cannot be read: {error.strerror}", str(file)) from None
