"""The recall snapshot of a database: built once for each state of its competitions."""

import threading
from dataclasses import replace

from sqlalchemy import select

from memory_service.recall.snapshot import RecallSnapshot
from memory_service.services.database.transactions import ReadTransaction
from memory_service.services.tables.usable_rows import readable_rows
from memory_service.store import dialects
from memory_service.store.queries import passages
from memory_service.store.queries.rows import fingerprints
from memory_service.store.tables.knowledge import Knowledge


class _Latest:
    """The latest snapshot of a database's competitions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: RecallSnapshot | None = None
        self._solutions: object = None

    def get(self, transaction: ReadTransaction) -> RecallSnapshot:
        session = transaction.session
        revision = session.execute(select(Knowledge.revision)).scalar_one()
        known = self._snapshot
        if known is not None and known.revision == revision:
            return known
        with self._lock:
            before = known = self._snapshot
            if known is None or known.revision != revision:
                prints = fingerprints(session, "competitions", "solutions")
                state = (prints["competitions"], passages.encoders(session))
                if known is not None and known.state == state:
                    known = replace(known, revision=revision)
                else:
                    known, self._solutions = _built(transaction, revision, state), None
                if self._solutions != prints["solutions"]:
                    known = known.with_solutions(readable_rows(transaction, "solutions")[0], before)
                    self._solutions = prints["solutions"]
                self._snapshot = known
        return known


def recall_snapshot(transaction: ReadTransaction) -> RecallSnapshot:
    """The snapshot of this unit's knowledge revision: built once, then one cheap read per question."""
    return transaction.caches.of(_Latest).get(transaction)


def _built(transaction: ReadTransaction, revision: int, state: object) -> RecallSnapshot:
    competitions, _ = readable_rows(transaction, "competitions")
    if not dialects.of(transaction.session).embedded:
        return RecallSnapshot.build(revision, competitions, state=state)
    table = passages.all_vectors(transaction.session)
    return RecallSnapshot.build(
        revision, competitions, state=state, owners=table.competitions, vectors=table.vectors
    )
