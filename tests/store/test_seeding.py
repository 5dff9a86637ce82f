"""Seeds come in again and again; what people did stays."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_service import resources
from memory_service.errors import InvalidInput, NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.editorial.curation import add_row
from memory_service.services.editorial.seed_files import FILES
from memory_service.services.operations import database as databases
from memory_service.services.tables import table_rows as catalogue
from memory_service.store.queries import passages
from tests.catalogue import shipped_seeds
from tests.store.fakes import HashEncoder, competition, model, pattern

WHO: dict[str, Any] = {"who": "ada", "why": "a test"}
SOURCE = {"source": "made for a test", "grade": "claimed"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small set of seed files: three competitions, two patterns, one model, the rest empty."""
    made = tmp_path / "seeds"
    made.mkdir()
    for name in FILES.values():
        (made / name).write_bytes(gzip.compress(b"") if name.endswith(".gz") else b"")
    shutil.copy(resources.path("seeds") / "claims.csv", made)
    _write(made, "competitions", [competition(name) for name in ("leaves", "whales", "tweets")])
    _write(made, "patterns", [pattern(), pattern("p-2", scope="competition", competition="whales")])
    _write(made, "models", [model()])
    return made


def _write(folder: Path, table: str, rows: list[dict[str, Any]]) -> None:
    (folder / FILES[table]).write_text("".join(json.dumps(row | SOURCE) + "\n" for row in rows))


def _row(database: Database, table: str, key: str) -> dict[str, Any]:
    with database.read() as unit:
        return catalogue.get_row(unit, table, key)


def test_all_that_ships_is_loaded(seeded_database: Database) -> None:
    shipped = shipped_seeds()
    assert len(shipped["competitions"]) == 244
    assert len(shipped["solutions"]) >= 387
    assert len(shipped["claims"]) == 73
    assert len(shipped["gpus"]) >= 25
    for table, seeds in shipped.items():
        with seeded_database.read() as unit:
            page = catalogue.list_rows(unit, table, limit=500)
            assert len(page.items) == min(500, len(seeds))
            for row in page.items[:5]:
                key = str(row.get("slug") or row.get("id") or row["name"]) if table != "gpus" else row["slug"]
                whole = catalogue.get_row(unit, table, key)
                assert {name: whole[name] for name in seeds[key].values} == dict(seeds[key].values)
                assert (whole["origin"], whole["corrected"], whole["version"]) == ("seed", False, 1)
    assert databases.check(seeded_database).seeded


def test_seeding_again_writes_nothing(database: Database, folder: Path) -> None:
    encoder = HashEncoder()
    first = seeding.seed(database, folder, encoder)
    assert first.wrote
    assert first.without_vector == 0
    revision, encoded = database.knowledge_revision(), len(encoder.texts)
    again = seeding.seed(database, folder, encoder)
    assert not again.wrote
    assert again.tables["competitions"].unchanged == 3
    assert (database.knowledge_revision(), len(encoder.texts)) == (revision, encoded)
    assert seeding.is_seeded(database, folder)


def test_a_changed_seed_changes_its_row_and_says_so(database: Database, folder: Path) -> None:
    seeding.seed(database, folder)
    _write(
        folder,
        "competitions",
        [competition("leaves", n_train=77), competition("whales"), competition("tweets")],
    )
    assert not seeding.is_seeded(database, folder)
    assert seeding.seed(database, folder).tables["competitions"].changed == 1
    row = _row(database, "competitions", "leaves")
    assert (row["n_train"], row["version"], row["corrected"]) == (77, 2, False)
    with database.read() as unit:
        entry = catalogue.history_of(unit, "competitions", "leaves")[0]
    assert (entry["origin"], entry["before"]["n_train"], entry["after"]["n_train"]) == ("seed", 9_000, 77)


def test_a_corrected_row_stays_whatever_its_seed_says(database: Database, folder: Path) -> None:
    seeding.seed(database, folder)
    with database.write() as unit:
        catalogue.update_row(unit, "competitions", "leaves", {"n_train": 123}, **WHO)
        catalogue.update_row(unit, "models", "testnet", {"quality_score": 1.0}, **WHO)
    _write(folder, "competitions", [competition(n, n_train=5) for n in ("leaves", "whales", "tweets")])
    _write(folder, "models", [])
    report = seeding.seed(database, folder)
    assert (report.tables["competitions"].kept, report.tables["competitions"].changed) == (1, 2)
    assert _row(database, "competitions", "leaves")["n_train"] == 123
    assert _row(database, "competitions", "whales")["n_train"] == 5
    assert _row(database, "models", "testnet")["quality_score"] == 1.0


