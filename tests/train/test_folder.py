"""Are the tables of a folder found, whatever their files are called and however they are written?"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memory_service.train.budget import plan
from memory_service.train.folder import classes_in, find_roles, in_split
from memory_service.train.look import describe
from memory_service.train.media import find_signals
from memory_service.train.reading import files_of, read_table, three_tables
from memory_service.train.table_files import LONGEST_LINE, as_pictures, encoding_of, flat, written_amounts

ROWS = 40
TRAIN = pd.DataFrame({
    "id": [f"a{n}" for n in range(ROWS)],
    "height": np.arange(ROWS) * 1.5,
    "wood": ["oak", "elm", "ash", "fir"] * 10,
    "kind": ["x", "y"] * 20,
})  # fmt: skip
TEST = TRAIN.drop(columns="kind").head(12).assign(id=[f"b{n}" for n in range(12)])
SAMPLE = TEST[["id"]].assign(kind="x")


def csvs(folder: Path, *names: str) -> None:
    for name, table in zip(names, (TRAIN, TEST, SAMPLE), strict=False):
        (folder / name).parent.mkdir(exist_ok=True)
        table.to_csv(folder / name, index=False)


def apart(folder: Path) -> None:
    TRAIN.drop(columns="kind").to_csv(folder / "training_set_features.csv", index=False)
    TRAIN[["id", "kind"]].sample(frac=1, random_state=0).to_csv(
        folder / "training_set_labels.csv", index=False
    )
    TEST.to_csv(folder / "test_set_features.csv", index=False)
    SAMPLE.to_csv(folder / "submission_format.csv", index=False)


def years(folder: Path) -> None:
    (folder / "train").mkdir()
    TRAIN.head(30).to_csv(folder / "train" / "train_2013.csv", index=False)
    TRAIN.tail(10).to_csv(folder / "train" / "train_2014.csv", index=False)
    TEST.to_csv(folder / "test.csv", index=False)


def shards(folder: Path) -> None:
    (folder / "data").mkdir()
    for n in range(2):
        TRAIN.iloc[n::2].to_parquet(folder / "data" / f"train-0000{n}-of-00002.parquet")
    TEST.to_parquet(folder / "data" / "test-00000-of-00001.parquet")


def one_file(folder: Path) -> None:
    both = pd.concat([TRAIN.assign(split="train"), TEST.assign(split="test")])
    both.to_csv(folder / "trees.csv.gz")


def years_as_names(folder: Path) -> None:
    years = TRAIN.assign(wood=TRAIN["height"] % 7).set_axis(["id", 2019, 2020, "kind"], axis=1)
    years.to_excel(folder / "train.xlsx", index=False)
    years.drop(columns="kind").head(12).assign(id=TEST["id"]).to_excel(folder / "test.xlsx", index=False)


def names_beside(folder: Path) -> None:
    """As UCI has them: the answers of the test rows are there."""
    plain = TRAIN.drop(columns="id")
    plain.to_csv(folder / "trees.data", header=False, index=False)
    lines = plain.head(12).to_csv(header=False, index=False)
    (folder / "trees.test").write_text(f"|1x3 Cross validator\n{lines}")
    (folder / "trees.names").write_text(
        "| Trees\n\nx, y.\n\nheight: continuous.\nwood: oak, elm, ash, fir.\n"
    )


def answers_of_all(folder: Path) -> None:
    """Splits of which each has the answers; one of validation is learned from, too."""
    (folder / "data").mkdir()
    parts = {"train": TRAIN.head(35), "validation": TRAIN.tail(5), "test": TRAIN.head(12)}
    for name, part in parts.items():
        part.assign(label=part["kind"])[["label", "height", "wood"]].to_parquet(
            folder / "data" / f"{name}-00000-of-00001.parquet"
        )


def a_file_a_kind(folder: Path) -> None:
    for kind, rows, test in (("oak", TRAIN.head(24), 8), ("elm", TRAIN.tail(16), 4)):
        rows.assign(wood=kind).to_csv(folder / f"T-{kind}-train.txt", sep="\t", index=False)
        asked = TRAIN.head(test).assign(id=[f"{kind}{n}" for n in range(test)], wood=kind, kind="NONE")
        asked.to_csv(folder / f"T-{kind}-test.txt", sep="\t", index=False)


def a_heading(folder: Path) -> None:
    both = pd.concat([TRAIN, TEST])
    both.to_excel(folder / "trees.xlsx", startrow=2, index=False, sheet_name="Trees")
    import openpyxl

    book = openpyxl.load_workbook(folder / "trees.xlsx")
    book["Trees"]["A1"] = "Trees of the park, to be told where empty"
    book.save(folder / "trees.xlsx")


def a_heading_of_lines(folder: Path) -> None:
    for name, table in (("train", TRAIN), ("test", TEST)):
        lines = table.to_csv(index=False)
        (folder / f"{name}.csv").write_text(f"Trees of the park\n\nExport of 1 May, all rows\n{lines}")


def withheld(folder: Path) -> None:
    pd.concat([TRAIN, TEST]).to_csv(folder / "trees.csv", index=False)
    SAMPLE.to_csv(folder / "sample_submission.csv", index=False)


def no_names(folder: Path) -> None:
    TRAIN.drop(columns="id").to_csv(folder / "trees.data", header=False, index=False)
    TEST.drop(columns="id").to_csv(folder / "trees.test", header=False, index=False)


def arrays(folder: Path) -> None:
    values = np.random.default_rng(0).normal(size=(ROWS, 3))
    np.savez(folder / "trees.npz", X_train=values, y_train=np.arange(ROWS) % 2, X_test=values[:12])


def line_by_line(folder: Path) -> None:
    values = np.random.default_rng(0).normal(size=(ROWS, 3))
    np.savetxt(folder / "tree_train.data", values)
    np.savetxt(folder / "tree_test.data", values[:12])
    np.savetxt(folder / "tree_train.solution", np.arange(ROWS) % 2, fmt="%d")


def objects(folder: Path) -> None:
    def nested(table: pd.DataFrame) -> list[dict[str, Any]]:
        rows = table.to_dict("records")
        return [
            row | {"seen": {"days": n, "by": ["ann", "bo"]}, "rings": [n, n + 1]}
            for n, row in enumerate(rows)
        ]

    (folder / "train.json").write_text(json.dumps(nested(TRAIN)))
    (folder / "test.json").write_text("\n".join(map(json.dumps, nested(TEST))))


def steps(folder: Path) -> None:
    for name, ids in (("X_train", TRAIN.id), ("X_test", TEST.id)):
        long = pd.DataFrame(
            {"row": range(20 * len(ids)), "id": np.repeat(ids, 20), "speed": np.arange(20 * len(ids))}
        )
        long.assign(row="r" + long.row.astype(str)).to_csv(folder / f"{name}.csv", index=False)
    TRAIN[["id", "kind"]].to_csv(folder / "y_train.csv", index=False)
    SAMPLE.to_csv(folder / "sample_submission.csv", index=False)


def a_file_each(folder: Path) -> None:
    for name, ids in (("train", TRAIN.id), ("test", TEST.id)):
        (folder / name).mkdir()
        for each in ids:
            pd.DataFrame({"speed": [1.0, 2.0, 4.0]}).to_csv(folder / name / f"{each}.csv", index=False)
    TRAIN[["id", "kind"]].to_csv(folder / "train.csv", index=False)
    SAMPLE.to_csv(folder / "sample_submission.csv", index=False)


def pictures(folder: Path) -> None:
    for n in range(ROWS):
        place = folder / "Train Images" / f"batch {n % 3}" / ("Leaf Rust" if n % 2 else "Healthy")
        place.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), n).save(place / f"a{n}.png")
    (folder / "Test Images").mkdir()
    for n in range(12):
        Image.new("L", (8, 8), n).save(folder / "Test Images" / f"b{n}.png")
    TEST[["id"]].assign(healthy=0.5, leaf_rust=0.5).to_csv(folder / "SampleSubmission.csv", index=False)


def texts(folder: Path) -> None:
    for n in range(ROWS + 12):
        place = folder / (f"train/{'pos' if n % 2 else 'neg'}" if n < ROWS else "test")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{n}.txt").write_text(f"the tree number {n} was very tall indeed")
    ids = [str(n) for n in range(ROWS, ROWS + 12)]
    pd.DataFrame({"id": ids, "liked": 0}).to_csv(folder / "sample_submission.csv", index=False)


def labels_beside(folder: Path) -> None:
    for name, ids in (("train", TRAIN.id), ("test", TEST.id)):
        (folder / name).mkdir()
        for each in ids:
            Image.new("L", (8, 8)).save(folder / name / f"{each}.jpg")
    TRAIN[["id", "kind"]].to_csv(folder / "labels.csv", index=False)
    SAMPLE.to_csv(folder / "sample_submission.csv", index=False)


def packed(folder: Path) -> None:
    (folder / "files").mkdir()
    csvs(folder, "files/train.csv", "files/test.csv", "files/sample_submission.csv")
    with ZipFile(folder / "a1b2.zip", "w") as archive:
        for path in sorted((folder / "files").iterdir()):
            archive.write(path, f"trees/{path.name}")
            path.unlink()
        archive.writestr("__MACOSX/trees/._train.csv", "x")
    (folder / "files").rmdir()


def below(folder: Path) -> None:
    (folder / "LICENSE.md").write_text("free")
    (folder / "round 2").mkdir()
    csvs(folder / "round 2", "trees_labelled.csv", "trees_unlabelled.csv", "template.csv")


def in_french(folder: Path) -> None:
    csvs(folder, "arbres_apprentissage.csv", "arbres_teste.csv", "exemple_soumission.csv")


def database(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "forest.sqlite")) as base:
        TRAIN[["id", "kind"]].to_sql("labels", base, index=False)
        pd.concat([TRAIN.drop(columns="kind"), TEST]).to_sql("trees", base, index=False)
    TEST[["id"]].to_csv(folder / "asked.csv", index=False)


def a_dump_of_mysql(folder: Path) -> None:
    """With quotes, commas and brackets in its texts."""
    told = "-- MySQL dump\n/*!40101 SET NAMES utf8 */;\n"
    note = "it\\'s (old, tall);"
    for name, table in (("trees", TRAIN.assign(note=note)), ("to_score", TEST.assign(note=note))):
        kinds = ["int" if pd.api.types.is_numeric_dtype(kind) else "varchar(40)" for kind in table.dtypes]
        fields = [f"  `{field}` {kind} DEFAULT NULL" for field, kind in zip(table, kinds, strict=True)]
        told += (
            f"CREATE TABLE `{name}` (\n" + ",\n".join([*fields, "  KEY `of` (`id`)"]) + "\n) ENGINE=InnoDB;\n"
        )
        rows = [", ".join(f"'{cell}'" for cell in row) for row in table.itertuples(index=False)]
        told += f"INSERT INTO `{name}` VALUES ({'),('.join(rows)});\nUNLOCK TABLES;\n"
    (folder / "forest.sql").write_text(told)


def a_dump_of_postgresql(folder: Path) -> None:
    told = "SET client_encoding = 'UTF8';\n"
    for name, table in (("trees", TRAIN), ("to_score", TEST)):
        told += (
            f"CREATE TABLE public.{name} (\n    " + " character varying(9),\n    ".join(table) + " text\n);\n"
        )
        told += f"COPY public.{name} ({', '.join(table)}) FROM stdin;\n"
        told += table.to_csv(index=False, header=False, sep="\t") + "\\.\n\n"
    (folder / "forest.sql").write_text(told)


def arff(folder: Path) -> None:
    head = "% of a wood\n@relation trees\n@attribute id string\n@attribute height numeric\n"
    head += "@attribute 'of wood' {'oak','elm','ash','fir'}\n@attribute kind {x,y}\n\n@data\n"
    for name, table in (("wood_train", TRAIN), ("wood_open", TEST.assign(kind="?"))):
        rows = table.assign(wood="'" + table.wood + "'").to_csv(index=False, header=False)
        (folder / f"{name}.arff").write_text(head + rows)


def sparse(folder: Path) -> None:
    (folder / "Fold1").mkdir()
    for name, rows in (("train", ROWS), ("test", 12)):
        lines = [f"{n % 3 * (rows == ROWS)} 1:{n}.5 {'' if n % 2 else '7:2'} #doc {n}" for n in range(rows)]
        (folder / "Fold1" / f"{name}.txt").write_text("\n".join(lines).replace("  ", " "))


def gaps_between_blanks(folder: Path) -> None:
    for name, rows in (("wood_train.data", ROWS), ("wood_test.data", 12)):
        (folder / name).write_text("".join(f"{n}.5 NaN {n % 7}\n" for n in range(rows)))
    (folder / "wood_train.solution").write_text("".join(f"{n % 2}\n" for n in range(ROWS)))


def nothing_between_blanks(folder: Path) -> None:
    for name, rows in (("wood_train_2020.csv", ROWS), ("wood_test_2020.csv", 12)):
        told = ["id age width wood" if rows == ROWS else "id age width"]
        told += [f"{n} {'' if n % 5 else 7} {n}.5" + f" {n % 2}" * (rows == ROWS) for n in range(rows)]
        (folder / name).write_text("\n".join(told))


def parts_behind_ids(folder: Path) -> None:
    for name, ids in (("train", TRAIN.id[:20]), ("test", TEST.id[:6])):
        long = pd.DataFrame({"tree": np.repeat(ids, 9), "speed": np.arange(9.0 * len(ids))})
        long.to_csv(folder / f"{name}.csv", index=False)
        asked = pd.DataFrame({"tree": [f"{one}_{part}" for one in ids for part in ("leaf", "root")]})
        other = "train_labels" if name == "train" else "sample_submission"
        asked.assign(sick=[0, 1] * len(ids)).to_csv(folder / f"{other}.csv", index=False)


def files_in_other_folders(folder: Path) -> None:
    for name, ids in (("early", TRAIN.id[:30]), ("late", [*TRAIN.id[30:], *TEST.id])):
        (folder / f"{name} logs").mkdir()
        for each in ids:
            pd.DataFrame({"speed": [1.0, 2.0, 4.0]}).to_csv(folder / f"{name} logs" / f"{each}.csv")
    TRAIN[["id", "kind"]].head(30).to_csv(folder / "train_labels.csv", index=False)
    TRAIN[["id", "kind"]].tail(10).to_csv(folder / "val_labels.csv", index=False)
    SAMPLE.to_csv(folder / "submission_format.csv", index=False)


def no_endings(folder: Path) -> None:
    for n in range(ROWS + 12):
        place = folder / (f"mail_train/{'spam' if n % 2 else 'ham'}" if n < ROWS else "mail_test")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{n:05}").write_text(f"Subject: tree {n}\n\nIt was very tall indeed")


def label_first(folder: Path) -> None:
    columns = ["kind", "height", "wood"]
    TRAIN[columns].to_csv(folder / "train.txt", sep="\t", header=False, index=False)
    TEST[columns[1:]].to_csv(folder / "test.txt", sep="\t", header=False, index=False)


def parts_between_colons(folder: Path) -> None:
    for name, table in (("trees_train.dat", TRAIN), ("trees_test.dat", TEST)):
        rows = table.drop(columns="id").astype(str).agg("::".join, axis=1)
        (folder / name).write_text("\n".join(rows))


def target_withheld(folder: Path) -> None:
    pd.concat([TRAIN, TEST]).to_csv(folder / "wood.csv", index=False)


def names_of_classes(folder: Path) -> None:
    for n in range(ROWS + 12):
        place = folder / ("train" if n < ROWS else "test1")
        place.mkdir(exist_ok=True)
        name = f"{'oak' if n % 2 else 'elm'}.{n}.png" if n < ROWS else f"{n}.png"
        Image.new("L", (8, 8), n).save(place / name)
    ids = [str(n) for n in range(ROWS, ROWS + 12)]
    pd.DataFrame({"id": ids, "tree": 0}).to_csv(folder / "sample_submission.csv", index=False)


def a_benchmark_of_the_last_part(folder: Path) -> None:
    csvs(folder, "Trees.csv", "TestTrees.csv", "mean_benchmark.csv")
    TEST.assign(id=[f"v{n}" for n in range(12)]).to_csv(folder / "ValidTrees.csv", index=False)


def named(*names: str) -> Callable[[Path], None]:
    return lambda folder: csvs(folder, *names)


@pytest.mark.parametrize(
    ("lay", "features"),
    [
        (named("application_train.csv", "application_test.csv", "sample_submission.csv"), 2),
        (named("train_ctrUa4K.csv", "test_lAUu6dG.csv", "sample_submission_49d68Cx.csv"), 2),
        (named("training_set_rel3.csv", "valid_set.csv", "submit_example.csv"), 2),
        (named("trees_training.csv", "trees_prognose.csv"), 2),
        (named("Data_Train.csv", "Data_Test.csv"), 2),
        (apart, 2),
        (years_as_names, 2),
        (names_beside, 2),
        (answers_of_all, 2),
        (a_file_a_kind, 2),
        (a_heading, 2),
        (a_heading_of_lines, 2),
        (years, 2),
        (shards, 2),
        (one_file, 2),
        (withheld, 2),
        (no_names, 2),
        (arrays, 3),
        (line_by_line, 3),
        (objects, 6),
        (steps, 14),
        (a_file_each, 14),
        (texts, 1),
        (packed, 2),
        (below, 2),
        (in_french, 2),
        (named("c1.csv", "a7.csv", "b2.csv"), 2),
        (named("a1.csv", "b7.csv", "c2.csv"), 2),
        (label_first, 2),
        (parts_between_colons, 2),
        (target_withheld, 2),
        (a_benchmark_of_the_last_part, 2),
        (names_of_classes, None),
        (named("traintrees.csv", "testtrees.csv", "SampleSubmission.csv"), 2),
        (database, None),
        (a_dump_of_mysql, 3),
        (a_dump_of_postgresql, 2),
        (arff, 2),
        (gaps_between_blanks, 3),
        (nothing_between_blanks, 2),
        (parts_behind_ids, 16),
        (files_in_other_folders, 27),
        (no_endings, 1),
        (pictures, None),
        (labels_beside, None),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_the_roles_of_files_are_found(
    tmp_path: Path, lay: Callable[[Path], None], features: int | None
) -> None:
    lay(tmp_path)
    found = describe(tmp_path)
    rows = found["n_train"] + found.get("n_validation", 0)
    assert (rows, found["n_test"], found["n_classes"]) == (ROWS, 12, 2)
    assert found.get("n_features") == features


def test_pictures_in_an_archive_of_arrays_have_files(tmp_path: Path) -> None:
    rng, arrays = np.random.default_rng(0), dict[str, Any]()
    for name, rows in (("train", 30), ("val", 6), ("test", 12)):
        arrays[f"{name}_images"] = rng.integers(0, 256, (rows, 12, 12, 3), np.uint8)
        arrays[f"{name}_labels"] = np.arange(rows, dtype=np.uint8)[:, None] % 3
    np.savez(tmp_path / "petals.npz", **arrays)
    found = describe(tmp_path)
    assert (found["task"], found["target"]) == ("image-classification", ["train_labels"])
    assert (found["n_train"], found["n_validation"], found["n_test"]) == (30, 6, 12)
    train, _, _ = three_tables()
    with Image.open(files_of("train", train)[31]) as image:  # the second to validate
        assert np.array_equal(np.asarray(image), arrays["val_images"][1])


@pytest.mark.parametrize("columns", [True, False])
def test_pixels_in_a_cell_or_in_columns_are_pictures_with_points(tmp_path: Path, columns: bool) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (50, 100))
    if columns:
        table = pd.DataFrame(pixels).add_prefix("pixel")
    else:
        table = pd.DataFrame({"Image": [" ".join(map(str, row)) for row in pixels]})
    points = pd.DataFrame({"nose_x": np.arange(38) / 4, "nose_y": np.arange(38) / 5})
    for name, rows in (
        ("training", pd.concat([points, table.head(38)], axis=1)),
        ("test", table.tail(12).assign(ImageId=range(1, 13)).iloc[:, ::-1]),
    ):
        with ZipFile(tmp_path / f"{name}.zip", "w") as packed:
            packed.writestr(f"{name}.csv", rows.to_csv(index=False))
    asked = pd.DataFrame([(n, name) for n in range(1, 13) for name in points], columns=["ImageId", "Feature"])
    asked.insert(0, "RowId", range(1, 25))
    asked.assign(Location="").to_csv(tmp_path / "IdLookupTable.csv", index=False)
    asked[["RowId"]].assign(Location=0).to_csv(tmp_path / "SampleSubmission.csv", index=False)
    found = describe(tmp_path)
    assert (found["task"], found["target"]) == ("image-keypoints", ["nose_x", "nose_y"])
    assert (found["n_train"], found["n_test"], found["sizes"]) == (38, 12, [(10, 10)])


def test_lines_of_svmlight_are_rows_and_labels_of_one_value_are_withheld(tmp_path: Path) -> None:
    sparse(tmp_path)
    found = describe(tmp_path)
    assert (found["n_train"], found["n_test"], found["n_classes"]) == (ROWS, 12, 3)
    assert (found["target"], found["columns"].keys()) == (["target"], {"column_1", "column_2"})


def test_windows_of_steps_have_names_of_classes_that_lie_beside(tmp_path: Path) -> None:
    for name, rows in (("train", ROWS), ("test", 12)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / f"X_{name}.npy", np.random.default_rng(0).normal(size=(rows, 9, 2)))
    (tmp_path / "train" / "y_train.txt").write_text("".join(f"{n % 2 + 4}\n" for n in range(ROWS)))
    (tmp_path / "kinds.txt").write_text("4 asleep\n5 awake\n")
    pd.DataFrame({"row": range(12), "kind": "awake"}).to_csv(tmp_path / "sample_submission.csv", index=False)
    describe(tmp_path)
    train = three_tables()[0]
    assert {*train.iloc[:, -1]} == {"asleep", "awake"}
    assert [name for name in train.columns if "autocorrelation" in name] == [
        f"axis {n} autocorrelation" for n in (0, 1)
    ]


def test_a_full_stop_behind_classes_is_no_part_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "DATA_DIR", tmp_path, raising=False)
    (tmp_path / "hut.data").write_text(
        "".join(f"{n}.5, {'?' if n == 0 else n}, {'rich' if n % 2 else 'poor'}.\n" for n in range(9))
    )
    (tmp_path / "hut.test").write_text("1.5, 2\n3.5, ?\n")
    train, test, _ = three_tables()
    assert ({*train["target"]}, len(train), len(test)) == ({"rich", "poor"}, 9, 2)


def test_an_archive_that_is_unpacked_beside_is_left_alone(tmp_path: Path) -> None:
    csvs(tmp_path, "data/train.csv", "data/test.csv")
    with ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("train.csv", "id\n1\n")
        archive.writestr("test.csv", "id\n1\n")
    assert describe(tmp_path)["n_train"] == ROWS
    assert len((tmp_path / "data" / "train.csv").read_text().splitlines()) == ROWS + 1


def test_a_large_archive_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pictures of many gigabytes that nobody unpacked are no work of each look."""
    csvs(tmp_path, "train.csv", "test.csv")
    with ZipFile(tmp_path / "pictures.zip", "w") as archive:
        archive.writestr("a.jpg", b"x" * 40)
        archive.writestr("b.jpg", b"x" * 40)
    monkeypatch.setattr("memory_service.train.folder.MOST_UNPACKED", 79)
    assert describe(tmp_path)["n_train"] == ROWS
    assert "pictures.zip holds" in capsys.readouterr().out


