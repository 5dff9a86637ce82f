"""Page that chooses hardware among the common boxes, or among offers that are given as JSON."""

from collections.abc import Mapping
from typing import Any

import orjson

from memory_service.domain.choice.offer import AIMS
from memory_service.domain.common.vocabulary import Mode
from memory_service.errors import InvalidInput, NotFound
from memory_service.schemas.choose import ChooseTexts
from memory_service.schemas.validation_errors import checked
from memory_service.services.choice.choose import choose_offer
from memory_service.services.database.transactions import Database
from memory_service.services.pages.ask import plain_numbers


def choose_page(database: Database, requested: Mapping[str, str], limit: Mode) -> dict[str, Any]:
    """`{"asked", "aims", "refused", "choice"}`: choice is the answer of /choose, None before a task is asked
    about; refused: the sentence, None where there was nothing to refuse (`status` stands beside it)."""
    asked = plain_numbers(requested)
    page: dict[str, Any] = {"asked": asked, "aims": list(AIMS), "refused": None, "choice": None}
    if not asked:
        return page
    try:
        given: dict[str, Any] = dict(asked)
        if "offers" in given:
            given["offers"] = orjson.loads(given["offers"])
        page["choice"] = choose_offer(database, checked(ChooseTexts, given), limit)
    except orjson.JSONDecodeError as error:
        page |= {"refused": f"Your offers are no JSON: {error}", "status": 422}
    except (InvalidInput, NotFound) as refusal:
        page |= {"refused": refusal.detail, "status": refusal.status}
    return page