def test_a_row_that_a_person_added_or_deleted_is_left_so(database: Database, folder: Path) -> None:
    with database.write() as unit:
        catalogue.create_row(unit, "models", model("testnet", params_m=99.0), **WHO)
    seeding.seed(database, folder)
    assert _row(database, "models", "testnet")["params_m"] == 99.0
    with database.write() as unit:
        catalogue.delete_row(unit, "patterns", "p-2", **WHO)
        catalogue.delete_row(unit, "competitions", "whales", **WHO)
    again = seeding.seed(database, folder)
    assert not again.wrote
    assert (again.tables["competitions"].skipped, again.tables["patterns"].skipped) == (1, 1)
    _write(folder, "patterns", [pattern(), pattern("p-3", scope="competition", competition="whales")])
    assert seeding.seed(database, folder).tables["patterns"].skipped >= 1
    with pytest.raises(NotFound):
        _row(database, "patterns", "p-3")
    with database.write() as unit:
        catalogue.create_row(unit, "competitions", competition("whales", title="Mine"), **WHO)
    seeding.seed(database, folder)
    assert _row(database, "competitions", "whales")["title"] == "Mine"


def test_a_seed_that_is_gone_takes_its_untouched_row_along_and_may_return(
    database: Database, folder: Path
) -> None:
    seeding.seed(database, folder)
    _write(folder, "patterns", [pattern()])
    _write(folder, "competitions", [competition("leaves"), competition("tweets")])
    report = seeding.seed(database, folder)
    assert (report.tables["competitions"].removed, report.tables["patterns"].removed) == (1, 1)
    _write(folder, "competitions", [competition(name) for name in ("leaves", "whales", "tweets")])
    assert seeding.seed(database, folder).tables["competitions"].added == 1


def test_a_pattern_that_left_the_seeds_goes_unless_a_person_corrected_it(
    database: Database, folder: Path
) -> None:
    _write(folder, "patterns", [pattern(f"p-{n}") for n in (1, 2, 3)])
    seeding.seed(database, folder)
    with database.write() as unit:
        catalogue.update_row(unit, "patterns", "p-2", {"statement": "Seen otherwise here."}, **WHO)
        catalogue.create_row(unit, "patterns", pattern("mine"), **WHO)
    _write(folder, "patterns", [pattern("p-3")])
    report = seeding.seed(database, folder).tables["patterns"]
    assert (report.removed, report.kept, report.unchanged) == (1, 2, 1)
    with pytest.raises(NotFound):
        _row(database, "patterns", "p-1")
    assert _row(database, "patterns", "p-2")["statement"] == "Seen otherwise here."
    assert _row(database, "patterns", "mine")["origin"] == "user"
    with database.read() as unit:
        entry = catalogue.history_of(unit, "patterns", "p-1")[0]
    assert (entry["action"], entry["who"], entry["after"]) == ("delete", seeding.WHO, None)
    assert entry["before"]["statement"] == pattern()["statement"], "it can be brought back by hand"


def test_a_competition_stays_while_a_persons_pattern_names_it(database: Database, folder: Path) -> None:
    seeding.seed(database, folder)
    with database.write() as unit:
        mine = pattern("mine", scope="competition", competition="tweets")
        catalogue.create_row(unit, "patterns", mine, **WHO)
    _write(folder, "competitions", [competition("leaves"), competition("whales")])
    report = seeding.seed(database, folder)
    assert (report.tables["competitions"].removed, report.tables["competitions"].kept) == (0, 1)
    assert _row(database, "competitions", "tweets")["slug"] == "tweets"


def test_without_an_encoder_words_work_and_vectors_come_later(database: Database, folder: Path) -> None:
    report = seeding.seed(database, folder)
    assert report.encoded == 0
    assert report.without_vector > 0
    encoder = HashEncoder()
    assert seeding.fill_embeddings(database, encoder) == report.without_vector
    assert seeding.fill_embeddings(database, encoder) == 0
    with database.read() as unit:
        assert passages.encoders(unit.session) == {"hash": report.without_vector}


