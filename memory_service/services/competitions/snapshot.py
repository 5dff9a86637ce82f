"""The recall snapshot of a database: built once for each state of its competitions."""

import threading
from dataclasses import replace

from sqlalchemy import select

from memory_service.recall.snapshot import RecallSnapshot
from memory_service.services.database.transactions import ReadTransaction
from memory_service.store import dialects
from memory_service.store.queries import passages, rows
from memory_service.store.queries.rows import fingerprints
from memory_service.store.session import ReadSession
from memory_service.store.tables.knowledge import Knowledge, Solution


class _Latest:
    """The latest snapshot of a database's competitions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: RecallSnapshot | None = None
        self._solutions: object = None

    def get(self, session: ReadSession) -> RecallSnapshot:
        revision = session.execute(select(Knowledge.revision)).scalar_one()
        known = self._snapshot
        if known is not None and known.revision == revision:
            return known
        with self._lock:
            known = self._snapshot
            if known is None or known.revision != revision:
                prints = fingerprints(session, "competitions", "solutions")
                state = (prints["competitions"], passages.encoders(session))
                if known is not None and known.state == state:
                    known = replace(known, revision=revision)
                else:
                    known, self._solutions = _built(session, revision, state), None
                if self._solutions != prints["solutions"]:
                    texts = _solution_texts(session)
                    known, self._solutions = known.with_solutions(texts), prints["solutions"]
                self._snapshot = known
        return known


def recall_snapshot(transaction: ReadTransaction) -> RecallSnapshot:
    """The snapshot of this unit's knowledge revision: built once, then one cheap read per question."""
    return transaction.caches.of(_Latest).get(transaction.session)


def _built(session: ReadSession, revision: int, state: object) -> RecallSnapshot:
    competitions = rows.all_rows(session, "competitions")
    if not dialects.of(session).embedded:
        return RecallSnapshot.build(revision, competitions, state=state)
    table = passages.all_vectors(session)
    return RecallSnapshot.build(
        revision, competitions, state=state, owners=table.competitions, vectors=table.vectors
    )


def _solution_texts(session: ReadSession) -> dict[str, str]:
    """Competition -> what its solutions say."""
    texts: dict[str, str] = {}
    query = select(Solution.competition, *_WORDED_COLUMNS).order_by(Solution.id)
    for slug, *fields in session.execute(query):
        texts[slug] = f"{texts.get(slug, '')} {fields}"
    return texts


_WORDED_COLUMNS = (
    Solution.input, Solution.families, Solution.models, Solution.techniques, Solution.features,
    Solution.what_mattered, Solution.what_failed,
)  # fmt: skip
