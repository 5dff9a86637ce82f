"""Cue phrases for a task. A task is a pair (`TASK_OF`): the input and the kind of answer; `cues.toml` has the
phrases of both, with their weights."""

from __future__ import annotations

from collections.abc import Mapping

from memory_service.domain.common.tables import shipped_table

_CUES = shipped_table(__package__, "cues.toml")
INPUT_CUES: Mapping[str, Mapping[str, str]] = _CUES["input"]
ANSWER_CUES: Mapping[str, Mapping[str, str]] = _CUES["answer"]
"""Kind -> weight -> phrases with commas between them."""

INPUT_PRIOR = {"tabular": 1.5}
"""A description that names no kind of data is nearly always of a table."""

ANSWER_PRIOR = {"class": 1.5, "value": 0.5}
"""One that names no kind of answer nearly always asks for a class."""

TASK_OF: dict[tuple[str, str], str] = {
    ("image", "class"): "image-classification",
    ("image", "value"): "image-regression",
    ("image", "mask"): "image-segmentation",
    ("image", "boxes"): "object-detection",
    ("image", "picture"): "image-to-image",
    ("image", "match"): "image-retrieval",
    ("image", "sequence"): "image-captioning",
    ("image", "keypoint"): "image-keypoints",
    ("text", "token"): "token-classification",
    ("audio", "class"): "audio-classification",
    ("audio", "boxes"): "audio-classification",
    ("text", "class"): "text-classification",
    ("text", "value"): "text-regression",
    ("text", "pair"): "text-pair-similarity",
    ("text", "span"): "question-answering",
    ("text", "sequence"): "seq2seq",
    ("text", "order"): "text-ranking",
    ("tabular", "class"): "tabular-classification",
    ("tabular", "value"): "tabular-regression",
    ("series", "class"): "time-series-classification",
    ("series", "value"): "time-series-regression",
    ("interactions", "topk"): "recommendation",
    ("video", "class"): "video-classification",
    ("video", "sequence"): "video-classification",
    ("points", "class"): "point-cloud",
    ("points", "mask"): "point-cloud",
    ("points", "value"): "point-cloud",
    ("points", "boxes"): "object-detection",
    ("video", "boxes"): "object-detection",
    ("multi", "class"): "multimodal",
    ("multi", "value"): "multimodal",
    ("multi", "match"): "image-retrieval",
}

GOAL_WORDS = (
    "your task, your goal, goal, task is, challenge, challenged, asked to, must predict, predict, "
    "aim, objective, "
    "in this competition, submission, evaluated, evaluation, metric, scored, judged, for each, you will, "
    "build a model, develop a model, build an algorithm, develop an algorithm, estimate, the aim, determine"
)
"""A sentence with one of these says what the task is, rather than why it matters: its cues count double."""
