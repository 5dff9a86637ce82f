"""Page of models beside chosen cards, and its URL: what fits, how fast, how long an epoch takes.

Page of one model on one card: batch, speed, and what they stand on.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import attrgetter
from typing import Any, get_args

import numpy as np

from memory_service.domain.common.optimizers import OPTIMIZERS
from memory_service.domain.common.vocabulary import PRECISIONS
from memory_service.domain.cost.decoders.decoder import Method, decoder_of
from memory_service.domain.planning.model_catalogue import CatalogueModel, without_idle
from memory_service.domain.prediction.device import TargetDevice
from memory_service.errors import InvalidInput, NotFound, unknown_name, wrong_value
from memory_service.schemas.pages import DEFAULT_N_TRAIN, SizingQuery
from memory_service.schemas.predict import SIZE_FIELDS
from memory_service.schemas.validation_errors import checked
from memory_service.services.conflicts.conflicts import about, claimed, shown
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.pages.grid import gridded
from memory_service.services.prediction.predict import predict, predict_known
from memory_service.services.tables.file_formats import TableExport
from memory_service.services.tables.paging import page_behind

MOST_CARDS = 12
_SETTINGS = {"image_size", "seq_len", "precision", "optimizer", "mode", "method"}

CASE_FIELDS = (
    "image_size", "seq_len", "n_features", "batch_size", "precision", "layout", "optimizer", "mode",
    "method", "n_train",
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


HEATS = 6
"""Shades of heat: sixths of the figures on the page, 0 = the worst."""

_FIGURES = {"batch": "max_batch_size", "speed": "samples_per_second", "epoch": "epoch_minutes"}
_NAMES = ("max_batch_size", "peak_memory_gib", "samples_per_second", "epoch_minutes", "fit_minutes")
_COLUMNS: Mapping[str, type[Any]] = {
    "model": str, "family": str, "library": str, "params_m": float, "gpu": str, "precision": str,
    "batch_size": int, "safe_batch_size": int,
    **{f"{name}{end}": float for name in _NAMES for end in ("", "_low", "_high")},
    "grade": str, "n": int, "basis": str, "why_not": str,
}  # fmt: skip
"""Of a file. grade, n and basis are those of the speed."""

_BETWEEN = re.compile(r"[^a-z0-9]+")


def sizing_page(database: Database, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"items", "next", "matching", "cards", "query", ...}`: each item a model with one cell a card. A
    figure is a Number; a cell without one says why in `why_not`."""
    knowledge = knowledge_of(database)
    wanted = read_sizing(knowledge, requested)
    rows = _matching(knowledge, wanted.query)
    page, behind = page_behind(rows, attrgetter("name"), wanted.query.cursor, wanted.query.limit)
    items = [_item(knowledge, row, wanted) for row in page]
    _heat([each for item in items for each in item["cells"]], wanted.query.show)
    query = wanted.query
    nearest = [] if rows or not query.q else _nearest(knowledge, query.q)
    shown: dict[str, Any] = {"items": items, "next": behind, "matching": len(rows)}
    shown |= {"of": len(knowledge.models), "cards": [card_facts(card) for card in wanted.cards]}
    shown |= {"query": wanted.as_query(), "heat": SHOWN[query.show], "nearest": nearest}
    gpus = [*sorted(knowledge.cards.devices), *knowledge.cards.sheets]
    shown["choices"] = {"gpu": gpus, "precision": list(PRECISIONS)}
    return shown | {"facets": _facets(knowledge, query)}


_FACETS = ("task", "family", "library")


def _facets(knowledge: Knowledge, query: SizingQuery) -> dict[str, Any]:
    """Each facet's values and how many models that the other filters let through have them."""
    others = query.model_copy(update=dict.fromkeys(_FACETS))
    rows = [
        {"name": row.name, "task": row.tasks, "family": row.family, "library": row.library}
        for row in _matching(knowledge, others)
    ]
    asked = {name: str(given) for name in _FACETS if (given := getattr(query, name)) is not None}
    found: dict[str, Any] = gridded(rows, asked, "name", {name: name for name in _FACETS})["facets"]
    return found


def sizing_table(database: Database, requested: Mapping[str, str]) -> TableExport:
    """Every model that matches on every chosen card, one flat row each, for a file."""
    knowledge = knowledge_of(database)
    wanted = read_sizing(knowledge, requested)

    def pages() -> Iterator[list[dict[str, Any]]]:
        for row in _matching(knowledge, wanted.query):
            cells = [
                cell(knowledge, row, card, wanted.settings, wanted.query.n_train) for card in wanted.cards
            ]
            yield [_flat(row, each) for each in cells]

    return TableExport(_COLUMNS, pages)


