"""Can a person see how runs go, and where the minutes went?"""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from memory_service.web.charts.knowledge import score_over_minutes
from memory_service.web.pages.runs import (
    compared_over_time,
    memory_over_time,
    scores_over_time,
    speed_over_time,
    verdicts_over_time,
)
from tests.conftest import Servers
from tests.web.conftest import Site, Visitor, follow, running, settled

browser = pytest.mark.browser


@pytest.fixture(scope="module")
def telling(servers: Servers) -> Iterator[Site]:
    """A site that runs tell of."""
    with running("telling", servers.new("sqlite", "seeded")) as site:
        yield site


def data_of(site: Site, path: str) -> Any:
    with urllib.request.urlopen(site.url + path) as response:
        return json.load(response)


def text_of(site: Site, path: str) -> str:
    with urllib.request.urlopen(site.url + path) as response:
        return str(response.read().decode())


def post(site: Site, path: str, body: Any) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(site.url + path, raw, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def begun(site: Site, **more: Any) -> str:
    body = {
        "task": "image-classification", "gpu": "t4", "model": "resnet18", "batch_size": 32, "image_size": 224,
        "n_train": 1000, "epochs": 5, "minutes": 30, "started_at": "2026-03-01T12:00:00Z", **more,
    }  # fmt: skip
    return str(post(site, "/runs", body)["run_id"])


def epoch(seq: int, **more: Any) -> dict[str, Any]:
    at = f"2026-03-01T12:{2 * seq + 2:02d}:00Z"
    told = {"seconds": 100.0, "samples": 1000, "train_loss": 0.5, "valid_loss": 0.6, "metric": 0.8}
    return {"seq": seq, "kind": "epoch", "at": at, "epoch": seq, **told, **more}


@browser
def test_which_of_last_weeks_runs_wasted_the_most_minutes_and_on_what(visit: Visitor, lived: Site):
    page = visit(lived, "/")
    follow(page.get_by_role("navigation", name="Main").get_by_role("link", name="Runs"))
    week = page.get_by_role("region", name="Last 7 days")
    by_day = data_of(lived, "/browse/runs.json")["week"]
    assert [group["name"] for group in by_day["groups"]] == sorted(g["name"] for g in by_day["groups"])
    follow(week.get_by_role("link", name="Cause"))
    data = data_of(lived, "/browse/runs.json?by=cause")["week"]
    lost = sum(group["waiting"] + group["lost"] for group in data["groups"])
    assert lost == pytest.approx(by_day["waiting"] + by_day["lost"], abs=0.1)
    assert sum(group["minutes"] for group in by_day["groups"]) == pytest.approx(by_day["minutes"], abs=0.1)
    parts = week.get_by_role("listitem").all_inner_texts()
    assert len(parts) == len(data["groups"]) > 2
    follow(week.get_by_role("link", name="wasted"))
    since = urllib.parse.quote(data["since"])
    listed = data_of(lived, f"/runs?started_at_min={since}&sort=-wasted_minutes")["items"]
    first = page.locator("#rows tbody tr").first
    headings = page.locator("#rows thead th").all_inner_texts()
    on = first.locator("th, td").nth(headings.index("Main cause")).inner_text()
    assert any(on in part for part in parts)
    follow(first.get_by_role("link").first)
    assert page.url.endswith(listed[0]["id"])
    said = page.locator("#live").inner_text()
    assert "wasted" in said
    assert on in said
    page.go_back()
    settled(page)
    assert "sort=-wasted_minutes" in page.url
    assert "Wasted" in page.locator("th[aria-sort=descending]").inner_text()


@browser
def test_filters_and_order_are_in_the_address_and_come_back(visit: Visitor, lived: Site):
    page = visit(lived, "/browse/runs?sort=-batch_size")
    page.get_by_role("button", name="More: Status").click()
    line = page.get_by_role("listitem").filter(has_text="crashed")
    counted = int(line.inner_text().split()[-1])
    follow(line.get_by_role("link"))
    assert "status=crashed" in page.url
    assert "sort=-batch_size" in page.url
    ended = page.locator("#rows tbody td:nth-child(4) .badge")
    assert ended.all_inner_texts() == ["crashed"] * counted
    follow(page.get_by_role("link", name="Run", exact=True))
    assert "status=crashed" in page.url
    assert "sort=model" in page.url
    assert "sort=-wasted_minutes" in page.get_by_role("link", name="Wasted", exact=True).get_attribute("href")
    page.go_back()
    settled(page)
    assert "sort=-batch_size" in page.url
    assert set(ended.all_inner_texts()) == {"crashed"}
    file = page.get_by_role("link", name="jsonl", exact=True).get_attribute("href")
    rows = [json.loads(line) for line in text_of(lived, file).splitlines()]
    assert {row["status"] for row in rows} == {"crashed"}
    assert len(rows) == ended.count()


@browser
def test_a_view_that_is_kept_comes_back_by_its_name(visit: Visitor, lived: Site):
    page = visit(lived, "/browse/runs?status=stopped")
    page.on("dialog", lambda dialog: dialog.accept("my stops"))
    page.get_by_role("button", name="Keep this view").click()
    page.goto(lived.url + "/browse/runs")
    follow(page.get_by_role("link", name="my stops"))
    assert page.url.endswith("/browse/runs?status=stopped")
    page.get_by_role("button", name="Forget my stops").click()
    page.reload()
    assert page.get_by_role("link", name="my stops").count() == 0


def test_the_list_shows_the_gravest_advice_that_was_not_followed(lived: Site):
    gravity = {"info": 0, "warning": 1, "critical": 2}
    rows = data_of(lived, "/browse/runs.json?status=completed")["items"]
    assert {row["advice"]["followed"] for row in rows if row["advice"]} >= {"no"}
    for row in rows[:12]:
        run = data_of(lived, f"/browse/runs/{row['id']}.json")
        left = [gravity[each["severity"]] for each in run["verdicts"] if each["followed"] == "no"]
        if left:
            assert gravity[row["advice"]["severity"]] == max(left)
        elif run["verdicts"]:
            assert row["advice"]["action"] == run["verdicts"][-1]["action"]
        metrics = [epoch["metric"] for epoch in run["curves"]["epochs"] if epoch.get("metric") is not None]
        assert {value for fold in row["curve"] for value in fold} <= set(metrics)
        assert row["curve"][0][0] == metrics[0]


@browser
def test_what_a_run_tells_appears_by_itself_and_takes_nothing_from_the_reader(visit: Visitor, telling: Site):
    key = begun(telling)
    post(telling, f"/runs/{key}/events", {"events": [epoch(0)]})
    page = visit(telling, f"/browse/runs/{key}")
    page.locator("#epochs > summary").click()
    assert page.locator("#epochs tbody tr").count() == 1
    page.evaluate("window.notReloaded = true")
    post(telling, f"/runs/{key}/events", {"events": [epoch(1, metric=0.9)]})
    page.locator("#epochs tbody tr").nth(1).wait_for()
    settled(page)
    assert page.locator("#epochs").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.id") == "epochs-show"
    assert page.evaluate("window.notReloaded")
    post(telling, f"/runs/{key}/finish", {"status": "completed", "best_metric": 0.9, "submission": True})
    page.get_by_role("heading", name="Predicted against measured").wait_for()
    assert page.locator("#live").get_attribute("hx-get") is None
    assert text_of(telling, f"/browse/runs/{key}/epochs.csv").count(key) == 2
    assert text_of(telling, f"/browse/runs/{key}/events.jsonl?kind=epoch").count('"kind"') == 2


def test_speed_is_drawn_before_the_first_epoch_has_ended(telling: Site):
    key = begun(telling)
    told = {"steps": 10, "seconds": 4.0, "samples": 320, "loader_wait_percent": 25.0}
    events = [
        {"seq": n, "at": f"2026-03-01T12:00:{10 * n + 5:02d}Z", "kind": "batch", **told} for n in range(3)
    ]
    post(telling, f"/runs/{key}/events", {"events": events})
    steps = data_of(telling, f"/browse/runs/{key}.json")["curves"]["steps"]
    assert [(each["samples_per_second"], each["loader_wait_percent"]) for each in steps] == [(80.0, 25.0)] * 3


def test_validation_is_taken_off_the_speed_of_epochs(telling: Site):
    key = begun(telling)
    batch = {
        "seq": 1,
        "at": "2026-03-01T12:20:00Z",
        "kind": "batch",
        "steps": 9,
        "seconds": 4.0,
        "samples": 280,
    }
    post(telling, f"/runs/{key}/events", {"events": [epoch(0, valid_seconds=20.0), batch]})
    steps = data_of(telling, f"/browse/runs/{key}.json")["curves"]["steps"]
    assert steps[0]["samples_per_second"] == 1000 / (100.0 - 20.0)


def test_scores_of_fits_are_shown_where_a_run_has_no_epochs(telling: Site):
    run = begun(telling)
    assert "No metrics received yet" in text_of(telling, f"/browse/runs/{run}")
    said = {"text": "LightGBM, fold 1: ROC AUC=0.84 (2.1 s)", "metric": 0.84, "fold": 1, "fit": "LightGBM"}
    note = {"seq": 1, "kind": "note", "at": "2026-03-01T12:02:00Z", **said}
    post(telling, f"/runs/{run}/events", {"events": [note]})
    page = text_of(telling, f"/browse/runs/{run}")
    assert "No metrics received" not in page
    assert f'Fits scored: 1, the latest: <b dir="auto">{said["text"]}</b>' in page


def test_a_search_through_fits_has_its_best_score_in_the_lists_and_no_batch(telling: Site):
    plan = data_of(telling, "/recommend?task=tabular&gpu=cpu&minutes=4&n_train=2000&metric=auc")
    facts = {"plan_id": plan["plan_id"], "reserve_minutes": 0.15, "started_at": "2026-03-01T12:00:00Z"}
    key = post(telling, "/runs", facts | {"n_train": 2000, "batch_size": 2000})["run_id"]
    fits = [
        {"seq": n, "kind": "note", "at": f"2026-03-01T12:0{n}:00Z", "text": f"fit {n}", "metric": score}
        for n, score in ((1, 0.81), (2, 0.84), (3, 0.79))
    ]
    post(telling, f"/runs/{key}/events", {"events": fits})
    (row,) = data_of(telling, f"/browse/runs.json?plan_id={plan['plan_id']}")["items"]
    one = data_of(telling, f"/browse/runs/{key}.json")
    assert (row["best_so_far"], one["best_so_far"]) == (0.84, 0.84)
    (listed,) = data_of(telling, f"/browse/plans/{plan['plan_id']}.json")["runs"]
    assert listed["best_so_far"] == 0.84
    words = text_of(telling, f"/browse/runs?plan_id={plan['plan_id']}")
    assert "all rows" in words
    assert "none: tabular-classification" in words
    assert "as many as the minutes allow" in text_of(telling, f"/browse/plans/{plan['plan_id']}")


def test_a_script_that_uses_all_minutes_has_missed_no_deadline_of_its_first_part(telling: Site):
    plan = data_of(telling, "/recommend?task=tabular&gpu=cpu&minutes=3&n_train=2000&n_features=10")
    start = {"plan_id": plan["plan_id"], "reserve_minutes": 0.12, "started_at": "2026-03-01T12:00:00Z"}
    key = post(telling, "/runs", start | {"folds": 5, "epochs": 123})["run_id"]
    post(telling, f"/runs/{key}/finish", {"status": "completed", "at": "2026-03-01T12:02:54Z"})
    followed = data_of(telling, f"/browse/runs/{key}.json")["evidence"]["followed"]
    assert (followed["model"], followed["folds"], followed["epochs"]) == (True, None, None)
    words = text_of(telling, f"/browse/runs/{key}")
    assert "<s>" not in words
    assert "fits the planned model first, then others until 2.9 min" in words
    assert "as many as the minutes allow" in words
    assert "which the script fits first" in text_of(telling, f"/browse/plans/{plan['plan_id']}")


TOLD_ALONE: dict[str, Any] = {
    "folds": 3, "epochs": 5, "seeds": 2, "batch_size": 8, "image_size": 64, "n_classes": 3,
    "metric_direction": "max", "n_gpus": 2, "grad_accumulation": 4, "learning_rate": 0.001, "num_workers": 2,
    "metric": "auc", "mode": "infer", "n_train": 100, "n_test": 10, "minutes": 5, "reserve_minutes": 1,
    "optimizer": "adamw",
}  # fmt: skip


def test_what_a_run_tells_alone_has_a_page(telling: Site):
    """That of `reserve_minutes` without `minutes` was a 500."""
    for name, value in TOLD_ALONE.items():
        start = {"task": "image-classification", "gpu": "t4", "model": "resnet18", name: value}
        key = str(post(telling, "/runs", start)["run_id"])
        assert "resnet18" in text_of(telling, f"/browse/runs/{key}"), name
        post(telling, f"/runs/{key}/finish", {"status": "completed"})
        assert "resnet18" in text_of(telling, f"/browse/runs/{key}"), name


def test_what_a_run_showed_of_its_input_pipeline_is_told_as_such(telling: Site):
    key = begun(telling, num_workers=4, precision="fp16")
    quick = [epoch(n, seconds=0.5, loader_wait_percent=0.5) for n in range(5)]
    post(telling, f"/runs/{key}/events", {"events": quick})
    post(telling, f"/runs/{key}/finish", {"status": "completed", "at": "2026-03-01T12:20:00Z"})
    words = re.sub(r"\s+", " ", text_of(telling, f"/browse/runs/{key}"))
    assert "image-classification, its input pipeline of 4 workers: at most 0.5 ms a sample" in words
    assert not re.search(r": ?</li>", words)


def test_a_run_that_went_silent_has_no_signal(telling: Site):
    key = begun(telling, task="audio-classification", competition="tensorflow-speech-recognition-challenge")
    rows = data_of(telling, "/browse/runs.json?task=audio-classification")["items"]
    assert [row["silent_minutes"] for row in rows] == [None]
    post(telling, f"/runs/{key}/events", {"events": [epoch(0)]})
    (row,) = data_of(telling, "/browse/runs.json?task=audio-classification")["items"]
    assert row["silent_minutes"] > 5
    assert (row["best_metric"], row["best_so_far"]) == (None, 0.8)
    assert "no signal" in text_of(telling, f"/browse/runs/{key}")
    where = "/browse/competitions/tensorflow-speech-recognition-challenge"
    assert "no signal" in text_of(telling, where)
    assert data_of(telling, where + ".json")["runs"][0]["silent_minutes"] > 5


def test_a_run_that_goes_on_has_the_same_score_in_every_list(lived: Site):
    runs = data_of(lived, "/browse/runs.json?status=running")["items"]
    run = next(run for run in runs if run["best_so_far"] is not None)
    listed = data_of(lived, f"/browse/competitions/{run['competition']}.json")["runs"]
    assert [each["best_so_far"] for each in listed if each["id"] == run["id"]] == [run["best_so_far"]]


def test_one_advice_holds_and_the_end_says_whether_it_followed(telling: Site):
    """The list shows what the page of the run says now; what was advised before is replaced."""
    key = begun(telling, model="resnet34", epochs=40)
    slow = [epoch(n, seconds=110.0) for n in range(5)]
    post(telling, f"/runs/{key}/events", {"events": slow})
    oom = {"seq": 9, "kind": "note", "at": "2026-03-01T12:12:00Z", "out_of_memory": True}
    post(telling, f"/runs/{key}/events", {"events": [oom]})
    page = data_of(telling, f"/browse/runs/{key}.json")
    (row,) = data_of(telling, "/browse/runs.json?model=resnet34.a1_in1k")["items"]
    assert row["advice"]["action"] == page["verdict"]["action"] == "lower_batch"
    assert [each["followed"] for each in page["verdicts"]] == ["replaced", "open"]
    late = [epoch(n, seconds=110.0) for n in range(10, 13)]
    post(telling, f"/runs/{key}/events", {"events": late})
    stop = data_of(telling, f"/browse/runs/{key}.json")["verdicts"][-1]
    assert stop["action"] == "stop_and_predict"
    post(telling, f"/runs/{key}/finish", {"status": "stopped", "at": "2026-03-01T12:29:30Z"})
    text = text_of(telling, f"/browse/runs/{key}")
    assert "stopped early and on purpose" in text
    assert "It followed the advice of minute 26 to stop and predict." in text


@browser
def test_a_list_that_is_paused_asks_for_nothing_and_leaves_whole(visit: Visitor, telling: Site):
    begun(telling)
    page = visit(telling, "/browse/runs?status=running&gpu=t4")
    assert page.locator("#results").get_attribute("hx-get") is not None
    follow(page.get_by_role("link", name="Pause"))
    assert page.locator("#results").get_attribute("hx-get") is None
    file = page.get_by_role("link", name="csv", exact=True).get_attribute("href")
    assert text_of(telling, file).count("\n") >= 2
    follow(page.get_by_role("link", name="Resume"))
    assert page.locator("#results").get_attribute("hx-get") is not None


def run(**more: Any) -> dict[str, Any]:
    epochs = [
        {
            "fold": fold,
            "minute": 10 * fold + n,
            "train_loss": 0.5,
            "valid_loss": 0.6,
            "peak_reserved_gib": 5.0,
        }
        for fold in (0, 1)
        for n in (1, 2)
    ]
    card = [{"minute": 1.0, "driver_gib": 7.0, "process_gib": None, "utilization_percent": 80.0}]
    steps = [{"minute": m, "samples_per_second": 50.0, "loader_wait_percent": 3.0} for m in (1.0, 12.0)]
    curves = {"card": card, "epochs": epochs, "steps": steps}
    return {"curves": curves, "card": {"memory_gib": 16.0}, "prediction": None, "minutes": 30.0, **more}


def test_readings_of_memory_are_drawn_apart_below_the_card():
    chart = memory_over_time(run())
    assert chart is not None
    assert [(each["name"], each["data"][0][1]) for each in chart["series"]] == [
        ("whole GPU", 7.0), ("reserved", 5.0)
    ]  # fmt: skip
    assert chart["series"][0]["markLine"]["data"] == [{"yAxis": 16.0}]
    assert memory_over_time(run(curves={"card": [], "epochs": []})) is None


def test_speed_stands_over_what_was_predicted_from_the_beginning_on():
    chart = speed_over_time(run(prediction={"samples_per_second": {"value": 60, "low": 55, "high": 65}}))
    assert chart is not None
    low, width, measured = chart["series"]
    assert low["data"] == [[0.0, 55], [12.0, 55]]
    assert width["data"] == [[0.0, 10], [12.0, 10]]
    assert measured["data"] == [[1.0, 50.0], [12.0, 50.0]]
    narrow = chart["media"][0]["option"]["legend"]["data"]
    assert narrow == chart["legend"]["data"] == [width["name"], "measured"]


def test_a_narrow_chart_keeps_its_height_however_long_the_names_are():
    curves = [
        {"model": f"{'m' * 30}{n}.tag", "gpu": "rtx3090", "run_id": f"{n}abc-def", "points": [[1, 2], [2, 3]]}
        for n in range(4)
    ]
    chart = score_over_minutes(curves, "accuracy")
    assert chart is not None
    assert chart["legend"]["data"][0] == f"{'m' * 30}0 on rtx3090, 0abc"
    assert chart["media"] == []


def test_scores_of_two_metrics_share_no_axis():
    epochs = [{"fold": 0, "minute": 1.0, "metric": 0.5}]
    runs = [
        {"model": "resnet50.a1_in1k", "metric": metric, "curves": {"epochs": epochs}}
        for metric in ("accuracy", "log loss")
    ]
    chart = compared_over_time(runs, "metric", "log loss", only="log loss")
    assert chart is not None
    assert [series["name"] for series in chart["series"]] == ["B resnet50"]


def test_scores_are_compared_by_the_best_so_far_of_all_folds():
    told = [(0, 1.0, 0.5), (0, 2.0, 0.7), (1, 3.0, 0.4), (1, 4.0, 0.8)]
    epochs = [{"fold": fold, "minute": minute, "metric": metric} for fold, minute, metric in told]
    one = {"model": "resnet50", "metric": "accuracy", "curves": {"epochs": epochs}}
    for direction, best in (("max", [0.5, 0.7, 0.7, 0.8]), ("min", [0.5, 0.5, 0.4, 0.4])):
        chart = compared_over_time([one], "metric", "accuracy", direction=direction)
        assert chart is not None
        assert [value for _, value in chart["series"][0]["data"]] == best


def test_each_fold_has_a_colour_and_training_is_dashed():
    chart = scores_over_time(
        run(), [("train_loss", "training loss"), ("valid_loss", "validation loss")], "Loss"
    )
    assert chart is not None
    series = chart["series"]
    assert [(each["name"], each["lineStyle"]["type"]) for each in series] == [
        ("fold 0", "dashed"), ("fold 0", "solid"), ("fold 1", "dashed"), ("fold 1", "solid")
    ]  # fmt: skip
    assert series[0]["lineStyle"]["color"] == series[1]["lineStyle"]["color"]
    assert series[1]["lineStyle"]["color"] != series[2]["lineStyle"]["color"]


def test_verdicts_stand_at_their_minute_beside_the_budget():
    told = [
        {"at_seconds": 120.0, "action": "raise_batch", "rule": "R23", "severity": "info"},
        {"at_seconds": 2400.0, "action": "stop_and_predict", "rule": "R14", "severity": "critical"},
    ]
    chart = verdicts_over_time(run(verdicts=told))
    assert chart is not None
    assert [each["name"] for each in chart["series"]] == ["critical", "info"]
    assert chart["series"][0]["data"][0]["value"] == [40.0, "stop and predict"]
    assert chart["series"][0]["markLine"]["data"] == [{"xAxis": 30.0}]
    assert chart["xAxis"]["max"] > 40.0
    assert verdicts_over_time(run(verdicts=[])) is None
