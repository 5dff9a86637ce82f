"""Encoders of transformers that read texts whole, in windows that overlap, or word by word."""

from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification

from memory_service.train.budget import plan
from memory_service.train.hub_models import from_hub, source
from memory_service.train.torch_loop import device


class TextModel(nn.Module):
    """Tokens in, one row of outputs a text (the mean over its windows) or a word (of its first token)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: dict[str, torch.Tensor]) -> torch.Tensor:
        first, text = tokens.get("first"), tokens.get("text")
        inputs = {name: each for name, each in tokens.items() if name not in ("first", "text")}
        outputs = self.network(**inputs).logits
        if first is not None:
            return outputs[first]
        if text is None:
            return outputs
        outputs, counts = outputs.float(), torch.bincount(text)
        total = outputs.new_zeros(len(counts), outputs.shape[1]).index_add(0, text, outputs)
        return total / counts[:, None]


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    words = plan.TASK == "token-classification"
    kind: Any = AutoModelForTokenClassification if words else AutoModelForSequenceClassification
    width = len(checkpoint["outputs"])
    if pretrained:
        network = from_hub(kind, num_labels=width)
    else:
        network = kind.from_config(AutoConfig.from_pretrained(source(), num_labels=width))
    if plan.GRADIENT_CHECKPOINTING:
        network.gradient_checkpointing_enable()
    return TextModel(network.float()).to(device)


plan.build_model = build_model
