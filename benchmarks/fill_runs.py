"""What do ten thousand finished runs leave behind? Real ones to begin with, then copies of what they left.

The first are begun from plans, told and ended by the services themselves; the others take over their rows
under ids, times and step times of their own. A million events so take seconds.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import insert, select, text

from benchmarks.fill import _settle as settle
from memory_service.services.recommend import recommend
from memory_service.services.runs import begin_run, finish_run
from memory_service.services.telemetry import take_events
from memory_service.services.unit import Database
from memory_service.store import runs as stored
from memory_service.store.outcome_tables import Outcome, Serving
from memory_service.store.rows import all_rows
from memory_service.store.run_tables import Observation, Run, RunAdvice, RunEvent, RunSummary

__all__ = ["EVENTS", "fill_runs"]

EVENTS = 100
"""Of each run: 10 epochs, 50 counts of steps and 40 samples of the card."""

TOLD = 400
"""Runs that really were told; a hundred of them are the small database."""

_SEED = 11
_START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
_CHUNK = 2_000
_EPOCHS, _STEPS, _SAMPLES = 10, 50, 40
CARDS = ("a100", "t4", "v100", "rtx3090", "l4", "a10g", "h100", "rtx4090", "p100", "a100-80gb")
MODELS = (
    "resnet18", "resnet34", "resnet50", "resnet101", "efficientnet_b0", "efficientnet_b3",
    "tf_efficientnet_b4", "convnext_tiny", "convnext_small", "vit_small_patch16_224", "vit_base_patch16_224",
    "mobilenetv3_large_100", "regnety_016", "densenet121", "seresnext50_32x4d",
    "swin_tiny_patch4_window7_224",
)  # fmt: skip


def fill_runs(url: str, count: int) -> None:
    """Add runs that ended until there are `count`, with `EVENTS` events each."""
    database = Database(url)
    draw = random.Random(_SEED)
    told = _told(database, draw, min(count, TOLD))
    if count > len(told):
        _copied(database, draw, told, count - len(told))
    with database.tell():
        pass  # leaves a connection behind that may write
    settle(database)
    database.close()


def _told(database: Database, draw: random.Random, count: int) -> list[str]:
    """Runs begun from plans for shipped competitions of pictures, told and ended; their ids."""
    with database.read() as unit:
        rows = all_rows(unit.session, "competitions")
    slugs = [row["slug"] for row in rows if row["task"] == "image-classification"]
    plans = [
        recommend(database, {"competition": slug, "gpu": card, "minutes": 60})
        for slug in slugs[:20]
        for card in CARDS[:2]
    ]
    bodies = [_body(draw, n, slugs, plans) for n in range(count)]
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
    draw: random.Random, n: int, slugs: Sequence[str], plans: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What a run says when it begins: every other one follows a plan."""
    body: dict[str, Any] = {
        "run_id": _uuid(draw), "task": "image", "gpu": draw.choice(CARDS),
        "model": draw.choice(MODELS), "batch_size": draw.choice((16, 32, 64, 128)), "image_size": 224,
        "precision": draw.choice(("fp16", "fp32")), "folds": 1, "epochs": _EPOCHS, "n_train": 20_000,
        "minutes": 60, "competition": draw.choice(slugs),
        "started_at": (_START + dt.timedelta(minutes=30 * n)).isoformat(),
    }  # fmt: skip
    plan = draw.choice(plans)
    if n % 2 and plan["feasible"] and "image_size" in plan["model"]:
        body |= {
            "plan_id": plan["plan_id"], "model": plan["model"]["name"], "gpu": plan["gpu"]["slug"],
            "image_size": plan["model"]["image_size"], "batch_size": plan["batch_size"],
            "precision": plan["precision"], "folds": plan["folds"], "epochs": plan["epochs"],
        }  # fmt: skip
    return body


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


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


def _copied(database: Database, draw: random.Random, told: Sequence[str], count: int) -> None:
    """Rows of `count` more runs like those that were told."""
    with database.read() as unit:
        runs = {row["id"]: dict(row) for row in unit.session.execute(select(Run.__table__)).mappings()}
        outcomes = {
            row["run_id"]: dict(row) for row in unit.session.execute(select(Outcome.__table__)).mappings()
        }
    with database.write() as unit:
        session = unit.session
        session.execute(text("CREATE TEMPORARY TABLE copies (old VARCHAR, new VARCHAR)"))
        pairs = [(old, _uuid(draw), n) for n in range(count) for old in (told[n % len(told)],)]
        later = [dt.timedelta(minutes=30 * (n + len(told))) for _, _, n in pairs]
        session.execute(
            text("INSERT INTO copies VALUES (:old, :new)"), [{"old": o, "new": n} for o, n, _ in pairs]
        )
        for start in range(0, count, _CHUNK):
            chunk = list(zip(pairs[start : start + _CHUNK], later[start : start + _CHUNK], strict=True))
            session.execute(insert(Run), [_moved(runs[old], new, shift) for (old, new, _), shift in chunk])
            session.execute(
                insert(Outcome),
                [
                    outcomes[old] | {"run_id": new, "ended_at": outcomes[old]["ended_at"] + shift}
                    for (old, new, _), shift in chunk
                ],
            )
        for table in _AS_THEY_ARE:
            names = ", ".join(c.name for c in table.__table__.columns if c.name != "run_id")
            session.execute(
                text(
                    f"INSERT INTO {table.__tablename__} (run_id, {names}) "
                    f"SELECT copies.new, {names} FROM copies "
                    f"JOIN {table.__tablename__} ON {table.__tablename__}.run_id = copies.old"
                )
            )
        session.execute(text("DROP TABLE copies"))
        _observed(unit, draw, pairs, later)


_AS_THEY_ARE = (RunEvent, RunSummary, RunAdvice, Serving)


def _moved(run: Mapping[str, Any], new: str, shift: dt.timedelta) -> dict[str, Any]:
    times = ("started_at", "finished_at", "created_at", "updated_at")
    return (
        dict(run)
        | {"id": new}
        | {name: run[name] + shift for name in times if name in ("started_at", "finished_at")}
    )


def _observed(
    unit: Any, draw: random.Random, pairs: Sequence[tuple[str, str, int]], later: Sequence[dt.timedelta]
) -> None:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in unit.session.execute(select(Observation.run_id, Observation.observation)):
        found.setdefault(row.run_id, []).append(row.observation)
    rows = []
    for (old, new, n), shift in zip(pairs, later, strict=True):
        for number, wire in enumerate(found.get(old, ())):
            seconds = wire["step_seconds"]
            at = dt.datetime.fromisoformat(wire["at"]) + shift
            one = dict(wire) | {
                "run_id": new, "source": f"run {new}", "at": at.replace(tzinfo=None).isoformat() + "Z",
                "step_seconds": seconds and seconds * draw.uniform(0.95, 1.05),
            }  # fmt: skip
            rows.append(
                {
                    "id": f"{new}/{number}", "run_id": new, "observation": one,
                    "subject": "|".join(str(one.get(name)) for name in stored.SUBJECT),
                    "updated_at": unit.now + dt.timedelta(microseconds=n - len(pairs)),
                    **{name: one[name] for name in ("gpu", "device", "model")},
                }
            )  # fmt: skip
    unit.session.execute(insert(Observation), rows)
