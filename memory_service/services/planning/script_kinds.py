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


_LEARNING = ("metric", "running", "resuming", "folds", "validating", "training", "all_folds")
_ENDING = ("writing", "predicting", "averaging", "main")
_PLAIN: dict[str, Any] = dict.fromkeys(
    (
        "labels",
        "masks",
        "table",
        "files",
        "network",
        "layout_matters",
        "members",
        "collate",
        "library",
        "blend",
    ),
    False,
)
_NETWORK = _PLAIN | {
    "network": True,
    "checkpoints": "fold_K.pt",
    "model": "build_model(len(data.outputs), PRETRAINED)",
    "model_again": 'build_model(len(kept["outputs"]), pretrained=False)',
}
_OF_LABELS = {
    "labels": True,
    "targets_are": "class numbers; of several labels a 0/1 matrix",
    "outputs_are": "names of the classes",
}
_OF_VALUES = {"targets_are": "a column a target", "outputs_are": "names of the targets"}
_IMAGES = _NETWORK | {
    "files": True,
    "layout_matters": True,
    "size": "IMAGE_SIZE",
    "inputs_are": "paths of the images",
    "layout": "the target or targets),\ntest.csv or sample_submission.csv (ids), "
    "train/<id>.jpg, test/<id>.jpg",
    "needs": "torch >= 2.4, timm, Pillow",
    "learned": "Images(model, data.inputs, train_rows, train=True, flip=flips(data.outputs))",
    "validated": "Images(model, data.inputs, valid_rows)",
    "tested": "Images(model, data.test_inputs, rows, partly=True)",
}
_MASKS = _IMAGES | {
    "masks": True,
    "targets_are": "paths of their masks",
    "outputs_are": "the one kind of mask",
    "layout": "what else there is),\nsample_submission.csv or test.csv (ids), images train/<id>.jpg, "
    "test/<id>.jpg, masks train_masks/<id>.png",
    "model": "build_model(PRETRAINED)",
    "learned": "Masks(data.inputs, train_rows, data.targets, train=True)",
    "validated": "Masks(data.inputs, valid_rows, data.targets)",
}
_SOUNDS = _IMAGES | {
    "size": "SEQ_LEN",
    "inputs_are": "paths of the sounds",
    "layout": "the target or targets),\ntest.csv or sample_submission.csv (ids), "
    "train/<id>.wav, test/<id>.wav",
    "needs": "torch >= 2.4, timm",
    "learned": "Sounds(data.inputs, train_rows, train=True)",
    "validated": "Sounds(data.inputs, valid_rows)",
    "tested": "Sounds(data.test_inputs, rows)",
}
_TEXTS = _NETWORK | {
    "size": "SEQ_LEN",
    "collate": "padded",
    "inputs_are": "texts",
    "layout": "a column of text, the target or targets), test.csv",
    "needs": "torch >= 2.4, transformers",
    "learned": "Texts(data.inputs, train_rows)",
    "validated": "Texts(data.inputs, valid_rows)",
    "tested": "Texts(data.test_inputs, rows)",
}
_TABLES = _NETWORK | {
    "table": True,
    "size": "N_FEATURES",
    "collate": "as_it_is",
    "inputs_are": "a DataFrame",
    "layout": "inputs and the target or targets), test.csv",
    "needs": "torch >= 2.4",
    "model": 'build_model(kept["columns"], len(data.outputs))',
    "model_again": 'build_model(kept["columns"], len(kept["outputs"]))',
    "learned": 'Table(kept["columns"], data.inputs, train_rows)',
    "validated": 'Table(kept["columns"], data.inputs, valid_rows)',
    "tested": 'Table(kept["columns"], data.test_inputs, rows)',
}
_TREES = _PLAIN | {"inputs_are": "a DataFrame", "layout": "inputs and the target or targets), test.csv"}
NETS = {  # the model's name -> its part
    "mlp": "net_mlp",
    "tabular-resnet": "net_resnet",
    "ft-transformer": "net_ft",
    "tabm": "net_tabm",
    "realmlp": "net_realmlp",
}
WIDTHS = {"unet": (64, 128, 256, 512, 1024), "unet-small": (32, 64, 128, 256, 512)}
_TREE_LIBRARIES = {
    "lightgbm": ("fold_K.txt", "lightgbm_callback"),
    "xgboost": ("fold_K.json", "xgboost_callback"),
    "catboost": ("fold_K.cbm", "CatBoostCallback"),
}


def _network_kind(reading: str, model: str, words: Mapping[str, Any], labels: bool) -> Kind:
    answer = "labels" if labels else "values"
    files = ("box", "data", f"read_{reading}", "files", answer, model, *_LEARNING, *_ENDING)
    return Kind(files, {**words, **(_OF_LABELS if labels else _OF_VALUES)})


def _mask_kind(model: str, needs: str) -> Kind:
    files = ("box", "data", "read_masks", "files", *_LEARNING[:4], model, "masks", *_LEARNING[5:])
    return Kind((*files, "writing", "main"), {**_MASKS, "needs": needs})


def _tree_kind(library: str, labels: bool) -> Kind:
    answer = "labels" if labels else "values"
    files = ("box", "data", "read_tables", "files", answer, *_LEARNING[:4], "tree_features")
    ending = (f"tree_{library}", "tree_folds", "all_folds", "writing", "averaging", "main")
    checkpoints, callback = _TREE_LIBRARIES[library]
    words = {"library": library, "checkpoints": checkpoints, "callback": callback, "needs": library}
    return Kind((*files, *ending), {**_TREES, **words, **(_OF_LABELS if labels else _OF_VALUES)})


KINDS: dict[tuple[str, str], Kind] = {
    ("image-classification", "timm"): _network_kind("images", "images", _IMAGES, True),
    ("image-regression", "timm"): _network_kind("images", "images", _IMAGES, False),
    ("image-segmentation", "smp"): _mask_kind(
        "masks_smp", "torch >= 2.4, timm, segmentation-models-pytorch, Pillow"
    ),
    ("image-segmentation", "torch"): _mask_kind("masks_unet", "torch >= 2.4, Pillow"),
    ("audio-classification", "timm"): _network_kind("sounds", "sounds", _SOUNDS, True),
    ("text-classification", "transformers"): _network_kind("texts", "texts", _TEXTS, True),
    ("text-regression", "transformers"): _network_kind("texts", "texts", _TEXTS, False),
}
"""(task, library) -> its sort of script."""

for _task, _labels in (("tabular-classification", True), ("tabular-regression", False)):
    KINDS[_task, "torch"] = _network_kind("tables", "net", _TABLES, _labels)
    KINDS |= {(_task, library): _tree_kind(library, _labels) for library in _TREE_LIBRARIES}

_CROPPED = {"light-augmentation": "random crops of half the area or more, mirrored half the time"}
AUGMENTED: Mapping[str, Mapping[str, str]] = {
    "image-classification": _CROPPED,
    "image-regression": _CROPPED,
    "image-segmentation": {"light-augmentation": "mirrored half the time"},
}
"""Task -> what its script does to training samples."""

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
}  # fmt: skip
"""Name in the catalogue -> repository of the hub, whose weights it stands for."""

SCRIPTED = tuple(dict.fromkeys(task for task, _ in KINDS))
"""The tasks that have a script."""
