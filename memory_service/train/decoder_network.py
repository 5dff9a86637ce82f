"""Decoders of transformers that read texts: all weights are trained, or adapters alone (LoRA, QLoRA); also
spread over several cards (FSDP)."""

import gc
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import AutoConfig, AutoModelForSequenceClassification

from memory_service.train.budget import plan
from memory_service.train.hub_models import from_hub, frozen_type, in_four_bits, padding, with_adapters
from memory_service.train.torch_loop import RANK, device, half_type, mixed_precision


def load_network(width: int, dtype: torch.dtype) -> nn.Module:
    """The decoder with a new head of `width` outputs, read from the last token of a text; on the meta device
    its shapes alone."""
    settings: dict[str, Any] = {"num_labels": width, "pad_token_id": padding(), "use_cache": False}
    if torch.get_default_device().type == "meta":
        config = from_hub(AutoConfig, **settings)
        return AutoModelForSequenceClassification.from_config(config, dtype=dtype)
    settings["dtype"] = dtype
    if plan.METHOD == "qlora":
        settings |= in_four_bits("score")
    return from_hub(AutoModelForSequenceClassification, **settings)


class DecoderModel(nn.Module):
    """Tokens in, one row of outputs a text; of LoRA only the adapters and the head are trained."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        if plan.GRADIENT_CHECKPOINTING:
            network.gradient_checkpointing_enable({"use_reentrant": False})
        self.network = network if plan.METHOD == "full" else with_adapters(network, "SEQ_CLS")

    def forward(self, tokens: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.network(**tokens).logits


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    """Its public weights, whatever `pretrained` says: of LoRA a checkpoint holds what is trained. Where cards
    have shares of all weights, one predicts, in half precision."""
    gc.collect()  # the model of the fold before
    whole = plan.METHOD == "full" and not plan.SHARDED
    dtype = torch.float32 if whole else frozen_type()
    return DecoderModel(load_network(len(checkpoint["outputs"]), dtype)).to(device)


def build_sharded(checkpoint: dict) -> nn.Module:
    """To be trained, each card with its share of every weight; the first one loads them for all."""
    gc.collect()
    dtype = torch.float32 if plan.METHOD == "full" else frozen_type()
    with torch.device("meta" if RANK > 0 else "cpu"):
        model = DecoderModel(load_network(len(checkpoint["outputs"]), dtype))
    loaded = model.state_dict() if RANK == 0 else {}
    layers: Any = max((part for part in model.modules() if isinstance(part, nn.ModuleList)), key=len)
    half = half_type() if mixed_precision() else None
    for part in (*layers, model):
        fully_shard(part, mp_policy=MixedPrecisionPolicy(param_dtype=half))
    if RANK > 0:
        model.to_empty(device=device)
    from_first = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, loaded, options=from_first)
    for buffer in model.buffers():
        distributed.broadcast(buffer, 0)
    return model


def whole_state(shares: dict) -> dict:
    """The weights whole again, one after another, in the first card's process; of all that is trained as it
    predicts with them."""
    half = half_type() if mixed_precision() and plan.METHOD == "full" else None
    kept = {}
    for name, share in shares.items():
        weight = share.full_tensor() if hasattr(share, "full_tensor") else share
        if RANK == 0:
            kept[name] = weight.to("cpu", half)
    return kept


plan.build_model, plan.build_sharded, plan.whole_state = build_model, build_sharded, whole_state