def test_rows_of_what_users_took_are_a_recommendation(tmp_path: Path) -> None:
    users, books = [f"u{n % 8}" for n in range(40)], [f"{n % 9:03}" for n in range(40)]
    pd.DataFrame({"day": "2026-01-01", "reader": users, "book": books}).to_csv(
        tmp_path / "loans_train.csv", index=False
    )
    asked = pd.DataFrame({"reader": sorted({*users}), "books": "001 002 003"})
    asked.to_csv(tmp_path / "sample_submission.csv", index=False)
    assert describe(tmp_path)["task"] == "recommendation"


def ratings(folder: Path, **settings: Any) -> pd.DataFrame:
    pairs = [(user, item) for user in range(1, 21) for item in range(1, 31) if (user * item) % 3]
    table = pd.DataFrame(pairs, columns=["userId", "gameId"])
    table = table.assign(rating=table.sum(axis=1) % 5 + 1, timestamp=978300000 + 7 * table.index)
    lines = table.to_csv(index=False, **settings)
    (folder / "ratings.dat").write_text(lines if "header" not in settings else lines.replace(",", "::"))
    return table


def test_of_ratings_without_names_the_moment_is_no_second_target(tmp_path: Path) -> None:
    table = ratings(tmp_path, header=False)
    asked = table.iloc[::9, :2].astype(str).to_numpy()
    (tmp_path / "to_predict.dat").write_text("\n".join("::".join(row) for row in asked))
    sample = pd.DataFrame({"UserGame": ["_".join(row) for row in asked], "Rating": 3.5})
    sample.to_csv(tmp_path / "submission_example.csv", index=False)
    found = describe(tmp_path)
    assert (found["task"], found["target"]) == ("tabular-regression", ["Rating"])
    assert (found["n_train"], found["n_test"]) == (len(table), len(asked))
    assert three_tables()[1].iloc[:, 0].tolist() == sample["UserGame"].tolist()


