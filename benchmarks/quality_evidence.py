"""Public results that the quality model is fitted on: reading, choosing, and the part that ships.

`seeds/evidence.csv.gz` holds of `../shared/evidence` the rows of catalogue models (and of image models with a
published score) in tables of at least three models, with their sources. `python -m benchmarks.quality
--gather` writes it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memory_service import resources
from memory_service.domain.planning.model_catalogue import CatalogueModel, model_index, normal_model_name
from memory_service.domain.quality.quality_model import Kind, quality_kind

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "evidence"
SHIPPED = ROOT / "seeds" / "evidence.csv.gz"
COLUMNS = (
    "modality", "source", "protocol", "dataset", "task", "n_classes", "language", "subtask", "metric",
    "direction", "model", "published_score", "n_train", "epochs", "value",
)  # fmt: skip
LEAST_MODELS = 3
WORST = 3.0
"""Regret is cut at three times the distance from the best model to the median one."""

_TABRED = "yandex-research/tabred"
_LEFT_OUT = ("automlbenchmark", "hearbenchmark", "reczoo", "mlcommons", "roboflow", "parc", "task_adaptation")
_ISO = {
    "albanian": "sq", "bulgarian": "bg", "catalan": "ca", "croatian": "hr", "czech": "cs", "danish": "da",
    "dutch": "nl", "english": "en", "estonian": "et", "faroese": "fo", "finnish": "fi", "french": "fr",
    "german": "de", "greek": "el", "hungarian": "hu", "icelandic": "is", "italian": "it", "latvian": "lv",
    "lithuanian": "lt", "norwegian": "no", "polish": "pl", "portuguese": "pt", "romanian": "ro",
    "serbian": "sr", "slovak": "sk", "slovene": "sl", "spanish": "es", "swedish": "sv", "ukrainian": "uk",
}  # fmt: skip
_ALSO = {
    "ResNet101-U-Net-timm": ("unet/resnet101", "79.52"),
    "ResNet18 DeepLabV3-timm": ("deeplabv3plus/resnet18", "69.93"),
}
"""Models beside the catalogue in its notation, with the published score of the same encoder, less 0.3 for
DeepLabV3+ as there."""

_SUBTASKS = {
    "sentiment": "sentiment", "acceptability": "acceptability", "entity": "entities", "reading": "reading",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Results of several models on one data set under one protocol.

    values   model -> value, higher is better; regret: model -> (best - value) / (best - median), at most 3
    log_gap  log of the median model's error over the best one's, None where an error is no share
    """

    protocol: str
    dataset: str
    kind: Kind
    values: Mapping[str, float]
    regret: Mapping[str, float]
    log_gap: float | None
    task: str
    n_train: int | None


@dataclass(frozen=True)
class Evidence:
    """Tables with the published scores of their models and how much each counts: a data set counts once."""

    tables: tuple[Table, ...]
    scores: Mapping[str, float]
    weights: tuple[float, ...]


def gather(folder: Path = SHARED, target: Path = SHIPPED) -> None:
    """Write the part that ships; the same rows give the same bytes."""
    rows = []
    for name in ("tabular", "text", "time-series", "image", "image-dense"):
        with gzip.open(folder / f"{name}.csv.gz", "rt", newline="") as file:
            rows += [_row(raw) for raw in csv.DictReader(file) if _wanted(raw)]
    with gzip.open(folder / "forecasting.csv.gz", "rt", newline="") as file:
        rows += _forecasts(csv.DictReader(file))
    industrial = {row["dataset"] for row in rows if _TABRED in row["protocol"]}
    models = defaultdict(set)
    for row in rows:
        if (
            "/tabm/" in row["source"] and row["dataset"] in industrial
        ):  # TabM's authors used its data and splits
            row["protocol"] = row["protocol"].replace("yandex tabr+tabm", _TABRED)
        models[_key(row)].add(row["model"])
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        sorted(
            (row for row in rows if len(models[_key(row)]) >= LEAST_MODELS),
            key=lambda row: tuple(row[name] for name in COLUMNS),
        )
    )
    with target.open("wb") as raw_file, gzip.GzipFile("", "wb", 9, raw_file, mtime=0) as packed:
        packed.write(text.getvalue().encode())


def _wanted(raw: Mapping[str, str]) -> bool:
    named = (
        raw["model"] or raw["model_raw"] in _ALSO or (raw["published_score"] and "image" in raw["modality"])
    )
    source = raw["source"]
    return bool(
        named
        and raw["value"]
        and raw["task"] in _TASKS
        and not any(part in source for part in _LEFT_OUT)
        and not raw["variant"].startswith("default")
        and "inception_v3 at 224" not in raw["variant"]
    )


_TASKS = {
    "tabular-classification", "tabular-regression", "text-classification", "token-classification",
    "question-answering", "text-ranking", "text-pair-similarity", "time-series-classification",
    "time-series-regression", "image-classification", "image-segmentation",
}  # fmt: skip


