"""Rows of cards and models with figures at their bounds, added or corrected, and what is asked of those that
are accepted: it must never be answered with 500.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import count, product
from typing import Any

from fastapi.testclient import TestClient

EXTREMES = (0, 5e-324, 1e-300, 1e-9, 1e-3, 0.1, 0.5, 1, 2, 7, 1e3, 1e5, 1e6, 1e9, 1e12, 1e15, -1, 2**63)
SHEET: dict[str, Any] = {
    "name": "Card of a test", "kind": "cuda", "architecture": "ampere", "memory_gib": 40.0,
    "usable_gib": 39.0, "bandwidth_gb_s": 1555.0, "tflops": {"fp32": 19.5, "fp16": 312.0, "bf16": 312.0},
    "compute_capability": 8.0, "tdp_w": 400.0,
}  # fmt: skip
KINDS = ("image_size", "seq_len", "n_features")
LIBRARIES = ("timm", "transformers", "smp", "torchvision", "ultralytics", "lightgbm", "sklearn", "own")
TASKS = ("image-classification", "text-classification", "tabular-classification", "image-segmentation",
         "object-detection", "audio-classification", "time-series-regression", "seq2seq", "recommendation",
         "point-cloud")  # fmt: skip


def bare_models(draw: random.Random) -> Iterator[dict[str, Any]]:
    """Models of which only what is required is said: every library x kind of input x task once."""
    every = list(product(LIBRARIES, KINDS, TASKS))
    draw.shuffle(every)
    for library, kind, task in every:
        yield {
            "name": f"zz-{library}-{kind}-{task}", "library": library, "tasks": [task], "input_kind": kind,
            "family": draw.choice(("zz", "gbdt")), "params_m": draw.choice((0.0, 10.0, 1e5)),
            "default_input_size": draw.choice((1, 32, 224)), "pretrained": draw.random() < 0.5,
            "quality_score": 50.0,
        }  # fmt: skip


def odd_models(
    rows: Mapping[str, Mapping[str, Any]], draw: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, changes): figures of shipped models that are words, lists, none, or at a bound."""
    values: tuple[Any, ...] = (
        0,
        1,
        2,
        7,
        256,
        32_768,
        2_000_000,
        10**9,
        0.5,
        None,
        "a",
        [],
        [1, 2],
        ["lora"],
        {},
        True,
    )
    names = sorted(rows)
    by_formula = [name for name in names if rows[name]["config"].keys() & {"methods", "cost", "figures"}]
    while True:
        name = draw.choice(draw.choice((names, by_formula)))
        config = deepcopy(rows[name]["config"])
        part = config["figures"] if config.get("figures") and draw.random() < 0.7 else config
        if part:
            part[draw.choice(sorted(part))] = draw.choice(values)
        changes: dict[str, Any] = {
            "config": draw.choice((config, config, {}, {"cost": "zz"}, {"methods": ["lora"]})),
            "default_input_size": draw.choice((1, 7, 32, 2_000_000, 10**9)), "input_kind": draw.choice(KINDS),
            "params_m": draw.choice(EXTREMES), "quality": {"imagenet_top1": draw.choice(EXTREMES)},
            "library": draw.choice(LIBRARIES), "family": draw.choice(("zz", "gbdt")), "input_sizes": [],
            "tasks": [draw.choice(TASKS)], "device": draw.choice(("gpu", "cpu", "both")),
        }  # fmt: skip
        chosen = draw.sample(sorted(changes), draw.choice((1, 1, 2)))
        yield name, {field: changes[field] for field in chosen}