def test_recordings_beside_a_table_with_a_split_are_signals(tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir()
    rng = np.random.default_rng(0)
    for n in range(ROWS):
        steps = pd.DataFrame(rng.normal(size=(20, 2)), columns=["bar", "heat"])
        steps.to_csv(tmp_path / "recordings" / f"run_{n}.csv", index=False)
    log = pd.DataFrame({"run": range(ROWS), "file": [f"run_{n}.csv" for n in range(ROWS)]})
    log = log.assign(usage=["fit"] * 30 + ["holdout"] * 10, verdict=["good", "short"] * 20)
    log.to_csv(tmp_path / "log.csv", index=False)
    found = describe(tmp_path)
    assert (found["task"], found["target"]) == ("time-series-classification", ["verdict"])
    assert (found["n_train"], found["n_test"]) == (30, 10)
    train, test, _ = three_tables()
    _, _, signals = find_signals(train, test) or (None, None, [])
    assert [path.name for path in signals[29:31]] == ["run_29.csv", "run_30.csv"]


def test_documents_with_photos_keep_their_order_and_the_last_is_the_target(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    rows = []
    for n in range(ROWS):
        Image.new("RGB", (9, 9), (n, 0, 0)).save(tmp_path / "photos" / f"{n}_0.jpg")
        seller = {"city": "Lille", "pro": None if n % 3 else True}
        price = None if n > 29 else n * 1.5
        rows.append(
            {"_id": f"d{n}", "photos": [f"{n}_0.jpg", f"{n}_1.jpg"], "seller": seller, "price": price}
        )
    (tmp_path / "listings.json").write_text(json.dumps(rows))
    found = describe(tmp_path)
    assert (found["task"], found["target"]) == ("image-regression", ["price"])
    assert (found["n_train"], found["n_test"]) == (30, 10)


def test_further_tables_of_training_and_of_test_rows_are_one(tmp_path: Path) -> None:
    csvs(tmp_path, "train_trees.csv", "test_trees.csv", "sample_submission.csv")
    TRAIN[["id"]].assign(leaves=5).to_csv(tmp_path / "train_crowns.csv", index=False)
    TEST[["id"]].assign(leaves=6).to_csv(tmp_path / "test_crowns.csv", index=False)
    TRAIN[["id"]].assign(secret=1).to_csv(tmp_path / "train_private.csv", index=False)
    assert describe(tmp_path)["further_tables"] == ["test_crowns.csv", "train_crowns.csv"]


def test_a_submission_that_a_run_left_is_no_sample(tmp_path: Path) -> None:
    csvs(tmp_path, "train.csv", "test.csv", "submission.csv")
    assert not find_roles(tmp_path).sample


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Höhe;Größe;Straße", "cp1252"),
        ("id,用户网龄,缴费方式,常住地", "gb18030"),
        ("id,お客様の番号,カタカナ", "shift_jis"),
        ("id,высота,ширина дерева", "cp1251"),
        ("id,Größe,用户", "utf-16"),
        ("id,Größe,用户", "utf-8"),
    ],
)
def test_the_encoding_is_told_by_the_bytes(text: str, encoding: str) -> None:
    raw = (text * 20).encode(encoding)
    assert raw.decode(encoding_of(raw)) == text * 20


