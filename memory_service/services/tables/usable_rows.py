"""Rows as the values that plans are made with. A row that cannot be one (of an older program, or written past
the service) is left out and named: it hurts nobody who asks for another."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.schemas.rows import BUILT
from memory_service.store.engine import Unreadable, is_readable

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
            built.append(build(row))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one row stays with it
            left_out.append(f"{table} {row[_KEYS.get(table, 'id')]}: {error}")
    return built, tuple(left_out)


def readable(rows: Iterable[Row]) -> Iterator[Row]:
    """Those of which every JSON column is JSON."""
    return (row for row in rows if is_readable(*row.values()))


def usable_sheets(rows: Iterable[Row]) -> dict[str, Gpu]:
    """Slug -> GPU model."""
    return {gpu.slug: gpu for gpu in usable("gpus", rows)[0]}
