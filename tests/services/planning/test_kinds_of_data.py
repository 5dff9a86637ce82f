"""Kinds of data that a description tells of in its own way, each planned as what it is."""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.domain.common.units import plural
from memory_service.domain.description.modalities import TILE, tiles_of
from memory_service.schemas.recommend import RecommendBody
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import Database
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.recommend import recommend


def planned(database: Database, description: str, **asked: Any) -> dict[str, Any]:
    asked = {"gpu": "a100", "minutes": 120, **asked}
    return recommend(database, {"description": description, **asked}, {"recipe"})


def facts(plan: dict[str, Any]) -> dict[str, Any]:
    return {fact["name"]: fact["value"] for fact in plan["facts"]}


def test_small_things_in_large_pictures_are_planned_on_tiles_of_which_a_picture_keeps_its_own(
    seeded_sqlite: Database,
) -> None:
    text = "150 labelled training photos of 3000x5000 pixels. Find the small beetles, boxes. mAP at IoU 0.5."
    plan = planned(seeded_sqlite, text)
    tiles = 3 * 5
    assert facts(plan)["n_train"] == 150 * tiles
    assert (plan["split"], plan["group_by"]) == ("group", "picture")
    assert plan["model"]["image_size"] <= 2 * TILE
    (told,) = (each for each in plan["warnings"] if each["code"] == "tiles")
    assert told["values"] == {"pictures": 150, "tiles": tiles, "n_train": 150 * tiles, "side": TILE}
    assert plan["ignores"] == []


@pytest.mark.parametrize(
    ("text", "tiles"),
    [
        ("Detect dogs in 900 photos of 3000x4000 pixels.", 1),
        ("Detect small dogs in 900 photos of 600x800 pixels.", 1),
        ("Segment nuclei in whole slide images of 3000x3000 pixels.", 9),
        ("Segment nuclei in whole slide images of 40000 x 40000.", 64),
        ("Find cracks of 20x30 pixels in tiny print, photos of 3000x4000.", 12),
        ("Count shoots, 400 green plants per photo of 3000x4000 pixels.", 12),
        ("9,000 tiles of 1024x1024 pixels, cut from 8000x6000 aerial images. Detect cars.", 1),
        ("Segment glands: 512x512, from whole slide images of 40000 x 40000.", 1),
        ("Detect cars in patches of aerial images of 8000x6000 pixels.", 1),
        ("Detect dogs in photos of 4000 x 3000. There are 5,000 labelled images in a zip file.", 1),
        ("Detect dogs in photos of 4000 x 3000, with 20,000 boxes in one table.", 1),
        ("Detect dogs in a small data set, photos of 4000 x 3000.", 1),
        ("Detect the cell phone in 4000x3000 photos.", 1),
        ("Detect tiny knots in boards of 4000x3000 mm.", 1),
    ],
)
def test_pictures_are_cut_only_where_they_are_large_and_what_is_looked_for_is_small(
    text: str, tiles: int
) -> None:
    assert tiles_of(text, "object-detection") == tiles
    assert tiles_of(text, "image-classification") == 1


@pytest.mark.parametrize("asked", [{"n_train": 2_250}, {"image_size": 512}])
def test_what_is_asked_of_pictures_is_not_multiplied_by_their_tiles(
    seeded_sqlite: Database, asked: dict[str, int]
) -> None:
    text = "Find small beetles in 150 photos of 3000x5000 pixels, boxes. mAP at IoU 0.5."
    plan = planned(seeded_sqlite, text, **asked)
    assert facts(plan)["n_train"] == asked.get("n_train", 150)
    assert facts(planned(seeded_sqlite, text, n_test=600))["n_test"] == 600


def test_fewer_tiles_that_would_fit_are_asked_for_as_they_are_told(seeded_sqlite: Database) -> None:
    text = "Find small beetles in 1,500 photos of 3000x5000 pixels, boxes. mAP at IoU 0.5."
    asked = {"gpu": "t4", "minutes": 2}
    refused = planned(seeded_sqlite, text, **asked)
    (fewer,) = (each["set"] for each in refused["closest"]["or"] if "n_train" in each["set"])
    plan = planned(seeded_sqlite, text, **{**asked, **fewer})
    assert plan["feasible"]
    assert facts(plan)["n_train"] == fewer["n_train"]


