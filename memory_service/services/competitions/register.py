"""What registering or correcting a competition stores: its row, and the passages it is found by.

Text is cut and encoded before the write transaction opens (`editorial.curation.write_changes`). Without an
encoder the passages are stored without vectors: words find them, and `seeding.fill_embeddings` completes them
later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.vocabulary import modality_of
from memory_service.schemas.rows import validate
from memory_service.services.competitions.encoding import TextEncoder, encode, texts_of
from memory_service.services.competitions.signals import read_text
from memory_service.services.tables import table_rows as catalogue
from memory_service.store.queries.passages import NewPassage

Row = Mapping[str, Any]

_METRIC = ("metric", "metric_family", "metric_direction")
_FIGURES = ("n_train", "n_classes", "image_size", "split")

SURE_ENOUGH = 0.5
"""From this confidence on, a task read from the text is stored as the competition's."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A competition as it will be stored.

    values     of its row
    inferred   which of task, modality, metric, sizes and split were not given and read from its text
    passages   its texts, encoded; None: those that are stored stay
    """

    values: dict[str, Any]
    inferred: Sequence[str]
    passages: Sequence[NewPassage] | None


def registration(values: Row, encoder: TextEncoder | None) -> Registration:
    """Of a new competition; InvalidInput names each wrong field."""
    stored = validate("competitions", values)
    given = {name: stored[name] for name in stored if name != "size"}
    inferred: list[str] = []
    facts = read_text(f"{given['title']}. {given['description']}", None).facts
    if given["task"] is None and facts.task is not None and facts.confidence >= SURE_ENOUGH:
        given["task"] = facts.task
        inferred.append("task")
    if given["modality"] is None and given["task"] is not None:
        given["modality"] = modality_of(given["task"])
        inferred.append("modality")
    judged = _METRIC if facts.metric_sure and all(given[name] is None for name in _METRIC) else ()
    for name in (*judged, *_FIGURES):
        if given[name] is None and (reported := getattr(facts, name)) is not None:
            given[name] = reported
            inferred.append(name)
    return Registration(given, inferred, encode(texts_of(given), encoder))


def corrected_registration(row: Row, changes: Row, encoder: TextEncoder | None) -> Registration:
    """Of the stored competition `row` with changes; its texts are encoded where they change."""
    facts = {name: row[name] for name in row if name not in ("size", *catalogue.BOOKKEEPING_SHOWN)}
    wanted = validate("competitions", facts | dict(changes))
    new = encode(texts_of(wanted), encoder) if texts_of(wanted) != texts_of(row) else None
    return Registration(dict(changes), (), new)
