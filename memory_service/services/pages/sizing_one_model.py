"""Page of one model on one card: batch, speed, and what they stand on."""

from collections.abc import Mapping
from typing import Any, get_args

from memory_service.domain.common.optimizers import OPTIMIZERS
from memory_service.domain.common.vocabulary import PRECISIONS
from memory_service.domain.cost.decoders.decoder import Method
from memory_service.domain.planning.model_catalogue import CatalogueModel, without_idle
from memory_service.domain.prediction.device import TargetDevice
from memory_service.errors import InvalidInput, NotFound, unknown_name
from memory_service.schemas.pages import DEFAULT_N_TRAIN
from memory_service.schemas.predict import SIZE_FIELDS
from memory_service.services.conflicts.conflicts import about, claimed, shown
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.pages.sizing import CASE_FIELDS, card_facts, cell, minutes_of, usual_cards, whole
from memory_service.services.prediction.predict import predict

Row = Mapping[str, Any]

MOST_OTHERS = 10


def sizing_case_page(
    database: Database, gpu: str, model: str, requested: Mapping[str, str]
) -> dict[str, Any]:
    """Everything a person needs to believe the answer, or not to.

    asked   `CASE_FIELDS` by name. NotFound for a card or a model that is not known; InvalidInput for a field.
    """
    for name in requested:
        if name not in CASE_FIELDS:
            raise unknown_name("field", name, CASE_FIELDS)
    knowledge = knowledge_of(database)
    said: dict[str, Any] = {name: value.strip() for name, value in requested.items() if value.strip()}
    said.setdefault("n_train", str(DEFAULT_N_TRAIN))
    row = _listed(knowledge, model)
    said = without_idle(said, row)
    answer = _answered(database, {"gpu": gpu, "model": model, **said})
    card, name = knowledge.gpu(gpu), row.name if row is not None else model
    here = about(knowledge, card, answer["model"] if "fit_seconds" in answer else name)
    size = next((answer[kind] for kind in SIZE_FIELDS if kind in answer), None)
    return {
        "model": _model(knowledge, model, row, answer),
        "card": card_facts(card)
        | {
            "slug": card.slug,
            "model": card.name,
            "bandwidth_gb_s": card.bandwidth_gb_s,
            "tflops": dict(card.tflops),
            "source": card.source,
            "device": card.device or None,
        },
        "query": _query(answer, said),
        "asked_batch_size": int(float(said["batch_size"])) if "batch_size" in said else None,
        "answer": answer,
        "begin": min(answer["knee_batch_size"] or 0, answer.get("safe_batch_size", 0)) or None,
        "points": [] if "fit_seconds" in answer else _points(database, gpu, model, said, answer),
        "measurements": [] if "fit_seconds" in answer else shown(here, answer, size, card.cores),
        "claims": claimed(here),
        "elsewhere": [] if row is None else _elsewhere(knowledge, card, row, said, answer),
        "choices": _choices(knowledge, card),
    }


def _answered(database: Database, question: Row) -> dict[str, Any]:
    """The prediction; a card or model that the path names and nobody knows is not found."""
    try:
        answer = predict(database, question)
    except InvalidInput as error:
        if error.errors and error.errors[0].field in ("gpu", "model"):
            raise NotFound(error.detail, error.errors) from error
        raise
    if answer["max_batch_size"] is not None:
        answer["max_batch_size"] = whole(answer["max_batch_size"])
    return answer


def _listed(knowledge: Knowledge, model: str) -> CatalogueModel | None:
    try:
        return knowledge.listed_model(model)
    except InvalidInput:
        return None


def _query(answer: Row, said: Row) -> dict[str, Any]:
    """All that decided the answer, said or not, as fields of the page's URL."""
    names = (*SIZE_FIELDS, "precision", "layout", "optimizer", "mode", "method")
    settled = {name: answer[name] for name in names if answer.get(name) is not None}
    if settled.get("mode") == "infer":
        settled["optimizer"] = str(said.get("optimizer", "adamw"))
    return settled | {"n_train": int(float(said["n_train"]))}


