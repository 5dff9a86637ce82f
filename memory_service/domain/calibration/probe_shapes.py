"""Shapes that a calibration measures: products, convolutions, arrays, networks, tables of trees.

Chosen per kind of device, so that each takes long enough to be timed and short enough for the budget.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conv:
    """Square images, stride 1, padding to the same size; `wanted` = gradients asked for (input, weight)."""

    op_class: str
    channels: int
    filters: int
    kernel: int
    groups: int
    side: int
    wanted: int = 2


CONVS: Mapping[str, Conv] = {
    "dense56": Conv("dense_conv", 64, 64, 3, 1, 56),
    "dense28": Conv("dense_conv", 128, 128, 3, 1, 28),
    "dense14": Conv("dense_conv", 256, 256, 3, 1, 14),
    "small32": Conv("dense_conv", 32, 64, 3, 1, 32),
    "stem64": Conv("dense_conv", 3, 32, 3, 1, 64, wanted=1),
    "pointwise56": Conv("pointwise_conv", 64, 256, 1, 1, 56),
    "pointwise14": Conv("pointwise_conv", 256, 1024, 1, 1, 14),
    "depthwise56": Conv("depthwise_conv", 96, 96, 3, 96, 56),
    "depthwise14": Conv("depthwise_conv", 480, 480, 5, 480, 14),
    "grouped28": Conv("grouped_conv", 256, 256, 3, 32, 28),
    "grouped14": Conv("grouped_conv", 384, 384, 3, 16, 14),
}

CONV_BATCHES: Mapping[str, tuple[int, int]] = {"cuda": (32, 128), "mps": (16, 64), "cpu": (4, 16)}

SQUARES: Mapping[str, tuple[int, ...]] = {"cuda": (1024, 4096, 8192), "mps": (1024, 2048), "cpu": (256, 1024)}
PRODUCTS: Mapping[str, tuple[tuple[int, int, int], ...]] = {
    "cuda": ((8192, 768, 3072), (512, 512, 512)),
    "mps": ((4096, 768, 3072), (512, 512, 512)),
    "cpu": ((1024, 768, 3072), (1024, 64, 1024), (128, 128, 128)),
}
"""rows x reduced x columns: what linear layers of a transformer, and of small networks, ask for."""

LINEARS: tuple[tuple[int, int, int], ...] = (
    (256, 50, 256), (1024, 50, 512), (256, 256, 256), (1024, 512, 512), (4096, 256, 256),
)  # fmt: skip
"""batch x inputs x outputs of a linear layer with bias, forward and backward."""

ATTENTION_LENGTHS = (128, 512, 1024)
ATTENTION_TOKENS: Mapping[str, int] = {"cuda": 16384, "mps": 4096, "cpu": 1024}
ATTENTION_HEADS: Mapping[str, int] = {"cuda": 12, "mps": 12, "cpu": 4}
HEAD_WIDTH = 64

LARGE_MIB: Mapping[str, int] = {"cuda": 256, "mps": 256, "cpu": 64}
"""One array of the out-of-cache bandwidth probes: larger than any last-level cache of its kind of device."""
SMALL_MIB: Mapping[str, tuple[int, ...]] = {"cuda": (4,), "mps": (1,), "cpu": (1, 8)}
"""The same operations on arrays that stay in a cache: what small networks see."""

STREAMS: Mapping[str, tuple[float, int, str]] = {
    "copy": (2.0, 1, "forward"),
    "add": (3.0, 1, "forward"),
    "relu": (5.0, 2, "train"),
    "gelu": (5.0, 2, "train"),
    "batchnorm": (8.0, 4, "train"),
    "layernorm": (7.0, 3, "train"),
    "softmax": (5.0, 2, "train"),
    "dropout": (4.5, 2, "train"),
    "maxpool": (5.25, 2, "train"),
}
"""Operation -> (arrays read + written, kernels, phase), the first as the tracer counts a norm's
passes. Max pooling: 2 x 2, whose output is a quarter and whose indices are 8 bytes."""

FEW_STREAMS = ("copy", "add", "relu", "batchnorm", "layernorm")
"""Of these alone both sizes are measured; of the rest, the one that networks on such a device mostly see."""

ADAMW_BYTES_PER_PARAM = 28.0

TREES: tuple[tuple[int, int], ...] = ((10_000, 20), (100_000, 50))
TREE_LEAVES = 31

STORED_SIDE, OUTPUT_SIDE = 320, 224
"""Pixels a side of the generated JPEG files and of the crops made from them."""


@dataclass(frozen=True, slots=True)
class ReferenceNet:
    """A network of `measure/nets/reference.py` at the size one kind of device runs it.

    model   name of its profile in seeds/reference_profiles.jsonl.gz
    depth   blocks per stage (cnn, mobile) or in all (vit)
    """

    name: str
    model: str
    width: int
    depth: int
    image_size: int
    batches: tuple[int, ...]
    n_outputs: int = 100


REFERENCE_NETS: Mapping[str, tuple[ReferenceNet, ...]] = {
    "cuda": (
        ReferenceNet("cnn", "reference-cnn-64", 64, 2, 224, (32, 128)),
        ReferenceNet("mobile", "reference-mobile-32", 32, 2, 224, (32, 128)),
        ReferenceNet("vit", "reference-vit-384", 384, 6, 224, (32, 128)),
    ),
    "mps": (
        ReferenceNet("cnn", "reference-cnn-64", 64, 2, 128, (16, 64)),
        ReferenceNet("mobile", "reference-mobile-32", 32, 2, 128, (16, 64)),
        ReferenceNet("vit", "reference-vit-192", 192, 4, 128, (16, 64)),
    ),
    "cpu": (
        ReferenceNet("cnn", "reference-cnn-32", 32, 1, 64, (16, 64)),
        ReferenceNet("mobile", "reference-mobile-16", 16, 1, 64, (16, 64)),
        ReferenceNet("vit", "reference-vit-128", 128, 4, 64, (16, 64)),
    ),
}

LARGE_BATCH = 512
"""A fast card behind a slow host waits for it at 128, as an H200 did; here it is busy."""

LARGE_BATCH_NETS = ("cnn", "vit")
