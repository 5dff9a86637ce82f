"""Does /recommend's service fill in what was not said, say so, remember answers and write nothing?"""

from __future__ import annotations

import re
from typing import Any

import pytest

from memory_service.domain.planning.explanation.plan_text import plan_markdown, plan_view
from memory_service.errors import InvalidInput, NotFound
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import recommend
from tests.answers import warnings_of

DOGS = {"competition": "dog-breed-identification", "gpu": "a100", "minutes": 11}


def test_task_and_size_of_a_known_competition_are_read_and_said(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, DOGS)
    assert answer["task"] == "image-classification"
    assert any("record of dog-breed-identification" in sentence for sentence in warnings_of(answer))
    assert answer["similar"][0]["slug"] == "dog-breed-identification"


def test_family_mode_leaves_the_competition_itself_out(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {**DOGS, "mode": "family"})
    assert "dog-breed-identification" not in {hit["slug"] for hit in answer["similar"]}
    assert not any(row["id"].startswith("dog-breed") for row in answer["evidence"])


def test_blind_mode_uses_neither_neighbours_nor_patterns(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {**DOGS, "mode": "blind"})
    assert answer["similar"] == []
    assert any("Mode blind" in sentence for sentence in answer["rationale"])
    open_rows = {row["id"] for row in recommend(seeded_sqlite, DOGS)["evidence"]}
    assert open_rows - {row["id"] for row in answer["evidence"]}


def test_more_classes_than_samples_are_no_classes(seeded_sqlite: Database) -> None:
    text = "Classify images: 3,422 training images with 147 000 annotated classes; accuracy."
    facts = recommend(seeded_sqlite, {"description": text, "gpu": "t4", "minutes": 60})["facts"]
    assert {"n_train": 3422, "n_classes": 10}.items() <= {f["name"]: f["value"] for f in facts}.items()


def test_what_is_said_overrules_what_is_inferred(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {**DOGS, "n_train": 120_000})
    assert answer["size"] == "large"


def test_a_contradiction_of_size_and_count_is_said(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {"task": "image", "gpu": "a100", "size": "large", "n_train": 500})
    assert any("contradicts" in sentence for sentence in warnings_of(answer))


