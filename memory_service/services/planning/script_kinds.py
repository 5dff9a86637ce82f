"""Which parts of `scripts/` make the script of a task and a library, and their parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.tables import shipped_table


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of script.

    modules    of `memory_service.train`, whose functions train.py uses, beside those of its words
    words      what the parts of `scripts/` are told: names of classes and what the data are
    """

    modules: tuple[str, ...]
    words: Mapping[str, Any]


_TABLE = shipped_table(__package__, "script_kinds.toml")
_OF_FILES = ("layout", "reader", "needs")
_PLAIN: dict[str, Any] = dict.fromkeys(
    ("labels", "masks", "boxes", "retrieval", "files", "network", "layout_matters",
     "tokens", "blend", "pairs", "entities", "frames", "media", "joined", "items", "written",
     "keypoints", "instead"), False,
)  # fmt: skip
PRETRAINED_FROM: Mapping[str, str] = _TABLE["pretrained_from"]
WIDTHS: Mapping[str, list[int]] = _TABLE["widths"]
WITHOUT_SCRIPT: Mapping[str, str] = _TABLE["without_script"]
OWN_MODELS = {task: tuple(names.split()) for task, names in _TABLE["own_models"].items()}


def _entry(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """All that a kind has, with that of the kinds that it is like."""
    own = _TABLE["kinds"][given] if isinstance(given, str) else given
    files = {name: _entry(own["files_of"])[name] for name in _OF_FILES} if "files_of" in own else {}
    base = _entry(own["like"]) if "like" in own else _PLAIN
    return {**base, **files, **own}


def _kind(given: str | Mapping[str, Any], labels: bool, library: str = "") -> Kind:
    words = {name: value for name, value in _entry(given).items() if name not in ("like", "files_of")}
    if library in PRETRAINED_FROM:
        words["needs"] += f", {PRETRAINED_FROM[library]}"
    loss = "class_loss" if labels else "value_loss"
    modules = tuple(loss if name == "loss" else name for name in words.pop("modules", ()))
    return Kind(modules, words | {"labels": labels})


def _of_tasks(kinds: Mapping[str, Any]) -> dict[str, Kind]:
    return {task: _kind(given, task.endswith(_WITH_LABELS)) for task, given in kinds.items()}


_WITH_LABELS = ("classification", "multimodal")
KINDS = {
    (task, library): _kind(given, task.endswith(_WITH_LABELS), library)
    for task, kinds in _TABLE["scripts"].items()
    for libraries, given in kinds.items()
    for library in libraries.split()
}
"""(task, library) -> its sort of script."""

DECODERS = _of_tasks(_TABLE["with_method"])
FROM_RANDOM = _of_tasks(_TABLE["without_weights"])
VALUES_OF_MEDIA, CLASSES_OF_PAIRS = _kind("media", False), _kind("pairs", True)

NETS = OWN_MODELS["tabular-regression"][:-1]
"""Of tables: `memory_service.train.table_network` has them."""

YOLOS = frozenset(f"yolo{version}{size}" for version in ("v5", "v8", "11", "12", "26") for size in "nsmlx")
"""Of ultralytics. Their names become addresses of files that hold code: no other name has a script."""

DETECTORS = ("fcos", "retinanet", "fasterrcnn")
"""Of torchvision, the part of a name before `/`, whose script builds them."""

TRIED = (
    "lightgbm", "xgboost", "catboost", "linear", "random-forest", "gaussian-process", "knn", "tabm",
)  # fmt: skip
"""Families of winners of tables that `memory_service.train` fits whatever the plan's model is."""

SIGNALS = "time-series-classification"
_LEFT_TO_PREDICT = 0.9
"""Of a card's memory that half-precision weights may take where it predicts alone."""


def why_not_sharded(plan: Mapping[str, Any]) -> str:
    """Why no script spreads the plan's weights over its cards; "" where one does."""
    weights_gib = plan["model"]["params_m"] * 2e6 / 2**30
    if plan["method"] == "qlora" or plan["precision"] == "fp16":
        return "There is no script that spreads 4-bit weights, or trains with fp16, over several cards"
    if weights_gib > plan["gpu"]["usable_gib"] * _LEFT_TO_PREDICT:
        return f"There is no script: {weights_gib:.0f} GiB of weights have to predict on one card"
    return ""


HUB_NAMES: Mapping[str, str] = shipped_table(__package__, "script_words.toml")["hub_names"]
"""Name in the catalogue -> repository of the hub, whose weights it stands for."""

SCRIPTED = tuple(_TABLE["scripts"])
"""The tasks that have a script."""
