"""Fits of estimators, input pipelines and the process's memory are learned as steps of networks are."""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.domain.learning.observation import Observation
from memory_service.domain.prediction.device_host import device_fit, device_loader
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.runs.runs import begin_run, mark_run
from memory_service.services.runs.scored_runs import accuracy
from tests.telling import at, case, told

TREES: dict[str, Any] = {
    "task": "tabular-classification", "gpu": "cpu", "model": "lightgbm", "n_features": 20,
    "n_train": 1_000_000, "folds": 1, "epochs": 100, "batch_size": None, "precision": None, "minutes": None,
    "host": {"cpu_count": 4},
}  # fmt: skip
GIB = 1.6


def trees(**changed: Any) -> dict[str, Any]:
    return case(**TREES | changed)


def rounds(seconds: float, count: int = 100, crowded: bool = False, every: int = 10) -> list[dict[str, Any]]:
    """A fit of so many rounds, told every ten."""
    events: list[dict[str, Any]] = [
        {"kind": "epoch", "epoch": n, "seconds": seconds} for n in range(0, count, every)
    ]
    sample = {"kind": "gpu", "host_gib": GIB, "cpu_percent": 50.0}
    events += [sample | {"cpu_wait_percent": 40.0 if crowded else 1.0} for _ in range(4)]
    return [event | {"seq": n, "at": at(2 * n)} for n, event in enumerate(events)]


def predicted(database: Database, **changed: Any) -> dict[str, Any]:
    begun, _ = begin_run(database, trees(**changed))
    return dict(begun["prediction"])


def test_boosted_trees_learn_their_speed_and_the_memory_of_their_process(seeded_database: Database) -> None:
    before = predicted(seeded_database)
    rate = before["samples_per_second"]["value"] / 1.5
    pages = [told(seeded_database, trees(), rounds(800_000 / rate)) for _ in range(2)]
    after = predicted(seeded_database)
    assert after["samples_per_second"]["value"] == pytest.approx(rate, rel=0.05)
    assert after["samples_per_second"]["grade"] == "measured"
    assert after["peak_memory_gib"]["value"] == pytest.approx(GIB, rel=0.1)
    assert after["total_minutes"]["value"] > before["total_minutes"]["value"]
    assert (before["own_runs"], after["own_runs"]) == (0, 2)
    assert "is predicted at" in pages[0]["learned"][0]
    other = predicted(seeded_database, n_train=4_000_000)["fit_seconds"]
    assert other["grade"] == "estimated"
    mark_run(seeded_database, pages[0]["id"], "wrong", excluded=True)
    mark_run(seeded_database, pages[1]["id"], "wrong", excluded=True)
    assert predicted(seeded_database)["samples_per_second"] == before["samples_per_second"]


def test_wrong_and_contended_fits_move_nothing(seeded_database: Database) -> None:
    rate = predicted(seeded_database)["samples_per_second"]["value"]
    for _ in range(3):
        told(seeded_database, trees(), rounds(800_000 / rate))
    honest = predicted(seeded_database)["samples_per_second"]["value"]
    page = told(seeded_database, trees(), rounds(800_000 / rate * 1.8, crowded=True))
    assert page["excluded"] == "contended"
    assert "other work had the card or the cores" in " ".join(page["learned"])
    told(seeded_database, trees(), rounds(800_000 / rate * 6.0))
    impossible = told(seeded_database, trees(), rounds(800_000 / rate * 50.0))
    assert impossible["excluded"] == "implausible"
    now = predicted(seeded_database)["samples_per_second"]["value"]
    assert now == pytest.approx(honest, rel=0.05)


