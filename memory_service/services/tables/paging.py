"""Filters, sorts and opaque cursors of the lists; a cursor is checked before it is used.

A cursor names the last row shown (its sort value and key), so pages neither skip nor repeat rows that were
there when the walk began, however many are inserted meanwhile.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Text, cast, exists, func, literal, or_, select

from memory_service.domain.common.vocabulary import parse_task
from memory_service.domain.recipe.vocabulary import parse_family, parse_technique
from memory_service.errors import unknown_name, wrong_value
from memory_service.schemas.fields import clean_text
from memory_service.schemas.lists import DEFAULT_LIMIT, MAX_LIMIT
from memory_service.store.dialects import UtcDateTime
from memory_service.store.queries.rows import LISTED, column, key_of
from memory_service.store.tables.knowledge import Base, Competition, ModelTask, Solution

_MAX_CURSOR = 4_000
_MAX_VALUE = 300
_RANGES = ("min", "max")
_ALSO = ("origin", "corrected")

Item = TypeVar("Item")

_OWN_FILTERS: Mapping[tuple[str, str], Callable[[str], str]] = {
    ("models", "task"): parse_task,
    ("solutions", "task"): parse_task,
    ("solutions", "family"): parse_family,
    ("solutions", "technique"): parse_technique,
}
"""(table, filter) that is no column of the table -> how its value is read; `_holding` says what has it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A checked question about one table: which rows, in which order, from where, how many."""

    table: str
    sort: str
    descending: bool
    limit: int
    filters: tuple[tuple[str, str, Any], ...]
    after: tuple[Any, Any] | None = None

    @property
    def entity(self) -> type[Base]:
        return LISTED[self.table]

    def parts(self, query: Select[Any]) -> list[Select[Any]]:
        """The query with filters, order and starting point, in parts that follow one another: rows that have
        a value to sort by, then those that have none. Each part walks an index on either database, which one
        order with nulls at a certain end does not."""
        query = self._filtered(query)
        key, sort = (column(self.entity, name) for name in (key_of(self.entity), self.sort))
        order, ties = (sort.desc(), key.desc()) if self.descending else (sort.asc(), key.asc())
        if sort.key == key.key:
            return [self._begun(query, sort, key).order_by(order)]
        if not _nullable(self.entity, self.sort):
            return [self._begun(query, sort, key).order_by(order, ties)]
        without = query.where(sort.is_(None)).order_by(ties)
        if self.after is not None and self.after[0] is None:
            return [without.where(self._behind(key, self.after[1]))]
        return [self._begun(query.where(sort.is_not(None)), sort, key).order_by(order, ties), without]

    def counting(self) -> Select[tuple[int]]:
        """How many rows match, wherever a page begins."""
        return self._filtered(select(func.count()).select_from(self.entity))

    def _filtered(self, query: Select[Any]) -> Select[Any]:
        for name, how, value in self.filters:
            query = query.where(_condition(self.entity, name, how, value))
        return query

    def _begun(self, query: Select[Any], sort: Any, key: Any) -> Select[Any]:
        """The rows behind the last one shown. The bound on the sort alone is what an index begins at."""
        if self.after is None:
            return query
        value, last = self.after
        if sort.key == key.key:
            return query.where(self._behind(key, last))
        value = literal(value, sort.type)  # a bare True may only be compared with =
        bound = sort <= value if self.descending else sort >= value
        return query.where(bound, or_(self._behind(sort, value), self._behind(key, last)))

    def _behind(self, what: Any, value: Any) -> Any:
        return what < value if self.descending else what > value

    def cursor(self, row: Mapping[str, Any]) -> str:
        """The cursor that continues after this row."""
        value = row[self.sort]
        value = value.isoformat() if isinstance(value, dt.datetime) else value
        body = json.dumps([self._digest(), value, row[key_of(self.entity)]]).encode()
        return base64.urlsafe_b64encode(_check(body) + body).decode().rstrip("=")

    def resumed(self, cursor: str) -> Query:
        """The same question from where the cursor points; InvalidInput for one that this question did not
        give."""
        try:
            value, key = self._opened(cursor)
        except (ValueError, TypeError, KeyError, ArithmeticError, binascii.Error, RecursionError) as error:
            message = "is not a cursor that this list gave with the same filters and sort; start without one"
            shown = str(cursor)[:40].encode("utf-8", "replace").decode()
            raise wrong_value("cursor", message, shown) from error
        return replace(self, after=(value, key))

    def _opened(self, cursor: str) -> tuple[Any, Any]:
        if len(cursor) > _MAX_CURSOR:
            raise ValueError("too long")
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        if _check(raw[6:]) != raw[:6]:
            raise ValueError("changed")
        digest, value, key = json.loads(raw[6:])
        if digest != self._digest():
            raise ValueError("of another question")
        last = _converted(self.entity, key_of(self.entity), key)
        if value is None and _nullable(self.entity, self.sort):
            return None, last
        return _converted(self.entity, self.sort, value), last

    def _digest(self) -> str:
        question = [self.table, self.sort, self.descending, [[n, h, str(v)] for n, h, v in self.filters]]
        return hashlib.blake2b(json.dumps(question).encode(), digest_size=9).hexdigest()


def page_behind(
    rows: Sequence[Item], key_of_row: Callable[[Item], str], cursor: str | None, limit: int
) -> tuple[Sequence[Item], str | None]:
    """Of a list in memory the rows behind the one that the cursor names, from the first without a cursor, and
    the cursor of the next page, None at the end. InvalidInput for a key that no row has."""
    start = 0
    if cursor is not None:
        keys = [key_of_row(row) for row in rows]
        if cursor not in keys:
            raise wrong_value("cursor", "names no row of this list; start without one", cursor[:80])
        start = keys.index(cursor) + 1
    page = rows[start : start + limit]
    return page, key_of_row(page[-1]) if start + limit < len(rows) else None


def sort_names(table: str) -> tuple[str, ...]:
    """What a table is sorted by: its key and every indexed column (`-name` for descending)."""
    entity = LISTED[table]
    indexed = [c.name for c in entity.__table__.columns if c.index or c.info.get("listed")]
    return (key_of(entity), *sorted(indexed))


def filter_names(table: str) -> tuple[str, ...]:
    """Query parameters that narrow a table: equality by name, and `_min`/`_max` where the column is a number
    or a time."""
    entity = LISTED[table]
    names = [*sort_names(table), *(n for n in _ALSO if n in entity.__table__.columns)]
    names += [name for owner, name in _OWN_FILTERS if owner == table]
    if table == "profiles":
        names.append("model")
    times = [c.name for c in entity.__table__.columns if isinstance(c.type, UtcDateTime)]
    exact = [n for n in names if n not in times]
    measures = [n for n in sort_names(table) if n in times or _type(entity, n) in (int, float)]
    ranged = [n for n in measures if n != "updated_at"]
    return (*exact, *(f"{n}_{r}" for n in ranged for r in _RANGES))


def filter_types(table: str) -> dict[str, type[Any]]:
    """Filter -> type of the value it takes."""
    entity = LISTED[table]
    types: dict[str, type[Any]] = {}
    for name in filter_names(table):
        base, _, how = name.rpartition("_")
        ranged = how in _RANGES and base in sort_names(table)
        types[name] = str if (table, name) in _OWN_FILTERS else _type(entity, base if ranged else name)
    return types


def key_name(table: str) -> str:
    """The column that names a row of the table."""
    return key_of(LISTED[table])


def parse_query(
    table: str,
    filters: Mapping[str, Any] | None = None,
    sort: str | None = None,
    limit: int | str | None = None,
    cursor: str | None = None,
) -> Query:
    """Check a question about a table. InvalidInput names the nearest filter or sort for an unknown one."""
    if table not in LISTED:
        raise unknown_name("table", table, tuple(LISTED))
    entity = LISTED[table]
    given = {name: value for name, value in (filters or {}).items() if value is not None}
    parsed = [_parse_filter(table, name, value) for name, value in given.items()]
    wanted = (sort or key_of(entity)).strip()
    name = wanted.removeprefix("-")
    if name not in sort_names(table):
        raise unknown_name("sort", name, sort_names(table))
    query = Query(table, name, wanted.startswith("-"), rows_of_page(limit), tuple(sorted(parsed, key=str)))
    return query.resumed(cursor) if cursor else query


def _parse_filter(table: str, name: str, value: Any) -> tuple[str, str, Any]:
    if name not in filter_names(table):
        raise unknown_name("filter", name, filter_names(table))
    entity = LISTED[table]
    if (read := _OWN_FILTERS.get((table, name))) is not None:
        return name, "has", read(str(value))
    base, _, how = name.rpartition("_")
    if how in _RANGES and base in sort_names(table):
        return base, how, _parse(entity, base, value, name)
    if name == "task" and table != "claims":
        return name, "is", parse_task(str(value))
    if table == "profiles" and name == "model":
        return name, "named", _parse(entity, name, value, name)
    return name, "is", _parse(entity, name, value, name)


def _condition(entity: type[Base], name: str, how: str, value: Any) -> ColumnElement[bool]:
    if how == "has":
        return _holding(entity, name, value)
    compared = column(entity, name)
    holds: ColumnElement[bool] = compared == value
    if how == "named":  # with or without timm's tag of the weights: they cost the same
        return or_(holds, compared.startswith(f"{value}.", autoescape=True))
    if how == "min":
        holds = compared >= value
    elif how == "max":
        holds = compared <= value
    elif how == "of":
        holds = compared.in_(value)
    return holds


def _holding(entity: type[Base], name: str, value: str) -> ColumnElement[bool]:
    """Models by their tasks; solutions by the task of their competition, or by a name in a list: names of
    the vocabulary hold no quotes, so that one in quotes is found in the text of the list alone."""
    if entity is not Solution:
        key = column(entity, key_of(entity))
        return exists(select(ModelTask.task).where(ModelTask.model == key, ModelTask.task == value))
    if name == "task":
        return Solution.competition.in_(select(Competition.slug).where(Competition.task == value))
    names = column(entity, {"family": "families", "technique": "techniques"}[name])
    return cast(names, Text).contains(f'"{value}"', autoescape=True)


def _type(entity: type[Base], name: str) -> type[Any]:
    return entity.__table__.columns[name].type.python_type


def _nullable(entity: type[Base], name: str) -> bool:
    return bool(entity.__table__.columns[name].nullable)


def _parse(entity: type[Base], name: str, value: Any, field: str) -> Any:
    """A value of the column's type from what a query string holds; InvalidInput names the field."""
    try:
        return _converted(entity, name, value)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "a short plain text"}
        shown = str(value)[:80].encode("utf-8", "replace").decode()
        message = f"must be {wanted.get(_type(entity, name), 'a time in ISO 8601')} within reach"
        raise wrong_value(field, message, shown) from error