_SHOWN = ("name", "family", "library", "input_kind", "default_input_size", "source", "good_for")


def _model(knowledge: Knowledge, given: str, row: CatalogueModel | None, answer: Row) -> dict[str, Any]:
    """What the catalogue says; a model outside it has its name alone."""
    if row is None:
        kind = next((kind for kind in SIZE_FIELDS if kind in answer), "image_size")
        return {"name": given, "listed": False, "input_kind": kind, "sizes": []}
    profiled = knowledge.priced.library.sizes_of(row) if row.can_be_profiled else ()
    shown = {name: getattr(row, name) for name in _SHOWN}
    sizes = sorted({*row.input_sizes, *profiled})
    return shown | {"listed": True, "params_m": row.params_m or None, "sizes": sizes}


def _points(database: Database, gpu: str, model: str, said: Row, answer: Row) -> list[dict[str, Any]]:
    """The batches worth a line of their own, ascending: the knee, the safe one, the largest, the one asked
    for."""
    most = int(answer["max_batch_size"]["value"])
    if not most and "batch_size" not in said:
        return []
    names = {"knee": answer["knee_batch_size"], "safe": answer["safe_batch_size"], "largest": most}
    if "batch_size" in said:
        names["asked"] = answer["batch_size"]
    batches: dict[int, list[str]] = {}
    for name, batch in names.items():
        if batch:
            batches.setdefault(int(batch), []).append(name)
    return [
        _point(predict(database, {"gpu": gpu, "model": model, **said, "batch_size": batch}), what)
        for batch, what in sorted(batches.items())
    ]


def _point(at: Row, what: list[str]) -> dict[str, Any]:
    names = ("peak_memory_gib", "samples_per_second", "step_seconds")
    point = {"batch_size": at["batch_size"], "is": what, "fits": at["fits"], "would_fit": at.get("would_fit")}
    minutes = minutes_of(at["epoch_seconds"])
    return point | {name: at[name] for name in names} | {"epoch_minutes": minutes}


def _elsewhere(
    knowledge: Knowledge, card: TargetDevice, row: CatalogueModel, said: Row, answer: Row
) -> list[dict[str, Any]]:
    """The same on other cards, each at its own best precision unless one was said; the slowest first."""
    wanted = {name: said[name] for name in said.keys() - {"batch_size", "layout", "n_train"}}
    if "fit_seconds" in answer:
        others = [each for each in knowledge.cards.sheets.values() if each.kind == "cpu"]
    else:
        others = usual_cards(knowledge, MOST_OTHERS)
    cards = (card, *(each for each in others if each.key != card.key))
    cells = [cell(knowledge, row, each, wanted, int(float(said["n_train"]))) for each in cards]
    rates = [(each.get("samples_per_second") or {}).get("value") for each in cells]
    found = [
        {"name": other.device or other.name, "memory_gib": other.memory_gib, "this": other.key == card.key}
        | {"times": round(rate / rates[0], 2) if rate and rates[0] else None}
        | {name: value for name, value in each.items() if name != "heat"}
        for other, each, rate in zip(cards, cells, rates, strict=True)
    ]
    return sorted(found, key=lambda each: (each["times"] is None, each["times"] or 0.0))


def _choices(knowledge: Knowledge, card: TargetDevice) -> dict[str, Any]:
    return {
        "precision": [name for name in PRECISIONS if name == "fp32" or name in card.tflops],
        "layout": ["nhwc", "nchw"],
        "optimizer": [name for name in OPTIMIZERS if name != "none"],
        "mode": ["train", "infer"],
        "method": get_args(Method),
        "gpu": [*sorted(knowledge.cards.devices), *knowledge.cards.sheets],
    }
