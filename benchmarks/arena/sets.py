"""Data sets of the arena, made of data that installed packages and this repository ship, and archives of more.

A set is `sets/NAME/` (what an entrant sees: train.csv, test.csv, sample_submission.csv, pictures in train/ and
test/), `answers/NAME.csv` (hidden: id and target) and `answers/NAME.json` (description, task, metric, target).
"""

from __future__ import annotations

import ast
import json
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SEEDS = Path(__file__).parents[2] / "seeds"
ARCHIVES = Path(__file__).parents[3] / "shared" / "arena"
MINUTES = {"image": 4.0, "audio": 5.0, "image-segmentation": 6.0}
"""Minutes of a set by task; 3 of any other."""


@dataclass(frozen=True)
class Made:
    """A table with its target, `test` marking the hidden rows; pictures (rows, height, width) of 8 bits."""

    task: str
    metric: str
    target: str
    description: str
    table: pd.DataFrame
    test: NDArray[np.bool_]
    pictures: NDArray[np.uint8] | None = None


def stratified(labels: Sequence[Any], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Marks this share of the rows of each label."""
    order = np.array([str(label) for label in labels])
    marked = np.zeros(len(order), bool)
    for label in np.unique(order):
        rows = np.flatnonzero(order == label)
        marked[rng.choice(rows, round(share * len(rows)), replace=False)] = True
    return marked


def cancer(rng: np.random.Generator) -> Made:
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "benign"})
    return Made(
        "tabular", "auc", "benign",
        "Is a breast mass benign? Each row is a digitised image of a fine needle aspirate, described by 30 numbers: "
        "mean, error and worst value of radius, texture, perimeter, area, smoothness and others of the cell nuclei. "
        "train.csv has 341 rows, test.csv 228 others, drawn at random. The target `benign` is 0 or 1; submit a "
        "probability. Submissions are judged by ROC AUC.",
        table, stratified(table.benign, 0.4, rng),
    )  # fmt: skip


def wine(rng: np.random.Generator) -> Made:
    from sklearn.datasets import load_wine

    table = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
    table["cultivar"] = table.cultivar.map({0: "barolo", 1: "grignolino", 2: "barbera"})
    return Made(
        "tabular", "logloss", "cultivar",
        "Which of three cultivars is a wine made of? 13 chemical measurements of each wine, all numbers. train.csv "
        "has about 90 wines, test.csv about 90 others, drawn at random. Submit a probability for each of the three "
        "cultivars; the score is multi-class log loss.",
        table, stratified(table.cultivar, 0.5, rng),
    )  # fmt: skip


def diabetes(rng: np.random.Generator) -> Made:
    from sklearn.datasets import load_diabetes

    table = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    return Made(
        "tabular", "rmse", "progression",
        "Predict how far diabetes has progressed one year after the baseline. Ten numbers describe each patient: age, "
        "sex, body mass index, blood pressure and six measurements of blood serum. train.csv has about 260 patients, "
        "test.csv about 180 others, drawn at random. The target `progression` goes from 25 to 346; the score is RMSE.",
        table, rng.random(len(table)) < 0.4,
    )  # fmt: skip


def benchmark_scores(rng: np.random.Generator) -> Made:
    table = pd.read_csv(SEEDS / "evidence.csv.gz")
    table = table[table.value.between(0, 100)].drop(columns=["source", "protocol", "direction"])
    return Made(
        "tabular", "mae", "value",
        "Predict the score that a model reached on a public benchmark. Each row is one result from a paper or a "
        "repository: modality, data set, task, number of classes, language, metric, model, the model's published "
        "score, training rows and epochs; many values are missing and some categories have many values. The rows of "
        "test.csv are a random third. The target `value` lies between 0 and 100; the score is mean absolute error (MAE).",
        table, rng.random(len(table)) < 1 / 3,
    )  # fmt: skip


def digits(rng: np.random.Generator) -> Made:
    from sklearn.datasets import load_digits

    shipped = load_digits()
    table = pd.DataFrame({"digit": shipped.target})
    return Made(
        "image", "accuracy", "digit",
        "Recognise handwritten digits: 10 classes, grey PNG files of 8 x 8 pixels, white strokes on black. 1,078 "
        "pictures in train/, 719 others in test/, named <id>.png. train.csv has id and digit. The score is accuracy.",
        table, stratified(table.digit, 0.4, rng), (shipped.images * 255 / 16).astype(np.uint8),
    )  # fmt: skip


def competitions(rng: np.random.Generator) -> Made:
    rows = [json.loads(line) for line in (SEEDS / "competitions.jsonl").read_text("utf-8").splitlines()]
    table = pd.DataFrame({"text": [r["description"] for r in rows], "task": [r["task"] or "other" for r in rows]})
    counts = table.task.value_counts()
    table["task"] = table.task.where(table.task.map(counts) >= 8, "other")
    return Made(
        "text", "f1_macro", "task",
        "What kind of task does a machine learning competition set? English descriptions of about 120 words, in nine "
        "classes such as image-classification, tabular-regression or text-classification, and `other`; the classes are "
        "imbalanced. train.csv has about 135 texts (id, text, task), test.csv about 90. The score is macro F1.",
        table, stratified(table.task, 0.4, rng),
    )  # fmt: skip


PACKAGES = ("sklearn", "scipy", "pandas", "networkx", "sympy", "torch")


def docstrings(rng: np.random.Generator) -> Made:
    rows: set[tuple[str, str]] = set()
    for package in PACKAGES:
        found: set[str] = set()
        spec = util.find_spec(package)
        folder = Path(str(spec and spec.origin)).parent
        files = sorted(file for file in folder.rglob("*.py") if "tests" not in file.parts)
        for place in rng.permutation(len(files)):
            for node in ast.walk(ast.parse(files[place].read_bytes())):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                    if len(text.split()) >= 5 and package not in text.lower():
                        found.add(text)
            if len(found) >= 350:
                break
        rows |= {(text, package) for text in sorted(found)[:350]}
    table = pd.DataFrame(sorted(rows), columns=["text", "package"]).drop_duplicates("text", ignore_index=True)
    return Made(
        "text", "accuracy", "package",
        "Which of six Python packages does a docstring come from? Each text is the first paragraph of the docstring of "
        "a function or class, one or two English sentences. About 1,250 texts in train.csv (id, text, package), 840 "
        "others in test.csv, drawn at random; the classes are balanced. The score is accuracy.",
        table, stratified(table.package, 0.4, rng),
    )  # fmt: skip


def life_expectancy(rng: np.random.Generator) -> Made:
    del rng
    spec = util.find_spec("plotly")
    folder = Path(str(spec and spec.origin)).parent / "package_data" / "datasets"
    table = pd.read_csv(folder / "gapminder.csv.gz")[["lifeExp", "country", "continent", "year"]]
    table["date"] = table.pop("year").astype(str) + "-07-01"
    return Made(
        "time-series", "mae", "lifeExp",
        "Forecast the life expectancy of 142 countries. train.csv has a row for each country and every fifth year from "
        "1952 to 1992 (1,278 rows: id, lifeExp, country, continent, date), test.csv the years 1997, 2002 and 2007 (426 "
        "rows): the test set lies in the future. The target is `lifeExp`. The score is mean absolute error (MAE).",
        table, (table.date > "1993").to_numpy(),
    )  # fmt: skip


PACKAGED: dict[str, Callable[[np.random.Generator], Made]] = {
    made.__name__: made
    for made in (cancer, wine, diabetes, benchmark_scores, digits, competitions, docstrings, life_expectancy)
}


def archives() -> dict[str, Path]:
    """Archives of further sets, where the folder beside the checkout has them."""
    return {file.name.split(".")[0]: file for file in sorted(ARCHIVES.glob("*.tar.xz"))}


def build(name: str, root: Path) -> dict[str, Any]:
    """Writes a set below `root`; gives its description, task, metric, target and minutes. The same on each call."""
    if name in PACKAGED:
        _write(name, PACKAGED[name](np.random.default_rng(zlib.crc32(name.encode()))), root)
    elif name in archives():
        with tarfile.open(archives()[name]) as packed:
            packed.extractall(root, filter="data")
    else:
        raise SystemExit(f"No set {name!r}; there are {', '.join([*PACKAGED, *archives()])}.")
    about: dict[str, Any] = json.loads((root / "answers" / f"{name}.json").read_text("utf-8"))
    return {"minutes": MINUTES.get(about["task"], 3.0), **about}


def _write(name: str, made: Made, root: Path) -> None:
    seen, answers = root / "sets" / name, root / "answers"
    seen.mkdir(parents=True, exist_ok=True)
    answers.mkdir(exist_ok=True)
    order = np.random.default_rng(0).permutation(len(made.table))  # the order of a source can betray the target
    table = made.table.iloc[order].reset_index(drop=True)
    table.insert(0, "id", [f"{name[:2]}{row:05d}" for row in range(len(table))])
    test = made.test[order]
    hidden = table.loc[test, ["id", made.target]]
    table[~test].to_csv(seen / "train.csv", index=False)
    table[test].drop(columns=made.target).to_csv(seen / "test.csv", index=False)
    sample, labels = hidden[["id"]].copy(), table.loc[~test, made.target]
    if made.metric == "logloss":
        for label in sorted(labels.unique()):
            sample[label] = 1 / labels.nunique()
    else:
        sample[made.target] = 0.5 if made.metric == "auc" else labels.mode()[0]
    sample.to_csv(seen / "sample_submission.csv", index=False)
    if made.pictures is not None:
        from PIL import Image

        for id_, hides, picture in zip(table.id, test, made.pictures[order], strict=True):
            folder = seen / ("test" if hides else "train")
            folder.mkdir(exist_ok=True)
            Image.fromarray(picture).save(folder / f"{id_}.png")
    hidden.to_csv(answers / f"{name}.csv", index=False)
    about = {field: getattr(made, field) for field in ("task", "metric", "target", "description")}
    (answers / f"{name}.json").write_text(json.dumps({"name": name, **about}), "utf-8")
