"""What is said of a run when it begins? What the script passed, what its plan and the machine say."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_service import __version__
from memory_service.client.gauge import cores

__all__ = ["body_of", "from_plan", "host_facts"]

PLAIN = (
    "task",
    "plan_id",
    "minutes",
    "batch_size",
    "precision",
    "folds",
    "epochs",
    "grad_accumulation",
    "optimizer",
)
SIZES = ("image_size", "seq_len", "n_features")
NAMED = {"batch": "batch_size", "workers": "num_workers", "max_epochs": "epochs"}
"""Other words for a field that scripts use."""


def body_of(given: Mapping[str, Any], plan: Any = None) -> dict[str, Any]:
    """The body of POST /runs but for `gpu: "auto"`: given fields first, then the plan's. Values are made
    plain; what is None is not said."""
    body = from_plan(plan)
    for name, value in given.items():
        if value is not None:
            body[NAMED.get(name, name)] = _plain(value)
    return body


def from_plan(plan: Any) -> dict[str, Any]:
    """What an answer of /recommend (as a mapping, its JSON text, or a file with it) says of the run."""
    if isinstance(plan, (str, Path)):
        text = str(plan)
        plan = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    if not isinstance(plan, Mapping):
        return {}
    model, loader, gpu = (plan.get(name) or {} for name in ("model", "data_loader", "gpu"))
    body = {name: plan[name] for name in PLAIN if plan.get(name) is not None}
    body |= {name: model[name] for name in SIZES if model.get(name) is not None}
    if model.get("name"):
        body["model"] = model["name"]
    if loader.get("num_workers") is not None:
        body["num_workers"] = loader["num_workers"]
    if "channels_last" in plan:
        body["layout"] = "nhwc" if plan["channels_last"] else "nchw"
    if plan.get("compile"):
        body["compiled"] = True
    if isinstance(gpu, Mapping) and gpu.get("device"):
        body["gpu"] = gpu["device"]
    return body


def host_facts() -> dict[str, Any]:
    """Facts of this machine and process; `cpu_count` is what the service reckons with."""
    facts: dict[str, Any] = {
        "cpu_count": cores(),
        "system": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "pid": os.getpid(),
        "command": " ".join(sys.argv)[:300],
        "client": __version__,
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        facts["torch"] = str(getattr(torch, "__version__", ""))
    return facts


def _plain(value: Any) -> Any:
    """JSON's own types; numpy's and torch's scalars by their value, anything else as text."""
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    item = getattr(value, "item", None)
    return _plain(item()) if callable(item) else str(value)
