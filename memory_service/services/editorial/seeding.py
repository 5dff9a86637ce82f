"""The knowledge that ships, brought into a database without undoing what people corrected.

A row that a seed brought and nobody touched follows its file: it is added, changed and removed with it. A row
that a person added or corrected stays; one that a person deleted does not come back. Texts are encoded first,
then one transaction writes everything.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import select, update

from memory_service import resources
from memory_service.services.competitions.snapshot import TextEncoder, texts_of, vectors_of
from memory_service.services.database.transactions import Database, ReadTransaction, WriteTransaction
from memory_service.services.editorial.seed_files import (
    FILES,
    OF_COMPETITIONS,
    Seed,
    files_digest,
    read_seeds,
)
from memory_service.store.queries import history, passages, rows
from memory_service.store.queries.passages import NewPassage, StoredPassage
from memory_service.store.tables.knowledge import Competition, Knowledge

WHO = "seeds"
_CHUNK = 256


@dataclass(frozen=True, slots=True)
class TableReport:
    """Rows of one table: kept = corrected or added by people, skipped = deleted by people."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    kept: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class SeedReport:
    """What a seeding did. `encoded` counts passages that got a vector, `without_vector` those left to
    words."""

    tables: Mapping[str, TableReport] = field(default_factory=dict)
    encoded: int = 0
    without_vector: int = 0
    encoder: str | None = None
    seconds: float = 0.0

    @property
    def wrote(self) -> bool:
        return self.encoded > 0 or any(t.added or t.changed or t.removed for t in self.tables.values())

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"seconds": round(self.seconds, 2)}


@dataclass(frozen=True, slots=True)
class _Plan:
    add: list[Seed]
    change: list[Seed]
    remove: list[str]
    report: TableReport


def is_seeded(database: Database, folder: Path | None = None) -> bool:
    """Whether exactly these seed files were loaded last."""
    with database.read() as transaction:
        digest = transaction.session.scalars(select(Knowledge.seeds_digest)).one_or_none()
    return digest == files_digest(folder or resources.path("seeds"))


def seed(database: Database, folder: Path | None = None, encoder: TextEncoder | None = None) -> SeedReport:
    """Load the seed files (idempotent). InvalidInput names file and line of a wrong row; then nothing is
    written."""
    began = time.monotonic()
    folder = folder or resources.path("seeds")
    digest = files_digest(folder)
    seeds = read_seeds(folder)
    with database.read() as transaction:
        plan = _plan(transaction, "competitions", seeds["competitions"])
        texts = _texts_to_encode(transaction, plan, encoder)
    vectors = _encode(texts, encoder)
    with database.write() as writing:
        # The plan below is made from what whoever seeded before has left.
        database.dialect.lock_seeding(writing.session)
        loaded = writing.session.scalars(select(Knowledge.seeds_digest)).one()
        plans = {table: _plan(writing, table, seeds[table]) for table in FILES}
        _skip_orphans(writing, plans)
        for table in reversed(list(FILES)):
            _remove(writing, table, plans[table].remove)
        for table, plan in plans.items():
            _write(writing, table, plan)
        encoded, missing = _keep_passages(writing, vectors, encoder)
        if loaded != digest:
            writing.session.execute(update(Knowledge).values(seeds_digest=digest))
    reports = {table: plan.report for table, plan in plans.items()}
    name = encoder.name if encoder is not None else None
    return SeedReport(reports, encoded, missing, name, time.monotonic() - began)


def fill_embeddings(database: Database, encoder: TextEncoder) -> int:
    """Give every passage without this encoder's vector one, in batches; how many. Cheap when none is
    missing."""
    done = 0
    with database.read() as transaction:
        missing = passages.unencoded(transaction.session, encoder.name)
    for start in range(0, len(missing), _CHUNK):
        batch = missing[start : start + _CHUNK]
        vectors = vectors_of([text for _, text in batch], encoder)
        with database.write() as writing:
            found = [(passage, text, vector) for (passage, text), vector in zip(batch, vectors, strict=True)]
            done += passages.set_embeddings(writing.session, found, encoder.name)
    return done


def _plan(transaction: ReadTransaction, table: str, seeds: Mapping[str, Seed]) -> _Plan:
    entity = rows.ENTITIES[table]
    key = rows.column(entity, rows.key_of(entity))
    query = select(key, entity.seed_digest, entity.corrected, entity.origin)
    there = {row[0]: row[1:] for row in transaction.session.execute(query)}
    deleted = history.deleted_by_people(transaction.session, table)
    add = [seed for name, seed in seeds.items() if name not in there and name not in deleted]
    stored = {name for name, (_, corrected, origin) in there.items() if _is_kept(table, corrected, origin)}
    change = [s for n, s in seeds.items() if n in there and n not in stored and there[n][0] != s.digest]
    from_seed = [name for name, (_, _, origin) in there.items() if origin == "seed"]
    remove = [name for name in from_seed if name not in seeds and name not in stored]
    report = TableReport(
        added=len(add),
        changed=len(change),
        removed=len(remove),
        unchanged=sum(n in seeds and n not in stored for n in there) - len(change),
        kept=len(stored),
        skipped=len((deleted & seeds.keys()) - there.keys()),
    )
    return _Plan(add, change, remove, report)


def _is_kept(table: str, corrected: bool, origin: str) -> bool:
    """Profiles are computed, never corrected by hand: one that ships replaces one that was traced here."""
    return table != "profiles" and (corrected or origin == "user")


