"""Does the chosen box hold the plan that is then asked for, and do plans, rows and scripts compare?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memory_service.cli import app
from memory_service.errors import InvalidInput, NotFound
from memory_service.schemas.choose import ChooseRequest, CompareRequest
from memory_service.schemas.validation_errors import checked
from memory_service.services.choice.choose import choose_offer
from memory_service.services.choice.compare import compare_trainings
from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend
from memory_service.services.runs.runs import begin_run, finish_run

IMAGES: dict[str, Any] = {"task": "image", "n_train": 20_000}
OFFERS: list[dict[str, Any]] = [
    {"name": "small", "gpu": "t4", "cpu_count": 4, "price_per_hour": 0.4, "start_up_minutes": 2},
    {"name": "middle", "gpu": "a10g", "cpu_count": 8, "price_per_hour": 1.0, "minutes_max": 60},
    {"name": "pair", "gpu": "2xt4", "price_per_hour": 0.8, "spot": True},
    {"name": "large", "gpu": "h100", "cpu_count": 26, "price_per_hour": 4.0},
]


def chosen(database: Database, **asked: Any) -> dict[str, Any]:
    return choose_offer(database, checked(ChooseRequest, {**IMAGES, "offers": OFFERS, **asked}))


@pytest.mark.parametrize("objective", ["cheapest", "fastest", "best", "balanced"])
def test_the_plan_asked_for_on_an_offer_keeps_its_limit(seeded_sqlite: Database, objective: str) -> None:
    answer = chosen(seeded_sqlite, objective=objective, deadline_minutes=120, budget=3.0)
    assert answer["recommended"] in {row["name"] for row in answer["offers"] if row["fits"]}
    assert len(answer["reasons"]) == 3
    for row in answer["offers"]:
        assert row["fits"]
        assert row["time_limit_minutes"] <= 120
        assert row["most_cost"] <= 3.0
        assert row["minutes"]["high"] <= row["time_limit_minutes"]
        plan = recommend(seeded_sqlite, {**IMAGES, **row["ask"]})
        assert plan["feasible"]
        start = row["start_up_minutes"]["high"]
        assert plan["expected"]["total_minutes"]["high"] + start <= row["time_limit_minutes"] + 0.01
        assert (
            plan["expected"]["quality_index"]["value"]
            >= row["plan"]["expected"]["quality_index"]["value"] - 0.6
        )
    assert [row["interruption"] is not None for row in answer["offers"]] == [False, False, True, False]


def test_a_retriever_is_counted_once_in_minutes_interruptions_and_comparisons(
    seeded_sqlite: Database,
) -> None:
    text = "Rank passages for a query. 8 000 queries, 200 000 passages."
    asked = {"task": "text-ranking", "description": text}
    offer = {"name": "spot", "gpu": "a100", "price_per_hour": 1.0, "spot": True}
    request = checked(ChooseRequest, {**asked, "offers": [offer], "deadline_minutes": 120})
    (row,) = choose_offer(seeded_sqlite, request)["offers"]
    start, plan = row["start_up_minutes"]["value"], recommend(seeded_sqlite, {**asked, **row["ask"]})
    first = plan["portfolio"][0]["stage"]["total_minutes"]["value"]
    assert first > 1
    lost = row["interruption"]["lost_minutes"]
    assert lost == pytest.approx(start + (row["minutes"]["value"] - start) / 2, rel=0.01)
    retriever = recommend(seeded_sqlite, {**asked, **row["ask"], "run": 1})
    reranker = recommend(seeded_sqlite, {**asked, **row["ask"], "run": 2})
    sides = compare_trainings(seeded_sqlite, checked(CompareRequest, {"plans": [plan, retriever, reranker]}))[
        "sides"
    ]
    both, one, other = (side["minutes"]["value"] for side in sides)
    assert one == pytest.approx(first)
    assert both == pytest.approx(one + other)


def test_without_offers_common_boxes_are_compared_and_their_prices_dated(seeded_sqlite: Database) -> None:
    answer = choose_offer(seeded_sqlite, checked(ChooseRequest, IMAGES))
    assert answer["built_in"]
    assert answer["recommended"]
    said = {each["code"] for each in answer["warnings"]}
    assert {"prices-dated", "deadline-assumed", "prices-missing"} <= said


def test_the_scope_stays_either_there_by_a_change_or_on_the_next_offer(seeded_sqlite: Database) -> None:
    pinned = {"model": "vit_large_patch14_dinov2", "image_size": 518, "batch_size": 32, "epochs": 10}
    answer = chosen(seeded_sqlite, **pinned, deadline_minutes=600)
    small = answer["scope"][0]
    assert (small["offer"], small["why"]) == ("small", "memory")
    assert small["same_hardware"]["set"]
    assert "gpu" not in small["same_hardware"]["set"]
    assert small["next_offer"]["plan"]["batch_size"] == 32
    assert small["next_offer"]["plan"]["epochs"] == 10


def test_what_runs_tell_of_starting_moves_the_limit(seeded_database: Database) -> None:
    before = chosen(seeded_database)["offers"][3]["start_up_minutes"]
    run = {**IMAGES, "gpu": "h100", "model": "resnet50", "batch_size": 64, "precision": "bf16"}
    for minutes in (21, 24, 27, 30):
        begun, _ = begin_run(seeded_database, {**run, "host": {"start_up_minutes": minutes}})
        finish_run(seeded_database, begun["run_id"], {"status": "completed"})
    start = chosen(seeded_database)["offers"][3]["start_up_minutes"]
    assert (before["grade"], start["grade"], start["n"]) == ("claimed", "measured", 4)
    assert before["value"] < start["value"] < 30


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"gpu": "t4"}, "gpu"),
        ({"offers": [{"name": "x", "gpu": "t5000"}]}, "offers.0"),
        ({"offers": [OFFERS[0], OFFERS[0]]}, "offers"),
        ({"offers": []}, "offers"),
        ({"budget": -1.0}, "budget"),
        ({"objective": "dearest"}, "objective"),
    ],
)
def test_what_cannot_be_chosen_is_refused_by_name(
    seeded_sqlite: Database, asked: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        chosen(seeded_sqlite, **asked)
    assert {error.field for error in refused.value.errors} == {field}


SCRIPT = """
import timm, torch
from torch.utils.data import DataLoader
model = timm.create_model("{model}", pretrained=True, num_classes=10)
loader = DataLoader(data, batch_size=64)
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(10):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
"""


def test_plans_rows_and_scripts_stand_beside_each_other(seeded_sqlite: Database, tmp_path: Path) -> None:
    plans = [recommend(seeded_sqlite, {**IMAGES, "gpu": gpu, "minutes": 40.0}) for gpu in ("t4", "h100")]
    answer = compare_trainings(
        seeded_sqlite, checked(CompareRequest, {"plans": [plans[0]["plan_id"], plans[1]]})
    )
    (pair,) = answer["pairs"]
    assert pair["better"] == answer["best"] == answer["sides"][1]["name"]
    assert 0.5 <= pair["p_better"] <= 1.0
    assert answer["sides"][1]["quality"]["value"] == pytest.approx(
        plans[1]["expected"]["quality_index"]["value"], abs=0.01
    )
    texts = [SCRIPT.format(model=model) for model in ("resnet18", "convnext_base")]
    asked = {"scripts": texts, "task": "image", "gpu": "t4", "n_train": 20_000}
    answer = compare_trainings(
        seeded_sqlite, checked(CompareRequest, {**asked, "rows": [{"task": "image", "model": "nobodys"}]})
    )
    row, small, large = answer["sides"]
    assert row["why"]
    assert row["quality"] is None
    assert (small["model"], large["model"]) == ("resnet18", "convnext_base")
    pair = answer["pairs"][-1]
    assert (pair["better"], pair["sooner"]) == (large["name"], small["name"])
    files = [tmp_path / name for name in ("plan.json", "train.py")]
    files[0].write_text(json.dumps(plans[0]))
    files[1].write_text(texts[0])
    done = CliRunner().invoke(
        app, ["compare", *map(str, files), "--task", "image", "--json", "--database", seeded_sqlite.url]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["pairs"][0]["better"].startswith("plan 1")


def test_sides_of_several_tasks_and_forgotten_plans_are_refused(seeded_sqlite: Database) -> None:
    rows = [{"task": "image", "model": "resnet50"}, {"task": "text", "model": "bert-base-uncased"}]
    with pytest.raises(InvalidInput):
        compare_trainings(seeded_sqlite, checked(CompareRequest, {"rows": rows}))
    with pytest.raises(NotFound):
        compare_trainings(seeded_sqlite, checked(CompareRequest, {"plans": ["plan-0", "plan-1"]}))
    with pytest.raises(InvalidInput):
        checked(CompareRequest, {"rows": rows[:1]})
    with pytest.raises(InvalidInput):
        compare_trainings(seeded_sqlite, checked(CompareRequest, {"plans": [{}, {}]}))


def test_the_command_chooses_among_the_offers_of_a_file(seeded_sqlite: Database, tmp_path: Path) -> None:
    file = tmp_path / "offers.json"
    file.write_text(json.dumps(OFFERS))
    words = ["choose", "--task", "image", "--n-train", "20000", "--offers", str(file)]
    words += ["--objective", "cheapest", "--budget", "2", "--database", seeded_sqlite.url]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("take small (cheapest)")
    answer = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert answer["recommended"] == "small"


def test_what_more_buys_is_the_difference_of_two_rows(seeded_sqlite: Database) -> None:
    free = {"name": "free", "gpu": "t4", "cpu_count": 4, "price_per_hour": 0.0}
    others = [{**OFFERS[1], "price_per_hour": 0.5}, {**OFFERS[3], "price_per_hour": 0.9}]
    answer = chosen(seeded_sqlite, offers=[free, *others], deadline_minutes=60, objective="cheapest")
    rows, more = {row["name"]: row for row in answer["offers"]}, answer["more"]
    assert answer["recommended"] == "free"
    other = rows[more["offer"]]
    assert more["costs_more"] == pytest.approx(other["cost"]["value"], abs=1e-3)
    indices = [row["plan"]["expected"]["quality_index"]["value"] for row in (other, rows["free"])]
    assert more["points"] == pytest.approx(indices[0] - indices[1], abs=0.06)


@pytest.mark.parametrize(
    ("figure", "value"), [("quality_index", "abc"), ("quality_index", "nan"), ("total_minutes", -5.0)]
)
def test_a_plan_whose_figures_were_changed_to_none_that_are_is_refused(
    seeded_sqlite: Database, figure: str, value: Any
) -> None:
    plan = recommend(seeded_sqlite, {**IMAGES, "gpu": "t4", "minutes": 40.0})
    plan["expected"][figure]["value"] = value
    with pytest.raises(InvalidInput, match="plans"):
        compare_trainings(seeded_sqlite, checked(CompareRequest, {"plans": [plan, plan]}))
