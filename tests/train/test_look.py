"""What does a folder of data say of its problem?"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memory_service.train.budget import plan
from memory_service.train.detection import a_row_a_box, boxes_of
from memory_service.train.inputs import read_masks
from memory_service.train.look import describe
from memory_service.train.media_files import read_mask
from memory_service.train.reading import read_table, three_tables
from memory_service.train.writing import mask_table


def written(folder: Path, **tables: pd.DataFrame) -> Path:
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


def with_pictures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Three pictures of both sets, and their names."""
    monkeypatch.setattr(plan, "DATA_DIR", folder, raising=False)
    for part in ("train", "test"):
        (folder / part).mkdir()
        for number in range(3):
            Image.new("L", (4, 3), number).save(folder / part / f"{part}_{number}.png")
    return [[f"{part}_{number}" for number in range(3)] for part in ("train", "test")]


def test_run_lengths_beside_pictures_are_masks(tmp_path: Path) -> None:
    for part, count in (("train", 12), ("test", 4)):
        (tmp_path / part).mkdir()
        for number in range(count):
            Image.new("L", (16, 16), number).save(tmp_path / part / f"{part}{number}.png")
    runs = [f"1 {number + 2} 40 5 90 7" for number in range(12)]
    train = pd.DataFrame({"id": [f"train{number}" for number in range(12)], "land": runs})
    test = pd.DataFrame({"id": [f"test{number}" for number in range(4)]})
    found = describe(written(tmp_path, train=train, test=test, sample_submission=test.assign(land="1 1")))
    assert (found["task"], found["image_size"]) == ("image-segmentation", 16)


def test_counts_that_are_missing_here_and_there_are_values(tmp_path: Path) -> None:
    months = pd.period_range("2015-01", periods=60, freq="M").astype(str)
    rows = pd.DataFrame([(town, month) for town in "abcdefgh" for month in months], columns=["town", "month"])
    sold = np.random.default_rng(0).integers(5, 900, len(rows)).astype(float)
    sold[::12] = np.nan
    test = pd.DataFrame([(town, "2020-01") for town in "abcdefgh"], columns=["town", "month"])
    test.insert(0, "row", test.town + "_2020-01")
    found = describe(written(tmp_path, train=rows.assign(sold=sold), test=test))
    assert (found["task"], found["answer"]) == ("time-series-regression", "values")


def test_titles_that_are_numbers_are_no_dates_beyond_the_calendar(tmp_path: Path) -> None:
    titles = ["7337", "Rain", "1984", "The 13th", "12345", "Fog"] * 20
    train = pd.DataFrame({"id": range(120), "title": titles, "liked": [0, 1] * 60})
    found = describe(
        written(tmp_path, train=train, test=train.drop(columns="liked").assign(id=range(200, 320)))
    )
    assert found["n_classes"] == 2


