"""Counts live bytes and work over one step on tensors without storage; groups kernels for the roofline.

Every storage whose size is a multiple of the (large, prime) batch belongs to the samples; all else is fixed.
"""

import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import log2, prod
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from memory_service.domain.calibration.probes import tile_share
from memory_service.domain.cost.profile import OP_CLASSES, Work

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
    """Kernels by class, arithmetic intensity (powers of two), tile fit and group width: about thirty rows a
    model that predict the same times as single calls within 0.1 % (RTX 3090, benchmarks/fit_rates.py).

    Rows `[phase, class, tile halvings, group width, flops/sample, bytes/sample, flops, bytes, kernels]`.

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
            fixed, per_sample = _split(_moved_bytes(tensor) * times, self.batch)
            fixed_bytes += fixed
            per_sample_bytes += per_sample
        fixed_flops, per_sample_flops = _split(flops, self.batch)
        intensity = fixed_flops / max(fixed_bytes, 1)
        if per_sample_bytes:
            intensity = per_sample_flops / per_sample_bytes
        bucket = min(round(log2(max(intensity, 1.0))), 12) if kind != "elementwise" else 0
        key = (PHASES.index(phase), OP_CLASSES.index(kind), bucket, round(-2 * log2(useful)), width)
        row = self._rows[key]
        amounts = (per_sample_flops, per_sample_bytes, fixed_flops, fixed_bytes, kernels)
        row[:] = [before + amount for before, amount in zip(row, amounts, strict=True)]


def _split(amount: int, batch: int) -> tuple[int, int]:
    """(fixed, per sample): a multiple of the prime batch can only come from the batch."""
    return (0, amount // batch) if amount % batch == 0 else (amount, 0)


def _moved_bytes(tensor: Tensor) -> int:
    """Bytes of one pass over a tensor; of an expanded one those that are stored."""
    return min(tensor.nbytes, tensor.untyped_storage().nbytes())


def _passes(name: str, args: Sequence[Any]) -> int:
    """How often a normalisation reads its inputs: statistics first, then the values."""
    if name in ("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm"):
        return 2 if args[5] is True else 1
    return 2 if name in _READ_TWICE else 1


ALIGNMENT = 512
"""CUDA's caching allocator hands out multiples of 512 bytes."""


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Live bytes over time as (fixed, per sample), and work per operation class of each phase."""

    def __init__(self, batch: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.batch = batch
        self.phase = "forward"
        self.roofline = RooflineTally(batch)
        self.moments: list[tuple[int, int, int]] = []
        self.convs: dict[str, float] = {}
        """Class of convolution -> most bytes per sample of one call, read and written."""
        self.largest_per_sample = 0
        self._live: dict[int, tuple[weakref.ref[Any], int, int]] = {}
        self._gradients: dict[int, int] = {}
        self._fixed = self._per_sample = self._gradient = 0
        self._work: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0] * 5))

    def hold(self, tensors: Iterator[Tensor]) -> None:
        """Count tensors that exist before the step: parameters, buffers, inputs."""
        for tensor in tensors:
            self._allocate(tensor)
        self._mark()

    def mark_gradient(self, gradient: Tensor) -> None:
        """This storage is a parameter's gradient."""
        key = gradient.untyped_storage()._cdata
        entry = self._live.get(key)
        if entry is not None and key not in self._gradients:
            self._gradients[key] = entry[1]
            self._gradient += entry[1]

    def works(self, phase: str) -> dict[str, Work]:
        """Work per operation class of "forward" or "backward"."""
        return {
            name: Work(flops, moved, flops_fixed, moved_fixed, int(kernels))
            for name, (flops, moved, flops_fixed, moved_fixed, kernels) in sorted(self._work[phase].items())
        }

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        results = list(_tensors(out))
        before = len(self._live)
        for tensor in results:
            self._allocate(tensor)
        if len(self._live) != before:
            self._mark()
        if not moves_nothing(func):
            self._account(func, args, kwargs, out, results)
        return out

    def _allocate(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live:
            return
        fixed, per_sample = _split(storage.nbytes(), self.batch)
        fixed = -(-fixed // ALIGNMENT) * ALIGNMENT
        self._live[key] = (weakref.ref(storage, partial(self._free, key)), fixed, per_sample)
        self._fixed += fixed
        self._per_sample += per_sample
        self.largest_per_sample = max(self.largest_per_sample, per_sample)

    def _free(self, key: int, _: object = None) -> None:
        _, fixed, per_sample = self._live.pop(key)
        self._fixed -= fixed
        self._per_sample -= per_sample
        self._gradient -= self._gradients.pop(key, 0)

    def _mark(self) -> None:
        self.moments.append((self._fixed, self._per_sample, self._gradient))

    def _account(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, results: list[Tensor]
    ) -> None:
        inputs = [*_tensors(args), *_tensors(tuple(kwargs.values()))]
        self.roofline.account(self.phase, func, args, inputs, results)
        name, flops, kernels = cost_of(func, args, out)
        work = self._work[self.phase][name]
        fixed, per_sample = _split(flops, self.batch)
        work[0] += per_sample
        work[2] += fixed
        work[4] += kernels
        for tensor in (*inputs, *results):
            fixed, per_sample = _split(_moved_bytes(tensor), self.batch)
            work[1] += per_sample
            work[3] += fixed
        if name.endswith("_conv") and self.phase == "forward":
            both = (inputs[0].nbytes + results[0].nbytes) / self.batch
            self.convs[name] = max(both, self.convs.get(name, 0.0))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)


OpCost = tuple[str, int, int]
"""(operation class, flops = 2 x multiply-adds, kernels launched)."""


_FREE = frozenset(
    {
        "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted",
        "_unsafe_view", "_reshape_alias", "lift_fresh", "_local_scalar_dense", "is_same_size", "set_",
        "resize_", "view", "detach", "alias", "is_pinned",
    }
)  # fmt: skip

ATTENTION = ("_scaled_dot_product", "_efficient_attention", "_flash_attention")


def moves_nothing(func: Any) -> bool:
    """Whether the operator neither reads nor writes device memory: views, allocation, queries."""
    return bool(func.is_view) or func.namespace == "prim" or func._schema.name.split("::")[1] in _FREE


def cost_of(func: Any, args: Sequence[Any], out: Any) -> OpCost:
    """The class and arithmetic of one call; anything not a product is "elementwise" with no flops counted."""
    name = func._schema.name.split("::")[1]
    if name == "convolution":
        return _conv_class(args[1], args[8], args[6]), conv_flops(args[0], args[1], out, args[6]), 1
    if name == "convolution_backward":
        return _conv_backward(args)
    if name in ("mm", "bmm"):
        return "matmul", 2 * prod(args[0].shape) * args[1].shape[-1], 1
    if name in ("addmm", "baddbmm"):
        return "matmul", 2 * prod(args[1].shape) * args[2].shape[-1], 1
    if name in ("mv", "addmv", "dot"):
        return "matmul", 2 * prod(args[0].shape), 1
    if name.startswith(ATTENTION):
        return _attention(name, args)
    if name in ("lstm", "gru", "_thnn_fused_lstm_cell", "mkldnn_rnn_layer", "_cudnn_rnn"):
        return "matmul", 0, 1
    if name in ("native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward"):
        return "elementwise", 0, 2
    return "elementwise", 0, 1


def _conv_class(weight: Tensor, groups: int, transposed: bool) -> str:
    if groups == 1:
        return "dense_conv" if prod(weight.shape[2:]) > 1 else "pointwise_conv"
    depthwise = weight.shape[0 if transposed else 1] == 1 or groups == weight.shape[0]
    return "depthwise_conv" if depthwise else "grouped_conv"


def conv_flops(x: Tensor, weight: Tensor, out: Tensor, transposed: bool) -> int:
    """2 x multiply-adds of one pass."""
    positions = x if transposed else out
    return 2 * positions.shape[0] * prod(positions.shape[2:]) * prod(weight.shape)


def _conv_backward(args: Sequence[Any]) -> OpCost:
    grad, x, weight, transposed, groups, output_mask = args[0], args[1], args[2], args[7], args[9], args[10]
    flops = conv_flops(x, weight, grad, transposed) * (bool(output_mask[0]) + bool(output_mask[1]))
    return _conv_class(weight, groups, transposed), flops, sum(map(bool, output_mask))


def _attention(name: str, args: Sequence[Any]) -> OpCost:
    first, times, kernels = (1, 2.5, 2) if "backward" in name else (0, 1.0, 1)
    query, key, value = args[first : first + 3]
    both = query.shape[-1] + value.shape[-1]
    return "attention", int(times * 2 * prod(query.shape[:-1]) * key.shape[-2] * both), kernels
