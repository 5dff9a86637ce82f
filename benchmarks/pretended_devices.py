"""Two registered devices, calibrated twice: made up, for screenshots and for pages under load."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.devices.calibrations import accept

__all__ = ["CARDS", "pretend_devices"]

CARDS = ("lab-a100", "class-t4", "rtx3090", "l4", "h100")
"""What runs of such a database ran on."""

DEVICES = (("lab-a100", "a100", "NVIDIA A100-SXM4-40GB", 39.4), ("class-t4", "t4", "Tesla T4", 14.6))


def pretend_devices(database: Database, seed: int, now: dt.datetime) -> None:
    """Two registered devices, calibrated twice, three weeks apart; their rates are the data sheets' with a
    spread."""
    from tests.synthetic import Truth, calibration, sheets

    draw = random.Random(f"devices {seed}")
    for name, gpu, says, memory in DEVICES:
        for nth, days in enumerate((24.0, 3.0)):
            made = calibration(sheets()[gpu], Truth(seed, 0.1, overall=0.94**nth), noise=0.015)
            sections = {key: vars_of(one, draw) for key, one in made.sections.items()}
            accept(database, {
                "id": _uuid(draw), "device": name, "status": "done", "budget_seconds": 60.0,
                "fingerprint": {
                    "kind": "cuda", "name": says, "uuid": f"GPU-{name}", "memory_gib": memory,
                    "architecture": sheets()[gpu].architecture, "driver": "570.86", "torch": "2.8.0",
                    "cuda": "12.8", "cudnn": "9.1", "cores": 12, "host_cpu": "AMD EPYC 7543",
                },
                "sections": sections, "seconds": 58.0 + nth, "progress": 1.0,
                "started_at": (now - dt.timedelta(days=days)).isoformat(), "word": "cuda:0",
                "host": f"{name}.lan", "version": "0.1.0",
            })  # fmt: skip


def vars_of(one: Any, draw: random.Random) -> dict[str, Any]:
    """A measurement as it is posted, with a spread."""
    spread = draw.uniform(0.004, 0.03)
    low, high = one.value * (1.0 - spread), one.value * (1.0 + spread)
    return {"value": one.value, "unit": one.unit, "p20": low, "p80": high, "n": draw.randint(7, 30)}


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))