def test_masks_in_run_lengths_are_read_down_the_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "DATA_DIR", tmp_path, raising=False)
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        for number in range(3):
            Image.new("L", (4, 3), number).save(tmp_path / part / f"{part}{number}.png")
    train = pd.DataFrame({"id": [f"train{number}" for number in range(3)], "sea": ["2 2  7 1", "-1", "1 12"]})
    test = pd.DataFrame({"id": [f"test{number}" for number in range(3)]})
    data = read_masks(train, test, test.assign(sea="1 1"))
    found = [np.asarray(read_mask(mask, (4, 3))) // 255 for mask in data.targets]
    assert found[0].tolist() == [[0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert [mask.sum() for mask in found] == [3, 0, 12]


@pytest.mark.parametrize(
    ("kinds", "end"), [(("Fish", "Flower"), ".png"), (("large_bowel", "bowel"), ""), (("Fish", "Flower"), "")]
)
def test_kinds_follow_the_image_in_an_id(
    kinds: tuple[str, str], end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = with_pictures(tmp_path, monkeypatch)
    tables = [pd.DataFrame({"id": [f"{one}{end}_{kind}" for one in part for kind in kinds]}) for part in ids]
    train = tables[0].assign(rle=["1 2", "", "3 1", "5 6", "", ""])
    sample = tables[1].assign(rle="").sample(frac=1.0, random_state=1)
    data = read_masks(train, None, sample)
    assert data.ids == [f"{one}{end}" for one in ids[0]]
    assert {*data.outputs} == {*kinds}
    first = data.targets[0].split("\n")
    assert first[data.outputs.index(kinds[0])] == "1 2"
    assert all(path.exists() for path in [*data.inputs, *data.test_inputs])
    told = mask_table(data, ["\n".join(f"{one} {kind}" for kind in data.outputs) for one in data.test_ids])
    assert (told["rle"].str.replace(" ", "_") == told["id"]).all()


def test_kinds_that_train_has_in_a_column_are_asked_for_in_ids_and_pictures_without_a_row_are_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = with_pictures(tmp_path, monkeypatch)
    rows = [(ids[0][0], 1, "1 2"), (ids[0][1], 2, "5 6"), (ids[0][1], 1, "3 1")]
    train = pd.DataFrame(rows, columns=["image", "kind", "rle"])
    sample = pd.DataFrame({"image_kind": [f"{name}_{kind}" for name in ids[1] for kind in (1, 2)], "rle": ""})
    data = read_masks(train, None, sample)
    assert (data.outputs, data.ids, data.test_ids) == (["1", "2"], ids[0], ids[1])
    assert data.targets.tolist() == ["1 2\n", "3 1\n5 6", "\n"]


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", [[1, 2, 1, 2, 1, 2], [1, None, 1, 2, None, None]])
def test_kinds_are_numbers_beside_further_columns(
    place: int, kind: list[int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = with_pictures(tmp_path, monkeypatch)
    train = pd.DataFrame(
        {"image": np.repeat(ids[0], 2), "kind": kind, "rle": ["1 2", "", "3 1", "5 6", "", ""]}
    )
    train.insert(place, "height", 3)
    sample = pd.DataFrame({"image": np.repeat(ids[1], 2), "kind": [1, 2] * 3, "rle": ""})
    data = read_masks(train, None, sample)
    assert (data.outputs, data.ids) == (["1", "2"], ids[0])
    assert data.targets.tolist() == ["1 2\n", "3 1\n5 6", "\n"]
    told = mask_table(data, ["\n".join(f"{one} {kind}" for kind in data.outputs) for one in data.test_ids])
    assert (told["rle"] == told["image"] + " " + told["kind"].astype(str)).all()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("train.csv.gz", {}),
        ("train.csv.zip", {}),
        ("train.tsv", {"sep": "\t"}),
        ("train.csv", {"sep": ";", "decimal": ","}),
    ],
)
def test_tables_of_other_forms_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, settings: dict[str, str]
) -> None:
    monkeypatch.setattr(plan, "DATA_DIR", tmp_path, raising=False)
    table = pd.DataFrame({"id": ["007", "008"], "height": [1.5, 2.25], "note": ["a b", "c"]})
    table.to_csv(tmp_path / name, index=False, **settings)
    read = read_table("train.csv")
    assert read is not None
    assert read.to_dict("list") == table.to_dict("list")


def test_parquet_and_json_lines_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "DATA_DIR", tmp_path, raising=False)
    table = pd.DataFrame({"id": [7, 8], "height": [1.5, 2.25]})
    table.to_parquet(tmp_path / "train.parquet")
    table.to_json(tmp_path / "test.jsonl", orient="records", lines=True)
    for name in ("train.csv", "test.csv"):
        read = read_table(name)
        assert read is not None
        assert (read.id.tolist(), read.height.tolist()) == (["7", "8"], [1.5, 2.25])


@pytest.mark.parametrize(
    "names",
    [
        ("Train.csv", "Test.csv", "SampleSubmission.csv"),
        ("training.csv", "test_data.csv", "sampleSubmission.csv.zip"),
    ],
)
def test_other_spellings_of_the_three_files_are_found(tmp_path: Path, names: tuple[str, str, str]) -> None:
    train = pd.DataFrame({"id": range(60), "height": np.arange(60) / 7, "kind": ["a", "b", "c"] * 20})
    test = train.drop(columns="kind").assign(id=range(60, 120))
    for name, table in zip(names, (train, test, test[["id"]].assign(kind="a")), strict=True):
        table.to_csv(tmp_path / name, index=False)
    found = describe(tmp_path)
    assert (found["n_train"], found["n_test"], found["target"], found["n_classes"]) == (60, 60, ["kind"], 3)


def test_values_and_labels_in_files_of_their_own_are_one_table(tmp_path: Path) -> None:
    values = pd.DataFrame({"building": range(80), "age": np.arange(80), "height": np.arange(80) % 7})
    labels = pd.DataFrame({"building": range(80), "damage": [1, 2, 3, 2] * 20})
    test = values.assign(building=range(80, 160))
    values.to_csv(tmp_path / "train_values.csv", index=False)
    labels.to_csv(tmp_path / "train_labels.csv", index=False)
    test.to_csv(tmp_path / "test_values.csv", index=False)
    test[["building"]].assign(damage=1).to_csv(tmp_path / "submission_format.csv", index=False)
    found = describe(tmp_path)
    assert (found["n_train"], found["target"], found["n_classes"]) == (80, ["damage"], 3)


def test_ids_that_stand_last_are_ids_and_no_input_is_lost(tmp_path: Path) -> None:
    texts = [f"word{number % 7} other{number % 11} and {number} more" for number in range(90)]
    train = pd.DataFrame(
        {"review": texts, "stars": [1, 2, 3] * 30, "key": [f"{number:04d}" for number in range(90)]}
    )
    test = train.drop(columns="stars").assign(key=[f"{number:04d}" for number in range(90, 180)])
    tables = {"train": train, "test": test, "sample_submission": test[["key"]].assign(stars=1)}
    found = describe(written(tmp_path, **tables))
    assert (found["task"], found["texts"], found["n_classes"]) == ("text-classification", ["review"], 3)


def test_amounts_and_dates_that_are_written_otherwise_are_numbers_and_dates(tmp_path: Path) -> None:
    days = pd.date_range("2020-01-01", periods=120)
    train = pd.DataFrame({"id": range(120), "day": days.strftime("%Y%m%d").astype(int)})
    train["rent"] = [f"${1000 + 37 * number:,.2f}" for number in range(120)]
    train["share"] = [f"{number / 2:.1f} %" for number in range(120)]
    test = train.drop(columns="rent").assign(
        id=range(120, 240), day=(days + pd.Timedelta(days=200)).strftime("%Y%m%d").astype(int)
    )
    found = describe(written(tmp_path, train=train, test=test, sample_submission=test[["id"]].assign(rent=0)))
    assert (found["answer"], found["target"]) == ("values", ["rent"])
    assert found["columns"] == {"day": "date", "share": "number"}
    assert found["test_is_later"]


@pytest.mark.parametrize("form", ["test", "sample", "numbers"])
def test_one_series_has_nothing_but_its_moments(form: str, tmp_path: Path) -> None:
    """The ids are the days, in test.csv or in the sample alone; or the numbers of the rows."""
    days = pd.date_range("2024-01-01", periods=400).strftime("%Y-%m-%d").to_list()
    when = list(range(400)) if form == "numbers" else days
    rows = pd.DataFrame({"moment": when, "load": np.random.default_rng(0).normal(50, 9, 400)})
    asked = rows.iloc[350:, :1]
    tables = {"train": rows.iloc[:350], "sample_submission": asked.assign(load=50.0)}
    tables |= {} if form == "sample" else {"test": asked}
    found = describe(written(tmp_path, **tables))
    assert (found["target"], found["n_train"], found["n_test"]) == (["load"], 350, 50)
    expected = "tabular-regression" if form == "numbers" else "time-series-regression"
    assert (found["task"], found.get("n_features", 1)) == (expected, 1)


def boxes_in_rows(place: Path) -> None:
    rows = [(f"a{n // 2}", f"[{n}.0, 2.0, 9.0, {n + 4}.0]") for n in range(20)]
    pd.DataFrame(rows, columns=["image_id", "bbox"]).to_csv(place / "train.csv", index=False)
    sample = pd.DataFrame({"image_id": [f"b{n}" for n in range(4)], "PredictionString": "1.0 0 0 9 9"})
    sample.to_csv(place / "sample_submission.csv", index=False)


def boxes_in_lists(place: Path) -> None:
    boxes = [[{"x": n, "y": 2, "width": 9, "height": n + 4}, {"x": 1, "y": 1, "width": 9, "height": 5}]
             for n in range(10)]  # fmt: skip
    table = pd.DataFrame({"image_id": [f"a{n}" for n in range(10)], "annotations": boxes})
    table.to_csv(place / "train.csv", index=False)


def boxes_of_coco(place: Path) -> None:
    images = [{"id": n, "file_name": f"a{n}.png", "width": 30, "height": 30} for n in range(10)]
    boxes = [{"id": n, "image_id": n // 2, "category_id": 7, "bbox": [n, 2, 9, n + 4]} for n in range(18)]
    data = {"images": images, "annotations": boxes, "categories": [{"id": 7, "name": "cell"}]}
    (place / "annotations").mkdir()
    (place / "annotations" / "instances_train.json").write_text(json.dumps(data))


@pytest.mark.parametrize("lay", [boxes_in_rows, boxes_in_lists, boxes_of_coco])
def test_boxes_are_found_however_they_are_written(
    lay: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fuse", "write_held_out", "MAX_BOXES"):  # which the module sets for a script
        monkeypatch.setattr(plan, name, 50, raising=False)
    from memory_service.train.detection import read_boxes

    pictures = {"train": [f"a{n}" for n in range(10)], "test": [f"b{n}" for n in range(4)]}
    for folder, names in pictures.items():
        (tmp_path / folder).mkdir()
        for name in names:
            Image.new("RGB", (30, 30)).save(tmp_path / folder / f"{name}.png")
    lay(tmp_path)
    found = describe(tmp_path)
    assert (found["task"], found["n_classes"]) == ("object-detection", 1)
    assert (found["n_train"], found["n_test"]) == (10, 4)
    data = read_boxes(*three_tables())
    assert (len(data.inputs), len(data.test_inputs)) == (10, 4)
    assert all(path.is_file() for path in [*data.inputs, *data.test_inputs])
    assert data.targets[1][0].tolist() == [
        0,
        *([2, 2, 11, 8] if lay is not boxes_in_lists else [1, 2, 10, 7]),
    ]


def drawn(path: Path, size: tuple[int, int] = (12, 12), level: int = 90) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, level).save(path)


def names_with_classes(place: Path) -> None:
    for n in range(40):
        drawn(place / "pictures" / f"{n % 4}_{('ada', 'bo')[n // 4 % 2]}_{n // 8}.png")
        drawn(place / "eval" / f"clip{n}.png")


def names_with_values(place: Path) -> None:
    for n in range(40):
        drawn(place / "train" / f"scan_{n:03d}_{n - 20.25:+}.tif")
        drawn(place / "test" / f"scan_{n + 40:03d}.tif")


def masks_in_folders(place: Path) -> None:
    for n in range(40):
        drawn(place / "train" / "pictures" / f"a{n}.png")
        drawn(place / "train" / "masks" / f"a{n}.png", level=255 * (n % 2))
        drawn(place / "test" / "pictures" / f"b{n}.png")
    sample = pd.DataFrame({"id": [f"b{n}" for n in range(40)], "rle_mask": "1 1"})
    sample.to_csv(place / "sample_submission.csv", index=False)


def frames_in_folders(place: Path) -> None:
    rows = [{"clip": f"c{n}", "split": ("train", "test")[n // 40], "kind": "ab"[n % 2]} for n in range(80)]
    for row in rows:
        for step in range(3):
            drawn(place / "clips" / row["clip"] / f"{step}.png")
    hidden = [row | ({"kind": None} if row["split"] == "test" else {}) for row in rows]
    (place / "metadata.json").write_text(json.dumps(hidden))
    sample = pd.DataFrame({"clip": [row["clip"] for row in rows[40:]], "kind": "a"})
    sample.to_csv(place / "sample_submission.csv", index=False)


def a_zip_in_a_zip(place: Path) -> None:
    inner = io.BytesIO()
    with ZipFile(inner, "w") as packed:
        for n in range(80):
            packed.writestr(f"{n}.wav", b"RIFF")
    with ZipFile(place / "audio.zip", "w") as packed:
        packed.writestr("clips.zip", inner.getvalue())
    table = pd.DataFrame({"ID": [f"{n}" for n in range(80)], "speed": np.arange(80) / 7})
    written(place, train=table.head(40), test=table[["ID"]].tail(40))


def coco_of_several_splits(place: Path) -> None:
    for split, count in {"train": 30, "valid": 10, "test": 40}.items():
        images = [{"id": n, "file_name": f"{split}{n}.jpg"} for n in range(count)]
        boxes = [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 2, 3, 4]} for n in range(1, count)]
        for image in images:
            drawn(place / split / str(image["file_name"]))
        data = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "car"}]}
        if split != "test":
            (place / split / "_annotations.coco.json").write_text(json.dumps(data))
    names = [f"test{n}.jpg" for n in range(40)]
    sample = pd.DataFrame({"file_name": names, "PredictionString": "car 1 0 0 1 1"})
    sample.to_csv(place / "sample_submission.csv", index=False)


@pytest.mark.parametrize(
    ("lay", "task", "target"),
    [
        (names_with_classes, "image-classification", ["label"]),
        (names_with_values, "image-regression", ["label"]),
        (masks_in_folders, "image-segmentation", []),
        (frames_in_folders, "multimodal", ["kind"]),
        (a_zip_in_a_zip, "audio-regression", ["speed"]),
        (coco_of_several_splits, "object-detection", ["bbox", "category"]),
    ],
)
def test_what_no_table_says_is_found_by_names_and_folders_of_files(
    lay: Callable[[Path], None], task: str, target: list[str], tmp_path: Path
) -> None:
    lay(tmp_path)
    found = describe(tmp_path)
    assert (found["task"], found["target"], found["n_train"], found["n_test"]) == (task, target, 40, 40)


def test_masks_beside_pictures_are_theirs(tmp_path: Path) -> None:
    masks_in_folders(tmp_path)
    describe(tmp_path)
    data = read_masks(*three_tables())
    assert [Path(each).parent.name for each in data.targets] == ["masks"] * 40
    assert {path.parent.name for path in [*data.inputs, *data.test_inputs]} == {"pictures"}


def test_a_panel_whose_test_rows_are_later_is_a_series_and_a_text_with_categories_a_text(
    tmp_path: Path,
) -> None:
    days = pd.date_range("2026-01-01", periods=60).astype(str)
    rows = [(day, shop, kind) for day in days for shop in (3, 8, 11) for kind in ("bread", "cake")]
    table = pd.DataFrame(rows, columns=["date", "shop", "family"]).assign(sales=range(360))
    table.insert(0, "id", range(360))
    written(tmp_path, train=table.head(300), test=table.tail(60).drop(columns="sales"))
    assert describe(tmp_path)["task"] == "time-series-regression"
    words = [f"word{n} of a text that goes on {n * 7}" for n in range(40)]
    table = pd.DataFrame(
        {"id": range(40), "place": ["Rome", "Oslo"] * 20, "tag": [*"abcd"] * 10, "text": words}
    )
    table = table.assign(target=[0, 1] * 20)
    (tmp_path / "texts").mkdir()
    written(tmp_path / "texts", train=table.head(30), test=table.tail(10).drop(columns="target"))
    assert describe(tmp_path / "texts")["task"] == "text-classification"


def test_four_points_are_no_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = with_pictures(tmp_path, monkeypatch)
    points = {f"{axis}{n}": [n, n + 1, n + 2] for n in range(1, 5) for axis in "xy"}
    train = pd.DataFrame({"image": names[0], **points})
    found = describe(written(tmp_path, train=train, test=pd.DataFrame({"image": names[1]})))
    assert (found["task"], found["target"]) == ("image-keypoints", [*points])


def test_boxes_of_dicts_are_read_by_name_and_one_flat_box_is_no_size() -> None:
    things = [{"class": 2, "height": 6, "width": 5, "x": 10, "y": 20}, {"class": 1, "bbox": [1, 2, 3, 4]}]
    long = a_row_a_box(pd.DataFrame({"image": ["a", "b"], "objects": [str(things), "[{'id': 7, 'x': 3}]"]}))
    assert long["objects"].tolist() == ["10 20 5 6", "1 2 3 4", ""]
    assert long["label"].dropna().tolist() == ["2", "1"]
    boxes = [f"{n} 20 {n + 9} 40" for n in range(30)]
    boxes[3] = "30 30 30 50"
    assert boxes_of(pd.DataFrame({"bbox": boxes}))[0].tolist() == [0, 20, 9, 40]