def test_asking_writes_nothing_and_answers_alike(seeded_sqlite: Database) -> None:
    before = seeded_sqlite.knowledge_revision()
    asked = {"task": "image", "size": "medium", "gpu": "a100"}
    first = recommend(seeded_sqlite, {**asked, "minutes": 30})
    assert recommend(seeded_sqlite, {**asked, "task": "IMAGE", "gpu": "A100", "minutes": "30"}) == first
    assert recommend(seeded_sqlite, asked)["plan_id"] == first["plan_id"]
    assert seeded_sqlite.knowledge_revision() == before


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"task": "image", "gpu": "a1000"}, "gpu"),
        ({"task": "image", "gpu": "a100", "model": "resnot50"}, "model"),
        ({"task": "image", "gpu": "a100", "model": "bert-base-uncased"}, "model"),
    ],
)
def test_unknown_names_are_refused(seeded_sqlite: Database, asked: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        recommend(seeded_sqlite, asked)
    assert caught.value.errors[0].field == field


def test_an_unknown_competition_is_not_found(seeded_sqlite: Database) -> None:
    with pytest.raises(NotFound) as caught:
        recommend(seeded_sqlite, {"competition": "dog-breed-identificaton", "gpu": "a100"})
    assert "dog-breed-identification" in caught.value.errors[0].nearest


def test_a_pinned_model_that_no_row_names_is_built_and_offered_to_nobody_else(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "image", "size": "small", "gpu": "a10", "minutes": 60}
    before = recommend(seeded_sqlite, asked)
    pinned = recommend(seeded_sqlite, {**asked, "model": "ghostnet_050"})
    assert pinned["model"]["name"] == "ghostnet_050"
    assert any("Not in the catalogue" in said for said in warnings_of(pinned))
    knowledge = knowledge_of(seeded_sqlite)
    assert "ghostnet_050" not in knowledge.models
    assert recommend(seeded_sqlite, {**asked, "objective": "fast"})["model"]["name"] != "ghostnet_050"
    assert recommend(seeded_sqlite, asked) == before


def test_the_text_of_boosted_trees_and_of_a_processor_says_nothing_of_loaders_and_fill(
    seeded_sqlite: Database,
) -> None:
    trees = plan_markdown(recommend(seeded_sqlite, {"task": "tabular", "gpu": "a100", "model": "lightgbm"}))
    assert "an epoch is a round" in trees
    assert not {"num_workers=", "samples/s", "fill", "warmup", "batch_size="} & set(
        re.findall(r"[\w/]+=?", trees)
    )
    network = plan_markdown(recommend(seeded_sqlite, {"task": "image", "size": "small", "gpu": "cpu"}))
    assert "num_workers=" in network
    assert "if memory under" not in network
    pinned = recommend(seeded_sqlite, {"task": "image", "gpu": "a100", "batch_size": 100_000})
    assert "None" not in plan_markdown(pinned)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"task": "image", "method": "lora"}, "method applies to decoders .*: none serves image"),
        ({"task": "tabular", "lora_rank": 8}, "lora_rank applies to decoders"),
        ({"task": "text", "lora_rank": 8}, "lora_rank applies to method=lora"),
        ({"task": "text", "method": "lora", "weights": "none"}, "weights=none leaves them out"),
        (
            {"task": "text", "model": "qwen2.5-0.5b", "weights": "none"},
            "weights none leaves out qwen2.5-0.5b",
        ),
        ({"task": "text", "model": "deberta-v3-base", "image_size": 224}, "deberta-v3-base takes seq_len"),
        ({"task": "tabular", "model": "lightgbm", "batch_size": 64}, "batch_size applies to networks"),
        ({"task": "image", "gpu": "2xt4", "interconnect": "nvlink"}, "T4 has no NVLink"),
        ({"task": "image", "gpu": "2xt4,a100"}, "gpu must name as many cards each time"),
        ({"task": "image", "gpu": "2xt4", "sharding": "fsdp"}, "none serves image-classification"),
        ({"task": "text", "gpu": "t4", "sharding": "fsdp"}, "applies to training on several cards"),
        (
            {"task": "image-classification", "model": "yolov8m"},
            "yolov8m does not serve image-classification",
        ),
        (
            {"task": "time-series-classification", "model": "timesfm-2.5"},
            "it is for time-series-regression",
        ),
    ],
)
def test_an_option_that_means_nothing_is_refused_by_name(
    seeded_sqlite: Database, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        recommend(seeded_sqlite, {"gpu": "t4", **asked})


def test_what_is_assumed_of_the_test_is_noted_and_small_batches_of_what_has_batch_norm(
    seeded_sqlite: Database,
) -> None:
    def codes(**asked: object) -> set[str]:
        usual = {"n_train": 3_000, "gpu": "a100", "batch_size": 8}
        return {each["code"] for each in recommend(seeded_sqlite, usual | asked)["warnings"]}

    pictures = codes(task="image", model="efficientnet_b0")
    assert pictures >= {"n-test-assumed", "small-batch"}
    assert not codes(task="audio", model="hubert-base", n_test=500) & {"n-test-assumed", "small-batch"}


@pytest.mark.parametrize(
    ("modality", "model", "task"),
    [
        ("time-series", "timesfm-2.5", "time-series-regression"),
        ("image", "yolov8m", "object-detection"),
        ("image", "resnet50", "image-classification"),
    ],
)
def test_a_model_says_what_of_a_modality_is_meant(
    seeded_sqlite: Database, modality: str, model: str, task: str
) -> None:
    answer = recommend(seeded_sqlite, {"task": modality, "model": model, "gpu": "a100"})
    assert (answer["task"], answer["feasible"]) == (task, True)
    codes = {each["code"] for each in answer["warnings"]}
    assert ("task-of-modality" in codes) == (model != "resnet50")


def test_what_leaves_out_every_model_is_named(seeded_sqlite: Database) -> None:
    refused = recommend(seeded_sqlite, {"task": "video", "gpu": "t4", "weights": "none"})
    assert refused["why"] == "weights=none leaves out every model for video-classification."


def test_what_is_not_as_the_words_suggest_is_said(seeded_sqlite: Database) -> None:
    volumes = recommend(
        seeded_sqlite, {"task": "segmentation", "gpu": "a100", "description": "Tumours in CT volumes."}
    )
    assert volumes["model"]["name"] in ("swin-unetr", "unetr", "unet3d", "nnu-net 3d")
    fed = {"task": "image", "model": "resnet152", "n_train": 20_000, "minutes": 60, "gpu": "2xa100"}
    starved, served = (recommend(seeded_sqlite, {**fed, "cpu_count": cores}) for cores in (1, 64))
    assert any("2 cards are no faster than one" in warning for warning in warnings_of(starved))
    assert not any("2 cards are" in warning for warning in warnings_of(served))
    once = recommend(seeded_sqlite, {"task": "tabular", "gpu": "t4", "model": "tabpfn-v2", "n_train": 2_000})
    assert once["optimizer"] == "none"
    assert "boost" not in str((once["rationale"], once["expected"], warnings_of(once)))


@pytest.mark.parametrize(
    ("given", "field", "why"),
    [
        ({"n_train": 1}, "n_train", "at least 2"),
        ({"n_train": 1_000, "n_groups": 5_000}, "n_groups", "more than the 1000 training samples"),
        ({"split": "random", "group_by": "patient"}, "split", "would not keep the groups"),
        ({"split": "time", "n_groups": 12}, "split", "would not keep the groups"),
        ({"n_train": 500, "n_classes": 20_000}, "n_classes", "more than the 500 training samples"),
        ({"n_classes": 1}, "n_classes", "at least 2"),
        ({"language": "xx"}, "language", "unknown language"),
    ],
)
def test_what_no_data_can_have_is_refused(
    seeded_sqlite: Database, given: dict[str, Any], field: str, why: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        recommend(seeded_sqlite, {"task": "text", "gpu": "t4", **given})
    assert [(error.field, why in error.message) for error in refused.value.errors] == [(field, True)]
    one_kind = {"task": "segmentation", "gpu": "t4", "n_classes": 1}
    assert recommend(seeded_sqlite, one_kind)["feasible"]


def test_the_size_of_a_sound_is_said_in_seconds(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, {"task": "audio", "size": "small", "gpu": "a100"})
    said, frames = " ".join(answer["rationale"]), answer["model"]["seq_len"]
    assert (
        f"Input size {frames} counts frames of 10 ms: {frames / 100:g} s of a clip; where clips are shorter,"
        in said
    )
    assert "tokens" not in said


def test_the_recipe_names_the_models_that_are_trained_and_a_processor_its_cores(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "image", "n_train": 4_750, "n_classes": 12, "minutes": 120, "gpu": "2xt4"}
    answer = recommend(seeded_sqlite, asked)
    planned = {each["planned"] for each in answer["recipe"]["families"]} - {None}
    assert planned <= {run["model"] for run in answer["portfolio"]}, "null for the other families"
    trees = {"task": "tabular", "gpu": "cpu", "cpu_count": 2, "model": "lightgbm", "n_train": 2_000_000}
    boosted = recommend(seeded_sqlite, {**trees, "minutes": 600})
    assert boosted["gpu"]["name"] == "CPU, 2 cores, 32 GiB"
    assert boosted["epochs"] < boosted["expected"]["best_epoch"]["high"]
    assert f"the cap of {boosted['epochs']} may cut it short" in plan_markdown(boosted)
    assert not any("-0.0 points" in reason or "e+0" in reason for reason in boosted["rationale"])


def test_decoders_that_won_are_said_to_be_rated_by_winners_and_one_epoch_serves_a_larger_one(
    seeded_sqlite: Database,
) -> None:
    text = "Predict which of two chatbot answers a human prefers, 57 000 conversations, log loss"
    asked = {"description": text, "n_train": 57_000, "n_classes": 3, "minutes": 600, "gpu": "l4"}
    encoder = recommend(seeded_sqlite, {**asked, "task": "text"})
    assert any("Tuned language models" in reason for reason in encoder["rationale"])
    assert encoder["recipe"]["validation"]["split"] == "stratified"
    decoder = recommend(seeded_sqlite, {**asked, "task": "text", "method": "qlora"})
    assert decoder["model"]["params_m"] > 1_000
    assert decoder["epochs"] <= 2


def test_volumes_are_not_planned_with_a_layout_of_pictures(seeded_sqlite: Database) -> None:
    """torch refuses channels_last for weights of five dimensions."""
    plan = recommend(
        seeded_sqlite, {"task": "segmentation", "model": "unet3d", "gpu": "a100", "n_train": 500}
    )
    assert (plan["feasible"], plan["precision"], plan["channels_last"]) == (True, "bf16", False)


def test_more_pinned_folds_than_groups_are_refused_and_groups_of_a_text_bound_the_folds(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "image-classification", "gpu": "a100", "n_train": 20_000, "minutes": 600}
    sites = {**asked, "n_groups": 3, "group_by": "site"}
    with pytest.raises(InvalidInput) as refused:
        recommend(seeded_sqlite, {**sites, "folds": 5})
    assert [(e.field, e.given) for e in refused.value.errors] == [("folds", 5)]
    assert "folds=5: more than the 3 groups" in str(refused.value)
    assert recommend(seeded_sqlite, {**sites, "folds": 3})["folds"] == 3
    assert "\nFOLDS = 3" in plan_script(recommend(seeded_sqlite, sites))
    text = "I've a csv with 905 rows and 41 columns of blood values from 3 clinics and must predict sepsis, "
    text += "yes or no. It'll be judged on a fourth clinic by log loss. What should I train in two hours?"
    told = recommend(seeded_sqlite, {"description": text, "gpu": "t4"})
    assert (told["recipe"]["validation"]["split"], told["recipe"]["validation"]["folds"]) == ("group", 3)
    assert told["folds"] <= 3
    future = {
        "description": "Forecast the next 14 days of 3 shops from two years of daily sales.",
        "gpu": "t4",
    }
    assert recommend(seeded_sqlite, {**future, "n_train": 2_000, "folds": 5})["folds"] == 5


SITES = {"n_train": 20_000, "n_test": 10_000, "gpu": "a100", "minutes": 600, "group_by": "site"}


@pytest.mark.parametrize(
    "kind",
    [
        {"task": "image-classification"},
        {"task": "tabular-classification", "model": "lightgbm"},
        {"task": "tabular-classification", "model": "linear"},
        {"task": "text-classification", "method": "lora", "n_train": 1_000},
    ],
    ids=["network", "trees", "linear", "decoder"],
)
def test_there_are_no_more_folds_than_groups_to_split_by(
    seeded_sqlite: Database, kind: dict[str, Any]
) -> None:
    free, few, two = (
        recommend(seeded_sqlite, {**SITES, **kind, **groups})
        for groups in ({}, {"n_groups": 3}, {"n_groups": 2})
    )
    assert free["recipe"]["validation"]["split"] == few["recipe"]["validation"]["split"] == "group"
    assert free["folds"] > 3, "what is asked would have more"
    for answer, most in ((few, 3), (two, 2)):
        assert answer["feasible"]
        assert 1 <= answer["folds"] <= most
        assert answer["recipe"]["validation"]["folds"] == most
        assert not any("5 folds" in reason for reason in answer["rationale"])
        later = [e["set"] for e in answer["on_trouble"] if e["when"] == "time_left_after_first_submission"]
        assert all(changed["folds"] <= most for changed in later)
    assert not any(" of 5:" in stage["stage"] for stage in few["timetable"])
    many = recommend(seeded_sqlite, {**SITES, **kind, "n_groups": 900})
    assert (many["folds"], many["minutes"]) == (free["folds"], free["minutes"])


def test_a_script_of_a_table_says_why_its_folds_are_not_those_of_the_plan(seeded_sqlite: Database) -> None:
    asked = {"task": "tabular-classification", "gpu": "cpu", "n_train": 96_000, "minutes": 5, "split": "time"}
    plan = recommend(seeded_sqlite, {**asked, "folds": 4})
    (line,) = [line for line in plan_script(plan).splitlines() if line.startswith("FOLDS = ")]
    assert (plan["folds"], line[:9], line[-19:]) == (4, "FOLDS = 3", "; the plan counts 4")
    same = plan_script(recommend(seeded_sqlite, {**asked, "folds": 3}))
    assert "the plan counts" not in same


def test_a_forecaster_that_predicts_as_it_is_fitted_has_no_inference_of_its_own(
    seeded_sqlite: Database,
) -> None:
    asked = {"task": "time-series-regression", "gpu": "p100", "n_train": 1_000_000, "minutes": 60}
    plan = recommend(seeded_sqlite, {**asked, "model": "chronos-2"})
    assert "inference" not in {figure.name for figure in plan_view(plan).figures}
    trees = recommend(seeded_sqlite, {**asked, "model": "lightgbm"})
    assert "inference" in {figure.name for figure in plan_view(trees).figures}
