"""Work of one operator call: class, floating-point operations, kernels."""

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import Tensor

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
    if "backward" in name:
        query, key, value, times, kernels = args[1], args[2], args[3], 2.5, 2
    else:
        query, key, value, times, kernels = args[0], args[1], args[2], 1.0, 1
    both = query.shape[-1] + value.shape[-1]
    return "attention", int(times * 2 * prod(query.shape[:-1]) * key.shape[-2] * both), kernels
