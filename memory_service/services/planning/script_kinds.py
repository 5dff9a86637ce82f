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


_PLAIN: dict[str, Any] = dict.fromkeys(
    ("labels", "masks", "boxes", "retrieval", "files", "network", "layout_matters",
     "tokens", "blend", "pairs", "entities", "frames", "media", "joined", "items", "written",
     "keypoints", "instead"), False,
)  # fmt: skip
_NETWORK = _PLAIN | {"network": True, "checkpoints": "fold_K.pt"}
_IMAGES = _NETWORK | {
    "files": True,
    "reader": "read_files",
    "layout_matters": True,
    "size": "IMAGE_SIZE",
    "layout": "the target or targets),\ntest.csv or sample_submission.csv (ids), "
    "train/<id>.jpg, test/<id>.jpg",
    "needs": "torch >= 2.4, timm, Pillow",
}
_MASKS = _IMAGES | {
    "masks": True,
    "reader": "read_masks",
    "layout": "what else there is),\nsample_submission.csv or test.csv (ids), images train/<id>.jpg, "
    "test/<id>.jpg, masks train_masks/<id>.png",
}
_RETRIEVAL = _IMAGES | {
    "retrieval": True,
    "layout": "the group of images that match),\ntest.csv (ids that may match), "
    "sample_submission.csv (ids to answer), train/<id>.jpg, test/<id>.jpg",
}
_BOXES = _IMAGES | {
    "boxes": True,
    "reader": "read_boxes",
    "layout": "a row for each box: corners or\nx, y, width, height, and its class), sample_submission.csv or "
    "test.csv (ids), train/<id>.jpg, test/<id>.jpg",
}
_SOUNDS = _IMAGES | {
    "size": "SEQ_LEN",
    "layout": "the target or targets),\ntest.csv or sample_submission.csv (ids), "
    "train/<id>.wav, test/<id>.wav",
    "needs": "torch >= 2.4, timm",
}
_TEXTS = _NETWORK | {
    "size": "SEQ_LEN",
    "tokens": True,
    "reader": "read_texts",
    "layout": "a column of text, the target or targets), test.csv",
    "needs": "torch >= 2.6, transformers",
}
_PAIRS = _TEXTS | {"pairs": True, "layout": "columns of text, the target or targets), test.csv"}
_ENTITIES = _TEXTS | {
    "entities": True,
    "reader": "read_words",
    "layout": "words between spaces, as many labels), test.csv",
}
_SPEECH = _TEXTS | {
    "written": True,
    "reader": "read_written",
    "layout": "a column of transcripts),\nsample_submission.csv or test.csv (ids), train/<id>.wav, "
    "test/<id>.wav",
    "needs": "torch >= 2.6, transformers >= 5, soundfile (but for .wav)",
}
_SEEN = _SPEECH | {
    "size": "IMAGE_SIZE",
    "layout": "a question, if there is one,\nand the text to write), test.csv or sample_submission.csv (ids, "
    "questions), train/<id>.jpg, test/<id>.jpg",
    "needs": "torch >= 2.6, transformers >= 5, torchvision, Pillow",
}
_KEYPOINTS = _IMAGES | {
    "keypoints": True,
    "reader": "read_keypoints",
    "layout": "columns of x and y, or a\nlist of them), test.csv or sample_submission.csv (ids), "
    "train/<id>.jpg, test/<id>.jpg",
}
_DECODERS = _TEXTS | {"needs": "torch >= 2.6, transformers >= 5"}
_FRAMES = _PLAIN | {
    "frames": True,
    "reader": "read_frames",
    "checkpoints": "answers_NAME_K.npz",
    "layout": "inputs and the target or targets), test.csv",
}
_JOINED = _FRAMES | {"joined": True, "reader": "read_joined"}
_SIGNALS = _JOINED | {
    "layout": "the target), test.csv;\nsignals: files train/<id>.csv or a table with a row a step, or "
    "numbered columns",
    "needs": "lightgbm",
}
_MULTIMODAL = _JOINED | {
    "layout": "columns, texts, names of\nfiles, the target or targets), test.csv, and these files",
    "needs": "lightgbm, timm, Pillow",
}
_VIDEOS = _JOINED | {
    "layout": "the target), test.csv or\nsample_submission.csv, and train/<id>/ with frames, train/<id>.gif, "
    "or with OpenCV .mp4",
    "needs": "lightgbm, timm, Pillow",
}
NETS = ("mlp", "tabular-resnet", "ft-transformer", "tabm", "realmlp")
"""Of tables: `memory_service.train.table_network` has them."""