def test_numbers_as_germans_write_them_and_marks_of_missing_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "DATA_DIR", tmp_path, raising=False)
    rows = [
        "Zeit;Höhe;Last;Wind",
        "01.01.2021;-1,2;40.716,3;k.A.",
        "02.01.2021;0,9;939,25;4,7",
        "03.01.2021;2,0;?;-999",
    ]
    (tmp_path / "train.csv").write_text("\n".join(rows), encoding="cp1252")
    read = read_table("train.csv")
    assert read is not None
    assert read["Last"].tolist()[:2] == [40716.3, 939.25]
    assert read["Höhe"].tolist() == [-1.2, 0.9, 2.0]
    assert read[["Last", "Wind"]].isna().sum().tolist() == [1, 1]


def test_dates_are_no_amounts() -> None:
    assert written_amounts(pd.Series(["10.10.2021", "11.10.2021"]), commas=True) is None


def test_years_as_names_of_columns_are_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "DATA_DIR", tmp_path, raising=False)
    pd.DataFrame([[5, 6, 7], [8, 9, 3]], columns=["2019", "2020", "2021"]).to_csv(
        tmp_path / "train.csv", index=False
    )
    assert list(three_tables()[0].columns) == ["2019", "2020", "2021"]


def test_a_folder_that_is_not_understood_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.pdf").write_bytes(b"%PDF")
    (tmp_path / "trees.xlsx").write_bytes(b"PK")
    with pytest.raises(FileNotFoundError, match=r"notes\.pdf, trees\.xlsx.*call the tables train\.csv"):
        describe(tmp_path)


