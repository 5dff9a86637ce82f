"""Rows of public tables of boosted trees predicted: `library, device, threads_or_gpus, rows, features, trees,
depth_or_leaves, seconds, seconds_per_tree`."""

import re
from collections.abc import Mapping

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.boosted_trees import TREE_SPREAD
from memory_service.domain.cost.tree_seconds import TREE_LAWS, seconds_per_tree
from memory_service.domain.hardware.gpu_spec import resolve_gpu
from memory_service.domain.prediction.device import TargetDevice
from memory_service.errors import unknown_name, wrong_value

USUAL_LEAVES = 31.0


def is_trees_row(raw: Mapping[str, str | None]) -> bool:
    return "seconds_per_tree" in raw and "library" in raw


def predict_trees(raw: Mapping[str, str | None], gpus: Mapping[str, TargetDevice]) -> dict[str, Estimate]:
    """Seconds of a tree, and of all of them; InvalidInput for a library or device nobody knows."""
    row = {name: (value or "").strip() for name, value in raw.items()}
    library = row["library"].lower()
    if library not in TREE_LAWS:
        raise unknown_name("model", library, tuple(TREE_LAWS))
    rows, features = (_number(row, name) for name in ("rows", "features"))
    device = row.get("device", "cpu")
    card = None if device.startswith("cpu") or not device else resolve_gpu(device, gpus)
    seconds = seconds_per_tree(
        library, rows, features, _leaves(row.get("depth_or_leaves", "")),
        threads=int(_number(row, "threads_or_gpus", 1.0)), card_gb_s=card.bandwidth_gb_s if card else None,
    )  # fmt: skip
    if seconds is None:
        detail = f"{library} on a card is not predicted"
        raise wrong_value("device", "a processor", device, detail=detail)
    where = "a card" if card else f"{row.get('threads_or_gpus') or 1} threads"
    basis = f"law of {library} trees on {where}"
    one = Estimate(seconds, seconds / TREE_SPREAD, seconds * TREE_SPREAD, basis=basis)
    trees = _number(row, "trees", 0.0)
    return {"seconds_per_tree": one, **({"seconds": one.scaled(trees)} if trees else {})}


def _number(row: Mapping[str, str], name: str, usual: float | None = None) -> float:
    try:
        return float(row.get(name) or ("" if usual is None else usual))
    except ValueError:
        raise wrong_value(name, "a number", row.get(name), detail=f"{name} must be a number") from None


def _leaves(text: str) -> float:
    """ "depth 10 (leaves 512)" -> 512, "depth 6" -> 64."""
    stated = re.search(r"leaves (\d+)", text)
    depth = re.search(r"depth (\d+)", text)
    return float(stated[1]) if stated else 2.0 ** int(depth[1]) if depth else USUAL_LEAVES
