"""Rows as the values that plans are made with. A row that cannot be one (of an older program, or written past
the service) is left out and named: it hurts nobody who asks for another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from threading import Lock
from typing import Any, TypeVar

from cachetools import LRUCache, cached

from memory_service.domain.cost.profile import Profile
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.planning.proven_rows import prove_gpu, prove_model
from memory_service.schemas.rows import BUILT
from memory_service.services.database.transactions import ReadTransaction
from memory_service.store.engine import Unreadable, is_readable
from memory_service.store.queries.rows import all_rows, fingerprints, stamps

Row = Mapping[str, Any]
Value = TypeVar("Value")

_KEYS = {"models": "name", "gpus": "slug", "competitions": "slug"}


def usable(table: str, rows: Iterable[Row]) -> tuple[list[Any], tuple[str, ...]]:
    """(the values in the order of their rows, "table key: why" of each that is left out)."""
    built, left_out = [], []
    build: Callable[[Row], Any] = BUILT.get(table, dict)
    for row in rows:
        try:
            broken = [name for name, value in row.items() if isinstance(value, Unreadable)]
            if broken:
                raise ValueError(f"{', '.join(broken)} is no JSON")  # noqa: TRY301 - as any other fault
            built.append(proven(build(row)))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one row stays with it
            left_out.append(f"{table} {row[_KEYS.get(table, 'id')]}: {error}")
    return built, tuple(left_out)


def proven(value: Value, shipped: Sequence[Profile] = ()) -> Value:
    """The same value of a row; InvalidInput for a card or model that has no price. shipped: of the model."""
    if isinstance(value, Gpu | CatalogueModel):
        _prove(value, shipped)
    return value


def _priced_by(value: Gpu | CatalogueModel, shipped: Sequence[Profile]) -> bytes:
    """A digest of all that a price is made of."""
    if isinstance(value, Gpu):
        facts: Any = replace(value, source="", aliases=())
    else:
        facts = (value.name, value.library, value.family, value.config, value.default_input_size)
        facts = (*facts, value.input_kind, shipped)
    return blake2b(repr(facts).encode(), digest_size=16).digest()


@cached(LRUCache(8_192), key=_priced_by, lock=Lock())
def _prove(value: Gpu | CatalogueModel, shipped: Sequence[Profile]) -> None:
    """A row that stays as it is needs to be priced once: the price is of its values alone."""
    if isinstance(value, Gpu):
        prove_gpu(value)
    else:
        prove_model(value, shipped)


class _Kept(dict[str, dict[str, tuple[object, Row, bool, tuple[str, ...]]]]):
    """Table -> key -> a row with its stamp, whether every JSON column is JSON, and why it cannot be used."""


def readable_rows(transaction: ReadTransaction, table: str) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """(the readable rows in the order of their keys, "table key: why" of each that cannot be used). Read anew
    is what changed; a row that did not is the same object as before."""
    every, now = transaction.caches.of(_Kept), stamps(transaction.session, table)
    kept = {key: one for key, one in every.get(table, {}).items() if now.get(key) == one[0]}
    if stale := [key for key in now if key not in kept]:
        for row in all_rows(transaction.session, table, stale):
            key = row[_KEYS.get(table, "id")]
            kept[key] = now[key], row, is_readable(*row.values()), usable(table, [row])[1]
    every[table] = kept
    found = [kept[key] for key in now]
    return tuple(one[1] for one in found if one[2]), tuple(why for one in found for why in one[3])


def readable_sheets(transaction: ReadTransaction) -> tuple[Mapping[str, Gpu], tuple[str, ...]]:
    """(slug -> GPU model, "gpus slug: why" of each that cannot be used); read where the table changed."""

    def read() -> tuple[Mapping[str, Gpu], tuple[str, ...]]:
        built, left_out = usable("gpus", all_rows(transaction.session, "gpus"))
        return {gpu.slug: gpu for gpu in built}, left_out

    state = fingerprints(transaction.session, "gpus")
    return transaction.caches.latest(readable_sheets, state, read)


def usable_sheets(transaction: ReadTransaction) -> Mapping[str, Gpu]:
    """Slug -> GPU model."""
    return readable_sheets(transaction)[0]
