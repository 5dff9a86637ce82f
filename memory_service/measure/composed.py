"""Models around an image encoder: spectrograms, frames, captions, an image beside a table.

`spec/<timm>`           128 mel bands x `seq_len` frames of 10 ms, one channel, through an image encoder
`frames/<timm>`         `FRAMES` frames an item through an image encoder, features averaged
`caption/<timm>`        image encoder, then a 6-layer text decoder of `CAPTION_TOKENS` tokens
`image+tabular/<timm>`  image encoder beside a small network for `TABLE_COLUMNS` columns
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import timm
import torch
from torch import Tensor, nn

from memory_service.domain.cost.families import family_of
from memory_service.errors import unknown_name
from memory_service.measure.dense_prediction import dense_detection_loss, mask_loss
from memory_service.measure.nets import NETS
from memory_service.measure.traceable_model import BuiltModel, classification_loss, on_meta, zeros
from memory_service.measure.vision import default_image_size, size_arguments, timm_name

MEL_BANDS = 128
FRAMES = 8
CAPTION_TOKENS = 64
CAPTION_VOCABULARY = 30_522
TABLE_COLUMNS = 32
DEFAULT_AUDIO_FRAMES = 512

COMPOSED = ("spec", "frames", "caption", "image+tabular")

VIDEO_NETS = (
    "r3d_18", "mc3_18", "r2plus1d_18", "s3d", "mvit_v1_b", "mvit_v2_s", "swin3d_t", "swin3d_s",
    "swin3d_b",
)  # fmt: skip


def build_composed(name: str, input_size: int | None, n_outputs: int | None) -> BuiltModel:
    """`<head>/<timm encoder>` for the heads of `COMPOSED`; InvalidInput for others."""
    head, _, encoder = name.partition("/")
    current = timm_name(encoder)
    if head not in COMPOSED or current is None:
        raise unknown_name("model", name, [f"{option}/efficientnet_b0" for option in COMPOSED])
    outputs = n_outputs or (CAPTION_VOCABULARY if head == "caption" else 10)
    kind, default = "image_size", default_image_size(current)
    if head == "spec":
        kind, default = "seq_len", DEFAULT_AUDIO_FRAMES
    size = input_size or default
    image = (3, size, size)
    make: Callable[[str, int, int], nn.Module]
    if head == "spec":
        make, inputs = _spectrogram, zeros(x=(1, MEL_BANDS, size))
    elif head == "frames":
        make, inputs = _Frames, zeros(x=(FRAMES, *image))
    elif head == "caption":
        make, inputs = _Captioner, zeros(x=image, tokens=(CAPTION_TOKENS,), integers=["tokens"])
    else:
        make, inputs = _ImageAndTable, zeros(x=image, table=(TABLE_COLUMNS,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = on_meta(partial(make, current, size, outputs))
    return BuiltModel(name, "timm", family_of(current), module, kind, size, default, outputs, inputs)


def build_net(
    name: str, config: Mapping[str, Any], input_size: int | None, n_outputs: int | None, family: str
) -> BuiltModel:
    """A network of `measure.nets`: config {"net": "tabm", "figures": {}, "channels": 8, "n_outputs": 2}."""
    net = str(config["net"])
    form, constructor = NETS[net]
    default = int(config.get("default_input_size", 64))
    size = input_size or default
    outputs = n_outputs or int(config.get("n_outputs", 2))
    channels = int(config.get("channels", {"image": 3, "maps": 3, "detector": 3, "volume": 1}.get(form, 8)))
    figures = dict(config.get("figures", {}))
    first = size if form in ("table", "items") else channels

    sides = {"series": 1, "image": 2, "maps": 2, "detector": 2, "volume": 3}.get(form, 0)
    shape = (channels, *[size] * sides) if sides else (size,)
    inputs = zeros(x=shape, integers=["x"] if form == "items" else ())
    module = on_meta(lambda: constructor(first, outputs, **figures))
    pictures = dict.fromkeys(("image", "maps", "detector", "volume"), "image_size")
    kind = {"table": "n_features", **pictures}.get(form, "seq_len")
    loss = {"detector": dense_detection_loss, "maps": mask_loss, "volume": mask_loss}.get(
        form, classification_loss
    )
    return BuiltModel(name, "torch", family or net, module, kind, size, default, outputs, inputs, loss)


def build_video(name: str, input_size: int | None, n_outputs: int | None) -> BuiltModel:
    """A torchvision video network on 16 frames of `input_size` pixels a side."""
    from torchvision.models import video

    default = 112 if name in ("r3d_18", "mc3_18", "r2plus1d_18") else 224
    size = default if input_size is None or name.startswith("mvit") else input_size
    outputs = n_outputs or 400
    module = on_meta(lambda: getattr(video, name)(weights=None, num_classes=outputs))
    inputs = zeros(x=(3, 16, size, size))
    family = "swin" if name.startswith("swin") else "mvit" if name.startswith("mvit") else "conv3d"
    return BuiltModel(name, "torchvision", family, module, "image_size", size, default, outputs, inputs)


def _spectrogram(current: str, frames: int, outputs: int) -> nn.Module:
    size: dict[str, Any] = {"img_size": (MEL_BANDS, frames)} if size_arguments(current, 0) else {}
    module: nn.Module = timm.create_model(current, pretrained=False, in_chans=1, num_classes=outputs, **size)
    return module


def _encoder(current: str, size: int) -> Any:
    return timm.create_model(current, pretrained=False, num_classes=0, **size_arguments(current, size))


class _Frames(nn.Module):
    def __init__(self, current: str, size: int, outputs: int) -> None:
        super().__init__()
        self.encoder = _encoder(current, size)
        self.head = nn.Linear(self.encoder.num_features, outputs)

    def forward(self, x: Tensor) -> Tensor:
        features = self.encoder(x.flatten(0, 1))
        return self.head(features.reshape(x.shape[0], x.shape[1], -1).mean(dim=1))


class _ImageAndTable(nn.Module):
    def __init__(self, current: str, size: int, outputs: int) -> None:
        super().__init__()
        self.encoder = _encoder(current, size)
        columns, both = nn.Linear(TABLE_COLUMNS, 128), nn.Linear(self.encoder.num_features + 128, 256)
        self.table = nn.Sequential(columns, nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 128))
        self.head = nn.Sequential(both, nn.ReLU(), nn.Linear(256, outputs))

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        return self.head(torch.cat([self.encoder(x), self.table(table)], dim=1))


class _Captioner(nn.Module):
    """Feature map as memory of a pre-norm decoder of width 512; logits (batch, vocabulary, tokens)."""

    def __init__(self, current: str, size: int, vocabulary: int, width: int = 512, layers: int = 6) -> None:
        super().__init__()
        self.encoder = _encoder(current, size)
        self.bridge = nn.Linear(self.encoder.num_features, width)
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(CAPTION_TOKENS, width))
        layer = nn.TransformerDecoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, layers)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        features = self.encoder.forward_features(x)
        if features.dim() == 4:
            channels_first = features.shape[1] == self.encoder.num_features
            features = features.flatten(2).transpose(1, 2) if channels_first else features.flatten(1, 2)
        memory = self.bridge(features)
        length = tokens.shape[1]
        future = torch.ones((length, length), dtype=torch.bool, device=tokens.device).triu(1)
        states = self.decoder(
            self.words(tokens) + self.positions, memory, tgt_mask=future, tgt_is_causal=True
        )
        logits: Tensor = self.head(states)
        return logits.transpose(1, 2)
