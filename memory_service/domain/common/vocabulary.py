"""The vocabulary of the service: tasks, sizes, precisions and their aliases."""

from __future__ import annotations

from typing import Literal, get_args

from memory_service.errors import FieldError, InvalidInput, unknown_name

Size = Literal["small", "medium", "large"]
Mode = Literal["open", "family", "blind"]
Objective = Literal["fast", "balanced", "quality"]

Subtask = Literal[
    "sentiment", "acceptability", "entailment", "similarity", "reading", "entities", "ranking",
    "essay-scoring", "toxicity", "topic", "other",
]  # fmt: skip
"""Of a text task."""

SIZES: tuple[str, ...] = get_args(Size)
MODES: tuple[str, ...] = get_args(Mode)
OBJECTIVES: tuple[str, ...] = get_args(Objective)
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")

TASKS = (
    "image-classification",
    "image-regression",
    "image-segmentation",
    "object-detection",
    "image-to-image",
    "image-retrieval",
    "image-captioning",
    "audio-classification",
    "text-classification",
    "text-regression",
    "text-pair-similarity",
    "question-answering",
    "seq2seq",
    "text-ranking",
    "tabular-classification",
    "tabular-regression",
    "time-series-classification",
    "time-series-regression",
    "recommendation",
    "video-classification",
    "point-cloud",
    "multimodal",
    "token-classification",
    "image-keypoints",
)

TASK_ALIASES = {
    "image": "image-classification",
    "images": "image-classification",
    "vision": "image-classification",
    "multi-label": "image-classification",
    "multilabel": "image-classification",
    "image-multi-label": "image-classification",
    "image-multilabel": "image-classification",
    "segmentation": "image-segmentation",
    "semantic-segmentation": "image-segmentation",
    "detection": "object-detection",
    "retrieval": "image-retrieval",
    "captioning": "image-captioning",
    "audio": "audio-classification",
    "sound": "audio-classification",
    "speech": "audio-classification",
    "text": "text-classification",
    "nlp": "text-classification",
    "qa": "question-answering",
    "translation": "seq2seq",
    "text-multi-label": "text-classification",
    "text-multilabel": "text-classification",
    "text-to-text": "seq2seq",
    "ranking": "text-ranking",
    "tabular": "tabular-classification",
    "table": "tabular-classification",
    "time-series": "time-series-classification",
    "timeseries": "time-series-classification",
    "forecasting": "time-series-regression",
    "recsys": "recommendation",
    "video": "video-classification",
    "pointcloud": "point-cloud",
    "3d": "point-cloud",
    "ner": "token-classification",
    "named-entity-recognition": "token-classification",
    "keypoints": "image-keypoints",
    "pose": "image-keypoints",
}

SIZE_TYPICAL_N_TRAIN: dict[str, int] = {"small": 5_000, "medium": 40_000, "large": 300_000}
"""The sample count a size stands for when no exact `n_train` is given.

small < 10 000 <= medium < 100 000 <= large.

About the geometric middle of what the 60 seeded competitions of that size have (large ones are cut at 10^6).
"""

_PRECISION_ALIASES = {
    "float32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "amp": "fp16",
    "amp-fp16": "fp16",
    "amp-bf16": "bf16",
}

_MODALITY = {
    "object-detection": "image",
    "question-answering": "text",
    "seq2seq": "text",
    "token-classification": "text",
}


def parse_task(raw: str) -> str:
    """The canonical task of a name or alias (case and `_` do not matter); InvalidInput names the nearest."""
    name = raw.strip().lower().replace("_", "-").replace(" ", "-")
    if name in TASKS:
        return name
    if name in TASK_ALIASES:
        return TASK_ALIASES[name]
    raise unknown_name("task", raw, (*TASKS, *TASK_ALIASES))


def parse_size(raw: str) -> Size:
    """small | medium | large; InvalidInput otherwise."""
    name = raw.strip().lower()
    if name not in SIZES:
        raise unknown_name("size", raw, SIZES)
    return name  # type: ignore[return-value]


def size_of(n_train: int) -> Size:
    """The size class of a number of training samples."""
    if n_train < 10_000:
        return "small"
    return "medium" if n_train < 100_000 else "large"


def parse_precision(raw: str) -> str:
    """fp32 | tf32 | fp16 | bf16, also by the names measurement files use (`amp-fp16`, `amp`)."""
    name = raw.strip().lower()
    name = _PRECISION_ALIASES.get(name, name)
    if name not in PRECISIONS:
        error = unknown_name("precision", raw, PRECISIONS)
        raise InvalidInput(
            f"Unknown precision {raw!r}; known: {', '.join(PRECISIONS)}",
            [FieldError("precision", "unknown precision", raw, error.errors[0].nearest or PRECISIONS)],
        )
    return name


def reads_files(task: str) -> bool:
    """Whether each sample of a task is a file of its own (images, sound, video) rather than a row."""
    return modality_of(task) in ("image", "audio", "video", "point-cloud", "multimodal")


def modality_of(task: str) -> str:
    """image | audio | text | tabular | time-series | recommendation | video | point-cloud | multimodal."""
    if task in _MODALITY:
        return _MODALITY[task]
    for prefix in ("time-series", "point-cloud", "image", "audio", "text", "tabular", "video"):
        if task.startswith(prefix):
            return prefix
    return task