YOLOS = frozenset(f"yolo{version}{size}" for version in ("v5", "v8", "11", "12", "26") for size in "nsmlx")
"""Of ultralytics. Their names become addresses of files that hold code: no other name has a script."""

WIDTHS = {"unet": (64, 128, 256, 512, 1024), "unet-small": (32, 64, 128, 256, 512)}
WRITTEN_OF_PICTURES = ("visual-question-answering", "image-captioning")
"""Tasks of vision-language models, which are tuned with `method`."""

DETECTORS = ("fcos", "retinanet", "fasterrcnn")
"""Of torchvision, the part of a name before `/`, whose script builds them."""

OWN_MODELS = {
    "image-segmentation": tuple(WIDTHS),
    "text-classification": ("fasttext", "tfidf-linear"),
    "text-regression": ("fasttext", "tfidf-linear"),
    "tabular-classification": (*NETS, "linear"),
    "tabular-regression": (*NETS, "linear"),
    "time-series-regression": ("autoets", "autotheta", "seasonal-naive"),
}
"""Task -> models of torch and scikit-learn that have a script: networks that it defines, linear models."""

TREES = ("lightgbm", "xgboost", "catboost")
TRIED = (*TREES, "linear", "random-forest", "gaussian-process", "knn", "tabm")
"""Families of winners of tables that `memory_service.train` fits whatever the plan's model is."""

PRETRAINED_FROM = {
    "tabicl": "tabicl", "tabpfn": "tabpfn", "chronos": "chronos-forecasting",
    "timesfm": "timesfm[torch] >= 2", "toto": "toto-2 (Python >= 3.12)",
}  # fmt: skip
"""Library of models that learn nothing by themselves -> the package that their scripts use where it is
installed (`memory_service.train.pretrained`)."""


def _network_kind(model: str, words: Mapping[str, Any], labels: bool) -> Kind:
    batches = ("text_batches",) if words["tokens"] else ()
    steps = ("class_loss" if labels else "value_loss", "network_step")
    return Kind((f"{model}_network", *batches, *steps), {**words, "labels": labels})


def _mask_kind(model: str, needs: str) -> Kind:
    return Kind((model, "mask_loop"), {**_MASKS, "needs": needs})


def _box_kind(library: str, needs: str) -> Kind:
    return Kind((f"box_{library}", "detection"), {**_BOXES, "needs": needs})


_MASKS_FROM_RANDOM = Kind(
    (),
    {**_FRAMES, "masks": True, "reader": "read_masks", "layout": _MASKS["layout"], "needs": "torch, Pillow"},
)


def _file_kind(words: Mapping[str, Any], labels: bool) -> Kind:
    layout = {name: words[name] for name in ("layout", "needs", "reader", "keypoints")}
    return Kind((), {**_FRAMES, **layout, "labels": labels, "media": True})


def _frame_kind(labels: bool, needs: str = "lightgbm") -> Kind:
    """Rows of tables, texts or series: learned by the members of `memory_service.train`."""
    return Kind((), {**_FRAMES, "labels": labels, "needs": needs})


KINDS: dict[tuple[str, str], Kind] = {
    ("image-classification", "timm"): _network_kind("image", _IMAGES, True),
    ("image-regression", "timm"): _network_kind("image", _IMAGES, False),
    ("image-keypoints", "timm"): Kind(("image_network", "keypoint_network"), _KEYPOINTS),
    ("speech-recognition", "transformers"): Kind(("transcripts", "speech_network"), _SPEECH),
    **{
        (task, "transformers"): Kind(("transcripts", "vision_language_network"), _SEEN)
        for task in WRITTEN_OF_PICTURES
    },
    ("image-retrieval", "timm"): Kind(("image_network", "retrieval", "network_step"), _RETRIEVAL),
    ("image-segmentation", "smp"): _mask_kind(
        "smp_network", "torch >= 2.4, timm, segmentation-models-pytorch, Pillow"
    ),
    ("image-segmentation", "torch"): _mask_kind("unet", "torch >= 2.4, Pillow"),
    ("object-detection", "torchvision"): _box_kind("torchvision", "torch >= 2.4, torchvision, timm, Pillow"),
    ("object-detection", "ultralytics"): _box_kind(
        "ultralytics", "torch >= 2.4, torchvision, ultralytics (AGPL-3.0), Pillow"
    ),
    ("audio-classification", "timm"): _network_kind("sound", _SOUNDS, True),
    ("audio-regression", "timm"): _network_kind("sound", _SOUNDS, False),
    ("text-classification", "transformers"): _network_kind("text", _TEXTS, True),
    ("text-regression", "transformers"): _network_kind("text", _TEXTS, False),
    ("text-pair-similarity", "transformers"): _network_kind("text", _PAIRS, False),
    ("text-classification", "torch"): _frame_kind(True),
    ("text-regression", "torch"): _frame_kind(False),
}
"""(task, library) -> its sort of script."""

