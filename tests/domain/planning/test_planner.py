"""Does the planner give the plans that were promised, and keep its word in each?"""

from __future__ import annotations

import pytest

from tests.answers import warnings_of
from tests.planning import best, plan, promises_kept, seed_knowledge

DOGS = {"task": "image", "n_train": 9000, "n_classes": 120, "minutes": 11}


def imagenet(name: str) -> float:
    return seed_knowledge().models[name].quality["imagenet_top1"]


def b4() -> float:
    return imagenet("tf_efficientnet_b4.ns_jft_in1k")


def test_eleven_minutes_on_an_a100_end_before_the_eleventh_with_the_reserve_kept() -> None:
    answer = plan(**DOGS, gpu="a100")
    assert answer["feasible"]
    assert promises_kept(answer) == []
    assert answer["expected"]["total_minutes"]["high"] < 11
    assert answer["batch_size"] != 32
    assert answer["batch_size"] >= 48


def test_planned_for_an_a10_it_fits_24_gb_though_an_a100_is_visible() -> None:
    answer = plan(**DOGS, gpu="a100", plan_for="a10")
    assert promises_kept(answer) == []
    assert answer["gpu"]["slug"] == "a10"
    assert answer["gpu"]["visible"] == ["a100"]
    assert answer["expected"]["peak_memory_gib"]["high"] < 24
    assert answer["batch_size"] != 32


def test_medium_data_on_an_a100_gets_at_least_b4_quality_in_25_minutes() -> None:
    answer = plan(task="image", size="medium", gpu="a100", minutes=25)
    assert promises_kept(answer) == []
    assert max(imagenet(run["model"]) for run in answer["portfolio"]) >= b4()


def test_the_same_on_an_a10_is_smaller_or_shorter() -> None:
    large = plan(task="image", size="medium", gpu="a100", minutes=25)
    small = plan(task="image", size="medium", gpu="a10", minutes=25)
    work = [
        answer["model"]["params_m"] * answer["model"]["image_size"] ** 2 * answer["epochs"] * answer["folds"]
        for answer in (large, small)
    ]
    smaller = small["model"]["params_m"] < large["model"]["params_m"] or (
        small["model"]["image_size"] < large["model"]["image_size"]
    )
    shorter = small["epochs"] * small["folds"] < large["epochs"] * large["folds"]
    assert smaller or shorter
    assert work[1] < work[0]
    assert promises_kept(small) == []


def test_asking_twice_gives_the_same_plan_and_id() -> None:
    assert plan(**DOGS, gpu="a100") == plan(**DOGS, gpu="NVIDIA A100-SXM4-40GB")
    assert plan(**DOGS, gpu="a100")["plan_id"] != plan(**{**DOGS, "minutes": 12}, gpu="a100")["plan_id"]


def test_several_cards_are_planned_by_the_smallest_and_the_slowest() -> None:
    both = plan(**DOGS, gpu="a100,t4")
    assert promises_kept(both) == []
    assert both["gpu"]["fits_all"] == ["a100", "t4"]
    assert both["precision"] == "fp16"
    assert both["expected"]["peak_memory_gib"]["high"] < 16


def test_vram_gib_overrides_the_card() -> None:
    answer = plan(**DOGS, gpu="a100", vram_gib=8)
    assert answer["expected"]["peak_memory_gib"]["high"] <= 8


@pytest.mark.parametrize(
    ("gpu", "precision"),
    [("a100", "bf16"), ("t4", "fp16"), ("v100", "fp16"), ("p100", "fp32"), ("cpu", "fp32"), ("mps", "fp32")],
)
def test_precision_follows_the_card(gpu: str, precision: str) -> None:
    answer = plan(task="image", size="small", gpu=gpu, minutes=240)
    assert answer["precision"] == precision


def test_pinned_fields_stand_as_they_were_given() -> None:
    pins = {
        "model": "resnet50",
        "batch_size": 100,
        "folds": 5,
        "epochs": 7,
        "precision": "fp16",
        "image_size": 224,
    }
    answer = plan(task="image", n_train=9000, gpu="a100", minutes=120, **pins)
    assert answer["feasible"]
    assert answer["model"]["name"].startswith("resnet50")
    assert answer["model"]["image_size"] == 224
    assert [answer[name] for name in ("batch_size", "folds", "epochs", "precision")] == [100, 5, 7, "fp16"]
    assert promises_kept(answer) == []


def test_a_pinned_batch_that_cannot_fit_is_refused_with_the_largest_that_does() -> None:
    answer = plan(
        task="image",
        n_train=9000,
        gpu="a100",
        minutes=60,
        model="tf_efficientnet_b4",
        image_size=224,
        batch_size=512,
    )
    assert not answer["feasible"]
    assert "Memory" in answer["why"]
    change = answer["closest"]["set"]
    assert 64 <= change["batch_size"] < 512
    assert (
        promises_kept(
            plan(
                task="image",
                n_train=9000,
                gpu="a100",
                minutes=60,
                model="tf_efficientnet_b4",
                image_size=224,
                **change,
            )
        )
        == []
    )


def test_a_budget_that_is_too_short_is_refused_with_the_shortest_that_holds() -> None:
    asked = {"task": "image", "n_train": 300_000, "gpu": "t4", "model": "resnet50", "image_size": 224}
    answer = plan(**asked, minutes=3)
    assert not answer["feasible"]
    changes = [answer["closest"], *answer["closest"].get("or", [])]
    minutes = next(change["set"]["minutes"] for change in changes if "minutes" in change["set"])
    assert promises_kept(plan(**asked, minutes=minutes)) == []
    assert not plan(**asked, minutes=minutes - 2)["feasible"]


