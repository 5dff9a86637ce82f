"""Does a run that says only which plan it follows run what the plan says, on the card it was made for?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from memory_service.errors import InvalidInput
from memory_service.services.database.transactions import Database
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import recommend
from memory_service.services.review.review import review_script
from memory_service.services.runs.expectations import promised
from memory_service.services.runs.runs import begin_run, run_page
from memory_service.store.tables.runs import Run
from tests.conftest import Servers
from tests.registered import calibrate, register
from tests.telling import at, case, take_events


@pytest.fixture(scope="module")
def shared(servers: Servers) -> Iterator[Database]:
    """The seeds and a registered device; no SQL is asked here that a database could answer its own way."""
    with servers.opened() as database:
        register(database, "box9", "a100")
        calibrate(database, "box9", "a100", {"memory.context_gib": 0.5})
        yield database


def page_of(database: Database, body: dict[str, Any]) -> dict[str, Any]:
    return run_page(database, begin_run(database, body)[0]["run_id"])


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "image", "size": "small", "gpu": "t4", "minutes": "30"},
        {"task": "text", "gpu": "box9", "minutes": "20"},
        {"task": "tabular", "gpu": "cpu", "minutes": "10"},
        {"task": "tabular", "gpu": "t4", "minutes": "60", "model": "catboost", "n_train": "500000"},
    ],
)
def test_what_a_run_leaves_out_is_its_plans(shared: Database, asked: dict[str, str]):
    plan = recommend(shared, asked)
    page = page_of(shared, {"plan_id": plan["plan_id"]})
    for name in ("task", "batch_size", "folds", "epochs", "minutes", "precision"):
        assert page[name] == plan[name], name
    assert page["model"] == plan["model"]["name"]
    assert (page["gpu"], page["device"]) == (plan["gpu"]["slug"], plan["gpu"].get("device", ""))
    assert page["advice"] is not None
    assert page["given"].get("learning_rate") == plan["learning_rate"]
    on_card = "trees on a card" in ((page["prediction"].get("fit_seconds") or {}).get("basis") or "")
    assert on_card == (plan.get("tree_device") == "cuda") == (asked.get("model") == "catboost")
    again = page_of(shared, {"plan": plan})
    same = ("given", "prediction", "advice")
    given = {**again["given"], "plan_id": plan["plan_id"]}
    assert given == page["given"]
    assert [again[name] for name in same[1:]] == [page[name] for name in same[1:]]


def test_a_run_of_two_cards_is_predicted_for_both(shared: Database):
    plan = recommend(shared, {"task": "image", "size": "medium", "gpu": "2xt4", "minutes": "120"})
    page = page_of(shared, {"plan_id": plan["plan_id"], "gpu": "Tesla T4"})
    given, found = page["given"], page["prediction"]
    assert given["n_gpus"] == 2
    both, fed = (found[name]["value"] for name in ("samples_per_second", "loader_samples_per_second"))
    alone = page_of(shared, {**given, "plan_id": plan["plan_id"], "n_gpus": 1})["prediction"]
    assert 1.4 < both / alone["samples_per_second"]["value"] < 2.0
    assert found["peak_memory_gib"]["value"] > alone["peak_memory_gib"]["value"]
    promised = plan["expected"]["samples_per_second"]["value"]
    assert min(both, fed) == pytest.approx(promised, rel=0.1)
    assert found["case"] is None, "what two cards did is not learned of one"
    named = page_of(shared, {**given, "gpu": "2xt4", "n_gpus": None, "plan_id": None})["prediction"]
    assert named["samples_per_second"] == found["samples_per_second"]
    assert "n_gpus" not in page_of(shared, {"plan_id": plan["plan_id"], "gpu": "a100"})["given"]


def test_a_run_is_watched_in_the_direction_of_its_plans_metric(shared: Database):
    asked = {"task": "image", "gpu": "t4", "competition": "aptos2019-blindness-detection"}
    for metric, way in (("log loss", "min"), ("my own score", "max")):
        plan = recommend(shared, {**asked, "metric": metric})
        said = {"plan_id": plan["plan_id"], "competition": asked["competition"]}
        run_id = begin_run(shared, said)[0]["run_id"]
        with shared.read() as unit:
            run = unit.session.get(Run, run_id)
            assert run is not None
            assert run.watch["facts"]["metric_direction"] == way, "of a metric nobody knows the competition's"


def test_out_of_memory_keeps_the_effective_batch_of_the_plan(shared: Database):
    plan = recommend(shared, {"task": "image", "gpu": "t4", "minutes": "60", "batch_size": "64"})
    plan |= {"grad_accumulation": 2, "effective_batch_size": 128}
    for body in ({"plan": plan}, {"plan": plan, "grad_accumulation": 4}):
        run_id = begin_run(shared, body)[0]["run_id"]
        event = {"seq": 0, "kind": "note", "at": at(20), "out_of_memory": True}
        verdict = take_events(shared, run_id, {"events": [event]})["verdict"]
        steps = 2 * int(str(body.get("grad_accumulation", 2)))
        assert verdict["set"] == {"batch_size": 32, "grad_accumulation": steps}


def test_a_run_of_fewer_rows_and_folds_is_held_to_its_own(shared: Database):
    """A plan for 300 000 rows, tried on 3 200: its rounds, its inference and its time of a round are no
    measure."""
    table = {"task": "time-series-regression", "n_train": "300000", "n_features": "20"}
    plan = recommend(shared, {**table, "gpu": "t4", "minutes": "20"})
    for body in ({"plan_id": plan["plan_id"]}, {"plan": plan}):
        said = {**body, "minutes": 1, "n_train": 3_200, "folds": 3}
        run_id = begin_run(shared, said)[0]["run_id"]
        with shared.read() as unit:
            run = unit.session.get(Run, run_id)
            assert run is not None
            expected = run.watch["expected"]
        rows = 3_200 / 300_000
        best, inference = plan["expected"]["best_epoch"], plan["expected"]["inference_minutes"]
        assert expected["best_epoch"]["value"] == pytest.approx(best["value"] * rows**0.44)
        seeds = plan["seeds"]  # all rows are fitted with each
        shared_by = rows * rows**0.44 * (3 + seeds) / (plan["folds"] + seeds)
        assert expected["inference_minutes"]["high"] == pytest.approx(inference["high"] * shared_by)
        assert "epoch_seconds" not in expected


def test_what_a_run_says_goes_before_its_plan(shared: Database):
    plan = recommend(shared, {"task": "image", "gpu": "box9", "minutes": "30"})
    said = {"plan_id": plan["plan_id"], "epochs": 2, "minutes": 7, "gpu": "v100"}
    page = page_of(shared, said)
    assert (page["epochs"], page["minutes"], page["gpu"]) == (2, 7, "v100")
    other = page_of(shared, {"plan_id": plan["plan_id"], "model": "resnet18"})
    assert (other["batch_size"], other["input_size"]) == (None, 224), "those were the plan's model's"
    assert (other["folds"], other["device"]) == (plan["folds"], "box9")


def test_the_card_as_its_driver_names_it_is_the_device_the_plan_was_made_for(shared: Database):
    plan = recommend(shared, {"task": "image", "gpu": "box9", "minutes": "30"})
    for named, device in (("NVIDIA A100-SXM4-40GB", "box9"), ("NVIDIA A10", "")):
        assert page_of(shared, {"plan_id": plan["plan_id"], "gpu": named})["device"] == device


def test_a_plan_that_nobody_knows_says_nothing_and_that_is_said(shared: Database):
    with pytest.raises(InvalidInput, match="plan p-9 is not known here") as refused:
        begin_run(shared, {"plan_id": "p-9", "task": "image"})
    assert [error.field for error in refused.value.errors] == ["gpu", "model"]
    with pytest.raises(InvalidInput, match="task, gpu, model is required"):
        begin_run(shared, {})


def test_a_card_that_is_not_listed_is_watched_without_predictions(shared: Database):
    body = {"task": "image", "gpu": "custom/BR100", "model": "resnet18", "batch_size": 64, "n_train": 5000}
    page = page_of(shared, body | {"host": {"gpu_memory_gib": 32.0}})
    assert page["gpu"] == "custom/BR100"
    assert "unregistered" in page["prediction"]["why_not"]
    trees = page_of(shared, body | {"task": "tabular", "model": "lightgbm", "batch_size": None, "folds": 3})
    assert trees["prediction"]["total_minutes"]["value"] > 0, "trees run on the processor"


def test_a_plan_s_promises_are_read_from_its_json() -> None:
    plan = {
        "batch_size": 128,
        "early_stopping_patience": 3,
        "expected": {
            "peak_memory_gib": {
                "value": 9.0,
                "low": 8.5,
                "high": 9.7,
                "grade": "estimated",
                "n": 0,
                "basis": "",
            },
            "bound": "gpu",
        },
        "checks": {
            "first_after_seconds": 60,
            "every_seconds": 150,
            "not_before_steps": 20,
            "model_class": "large",
        },
        "alternatives": [{"objective": "smaller", "model": "resnet18", "epochs": 5, "expected": {}}],
    }
    expected = promised(plan)
    assert (expected["batch_size"], expected["patience"], expected["model_class"]) == (128, 3, "large")
    assert {"low": 8.5, "value": 9.0, "high": 9.7}.items() <= expected["driver_gib"].items()
    assert expected["smaller"] == {"model": "resnet18", "epochs": 5}
    assert promised({}) == {}


def test_a_run_is_expected_to_do_what_its_plan_promised_for_the_data_and_cores_it_was_asked_for(
    shared: Database,
):
    facts = {"n_train": 3000, "n_test": 500, "cpu_count": 2}
    plan = recommend(shared, {"task": "image", "gpu": "cpu", "minutes": 60, **facts})
    known = {fact["name"]: fact["value"] for fact in plan["facts"] if fact["from"] == "asked"}
    assert facts.items() <= known.items()
    begun = begin_run(shared, {"plan_id": plan["plan_id"]})[0]
    for name in ("samples_per_second", "epoch_seconds"):
        assert begun["prediction"][name]["value"] == pytest.approx(plan["expected"][name]["value"], rel=0.05)
    other = begin_run(shared, {"plan_id": plan["plan_id"], "n_train": 600, "host": {"cpu_count": 4}})[0]
    page = run_page(shared, other["run_id"])
    assert (page["n_train"], page["given"]["host"]) == (600, {"cpu_count": 4}), "its own words go first"
    trees = recommend(shared, {"task": "tabular", "gpu": "cpu", "minutes": 10, "mode": "blind", **facts})
    rounds = begin_run(shared, {"plan_id": trees["plan_id"]})[0]["prediction"]["total_minutes"]
    assert rounds["value"] == pytest.approx(trees["expected"]["total_minutes"]["value"], rel=0.3)
    assumed = recommend(shared, {"task": "image", "gpu": "cpu", "size": "small", "minutes": 60})
    assert {"name": "n_train", "value": 5000, "from": "usual"} in assumed["facts"]


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "time-series-regression", "n_features": "20"},
        {"task": "time-series-regression", "n_features": "20", "folds": "3", "gpu": "cpu"},
        {"task": "time-series-regression", "n_features": "20", "model": "lightgbm"},
        {"task": "tabular-regression", "n_features": "20", "model": "lightgbm", "folds": "5", "gpu": "cpu"},
        {"task": "text-classification", "model": "distilbert-base-uncased", "folds": "3"},
    ],
)
def test_a_plan_its_run_and_its_review_count_the_same_fits(shared: Database, asked: dict[str, str]):
    """Split by time or at random: minutes of the main run are those of fits of as many rows."""
    given = {"gpu": "t4", "minutes": "60", "n_train": "200000", "n_test": "20000", "cpu_count": "8"}
    plan = recommend(shared, {**given, **asked})
    rows = {"n_train": 200_000, "n_test": 20_000}
    said = {**rows, "seeds": plan["seeds"]} | ({"n_features": 20} if "n_features" in asked else {})
    prediction = page_of(shared, {"plan": plan, **said})["prediction"]
    assert prediction["why_not"] is None
    frozen = prediction["total_minutes"]
    planned = plan["expected"]["total_minutes"]["value"]
    assert frozen["value"] == pytest.approx(planned, rel=0.3)  # hidden minutes are the plan's alone
    asked_of = {"gpu": plan["gpu"]["slug"], "minutes": planned / 100, "cpu_count": 8, **rows}
    asked_of |= {"n_features": 20}
    script = plan_script(plan)
    if "\nEPOCHS = " not in script:
        return  # members take all minutes, whatever the plan's model takes
    found = review_script(shared, {**asked_of, "script": script})["findings"]
    (message,) = [one["message"] for one in found if one["rule"] == "cannot-end-in-budget"]
    told = re.search(r"about ([\d.]+) minutes", message)
    assert told is not None
    assert float(told[1]) == pytest.approx(planned, rel=0.35)


def test_a_loss_that_is_no_number_is_answered_with_a_third_of_the_stated_rate(shared: Database):
    begun, _ = begin_run(shared, case(learning_rate=0.1))
    epoch = {"seq": 0, "kind": "epoch", "at": at(30), "epoch": 1, "train_loss": "nan", "seconds": 30.0}
    verdict = take_events(shared, begun["run_id"], {"events": [epoch]})["verdict"]
    assert (verdict["action"], verdict["set"]) == ("relaunch", {"learning_rate": 0.03})