_TABLES = ("tabicl", "tabpfn")
for _task, _labels in (("tabular-classification", True), ("tabular-regression", False)):
    KINDS[_task, "torch"] = _frame_kind(_labels, "torch >= 2.4, lightgbm")
    KINDS |= {(_task, library): _frame_kind(_labels, library) for library in TREES}
    KINDS |= {(_task, each): _frame_kind(_labels, f"lightgbm, {PRETRAINED_FROM[each]}") for each in _TABLES}
    KINDS |= {(task, "sklearn"): _frame_kind(_labels) for task in (_task, _task.replace("tabular", "text"))}

_ITEMS = _FRAMES | {
    "items": True,
    "reader": "read_interactions",
    "checkpoints": "answers_items.npz",
    "layout": "a row for each item that a user\ntook, and when), sample_submission.csv (users, items between "
    "spaces)",
    "needs": "scipy, lightgbm",
}
KINDS |= {("recommendation", each): Kind((), _ITEMS) for each in (*TREES, "implicit", "numpy")}

SIGNALS = "time-series-classification"
KINDS |= {(SIGNALS, each): Kind((), {**_SIGNALS, "labels": True}) for each in (*TREES, "sktime")}
KINDS[SIGNALS, "torch"] = Kind((), {**_SIGNALS, "labels": True, "instead": True})
KINDS["video-classification", "timm"] = Kind((), {**_VIDEOS, "labels": True})
VALUES_OF_MEDIA = Kind((), _MULTIMODAL)
KINDS |= {("multimodal", each): Kind((), {**_MULTIMODAL, "labels": True}) for each in ("timm", *TREES)}

KINDS["token-classification", "transformers"] = Kind(
    ("text_network", "word_pieces", "class_loss", "network_step"), _ENTITIES | {"labels": True}
)

SERIES = "time-series-regression"
KINDS |= {(SERIES, library): _frame_kind(False, library) for library in TREES}
_FORECASTERS = ("chronos", "timesfm", "toto")
KINDS |= {(SERIES, each): _frame_kind(False, f"lightgbm, {PRETRAINED_FROM[each]}") for each in _FORECASTERS}
KINDS[SERIES, "statsforecast"] = _frame_kind(False)

CLASSES_OF_PAIRS = _network_kind("text", _PAIRS, True)

FROM_RANDOM = {
    "image-classification": _file_kind(_IMAGES, True),
    "image-regression": _file_kind(_IMAGES, False),
    "audio-classification": _file_kind(_SOUNDS, True),
    "audio-regression": _file_kind(_SOUNDS, False),
    "image-keypoints": _file_kind(_KEYPOINTS, False),
    "image-segmentation": _MASKS_FROM_RANDOM,
    "text-classification": _frame_kind(True),
    "text-regression": _frame_kind(False),
}
"""Task -> the sort of script of a plan without weights: small networks of `memory_service.train`."""

DECODERS = {
    "text-classification": _network_kind("decoder", _DECODERS, True),
    "text-regression": _network_kind("decoder", _DECODERS, False),
    **{task: KINDS[task, "transformers"] for task in WRITTEN_OF_PICTURES},
}
"""Task -> the sort of script of a plan with `method`."""

WITHOUT_SCRIPT = {
    "speaker-verification": "speaker verification: the plan trains embeddings by classes of speakers, whose "
    "cosine tells whether two utterances are of one",
    "diarization": "diarization: the plan trains embeddings of speakers, by which windows are clustered",
}
"""Kind of speech task -> what there is no script for, and what the plan trains."""

LEFT_TO_PREDICT = 0.9
"""Of a card's memory that half-precision weights may take where it predicts alone."""


def why_not_sharded(plan: Mapping[str, Any]) -> str:
    """Why no script spreads the plan's weights over its cards; "" where one does."""
    weights_gib = plan["model"]["params_m"] * 2e6 / 2**30
    if plan["method"] == "qlora" or plan["precision"] == "fp16":
        return "There is no script that spreads 4-bit weights, or trains with fp16, over several cards"
    if weights_gib > plan["gpu"]["usable_gib"] * LEFT_TO_PREDICT:
        return f"There is no script: {weights_gib:.0f} GiB of weights have to predict on one card"
    return ""


HUB_NAMES: Mapping[str, str] = shipped_table(__package__, "script_words.toml")["hub_names"]
"""Name in the catalogue -> repository of the hub, whose weights it stands for."""

SCRIPTED = tuple(dict.fromkeys(task for task, _ in KINDS))
"""The tasks that have a script."""
