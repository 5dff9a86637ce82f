"""Seeds are read once in a worker: the files that ship (two and a half seconds), and of each kind of database
models and profiles, of which every copy of a seeded one holds the same (most of a second)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from functools import cache
from pathlib import Path

from memory_service import resources
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.editorial.seed_files import Seed, read_seeds
from memory_service.services.knowledge import snapshot
from memory_service.services.knowledge.cost_cache import PricedCatalogue
from memory_service.services.knowledge.profile_library import ProfileLibrary
from memory_service.services.knowledge.snapshot import CATALOGUE
from memory_service.store.queries.rows import fingerprints

_first_read = snapshot._renewed

Seeds = dict[str, dict[str, Seed]]


@cache
def shipped_seeds() -> Seeds:
    """Only to read."""
    return read_seeds(resources.path("seeds"))


def seeds_in(folder: Path) -> Seeds:
    """Stands for `read_seeds`."""
    return shipped_seeds() if folder == resources.path("seeds") else read_seeds(folder)


class ReadOnce:
    """`renewed` stands for the snapshot's own: of a database whose catalogue is as it was seeded, the first
    read takes over models and profiles, which are frozen, and nothing else; what follows is made anew."""

    def __init__(self) -> None:
        self._known: list[snapshot._Read] = []

    def remember(self, seeded: Database) -> None:
        with seeded.read() as transaction:
            self._known.append(_first_read(transaction, seeded.knowledge_revision(), snapshot._nothing()))

    def renewed(self, transaction: ReadTransaction, revision: int, before: snapshot._Read) -> snapshot._Read:
        before = before if before.prints else self._as_seeded(transaction) or before
        return _first_read(transaction, revision, before)

    def _as_seeded(self, transaction: ReadTransaction) -> snapshot._Read | None:
        now = fingerprints(transaction.session, *CATALOGUE)
        for read in self._known:
            if now.items() <= read.prints.items():
                prints: defaultdict[str, Hashable] = defaultdict(object, now)
                known = read.knowledge.priced
                profiles = [*known.library.profiles.values(), *known.library.checkpointed.values()]
                own = replace(read.knowledge, priced=PricedCatalogue(known.models, ProfileLibrary(profiles)))
                return replace(read, prints=prints, knowledge=own)
        return None
