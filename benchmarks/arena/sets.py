"""Data sets of the arena: made of what installed packages and this repository ship, and archives.

A set is `sets/NAME/` (what an entrant sees: train.csv, test.csv, sample_submission.csv, pictures in train/
and test/), `answers/NAME.csv` (hidden: id, target) and `answers/NAME.json` (what a host says).
"""

from __future__ import annotations

import ast
import json
import tarfile
import tomllib
import zlib
from collections.abc import Callable, Sequence
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SEEDS = Path(__file__).parents[2] / "seeds"
ARCHIVES = Path(__file__).parents[3] / "shared" / "arena"
ABOUT: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("sets.toml").read_text("utf-8"))
MINUTES = {"image": 4.0, "audio": 5.0, "image-segmentation": 6.0}
"""Minutes of a set by task; 3 of any other."""
DOCUMENTED = ("sklearn", "scipy", "pandas", "networkx", "sympy", "torch")
Drawn = np.random.Generator
Made = tuple[pd.DataFrame, NDArray[np.bool_], NDArray[np.uint8] | None]
"""Table with its target, hidden rows, pictures (rows, height, width) of a row each."""


def stratified(labels: Sequence[Any], share: float, rng: Drawn) -> NDArray[np.bool_]:
    """Marks this share of the rows of each label."""
    named = np.array([str(label) for label in labels])
    marked = np.zeros(len(named), bool)
    for label in np.unique(named):
        rows = np.flatnonzero(named == label)
        marked[rng.choice(rows, round(share * len(rows)), replace=False)] = True
    return marked


def _folder(package: str) -> Path:
    spec = util.find_spec(package)
    return Path(str(spec and spec.origin)).parent


def cancer(rng: Drawn) -> Made:
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "benign"})
    return table, stratified(table.benign, 0.4, rng), None


def wine(rng: Drawn) -> Made:
    from sklearn.datasets import load_wine

    table = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
    table["cultivar"] = table.cultivar.map({0: "barolo", 1: "grignolino", 2: "barbera"})
    return table, stratified(table.cultivar, 0.5, rng), None


def diabetes(rng: Drawn) -> Made:
    from sklearn.datasets import load_diabetes

    table = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    return table, rng.random(len(table)) < 0.4, None


def benchmark_scores(rng: Drawn) -> Made:
    table = pd.read_csv(SEEDS / "evidence.csv.gz")
    table = table[table.value.between(0, 100)].drop(columns=["source", "protocol", "direction"])
    return table, rng.random(len(table)) < 1 / 3, None


def digits(rng: Drawn) -> Made:
    from sklearn.datasets import load_digits

    shipped = load_digits()
    table = pd.DataFrame({"digit": shipped.target})
    return table, stratified(table.digit, 0.4, rng), (shipped.images * 255 / 16).astype(np.uint8)


def competitions(rng: Drawn) -> Made:
    rows = [json.loads(line) for line in (SEEDS / "competitions.jsonl").read_text("utf-8").splitlines()]
    table = pd.DataFrame(
        {"text": [r["description"] for r in rows], "task": [r["task"] or "other" for r in rows]}
    )
    table["task"] = table.task.where(table.task.map(table.task.value_counts()) >= 8, "other")
    return table, stratified(table.task, 0.4, rng), None


def docstrings(rng: Drawn) -> Made:
    rows: set[tuple[str, str]] = set()
    for package in DOCUMENTED:
        found: set[str] = set()
        files = sorted(file for file in _folder(package).rglob("*.py") if "tests" not in file.parts)
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
    return table, stratified(table.package, 0.4, rng), None


def life_expectancy(rng: Drawn) -> Made:
    del rng
    shipped = pd.read_csv(_folder("plotly") / "package_data" / "datasets" / "gapminder.csv.gz")
    table = shipped[["lifeExp", "country", "continent"]].assign(date=shipped.year.astype(str) + "-07-01")
    return table, (table.date > "1993").to_numpy(), None


_makers = (cancer, wine, diabetes, benchmark_scores, digits, competitions, docstrings, life_expectancy)
PACKAGED: dict[str, Callable[[Drawn], Made]] = {maker.__name__: maker for maker in _makers}


def archives() -> dict[str, Path]:
    """Archives of further sets, where the folder beside the checkout has them."""
    return {file.name.split(".")[0]: file for file in sorted(ARCHIVES.glob("*.tar.xz"))}


def build(name: str, root: Path) -> dict[str, Any]:
    """Writes a set below `root`; gives description, task, metric, target, minutes. The same on each call."""
    if name in PACKAGED:
        _write(name, *PACKAGED[name](np.random.default_rng(zlib.crc32(name.encode()))), root)
    else:
        with tarfile.open(archives()[name]) as packed:
            packed.extractall(root, filter="data")
    about: dict[str, Any] = json.loads((root / "answers" / f"{name}.json").read_text("utf-8"))
    return {"minutes": MINUTES.get(about["task"], 3.0), **about}


def _write(
    name: str, table: pd.DataFrame, test: NDArray[np.bool_], pictures: NDArray[np.uint8] | None, root: Path
) -> None:
    seen, answers, about = root / "sets" / name, root / "answers", ABOUT[name]
    seen.mkdir(parents=True, exist_ok=True)
    answers.mkdir(exist_ok=True)
    order = np.random.default_rng(0).permutation(len(table))  # the order of a source can betray the target
    table, test, target = table.iloc[order].reset_index(drop=True), test[order], about["target"]
    table.insert(0, "id", [f"{name[:2]}{row:05d}" for row in range(len(table))])
    hidden, labels = table.loc[test, ["id", target]], table.loc[~test, target]
    table[~test].to_csv(seen / "train.csv", index=False)
    table[test].drop(columns=target).to_csv(seen / "test.csv", index=False)
    if about["metric"] == "logloss":
        filled: dict[str, Any] = dict.fromkeys(sorted(labels.unique()), 1 / labels.nunique())
    else:
        filled = {target: 0.5 if about["metric"] == "auc" else labels.mode()[0]}
    hidden[["id"]].assign(**filled).to_csv(seen / "sample_submission.csv", index=False)
    if pictures is not None:
        from PIL import Image

        for id_, hides, picture in zip(table.id, test, pictures[order], strict=True):
            folder = seen / ("test" if hides else "train")
            folder.mkdir(exist_ok=True)
            Image.fromarray(picture).save(folder / f"{id_}.png")
    hidden.to_csv(answers / f"{name}.csv", index=False)
    (answers / f"{name}.json").write_text(json.dumps({"name": name, **about}), "utf-8")
