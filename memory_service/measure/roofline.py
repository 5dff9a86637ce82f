"""Groups the kernels of a step by class, arithmetic intensity and tile shape.

A class total hides that a thin 1x1 convolution is bound by bytes and a fat one by arithmetic; per call a
profile would be hundreds of rows. Rows merged by arithmetic intensity (powers of two), tile fit and group
width are about thirty a model and predict the same times within 0.1 % (fit on the RTX 3090 rows,
benchmarks/fit_rates.py).
"""

from collections import defaultdict
from collections.abc import Sequence
from math import log2, prod
from typing import Any

from torch import Tensor

from memory_service.domain.calibration.probes import tile_share
from memory_service.domain.cost.profile import OP_CLASSES
from memory_service.measure.operator_work import ATTENTION, conv_flops, cost_of

PHASES = ("forward", "backward", "inference")

_TILE_OUT, _TILE_IN = 64, 32
"""Tensor-core kernels work on tiles of about this many output and reduction columns; less is padded."""

_READ_TWICE = frozenset(
    {
        "_batch_norm_with_update", "native_batch_norm_backward", "cudnn_batch_norm_backward",
        "batch_norm_backward", "native_layer_norm_backward", "native_group_norm_backward",
    }
)  # fmt: skip


class RooflineTally:
    """Rows `[phase, class, tile halvings, group width, flops/sample, bytes/sample, flops, bytes, kernels]`.

    class: index in OP_CLASSES; tile halvings = -2 x log2(useful share of the padded tile), rounded; group
    width: channels per group of a grouped convolution, else 0; bytes are read + written, norms twice.
    """

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self._rows: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0] * 5)

    def rows(self, phase: str | None = None) -> list[list[float]]:
        """All rows in a stable order; `phase` renames the forward pass (inference is one)."""

        def rounded(value: float) -> float:
            return int(f"{value:.0f}") if float(value).is_integer() else float(f"{value:.6g}")

        return [
            [PHASES.index(phase) if phase else key[0], key[1], key[3], key[4], *map(rounded, values)]
            for key, values in sorted(self._rows.items())
        ]

    def account(
        self, phase: str, func: Any, args: Sequence[Any], tensors: Sequence[Tensor], results: Sequence[Tensor]
    ) -> None:
        """Add one call; `tensors` are its inputs, `results` its outputs."""
        name = func._schema.name.split("::")[1]
        if name == "convolution":
            self._convolution(phase, args[0], args[1], results[0], int(args[8]), bool(args[6]), "out")
        elif name == "convolution_backward":
            self._convolution_backward(phase, args)
        elif name in ("mm", "bmm", "addmm", "baddbmm"):
            left, right = (args[1], args[2]) if name.startswith(("add", "badd")) else (args[0], args[1])
            self._product(phase, left, right, results[0])
        elif name.startswith(ATTENTION):
            kind, flops, kernels = cost_of(func, args, None)
            self._add(phase, kind, flops, 1.0, 0, [(t, 1) for t in (*tensors, *results)], kernels)
        else:
            passes = _passes(name, args)
            moved = [(t, 1) for t in results] + [(t, passes if t.dim() > 1 else 1) for t in tensors]
            self._add(phase, "elementwise", 0, 1.0, 0, moved, 2 if passes == 2 else 1)

    def _convolution(
        self, phase: str, x: Tensor, weight: Tensor, out: Tensor, groups: int, transposed: bool, computed: str
    ) -> None:
        """`computed`: "out", "input" (gradient of x) or "weight"."""
        area = prod(weight.shape[2:])
        flops = conv_flops(x, weight, out, transposed)
        wide, narrow = weight.shape[0] // groups, weight.shape[1]
        width = 0
        useful = 1.0
        if groups == 1:
            # no Winograd kernels for volumes: plain products, like 1 x 1 (nnU-Net on V100: 0 to 12 % off)
            kind = "dense_conv" if area > 1 and weight.dim() < 5 else "pointwise_conv"
        elif min(wide, narrow) == 1:
            kind = "depthwise_conv"
        else:
            kind, width = "grouped_conv", min(wide, narrow)
        if kind != "depthwise_conv":
            columns, reduced = (narrow, wide * area) if computed == "input" else (wide, narrow * area)
            useful = tile_share(columns, _TILE_OUT) * tile_share(reduced, _TILE_IN)
        self._add(phase, kind, flops, useful, width, [(x, 1), (weight, 1), (out, 1)], 1)

    def _convolution_backward(self, phase: str, args: Sequence[Any]) -> None:
        grad, x, weight = args[:3]
        transposed, groups, output_mask = bool(args[7]), int(args[9]), args[10]
        for computed, required in zip(("input", "weight"), output_mask, strict=False):
            if required:
                self._convolution(phase, x, weight, grad, groups, transposed, computed)
        if output_mask[2]:
            self._add(phase, "elementwise", 0, 1.0, 0, [(grad, 1)], 1)

    def _product(self, phase: str, left: Tensor, right: Tensor, out: Tensor) -> None:
        rows, reduced, columns = left.shape[-2], left.shape[-1], right.shape[-1]
        useful = 1.0
        for size, tile in ((rows, _TILE_OUT), (columns, _TILE_OUT), (reduced, _TILE_IN)):
            if size % self.batch:
                useful *= tile_share(size, tile)
        flops = 2 * prod(left.shape) * columns
        self._add(phase, "matmul", flops, useful, 0, [(left, 1), (right, 1), (out, 1)], 1)

    def _add(
        self,
        phase: str,
        kind: str,
        flops: int,
        useful: float,
        width: int,
        moved: list[tuple[Tensor, int]],
        kernels: int,
    ) -> None:
        fixed_bytes = per_sample_bytes = 0
        for tensor, times in moved:
            size = min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()) * times
            if size % self.batch == 0:
                per_sample_bytes += size // self.batch
            else:
                fixed_bytes += size
        of_samples = flops % self.batch == 0
        per_sample_flops, fixed_flops = (flops // self.batch, 0) if of_samples else (0, flops)
        intensity = fixed_flops / max(fixed_bytes, 1)
        if per_sample_bytes:
            intensity = per_sample_flops / per_sample_bytes
        bucket = min(round(log2(max(intensity, 1.0))), 12) if kind != "elementwise" else 0
        key = (PHASES.index(phase), OP_CLASSES.index(kind), bucket, round(-2 * log2(useful)), width)
        row = self._rows[key]
        amounts = (per_sample_flops, per_sample_bytes, fixed_flops, fixed_bytes, kernels)
        row[:] = [before + amount for before, amount in zip(row, amounts, strict=True)]


def _passes(name: str, args: Sequence[Any]) -> int:
    """How often a normalisation reads its inputs: statistics first, then the values."""
    if name in ("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm"):
        return 2 if args[5] is True else 1
    return 2 if name in _READ_TWICE else 1
