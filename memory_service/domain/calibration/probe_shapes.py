"""Shapes that a calibration measures: products, convolutions, arrays, networks, tables of trees.

Chosen per kind of device (`probe_shapes.toml`), so that each takes long enough to be timed and short enough
for the budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.tables import shipped_table


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


_TABLE = shipped_table(__package__, "probe_shapes.toml")
CONVS = {name: Conv(*row) for name, row in _TABLE["convolutions"].items()}
STREAMS: Mapping[str, tuple[float, int, str]] = {name: tuple(row) for name, row in _TABLE["streams"].items()}
"""Operation -> (arrays read + written, kernels, phase)."""

FEW_STREAMS = ("copy", "add", "relu", "batchnorm", "layernorm")
"""Of these alone both sizes are measured; of the rest, the one that networks on such a device mostly see."""

OF_KIND: Mapping[str, Mapping[str, Any]] = {kind: _TABLE[kind] for kind in ("cuda", "mps", "cpu")}
"""Kind of device -> its shapes, by the names of the table."""

LINEARS: tuple[tuple[int, int, int], ...] = (
    (256, 50, 256), (1024, 50, 512), (256, 256, 256), (1024, 512, 512), (4096, 256, 256),
)  # fmt: skip
"""batch x inputs x outputs of a linear layer with bias, forward and backward."""

ATTENTION_LENGTHS = (128, 512, 1024)
HEAD_WIDTH = 64

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
    batches: Sequence[int]
    n_outputs: int = 100


REFERENCE_NETS: Mapping[str, tuple[ReferenceNet, ...]] = {
    kind: tuple(ReferenceNet(*row) for row in table["networks"]) for kind, table in OF_KIND.items()
}

LARGE_BATCH = 512
"""A fast card behind a slow host waits for it at 128, as an H200 did; here it is busy."""

LARGE_BATCH_NETS = ("cnn", "vit")
