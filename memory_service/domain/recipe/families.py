"""Which families of `vocabulary.FAMILIES` a model of the catalogue belongs to."""

from __future__ import annotations

from functools import cache

_BY_FAMILY = {
    "forest": "random-forest",
    "distilbert": "bert",
    "albert": "bert",
    "modernbert": "bert",
    "deberta-v2": "deberta",
    "bart": "bart-t5",
    "t5": "bart-t5",
    "bloom": "llm-decoder",
    "gpt-neox": "llm-decoder",
    "gpt2": "llm-decoder",
    "llama": "llm-decoder",
    "opt": "llm-decoder",
    "minilm": "sentence-encoder",
    "mpnet": "sentence-encoder",
    "rnn": "gru-lstm",
    "series-transformer": "transformer-scratch",
    "point-transformer": "transformer-scratch",
    "resnet1d": "cnn-1d",
    "inceptiontime": "cnn-1d",
    "small-cnn": "cnn-small",
    "conv3d": "3d-cnn",
    "mvit": "3d-cnn",
    "matrix-factorisation": "matrix-factorization",
    "counting": "covisitation",
    "ft-transformer": "tabular-transformer",
    "tabpfn": "tabular-transformer",
    "ssd": "retinanet",
    "fcos": "retinanet",
    "coatnet": "coat",
    "dgcnn": "gnn",
    "seresnet": "senet",
    "regnetz": "regnet",
    "two-tower": "metric-learning",
    "gcn": "gnn",
    "csp-detector": "yolo",
}
"""Catalogue family -> name of the vocabulary, where they differ."""

_BY_NAME = (
    ("lightgbm", "lightgbm"), ("xgboost", "xgboost"), ("catboost", "catboost"), ("realmlp", "realmlp"),
    ("tabm", "tabm"), ("beit", "beit"), ("deit", "deit"), ("eva", "eva"), ("seresnext", "seresnext"),
    ("bge-", "sentence-encoder"), ("multilingual-e5", "sentence-encoder"), ("e5-", "sentence-encoder"),
    ("panns", "panns"), ("ast", "ast"), ("resnest", "resnest"), ("whisper", "whisper"),
)  # fmt: skip
"""Start of the encoder's name -> family, where the catalogue's family is wider."""

_WIDER = {"realmlp": "mlp", "tabm": "mlp", "gru-lstm": "lstm-on-features"}
"""Families that are a newer kind of another one: who won with it may well have used these today."""

_PRETRAINED = (("_dinov2", "dinov2"), ("_siglip", "siglip"), ("_clip", "clip"))
"""Part of the name of a network that is known by how it was pretrained -> family."""

_DECODERS = {"unet": "unet", "unetplusplus": "unet++", "fpn": "fpn", "upernet": "fpn",
             "deeplabv3plus": "deeplab", "spec": "sed", "frames": "2.5d-cnn", "fasterrcnn": "fasterrcnn",
             "maskrcnn": "maskrcnn", "retinanet": "retinanet"}  # fmt: skip
"""What stands before the encoder in a name of the catalogue."""


@cache
def families_of(name: str, family: str) -> tuple[str, ...]:
    """The vocabulary's families of a model, its own first, then that of what is built around it
    or what it is a kind of; a name of
    the catalogue itself where the vocabulary has none."""
    decoder, _, encoder = name.rpartition("/")
    own = next((known for start, known in _BY_NAME if encoder.startswith(start)), None)
    own = own or next((known for part, known in _PRETRAINED if part in encoder), None)
    own = own or _BY_FAMILY.get(family, family)
    wider = _DECODERS.get(decoder) or _WIDER.get(own)
    return (own, wider) if wider and wider != own else (own,)
