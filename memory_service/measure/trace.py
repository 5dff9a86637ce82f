"""Traces the cost of one sample of a model in a training step, without a GPU.

One step (forward, loss, backward) runs on the `meta` device with a large prime batch. A storage whose size
is a multiple of that prime scales with the batch and every other is fixed, so the timeline of live bytes is
known for all batches at once; its upper envelope is the peak. Work is summed per operation class on the way.
"""

import warnings
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import _engine_run_backward

from memory_service.domain.cost.interpolation import envelope
from memory_service.domain.cost.profile import Profile
from memory_service.errors import wrong_value
from memory_service.measure.autocast import CudaSemantics
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
