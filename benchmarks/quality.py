"""The quality model: fitted, checked on data sets left out, and written down.

python -m benchmarks.quality            seeds/quality.json, docs/methods/quality.md from seeds/evidence.csv.gz
python -m benchmarks.quality --gather   seeds/evidence.csv.gz from ../shared/evidence before that
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import Section
from benchmarks.quality_check import Regrets, pairs_of, regrets_of, reliability
from benchmarks.quality_evidence import evidence_of, gather, rows_of
from benchmarks.quality_fit import Fit, figures_of
from memory_service import resources

ROOT = Path(__file__).parents[1]
TARGET, PAGE = ROOT / "seeds" / "quality.json", ROOT / "docs" / "methods" / "quality.md"
TABLES = ("tabular", "text", "time-series", "forecasting", "image", "image-dense")

AIMS = {
    "TALENT binary": ("84", "75", "42"),
    "TALENT multiclass": ("53", "53", "30"),
    "TALENT regression": ("65", "50", "28"),
    "yandex": ("67", "52", "20"),
    "pyg-team/pytorch-frame": ("111", "60", ""),
    "fev-bench, point": ("148", "60", "35"),
    "UCR classification": ("81", "78", ""),
    "TSER regression": ("83", "78", ""),
    "image transfer sets": ("10", "12", ""),
    "geo-bench segmentation": ("49", "49", ""),
    "EuroEval, other languages": ("155", "28", ""),
    "EuroEval, English": ("34", "10", ""),
}
"""Group of tables -> regret of the formula before (on both halves), what was aimed at, and with two runs."""


def families() -> dict[str, str]:
    """Catalogue model -> family."""
    lines = resources.path("seeds", "models.jsonl").read_text().splitlines()
    return {row["name"]: row["family"] for row in map(json.loads, lines)}


def fitted() -> tuple[dict[str, Fit], dict[str, Any]]:
    """Fits by kind of data, and what ships of them."""
    rows, known = rows_of(), families()
    fits = {name: Fit(evidence_of(rows, name), known) for name in TABLES}
    return fits, {name: figures_of(fit, name, known) for name, fit in fits.items()}


def as_text(figures: dict[str, Any]) -> str:
    """The file that ships: a line for each model and figure."""
    parts = []
    for name, row in sorted(figures.items()):
        lines = [f"  {json.dumps(key)}: {_value(value)}" for key, value in sorted(row.items())]
        parts.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _value(value: Any) -> str:
    if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
        lines = [f"   {json.dumps(key)}: {json.dumps(each)}" for key, each in sorted(value.items())]
        return "{\n" + ",\n".join(lines) + "\n  }"
    return json.dumps(value)


def report(fits: dict[str, Fit], figures: dict[str, Any]) -> str:
    """The tables of docs/methods/quality.md."""
    return "\n".join([*_regrets(fits, figures), "", *_reliability(fits, figures), "", *_figures(figures)])


def _regrets(fits: dict[str, Fit], figures: dict[str, Any]) -> Iterator[str]:
    yield "## Regret on data sets left out"
    yield ""
    yield (
        "| tables | data sets | models | **model** | half left out | published score "
        "| best mean rank of the others | random | one model, in hindsight | formula before | aim "
        "| **two runs** | aim |"
    )
    yield "|" + "---|" * 13
    for name, fit in fits.items():
        found = regrets_of(fit, figures[name]["difference_sd"], families())
        for group, regrets in found.items():
            before, aim, two = AIMS.get(group, ("", "", ""))
            cells = [_mean(regrets, way) for way in ("half", "score", "rank", "random")]
            yield (
                f"| {group} | {regrets.datasets} | {len(regrets.by_model)} | **{_mean(regrets, 'model')}** "
                f"| {' | '.join(cells)} | {regrets.hindsight:.0f} | {before} | {aim} "
                f"| **{_mean(regrets, 'two')}** | {two} |"
            )


def _mean(regrets: Regrets, way: str) -> str:
    if way not in regrets.found:
        return "-"
    low, high = regrets.interval(way)
    return f"{regrets.mean(way):.0f} ({low:.0f}-{high:.0f})"


def _reliability(fits: dict[str, Fit], figures: dict[str, Any]) -> Iterator[str]:
    yield "## Are its probabilities true?"
    yield ""
    yield (
        "Every pair of models of every table, its data set left out: the probability that the one expected\n"
        "to be better is better, and how often it was. The last column: how often the difference of two\n"
        "models lay inside its 80 % interval."
    )
    yield ""
    yield "| kind of data | said → came true (pairs) | inside 80 % |"
    yield "|---|---|---|"
    for name, fit in fits.items():
        pairs = list(pairs_of(fit, figures[name]["difference_sd"], families()))
        cells = ", ".join(
            f"{100 * said:.0f} → {100 * won:.0f} % ({count})" for said, won, count in reliability(pairs)
        )
        yield f"| {name} | {cells} | {100 * np.mean([pair[2] for pair in pairs]):.0f} % |"


def _figures(figures: dict[str, Any]) -> Iterator[str]:
    yield "## Figures"
    yield ""
    yield (
        "Units of z. Slope: for three points of published score. Difference: standard deviation between two\n"
        "models on one data set beyond their expectation, of the same family and of different ones."
    )
    yield ""
    heads = "kind of data", "data sets", "models", "points per unit", "slope", "many languages", "differences"
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for name, row in figures.items():
        slopes = ", ".join(f"{key} {value:.2f}" for key, value in row["slopes"].items())
        more = ", ".join(f"{key} {value:+.2f}" for key, value in row["multilingual"].items()) or "-"
        classes = {key: sd for key, sd in row["difference_sd"].items() if _class_pair(key)}
        shown = ", ".join(f"{key.replace('|', ' - ')} {sd:.2f}" for key, sd in classes.items())
        unit = f"{row['points_per_unit']:.2f}"
        models = str(len(families().keys() & row["effects"].keys()))
        cells = (name, str(row["n_datasets"]), models, unit, slopes, more, shown)
        yield f"| {' | '.join(cells)} |"


def _class_pair(key: str) -> bool:
    return set(key.split("|")) <= {"gbdt", "forest", "linear", "network", "family"}


def main() -> None:
    if "--gather" in sys.argv:
        gather()
    fits, figures = fitted()
    TARGET.write_text(as_text(figures))
    section = Section("quality", PAGE)
    section.keep(section.marked(report(fits, figures)))


if __name__ == "__main__":
    main()
