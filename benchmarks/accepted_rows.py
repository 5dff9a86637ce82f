"""Does an accepted row ever break an answer? Rows of cards and models with figures at their bounds are added
or corrected, and each that is accepted is priced, shown and run.

python -m benchmarks.accepted_rows [rows [seed]]   of a database of its own; prints every answer of 500
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from fastapi.testclient import TestClient

from memory_service.app import create_app
from memory_service.settings import load_settings

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


def bare_models(count: int, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Models of which only what is required is said."""
    for n in range(count):
        yield {
            "name": f"zz-bare-{n}", "library": LIBRARIES[n % len(LIBRARIES)], "tasks": [draw.choice(TASKS)],
            "family": draw.choice(("zz", "gbdt")), "input_kind": KINDS[n // len(LIBRARIES) % len(KINDS)],
            "params_m": draw.choice((0.0, 10.0, 1e5)), "default_input_size": draw.choice((1, 32, 224)),
            "pretrained": bool(n % 2), "quality_score": 50.0,
        }  # fmt: skip


def odd_sheets(count: int, draw: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """(slug, changes of `SHEET`): one or two figures at or beyond a bound."""
    for n in range(count):
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


def broken_by_sheets(client: TestClient, count: int, draw: random.Random) -> tuple[int, list[str]]:
    """(how many changes were accepted, requests that were answered with 500) of cards that are corrected."""
    accepted, broken = 0, []
    for slug, changes in odd_sheets(count, draw):
        assert client.post("/gpus", json={**SHEET, "slug": slug}).status_code == 201
        corrected = client.patch(f"/gpus/{slug}", json=changes)
        if corrected.status_code == 200:
            accepted += 1
            broken += [
                f"{slug} {changes}: {asked}" for asked in broken_answers(client, gpu=slug, model="resnet50")
            ]
        elif corrected.status_code != 422:
            broken.append(f"PATCH {changes}: {corrected.status_code}")
    return accepted, broken


def broken_answers(client: TestClient, gpu: str, model: str, task: str = "image-classification") -> list[str]:
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
    answers = ((path, client.post(path, json=body) if body else client.get(path)) for path, body in asked)
    return [f"{path} {answer.text[:200]}" for path, answer in answers if answer.status_code >= 500]


def broken_by_models(client: TestClient, count: int, draw: random.Random) -> list[str]:
    """Requests about models of which little is said that were answered with 500."""
    rows = list(bare_models(count, draw))
    for row in rows:
        added = client.post("/models", json=row)
        assert added.status_code in (201, 422), added.text
    return [one for row in rows for gpu in ("a100", "cpu")
            for one in broken_answers(client, gpu, row["name"], row["tasks"][0])]  # fmt: skip


def main(rows: int, seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(database_url=f"sqlite:///{folder}/rows.sqlite3", calibrate=False)
        with TestClient(create_app(settings), raise_server_exceptions=False) as client:
            client.app.state.service.preparation.wait(300)  # type: ignore[attr-defined]
            draw = random.Random(seed)
            accepted, broken = broken_by_sheets(client, rows, draw)
            print(f"{accepted} of {rows} corrected cards were accepted")
            broken += broken_by_models(client, rows, draw)
    print(*broken, f"{len(broken)} answers of 500", sep="\n")
    return min(1, len(broken))


if __name__ == "__main__":
    sys.exit(main(int((sys.argv[1:] or ["300"])[0]), int((sys.argv[2:] or ["1"])[0])))
