"""Interface that a database backend implements; `sqlite` and `postgresql` do."""

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, Engine, Table
from sqlalchemy.orm import Session

Vector32 = npt.NDArray[np.float32]

EMBEDDING_DIMENSIONS = 384
"""Fixed by the packaged all-MiniLM-L6-v2; an HNSW index needs one dimension for the whole column."""

BUSY_SECONDS = 15
"""How long a writer waits for another before it gives up: seeding everything takes about 2 s."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file of `backup` holds. foreign: triggers, views and marks that are not this service's."""

    revision: str | None
    tables: frozenset[str]
    foreign: tuple[str, ...] = ()


_NOT_OVERWRITTEN = ("version", "created_at")


def checked_vector(value: Any) -> Vector32:
    """The value as a little-endian float32 vector (384,); ValueError for another shape, NaN or infinity."""
    vector = np.asarray(value, dtype="<f4")
    if vector.shape != (EMBEDDING_DIMENSIONS,):
        raise ValueError(f"an embedding has shape ({EMBEDDING_DIMENSIONS},), not {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError("an embedding holds only finite numbers")
    return vector


def make_private(file: Path) -> None:
    """Make an empty file that its owner alone may read; what SQLite puts beside a database follows it."""
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


class Dialect(ABC):
    """One database's way of doing what SQL leaves open."""

    name: ClassVar[str]
    embedded: ClassVar[bool]
    errors: ClassVar[type[Exception]]
    """What the driver raises."""
    insert: ClassVar[Any]
    """SQLAlchemy's INSERT that knows ON CONFLICT."""
    mark: ClassVar[str]
    """Where a value goes in a statement that the driver gets as it is."""
    begin_write: ClassVar[str]
    lock_runs: ClassVar[str] = ""
    """Behind a SELECT of `runs` and `run_summaries`: until the transaction ends no run may end, and nobody
    else may lock the summaries so. Where one writer has the whole database nothing needs to be said."""
    read_options: ClassVar[Mapping[str, Any]]
    write_options: ClassVar[Mapping[str, Any]]
    glance_options: ClassVar[Mapping[str, Any]]
    """One statement without a transaction: what every request pays to see whether its cache is stale."""

    append_options: ClassVar[Mapping[str, Any]]
    """A connection whose transactions are begun and ended by plain statements."""

    @abstractmethod
    def engine_options(self) -> dict[str, Any]: ...

    @abstractmethod
    def install(self, engine: Engine) -> None:
        """Listen for new connections and beginning transactions."""

    @abstractmethod
    def insertions(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> Iterable[tuple[str, Sequence[Any]]]:
        """Plain INSERTs, each with its values, for rows of numbers and texts."""

    @abstractmethod
    def create_extensions(self, connection: Connection) -> None:
        """Before the tables are made."""

    @abstractmethod
    def create_search(self, connection: Connection) -> None:
        """Full text and vector index over `passages`; the table exists."""

    @abstractmethod
    def index_vectors(self, connection: Connection) -> None:
        """Build the index of vectors anew, where there is one."""

    @abstractmethod
    def drop_search(self, connection: Connection) -> None: ...

    @abstractmethod
    def missing_search(self, connection: Connection) -> list[str]:
        """Names of search objects that should be there and are not."""

    @abstractmethod
    def search_words(self, session: Session, words: Sequence[str], limit: int) -> list[tuple[int, float]]:
        """(passage id, score), best first, of passages with any of the plain words."""

    @abstractmethod
    def nearest(self, session: Session, vectors: Vector32, limit: int) -> list[list[tuple[int, float]]]:
        """Of each vector (n, 384) its (passage id, cosine similarity), nearest first."""

    @abstractmethod
    def many_passages(self, session: Session) -> contextlib.AbstractContextManager[None]:
        """Around thousands of insertions in one transaction: build the indexes once, after."""

    @abstractmethod
    def lock_seeding(self, session: Session) -> None:
        """Lock seeding against other processes to the end of the transaction; other writers go on."""

    @abstractmethod
    def advance_sequences(self, connection: Connection) -> None:
        """Continue id sequences behind rows inserted with explicit ids."""

    @abstractmethod
    def migrating(self, engine: Engine) -> contextlib.AbstractContextManager[Connection]:
        """A transaction in which this process alone migrates; others wait, then see its result."""

    @abstractmethod
    def integrity(self, connection: Connection) -> list[str]:
        """What the database itself finds broken; empty when sound."""

    @abstractmethod
    def foreign_objects(self, connection: Connection) -> list[str]:
        """Triggers, views and rules that this service did not make: they would act in its name."""

    @abstractmethod
    def contents(self, source: Path) -> Contents:
        """What a file of `backup` holds; InvalidInput where it is none."""

    @abstractmethod
    def backup(self, engine: Engine, target: Path) -> None:
        """A consistent copy of everything in one new file, while others go on writing."""

    @abstractmethod
    def restore(self, engine: Engine, source: Path, migrate: Callable[[Connection], None]) -> None:
        """Fill an empty database from a file of `backup`, all or nothing. migrate: makes the tables of the
        file's revision, where the file holds rows alone."""

    def upsert(self, session: Session, table: Table, rows: Sequence[Mapping[str, Any]], key: str) -> None:
        """Insert rows; where the key is taken, overwrite the other columns but `version` and `created_at`."""
        insert = self.insert(table)
        values = {name: insert.excluded[name] for name in rows[0] if name not in (key, *_NOT_OVERWRITTEN)}
        session.execute(insert.on_conflict_do_update(index_elements=[key], set_=values), list(rows))
