"""The fields of the sizing pages' URLs, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.optimizers import OPTIMIZERS
from memory_service.domain.common.vocabulary import PRECISIONS, TASKS, parse_task
from memory_service.domain.planning.request import integer_of
from memory_service.domain.prediction.device import TargetDevice
from memory_service.errors import FieldError, InvalidInput, unknown_name
from memory_service.services.knowledge.snapshot import Knowledge

__all__ = ["CASE_FIELDS", "DEFAULT_N_TRAIN", "TABLE_FIELDS", "SizingAsked", "read_sizing", "usual_cards"]

DEFAULT_N_TRAIN = 10_000
MOST_CARDS = 12
MOST_ROWS = 100
DEFAULT_ROWS = 25

CASE_FIELDS = (
    "image_size", "seq_len", "n_features", "batch_size", "precision", "layout", "optimizer", "mode",
    "n_train",
)  # fmt: skip
"""Of one model on one card: handed to `services.prediction.predict` as they are."""

TABLE_FIELDS = (
    "q", "task", "family", "library", "params_min", "params_max", "gpu", "add", "image_size", "seq_len",
    "precision", "optimizer", "mode", "n_train", "show", "sort", "limit", "cursor",
)  # fmt: skip

SHOWN = {
    "batch": "largest batch",
    "speed": "samples per second",
    "epoch": "minutes per epoch",
}
"""What the table's heat is of -> in words."""

SORTS = ("name", "params_m", "quality_score")

USUAL_CARDS = ("t4", "a10", "rtx3090", "rtx4090", "a100", "h100")

_INTEGERS = {"image_size": (8, 4096), "seq_len": (1, 131_072), "n_train": (1, 10**9)}


@dataclass(frozen=True, slots=True)
class SizingAsked:
    """The table that is asked for.

    cards   the columns; settings: fields of `CASE_FIELDS` that were said, as `services.prediction.predict`
    takes them
    """

    q: str
    task: str | None
    family: str | None
    library: str | None
    params_min: float | None
    params_max: float | None
    cards: tuple[TargetDevice, ...]
    settings: Mapping[str, Any]
    n_train: int
    show: str
    sort: str
    descending: bool
    limit: int
    cursor: str | None

    def as_query(self) -> dict[str, Any]:
        """The same as fields of a URL, with what was left out filled in."""
        said = {
            "q": self.q or None, "task": self.task, "family": self.family, "library": self.library,
            "params_min": self.params_min, "params_max": self.params_max,
            "gpu": ",".join(card.key for card in self.cards), **self.settings, "n_train": self.n_train,
            "show": self.show, "sort": f"{'-' if self.descending else ''}{self.sort}", "limit": self.limit,
        }  # fmt: skip
        return {name: value for name, value in said.items() if value is not None}


def read_sizing(knowledge: Knowledge, asked: Mapping[str, str]) -> SizingAsked:
    """The question of a query string; InvalidInput names the field and what would be right."""
    for name in asked:
        if name not in TABLE_FIELDS:
            raise unknown_name("field", name, TABLE_FIELDS)
    said = {name: value.strip() for name, value in asked.items() if value.strip()}
    families = {model.family for model in knowledge.models.values()}
    libraries = {model.library for model in knowledge.models.values()}
    sort = said.get("sort", "name")
    settings: dict[str, Any] = {
        name: integer_of(name, said[name], *bounds)
        for name, bounds in _INTEGERS.items()
        if name in said and name != "n_train"
    }
    for name, words in (
        ("precision", PRECISIONS),
        ("optimizer", tuple(OPTIMIZERS)),
        ("mode", ("train", "infer")),
    ):
        if name in said:
            settings[name] = _word(name, said[name], words)
    return SizingAsked(
        q=said.get("q", "")[:200],
        task=parse_task(said["task"]) if "task" in said else None,
        family=_word("family", said["family"], sorted(families)) if "family" in said else None,
        library=_word("library", said["library"], sorted(libraries)) if "library" in said else None,
        params_min=_number("params_min", said.get("params_min")),
        params_max=_number("params_max", said.get("params_max")),
        cards=_cards(knowledge, said),
        settings=settings,
        n_train=integer_of("n_train", said.get("n_train", DEFAULT_N_TRAIN), *_INTEGERS["n_train"]),
        show=_word("show", said.get("show", "batch"), tuple(SHOWN)),
        sort=_word("sort", sort.removeprefix("-"), SORTS),
        descending=sort.startswith("-"),
        limit=integer_of("limit", said.get("limit", DEFAULT_ROWS), 1, MOST_ROWS),
        cursor=said.get("cursor"),
    )


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


def _cards(knowledge: Knowledge, said: Mapping[str, str]) -> tuple[TargetDevice, ...]:
    names = [name for name in said.get("gpu", "").split(",") if name.strip()]
    cards = [knowledge.gpu(name) for name in names] or usual_cards(knowledge)
    if "add" in said:
        cards.append(knowledge.gpu(said["add"]))
    chosen = tuple({card.key: card for card in cards}.values())
    if len(chosen) > MOST_CARDS:
        message = f"names {len(chosen)} cards; at most {MOST_CARDS} stand beside one another"
        raise InvalidInput(f"gpu {message}", [FieldError("gpu", message, said.get("gpu"))])
    return chosen


def _word(field: str, given: str, known: Sequence[str]) -> str:
    if given.lower() not in known:
        raise unknown_name(field, given, known)
    return given.lower()


def _number(field: str, given: str | None) -> float | None:
    if given is None:
        return None
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e7:
        message = "must be millions of parameters, 0 or more"
        raise InvalidInput(f"{field} {message}", [FieldError(field, message, given[:40])])
    return value
