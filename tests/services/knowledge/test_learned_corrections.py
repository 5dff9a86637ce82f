"""Do observed runs reach the next answer: time, memory, out-of-memory, and nothing from what is absurd?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from memory_service.domain.learning.observation import Observation
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.planning.recommend import recommend
from memory_service.services.prediction.predict import predict
from tests.conftest import Servers
from tests.registered import observe, register
from tests.telling import STEPS, case, epochs, told

DEVICE = "box7"
CASE = {"model": "resnet50", "gpu": DEVICE, "image_size": 224, "precision": "bf16"}
RAN = Observation(
    gpu="a100", device=DEVICE, model="resnet50", family="resnet", input_size=224, precision="bf16",
    batch_size=128, n=40,
)  # fmt: skip


@pytest.fixture
def box(servers: Servers) -> Iterator[Database]:
    """A seeded database in which an A100 is registered as box7."""
    with servers.opened() as database:
        register(database, DEVICE, "a100")
        yield database


def step_at(database: Database, batch: int = 128, **changes: Any) -> float:
    return float(predict(database, {**CASE, "batch_size": batch, **changes})["step_seconds"]["value"])


def test_three_runs_30_percent_slower_bring_the_next_prediction_within_5_percent(box: Database) -> None:
    runs = [("resnet50", 128), ("resnet101", 64), ("resnet50", 64)]
    truth = [1.3 * step_at(box, batch, model=model) for model, batch in runs]
    next_truth = 1.3 * step_at(box, 96, model="resnet34")
    observe(
        box,
        (
            replace(RAN, model=model, batch_size=batch, step_seconds=seconds)
            for (model, batch), seconds in zip(runs, truth, strict=True)
        ),
    )
    assert step_at(box, 96, model="resnet34") == pytest.approx(next_truth, rel=0.05)
    assert step_at(box, 128) == pytest.approx(truth[0], rel=0.05)


def test_one_run_says_so_in_grade_n_and_basis(box: Database) -> None:
    observe(box, [replace(RAN, step_seconds=1.1 * step_at(box), peak_driver_gib=12.5)])
    answer = predict(box, {**CASE, "batch_size": 128})
    assert answer["step_seconds"]["grade"] == "measured"
    assert answer["step_seconds"]["n"] == 1
    assert DEVICE in answer["step_seconds"]["basis"]
    assert answer["peak_memory_gib"]["value"] == pytest.approx(12.5, rel=0.1)
    other = predict(box, {**CASE, "model": "vit_base_patch16_224", "batch_size": 128})
    assert other["step_seconds"]["grade"] == "estimated"
    plan = recommend(box, {"task": "image", "gpu": DEVICE, "size": "medium", **pinned(128)})
    assert plan["expected"]["samples_per_second"]["basis"] == answer["step_seconds"]["basis"]
    assert plan["expected"]["peak_memory_gib"]["n"] == 1
    assert plan["gpu"]["device"] == DEVICE
    assert plan["gpu"]["calibration"]["observations"] == 1


def test_after_a_run_predictions_are_those_of_a_server_just_started(
    box: Database, opened: Callable[[str], Database]
) -> None:
    cases = (("resnet50", DEVICE), ("vit_base_patch16_224", DEVICE), ("resnet50", "t4"))
    asked = [{**CASE, "model": model, "gpu": gpu} for model, gpu in cases]
    before, step = [predict(box, one) for one in asked], step_at(box)
    for model in ("resnet50", "resnet101"):
        observe(box, [replace(RAN, model=model, step_seconds=1.3 * step)])
        now = [predict(box, one) for one in asked]
        assert now[0]["step_seconds"] != before[0]["step_seconds"]
        fresh = opened(box.engine.url.render_as_string(hide_password=False))
        assert now == [predict(fresh, one) for one in asked]


def pinned(batch: int | None = None) -> dict[str, Any]:
    return {"model": "resnet50", "image_size": 224, "batch_size": batch, "precision": "bf16"}


def test_one_absurd_observation_moves_nothing(box: Database) -> None:
    asked = {"task": "image", "gpu": DEVICE, "size": "medium", "minutes": 60}
    step, plan = step_at(box), recommend(box, asked)
    observe(box, [replace(RAN, step_seconds=100 * step)])
    assert step_at(box) == pytest.approx(step, rel=1e-3)
    after = recommend(box, asked)
    apart = {"gpu": None, "knowledge_revision": None}
    assert {**after, **apart} == {**plan, **apart}


def test_an_absurd_observation_among_good_ones_moves_nothing(box: Database) -> None:
    step = step_at(box)
    observe(box, [replace(RAN, step_seconds=1.3 * step) for _ in range(3)])
    before = step_at(box)
    observe(box, [replace(RAN, step_seconds=100 * step)])
    assert step_at(box) == pytest.approx(before, rel=0.02)


def batches_offered(answer: Any) -> list[int]:
    """Every batch size anywhere in an answer, but those of a question that is repeated in it."""
    if isinstance(answer, dict):
        own = [answer["batch_size"]] if isinstance(answer.get("batch_size"), int) else []
        return own + [batch for value in answer.values() for batch in batches_offered(value)]
    if isinstance(answer, list | tuple):
        return [batch for value in answer for batch in batches_offered(value)]
    return []


MINUTES = (5, 20, 60, 240)


def plans(database: Database, gpu: str = DEVICE, **changes: Any) -> list[dict[str, Any]]:
    asked = {"task": "image", "n_train": 60_000, **pinned(), **changes, "gpu": gpu}
    return [
        recommend(database, {**asked, "objective": objective, "minutes": minutes})
        for objective in ("fast", "balanced", "quality")
        for minutes in MINUTES
    ]


def test_an_out_of_memory_at_96_bounds_every_plan_until_something_measured_lifts_it(box: Database) -> None:
    assert max(batch for answer in plans(box) for batch in batches_offered(answer)) >= 96
    observe(box, [replace(RAN, batch_size=96, out_of_memory=True, at="2026-11-02T00:00:00+00:00")])
    for answer in plans(box):
        assert all(batch < 96 for batch in batches_offered(answer))
    for size in (288, 384):
        for answer in plans(box, image_size=size):
            assert all(batch < 96 for batch in batches_offered(answer))
    sized = predict(box, {**CASE, "batch_size": 96})
    assert sized["fits"] is False
    assert sized["max_batch_size"]["value"] < 96
    assert sized["safe_batch_size"] < 96
    assert all(point["fits"] == (point["batch_size"] < 96) for point in sized["curve"])
    later = replace(RAN, batch_size=96, step_seconds=step_at(box, 64), at="2026-11-03T00:00:00+00:00")
    observe(box, [later])
    assert max(batch for answer in plans(box) for batch in batches_offered(answer)) >= 96
    assert predict(box, {**CASE, "batch_size": 96})["fits"] is True


def test_a_pinned_batch_that_ran_out_of_memory_is_refused_and_told_so(box: Database) -> None:
    observe(box, [replace(RAN, batch_size=96, out_of_memory=True)])
    for batch in (96, 128, 512):
        answer = recommend(box, {"task": "image", "n_train": 60_000, "gpu": DEVICE, **pinned(batch)})
        assert answer["feasible"] is False
        assert "out of memory" in answer["why"]
        assert f"96 on {DEVICE}" in answer["why"]
        assert answer["closest"]["set"]["batch_size"] < 96
        assert answer["closest"]["plan"]["batch_size"] < 96
    below = recommend(box, {"task": "image", "n_train": 60_000, "gpu": DEVICE, **pinned(64)})
    assert below["feasible"] is True
    assert below["batch_size"] == 64


def test_the_model_of_a_free_choice_is_bounded_too(box: Database) -> None:
    asked = {"task": "image", "n_train": 60_000, "gpu": DEVICE, "minutes": 60}
    chosen = recommend(box, asked)
    model, batch = chosen["model"], chosen["batch_size"]
    name = model["name"].split(".")[0]
    family = knowledge_of(box).models[model["name"]].family
    failed = replace(
        RAN,
        model=name,
        family=family,
        input_size=model["image_size"],
        batch_size=batch,
        out_of_memory=True,
        optimizer=chosen["optimizer"],
    )
    observe(box, [failed])
    for objective in ("fast", "balanced", "quality"):
        answer = recommend(box, {**asked, "objective": objective})
        entries = [answer, *answer["alternatives"]]
        for entry in entries:
            planned = entry["model"]["name"] if isinstance(entry["model"], dict) else entry["model"]
            size = entry.get("image_size") or entry["model"]["image_size"]
            if planned.split(".")[0] == name and size >= model["image_size"]:
                assert entry["batch_size"] < batch


def test_an_out_of_memory_on_a_small_card_does_not_bound_a_larger_one(box: Database) -> None:
    before = batches_offered(plans(box, gpu="a100-80gb"))
    observe(box, [replace(RAN, gpu="t4", device="", batch_size=8, out_of_memory=True)])
    assert batches_offered(plans(box, gpu="a100-80gb")) == before
    assert max(batches_offered(plans(box))) >= 96


def test_a_run_at_a_size_that_nobody_profiled_is_learned_from_by_every_process(box: Database) -> None:
    asked = {"gpu": DEVICE, "model": "resnet10t", "image_size": 96, "batch_size": 64, "precision": "bf16"}
    truth = 1.3 * predict(box, asked)["step_seconds"]["value"]
    told(box, case(**asked, n_train=None, folds=1), epochs(truth, samples=64 * STEPS))
    other = Database(str(box.engine.url))
    found = predict(other, asked)["step_seconds"]
    other.close()
    assert found["grade"] == "measured"
    assert found["value"] < truth * 1.05


def test_several_cards_keep_the_bound_of_the_one_that_ran_out(box: Database) -> None:
    observe(box, [replace(RAN, batch_size=96, out_of_memory=True)])
    for answer in plans(box, gpu=f"h100,{DEVICE}"):
        assert all(batch < 96 for batch in batches_offered(answer))
        assert answer["gpu"]["fits_all"] == ["h100", DEVICE]


def test_a_finished_run_leaves_the_priced_catalogue_and_renews_the_cards(box: Database) -> None:
    before = knowledge_of(box)
    observe(box, [replace(RAN, step_seconds=0.2)])
    after = knowledge_of(box)
    assert after.priced is before.priced
    assert after.competitions.keys() == before.competitions.keys()
    assert after.gpu(DEVICE).learned is not None
    assert len(after.observations) == 1
