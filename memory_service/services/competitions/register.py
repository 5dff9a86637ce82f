"""Registering a competition with the passages it is found by.

Text is cut and encoded before the write transaction opens. Without an encoder the passages are stored without
vectors: words find them, and `seeding.fill_embeddings` completes them later.
"""

from collections.abc import Mapping
from typing import Any

from memory_service.domain.common.vocabulary import modality_of
from memory_service.schemas.rows import validate
from memory_service.services.competitions.encoding import TextEncoder, encode, texts_of
from memory_service.services.competitions.signals import read_text
from memory_service.services.database.transactions import Database
from memory_service.services.tables import table_rows as catalogue

Row = Mapping[str, Any]

_METRIC = ("metric", "metric_family", "metric_direction")
_FIGURES = ("n_train", "n_classes", "image_size", "split")

SURE_ENOUGH = 0.5
"""From this confidence on, a task read from the text is stored as the competition's."""


def add_competition(
    database: Database, values: Row, *, encoder: TextEncoder | None, who: str, why: str = "added"
) -> dict[str, Any]:
    """Store a competition; the row, with `inferred`: which of task, modality, metric, sizes and split were
    not given and read from its text.

    InvalidInput names each wrong field; Conflict the row that has the slug.
    """
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
    with database.read() as transaction:
        taken = catalogue.list_rows(transaction, "competitions", {"slug": given["slug"]}).items
    new = encode(texts_of(given), encoder if not taken else None)
    with database.write() as writing:
        row = catalogue.create_row(writing, "competitions", given, who=who, why=why, new_passages=new)
    return row | {"inferred": inferred}


def correct_competition(
    database: Database,
    slug: str,
    changes: Row,
    *,
    encoder: TextEncoder | None,
    who: str,
    why: str,
    expected_version: int | None = None,
) -> dict[str, Any]:
    """Correct a competition and the passages it is found by; see `catalogue.update_row`."""
    with database.read() as transaction:
        row = catalogue.get_row(transaction, "competitions", slug)
    facts = {name: row[name] for name in row if name not in ("size", *catalogue.BOOKKEEPING_SHOWN)}
    wanted = validate("competitions", facts | dict(changes))
    new = encode(texts_of(wanted), encoder) if texts_of(wanted) != texts_of(row) else None
    with database.write() as writing:
        return catalogue.update_row(
            writing,
            "competitions",
            slug,
            changes,
            who=who,
            why=why,
            # The passages were made from the version that was read: nothing may have come between.
            expected_version=row["version"] if expected_version is None else expected_version,
            new_passages=new,
        )
