"""What tests of the store write and encode with: small valid rows, and an encoder that needs no model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


class HashEncoder:
    """Unit vectors that depend on the text alone: the store treats them as it treats real ones."""

    def __init__(self, name: str = "hash") -> None:
        self.name = name
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.texts += texts
        return np.stack([self._vector(text) for text in texts]) if texts else np.zeros((0, 384), np.float32)

    def _vector(self, text: str) -> npt.NDArray[np.float32]:
        digest = hashlib.sha256(f"{self.name} {text}".encode()).digest()
        vector = np.random.default_rng(list(digest)).standard_normal(384).astype(np.float32)
        return vector / np.linalg.norm(vector)


def competition(slug: str = "leaf-counting", **changes: Any) -> dict[str, Any]:
    values = {
        "slug": slug,
        "title": f"Title of {slug}",
        "description": f"Count the leaves of potted plants in photographs taken from above ({slug}).",
        "task": "image-regression",
        "n_train": 9_000,
    }
    return values | changes


def pattern(name: str = "p-1", **changes: Any) -> dict[str, Any]:
    values = {
        "id": name,
        "scope": "kind",
        "task": "image-classification",
        "size": "small",
        "kind": "model",
        "statement": "A pretrained EfficientNet-B3 is the usual start.",
        "advice": {"models": ["efficientnet_b3"]},
    }
    return values | changes


def solution(rank: int = 1, **changes: Any) -> dict[str, Any]:
    values = {
        "competition": "leaf-counting",
        "rank": rank,
        "families": ["efficientnet"],
        "techniques": ["tta"],
        "validation": {"split": "group", "by": "plant", "folds": 5},
    }
    return values | changes


def gpu(slug: str = "testcard", **changes: Any) -> dict[str, Any]:
    values = {
        "slug": slug,
        "name": "Test Card",
        "kind": "cuda",
        "architecture": "ampere",
        "memory_gib": 24.0,
        "usable_gib": 23.5,
        "bandwidth_gb_s": 936,
        "tflops": {"fp32": 35.6, "fp16": 71.0},
    }
    return values | changes


def model(name: str = "testnet", **changes: Any) -> dict[str, Any]:
    values = {
        "name": name,
        "library": "timm",
        "tasks": ["image-classification", "image-regression"],
        "family": "testnets",
        "params_m": 12.5,
        "input_kind": "image_size",
        "input_sizes": [224, 288],
        "default_input_size": 224,
        "pretrained": True,
        "quality_score": 81.5,
    }
    return values | changes


def strategy(name: str = "R08-test", **changes: Any) -> dict[str, Any]:
    values = {
        "id": name,
        "rule": "R08",
        "table": "loader",
        "key": {"cpu_count_min": 8},
        "value": {"num_workers": 8},
        "statement": "Eight workers where the CPUs exist.",
        "followed": True,
    }
    return values | changes


def claim(name: str = "C99", **changes: Any) -> dict[str, Any]:
    values = {
        "id": name,
        "quantity": "samples_per_second",
        "value_min": 100,
        "statement": "It makes 100 a second.",
    }
    return values | changes


ROWS: dict[str, Callable[..., dict[str, Any]]] = {
    "competitions": competition,
    "solutions": solution,
    "patterns": pattern,
    "models": model,
    "gpus": gpu,
    "strategies": strategy,
    "claims": claim,
}
"""Table -> a maker of valid rows."""
