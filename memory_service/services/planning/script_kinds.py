"""Which parts of `scripts/` make the script of a task and a library, and their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of script.

    parts      files of `scripts/`, in order
    words      what the parts are told: names of classes and what the data are
    """

    parts: tuple[str, ...]
    words: Mapping[str, Any]


_PLAIN: dict[str, Any] = dict.fromkeys(
    ("labels", "masks", "boxes", "retrieval", "table", "files", "network", "layout_matters", "members",
     "tokens", "library", "blend", "pairs", "entities", "series"), False,
)  # fmt: skip
_NETWORK = _PLAIN | {"network": True, "checkpoints": "fold_K.pt"}
_IMAGES = _NETWORK | {
    "files": True,
    "layout_matters": True,
    "size": "IMAGE_SIZE",
    "layout": "the target or targets),\ntest.csv or sample_submission.csv (ids), "
    "train/<id>.jpg, test/<id>.jpg",
    "needs": "torch >= 2.4, timm, Pillow",
}
_MASKS = _IMAGES | {
    "masks": True,
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
    "layout": "a column of text, the target or targets), test.csv",
    "needs": "torch >= 2.4, transformers",
}
_PAIRS = _TEXTS | {"pairs": True, "layout": "columns of text, the target or targets), test.csv"}
_ENTITIES = _TEXTS | {
    "entities": True,
    "layout": "words between spaces, as many labels), test.csv",
}
_DECODERS = _TEXTS | {"needs": "torch >= 2.4, transformers >= 5"}
_WORDS = _TEXTS | {"tokens": False, "needs": "torch >= 2.4"}
_TABLES = _NETWORK | {
    "table": True,
    "size": "N_FEATURES",
    "layout": "inputs and the target or targets), test.csv",
    "needs": "torch >= 2.4",
}
_TREES = _PLAIN | {"layout": "inputs and the target or targets), test.csv"}
NETS = {  # the model's name -> its part
    "mlp": "net_mlp",
    "tabular-resnet": "net_resnet",
    "ft-transformer": "net_ft",
    "tabm": "net_tabm",
    "realmlp": "net_realmlp",
}
WIDTHS = {"unet": (64, 128, 256, 512, 1024), "unet-small": (32, 64, 128, 256, 512)}
DETECTORS = ("fcos", "retinanet", "fasterrcnn")
"""Of torchvision, the part of a name before `/`, whose script builds them."""

COCO_RESNETS = ("resnet50",)
RESNETS = (*COCO_RESNETS, "resnet18", "resnet34", "resnet101", "resnet152", "resnext101_32x8d")
"""Encoders that detectors take from torchvision, and of which of them it has a detector's weights; all others
are timm's."""

OWN_NETS = {
    "image-segmentation": tuple(WIDTHS),
    "text-classification": ("fasttext",),
    "text-regression": ("fasttext",),
    "tabular-classification": tuple(NETS),
    "tabular-regression": tuple(NETS),
}
"""Task -> networks of library torch whose definition the script holds."""

_TREE_CHECKPOINTS = {"lightgbm": "fold_K.txt", "xgboost": "fold_K.json", "catboost": "fold_K.cbm"}


def _network_kind(reading: str, model: str, words: Mapping[str, Any], labels: bool) -> Kind:
    targets = "labels" if labels else "values"
    batches = ("text_batches",) if reading == "texts" else ()
    tokens = ("tokens",) if words["tokens"] else ()
    steps = (f"network_{targets}", "network_step", "metric", targets)
    parts = (f"read_{reading}", *tokens, model, *batches, *steps)
    return Kind(parts, {**words, "labels": labels})


def _mask_kind(model: str, needs: str) -> Kind:
    return Kind(("read_masks", model, "metric", "masks"), {**_MASKS, "needs": needs})


def _box_kind(library: str, needs: str) -> Kind:
    parts = ("read_boxes", f"boxes_{library}", "boxes", "metric")
    return Kind(parts, {**_BOXES, "needs": needs})