def odd_sheets(draw: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """(slug, changes of `SHEET`): one or two figures at or beyond a bound."""
    for n in count():
        changes: dict[str, Any] = {}
        for _ in range(draw.choice((1, 1, 2))):
            figure: Any = draw.choice(EXTREMES)
            name = draw.choice(
                ("tdp_w", "tflops", "bandwidth_gb_s", "memory_gib", "compute_capability", "extra", "sm_count",
                 "l2_cache_mib", "kind", "architecture")
            )  # fmt: skip
            match name:
                case "tflops":
                    figure = {"fp32": figure, draw.choice(("tf32", "fp16", "int8")): draw.choice(EXTREMES)}
                case "extra":
                    figure = {"cores": figure}
                case "kind":
                    figure = draw.choice(("cpu", "mps"))
                case "architecture":
                    figure = draw.choice(("volta", "pascal", "zz"))
            changes[name] = figure
            if name == "memory_gib":
                changes["usable_gib"] = figure
        yield f"zz-card-{n}", changes


def broken_by_sheets(
    client: TestClient, sheets: Iterable[tuple[str, dict[str, Any]]]
) -> tuple[int, list[str]]:
    """(how many changes were accepted, requests that were answered with 500) of cards that are corrected."""
    accepted, broken = 0, []
    for slug, changes in sheets:
        assert client.post("/gpus", json={**SHEET, "slug": slug}).status_code == 201
        corrected = client.patch(f"/gpus/{slug}", json=changes)
        accepted += corrected.status_code == 200
        if corrected.status_code == 200:
            found = broken_answers(client, gpu=slug, model="resnet50")
            broken += [f"{slug} {changes}: {asked}" for asked in found]
        elif corrected.status_code != 422:
            broken.append(f"PATCH {changes}: {corrected.status_code}")
    return accepted, broken


def broken_by_corrections(
    client: TestClient, corrections: Iterable[tuple[str, dict[str, Any]]], at_once: int = 1
) -> tuple[int, list[str]]:
    """The same of shipped models that are corrected; they are taken back one by one, or after `at_once` of
    different models: all that was priced before a change is priced anew after it."""
    accepted, broken = 0, list[str]()
    made: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def ask() -> None:
        for name, (changes, row) in made.items():
            but = ("/conflicts", "/gpus", "/browse/devices")
            found = broken_answers(client, "a100", name, row["tasks"][0], but=but)
            broken.extend(f"{name} {changes}: {asked}" for asked in found)
        for name, (changes, row) in made.items():
            back = client.patch(f"/models/{name}", json={field: row["before"][field] for field in changes})
            assert back.status_code == 200, back.text
        made.clear()

    for name, changes in corrections:
        if name in made:
            ask()
        before = client.get(f"/models/{name}").json()
        corrected = client.patch(f"/models/{name}", json=changes)
        if corrected.status_code == 200:
            accepted += 1
            made[name] = (changes, {"tasks": corrected.json()["tasks"], "before": before})
        elif corrected.status_code != 422:
            broken.append(f"PATCH {name} {changes}: {corrected.status_code}")
        if len(made) == at_once:
            ask()
    ask()
    return accepted, broken


def broken_answers(
    client: TestClient, gpu: str, model: str, task: str = "image-classification", but: tuple[str, ...] = ()
) -> list[str]:
    """Requests about the card and the model that were answered with 500."""
    run = {
        "task": task,
        "gpu": gpu,
        "model": model,
        "batch_size": 8,
        "n_train": 5_000,
        "folds": 2,
        "epochs": 2,
    }
    asked: list[tuple[str, Any]] = [
        (f"/predict?model={model}&gpu={gpu}", None),
        (f"/recommend?task={task}&size=small&gpu={gpu}&model={model}", None),
        ("/runs", run),
        ("/conflicts", None),
        (f"/browse/sizing/{gpu}/{model}", None),
        (f"/browse/models/{model}", None),
        (f"/browse/devices/{gpu}", None),
        (f"/gpus/{gpu}", None),
    ]
    asked = [each for each in asked if not each[0].startswith(but)]
    answers = ((path, client.post(path, json=body) if body else client.get(path)) for path, body in asked)
    return [f"{path} {answer.text[:200]}" for path, answer in answers if answer.status_code >= 500]


def shipped_models(client: TestClient) -> dict[str, dict[str, Any]]:
    """Name -> row."""
    found: dict[str, dict[str, Any]] = {}
    after = ""
    while True:
        page = client.get(f"/models?limit=500{after}").json()
        found |= {row["name"]: row for row in page["items"]}
        if page["next"] is None:
            return found
        after = f"&cursor={page['next']}"
