"""The vocabulary of the service: tasks, sizes, precisions and their aliases."""

from typing import Literal, get_args

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
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")

TASKS = (
    "image-classification", "image-regression", "image-segmentation", "object-detection",
    "image-to-image", "image-retrieval", "image-captioning", "audio-classification", "audio-regression",
    "text-classification", "text-regression", "text-pair-similarity", "question-answering", "seq2seq",
    "text-ranking", "tabular-classification", "tabular-regression", "time-series-classification",
    "time-series-regression", "recommendation", "video-classification", "point-cloud", "multimodal",
    "token-classification", "image-keypoints", "speech-recognition", "visual-question-answering",
    "graph-classification", "graph-regression",
)  # fmt: skip

FROM_RANDOM_WEIGHTS = ("tabular", "time-series", "recommendation")
"""Modalities whose models are trained from random weights anyway."""

FORECASTS = ("time-series-regression",)
"""Tasks whose rows may be series that go on."""

_ALIASES_OF = """
speech-recognition: asr transcription speech-to-text automatic-speech-recognition
visual-question-answering: vqa document-question-answering document-understanding image-text-to-text
graph-classification: graph graphs molecule molecules
image-classification: image images vision multi-label multilabel image-multi-label image-multilabel
image-segmentation: segmentation semantic-segmentation
object-detection: detection
image-retrieval: retrieval
image-captioning: captioning
audio-classification: audio sound speech
text-classification: text nlp
question-answering: qa
seq2seq: translation
text-classification: text-multi-label text-multilabel
seq2seq: text-to-text
text-ranking: ranking
tabular-classification: tabular table
time-series-classification: time-series timeseries
time-series-regression: forecasting
recommendation: recsys
video-classification: video
point-cloud: pointcloud 3d
token-classification: ner named-entity-recognition
image-keypoints: keypoints pose
"""
TASK_ALIASES = {
    alias: task
    for task, aliases in (line.split(": ") for line in _ALIASES_OF.strip().splitlines())
    for alias in aliases.split()
}

SIZE_TYPICAL_N_TRAIN: dict[str, int] = {"small": 5_000, "medium": 40_000, "large": 300_000}
"""The sample count a size stands for when no exact `n_train` is given.

small < 10 000 <= medium < 100 000 <= large.

About the geometric middle of what the 60 seeded competitions of that size have (large ones are cut at 10^6).
"""

FRAMES_A_SECOND, USUAL_CLIP_SECONDS = 100, 10.0  # clips of GigaSpeech last 4 s, of LibriSpeech 12

_PRECISION_ALIASES = {
    "float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "amp": "fp16",
    "amp-fp16": "fp16", "amp-bf16": "bf16",
}  # fmt: skip

_MODALITY = {
    "object-detection": "image", "question-answering": "text", "seq2seq": "text",
    "token-classification": "text", "speech-recognition": "audio", "visual-question-answering": "multimodal",
}  # fmt: skip

_WRITE = ("seq2seq", "image-captioning", "visual-question-answering", "speech-recognition")


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


_ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de "
    "dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id "
    "ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu "
    "lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu "
    "rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to "
    "tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
LANGUAGES = frozenset(_ISO_639_1.split())
"""By ISO 639-1."""


def parse_language(raw: str) -> str:
    """ISO 639-1 or "multi"; InvalidInput names the nearest."""
    if raw in LANGUAGES or raw == "multi":
        return raw
    raise unknown_name("language", raw, (*sorted(LANGUAGES), "multi"))


_MODALITY_WORDS = (
    "image", "images", "vision", "text", "nlp", "tabular", "table", "time-series", "timeseries",
)  # fmt: skip


def parse_task_or_modality(raw: str) -> str:
    """As `parse_task`, but of a modality's word the modality: a text may say which of its tasks it is."""
    task = parse_task(raw)
    return modality_of(task) if plain_word(raw) in _MODALITY_WORDS else task


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
        nearest = unknown_name("precision", raw, PRECISIONS).errors[0].nearest or PRECISIONS
        error = FieldError("precision", "unknown precision", raw, nearest)
        raise InvalidInput(f"Unknown precision {raw!r}; known: {', '.join(PRECISIONS)}", [error])
    return name


def writes_text(task: str) -> bool:
    """Whether an answer is a text, whose every token is learned and written."""
    return task in _WRITE


def reads_files(task: str) -> bool:
    """Whether each sample of a task is a file of its own (images, sound, video) rather than a row."""
    return modality_of(task) in ("image", "audio", "video", "point-cloud", "multimodal")


def modality_of(task: str) -> str:
    """image | audio | text | tabular | time-series | recommendation | video | point-cloud | multimodal |
    graph."""
    if task in _MODALITY:
        return _MODALITY[task]
    for prefix in ("time-series", "point-cloud", "image", "audio", "text", "tabular", "video", "graph"):
        if task.startswith(prefix):
            return prefix
    return task
