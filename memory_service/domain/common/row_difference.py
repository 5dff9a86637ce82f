"""Difference of two versions of a row, field by field; members of nested objects by their path."""

from collections.abc import Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]


def difference(before: Row, after: Row) -> list[dict[str, Any]]:
    """[{"field", "before", "after"}] in the order of the fields; what is missing on one side is null there.
    Members of objects are named by their path (`value.batch_size`); lists are compared whole."""
    return [{"field": field, "before": old, "after": new} for field, old, new in _differing(before, after)]


def changed_fields(before: Row, after: Row) -> tuple[str, ...]:
    """The row's own fields that differ."""
    return tuple(dict.fromkeys(name for name in (*before, *after) if before.get(name) != after.get(name)))


def _differing(before: Row, after: Row, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differing(old, new, f"{path}{name}.")
        else:
            yield f"{path}{name}", old, new
