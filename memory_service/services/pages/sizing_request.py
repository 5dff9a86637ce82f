"""The fields of the sizing pages' URLs, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.vocabulary import PRECISIONS, TASKS
from memory_service.domain.prediction.device import TargetDevice
from memory_service.errors import unknown_name, wrong_value
from memory_service.schemas.pages import SizingQuery
from memory_service.schemas.validation_errors import checked
from memory_service.services.knowledge.snapshot import Knowledge

MOST_CARDS = 12
_SETTINGS = {"image_size", "seq_len", "precision", "optimizer", "mode"}

CASE_FIELDS = (
    "image_size", "seq_len", "n_features", "batch_size", "precision", "layout", "optimizer", "mode",
    "n_train",
)  # fmt: skip
"""Of one model on one card: handed to `services.prediction.predict` as they are."""

SHOWN = {"batch": "largest batch", "speed": "samples per second", "epoch": "minutes per epoch"}
"""What the table's heat is of -> in words."""

USUAL_CARDS = ("t4", "a10", "rtx3090", "rtx4090", "a100", "h100")


@dataclass(frozen=True, slots=True)
class SizingAsked:
    """The table that is asked for.

    cards      the columns
    settings   the fields of `CASE_FIELDS` that were given, as `services.prediction.predict` takes them
    """

    query: SizingQuery
    cards: tuple[TargetDevice, ...]
    settings: Mapping[str, Any]

    def as_query(self) -> dict[str, Any]:
        """The same as fields of a URL, with what was left out filled in."""
        shown = self.query.model_copy(update={"gpu": ",".join(card.key for card in self.cards)})
        said = shown.model_dump(exclude={"add", "cursor"}, exclude_none=True)
        return {name: value for name, value in said.items() if value != ""}


def read_sizing(knowledge: Knowledge, asked: Mapping[str, str]) -> SizingAsked:
    """The question of a query string; InvalidInput names the field and what would be right."""
    query = checked(SizingQuery, SizingQuery.given(asked))
    for field in ("family", "library"):
        known = sorted({getattr(model, field) for model in knowledge.models.values()})
        given = getattr(query, field)
        if given is not None and given not in known:
            raise unknown_name(field, given, known)
    settings = query.model_dump(include=_SETTINGS, exclude_none=True)
    return SizingAsked(query, _cards(knowledge, query), settings)


def usual_cards(knowledge: Knowledge, most: int = len(USUAL_CARDS)) -> list[TargetDevice]:
    """Registered devices first, then cards that many people have."""
    usual = [knowledge.cards.sheets[slug] for slug in USUAL_CARDS if slug in knowledge.cards.sheets]
    return [*list(knowledge.cards.devices.values())[: most // 2], *usual][:most]


def choices(knowledge: Knowledge) -> dict[str, list[str]]:
    """What the filters may be set to."""
    models = knowledge.models.values()
    served = {task for model in models for task in model.tasks}
    return {
        "task": [task for task in TASKS if task in served],
        "family": sorted({model.family for model in models}),
        "library": sorted({model.library for model in models}),
        "gpu": [*sorted(knowledge.cards.devices), *knowledge.cards.sheets],
        "precision": list(PRECISIONS),
        "mode": ["train", "infer"],
    }


def _cards(knowledge: Knowledge, query: SizingQuery) -> tuple[TargetDevice, ...]:
    names = [name for name in (query.gpu or "").split(",") if name.strip()]
    cards = [knowledge.gpu(name) for name in names] or usual_cards(knowledge)
    if query.add is not None:
        cards.append(knowledge.gpu(query.add))
    chosen = tuple({card.key: card for card in cards}.values())
    if len(chosen) > MOST_CARDS:
        message = f"names {len(chosen)} cards; at most {MOST_CARDS} stand beside one another"
        raise wrong_value("gpu", message, query.gpu)
    return chosen
