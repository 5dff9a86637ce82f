"""Shapes of decoders (language models of the GPT or Llama kind), and the ways they are tuned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memory_service.domain.common.tables import shipped_table

Method = Literal["full", "lora", "qlora"]
Head = Literal["lm", "sequence"]
Targets = Literal["attention", "projections", "mlp", "all"]
Loss = Literal["plain", "shifted", "compiled", "in_place", "standing", "fused"]
Trainer = Literal["liger", "unsloth", "unsloth-2024", "offload"]

USUAL_RANK = 16

_TRAINED: dict[Targets, tuple[str, ...]] = {
    "attention": ("q", "v"), "projections": ("q", "k", "v", "o"), "mlp": ("gate", "up", "down"),
    "all": ("q", "k", "v", "o", "gate", "up", "down"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decoder:
    """Shape of a decoder.

    gated    SwiGLU or GeGLU (three products) in place of two; rms: RMSNorm in fp32, else LayerNorm
    norms    of a layer; qk_norm: queries and keys are normalised, too
    tied     the head of the language model is the embedding
    capped   scores are soft-capped (Gemma 2), which only unfused attention does
    resting  of a mixture of experts: summed width of the experts of a layer that a token does not visit.
             `intermediate` is that of those it visits: work follows it, weights follow both
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    gated: bool = True
    rms: bool = True
    norms: int = 2
    qk_norm: bool = False
    rotary: bool = True
    tied: bool = False
    capped: bool = False
    resting: int = 0

    @property
    def query(self) -> int:
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def linears(self) -> tuple[tuple[str, int, int], ...]:
        """(which, columns in, columns out) of the products of one layer."""
        up = ("gate", "up") if self.gated else ("up",)
        h = self.hidden
        return (
            ("q", h, self.query), ("k", h, self.key), ("v", h, self.key), ("o", self.query, h),
            *((name, h, self.intermediate) for name in up), ("down", self.intermediate, h),
        )  # fmt: skip

    @property
    def resting_params(self) -> int:
        """Of one layer: weights that a token passes by."""
        return (3 if self.gated else 2) * self.hidden * self.resting

    @property
    def linear_params(self) -> int:
        return self.layers * (sum(into * out for _, into, out in self.linears) + self.resting_params)

    @property
    def active_params(self) -> int:
        """Weights that a token goes through; `params` where there are no experts."""
        return self.params - self.layers * self.resting_params

    @property
    def params(self) -> int:
        """With the embedding and a head of the language model; biases and positions are left out."""
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        return self.linear_params + embeddings + (self.layers * self.norms + 1) * self.hidden


def usual_targets(decoder: Decoder) -> Targets:
    """What LoRA is put beside: every linear layer; of a mixture of experts the projections of attention, as
    peft and unsloth do unless told otherwise."""
    return "projections" if decoder.resting else "all"


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a decoder is tuned.

    rank, targets   of LoRA: on queries and values, on all projections of attention, on the gated layers, or
                    on every linear layer
    head            a language model's loss over all positions, or one vector of few outputs a text
    half_weights    of full tuning: weights, gradients and optimizer in half precision, no fp32 copy
    master          of full tuning: half-precision weights and gradients beside the fp32 ones
    accumulates     gradients of the batches before stand while a batch runs; under FSDP those of all weights
    eager           unfused attention
    loss            how a language model's loss is computed (`LOGIT_BYTES`)
    dropout         of LoRA: each tuned layer keeps its own dropped input and the mask
    adapters_single LoRA in fp32 beside half-precision weights, outside autocast: each layer's input is cast
    adapters_half   LoRA, its gradients and optimizer in half precision
    selective       checkpointing that keeps attention and every second product
    compiled        torch.compile of each layer: no single-precision copies for norms, one tensor less of a
                    gated layer
    double          QLoRA's scales are quantised, too
    litgpt          as litgpt builds it: adapters of q, k and v share one input, the head is never tied, and
                    quantised layers, the head among them, keep their inputs (bitsandbytes before 0.43)
    shards          cards over which weights, gradients and optimizer are spread (FSDP); 1 = not at all
    offloaded       what the layers keep for the backward pass waits in the host's memory, one layer apart
    gates_in_place  gradients of a gated layer overwrite what was kept of it (unsloth's kernels)
    """

    method: Method = "full"
    rank: int = USUAL_RANK
    targets: Targets = "all"
    checkpointing: bool = False
    head: Head = "sequence"
    half_weights: bool = False
    master: bool = False
    accumulates: bool = False
    eager: bool = False
    loss: Loss = "plain"
    dropout: bool = True
    adapters_single: bool = False
    adapters_half: bool = False
    selective: bool = False
    compiled: bool = False
    double: bool = True
    litgpt: bool = False
    shards: int = 1
    offloaded: bool = False
    gates_in_place: bool = False

    def trains(self, name: str) -> bool:
        """Whether the linear layer has trained weights beside it or in it."""
        return self.method == "full" or name in _TRAINED[self.targets]


_TABLE = shipped_table(__package__, "decoders.toml")
_KINDS: dict[str, dict[str, Any]] = _TABLE["kinds"]
TRAINERS: dict[Trainer | None, dict[str, Any]] = {None: {}, **_TABLE["trainers"]}
"""Trainers that save memory -> what they do otherwise."""


def decoder_of(config: Mapping[str, Any]) -> Decoder | None:
    """The shape of a catalogue row's `config`; None for what is no decoder of these kinds."""
    kind, figures = config.get("model_type"), config.get("figures", {})
    if kind not in _KINDS:
        return None

    def first(*names: str) -> int | None:
        return next((int(figures[name]) for name in names if figures.get(name)), None)

    hidden = first("hidden_size", "d_model", "n_embd", "dim") or 768
    heads = first("num_attention_heads", "n_head", "n_heads", "num_heads") or 12
    kv_heads = 1 if figures.get("multi_query") else first("num_key_value_heads") or heads
    experts = first("num_local_experts", "num_experts", "n_routed_experts") or 0
    width = first("moe_intermediate_size", "intermediate_size", "ffn_dim", "n_inner") or 4 * hidden
    visited = (first("num_experts_per_tok") or 1) if experts else 1
    shared = first("shared_expert_intermediate_size") or 0
    return Decoder(
        hidden=hidden,
        layers=first("num_hidden_layers", "n_layer", "n_layers", "num_layers") or 12,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=first("head_dim") or hidden // heads,
        intermediate=visited * width + shared,
        resting=max(0, experts - visited) * width,
        vocab=first("vocab_size") or 50_257,
        tied=bool(figures.get("tie_word_embeddings", kind in _TIED)),
        **_KINDS[kind],
    )


_TIED = {"gemma", "gemma2", "gemma3_text", "gpt2", "opt", "bloom", "mpt", "falcon"}
