"""`memory-service choose …`: which of these boxes, which plan, which time limit, at what cost?"""

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from memory_service.api.answer_text import choice_text
from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.options import takes_fields_of
from memory_service.cli.common.output import JSON_OPTION, emit
from memory_service.cli.common.remote import ServerUrl, post, server_asked
from memory_service.errors import wrong_value
from memory_service.schemas.choose import OF_OFFERS, ChooseRequest, ChooseTexts
from memory_service.schemas.validation_errors import checked


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
    request = checked(ChooseTexts, {**given, **({} if offers is None else {"offers": read_json(offers)})})
    asked = server_asked(server, database)
    if asked is None:
        from memory_service.services.choice.choose import choose_offer

        answer = choose_offer(open_ready(database), request)
    else:
        answer = post(f"{asked}/choose", request.explicit())
    emit(answer, json, lambda shown: Text(choice_text(shown)))


def read_json(file: Path) -> Any:
    """What a JSON file holds. InvalidInput for one that cannot be read."""
    try:
        return orjson.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise wrong_value("file", f"is no JSON file: {error}", str(file)) from None