def test_the_rest_is_planned_with_the_samples_that_were_assumed(seeded_sqlite: Database) -> None:
    asked = {"description": "Transcribe speech recordings. WER.", "gpu": "t4", "minutes": 8}
    plan = recommend(seeded_sqlite, asked)
    first = plan["portfolio"][0]
    done = [{"run": first["run"], "minutes": 1.0}]
    going_on = checked(RecommendBody, {**asked, "after": plan["plan_id"], "done": done}).to_domain()
    rest = recommend(seeded_sqlite, going_on)
    assert facts(rest)["n_train"] == facts(plan)["n_train"] < 10_000
    assert rest["feasible"]
    assert "fewer-assumed" in {each["code"] for each in rest["warnings"]}


def test_slices_of_volumes_are_split_by_volume(seeded_sqlite: Database) -> None:
    text = "Segment airways in CT volumes of lungs: 9 volumes of about 300 slices. Dice."
    plan = planned(seeded_sqlite, text)
    assert {name: facts(plan)[name] for name in ("n_train", "n_groups")} == {"n_train": 2700, "n_groups": 9}
    assert (plan["split"], plan["group_by"]) == ("group", "volume")


def test_bands_beyond_three_cost_more_and_are_read_by_the_script(seeded_sqlite: Database) -> None:
    text = "Classify land cover in Sentinel-2 images with {} bands. 27000 patches of 64x64. Accuracy."
    asked = {"model": "resnet50", "image_size": 224, "batch_size": 64, "folds": 1, "epochs": 5}
    wide, plain = (planned(seeded_sqlite, text.format(n), **asked) for n in (12, 3))
    assert (wide["model"]["bands"], facts(wide)["bands"]) == (12, 12)
    assert "bands" not in plain["model"]
    for name in ("peak_memory_gib", "total_minutes"):
        assert wide["expected"][name]["value"] > 1.02 * plain["expected"][name]["value"]
    assert "all 12 bands" in wide["uses"]
    assert wide["ignores"] == []
    assert "\nBANDS = 12" in plan_script(planned(seeded_sqlite, text.format(12)))
    for more in (
        {"task": "object-detection", "model": "fcos/resnet50"},
        {"task": "object-detection", "model": "yolo11s"},
        {"task": "image-keypoints"},
        {"task": "image-segmentation", "model": "unet-small"},
        {"task": "image-segmentation", "weights": "none"},
    ):
        read = planned(seeded_sqlite, "Find ships.", bands=12, **more)
        assert ("all 12 bands" in read["uses"], read["ignores"]) == (True, []), more
        assert "\nBANDS = 12" in plan_script(read), more
    for more in (
        {"task": "object-detection", "model": "rtdetr-r50"},
        {"task": "image-classification", "weights": "none"},
    ):
        left = planned(seeded_sqlite, "Find ships.", bands=12, **more)
        assert any(each.startswith("bands beyond three of 12") for each in left["ignores"]), more
    grey = planned(seeded_sqlite, "Find ships.", task="object-detection", model="fcos/resnet50", bands=1)
    assert "\nBANDS = 1 " in plan_script(grey)


def test_strips_keep_their_shape_in_the_pixels_of_a_square(seeded_sqlite: Database) -> None:
    text = "Predict biomass from strips of 4000 x 300 pixels, scans of trees. RMSE. 5000 images."
    plan = planned(seeded_sqlite, text)
    high, wide = plan["model"]["image_shape"]
    assert facts(plan)["aspect_ratio"] == 13.33
    assert high / wide == pytest.approx(13.3, rel=0.25)
    assert 0.85 * plan["model"]["image_size"] ** 2 < high * wide <= plan["model"]["image_size"] ** 2
    assert f"the shape: strips of {high} x {wide} pixels" in plan["uses"]
    assert f"IMAGE_SHAPE = ({high}, {wide})" in plan_script(plan)
    grid = planned(seeded_sqlite, text, model="swin_tiny_patch4_window7_224")
    assert any(each.startswith("the shape of strips") for each in grid["ignores"])
    square = planned(seeded_sqlite, text.replace("4000 x 300", "400 x 300"))
    assert "image_shape" not in square["model"]


@pytest.mark.parametrize(("n", "noun"), [(4_100, "fountain"), (260, "dolmen")])
def test_what_each_picture_is_to_be_named_as_counts_classes_not_groups(
    seeded_sqlite: Database, n: int, noun: str
) -> None:
    counted = plural(n, noun)
    text = (
        f"Recognise it: 90,000 training photos of {counted}; for each test photo predict a {noun}. Accuracy."
    )
    plan = planned(seeded_sqlite, text)
    assert plan["group_by"] is None
    told = {fact["name"]: fact["value"] for fact in plan["facts"] if fact["from"] == "text"}
    assert told.get("n_classes", n) == n