def cell(
    knowledge: Knowledge, row: CatalogueModel, card: TargetDevice, settings: Mapping[str, Any], n_train: int
) -> dict[str, Any]:
    """One model on one card at the fastest efficient batch that fits; boosted trees have a fit and no epochs.
    `page`: whether it has a page of its own; what can be profiled is traced there."""
    requested = _taken(row, without_idle(settings, row))
    out: dict[str, Any] = {"gpu": card.key, "model": row.name, "heat": None, "page": True}
    try:
        asked = {"model": row.name, "gpu": card.key, "n_train": n_train, **requested}
        answer = predict_known(knowledge, asked)
    except InvalidInput as error:
        why = error.errors[0].message if error.errors else error.detail
        return out | {"why_not": why, "page": row.can_be_profiled}
    out |= {"precision": answer.get("precision"), "samples_per_second": answer["samples_per_second"]}
    if "fit_seconds" in answer:
        return out | {"fit_minutes": minutes_of(answer["fit_seconds"]), "n_train": answer["n_train"]}
    most = whole(answer["max_batch_size"])
    if not most["value"]:
        why = "not even one sample fits"
        return out | {"why_not": why, "max_batch_size": most, "samples_per_second": None}
    return out | {
        "max_batch_size": most,
        "safe_batch_size": answer["safe_batch_size"],
        "batch_size": answer["batch_size"],
        "peak_memory_gib": answer["peak_memory_gib"],
        "epoch_minutes": minutes_of(answer["epoch_seconds"]),
    }


def _taken(row: CatalogueModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without sizes of another kind of input, and ways to tune what is no decoder."""
    others = set(SIZE_FIELDS) - {row.input_kind} | ({"method"} if decoder_of(row.config) is None else set())
    return {name: value for name, value in settings.items() if name not in others}


def whole(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A Number of samples, without a decimal point."""
    return {**batch, **{name: int(batch[name]) for name in ("value", "low", "high")}}


def minutes_of(seconds: Mapping[str, Any]) -> dict[str, Any]:
    """The same Number in minutes."""
    scaled = {name: float(f"{seconds[name] / 60.0:.4g}") for name in ("value", "low", "high")}
    return {**seconds, **scaled}


def _item(knowledge: Knowledge, row: CatalogueModel, wanted: SizingAsked) -> dict[str, Any]:
    size = wanted.settings.get(row.input_kind, row.default_input_size)
    return {
        "model": row.name,
        **{name: getattr(row, name) for name in ("family", "library", "quality_score", "input_kind")},
        "params_m": row.params_m or None,
        "tasks": list(row.tasks),
        "input_size": size,
        "asked": _taken(row, {**wanted.settings, "n_train": wanted.query.n_train}),
        "cells": [cell(knowledge, row, card, wanted.settings, wanted.query.n_train) for card in wanted.cards],
    }


def _flat(row: CatalogueModel, each: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {
        "model": row.name, "family": row.family, "library": row.library, "params_m": row.params_m,
        "gpu": each["gpu"], "precision": each.get("precision"), "batch_size": each.get("batch_size"),
        "safe_batch_size": each.get("safe_batch_size"),
    }  # fmt: skip
    ends = {"": "value", "_low": "low", "_high": "high"}
    for name in _NAMES:
        figure = each.get(name) or {}
        out |= {f"{name}{end}": figure.get(part) for end, part in ends.items()}
    figure = each.get("samples_per_second") or {}
    grades = {name: figure.get(name) for name in ("grade", "n", "basis")}
    return out | grades | {"why_not": each.get("why_not")}


def _matching(knowledge: Knowledge, query: SizingQuery) -> list[CatalogueModel]:
    """The rows that meet every filter, in order; by name where the figure is the same."""
    words = [word for word in _BETWEEN.split(query.q.lower()) if word]
    rows = [
        row
        for row in knowledge.models.values()
        if (query.task is None or query.task in row.tasks)
        and query.family in (None, row.family)
        and query.library in (None, row.library)
        and (query.params_min is None or row.params_m >= query.params_min)
        and (query.params_max is None or row.params_m <= query.params_max)
        and all(word in spelled(row) for word in words)
    ]
    rows.sort(key=lambda row: row.name)
    sort = query.sort.removeprefix("-")
    return sorted(rows, key=lambda row: getattr(row, sort), reverse=query.sort.startswith("-"))


def spelled(row: CatalogueModel) -> str:
    """What a search is compared with: `ConvNeXt Base` finds `convnext_base.fb_in1k`."""
    return _BETWEEN.sub(" ", " ".join((row.name, row.family, *row.aliases)).lower())


def _nearest(knowledge: Knowledge, given: str) -> list[str]:
    plain = _BETWEEN.sub("_", given.lower())
    known = {name.split(".", 1)[0]: name for name in sorted(knowledge.models, reverse=True)}
    return [known[name] for name in get_close_matches(plain, list(known), n=5, cutoff=0.4)]


def _heat(cells: Sequence[dict[str, Any]], show: str) -> None:
    """The sixth of the page that each cell's figure is in; short epochs are the good ones."""
    found = [(each, each[_FIGURES[show]]["value"]) for each in cells if each.get(_FIGURES[show])]
    if not found:
        return
    values = np.array([value for _, value in found], dtype=float) * (-1.0 if show == "epoch" else 1.0)
    edges = np.quantile(values, np.arange(1, HEATS) / HEATS)
    for (each, _), sixth in zip(found, np.searchsorted(edges, values, side="right"), strict=True):
        each["heat"] = int(sixth)


def card_facts(card: TargetDevice) -> dict[str, Any]:
    origin = None if card.calibrated is None else card.calibrated.origin
    facts = {"key": card.key, "name": card.device or card.name, "memory_gib": card.memory_gib}
    return facts | {"usable_gib": round(card.usable_gib, 2), "kind": card.kind, "rates_of": origin}


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
