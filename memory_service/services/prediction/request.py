"""The request of a prediction as the service takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memory_service.schemas.predict import PredictQuery, PredictRequest
from memory_service.schemas.validation_errors import checked

SIZE_FIELDS = ("image_size", "seq_len", "n_features")


@dataclass(frozen=True, slots=True)
class SizingQuestion:
    """One question, checked; None means "not said". Names are not resolved yet.

    layout   None: the one that a plan would set on that card
    """

    model: str
    gpu: str
    image_size: int | None = None
    seq_len: int | None = None
    n_features: int | None = None
    batch_size: int | None = None
    precision: str | None = None
    layout: str | None = None
    optimizer: str = "adamw"
    mode: Literal["train", "infer"] = "train"
    n_train: int | None = None
    n_classes: int | None = None
    cpu_count: int | None = None
    rounds: int | None = None


def sizing_question(asked: PredictRequest | Mapping[str, Any]) -> SizingQuestion:
    """The question of a request, or of texts or values by name; InvalidInput names every wrong field."""
    request = asked if isinstance(asked, PredictRequest) else checked(PredictQuery, asked)
    return SizingQuestion(**request.explicit())
