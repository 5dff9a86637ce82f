"""What every database must do alike: one class, run on SQLite and on PostgreSQL."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from memory_service.domain.cost.profile import PeakPoint, Profile, Work
from memory_service.errors import Conflict, InvalidInput, NotFound
from memory_service.services.database.transactions import STORED, Database
from memory_service.services.editorial.curation import add_row, correct_row
from memory_service.services.tables import table_rows as catalogue
from memory_service.store.queries import history, passages, rows
from memory_service.store.queries.passages import NewPassage
from memory_service.store.tables.knowledge import Competition
from tests.store.fakes import ROWS, HashEncoder, competition, model, pattern, strategy

WHO: dict[str, Any] = {"who": "ada", "why": "a test"}


def _add(database: Database, table: str, values: dict[str, Any]) -> dict[str, Any]:
    with database.write() as unit:
        return catalogue.create_row(unit, table, values, **WHO)


class TestUnits:
    def test_a_write_is_seen_after_its_block(self, database: Database) -> None:
        with database.write() as unit:
            catalogue.create_row(unit, "competitions", competition(), **WHO)
            with database.read() as other:
                assert catalogue.list_rows(other, "competitions").items == []
        with database.read() as other:
            assert [row["slug"] for row in catalogue.list_rows(other, "competitions").items] == [
                "leaf-counting"
            ]

    def test_an_exception_leaves_nothing(self, database: Database) -> None:
        with pytest.raises(ZeroDivisionError), database.write() as unit:  # noqa: PT012 - the block is the test
            catalogue.create_row(unit, "competitions", competition(), **WHO)
            raise ZeroDivisionError
        with database.read() as unit:
            assert catalogue.list_rows(unit, "competitions").items == []
            with pytest.raises(NotFound):
                catalogue.history_of(unit, "competitions", "leaf-counting")
        assert database.knowledge_revision() == 0

    def test_what_the_history_takes_is_measured_when_others_may_write_again(self, database: Database) -> None:
        measured, sizes = list[bool](), list[int]()

        class Said(str):
            def __repr__(self) -> str:
                with database.write_untracked():
                    measured.append(True)
                return str.__repr__(self)

        token = STORED.set(sizes.append)
        with database.write_untracked() as unit:
            for _ in range(2):
                history.record(unit.session, unit.now, "runs", "r", "update", who="ada", why=Said("why"))
        STORED.reset(token)
        assert measured == [True, True]
        assert len(sizes) == 3
        assert sizes[-1] > 2 * len("runs r update ada why")

    def test_a_write_raises_the_revision_once_and_a_read_never(self, database: Database) -> None:
        with database.write() as unit:
            for name in ("one", "two"):
                catalogue.create_row(unit, "competitions", competition(name), **WHO)
        assert database.knowledge_revision() == 1
        with database.write() as unit:
            catalogue.list_rows(unit, "competitions")
        assert database.knowledge_revision() == 1
        with database.write() as unit:
            catalogue.update_row(unit, "competitions", "one", {"title": "Title of one"}, **WHO)
        assert database.knowledge_revision() == 1, "values that are already so are no change"

    def test_what_is_told_is_kept_and_the_revision_stays(self, database: Database) -> None:
        with database.write_untracked() as unit:
            unit.session.execute(text("UPDATE knowledge SET seeds_digest = 'told'"))
        with database.read() as unit:
            assert unit.session.scalar(text("SELECT seeds_digest FROM knowledge")) == "told"
        assert database.knowledge_revision() == 0
        with pytest.raises(ZeroDivisionError), database.write_untracked() as unit:  # noqa: PT012 - the block is the test
            unit.session.execute(text("UPDATE knowledge SET seeds_digest = 'half'"))
            raise ZeroDivisionError
        with database.read() as unit:
            assert unit.session.scalar(text("SELECT seeds_digest FROM knowledge")) == "told"

    def test_the_database_itself_refuses_a_write_in_a_read(self, database: Database) -> None:
        with database.read() as unit, pytest.raises(DBAPIError):
            unit.session.connection().execute(text("UPDATE knowledge SET revision = 99"))
        with database.read() as unit:
            unit.session.add(Competition(slug="x"))
            with pytest.raises(TypeError, match="read session"):
                unit.session.flush()
        assert database.knowledge_revision() == 0

    def test_a_read_is_one_snapshot(self, database: Database) -> None:
        with database.read() as unit:
            before = catalogue.list_rows(unit, "competitions").items
            _add(database, "competitions", competition())
            assert catalogue.list_rows(unit, "competitions").items == before

    def test_writers_in_threads_lose_nothing(self, database: Database) -> None:
        failed: list[BaseException] = []

        def work(worker: int) -> None:
            try:
                for number in range(8):
                    _add(database, "competitions", competition(f"c-{worker}-{number}"))
            except BaseException as error:  # noqa: BLE001 - the test shows it
                failed.append(error)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert database.knowledge_revision() == 48
        with database.read() as unit:
            assert len(catalogue.list_rows(unit, "competitions", limit=500).items) == 48

    def test_of_two_who_add_the_same_row_one_is_told(self, database: Database) -> None:
        outcomes: list[str] = []
        start = threading.Barrier(4)

        def work() -> None:
            start.wait()
            try:
                _add(database, "competitions", competition())
                outcomes.append("added")
            except Conflict:
                outcomes.append("conflict")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["added", "conflict", "conflict", "conflict"]


class TestRows:
    @pytest.mark.parametrize("table", sorted(ROWS))
    def test_a_row_comes_back_as_it_was_given(self, database: Database, table: str) -> None:
        given = ROWS[table]()
        if table == "solutions":
            _add(database, "competitions", ROWS["competitions"]())
        row = _add(database, table, given)
        assert {name: row[name] for name in given} == given
        assert (row["version"], row["origin"], row["corrected"]) == (1, "user", False)
        moment = dt.datetime.fromisoformat(row["created_at"])
        assert moment.tzinfo == dt.UTC
        assert abs((dt.datetime.now(dt.UTC) - moment).total_seconds()) < 60
        with database.read() as unit:
            key = row[rows.key_of(rows.ENTITIES[table])]
            assert catalogue.get_row(unit, table, key) == row
            assert catalogue.list_rows(unit, table).items == [row]

    def test_text_of_any_script_comes_back(self, database: Database) -> None:
        title = "<script>alert(1)</script> 计数 🌿 \u202eright to left\u202c"
        row = _add(database, "competitions", competition(title=title, description="é\n\t" * 50_000))
        assert row["title"] == title
        assert row["description"] == ("é\n\t" * 50_000).strip()

    def test_the_same_slug_again_names_the_one_that_is_there(self, database: Database) -> None:
        _add(database, "competitions", competition())
        with pytest.raises(Conflict, match="leaf-counting") as refused:
            _add(database, "competitions", competition(title="Another"))
        assert refused.value.errors[0].field == "slug"

    def test_a_correction_keeps_what_was(self, database: Database) -> None:
        _add(database, "competitions", competition())
        with database.write() as unit:
            row = catalogue.update_row(
                unit,
                "competitions",
                "leaf-counting",
                {"n_train": 120_000},
                who="grace",
                why="the page says so",
                expected_version=1,
            )
        assert (row["version"], row["corrected"], row["n_train"], row["size"]) == (2, True, 120_000, "large")
        with database.read() as unit:
            last, first = catalogue.history_of(unit, "competitions", "leaf-counting")
        assert (first["action"], first["who"], first["before"]) == ("create", "ada", None)
        assert (last["action"], last["who"], last["why"]) == ("update", "grace", "the page says so")
        assert (last["before"]["n_train"], last["after"]["n_train"], last["version"]) == (9_000, 120_000, 2)

    def test_of_two_who_correct_the_second_is_told(self, database: Database) -> None:
        _add(database, "competitions", competition())
        key = ("competitions", "leaf-counting")
        with database.write() as unit:
            catalogue.update_row(unit, *key, {"title": "First"}, **WHO, expected_version=1)
        with pytest.raises(Conflict, match="version 2"), database.write() as unit:
            catalogue.update_row(unit, *key, {"title": "Second"}, **WHO, expected_version=1)
        with database.read() as unit:
            assert catalogue.get_row(unit, "competitions", "leaf-counting")["title"] == "First"

    def test_concurrent_corrections_of_one_version_let_one_through(self, database: Database) -> None:
        _add(database, "competitions", competition())
        outcomes: list[str] = []
        start = threading.Barrier(5)

        def work(number: int) -> None:
            start.wait()
            try:
                with database.write() as unit:
                    change = {"title": f"By {number}"}
                    catalogue.update_row(
                        unit, "competitions", "leaf-counting", change, **WHO, expected_version=1
                    )
                outcomes.append("corrected")
            except Conflict:
                outcomes.append("conflict")

        threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["conflict"] * 4 + ["corrected"]
        with database.read() as unit:
            assert len(catalogue.history_of(unit, "competitions", "leaf-counting")) == 2

    def test_a_deleted_row_leaves_its_history(self, database: Database) -> None:
        _add(database, "models", model())
        with database.write() as unit:
            catalogue.delete_row(unit, "models", "testnet", who="ada", why="a typo", expected_version=1)
        with database.read() as unit:
            with pytest.raises(NotFound):
                catalogue.get_row(unit, "models", "testnet")
            entries = catalogue.history_of(unit, "models", "testnet")
        assert [entry["action"] for entry in entries] == ["delete", "create"]
        assert entries[0]["before"]["tasks"] == ["image-classification", "image-regression"]

    def test_a_competition_that_patterns_name_stays(self, database: Database) -> None:
        _add(database, "competitions", competition())
        _add(database, "patterns", pattern(scope="competition", competition="leaf-counting"))
        with pytest.raises(Conflict, match="p-1"), database.write() as unit:
            catalogue.delete_row(unit, "competitions", "leaf-counting", **WHO)
        with pytest.raises(InvalidInput, match="not known"):
            _add(database, "patterns", pattern("p-2", scope="competition", competition="unheard-of"))

    def test_the_key_cannot_change_and_unknown_rows_are_named(self, database: Database) -> None:
        _add(database, "strategies", strategy())
        with database.write() as unit:
            with pytest.raises(InvalidInput, match="cannot change"):
                catalogue.update_row(unit, "strategies", "R08-test", {"id": "other"}, **WHO)
            with pytest.raises(NotFound, match="nothing"):
                catalogue.update_row(unit, "strategies", "nothing", {"followed": False}, **WHO)
            with pytest.raises(NotFound):
                catalogue.get_row(unit, "strategies", "\x00\ud800")

    def test_profiles_computed_twice_are_kept_once(self, database: Database) -> None:
        def profile(per_sample: float) -> Profile:
            return Profile(
                model="testnet",
                library="timm",
                input_kind="image_size",
                input_size=224,
                precision="amp",
                params=12_500_000,
                buffers_bytes=0,
                peak=(PeakPoint(100 * 2**20, per_sample * 2**20),),
                forward={"dense_conv": Work(flops_per_sample=2e9)},
                backward={"dense_conv": Work(flops_per_sample=4e9)},
                family="testnets",
            )

        for per_sample in (3.0, 5.0):
            with database.write() as writing:
                catalogue.keep_profiles(writing, [profile(per_sample)], source="traced in a test")
        with database.read() as unit:
            (listed,) = catalogue.list_rows(unit, "sizing", {"model": "testnet"}).items
            assert (listed["id"], listed["per_sample_mib"], listed["forward_gflops_per_sample"]) == (
                "testnet@224/amp",
                5.0,
                2.0,
            )
            assert "profile" not in listed
            whole = catalogue.get_row(unit, "sizing", "testnet@224/amp")["profile"]
        assert Profile.from_dict(whole) == profile(5.0)


class TestPassages:
    def test_a_competition_is_found_by_vector_and_by_words(self, database: Database) -> None:
        encoder = HashEncoder()
        for name in ("leaves", "whales", "tweets"):
            text_ = f"A quite particular description about {name} and nothing else."
            add_row(
                database,
                "competitions",
                competition(name, description=text_),
                encoder=lambda: encoder,
                who="ada",
            )
        with database.read() as unit:
            table = passages.all_vectors(unit.session)
            assert set(table.competitions) == {"leaves", "whales", "tweets"}
            assert table.vectors.dtype == np.float32
            row = list(zip(table.competitions, table.kinds, strict=True)).index(("whales", "predicted"))
            first = passages.nearest(unit.session, table.vectors[row : row + 1], 3)[0]
            assert (first[0].passage, first[0].competition) == (table.ids[row], "whales")
            assert first[0].score == pytest.approx(1.0, abs=1e-5)
            assert [hit.score for hit in first] == sorted((hit.score for hit in first), reverse=True)
            found = passages.search_words(unit.session, "Which WHALE is it? (whales!)", 10)
            assert {hit.competition for hit in found} == {"whales"}

    @pytest.mark.parametrize(
        "question",
        ["", "   ", "'\"; DROP TABLE passages --", "AND OR NOT NEAR(", "*:^-()", "a" * 5_000, "\u202e🌿"],
    )
    def test_any_text_can_be_searched_for(self, database: Database, question: str) -> None:
        add_row(database, "competitions", competition(), encoder=lambda: None, who="ada")
        with database.read() as unit:
            assert isinstance(passages.search_words(unit.session, question, 5), list)

    def test_words_follow_corrections_and_deletions(self, database: Database) -> None:
        encoder = HashEncoder()
        add_row(
            database,
            "competitions",
            competition(description="About zebras."),
            encoder=lambda: encoder,
            who="a",
        )
        changes = {"description": "About giraffes."}
        correct_row(database, "competitions", "leaf-counting", changes, encoder=lambda: encoder, **WHO)

        def found(word: str) -> bool:
            with database.read() as unit:
                return bool(passages.search_words(unit.session, word, 5))

        assert (found("zebras"), found("giraffes")) == (False, True)
        with database.write() as writing:
            catalogue.delete_row(writing, "competitions", "leaf-counting", **WHO)
        assert not found("giraffes")
        with database.read() as unit:
            assert passages.all_vectors(unit.session).ids == []

    def test_vectors_of_unchanged_texts_are_kept(self, database: Database) -> None:
        vector = HashEncoder().encode(["same"])[0]
        with database.write() as unit:
            catalogue.create_row(unit, "competitions", competition(), **WHO)
            passages.replace(unit.session, "leaf-counting", [NewPassage("text", "same", vector, "hash")])
        with database.write() as unit:
            passages.replace(
                unit.session, "leaf-counting", [NewPassage("text", "new"), NewPassage("text", "same")]
            )
        with database.read() as unit:
            assert passages.encoders(unit.session) == {"hash": 1, None: 1}
            assert np.array_equal(passages.all_vectors(unit.session).vectors[0], vector)

    def test_the_index_agrees_with_the_exact_search(self, database: Database) -> None:
        encoder = HashEncoder()
        texts = [f"text number {n}" for n in range(300)]
        vectors = encoder.encode(texts)
        with database.write() as unit:
            catalogue.create_row(unit, "competitions", competition(), **WHO)
            new = [NewPassage("text", t, v, "hash") for t, v in zip(texts, vectors, strict=True)]
            with passages.many(unit.session):
                passages.replace(unit.session, "leaf-counting", new)
        query = encoder.encode(["a question"])[0]
        exact = set(np.argsort(-(vectors @ query))[:20])
        with database.read() as unit:
            table = passages.all_vectors(unit.session)
            hits = passages.nearest(unit.session, query[None], 20)[0]
            assert database.dialect.missing_search(unit.session.connection()) == []
        found = {table.ids.index(hit.passage) for hit in hits}
        assert len(found & exact) >= 19

    @pytest.mark.parametrize("bad", [np.zeros(3, np.float32), np.full(384, np.nan, np.float32)])
    def test_what_is_no_vector_is_refused(self, database: Database, bad: Any) -> None:
        with pytest.raises(Exception, match="embedding"), database.write() as unit:  # noqa: PT012
            catalogue.create_row(unit, "competitions", competition(), **WHO)
            passages.replace(unit.session, "leaf-counting", [NewPassage("text", "t", bad, "hash")])
        with database.read() as unit:
            assert catalogue.list_rows(unit, "competitions").items == []
