"""`memory-service similar TEXT`: the past competitions that a description is like, and why."""

import typer
from rich.text import Text

from memory_service.api.answer_text import similar_text
from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.options import takes_fields_of
from memory_service.cli.common.output import JSON_OPTION, emit
from memory_service.cli.common.remote import ServerUrl, get, server_asked
from memory_service.schemas.similar import SimilarQuery, SimilarRequest
from memory_service.schemas.validation_errors import checked


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
