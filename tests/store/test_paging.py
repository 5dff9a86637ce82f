"""Lists: filters, sorts and cursors, on both databases."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_service import errors
from memory_service.errors import InvalidInput
from memory_service.schemas.lists import MAX_LIMIT
from memory_service.services.database.transactions import Database
from memory_service.services.tables import table_rows as catalogue
from memory_service.services.tables.paging import filter_names, parse_query, sort_names
from memory_service.store.queries import rows
from tests.conftest import KINDS, Servers
from tests.store.fakes import competition, model, strategy

SIZES: list[int | None] = [None, 100, 100, 100, 5_000, 20_000, 20_000, 400_000, None, 7]


def _fill(database: Database, count: int = 30) -> None:
    with database.write() as unit:
        stored = []
        for number in range(count):
            values = competition(
                f"c-{number:03d}", n_train=SIZES[number % len(SIZES)], year=2000 + number % 7
            )
            catalogue.create_row(unit, "competitions", values, who="a")
            stored.append(values)


def _walk(database: Database, table: str = "competitions", **question: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        with database.read() as unit:
            page = catalogue.list_rows(unit, table, cursor=cursor, **question)
        found += page.items
        if page.next is None:
            return found
        cursor = page.next


@pytest.fixture(scope="module", params=KINDS)
def filled(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Database]:
    """30 competitions, shared by the tests that only read."""
    url = servers.new(request.param)
    opened = Database(url)
    _fill(opened)
    yield opened
    opened.close()
    servers.drop(url)


@pytest.mark.parametrize("sort", ["slug", "-slug", "n_train", "-n_train", "year", "-updated_at", "title"])
@pytest.mark.parametrize("limit", [1, 7, 30, 500])
def test_pages_hold_every_row_once_in_order(filled: Database, sort: str, limit: int) -> None:
    whole = _walk(filled, sort=sort, limit=500)
    assert len(whole) == 30
    assert _walk(filled, sort=sort, limit=limit) == whole
    name = sort.removeprefix("-")
    values = [row[name] for row in whole if row[name] is not None]
    assert values == sorted(values, reverse=sort.startswith("-"))
    unknown = [row[name] is None for row in whole]
    assert unknown == sorted(unknown), "rows without the value come last"


@pytest.mark.parametrize("sort", ["followed", "-followed"])
def test_pages_go_on_by_what_is_true_or_false(database: Database, sort: str) -> None:
    with database.write() as unit:
        for number in range(6):
            values = strategy(f"R99-{number}", followed=number % 2 == 0)
            catalogue.create_row(unit, "strategies", values, who="a")
    found = [(row["followed"], row["id"]) for row in _walk(database, "strategies", sort=sort, limit=2)]
    assert len(found) == 6
    assert found == sorted(found, reverse=sort.startswith("-"))


def test_rows_inserted_and_deleted_meanwhile_move_no_page(database: Database) -> None:
    _fill(database)
    with database.read() as unit:
        first = catalogue.list_rows(unit, "competitions", sort="slug", limit=10)
    with database.write() as unit:
        catalogue.create_row(unit, "competitions", competition("a-new-first-one"), who="a")
        catalogue.delete_row(unit, "competitions", "c-009", who="a", why="t")
    with database.read() as unit:
        second = catalogue.list_rows(unit, "competitions", sort="slug", limit=10, cursor=first.next)
    assert [row["slug"] for row in second.items] == [f"c-{n:03d}" for n in range(10, 20)]


def test_filters_narrow(filled: Database) -> None:
    assert {row["n_train"] for row in _walk(filled, filters={"n_train_min": "5000"})} == {
        5_000,
        20_000,
        400_000,
    }
    assert {row["size"] for row in _walk(filled, filters={"size": "small"})} == {"small"}
    assert {row["year"] for row in _walk(filled, filters={"year_min": 2002, "year_max": 2003})} == {
        2002,
        2003,
    }
    assert _walk(filled, filters={"task": "image"}) == []
    assert len(_walk(filled, filters={"task": "image_regression", "corrected": "false"})) == 30


def test_models_are_found_by_any_of_their_tasks(database: Database) -> None:
    with database.write() as unit:
        catalogue.create_row(unit, "models", model("one"), who="a")
        catalogue.create_row(unit, "models", model("two", tasks=["text-classification"]), who="a")

    def of(task: str) -> list[str]:
        with database.read() as unit:
            return [row["name"] for row in catalogue.list_rows(unit, "models", {"task": task}).items]

    assert (of("image"), of("image-regression"), of("text")) == (["one"], ["one"], ["two"])
    with database.write() as unit:
        catalogue.update_row(unit, "models", "one", {"tasks": ["audio-classification"]}, who="a", why="t")
    assert (of("image"), of("audio")) == ([], ["one"])


def test_order_is_by_bytes_on_every_database(database: Database) -> None:
    names = ["a", "B", "a-b", "a.b", "ab", "Z", "z9", "0"]
    with database.write() as unit:
        for name in names:
            catalogue.create_row(unit, "competitions", competition(name), who="a")
    assert [row["slug"] for row in _walk(database, limit=3)] == sorted(names)


@given(st.text(max_size=60))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cursor_nonsense_is_refused(filled: Database, cursor: str) -> None:
    if cursor == "":
        return
    with filled.read() as unit, pytest.raises(InvalidInput, match="cursor"):
        catalogue.list_rows(unit, "competitions", cursor=cursor)


def test_a_changed_cursor_and_one_of_another_question_are_refused(filled: Database) -> None:
    with filled.read() as unit:
        cursor = str(catalogue.list_rows(unit, "competitions", sort="n_train", limit=5).next)
        for other in ({"sort": "slug"}, {"sort": "-n_train"}, {"sort": "n_train", "filters": {"year": 2001}}):
            with pytest.raises(InvalidInput, match="cursor"):
                catalogue.list_rows(unit, "competitions", cursor=cursor, **other)
        with pytest.raises(InvalidInput, match="cursor"):
            catalogue.list_rows(unit, "models", sort="params_m", cursor=cursor)
        raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        for place in random.Random(1).sample(range(len(raw)), 20):
            changed = bytearray(raw)
            changed[place] ^= 1
            text = base64.urlsafe_b64encode(bytes(changed)).decode().rstrip("=")
            with pytest.raises(InvalidInput, match="cursor"):
                catalogue.list_rows(unit, "competitions", sort="n_train", cursor=text)


@pytest.mark.parametrize("limit", [0, -1, 501, "many", 1.5, True, 10**30, "1e2"])
def test_a_wrong_limit_is_refused(limit: Any) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        parse_query("competitions", limit=limit)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    for question, nearest in (
        ({"filters": {"n_trian_min": 1}}, "n_train_min"),
        ({"sort": "-yaer"}, "year"),
    ):
        with pytest.raises(InvalidInput) as refused:
            parse_query("competitions", **question)
        assert nearest in refused.value.errors[0].nearest
    with pytest.raises(InvalidInput, match="task"):
        parse_query("competitions", {"task": "imaeg"})
    with pytest.raises(InvalidInput, match="table"):
        catalogue.table_named("competition")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_train_min", "NaN"),
        ("n_train_min", "1e400"),
        ("n_train_min", 10**300),
        ("year", 2**31),
        ("year", "2020.5"),
        ("year", True),
        ("corrected", "perhaps"),
        ("slug", "x" * 301),
        ("slug", "\x00"),
        ("slug", "\ud800"),
        ("dataset_gb_min", 1),
    ],
)
def test_a_wrong_filter_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_query("competitions", {name: value})
    assert refused.value.errors[0].field in (name, "filter")


@pytest.mark.parametrize("table", sorted(rows.LISTED))
def test_every_filter_and_sort_of_every_table_works(database: Database, table: str) -> None:
    samples: dict[type, Any] = {bool: True, int: 1, float: 0.5, str: "x", object: "2026-01-31T12:00:00Z"}
    entity = rows.LISTED[table]
    with database.read() as unit:
        for name in filter_names(table):
            columns = entity.__table__.columns
            base = name if name in columns else name[:-4]
            words = {"task": "image", "family": "lightgbm", "technique": "tta"}
            own = name in words and (base not in columns or name == "task")
            value: Any = words[name] if own else samples[columns[base].type.python_type]
            assert catalogue.list_rows(unit, table, {name: value}).items == []
        for name in sort_names(table):
            assert catalogue.list_rows(unit, table, sort=f"-{name}", limit=MAX_LIMIT).items == []


def test_a_mistyped_name_is_compared_with_a_thousand_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def counted(_: str, names: list[str], **__: object) -> list[str]:
        compared.append(len(names))
        return []

    monkeypatch.setattr(errors, "get_close_matches", counted)
    errors.nothing_named("competition", "c-x", [f"{letter}-{n}" for letter in "abc" for n in range(5_000)])
    assert compared == [errors.MOST_COMPARED] * 2, "names, then words of them"