def test_a_precision_the_card_lacks_is_refused_with_the_one_it_has() -> None:
    answer = plan(task="image", size="small", gpu="t4", precision="bf16")
    assert not answer["feasible"]
    assert answer["closest"]["set"] == {"precision": "fp16"}


@pytest.mark.parametrize(
    "asked",
    [
        {"gpu": "rtx3060", "n_train": 500_000, "minutes": 5, "epochs": 40, "folds": 5},
        {"gpu": "a100", "plan_for": "t4", "n_train": 2_000_000, "minutes": 3},
        {"gpu": "t4", "n_train": 40_000, "minutes": 5, "precision": "bf16"},
        {"gpu": "a100", "n_train": 40_000, "vram_gib": 1},
        {"gpu": "t4", "n_train": 40_000, "batch_size": 65_536, "image_size": 224},
        {"gpu": "t4", "n_train": 40_000, "minutes": 2, "image_size": 384},
        {"gpu": "t4", "n_train": 40_000, "batch_size": 512, "model": "resnet50", "image_size": 1024},
        {"gpu": "cpu", "n_train": 4_000_000, "minutes": 5, "objective": "quality"},
    ],
)
def test_every_change_that_is_offered_fits(asked: dict[str, object]) -> None:
    asked = {"task": "image", **asked}
    answer = plan(**asked)
    assert not answer["feasible"]
    for change in [answer["closest"], *answer["closest"].get("or", [])]:
        changed = plan(**{**asked, **change["set"]})
        assert changed["feasible"], change
        assert all(name in asked for name, value in change["set"].items() if value is None), "was not pinned"
        assert promises_kept(changed) == []


def test_objectives_order_time_and_quality() -> None:
    answers = {
        o: plan(task="image", size="medium", gpu="a100", minutes=240, objective=o)
        for o in ("fast", "balanced", "quality")
    }
    quality = [answers[o]["expected"]["quality_index"]["value"] for o in ("fast", "balanced", "quality")]
    minutes = [answers[o]["portfolio"][-1]["deadline_minute"] for o in ("fast", "balanced", "quality")]
    assert quality == sorted(quality)
    assert minutes[0] < min(minutes[1:]), "balanced leaves out runs within the noise, not minutes"
    assert quality[0] < quality[2]


@pytest.mark.parametrize(("task", "gpu"), [("text", "t4"), ("segmentation", "a100"), ("audio", "t4")])
def test_a_smaller_alternative_needs_less_memory(task: str, gpu: str) -> None:
    answer = plan(task=task, size="small", gpu=gpu, minutes=30)
    smaller = next(each for each in answer["alternatives"] if each["objective"] == "smaller")
    needed = [each["expected"]["peak_memory_gib"]["value"] for each in (smaller, answer)]
    assert needed[0] < needed[1]


def test_alternatives_keep_their_promises_too() -> None:
    answer = plan(**DOGS, gpu="a100")
    kinds = {entry["objective"] for entry in answer["alternatives"]}
    assert {"fast", "smaller"} <= kinds
    own = {answer["model"]["name"], answer["folds"], answer["epochs"]}
    for entry in answer["alternatives"]:
        assert {entry["model"], entry["folds"], entry["epochs"]} != own, "the plan itself is no alternative"
        assert entry["expected"]["total_minutes"]["high"] <= 11


def test_tables_are_fitted_by_trees_whose_rounds_are_their_epochs() -> None:
    answer = plan(task="tabular", size="medium", gpu="a100", model="lightgbm")
    assert answer["batch_size"] == answer["effective_batch_size"] == 40_000
    assert answer["epochs"] >= 100
    assert answer["expected"]["bound"] == "host"
    assert answer["expected"]["peak_memory_gib"]["value"] == 0
    assert answer["expected"]["host_memory_gib"]["value"] > 0
    assert promises_kept(answer) == []


def test_a_pinned_network_on_a_table_keeps_thousands_of_rows_a_batch() -> None:
    answer = plan(task="tabular", n_train=1_000_000, gpu="a100", model="mlp", minutes=60)
    assert answer["batch_size"] >= 4096


def test_little_data_lowers_the_batch_and_says_so() -> None:
    answer = plan(task="image", n_train=600, gpu="a100", minutes=20)
    assert answer["batch_size"] <= 16
    assert any("updates" in sentence for sentence in (*answer["rationale"], *warnings_of(answer)))


def test_many_classes_cost_memory() -> None:
    few = plan(
        task="image", n_train=500_000, gpu="t4", minutes=600, model="resnet50", batch_size=64, n_classes=10
    )
    many = plan(
        task="image",
        n_train=500_000,
        gpu="t4",
        minutes=600,
        model="resnet50",
        batch_size=64,
        n_classes=32_000,
    )
    assert many["expected"]["peak_memory_gib"]["value"] > few["expected"]["peak_memory_gib"]["value"] + 0.5


def test_no_plan_for_ten_billion_samples_still_says_what_would_fit() -> None:
    answer = plan(task="image", n_train=10**10, gpu="a100", minutes=60)
    assert not answer["feasible"]
    assert answer["closest"]["set"]["n_train"] < 10**10


def test_blind_mode_uses_no_competition_memory() -> None:
    answer = plan(**DOGS, gpu="a100", mode="blind")
    assert answer["similar"] == []
    assert not any(row["id"].startswith(("pattern", "P")) for row in answer["evidence"])


def test_an_unfitting_best_is_none() -> None:
    assert best(task="image", n_train=10**9, gpu="t4", minutes=3) is None
