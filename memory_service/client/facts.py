"""Facts sent when a run begins: arguments, plan, and what the machine says."""

import contextlib
import json
import math
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_service import __version__
from memory_service.client.gpu_sampler import cores

PLAIN = ("task", "plan_id", "minutes", "precision", "folds", "epochs")
OF_THE_MODEL = ("batch_size", "grad_accumulation", "learning_rate")
SIZES = ("image_size", "seq_len", "n_features")
CUSTOM = "custom"
"""What a network or a card is called that the service does not know: watched, without predictions."""

NAMED = {"batch": "batch_size", "workers": "num_workers", "max_epochs": "epochs", "lr": "learning_rate"}
"""Other words for a field that scripts use."""


def body_of(fields: Mapping[str, Any], plan: Any = None) -> dict[str, Any]:
    """The body of POST /runs but for `gpu: "auto"`: explicit fields first, then the plan's."""
    body = from_plan(plan, fields.get("model"))
    for name, value in fields.items():
        if value is not None:
            body[NAMED.get(name, name)] = _plain(value)
    return body


def from_plan(plan: Any, model: Any = None) -> dict[str, Any]:
    """The run's facts in an answer of /recommend (mapping, JSON text or file).

    The batch and sizes only for the plan's model. No gpu: only the service knows the registered devices.
    """
    if isinstance(plan, (str, Path)):
        text = str(plan)
        plan = json.loads(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    if not isinstance(plan, Mapping):
        return {}
    planned, loader = plan.get("model") or {}, plan.get("data_loader") or {}
    body = {name: plan.get(name) for name in PLAIN} | {"num_workers": loader.get("num_workers")}
    if body["plan_id"]:
        body["plan"] = dict(plan)  # the service may have forgotten it
    if model in (None, planned.get("name")):
        body |= {name: plan.get(name) for name in OF_THE_MODEL}
        body |= {name: planned.get(name) for name in SIZES} | {"model": planned.get("name")}
        body |= {"compiled": plan.get("compile"), "checkpointing": plan.get("gradient_checkpointing")}
        if "channels_last" in plan:
            body["layout"] = "nhwc" if plan["channels_last"] else "nchw"
    return {name: value for name, value in body.items() if value is not None and value is not False}


def custom_model(module: Any, facts: Mapping[str, Any]) -> str | None:
    """`custom/<class>` for a network known only by its class; None where a plan names the model."""
    planned = facts.get("plan") is not None or facts.get("plan_id") is not None
    return None if planned else f"{CUSTOM}/{type(module).__name__}"


def host_facts() -> dict[str, Any]:
    """Facts of this machine and process."""
    facts: dict[str, Any] = {
        "hostname": platform.node(),
        "cpu_count": cores(),
        "system": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "pid": os.getpid(),
        "command": " ".join(sys.argv)[:300],
        "client": __version__,
    }
    with contextlib.suppress(ValueError):  # no or a wrong value: nothing is told
        waited = time.time() - float(os.environ.get("MEMORY_ORDERED_AT", ""))
        facts |= {"start_up_minutes": round(waited / 60.0, 3)} if 0.0 < waited < 86_400.0 else {}
    torch = sys.modules.get("torch")
    if torch is not None:
        facts["torch"] = str(getattr(torch, "__version__", ""))
    return facts


TASKS = (
    ("image-segmentation", r"segmentation|\bunet\b|mask2former|deeplab"),
    ("object-detection", r"object.?detection|\byolo|fasterrcnn|faster_rcnn|\bdetr\b"),
    ("question-answering", r"forquestionanswering"),
    ("seq2seq", r"forseq2seqlm|forconditionalgeneration"),
    ("text-classification", r"forsequenceclassification|\bbert|roberta|deberta|tokenizer"),
    ("audio-classification", r"torchaudio|librosa|spectrogram"),
    ("image-classification", r"torchvision|\btimm\b|conv2d|imagefolder|albumentations|keras\.applications"),
    ("tabular-regression", r"lgbmregressor|xgbregressor|catboostregressor"),
    ("tabular-classification", r"lightgbm|xgboost|catboost|sklearn|read_csv"),
)
"""Task -> what scripts for it contain, in the order of looking."""


def guessed_task(text: str) -> str:
    """The task a script's text looks like: for the page of a run, not for predictions."""
    plain = text[:1_000_000].lower()
    return next((task for task, words in TASKS if re.search(words, plain)), "image-classification")


def script_text(command: Sequence[str]) -> str:
    """The text of the first Python file in a command line; "" where there is none."""
    for word in command:
        if word.endswith(".py"):
            with contextlib.suppress(OSError):
                return Path(word).read_text(encoding="utf-8", errors="replace")
    return ""


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
