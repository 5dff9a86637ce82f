"""Which claims, estimates and measurements disagree, and are all sides shown?"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.learning.observation import Observation
from memory_service.services.conflicts.claims import check_claims
from memory_service.services.conflicts.conflicts import _grade_used, conflicts, conflicts_page
from memory_service.services.conflicts.statements import Statement
from memory_service.services.database.transactions import Database
from memory_service.services.operations.export import stream_rows
from memory_service.services.pages.knowledge import linked
from memory_service.services.prediction.predict import predict
from tests.conftest import Servers
from tests.planning import seed_knowledge
from tests.registered import observe, register


@pytest.fixture(scope="module")
def checked() -> dict[str, bool]:
    return {each.claim["id"]: each.disagrees for each in check_claims(seed_knowledge())}


def test_the_batch_512_claims_are_contradicted(checked: dict[str, bool]) -> None:
    assert checked["C29"]
    assert checked["C30"]


def test_one_percent_of_memory_is_contradicted(checked: dict[str, bool]) -> None:
    assert checked["C01"]


def test_claims_that_hold_are_no_conflict(checked: dict[str, bool]) -> None:
    """Batch 128 at 224 px on 24 GB fits (C07-C09), and 800 images a second on the A100 is what is computed
    (C28)."""
    assert not checked["C09"]
    assert not checked["C28"]


def test_a_conflict_shows_every_side_and_which_one_is_used(seeded_sqlite: Database) -> None:
    rows = {row["id"]: row for row in conflicts(seeded_sqlite)}
    row = rows["C29"]
    assert [side["grade"] for side in row["sides"]] == ["claimed", "estimated"]
    assert row["sides"][0]["low"] == 2000
    assert 600 < row["sides"][1]["value"] < 1300
    assert row["used"] == "estimated"
    assert row["fits"] is False
    assert rows["C30"]["fits"] is False
    assert "512" in row["why"]


def test_a_claimed_epoch_is_compared_with_so_many_images_as_is_said(seeded_sqlite: Database) -> None:
    rows = {row["id"]: row for row in conflicts(seeded_sqlite)}
    assert rows["C57"]["assumed"] == ["224 px", "9,000 images"]
    assert rows["C01"]["assumed"] == []


def test_claims_about_one_thing_stand_together(seeded_sqlite: Database) -> None:
    rows = {row["id"]: row for row in conflicts(seeded_sqlite)}
    assert all(len(row["sides"]) >= 2 for row in rows.values())


def test_claims_that_contradict_each_other_are_listed_where_nothing_can_be_computed(
    seeded_sqlite: Database,
) -> None:
    """C59 (40-60 minutes) and C61 (30-35) speak of EfficientNet-B5 on the A100, without epochs."""
    row = next(item for item in conflicts(seeded_sqlite) if item["id"] == "C59")
    assert [side["id"] for side in row["sides"]] == ["C59", "C61"]
    assert row["uses"] is None
    assert row["apart"] == pytest.approx(40 / 35, abs=1e-3)


@pytest.fixture
def box(servers: Servers) -> Iterator[Database]:
    """A seeded database in which an A100 is registered as box7."""
    with servers.opened() as database:
        register(database, "box7", "a100")
        yield database


RAN = Observation(
    gpu="a100", device="box7", model="resnet50", family="resnet", input_size=224, precision="bf16",
    batch_size=128, n=40,
)  # fmt: skip
ASKED = {"model": "resnet50", "gpu": "box7", "image_size": 224, "precision": "bf16", "batch_size": 128}


def of_box(database: Database) -> dict[str, dict[str, Any]]:
    return {item["quantity"]: item for item in conflicts(database) if item["device"] == "box7"}


def test_a_measurement_against_an_estimate_is_listed_without_any_claim(box: Database) -> None:
    seconds, peak = (predict(box, ASKED)[name]["value"] for name in ("step_seconds", "peak_memory_gib"))
    agreeing = replace(RAN, step_seconds=1.02 * seconds, peak_driver_gib=1.01 * peak)
    observe(box, [agreeing])
    assert of_box(box) == {}
    asked = {**ASKED, "batch_size": 64}
    seconds, peak = (predict(box, asked)[name]["value"] for name in ("step_seconds", "peak_memory_gib"))
    slow = replace(RAN, batch_size=64, step_seconds=2 * seconds, peak_driver_gib=1.5 * peak)
    observe(box, [slow] * 3)
    found = of_box(box)
    assert set(found) == {"samples_per_second", "gpu_memory_gib"}
    row = found["samples_per_second"]
    assert [side["grade"] for side in row["sides"]] == ["measured", "estimated"]
    assert row["sides"][0]["n"] == 3
    assert row["used"] == row["uses"]["grade"] == "measured"
    assert row["uses"]["value"] < 0.7 * row["sides"][1]["value"]
    assert (row["model"], row["image_size"], row["batch_size"]) == ("resnet50", 224, 64)


def test_what_is_set_aside_is_shown_as_such_and_not_used(box: Database) -> None:
    seconds = predict(box, ASKED)["step_seconds"]["value"]
    absurd = replace(RAN, step_seconds=100 * seconds)
    busy = replace(RAN, batch_size=64, step_seconds=3 * seconds, excluded="contended")
    observe(box, [absurd, busy])
    rows = [item for item in conflicts(box) if item["device"] == "box7"]
    assert {row["batch_size"] for row in rows} == {64, 128}
    for row in rows:
        assert row["used"] == "estimated"
        measured = [side for side in row["sides"] if side["grade"] == "measured"]
        assert len(measured) == 1
        assert measured[0]["set_aside"]
        assert measured[0]["set_aside"] in row["why"]


def test_how_far_apart_is_told_of_the_sides_that_count(box: Database) -> None:
    seconds = predict(box, ASKED)["step_seconds"]["value"]
    busy = replace(RAN, step_seconds=9 * seconds, excluded="contended")
    observe(box, [replace(RAN, step_seconds=2.5 * seconds), busy])
    row = of_box(box)["samples_per_second"]
    below, above = sorted((s for s in row["sides"] if not s.get("set_aside")), key=lambda s: s["low"])
    assert len(row["sides"]) == 3
    assert row["apart"] == pytest.approx(above["low"] / below["high"], rel=1e-2)


def test_an_out_of_memory_where_the_estimate_says_it_fits_is_listed_until_it_is_lifted(box: Database) -> None:
    observe(box, [replace(RAN, batch_size=96, out_of_memory=True, at="2026-11-02T00:00:00+00:00")])
    row = of_box(box)["feasible_batch"]
    measured, estimated = row["sides"]
    assert measured["high"] == 95
    assert estimated["low"] > 95
    assert row["uses"]["value"] == 95
    observe(box, [replace(RAN, step_seconds=0.1, at="2026-11-03T00:00:00+00:00")])
    row = of_box(box)["feasible_batch"]
    assert [side.get("set_aside") for side in row["sides"]] == [
        None,
        "a later run at this batch or above finished",
        None,
    ]
    assert row["uses"]["value"] > 128


def test_a_measurement_stands_beside_the_claim_it_contradicts(box: Database) -> None:
    """C29 claims 2 000 images a second at batch 512 for EfficientNet-B4 on the A100."""
    claim = next(item for item in conflicts(box) if item["id"] == "C29")
    ran = replace(
        RAN, model=claim["model"].split(".")[0], family="efficientnet", batch_size=int(claim["batch_size"]),
        input_size=claim["image_size"], precision=claim["precision"], step_seconds=claim["batch_size"] / 700,
    )  # fmt: skip
    observe(box, [ran])
    row = next(item for item in conflicts(box) if item["id"] == "C29")
    assert [side["grade"] for side in row["sides"]] == ["claimed", "measured", "estimated"]
    assert row["sides"][1]["value"] == pytest.approx(700, rel=1e-3)
    assert row["used"] == "measured"
    assert "runs" in row["why"]


def test_runs_have_no_part_in_the_estimates_of_claims_which_stay_as_they_were_made(
    box: Database, opened: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C72 claims that the A100 is twice as fast as the A10."""

    def estimate() -> dict[str, Any]:
        row = next(item for item in conflicts(box) if item["id"] == "C72")
        return next(dict(side) for side in row["sides"] if side["id"] == "estimate")

    slow = replace(RAN, gpu="a10", device="", step_seconds=0.5)
    before = estimate()
    observe(box, [slow])
    assert estimate() == before
    observe(box, [replace(slow, model="efficientnet_b4", family="efficientnet")])
    with monkeypatch.context() as patch:
        patch.setattr("memory_service.services.conflicts.conflicts.check_claims", None)
        assert estimate() == before
    again = opened(box.engine.url.render_as_string(hide_password=False))
    assert conflicts(box) == conflicts(again)


