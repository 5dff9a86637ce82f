"""A module ready for tracing: without memory, with inputs for any batch and a training loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Inputs = Mapping[str, Tensor]
Loss = Callable[[Any, Inputs], Tensor]
MakeInputs = Callable[..., dict[str, Tensor]]
"""(batch, device = "meta") -> tensors of zeros; fake ones inside a FakeTensorMode."""


def classification_loss(outputs: Any, _inputs: Inputs) -> Tensor:
    """Cross entropy over the second axis against class 0; a tuple's auxiliary outputs count 0.4 each."""
    heads = outputs if isinstance(outputs, tuple | list) else (outputs,)
    losses: list[Tensor] = []
    for logits in heads:
        target = torch.zeros((logits.shape[0], *logits.shape[2:]), dtype=torch.long, device=logits.device)
        losses.append(functional.cross_entropy(logits, target))
    total = losses[0]
    for loss in losses[1:]:
        total = total + 0.4 * loss
    return total


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """A model as it would be trained, with parameters on the `meta` device (shapes, no storage).

    name            the resolved name, e.g. "tf_efficientnet_b4.ns_jft_in1k"
    library         "timm" | "transformers" | "smp" | "torchvision" | "torch"
    family          kernels in common: "efficientnet", "vit", "bert", ...
    input_kind      "image_size" (pixels a side) | "seq_len" (tokens or steps) | "n_features" (columns)
    input_size      the size it was built for; default_input_size: what its weights were trained with
    inputs          (batch, device) -> keyword tensors of `module.forward`; a vision model's is {"x": ...}
    loss            (outputs, inputs) -> scalar; targets are made from the outputs' own shapes
    """

    name: str
    library: str
    family: str
    module: nn.Module
    input_kind: str
    input_size: int
    default_input_size: int
    n_outputs: int
    inputs: MakeInputs
    loss: Loss = classification_loss
    positional: bool = True

    def forward(self, inputs: Inputs) -> Any:
        return self.module(*inputs.values()) if self.positional else self.module(**inputs)

    @property
    def params(self) -> int:
        return sum(p.numel() for p in self.module.parameters())


def on_meta(construct: Callable[[], nn.Module]) -> nn.Module:
    """Build under `torch.device("meta")`; a constructor that reads values is built on the CPU, then moved."""
    try:
        with torch.device("meta"):
            module = construct()
    except (NotImplementedError, RuntimeError) as error:
        if "meta" not in str(error) and "Cannot copy" not in str(error):
            raise
        module = construct()
    return module.to("meta")


def zeros(*, integers: Sequence[str] = (), **shapes: tuple[int, ...]) -> MakeInputs:
    """Inputs by name with the shape of one sample, in fp32; `integers`: names of those in int64."""

    def make(batch: int, device: str = "meta") -> dict[str, Tensor]:
        kinds = {name: torch.long if name in integers else torch.float32 for name in shapes}
        return {
            name: torch.zeros((batch, *shape), dtype=kinds[name], device=device)
            for name, shape in shapes.items()
        }

    return make


def token_inputs(seq_len: int, mask: Literal["none", "tokens", "square"] = "none") -> MakeInputs:
    """Token ids (batch, seq_len) int64, and a mask that hides nothing where a model needs one.

    mask  "tokens" (batch, seq_len) of ones | "square" (1, 1, seq_len, seq_len) of zeros to be added to scores
    """

    def make(batch: int, device: str = "meta") -> dict[str, Tensor]:
        inputs = {"input_ids": torch.zeros((batch, seq_len), dtype=torch.long, device=device)}
        if mask == "tokens":
            inputs["attention_mask"] = torch.ones((batch, seq_len), dtype=torch.long, device=device)
        if mask == "square":
            inputs["attention_mask"] = torch.zeros((1, 1, seq_len, seq_len), device=device)
        return inputs

    return make


def image_model(
    name: str,
    library: str,
    family: str,
    module: nn.Module,
    size: int,
    default_size: int,
    n_outputs: int,
    *,
    channels: int = 3,
    loss: Loss = classification_loss,
) -> BuiltModel:
    """A model of square images of `size` pixels a side."""
    inputs = zeros(x=(channels, size, size))
    return BuiltModel(
        name, library, family, module, "image_size", size, default_size, n_outputs, inputs, loss
    )