def test_identical_products_are_matched_and_split_by_what_they_are(seeded_sqlite: Database) -> None:
    text = "Group identical products sold by different shops using the product photo and the title. Mean F1."
    assert planned(seeded_sqlite, text, n_train=34_000)["task"] == "image-retrieval"


def test_a_short_german_sentence_is_read_and_gets_a_model_of_many_languages(seeded_sqlite: Database) -> None:
    text = "Klassifiziere 9.000 deutsche Kundenanfragen in 12 Kategorien. Bewertet wird mit Macro-F1."
    plan = planned(seeded_sqlite, text, gpu="t4")
    assert plan["task"] == "text-classification"
    assert {name: facts(plan)[name] for name in ("n_train", "n_classes")} == {
        "n_train": 9000,
        "n_classes": 12,
    }
    assert plan["model"]["name"].startswith(("multilingual", "xlm", "mdeberta"))


def test_molecules_as_strings_are_graphs_and_need_descriptors_as_a_table(seeded_sqlite: Database) -> None:
    text = "Predict boiling points of 5,000 molecules given as SMILES strings. MAE."
    plan = planned(seeded_sqlite, text)
    assert (plan["task"], plan["feasible"]) == ("graph-regression", True)
    assert "no-script" in [each["code"] for each in plan["warnings"]]
    table = planned(seeded_sqlite, text, task="tabular-regression")
    assert any(each.startswith("SMILES") for each in table["ignores"])


def test_a_sequence_that_is_read_to_its_end_loses_nothing_by_being_short(seeded_sqlite: Database) -> None:
    asked = {"task": "time-series-classification", "n_train": 3_000, "model": "inceptiontime", "mode": "open"}
    short, long = (
        planned(
            seeded_sqlite, f"Classify vibration signals, each a sequence length of {steps} steps.", **asked
        )
        for steps in (128, 512)
    )
    indices = [each["expected"]["quality_index"]["value"] for each in (short, long)]
    assert [each["model"]["seq_len"] for each in (short, long)] == [128, 512]
    assert indices[0] >= indices[1] - 0.5


@pytest.mark.parametrize(("n_train", "gpu", "minutes"), [(9_000_000, "a100", 30), (4_000_000, "cpu", 10)])
def test_a_large_table_that_no_tree_can_read_in_time_is_sampled_until_one_can(
    seeded_sqlite: Database, n_train: int, gpu: str, minutes: float
) -> None:
    asked = {
        "task": "tabular-regression",
        "n_train": n_train,
        "n_features": 200,
        "gpu": gpu,
        "minutes": minutes,
    }
    plan = recommend(seeded_sqlite, asked, {"recipe"})
    assert {"lightgbm", "xgboost", "catboost"} & {run["model"] for run in plan["portfolio"]}
    (told,) = (each for each in plan["warnings"] if each["code"] == "rows-sampled")
    assert 100_000 <= told["values"]["n_train"] < told["values"]["rows"] == n_train
    first = plan["portfolio"][0]
    done = [{"run": 1, "minutes": first["deadline_minute"]}]
    going_on = checked(RecommendBody, {**asked, "after": plan["plan_id"], "done": done}).to_domain()
    rest = recommend(seeded_sqlite, going_on, {"recipe"})
    assert rest["feasible"] or rest["closest"]


@pytest.mark.parametrize(("n_features", "told"), [(20_000, True), (20, False)])
def test_of_more_columns_than_rows_a_linear_model_is_named(
    seeded_sqlite: Database, n_features: int, told: bool
) -> None:
    asked = {"task": "tabular", "n_train": 60, "n_features": n_features, "gpu": "cpu", "minutes": 20}
    plan = recommend(seeded_sqlite, asked, {"recipe"})
    (few,) = (each["text"] for each in plan["warnings"] if each["code"] == "few-samples")
    assert ("linear model" in few) is told


def test_the_form_of_a_submission_goes_from_the_page_into_the_script(seeded_sqlite: Database) -> None:
    text = "Say how far 900 scans are turned, RMSE. Submit a headerless file:\n1.png,3.5\n2.png,0.1"
    plan = planned(seeded_sqlite, text, task="image-regression")
    assert facts(plan)["submission"] == "no header / 1.png,3.5"
    assert 'PAGE_FORM = ("", "1.png,3.5")' in plan_script(plan)