def _row(raw: Mapping[str, str]) -> dict[str, str]:
    source, metric = raw["source"], raw["metric"].lower()
    protocol = "/".join(source.split("/")[:2])
    if "TALENT" in source:
        kind = re.search(r"cls_bin|cls_multi|regression", source)
        protocol = f"TALENT {kind[0] if kind else ''}"
        classes = {"cls_bin": "2", "cls_multi": "3"}.get(kind[0] if kind else "", "")
    else:
        classes = raw["n_classes"].removesuffix(".0")
    if "yandex" in source:
        protocol = "yandex tabr+tabm" if "tabred" not in source and "rtdl" not in source else protocol
        protocol += ", 5 averaged" if "averaged" in raw["variant"] else ", single"
    elif raw["variant"] and "seconds include" not in raw["variant"] and "TALENT" not in source:
        protocol += ", " + raw["variant"].split(";")[0]
    also = _ALSO.get(raw["model_raw"], (raw["model_raw"], raw["published_score"]))
    language = re.search(r"leaderboards/([a-z]+)_nlu", source)
    subtask = next((name for word, name in _SUBTASKS.items() if word in metric), "")
    return {
        "modality": raw["modality"],
        "source": source,
        "protocol": protocol,
        "dataset": raw["dataset"],
        "task": raw["task"],
        "n_classes": classes,
        "language": _ISO.get(language[1], "") if language else "ko" if "KLUE" in source else "",
        "subtask": subtask,
        "metric": "error" if "rmse" in metric else "score",
        "direction": raw["direction"],
        "model": raw["model"] or also[0],
        "published_score": raw["published_score"] or also[1],
        "n_train": raw["n_train"].removesuffix(".0"),
        "epochs": raw["epochs"].removesuffix(".0"),
        "value": f"{float(raw['value']):.6g}",
    }


_METRICS = {"MASE": "point", "SQL": "quantiles", "CRPS": "quantiles"}


def _forecasts(raws: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """Of models of the catalogue, by errors of points and of quantiles; none on data that its pretraining has
    seen, where its authors say so."""
    lines = resources.path("seeds", "models.jsonl").read_text().splitlines()
    names = model_index({row["name"]: CatalogueModel.from_dict(row) for row in map(json.loads, lines)})
    out = []
    for raw in raws:
        model, judged = names.get(normal_model_name(raw["model"])), _METRICS.get(raw["metric"])
        leaked = "seen_in_pretraining=True" in raw["variant"] or "leak=Yes" in raw["variant"]
        if model is not None and judged is not None and raw["value"] and not leaked:
            protocol = "fev-bench" if "fev" in raw["source"] else "GIFT-Eval"
            row = _row(raw) | {"modality": "forecasting", "protocol": protocol, "metric": "error"}
            out.append(row | {"model": model, "subtask": judged, "n_train": "", "epochs": ""})
    return out


def _key(row: Mapping[str, str]) -> tuple[str, ...]:
    return row["protocol"], row["dataset"], row["task"], row["metric"], row["subtask"]


def rows_of(path: Path | None = None) -> list[dict[str, str]]:
    """The rows that ship."""
    with gzip.open(path or resources.path("seeds", "evidence.csv.gz"), "rt", newline="") as file:
        return list(csv.DictReader(file))


def evidence_of(rows: Iterable[Mapping[str, str]], table: str) -> Evidence:
    """Tables of one kind of data ("tabular", "text", ...)."""
    grouped: dict[tuple[str, ...], list[Mapping[str, str]]] = defaultdict(list)
    scores: dict[str, float] = {}
    for row in rows:
        if row["modality"] == table:
            grouped[_key(row)].append(row)
            if row["published_score"]:
                scores[row["model"]] = float(row["published_score"])
    tables = []
    for key, group in grouped.items():
        values: dict[str, list[float]] = defaultdict(list)
        sign = 1.0 if group[0]["direction"] == "max" else -1.0
        for row in group:
            values[row["model"]].append(sign * float(row["value"]))
        means = {model: float(np.mean(found)) for model, found in sorted(values.items())}
        regret = regret_of(means)
        if len(means) >= LEAST_MODELS and regret is not None:
            first = group[0]
            tables.append(
                Table(
                    key[0],
                    first["dataset"],
                    _kind(first),
                    means,
                    regret,
                    _log_gap(means),
                    first["task"],
                    int(float(first["n_train"])) if first["n_train"] else None,
                )
            )
    counts = Counter(each.dataset for each in tables)
    return Evidence(tuple(tables), scores, tuple(1.0 / counts[each.dataset] for each in tables))


def regret_of(values: Mapping[str, float]) -> dict[str, float] | None:
    """Model -> (best - value) / (best - median), at most `WORST`; None where the median is the best."""
    found = np.array(list(values.values()))
    best, median = found.max(), np.median(found)
    if best - median <= 1e-12:
        return None
    return {model: float(min(WORST, (best - value) / (best - median))) for model, value in values.items()}


def _kind(row: Mapping[str, str]) -> Kind:
    if "embeddings" in row["source"]:
        subtask = {"text-ranking": "ranking", "text-pair-similarity": "similarity"}.get(row["task"], "labels")
        return Kind("text", "english", ("embedding", f"embedding/{subtask}"))
    if row["modality"] == "forecasting":
        return quality_kind(row["task"], forecasts=True, quantiles=row["subtask"] == "quantiles")
    classes = int(float(row["n_classes"])) if row["n_classes"] else None
    kind = quality_kind(row["task"], classes, row["language"] or None, row["subtask"] or None)
    return kind._replace(table=row["modality"])


def _log_gap(values: Mapping[str, float]) -> float | None:
    found = np.array(list(values.values()))
    errors = -found if found.max() < 0 else 1.0 - (found / 100.0 if found.max() > 1.5 else found)
    if errors.min() <= 0:
        return None
    return float(np.log(np.median(errors) / errors.min()))