def test_the_list_pages_filters_and_exports_with_measurements(box: Database) -> None:
    observe(box, [replace(RAN, step_seconds=2.0)])
    first = conflicts_page(box, {"limit": 3})
    rest = conflicts_page(box, {"cursor": first["next"], "limit": 500})
    assert len(first["items"]) + len(rest["items"]) == len(conflicts(box))
    assert {row["device"] for row in conflicts_page(box, {"device": "box7"})["items"]} == {"box7"}
    lines = b"".join(stream_rows(box, "conflicts", format="csv")).decode().splitlines()
    assert len(list(csv.reader(lines))) == len(conflicts(box)) + 1


def test_a_correction_by_runs_follows_the_runs_and_not_the_estimate_without_them() -> None:
    """A number of 255 is of runs that showed 64 to 255, not of an estimate of 350 to 378."""
    runs = Statement("runs", "measured", 64.0, 255.0, "samples/s", "a table")
    estimate = Statement("estimate", "estimated", 350.0, 378.0, "samples/s", "profile")
    now = Estimate(255.0, 200.0, 330.0, "estimated", 2, "residual of 2 runs on this GPU model")
    assert _grade_used([runs, estimate], now) == "measured"
    assert _grade_used([replace(runs, set_aside="too far"), estimate], now) == "estimated"
    assert _grade_used([runs, estimate], replace(now, value=360.0)) == "estimated"


def test_the_runs_that_a_side_stands_on_can_be_opened() -> None:
    run = "0123abcd-0123-4abc-89ab-0123456789ab"
    assert (run, f"/browse/runs/{run}") in linked(f"run {run} and 3 more on a100, 2026-11-02")