def _converted(entity: type[Base], name: str, value: Any) -> Any:
    wanted = _type(entity, name)
    if value is None:
        raise TypeError("null is no value of this column")
    if len(str(value)) > _MAX_VALUE:
        raise ValueError("too long")
    if wanted is bool:
        return {"true": True, "1": True, "false": False, "0": False}[str(value).lower()]
    if wanted is int or wanted is float:
        if isinstance(value, bool):
            raise TypeError("a truth value is no number")
        number = wanted(value)
        if not math.isfinite(number) or abs(number) > (2**31 - 1 if _is_narrow(entity, name) else 1e15):
            raise ValueError("out of reach")
        return number
    if wanted is str:
        return clean_text(str(value))
    moment = dt.datetime.fromisoformat(str(value))
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _is_narrow(entity: type[Base], name: str) -> bool:
    return entity.__table__.columns[name].type.__class__.__name__ == "Integer"


def rows_of_page(given: int | str | None) -> int:
    """What `limit` says; InvalidInput."""
    if given is None:
        return DEFAULT_LIMIT
    shown = str(given)
    plain = not isinstance(given, bool) and len(shown) < 10 and shown.isascii() and shown.isdigit()
    limit = int(shown) if plain else 0
    if not 1 <= limit <= MAX_LIMIT:
        raise wrong_value("limit", f"must be a whole number from 1 to {MAX_LIMIT}", str(given)[:40])
    return limit


def _check(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=6, person=b"cursor").digest()