def _tree_kind(library: str, labels: bool, *, series: bool = False) -> Kind:
    targets = "labels" if labels else "values"
    parts = ("read_tables", "lags", "tree_features", f"tree_{library}", "tree_folds", "metric", targets)
    words = {"library": library, "checkpoints": _TREE_CHECKPOINTS[library], "needs": library}
    return Kind(parts, {**_TREES, **words, "labels": labels, "series": series})


KINDS: dict[tuple[str, str], Kind] = {
    ("image-classification", "timm"): _network_kind("images", "images", _IMAGES, True),
    ("image-regression", "timm"): _network_kind("images", "images", _IMAGES, False),
    ("image-retrieval", "timm"): Kind(
        ("read_images", "images", "network_step", "metric", "retrieval"), _RETRIEVAL
    ),
    ("image-segmentation", "smp"): _mask_kind(
        "masks_smp", "torch >= 2.4, timm, segmentation-models-pytorch, Pillow"
    ),
    ("image-segmentation", "torch"): _mask_kind("masks_unet", "torch >= 2.4, Pillow"),
    ("object-detection", "torchvision"): _box_kind("torchvision", "torch >= 2.4, torchvision, timm, Pillow"),
    ("object-detection", "ultralytics"): _box_kind(
        "ultralytics", "torch >= 2.4, torchvision, ultralytics (AGPL-3.0), Pillow"
    ),
    ("audio-classification", "timm"): _network_kind("sounds", "sounds", _SOUNDS, True),
    ("text-classification", "transformers"): _network_kind("texts", "texts", _TEXTS, True),
    ("text-regression", "transformers"): _network_kind("texts", "texts", _TEXTS, False),
    ("text-pair-similarity", "transformers"): _network_kind("texts", "texts", _PAIRS, False),
    ("text-classification", "torch"): _network_kind("texts", "words", _WORDS, True),
    ("text-regression", "torch"): _network_kind("texts", "words", _WORDS, False),
}
"""(task, library) -> its sort of script."""

for _task, _labels in (("tabular-classification", True), ("tabular-regression", False)):
    KINDS[_task, "torch"] = _network_kind("tables", "net", _TABLES, _labels)
    KINDS |= {(_task, library): _tree_kind(library, _labels) for library in _TREE_CHECKPOINTS}

_STEPS = ("network_labels", "network_step", "metric", "labels")
KINDS["token-classification", "transformers"] = Kind(
    ("read_words", "tokens", "entities", *_STEPS), _ENTITIES | {"labels": True}
)

SERIES = "time-series-regression"
KINDS |= {(SERIES, library): _tree_kind(library, False, series=True) for library in _TREE_CHECKPOINTS}

CLASSES_OF_PAIRS = _network_kind("texts", "texts", _PAIRS, True)

DECODERS = {
    "text-classification": _network_kind("texts", "decoders", _DECODERS, True),
    "text-regression": _network_kind("texts", "decoders", _DECODERS, False),
}
"""Task -> the sort of script of a plan with `method`."""

_CROPPED = {"light-augmentation": "random crops of half the area or more, mirrored half the time"}
AUGMENTED: Mapping[str, Mapping[str, str]] = {
    "image-classification": _CROPPED,
    "image-regression": _CROPPED,
    "image-segmentation": {"light-augmentation": "mirrored half the time"},
    "object-detection": {
        "light-augmentation": "mirrored half the time, moved, lighter and darker: FLIP",
        "multi-scale": "trained at several scales: SCALE",
    },
    "image-retrieval": {**_CROPPED, "metric-learning-head": "ArcFace over the groups: ARC_MARGIN, ARC_SCALE"},
}
"""Task -> techniques that its script always does."""

