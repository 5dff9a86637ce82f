"""What is being asked of /predict? Every field of a sizing question, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from memory_service.domain.common.optimizers import optimizer_name
from memory_service.domain.common.vocabulary import parse_precision
from memory_service.domain.planning.request import integer_of
from memory_service.errors import FieldError, InvalidInput, unknown_name

__all__ = ["PREDICT_FIELDS", "SIZE_FIELDS", "SizingQuestion", "parse_prediction"]

PREDICT_FIELDS: dict[str, tuple[int, int] | None] = {
    "model": None,
    "gpu": None,
    "image_size": (8, 4096),
    "seq_len": (1, 131_072),
    "n_features": (1, 10**6),
    "batch_size": (1, 10**6),
    "precision": None,
    "layout": None,
    "optimizer": None,
    "mode": None,
    "n_train": (1, 10**9),
    "n_classes": (1, 10**6),
    "cpu_count": (1, 4096),
    "rounds": (1, 10**6),
}
"""Every field of a question with its whole-number bounds; n_classes, cpu_count and rounds only for models of
the processor."""

SIZE_FIELDS = ("image_size", "seq_len", "n_features")
_LAYOUTS = ("nhwc", "nchw")
_MODES = {"train": "train", "training": "train", "infer": "infer", "inference": "infer", "predict": "infer"}


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


def parse_prediction(raw: Mapping[str, Any]) -> SizingQuestion:
    """A question from its fields; InvalidInput for an unknown field, a range or a word that is not known."""
    if not isinstance(raw, Mapping):
        raise InvalidInput("A question must be an object", [FieldError("", "must be an object")])
    unknown = [name for name in raw if name not in PREDICT_FIELDS]
    if unknown:
        near = tuple(get_close_matches(str(unknown[0])[:80], PREDICT_FIELDS, n=3, cutoff=0.4))
        raise InvalidInput(
            f"Unknown field {str(unknown[0])[:80]!r}",
            [FieldError(str(unknown[0])[:80], "unknown field", None, near)],
        )
    said = {name: value for name, value in raw.items() if value is not None}
    fields: dict[str, Any] = {}
    for name in ("model", "gpu"):
        value = said.get(name)
        if not isinstance(value, str) or not value.strip() or len(value) > 200:
            raise InvalidInput(
                f"{name} must be a name of at most 200 characters",
                [FieldError(name, "is missing" if value is None else "must be a name")],
            )
        fields[name] = value.strip()
    for name, bounds in PREDICT_FIELDS.items():
        if bounds is not None and name in said:
            fields[name] = integer_of(name, said[name], *bounds)
    if "precision" in said:
        fields["precision"] = parse_precision(str(said["precision"])[:80])
    if "layout" in said:
        fields["layout"] = _word("layout", said["layout"], {word: word for word in _LAYOUTS})
    fields["optimizer"] = optimizer_name(str(said.get("optimizer", "adamw")))
    fields["mode"] = _word("mode", said.get("mode", "train"), _MODES)
    return SizingQuestion(**fields)


def _word(field: str, given: Any, words: Mapping[str, str]) -> Any:
    name = str(given).strip().lower()[:80]
    for spelling in (name, name.replace("_", "-")):
        if spelling in words:
            return words[spelling]
    raise unknown_name(field, str(given), tuple(words))
