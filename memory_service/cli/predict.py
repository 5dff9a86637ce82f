"""`memory-service predict MODEL --gpu CARD`: largest batch, peak memory and speed, as a table or as JSON."""

from rich.text import Text

from memory_service.api.answer_text import fit_text
from memory_service.cli.common.databases import AnotherUrl, open_ready
from memory_service.cli.common.options import takes_fields_of
from memory_service.cli.common.output import JSON_OPTION, emit
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
    emit(answer, json, lambda shown: Text(fit_text(shown, curve=True)))