def _skip_orphans(transaction: WriteTransaction, plans: dict[str, _Plan]) -> None:
    """Patterns and solutions of a competition that a person deleted have nothing to stand on; those that
    people wrote keep it."""
    there = set(transaction.session.scalars(select(Competition.slug)))
    there |= {seed.key for seed in plans["competitions"].add}
    needed: set[str] = set()
    for table in OF_COMPETITIONS:
        entity, plan = rows.ENTITIES[table], plans[table]
        homeless = {s.key for s in plan.add if s.values["competition"] not in (None, *there)}
        own, competition = rows.column(entity, "id"), rows.column(entity, "competition")
        query = select(own, competition).where(competition.in_(plans["competitions"].remove))
        needed |= {slug for name, slug in transaction.session.execute(query) if name not in plan.remove}
        _forget(plans, table, homeless, set())
    _forget(plans, "competitions", set(), needed)


def _forget(plans: dict[str, _Plan], table: str, added: set[str], removed: set[str]) -> None:
    plan, report = plans[table], plans[table].report
    plans[table] = _Plan(
        [s for s in plan.add if s.key not in added],
        plan.change,
        [name for name in plan.remove if name not in removed],
        replace(
            report, added=report.added - len(added), skipped=report.skipped + len(added),
            removed=report.removed - len(removed), kept=report.kept + len(removed),
        ),
    )  # fmt: skip


def _remove(transaction: WriteTransaction, table: str, names: Sequence[str]) -> None:
    for name in names:
        row = rows.find(transaction.session, table, name, to_change=True)
        if row is None or _is_kept(table, row.corrected, row.origin):
            continue
        before = rows.knowledge_values(row)
        rows.remove(transaction.session, row)
        _record(transaction, table, name, "delete", version=row.version, before=before)


def _write(transaction: WriteTransaction, table: str, plan: _Plan) -> None:
    new = [{**s.values, **rows.bookkeeping("seed", transaction.now, s.digest)} for s in plan.add]
    rows.insert_all(transaction.session, table, new)
    for changed in plan.change:
        row = rows.find(transaction.session, table, changed.key, to_change=True)
        if row is None or _is_kept(table, row.corrected, row.origin):
            continue
        before = rows.knowledge_values(row)
        mark = {"seed_digest": changed.digest, "updated_at": transaction.now, "origin": "seed"}
        rows.change(transaction.session, row, {**changed.values, **mark})
        if table != "profiles":
            after = dict(changed.values)
            what = {"version": row.version, "before": before, "after": after}
            _record(transaction, table, changed.key, "update", **what)


def _record(transaction: WriteTransaction, table: str, key: str, action: Any, **what: Any) -> None:
    history.record(
        transaction.session, transaction.now, table, key, action,
        who=WHO, why="the seed file changed", origin="seed", **what,
    )  # fmt: skip


def _texts_to_encode(transaction: ReadTransaction, plan: _Plan, encoder: TextEncoder | None) -> list[str]:
    """Texts of all competitions, as they will stand, that have no vector of this encoder yet."""
    if encoder is None:
        return []
    stored = {row["slug"]: row for row in rows.all_rows(transaction.session, "competitions")}
    stored |= {s.key: dict(s.values) for s in (*plan.add, *plan.change)}
    wanted = {text for row in stored.values() for _, text in texts_of(row)}
    groups = passages.of_competitions(transaction.session).values()
    encoded = {each.digest for group in groups for each in group if each.encoder == encoder.name}
    return sorted((t for t in wanted if passages.digest(t) not in encoded), key=len)


def _encode(texts: Sequence[str], encoder: TextEncoder | None) -> dict[str, npt.NDArray[np.float32]]:
    out: dict[str, npt.NDArray[np.float32]] = {}
    if encoder is None:
        return out
    for start in range(0, len(texts), _CHUNK):
        batch = texts[start : start + _CHUNK]
        out |= zip(map(passages.digest, batch), vectors_of(batch, encoder), strict=True)
    return out


def _keep_passages(
    transaction: WriteTransaction, vectors: Mapping[str, npt.NDArray[np.float32]], encoder: TextEncoder | None
) -> tuple[int, int]:
    """Bring the passages of every competition to its text as it stands; (given a vector, left without)."""
    encoded = missing = 0
    name = encoder.name if encoder is not None else None
    there = passages.of_competitions(transaction.session)
    for row in rows.all_rows(transaction.session, "competitions"):
        texts = texts_of(row)
        old = there.get(row["slug"], [])
        digests = [passages.digest(text) for _, text in texts]
        lacking = sum(digest in vectors for digest in digests)
        if _same(texts, digests, old) and not lacking:
            missing += sum(passage.encoder is None for passage in old)
            continue
        new = [
            NewPassage(kind, text, vectors.get(digest), name if digest in vectors else None)
            for (kind, text), digest in zip(texts, digests, strict=True)
        ]
        passages.replace(transaction.session, row["slug"], new)
        encoded += lacking
        stored = {passage.digest for passage in old if passage.encoder is not None}
        missing += sum(digest not in vectors and digest not in stored for digest in digests)
    return encoded, missing


def _same(texts: Sequence[tuple[str, str]], digests: Sequence[str], old: Sequence[StoredPassage]) -> bool:
    return [(kind, digest) for (kind, _), digest in zip(texts, digests, strict=True)] == [
        (passage.kind, passage.digest) for passage in old
    ]
