"""What do runs tell that differ in little but their card and model? Such that medians over few and over many
compare.

Each is begun from a plan or beside it, told and ended by the services themselves.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend
from memory_service.services.runs.runs import begin_run, finish_run
from memory_service.store.queries.rows import all_rows
from tests.telling import take_events

__all__ = ["EVENTS", "tell_alike"]

EVENTS = 100
"""Of each run: 10 epochs, 50 counts of steps and 40 samples of the card."""

_SEED = 11
_EPOCHS, _STEPS, _SAMPLES = 10, 50, 40
CARDS = ("a100", "t4", "v100", "rtx3090", "l4", "a10g", "h100", "rtx4090", "p100", "a100-80gb")
MODELS = (
    "resnet18", "resnet34", "resnet50", "resnet101", "efficientnet_b0", "efficientnet_b3",
    "tf_efficientnet_b4", "convnext_tiny", "convnext_small", "vit_small_patch16_224", "vit_base_patch16_224",
    "mobilenetv3_large_100", "regnety_016", "densenet121", "seresnext50_32x4d",
    "swin_tiny_patch4_window7_224",
)  # fmt: skip


def tell_alike(database: Database, count: int, now: dt.datetime) -> list[str]:
    """Runs begun from plans for shipped competitions of pictures, told and ended, the last a day ago; their
    ids. The same `now` gives the same rows."""
    draw = random.Random(_SEED)
    with database.read() as unit:
        rows = all_rows(unit.session, "competitions")
    slugs = [row["slug"] for row in rows if row["task"] == "image-classification"]
    plans = [
        recommend(database, {"competition": slug, "gpu": card, "minutes": 60})
        for slug in slugs[:20]
        for card in CARDS[:2]
    ]
    first = now - dt.timedelta(days=1, minutes=30 * count)
    bodies = [_body(draw, first + dt.timedelta(minutes=30 * n), n, slugs, plans) for n in range(count)]
    keys = [begin_run(database, body)[0]["run_id"] for body in bodies]
    # All are begun before any ends: what was learned would be read anew for each.
    for key, body in zip(keys, bodies, strict=True):
        take_events(database, key, {"events": list(_events(draw, body))})
        end = _moment(body) + dt.timedelta(minutes=20)
        finish_run(
            database,
            key,
            {
                "status": "completed"
                if draw.random() < 0.9
                else draw.choice(["out_of_memory", "timed_out", "stopped"]),
                "best_metric": round(draw.uniform(0.5, 0.95), 4),
                "submission": draw.random() < 0.9,
                "at": end.isoformat(),
            },
        )
    return keys


def _body(
    draw: random.Random,
    started: dt.datetime,
    n: int,
    slugs: Sequence[str],
    plans: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What a run says when it begins: every other one follows a plan."""
    body: dict[str, Any] = {
        "run_id": str(uuid.UUID(int=draw.getrandbits(128), version=4)), "task": "image",
        "gpu": draw.choice(CARDS), "model": draw.choice(MODELS),
        "batch_size": draw.choice((16, 32, 64, 128)), "image_size": 224,
        "precision": draw.choice(("fp16", "fp32")), "folds": 1, "epochs": _EPOCHS, "n_train": 20_000,
        "minutes": 60, "competition": draw.choice(slugs),
        "started_at": started.isoformat(),
    }  # fmt: skip
    plan = draw.choice(plans)
    if n % 2 and plan["feasible"] and "image_size" in plan["model"]:
        body |= {
            "plan_id": plan["plan_id"], "model": plan["model"]["name"], "gpu": plan["gpu"]["slug"],
            "image_size": plan["model"]["image_size"], "batch_size": plan["batch_size"],
            "precision": plan["precision"], "folds": plan["folds"], "epochs": plan["epochs"],
        }  # fmt: skip
    return body


def _moment(body: Mapping[str, Any]) -> dt.datetime:
    return dt.datetime.fromisoformat(body["started_at"])


def _events(draw: random.Random, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """`EVENTS` events of 20 minutes, in the order of their times."""
    start, took = _moment(body), draw.uniform(20.0, 110.0)
    kinds = ["epoch"] * _EPOCHS + ["batch"] * _STEPS + ["gpu"] * _SAMPLES
    moments = sorted(
        ((i + 1) * 1150.0 / kinds.count(kind), kind)
        for kind in ("epoch", "batch", "gpu")
        for i in range(kinds.count(kind))
    )
    epoch = step = 0
    for seq, (seconds, kind) in enumerate(moments):
        event: dict[str, Any] = {
            "seq": seq,
            "kind": kind,
            "at": (start + dt.timedelta(seconds=seconds)).isoformat(),
        }
        if kind == "epoch":
            event |= {
                "fold": 0, "epoch": epoch, "seconds": took * draw.uniform(0.98, 1.02), "samples": 16_000,
                "train_loss": 1.0 / (epoch + 1), "valid_loss": 1.1 / (epoch + 1),
                "metric": 0.9 - 0.5 / (epoch + 1), "peak_reserved_gib": 9.0, "peak_allocated_gib": 8.0,
            }  # fmt: skip
            epoch += 1
        elif kind == "batch":
            step += 25
            event |= {"fold": 0, "epoch": epoch, "step": step}
        else:
            event |= {"utilization_percent": draw.uniform(70, 99), "used_gib": 9.5, "power_w": 210.0}
        yield event