def test_a_small_packed_file_cannot_fill_memory(tmp_path: Path) -> None:
    TRAIN.to_csv(tmp_path / "test.csv", index=False)
    with ZipFile(tmp_path / "train.csv.zip", "w", ZIP_DEFLATED) as packed:
        packed.writestr("train.csv", b"a," * (LONGEST_LINE // 2 + 1) + b"b\n1\n")
    with pytest.raises(FileNotFoundError, match="begins with a line of over 8 MiB"):
        describe(tmp_path)


@pytest.mark.parametrize(
    "name", ["fold{n}_{role}.csv", "Fold{n}/{role}.csv", "{role}_FD00{n}.csv", "{kind}_{role}.csv"]
)
def test_test_rows_of_one_fold_are_not_learned_from_in_another(tmp_path: Path, name: str) -> None:
    for n in range(2):  # what one has to test on another validates or learns with
        known = TRAIN.iloc[np.roll(np.arange(ROWS), -8 * n)]
        for role, part in (("train", known[:20]), ("vali", known[20:28]), ("test", known[28:])):
            path = tmp_path / name.format(n=n + 1, role=role, kind=("full", "small")[n])
            path.parent.mkdir(exist_ok=True)
            part.to_csv(path, index=False)
    roles = find_roles(tmp_path)
    known, asked = (pd.concat([pd.read_csv(one.path) for one in each]) for each in (roles.train, roles.test))
    assert len(asked) == 12
    assert not {*known.id} & {*asked.id}


@pytest.mark.parametrize(
    ("names", "target"),
    [
        ("sentence label", "label"),
        ("stone_class survived", "survived"),
        ("x y kind", "kind"),
        ("x size Y", "Y"),
        ("label words", "label"),
        ("label sentence", "label"),
    ],
)
def test_of_test_rows_with_answers_these_are_found(tmp_path: Path, names: str, target: str) -> None:
    words = [f"the tree {n * 7919 % 10007} of a wood of many trees" for n in range(150)]
    for role, rows in (("train", 120), ("test", 30)):
        table = pd.DataFrame({"id": [f"{role}{n}" for n in range(rows)]})
        for place, name in enumerate(names.split()):
            texts = name in ("sentence", "words")
            table[name] = words[:rows] if texts else [(n * 7 + place) % (place + 2) for n in range(rows)]
        table.to_csv(tmp_path / f"{role}.csv", index=False)
    assert describe(tmp_path)["target"] == [target]


def test_pictures_of_arrays_of_one_name_are_their_own_and_bits_are_none(tmp_path: Path) -> None:
    for role, light in (("train", 50), ("test", 200)):
        (tmp_path / role).mkdir()
        arrays = dict[str, Any](images=np.full((20, 9, 9), light, np.uint8))
        arrays |= {"labels": np.arange(20) % 2} if role == "train" else {}
        np.savez(tmp_path / role / "data.npz", **arrays)
    assert describe(tmp_path)["task"] == "image-classification"
    train, test, _ = three_tables()
    for role, table, light in (("train", train, 50), ("test", test, 200)):
        with Image.open(files_of(role, table)[0]) as image:
            assert image.getpixel((0, 0)) == light
    noise = np.random.default_rng(0).normal(size=(2, 400, 9, 9, 3))
    noise[0, 0, 0, 0] = 40  # one pixel far off
    means = [shown.mean() for shown in map(as_pictures, noise) if shown is not None]
    assert means[0] == pytest.approx(means[1], rel=0.05)
    assert as_pictures(np.eye(64, dtype=np.uint8)) is None


def test_images_of_a_document_are_no_coco_and_those_of_coco_keep_columns() -> None:
    images: list[dict[str, Any]]
    images = [{"filename": f"{n}.jpg", "caption": "a dog", "split": "train"} for n in range(3)]
    assert [*flat({"images": images, "dataset": "x"})] == ["filename", "caption", "split"]
    assert [*flat({"images": ["a.jpg", "b.jpg"], "labels": [0, 1]})] == ["images", "labels"]
    images = [{"id": n, "file_name": f"{n}.jpg", "width": 9, "location": n} for n in range(3)]
    found = flat({"images": images, "annotations": [{"image_id": 1, "category_id": 4}]})
    assert [*found] == ["file_name", "image_id", "location", "category_id"]


def test_a_row_without_a_role_is_not_withheld() -> None:
    cells = pd.DataFrame({"role": ["fit", "fit", None, "holdout"]})
    assert in_split(cells, "role").tolist() == [False, False, False, True]


@pytest.mark.parametrize(("points", "target"), [([4, 5, 2, 6, 7, 2], "keypoints"), ([], "bbox")])
def test_points_of_coco_are_the_target_where_there_are_any(
    tmp_path: Path, points: list[int], target: str
) -> None:
    for role in ("train", "test"):
        (tmp_path / role).mkdir()
        images = [{"id": n, "file_name": f"{role}{n}.png", "width": 9, "height": 9} for n in range(12)]
        for one in images:
            Image.fromarray(np.full((9, 9), 7, np.uint8)).save(tmp_path / role / str(one["file_name"]))
        known = [{"id": n, "image_id": n, "bbox": [1, 2, 3, 4], "keypoints": points} for n in range(12)]
        data: dict[str, Any] = {"images": images} | ({"annotations": known} if role == "train" else {})
        (tmp_path / f"{role}.json").write_text(json.dumps(data))
    task = "image-keypoints" if points else "object-detection"
    assert ((found := describe(tmp_path))["task"], found["target"]) == (task, [target])


@pytest.mark.parametrize(("texts", "classes"), [(1, {"bark", "meow"}), (8, set())])
def test_sounds_are_of_classes_unless_each_folder_has_texts_too(
    tmp_path: Path, texts: int, classes: set[str]
) -> None:
    for n in range(8):
        place = tmp_path / ("bark", "meow")[n % 2]
        place.mkdir(exist_ok=True)
        (place / f"{n}.wav").write_bytes(b"")
        if n < texts:
            (place / f"{n}.txt").write_text("recorded in May")
    assert classes_in(tmp_path) == classes


@pytest.mark.parametrize("cell", [None, 0.0])
def test_two_targets_that_test_rows_have_as_well_are_asked_about_only_where_they_say_something(
    tmp_path: Path, cell: float | None
) -> None:
    train = TRAIN.drop(columns="kind").assign(height=np.arange(ROWS) / 3, width=np.arange(ROWS) / 7)
    train.to_csv(tmp_path / "train.csv", index=False)
    names = ["height", "width"]
    TEST.assign(height=cell, width=cell).to_csv(tmp_path / "test.csv", index=False)
    TEST[["id"]].assign(height=0.0, width=0.0).to_csv(tmp_path / "sample_submission.csv", index=False)
    assert describe(tmp_path)["target"] == names
    TEST.assign(width=range(len(TEST))).to_csv(tmp_path / "test.csv", index=False)
    with pytest.raises(ValueError, match="known of rows to predict"):
        describe(tmp_path)


@pytest.mark.parametrize(("names", "asked"), [(60, False), (600, True)])
def test_a_part_of_a_text_is_asked_about_and_a_class_that_texts_name_is_none(
    tmp_path: Path, names: int, asked: bool
) -> None:
    brands = [f"brand{n * 7919 % names}x" for n in range(600)]
    titles = [f"a shoe of {each} is new here and number {n}" for n, each in enumerate(brands)]
    table = pd.DataFrame({"id": range(600), "title": titles})
    table.assign(brand=brands).to_csv(tmp_path / "train.csv", index=False)
    table[:50].assign(id=range(700, 750)).to_csv(tmp_path / "test.csv", index=False)
    if asked:
        with pytest.raises(ValueError, match="part of the text title"):
            describe(tmp_path)
    else:
        assert describe(tmp_path)["task"] == "text-classification"
