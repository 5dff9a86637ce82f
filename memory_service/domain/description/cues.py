"""Cue phrases for a task. A task is a pair (`TASK_OF`): the input (`domain.description.input_cues`) and the
kind of answer (`domain.description.answer_cues`).

Weights of the phrases are per occurrence, before saturation: 4-5 hardly ever means anything else, 2-3 is
typical, 1 leans, below 1 is a hint. Written from how descriptions of such competitions read; `docs/recall.md`
has what the tables reach. Phrases are matched in the singular (see `domain.description.phrases`).
"""

from __future__ import annotations

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
