"""Traces the cost of one sample of a model in a training step, without a GPU.

One step (forward, loss, backward) runs on the `meta` device with a large prime batch. A storage whose size
is a multiple of that prime scales with the batch and every other is fixed, so the timeline of live bytes is
known for all batches at once; its upper envelope is the peak. Work is summed per operation class on the way.

PyTorch offers CUDA's autocast only where CUDA is, and the CPU's lists differ (layer norm and softmax stay in
half precision there), so the lists of `aten/src/ATen/autocast_mode.h` are applied by a function mode. The
mode also takes the CUDA way through dropout (one kernel, one-byte mask) and attention (one kernel or none).
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward
from torch.overrides import TorchFunctionMode

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.cost.interpolation import envelope
from memory_service.domain.cost.profile import Profile
from memory_service.errors import wrong_value
from memory_service.measure.live_memory import Ledger
from memory_service.measure.traceable_model import BuiltModel

PROBE_BATCH = 1009
"""Prime, and larger than the prime factors of usual dimensions: no fixed tensor is a multiple of it."""


def trace_profile(
    built: BuiltModel,
    *,
    precision: Literal["fp32", "amp"],
    fused_attention: bool = True,
    checkpointing: bool = False,
    channels_last: bool = True,
) -> Profile:
    """One training step and one inference step of `built`, as bytes and work per sample.

    precision      "amp": CUDA autocast to half precision with fp32 weights; "fp32": as it is
    checkpointing  recompute blocks in the backward pass; ValueError where the module cannot
    The peak counts parameters, buffers, inputs, autocast's weight copies, saved tensors and live gradients,
    not optimizer state; `extra["peak_gradients_kept"]` is the same when gradients survive from step to step.
    """
    ledger = trace_ledger(built, precision, fused_attention, checkpointing, channels_last)
    inference = _infer(built, precision, fused_attention, channels_last)
    module = built.module
    params = sum(p.numel() for p in module.parameters())
    gradient_bytes = sum(
        -(-p.numel() * p.element_size() // 512) * 512 for p in module.parameters() if p.requires_grad
    )
    return Profile(
        model=built.name,
        library=built.library,
        input_kind=built.input_kind,  # type: ignore[arg-type]
        input_size=built.input_size,
        precision=precision,
        params=params,
        buffers_bytes=sum(b.numel() * b.element_size() for b in module.buffers()),
        peak=envelope([(fixed, slope) for fixed, slope, _ in ledger.moments]),
        forward=ledger.works("forward"),
        backward=ledger.works("backward"),
        n_outputs=built.n_outputs,
        fused_attention=fused_attention,
        checkpointing=checkpointing,
        channels_last=channels_last,
        family=built.family,
        largest_activation_bytes_per_sample=float(ledger.largest_per_sample),
        inference_peak=envelope([(fixed, slope) for fixed, slope, _ in inference.moments]),
        torch_version=str(torch.__version__),
        extra={
            "largest_conv_bytes": dict(sorted(ledger.convs.items())),
            "parameter_tensors": sum(1 for p in module.parameters() if p.requires_grad),
            "roofline": ledger.roofline.rows() + inference.roofline.rows("inference"),
            "peak_gradients_kept": [
                [p.fixed_bytes, p.per_sample_bytes]
                for p in envelope([(f - g + gradient_bytes, s) for f, s, g in ledger.moments])
            ],
        },
    )


def trace_ledger(
    built: BuiltModel, precision: str, fused_attention: bool, checkpointing: bool, channels_last: bool
) -> Ledger:
    """The timeline of one training step."""
    module = built.module
    _prepare(module, fused_attention, checkpointing)
    module.train()
    ledger = Ledger(PROBE_BATCH)
    inputs = _laid_out(built, channels_last)
    ledger.hold(_resident(module, inputs))
    hooks = [
        p.register_post_accumulate_grad_hook(lambda p: ledger.mark_gradient(p.grad))  # type: ignore[no-untyped-call]
        for p in module.parameters()
        if p.requires_grad
    ]
    semantics = CudaSemantics(amp=precision == "amp", fused_attention=fused_attention)
    try:
        with ledger, semantics:
            loss = built.loss(built.forward(inputs), inputs)
            semantics.forget_casts()
            ledger.phase = "backward"
            _backward(loss)
    finally:
        for hook in hooks:
            hook.remove()
        module.zero_grad(set_to_none=True)
    return ledger


def _backward(loss: Tensor) -> None:
    """`loss.backward()` without suspending the function mode while blocks are recomputed."""
    _engine_run_backward(
        (loss,), (torch.ones_like(loss),), False, False, (), allow_unreachable=True, accumulate_grad=True
    )


def _infer(built: BuiltModel, precision: str, fused_attention: bool, channels_last: bool) -> Ledger:
    built.module.eval()
    ledger = Ledger(PROBE_BATCH)
    inputs = _laid_out(built, channels_last)
    ledger.hold(_resident(built.module, inputs))
    with torch.no_grad(), ledger, CudaSemantics(amp=precision == "amp", fused_attention=fused_attention):
        built.forward(inputs)
    built.module.train()
    return ledger


def _resident(module: nn.Module, inputs: dict[str, Tensor]) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from module.buffers()
    yield from inputs.values()


def _laid_out(built: BuiltModel, channels_last: bool) -> dict[str, Tensor]:
    volumes = any(p.dim() == 5 for p in built.module.parameters())  # channels_last is a layout of images
    layout = torch.channels_last if channels_last and not volumes else torch.contiguous_format
    for parameter in built.module.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=layout)
    inputs = built.inputs(PROBE_BATCH)
    return {k: t.contiguous(memory_format=layout) if t.dim() == 4 else t for k, t in inputs.items()}


def _prepare(module: nn.Module, fused_attention: bool, checkpointing: bool) -> None:
    for part in module.modules():
        if isinstance(getattr(part, "fused_attn", None), bool):
            vars(part)["fused_attn"] = fused_attention
    switch: Any = getattr(module, "set_grad_checkpointing", None)
    hub_switch: Any = getattr(module, "gradient_checkpointing_enable", None)
    if hub_switch is not None and checkpointing:
        with warnings.catch_warnings():  # renamed in transformers 5.12, where the old name still works
            warnings.simplefilter("ignore", FutureWarning)
            hub_switch(gradient_checkpointing_kwargs={"use_reentrant": False})
    elif switch is not None:
        switch(checkpointing)
    elif checkpointing:
        kind = type(module).__name__
        raise wrong_value("gradient_checkpointing", f"is not offered by this network ({kind})", True)


_AUTOCAST = shipped_table(__package__, "names.toml")["autocast"]

HALF = frozenset(_AUTOCAST["half"].split())
"""Run in half precision: products and convolutions."""

SINGLE = frozenset(_AUTOCAST["single"].split())
"""Run in single precision, inputs cast first: normalisations by sample, logarithms, powers, losses."""

SINGLE_OUTPUT = frozenset(_AUTOCAST["single_output"].split())
"""Read half precision, write single precision: no cast copy of the input."""


class CudaSemantics(TorchFunctionMode):
    """Routes torch functions as a CUDA device would: autocast to fp16, dropout, attention.

    A parameter's half-precision copy is cached until `forget_casts`, as autocast does in its region.
    """

    def __init__(self, *, amp: bool, fused_attention: bool) -> None:
        super().__init__()
        self._amp = amp
        self._fused_attention = fused_attention
        self._casts: dict[int, Tensor] | None = {}

    def forget_casts(self) -> None:
        """The autocast region ends: cached weight copies live on only where autograd saved them."""
        self._casts = None

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").removeprefix("_VF.")
        if name in ("dropout", "dropout1d", "feature_dropout", "dropout_"):
            replaced = self._dropout(*args, **kwargs)
            if replaced is not None:
                return replaced
        if name == "scaled_dot_product_attention":
            return self._attention(*args, **kwargs)
        if not self._amp:
            return func(*args, **kwargs)
        if name in HALF:
            return func(*self._cast(args, torch.float16), **self._cast(kwargs, torch.float16))
        if name in SINGLE:
            return func(*self._cast(args, torch.float32), **self._cast(kwargs, torch.float32))
        if name in ("softmax", "log_softmax"):
            return self._softmax(name, func, args, kwargs)
        if name in SINGLE_OUTPUT and kwargs.get("dtype") is None and _is_half(args[0]):
            return func(*args, **{**kwargs, "dtype": torch.float32})
        return func(*args, **kwargs)

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, Tensor):
            if not value.is_floating_point() or value.dtype in (dtype, torch.float64):
                return value
            return self._half_of(value) if dtype is torch.float16 else value.to(dtype)
        if isinstance(value, Mapping):
            return {key: self._cast(item, dtype) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(self._cast(item, dtype) for item in value)
        return value

    def _half_of(self, value: Tensor) -> Tensor:
        cacheable = value.is_leaf and value.requires_grad and value.dtype is torch.float32
        if not cacheable or self._casts is None:
            return value.to(torch.float16)
        cached = self._casts.get(id(value))
        if cached is None:
            cached = self._casts[id(value)] = value.to(torch.float16)
        return cached

    def _dropout(
        self,
        x: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,  # noqa: ARG002
    ) -> Tensor | None:
        if not training or p in (0.0, 1.0) or not isinstance(x, Tensor):
            return None
        return torch.native_dropout(x, p, True)[0]

    def _softmax(self, name: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        x = args[0] if args else kwargs["input"]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
        dtype = kwargs.get("dtype")
        if not _is_half(x) or dtype not in (None, torch.float32) or not isinstance(dim, int):
            return func(*args, **kwargs)
        op = torch.ops.aten._softmax if name == "softmax" else torch.ops.aten._log_softmax
        return op(x, dim, True)

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if self._amp:
            query, key, value = (self._cast(t, torch.float16) for t in (query, key, value))
        if enable_gqa and key.shape[-3] != query.shape[-3]:
            times = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
        if query.dim() == 4 and self._fused_attention:
            bias = _attention_bias(attn_mask, query, key)
            fused = torch.ops.aten._scaled_dot_product_efficient_attention
            return fused(query, key, value, bias, query.requires_grad, 0.0, is_causal, scale=scale)[0]
        # unfused: products (both scaled) and softmax one by one
        root = math.sqrt(scale or 1.0 / math.sqrt(query.shape[-1]))
        scores = (query * root) @ (key * root).transpose(-2, -1)
        if attn_mask is not None:
            hidden = attn_mask.dtype is torch.bool
            scores = scores.masked_fill(~attn_mask, -math.inf) if hidden else scores + attn_mask
        weights = torch.ops.aten._softmax(scores, -1, self._amp and not self._fused_attention)
        if dropout_p:
            weights = torch.native_dropout(weights, dropout_p, True)[0]
        return (self._cast(weights, value.dtype) if self._amp else weights) @ value


def _is_half(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16)


def _attention_bias(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The mask as the fused kernel wants it: additive, in the query's type, broadcast without a copy."""
    if mask is None:
        return None
    if mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, -math.inf)
    mask = mask.to(query.dtype)
    return mask.expand(query.shape[0], query.shape[1], query.shape[-2], key.shape[-2])
