"""Rows of any table as an analyst's grid: facets with counts, a search, any order, groups."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memory_service.domain.common.vocabulary import TASKS
from memory_service.domain.recipe.vocabulary import TECHNIQUES
from memory_service.errors import unknown_name, wrong_value
from memory_service.schemas.lists import DEFAULT_LIMIT
from memory_service.services.tables.paging import page_behind, rows_of_page

PRESENTED = ("columns", "view", "edit", "saved", "counted")
"""Fields of an address that say how rows are shown, not which."""

_OWN = ("sort", "limit", "cursor", "q", "group", *PRESENTED)
_MOST_VALUES = 60
_VOCABULARIES: Mapping[str, Sequence[str]] = {"task": TASKS, "technique": tuple(TECHNIQUES)}
"""Facets of which a word that no row has may be mistyped."""

_BETWEEN = re.compile(r"[\W_]+")

Row = Mapping[str, Any]


def gridded(
    rows: Sequence[Row],
    asked: Mapping[str, str],
    key: str,
    facets: Mapping[str, str],
    most: int | None = None,
) -> dict[str, Any]:
    """`{"items", "next", "of", "matching", "facets", "names", "groups",
    "heads"}` of rows in their usual order. InvalidInput for a filter, an order or a group that is
    no field, and a task or a technique that is none.

    asked    fields of an address: `q`, `sort` (`-name`: falling), `group`, `limit`, `cursor`; every other one
             is a filter: equal, in a list, or `_min` and `_max`. `key.gpu` is a member of an object
    facets   name of a filter -> the field it is of; in the answer name -> [[value, rows under the other
             filters]], most first
    names    what rows can be in the order of
    heads    what each item is grouped by; groups: head -> rows
    """
    names = _names(rows)
    words = [word for word in _BETWEEN.split(asked.get("q", "").lower()) if word]
    found = [row for row in rows if _holds(row, words)] if words else rows
    given = {name: text for name, text in asked.items() if name not in _OWN and not name.startswith("to.")}
    tests = {name: _test(rows, name, text, facets, names) for name, text in given.items()}
    counts: dict[str, Counter[str]] = {name: Counter() for name in facets}
    kept = []
    for row in found:
        missed = [name for name, passes in tests.items() if not passes(row)]
        if not missed:
            kept.append(row)
        for name in counts if not missed else missed if len(missed) == 1 else ():
            if name in counts:
                counts[name].update(words_of(value_at(row, facets[name])))
    if sort := asked.get("sort"):
        kept.sort(key=lambda row: str(row[key]))
        kept = ordered(kept, _known("sort", sort.removeprefix("-"), names), falling=sort.startswith("-"))
    group = asked.get("group", "")
    by = facets.get(group, group)
    if group:
        kept = ordered(kept, _known("group", by, names))
    groups = Counter(_head(row, by) for row in kept if group)
    limit = rows_of_page(asked["limit"]) if "limit" in asked else DEFAULT_LIMIT
    page, behind = page_behind(kept, lambda row: str(row[key]), asked.get("cursor"), most or limit)
    told = {name: [[v, n] for v, n in some.most_common(_MOST_VALUES)] for name, some in counts.items()}
    return {
        "items": list(page), "next": behind, "of": len(rows), "matching": len(kept), "facets": told,
        "names": names, "groups": groups, "heads": [_head(row, by) for row in page] if group else [],
    }  # fmt: skip


def value_at(row: Row, name: str) -> Any:
    """A field of a row, or of an object in it (`value.batch_size`)."""
    value: Any = row
    for part in [name] if name in row else name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def words_of(value: Any) -> list[str]:
    """A value, or each of a list, as an address says it."""
    if value is None or value == "":
        return []
    if isinstance(value, list | tuple):
        return [str(each) for each in value]
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def _head(row: Row, name: str) -> str:
    """Under which head a row stands."""
    return ", ".join(words_of(value_at(row, name))) or "–"


def ordered(rows: Sequence[Row], name: str, *, falling: bool = False) -> list[Row]:
    """By one field; rows without it come last. An estimate counts as its value."""
    told = [(_rank(value_at(row, name)), row) for row in rows]
    with_value = [each for each in told if each[0] is not None]
    with_value.sort(key=lambda each: each[0] or ())
    with_value = with_value[::-1] if falling else with_value
    return [row for _, row in with_value] + [row for rank, row in told if rank is None]


def _rank(value: Any) -> tuple[Any, ...] | None:
    value = value.get("value", str(value)) if isinstance(value, Mapping) else value
    if isinstance(value, int | float):
        return (0, value, "")
    words = words_of(value)
    return (1, 0, ", ".join(words).lower()) if words else None


def _names(rows: Sequence[Row]) -> list[str]:
    """Fields of the rows, and members of the objects that say what a row applies to."""
    names = dict.fromkeys(rows[0] if rows else ())
    inner = (f"{part}.{name}" for row in rows for part in ("key", "value") for name in row.get(part) or ())
    return [*names, *dict.fromkeys(inner)] if "key" in names else list(names)


def _known(field: str, name: str, names: Sequence[str]) -> str:
    if names and name not in names and name.partition(".")[0] not in names:
        raise unknown_name(field, name, names)
    return name


def _holds(row: Row, words: Sequence[str]) -> bool:
    text = _BETWEEN.sub(" ", " ".join(_said(row)).lower())
    return all(word in text for word in words)


def _said(value: Any) -> Iterator[str]:
    """All texts and numbers in it, without the names of fields."""
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _said(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _test(
    rows: Sequence[Row], name: str, text: str, facets: Mapping[str, str], names: Sequence[str]
) -> Callable[[Row], bool]:
    base, _, how = name.rpartition("_")
    if how in ("min", "max") and base in names:
        return _range(base, how, text, name)
    at = facets.get(name) or _known("filter", name, [*facets, *names] if names else [])
    vocabulary = _VOCABULARIES.get(name, ()) if name in facets else ()
    if vocabulary and text not in vocabulary and not any(text in words_of(value_at(row, at)) for row in rows):
        raise unknown_name(name, text, vocabulary)
    return lambda row: text in words_of(value_at(row, at))


def _range(name: str, how: str, text: str, field: str) -> Callable[[Row], bool]:
    try:
        bound: float | None = float(text)
    except ValueError:
        bound = None

    def passes(row: Row) -> bool:
        value = value_at(row, name)
        if value is None:
            return False
        if not isinstance(value, str | int | float) or (bound is None and not isinstance(value, str)):
            raise wrong_value(field, "is for numbers and times, and must be one", text[:80])
        limit: Any = text if isinstance(value, str) else bound
        return bool(value >= limit if how == "min" else value <= limit)

    return passes
