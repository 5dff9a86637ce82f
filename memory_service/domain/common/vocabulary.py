"""The vocabulary of the service: tasks, sizes, precisions and their aliases."""

from typing import Literal, get_args

from memory_service.domain.common.tables import shipped_table
from memory_service.errors import FieldError, InvalidInput, unknown_name

Size = Literal["small", "medium", "large"]
Mode = Literal["open", "family", "blind"]
Objective = Literal["fast", "balanced", "quality"]
Weights = Literal["hub", "local", "none"]
Split = Literal["random", "group", "time"]
Licence = Literal["any", "commercial"]

Subtask = Literal[
    "sentiment", "acceptability", "entailment", "similarity", "reading", "entities", "ranking",
    "essay-scoring", "toxicity", "topic", "other", "phonemes", "diarization", "speaker-verification",
    "speaker-identification",
]  # fmt: skip
"""Of a text task; the last four of speech."""

SIZES: tuple[str, ...] = get_args(Size)
MODES: tuple[str, ...] = get_args(Mode)
OBJECTIVES: tuple[str, ...] = get_args(Objective)
_TABLE = shipped_table(__package__, "vocabulary.toml")

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")

TASKS: tuple[str, ...] = tuple(_TABLE["tasks"].split())

FROM_RANDOM_WEIGHTS = ("tabular", "time-series", "recommendation")
"""Modalities whose models are trained from random weights anyway."""

FORECASTS = ("time-series-regression",)
"""Tasks whose rows may be series that go on."""

TASK_ALIASES: dict[str, str] = {
    alias: task for task, aliases in _TABLE["aliases"].items() for alias in aliases.split()
}

SIZE_TYPICAL_N_TRAIN: dict[str, int] = {"small": 5_000, "medium": 40_000, "large": 300_000}
"""The sample count a size stands for when no exact `n_train` is given.

small < 10 000 <= medium < 100 000 <= large.

About the geometric middle of what the 60 seeded competitions of that size have (large ones are cut at 10^6).
"""

FRAMES_A_SECOND, USUAL_CLIP_SECONDS = 100, 10.0  # clips of GigaSpeech last 4 s, of LibriSpeech 12


def parse_task(raw: str) -> str:
    """The canonical task of a name or alias (case and `_` do not matter); InvalidInput names the nearest."""
    name = plain_word(raw)
    if name in TASKS:
        return name
    if name in TASK_ALIASES:
        return TASK_ALIASES[name]
    raise unknown_name("task", raw, (*TASKS, *TASK_ALIASES))


def plain_word(raw: str) -> str:
    """Lower case, with hyphens: what spellings of one word of a vocabulary share."""
    return raw.strip().lower().replace("_", "-").replace(" ", "-")


LANGUAGES = frozenset(_TABLE["languages"].split())
"""By ISO 639-1."""


def parse_language(raw: str) -> str:
    """ISO 639-1 or "multi"; InvalidInput names the nearest."""
    if raw in LANGUAGES or raw == "multi":
        return raw
    raise unknown_name("language", raw, (*sorted(LANGUAGES), "multi"))


def parse_task_or_modality(raw: str) -> str:
    """As `parse_task`, but of a modality's word the modality: a text may say which of its tasks it is."""
    task = parse_task(raw)
    return modality_of(task) if plain_word(raw) in _TABLE["modality_words"] else task


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
    name = str(_TABLE["precisions"].get(name, name))
    if name not in PRECISIONS:
        nearest = unknown_name("precision", raw, PRECISIONS).errors[0].nearest or PRECISIONS
        error = FieldError("precision", "unknown precision", raw, nearest)
        raise InvalidInput(f"Unknown precision {raw!r}; known: {', '.join(PRECISIONS)}", [error])
    return name


def writes_text(task: str) -> bool:
    """Whether an answer is a text, whose every token is learned and written."""
    return bool(task in _TABLE["writes_text"])


def reads_files(task: str) -> bool:
    """Whether each sample of a task is a file of its own (images, sound, video) rather than a row."""
    return modality_of(task) in ("image", "audio", "video", "point-cloud", "multimodal")


def modality_of(task: str) -> str:
    """image | audio | text | tabular | time-series | recommendation | video | point-cloud | multimodal |
    graph."""
    if task in _TABLE["modalities"]:
        return str(_TABLE["modalities"][task])
    for prefix in ("time-series", "point-cloud", "image", "audio", "text", "tabular", "video", "graph"):
        if task.startswith(prefix):
            return prefix
    return task