def test_a_fit_that_was_told_as_a_whole_teaches_and_a_short_one_weighs_less(
    seeded_database: Database,
) -> None:
    card = knowledge_of(seeded_database).gpu("cpu")
    moved = []
    for timed, model in ((0.1, "random-forest"), (30.0, "extra-trees")):
        body = trees(model=model, n_train=20_000, epochs=None)
        note = {"kind": "note", "fit": "fit", "rows": 16_000, "columns": 20, "seq": 0, "at": at(1)}
        base = device_fit(model, model, 16_000, 20, 1, rounds=100, cpu_count=4, device=card)
        rounds_told = max(1, round(100 * timed / (2.0 * base.fit_seconds.value)))
        told(seeded_database, body, [note | {"seconds": timed, "rounds": rounds_told}])
        now = knowledge_of(seeded_database).gpu("cpu")
        known = device_fit(model, model, 16_000, 20, 1, rounds=rounds_told, cpu_count=4, device=now)
        free = device_fit(model, model, 16_000, 20, 1, rounds=rounds_told, cpu_count=4, device=card)
        moved.append(known.fit_seconds.value / free.fit_seconds.value)
    assert 1.0 < moved[0] < moved[1]


def test_the_memory_of_a_forest_of_two_classes_is_learned(seeded_database: Database) -> None:
    """Its trees are smaller than a regression's: what it held is beside what was predicted for it."""
    body = trees(model="random-forest", n_train=40_000, n_classes=2, epochs=100)
    fit = {"kind": "note", "fit": "fit", "rows": 32_000, "columns": 20, "rounds": 100, "seconds": 30.0}
    held = {"kind": "gpu", "host_gib": 0.9, "seq": 1, "at": at(20)}
    told(seeded_database, body, [fit | {"seq": 0, "at": at(30)}, held])
    again, _ = begin_run(seeded_database, {name: value for name, value in body.items() if name != "run_id"})
    assert again["prediction"]["peak_memory_gib"]["value"] == pytest.approx(0.9, rel=0.05)


@pytest.mark.parametrize("waits", [80.0, 0.0])
def test_an_input_pipeline_is_learned_from_what_waited_and_from_what_did_not(
    seeded_database: Database, waits: float
) -> None:
    asked = ("image-classification", 224, 4, 8)
    law = device_loader(*asked, knowledge_of(seeded_database).gpu("l4")).value
    rate = law / 2.0 if waits else law * 2.0
    seconds = 32_000 / rate
    events = [
        {
            "seq": n,
            "kind": "epoch",
            "at": at(100 * n),
            "epoch": n,
            "seconds": seconds,
            "loader_wait_percent": waits,
        }
        for n in range(4)
    ]
    body = case(gpu="l4", num_workers=4, host={"cpu_count": 8}, model="resnet18", precision="fp16")
    page = told(seeded_database, body, events)
    (fed,) = [one for one in page["observations"] if one["part"] == "loader"]
    assert (fed["step_seconds"] is None) == (waits == 0.0)
    now = device_loader(*asked, knowledge_of(seeded_database).gpu("l4"))
    assert now.value == pytest.approx(rate, rel=0.1)
    again, _ = begin_run(seeded_database, case(**{**body, "run_id": None}))
    epoch, loader = (again["prediction"][name] for name in ("epoch_seconds", "loader_samples_per_second"))
    step = again["prediction"]["step_seconds"]["value"] * 250
    assert epoch["value"] >= max(step, 32_000 / loader["value"])
    assert ("wait for the input pipeline" in epoch["basis"]) == (32_000 / loader["value"] > step)


def test_accuracy_tells_errors_by_own_runs_before(seeded_database: Database) -> None:
    rate = predicted(seeded_database)["samples_per_second"]["value"] / 2.0
    for _ in range(4):
        told(seeded_database, trees(), rounds(800_000 / rate))
    found = accuracy(seeded_database, {"days": 36_500.0})
    assert [group["name"] for group in found["by_own_runs"]] == ["0", "1", "2-4"]
    errors = [
        next(s["median_percent"] for s in group["scores"] if s["quantity"] == "samples_per_second")
        for group in found["by_own_runs"]
    ]
    assert errors[0] > 80.0
    assert errors[2] < 5.0
    assert {group["name"] for group in found["by_grade"]} == {"measured", "estimated"}


def test_observations_of_before_are_read_as_steps() -> None:
    stored = {"gpu": "a100", "model": "resnet50", "family": "resnet", "input_size": 224, "precision": "bf16"}
    assert Observation.from_dict(stored | {"batch_size": 64}).part == "step"
