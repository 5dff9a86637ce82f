"""Is a run on a processor learned from with the cores it had, whatever the processor's row says?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from memory_service.domain.learning.observation import Observation
from memory_service.services.conflicts.conflicts import conflicts
from memory_service.services.database.transactions import Database
from memory_service.services.pages.accuracy import accuracy_page
from memory_service.services.planning.recommend import recommend
from memory_service.services.prediction.predict import predict
from memory_service.services.runs.runs import run_page
from tests.conftest import Servers
from tests.registered import CPU, observe, register
from tests.telling import STEPS, case, epochs, told

CASE = {"model": "lcnet_050", "image_size": 224, "batch_size": 16, "precision": "fp32"}
SLOWER = 1.15


@pytest.fixture
def database(servers: Servers, kind: str) -> Iterator[Database]:
    """The seeds, and a processor of 4 cores registered as desk."""
    with servers.opened(kind) as database:
        register(database, "desk", "cpu", CPU)
        yield database


def step(database: Database, gpu: str = "cpu", **asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = predict(database, {**CASE, "gpu": gpu, **asked})["step_seconds"]
    return found


def ran(database: Database, seconds: float, gpu: str = "cpu", **said: Any) -> str:
    """A run whose steps took so long; its id."""
    body = case(**CASE, gpu=gpu, n_train=16 * STEPS, folds=1, **said)
    told(database, body, epochs(seconds, samples=16 * STEPS))
    return str(body["run_id"])


@pytest.mark.parametrize("gpu", ["cpu", "desk"])
def test_a_run_on_two_cores_is_of_two_cores(database: Database, gpu: str) -> None:
    before = {cores: step(database, gpu, cpu_count=cores)["value"] for cores in (1, 2, 8)}
    assert before[2] > 2 * before[8]
    seconds = SLOWER * before[2]
    run = run_page(database, ran(database, seconds, gpu, host={"cpu_count": 2}))
    assert [one["cores"] for one in run["observations"]] == [2]
    mine = step(database, gpu, cpu_count=2)
    assert mine["value"] == pytest.approx(seconds, rel=0.05)
    assert (mine["grade"], mine["n"]) == ("measured", 1)
    for cores in (1, 8):
        other = step(database, gpu, cpu_count=cores)
        assert other["value"] == pytest.approx(SLOWER * before[cores], rel=0.05)
        assert (other["grade"], other["n"]) == ("estimated", 1)
    assert [row for row in conflicts(database) if row["device"] == gpu or row["gpu"] == gpu] == []


def test_the_plan_says_the_cores_where_the_run_does_not(database: Database) -> None:
    asked = {"task": "image", "gpu": "cpu", "cpu_count": 2, "n_train": 4000, "minutes": 60}
    plan = recommend(database, {**asked, **CASE, "precision": None})
    seconds = step(database, cpu_count=2)["value"]
    run = run_page(database, ran(database, seconds, plan_id=plan["plan_id"]))
    assert [one["cores"] for one in run["observations"]] == [2]


def test_who_says_no_cores_is_answered_and_learned_from_alike(database: Database) -> None:
    for gpu, cores in (("cpu", 8), ("desk", 4)):
        seconds = SLOWER * step(database, gpu)["value"]
        run = run_page(database, ran(database, seconds, gpu))
        assert [one["cores"] for one in run["observations"]] == [cores]
        assert step(database, gpu)["value"] == pytest.approx(seconds, rel=0.05)


def test_runs_on_several_counts_stand_beside_one_another(database: Database) -> None:
    slow = {cores: 2.5 * step(database, cpu_count=cores)["value"] for cores in (2, 8)}
    for cores, seconds in slow.items():
        ran(database, seconds, host={"cpu_count": cores})
    found = [row for row in conflicts(database) if row["quantity"] == "samples_per_second"]
    named = [row["sides"][0]["source"] for row in found if row["model"] == "lcnet_050"]
    assert sorted(name.split(" on ")[1].split(",")[0] for name in named) == ["cpu (2 cores)", "cpu (8 cores)"]
    assert len({row["id"] for row in found}) == len(found)


def test_the_data_sheet_stands_for_the_cores_of_the_run(database: Database) -> None:
    ran(database, step(database, cpu_count=2)["value"], host={"cpu_count": 2})
    lines = accuracy_page(database, {"quantity": "samples_per_second"})["baselines"]
    sheet = next(line for line in lines if line["method"].startswith("profile and data sheet"))
    assert sheet["median_percent"] < 1.0


def test_what_was_stored_without_cores_teaches_its_registered_processor_alone(database: Database) -> None:
    """Of an unregistered one nobody knows how many it had."""
    before = {gpu: step(database, gpu)["value"] for gpu in ("cpu", "desk")}
    old = Observation(
        gpu="cpu", model="lcnet_050", family="mobilenet", input_size=224, precision="fp32", batch_size=16,
        step_seconds=1.5 * before["cpu"], n=40,
    )  # fmt: skip
    observe(database, [old, replace(old, model="resnet18")])
    assert step(database)["value"] == before["cpu"]
    assert [row for row in conflicts(database) if row["gpu"] == "cpu"] == []
    observe(database, [replace(old, device="desk", step_seconds=1.2 * before["desk"])])
    assert step(database, "desk")["value"] == pytest.approx(1.2 * before["desk"], rel=0.05)
