"""Do the pages of accuracy and of contradictions carry the right figures, whatever is asked of them?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memory_service.errors import InvalidInput, NotFound
from memory_service.services.conflicts.conflicts import conflicts
from memory_service.services.database.transactions import Database
from memory_service.services.pages.accuracy import accuracy_page, accuracy_table
from memory_service.services.pages.conflicts import KINDS, conflict_page
from memory_service.services.pages.tables import grid_page
from memory_service.services.prediction.predict import predict
from memory_service.services.runs.runs import begin_run, finish_run
from memory_service.services.runs.scored_runs import accuracy
from memory_service.services.tables.file_formats import in_format
from memory_service.web.charts.base import SHAPES
from memory_service.web.charts.knowledge import coverage, scatter, sides
from tests.conftest import Servers
from tests.telling import take_events

B4 = {"image_size": "224"}


def test_contradictions_are_narrowed_by_kind_model_and_words(seeded_sqlite: Database) -> None:
    every = grid_page(seeded_sqlite, "conflicts", {})
    assert every["matching"] == len(conflicts(seeded_sqlite))
    assert [row["apart"] for row in every["items"]] == sorted(
        (r["apart"] for r in every["items"]), reverse=True
    )
    counted = dict(map(tuple, every["facets"]["kind"]))
    for kind in KINDS:
        if kind not in counted:
            continue
        found = grid_page(seeded_sqlite, "conflicts", {"kind": kind})
        assert found["matching"] == counted[kind]
        used = dict(map(tuple, found["facets"]["used"]))
        assert sum(used.values()) == found["matching"]
        assert dict(map(tuple, found["facets"]["kind"])) == counted
    said = grid_page(seeded_sqlite, "conflicts", {"q": "EfficientNet-B4 A100"})["items"]
    assert {"C29", "C30"} <= {row["id"] for row in said}
    assert all(row["gpu"] == "a100" for row in said)
    assert grid_page(seeded_sqlite, "conflicts", {"kind": "nothing"})["items"] == []


def test_one_contradiction_shows_which_side_is_followed_and_why(seeded_sqlite: Database) -> None:
    page = conflict_page(seeded_sqlite, "C29")
    assert [(side["grade"], side["followed"]) for side in page["sides"]] == [
        ("claimed", False), ("estimated", True),
    ]  # fmt: skip
    assert "outranks a claim" in page["item"]["why"]
    assert page["sizing"] == {
        "gpu": "a100", "model": "efficientnet_b4.ra2_in1k", "query": {"image_size": 224, "batch_size": 512},
    }  # fmt: skip
    chart = sides(page["item"])
    assert chart is not None
    middles = [point["value"] for point in chart["series"][-1]["data"]]
    assert middles[-1] == [2000, 1]


def test_a_claim_that_nothing_contradicts_has_a_page_too(seeded_sqlite: Database) -> None:
    agreeing = conflict_page(seeded_sqlite, "C28")
    assert agreeing["item"] is None
    assert agreeing["claim"]["agrees"] is True
    assert conflict_page(seeded_sqlite, "C61")["within"] == "C59"
    assert conflict_page(seeded_sqlite, "C18")["claim"]["statement"] == "slower is a problem"
    with pytest.raises(NotFound) as missing:
        conflict_page(seeded_sqlite, "C2999")
    assert missing.value.errors[0].nearest


@pytest.fixture(scope="module")
def scored(servers: Servers) -> Iterator[Database]:
    """A seeded database with six runs whose epochs took what was predicted times a factor of the run."""
    with servers.opened() as database:
        for number, factor in enumerate((0.9, 1.0, 1.1, 1.3, 2.0, 4.0)):
            _run(database, number, factor)
        yield database


def _run(database: Database, number: int, factor: float) -> str:
    model, gpu = (("resnet50", "a100"), ("efficientnet_b0", "t4"))[number % 2]
    rate = predict(database, {"model": model, "gpu": gpu, "image_size": 224, "batch_size": 64})
    seconds = 8_000 / (rate["samples_per_second"]["value"] / factor)
    key: str = begin_run(
        database,
        {
            "task": "image", "gpu": gpu, "model": model, "batch_size": 64, "image_size": 224,
            "precision": rate["precision"], "folds": 1, "epochs": 4, "n_train": 10_000, "minutes": 600,
            "started_at": f"2026-03-0{number + 1}T00:00:00Z",
        },
    )[0]["run_id"]  # fmt: skip
    events: list[dict[str, Any]] = []
    at = 60.0
    for epoch in range(4):
        at += seconds
        events.append(
            {"seq": epoch, "kind": "epoch", "fold": 0, "epoch": epoch, "seconds": seconds, "samples": 8_000,
             "train_loss": 1.0, "at": _moment(number, at)}
        )  # fmt: skip
    take_events(database, key, {"events": events})
    finish_run(database, key, {"status": "completed", "at": _moment(number, at + 5)})
    return key


def _moment(number: int, seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"2026-03-0{number + 1}T{int(hours):02d}:{int(minutes):02d}:{rest:06.3f}Z"


def test_events_that_come_after_the_end_are_scored_too(servers: Servers) -> None:
    url = servers.new("sqlite", "seeded")
    with Database(url) as database:
        key = _run(database, 0, 1.0)
        before = accuracy(database)["overall"]
        late = [
            {"seq": seq, "kind": "epoch", "fold": 0, "epoch": seq, "seconds": 60.0, "samples": 8_000,
             "train_loss": 1.0, "at": _moment(0, 100.0 * seq)}
            for seq in range(4, 8)
        ]  # fmt: skip
        take_events(database, key, {"events": late})
        after = accuracy(database)["overall"]
        assert after != before
        with Database(url) as another:
            assert accuracy(another)["overall"] == after
    servers.drop(url)


def test_the_page_scores_the_same_runs_as_accuracy_does(scored: Database) -> None:
    page = accuracy_page(scored, {})
    assert page["runs"]["ended"] == 6
    narrow = {each["quantity"]: each.pop("too_narrow") for each in page["scores"]}
    assert page["scores"] == accuracy(scored)["overall"]
    assert narrow["samples_per_second"], "two of six inside is beyond chance where 80 % is meant"
    assert len(page["points"]) == 6
    worst = page["misses"][0]
    assert worst["ratio"] == max(point["ratio"] for point in page["points"])
    assert worst["inside"] is False
    assert sum(group["n"] for group in page["by_device"]) == 6
    assert {group["name"] for group in page["by_family"]} == {"resnet", "efficientnet"}


def test_baselines_stand_beside_what_was_predicted(scored: Database) -> None:
    ours, sheet, naive = accuracy_page(scored, {})["baselines"]
    assert ours["method"] == "what was predicted"
    assert sheet["n"] == naive["n"] == 6
    assert sheet["median_percent"] > 0
    assert "FLOPs" in naive["method"]


def test_accuracy_narrows_by_card_family_quantity_and_number(scored: Database) -> None:
    assert {p["gpu"] for p in accuracy_page(scored, {"gpu": "t4"})["points"]} == {"t4"}
    assert len(accuracy_page(scored, {"family": "resnet"})["points"]) == 3
    assert len(accuracy_page(scored, {"last": "2"})["points"]) == 2
    assert accuracy_page(scored, {"days": "1"})["points"] == []
    epochs = accuracy_page(scored, {"quantity": "epoch_seconds"})
    assert {p["unit"] for p in epochs["points"]} == {"s"}
    for asked in ({"quantity": "speed"}, {"last": "2001"}, {"days": "-1"}, {"by": "colour"}, {"x": "1"}):
        with pytest.raises(InvalidInput):
            accuracy_page(scored, asked)
    lines = b"".join(in_format(accuracy_table(scored, {}), "csv")).splitlines()
    assert len(lines) > 6 + 1


def test_every_run_is_a_point_that_leads_to_it(scored: Database) -> None:
    page = accuracy_page(scored, {})
    chart = scatter(page["points"], page["unit"])
    assert chart is not None
    drawn = [point for each in chart["series"] if each["type"] == "scatter" for point in each["data"]]
    assert {point["href"] for point in drawn} == {f"/browse/runs/{p['run_id']}" for p in page["points"]}
    low, high = chart["xAxis"]["min"], chart["xAxis"]["max"]
    assert all(low <= number <= high for point in drawn for number in point["value"])
    assert (low, high) == (chart["yAxis"]["min"], chart["yAxis"]["max"])
    assert coverage(page["by_device"], 80.0) is None  # three runs a card say nothing of coverage
    many = coverage([{"name": "a", "n": 9, "inside_percent": 66.7}], 80.0)
    assert many is not None
    assert many["series"][0]["data"] == [66.7]


def test_runs_set_aside_are_drawn_hollow_and_groups_beyond_the_colours_share_one(scored: Database) -> None:
    point = accuracy_page(scored, {})["points"][0]
    rows = [point | {"family": f"f{n}"} for n in range(9)] + [point | {"excluded": "throttled"}]
    chart = scatter(rows, "samples/s")
    assert chart is not None
    named = {each["name"]: each for each in chart["series"]}
    assert len(named["others"]["data"]) == 3
    assert named["not scored"]["symbol"] == SHAPES["claimed"]
    assert scatter([], "GiB") is None