HUB_NAMES = {
    **{f"deberta-v3-{size}": f"microsoft/deberta-v3-{size}" for size in ("xsmall", "small", "base", "large")},
    **{name: f"microsoft/{name}" for name in ("mdeberta-v3-base", "deberta-v2-xlarge", "deberta-base")},
    **{name: f"google/{name}" for name in ("electra-small-discriminator", "electra-base-discriminator",
                                           "electra-large-discriminator")},
    **{name: f"google-bert/{name}" for name in ("bert-base-uncased", "bert-base-cased", "bert-large-uncased",
                                                "bert-base-multilingual-cased")},
    **{name: f"FacebookAI/{name}" for name in ("roberta-base", "roberta-large", "xlm-roberta-base",
                                               "xlm-roberta-large")},
    **{name: f"distilbert/{name}" for name in ("distilroberta-base", "distilbert-base-uncased")},
    "albert-base-v2": "albert/albert-base-v2",
    "modernbert-base": "answerdotai/ModernBERT-base",
    "modernbert-large": "answerdotai/ModernBERT-large",
    "minilm-l12-h384-uncased": "microsoft/MiniLM-L12-H384-uncased",
    "all-minilm-l6-v2": "sentence-transformers/all-MiniLM-L6-v2",
    "all-minilm-l12-v2": "sentence-transformers/all-MiniLM-L12-v2",
    "all-mpnet-base-v2": "sentence-transformers/all-mpnet-base-v2",
    **{f"bge-{size}-en-v1.5": f"BAAI/bge-{size}-en-v1.5" for size in ("small", "base", "large")},
    "e5-base-v2": "intfloat/e5-base-v2",
    "multilingual-e5-small": "intfloat/multilingual-e5-small",
    "multilingual-e5-base": "intfloat/multilingual-e5-base",
    "labse": "sentence-transformers/LaBSE",
    **{f"longformer-{size}-4096": f"allenai/longformer-{size}-4096" for size in ("base", "large")},
    "bigbird-roberta-base": "google/bigbird-roberta-base",
    **{name: f"microsoft/{name}" for name in ("deberta-v2-xxlarge", "deberta-large", "deberta-xlarge")},
    "albert-xxlarge-v2": "albert/albert-xxlarge-v2",
    **{f"qwen2.5-{size}": f"Qwen/Qwen2.5-{size.upper()}"
       for size in ("0.5b", "1.5b", "3b", "7b", "14b", "32b", "72b")},
    **{f"qwen3-{size}": f"Qwen/Qwen3-{size.upper()}" for size in ("0.6b", "1.7b", "4b", "8b", "14b", "32b")},
    **{f"llama-{size}": f"meta-llama/Llama-{size.upper()}"
       for size in ("3.1-8b", "3.1-70b", "3.2-1b", "3.2-3b")},
    "tinyllama-1.1b": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "deepseek-r1-distill-qwen-1.5b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
    "deepseek-r1-distill-qwen-7b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "deepseek-r1-distill-llama-8b": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    "mistral-7b": "mistralai/Mistral-7B-v0.1",
    "mistral-nemo-12b": "mistralai/Mistral-Nemo-Base-2407",
    "mistral-small-24b": "mistralai/Mistral-Small-24B-Base-2501",
    **{f"gemma-{size}": f"google/gemma-{size}" for size in ("2b", "7b", "2-2b", "2-9b", "2-27b")},
    **{f"gemma-3-{size}": f"google/gemma-3-{size}-pt" for size in ("1b", "4b", "12b")},
    "phi-3-mini": "microsoft/Phi-3-mini-4k-instruct",
    "phi-4": "microsoft/phi-4",
    "phi-4-mini": "microsoft/Phi-4-mini-instruct",
    "glm-4-32b": "THUDM/GLM-4-32B-0414",
    **{f"smollm2-{size}": f"HuggingFaceTB/SmolLM2-{size.upper()}" for size in ("135m", "360m", "1.7b")},
}  # fmt: skip
"""Name in the catalogue -> repository of the hub, whose weights it stands for."""

SCRIPTED = tuple(dict.fromkeys(task for task, _ in KINDS))
"""The tasks that have a script."""