def test_another_encoder_encodes_everything_again(database: Database, folder: Path) -> None:
    first = seeding.seed(database, folder, HashEncoder("one"))
    second = seeding.seed(database, folder, HashEncoder("two"))
    assert second.encoded == first.encoded > 0
    with database.read() as unit:
        assert set(passages.encoders(unit.session)) == {"two"}


def test_a_corrected_text_is_encoded_as_it_now_stands(database: Database, folder: Path) -> None:
    encoder = HashEncoder()
    seeding.seed(database, folder, encoder)
    with database.write() as unit:
        catalogue.update_row(unit, "competitions", "leaves", {"description": "About basalt columns."}, **WHO)
    encoder.texts.clear()
    seeding.seed(database, folder, encoder)
    assert any("basalt" in text for text in encoder.texts)
    with database.read() as unit:
        found = passages.search_words(unit.session, "basalt", 5)
        assert {hit.competition for hit in found} == {"leaves"}
        assert None not in passages.encoders(unit.session)


@pytest.mark.parametrize(
    ("table", "line", "message"),
    [
        ("models", '{"name": "x"', "models.jsonl:2: is not JSON"),
        ("models", "[1]", "models.jsonl:2: is not an object"),
        ("models", json.dumps(model("two")), "models.jsonl:2: lacks its source"),
        ("models", json.dumps(model() | SOURCE), "models.jsonl:2: 'testnet' stands in line 1"),
        ("models", json.dumps(model("two", params_m=-1) | SOURCE), "models.jsonl:2: .*params_m"),
        ("models", json.dumps(model("two", paramsm=1) | SOURCE), "models.jsonl:2: .*paramsm: unknown field"),
        ("competitions", json.dumps(competition("x", task="imag") | SOURCE), "competitions.jsonl:4: .*image"),
        (
            "patterns",
            json.dumps(pattern("p", scope="competition", competition="nowhere") | SOURCE),
            "patterns.jsonl:3: no competition is called 'nowhere'",
        ),
        ("claims", "C99,too,few", "claims.csv:75: has another number of cells"),
    ],
)
def test_a_wrong_seed_is_named_by_file_and_line_and_nothing_is_written(
    database: Database, folder: Path, table: str, line: str, message: str
) -> None:
    with (folder / FILES[table]).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InvalidInput, match=message):
        seeding.seed(database, folder)
    assert database.knowledge_revision() == 0


def test_a_missing_seed_file_is_named(database: Database, folder: Path) -> None:
    (folder / "gpus.jsonl").unlink()
    with pytest.raises(InvalidInput, match=r"gpus\.jsonl"):
        seeding.seed(database, folder)


def test_readiness_seeds_again_only_when_files_changed(
    opened: Callable[[str], Database], database: Database, folder: Path
) -> None:
    asked: list[str] = []

    def encoder() -> HashEncoder:
        asked.append("loaded")
        return HashEncoder()

    assert databases.ensure_ready(database, encoder=encoder, seeds=folder).seeded is not None
    assert databases.ensure_ready(database, encoder=encoder, seeds=folder).seeded is None
    assert asked == ["loaded"], "loading an encoder takes seconds"
    add_row(database, "competitions", competition("new"), encoder=lambda: None, who="ada")
    databases.ensure_ready(database, encoder=encoder, seeds=folder)
    with database.read() as unit:
        assert set(passages.encoders(unit.session)) == {"hash"}


def test_what_a_competition_leaves_out_is_read_from_its_text_and_said(database: Database) -> None:
    values = competition(
        description="Classify photographs of dogs into 120 breeds. The images are JPEG files; "
        "submissions are scored by multi-class log loss."
    )
    for name in ("task", "metric", "metric_family", "metric_direction", "n_classes"):
        values.pop(name, None)
    added = add_row(database, "competitions", values, encoder=lambda: None, who="ada")
    read = {
        "task": "image-classification",
        "modality": "image",
        "metric": "log loss",
        "metric_family": "log-loss",
        "metric_direction": "min",
        "n_classes": 120,
    }
    assert {name: added[name] for name in added["inferred"]} == read
    other = {**values, "slug": "said", "metric": "F1", "n_classes": 7}
    said = add_row(database, "competitions", other, encoder=lambda: None, who="ada")
    assert (said["metric"], said["metric_direction"], said["n_classes"]) == ("F1", None, 7)
